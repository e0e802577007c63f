//! A store in the memory of one process: the same bytes and the same semantics as any other, for a single replica and for tests.
//!
//! There is no thread that cleans up: each commit takes a few things away whose life is over, so the work is spread as evenly
//! as the traffic; [`MemoryStore::sweep`] does all that is due at once.

mod due;
mod records;
mod shard;
mod tallies;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use paceline_core::history::Hour;
use paceline_core::units::{FleetTime, Span};

use self::shard::{Shard, Usage};
use self::tallies::Tallies;
use crate::error::StoreError;
use crate::key::{RecordKey, ScopeKey};
use crate::register::{Commit, Committed, Loaded, Store};
use crate::replica::{Announcement, Replica};
use crate::tally::{Addition, Counters, Day, ScopeName};
use crate::token::{ROTATE_AFTER, TokenKey, TokenKeys};

/// Tells fleet time; must never go back.
pub type Clock = Arc<dyn Fn() -> FleetTime + Send + Sync>;

/// Scopes are spread over this many locks, so that they seldom wait for each other.
const SHARDS: usize = 64;
/// What a store holds at most unless told otherwise.
const DEFAULT_LIMIT_BYTES: usize = 1 << 30;
/// Things looked at in passing by a commit, beside two for each record it writes: more than a commit can add.
const SWEPT_PER_COMMIT: usize = 16;

/// The store of one process.
pub struct MemoryStore {
    shards: Vec<Mutex<Shard>>,
    used: Arc<Usage>,
    limit_bytes: usize,
    clock: Clock,
    signing: Mutex<Signing>,
    replicas: Mutex<BTreeMap<u32, Replica>>,
    tallies: Mutex<Tallies>,
}

/// The token keys, and since when the current one signs.
struct Signing {
    keys: TokenKeys,
    since: FleetTime,
}

impl MemoryStore {
    /// An empty store whose fleet time is the system's at this moment, carried on by the monotonic clock.
    pub fn new() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (anchor, start) = (FleetTime::ZERO + Span::from(wall), Instant::now());
        Self::with_clock(Arc::new(move || anchor + Span::from(start.elapsed())))
    }

    /// An empty store that takes fleet time from `clock`.
    pub fn with_clock(clock: Clock) -> Self {
        let used = Arc::new(Usage::default());
        Self {
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::new(used.clone()))).collect(),
            used,
            limit_bytes: DEFAULT_LIMIT_BYTES,
            signing: Mutex::new(Signing { keys: TokenKeys::new(TokenKey::random()), since: clock() }),
            replicas: Mutex::default(),
            tallies: Mutex::default(),
            clock,
        }
    }

    /// The same store with another limit (1 GiB unless told): commits that would need more memory fail with
    /// [`StoreError::Full`]. Nothing is thrown out early to make room: a lost floor would send calls to a provider that asked
    /// for none.
    #[must_use]
    pub fn with_limit_bytes(self, limit_bytes: usize) -> Self {
        Self { limit_bytes, ..self }
    }

    /// About how much memory its contents take, in bytes.
    pub fn used_bytes(&self) -> usize {
        self.used.bytes()
    }

    /// Takes away all whose life and generation are over at `now`; returns how many values and records that were.
    pub fn sweep(&self, now: FleetTime) -> usize {
        self.shards.iter().map(|shard| lock(shard).sweep(now, usize::MAX)).sum()
    }

    #[expect(clippy::indexing_slicing, reason = "a remainder of the division by the number of shards")]
    fn shard(&self, scope: &ScopeKey) -> MutexGuard<'_, Shard> {
        let [first, ..] = scope.as_bytes();
        lock(&self.shards[usize::from(*first) % SHARDS])
    }

    fn make_room(&self, now: FleetTime, more_bytes: usize) -> Result<(), StoreError> {
        let has_room = || self.used_bytes().saturating_add(more_bytes) <= self.limit_bytes;
        if has_room() {
            return Ok(());
        }
        self.sweep(now);
        if has_room() { Ok(()) } else { Err(StoreError::Full { limit_bytes: self.limit_bytes }) }
    }
}

impl Store for MemoryStore {
    async fn load(&self, scope: &ScopeKey) -> Result<Loaded, StoreError> {
        let now = self.now();
        Ok(self.shard(scope).load(now, scope))
    }

    async fn records(&self, scope: &ScopeKey, keys: &[RecordKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let now = self.now();
        Ok(self.shard(scope).records(now, scope, keys))
    }

    async fn commit(&self, scope: &ScopeKey, commit: Commit) -> Result<Committed, StoreError> {
        let version = commit.check()?;
        let now = self.now();
        self.make_room(now, shard::size_of(&commit))?;
        let mut shard = self.shard(scope);
        shard.sweep(now, SWEPT_PER_COMMIT.saturating_add(2 * commit.records.len()));
        Ok(shard.commit(now, scope, version, commit))
    }

    fn now(&self) -> FleetTime {
        (self.clock)()
    }

    async fn token_keys(&self) -> Result<TokenKeys, StoreError> {
        let now = self.now();
        let mut signing = lock(&self.signing);
        if now.since(signing.since) >= ROTATE_AFTER {
            signing.keys.rotate();
            signing.since = now;
        }
        Ok(signing.keys.clone())
    }

    async fn heartbeat(&self, me: &Announcement) -> Result<Vec<Replica>, StoreError> {
        let now = self.now();
        let mut replicas = lock(&self.replicas);
        replicas.insert(me.id, Replica { announced: me.clone(), seen: now });
        replicas.retain(|_, replica| replica.lives(now));
        Ok(replicas.values().cloned().collect())
    }

    async fn retire(&self, id: u32) -> Result<(), StoreError> {
        lock(&self.replicas).remove(&id);
        Ok(())
    }

    async fn add_tally(&self, scope: &ScopeKey, addition: Addition) -> Result<(), StoreError> {
        let now = self.now();
        self.make_room(now, tallies::size_of(&addition))?;
        lock(&self.tallies).add(scope, addition, now, &self.used);
        Ok(())
    }

    async fn tallies(&self, scope: &ScopeKey, hours: RangeInclusive<Hour>) -> Result<Vec<(Hour, Counters)>, StoreError> {
        Ok(lock(&self.tallies).read(scope, hours, self.now()))
    }

    async fn name_scopes(&self, day: Day, names: Vec<ScopeName>) -> Result<(), StoreError> {
        let now = self.now();
        lock(&self.tallies).name(day, names, now);
        Ok(())
    }

    async fn named_scopes(&self, days: RangeInclusive<Day>) -> Result<BTreeSet<ScopeName>, StoreError> {
        Ok(lock(&self.tallies).names(days, self.now()))
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryStore({} of {} bytes)", self.used_bytes(), self.limit_bytes)
    }
}

/// Locks; what a panicked holder left is whole, since no step between two writes of ours can panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
