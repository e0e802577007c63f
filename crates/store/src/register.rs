//! The trait that every store implements: a register per scope, with records beside it.

use std::collections::{BTreeSet, HashSet};
use std::future::Future;
use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use paceline_core::history::Hour;
use paceline_core::units::FleetTime;

use crate::codec::Header;
use crate::error::StoreError;
use crate::key::{RecordKey, ScopeKey};
use crate::replica::{Announcement, Replica};
use crate::tally::{Addition, Counters, Day, ScopeName};
use crate::token::TokenKeys;

/// Which value of a scope; zero: nothing is stored. It is the version in the value's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl Version {
    /// Nothing is stored (yet, or any more).
    pub const NONE: Self = Self(0);

    /// The version to write over this one at `now`: the microsecond, or one more than this one if that is later. So no
    /// version comes back, neither when a value gets lost and begins anew nor when an older one is restored and written over:
    /// a writer that missed that is told so instead of writing over what it never saw.
    pub fn next(self, now: FleetTime) -> Self {
        Self(u64::try_from(now.as_micros()).unwrap_or(0).max(self.0.saturating_add(1)))
    }
}

/// What a scope holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Its version; [`Version::NONE`] exactly when there is no value.
    pub version: Version,
    /// Its bytes: header and body (see [`crate::codec`]).
    pub value: Option<Bytes>,
    /// Whether it is sure that no record of the scope is stored. (Told by [`Store::load`] alone.)
    pub has_no_records: bool,
}

/// What a record write asks of what is stored under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing: it overwrites.
    Anything,
    /// That nothing is there, or that its life is over.
    Absent,
}

/// A record to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordWrite {
    /// Its key; a commit names each key once.
    pub key: RecordKey,
    /// Its bytes.
    pub value: Bytes,
    /// It counts until this instant, within [`crate::bounded`].
    pub keep_until: FleetTime,
    /// What must hold for the commit to happen.
    pub must_be: Expect,
}

/// One atomic step: all of it happens, or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The version that was read.
    pub expected: Version,
    /// The value to store; the version in its header must be above `expected` (see [`Version::next`]).
    pub value: Bytes,
    /// The value is kept until this instant, within [`crate::bounded`].
    pub keep_until: FleetTime,
    /// The records to write.
    pub records: Vec<RecordWrite>,
}

impl Commit {
    /// Checks what needs no look into the store, for stores to call first; returns the version it would write.
    ///
    /// # Errors
    /// [`StoreError::Invalid`]: a value without a header, a version that does not rise, a key that is written twice.
    pub fn check(&self) -> Result<Version, StoreError> {
        let invalid = |reason| Err(StoreError::Invalid { reason });
        let Ok(header) = Header::read(&self.value) else { return invalid("its value has no header") };
        if header.version <= self.expected {
            return invalid("the version in its value's header is not above the expected one");
        }
        let mut keys = HashSet::with_capacity(self.records.len());
        if !self.records.iter().all(|record| keys.insert(record.key)) {
            return invalid("it writes a record twice");
        }
        Ok(header.version)
    }
}

/// What became of a commit. On anything but `Done` nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It happened; the scope has this version now.
    Done(Version),
    /// Another value is there than the one that was read: decide again on this one.
    Stale(Loaded),
    /// Records that must be absent are there.
    RecordExists {
        /// All of them with their bytes, in the order of the commit; at least one.
        found: Vec<(RecordKey, Bytes)>,
    },
}

/// A register of scope values. All methods may be called from any task at any time; dropping a future leaves the store whole,
/// and a commit so dropped may or may not have happened.
pub trait Store: Send + Sync + 'static {
    /// Reads a scope's value.
    fn load(&self, scope: &ScopeKey) -> impl Future<Output = Result<Loaded, StoreError>> + Send;

    /// Reads records of a scope, in the order of `keys`; `None`: there is none, or its life is over.
    fn records(
        &self,
        scope: &ScopeKey,
        keys: &[RecordKey],
    ) -> impl Future<Output = Result<Vec<Option<Bytes>>, StoreError>> + Send;

    /// Checks the version, then the records, and then writes value and records: one atomic step.
    fn commit(&self, scope: &ScopeKey, commit: Commit) -> impl Future<Output = Result<Committed, StoreError>> + Send;

    /// Fleet time, as all users of this store see it; never goes back within a process.
    fn now(&self) -> FleetTime;

    /// The keys of lease and ticket tokens, the same for all users of this store. Ask again now and then: they rotate.
    fn token_keys(&self) -> impl Future<Output = Result<TokenKeys, StoreError>> + Send;

    /// Counts this replica among the live ones for [`crate::REPLICA_LIFE`]; returns all of them, this one included, by id.
    fn heartbeat(&self, me: &Announcement) -> impl Future<Output = Result<Vec<Replica>, StoreError>> + Send;

    /// Takes a replica out of the live ones at once: it stops.
    fn retire(&self, id: u32) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Whether a commit would be taken, as far as that does not depend on what it says: a server may answer what it is asked and
    /// refuse what it is told, because it is full or a right is missing. Changes nothing that anybody reads.
    fn try_writing(&self, scope: &ScopeKey) -> impl Future<Output = Result<(), StoreError>> + Send {
        // A store that takes all or fails as a whole.
        let _ = scope;
        std::future::ready(Ok(()))
    }

    /// Adds to the tallies of a scope, once however often it is called with the same addition. What is added to an hour that is kept no
    /// more is passed over. The default keeps none, for stores of tests; the conformance suite asks for them.
    fn add_tally(&self, scope: &ScopeKey, addition: Addition) -> impl Future<Output = Result<(), StoreError>> + Send {
        let _ = (scope, addition);
        std::future::ready(Ok(()))
    }

    /// What all replicas have added to these hours of a scope, by hour, those without anything left out. Each hour is kept for
    /// [`paceline_core::history::KEPT_HOURS`] after its end.
    fn tallies(
        &self,
        scope: &ScopeKey,
        hours: RangeInclusive<Hour>,
    ) -> impl Future<Output = Result<Vec<(Hour, Counters)>, StoreError>> + Send {
        let _ = (scope, hours);
        std::future::ready(Ok(Vec::new()))
    }

    /// Remembers that these scopes were counted on a day, as long as that day's tallies are kept.
    fn name_scopes(&self, day: Day, names: Vec<ScopeName>) -> impl Future<Output = Result<(), StoreError>> + Send {
        let _ = (day, names);
        std::future::ready(Ok(()))
    }

    /// The scopes that were counted on these days.
    fn named_scopes(&self, days: RangeInclusive<Day>) -> impl Future<Output = Result<BTreeSet<ScopeName>, StoreError>> + Send {
        let _ = days;
        std::future::ready(Ok(BTreeSet::new()))
    }

    /// `tell` is called whenever what is stored may not be what it was: the server was reached anew, and may be another one by
    /// now, or it has forgotten what all replicas share. Must be quick, and may be called more often than that.
    fn on_reached(&self, tell: OnReached) {
        // A store that never loses what it holds has nothing to tell.
        drop(tell);
    }
}

/// Who is told that what is stored may not be what it was.
pub type OnReached = Box<dyn Fn() + Send + Sync>;

impl<S: Store> Store for Arc<S> {
    fn load(&self, scope: &ScopeKey) -> impl Future<Output = Result<Loaded, StoreError>> + Send {
        S::load(self, scope)
    }

    fn records(
        &self,
        scope: &ScopeKey,
        keys: &[RecordKey],
    ) -> impl Future<Output = Result<Vec<Option<Bytes>>, StoreError>> + Send {
        S::records(self, scope, keys)
    }

    fn commit(&self, scope: &ScopeKey, commit: Commit) -> impl Future<Output = Result<Committed, StoreError>> + Send {
        S::commit(self, scope, commit)
    }

    fn now(&self) -> FleetTime {
        S::now(self)
    }

    fn token_keys(&self) -> impl Future<Output = Result<TokenKeys, StoreError>> + Send {
        S::token_keys(self)
    }

    fn heartbeat(&self, me: &Announcement) -> impl Future<Output = Result<Vec<Replica>, StoreError>> + Send {
        S::heartbeat(self, me)
    }

    fn retire(&self, id: u32) -> impl Future<Output = Result<(), StoreError>> + Send {
        S::retire(self, id)
    }

    fn try_writing(&self, scope: &ScopeKey) -> impl Future<Output = Result<(), StoreError>> + Send {
        S::try_writing(self, scope)
    }

    fn add_tally(&self, scope: &ScopeKey, addition: Addition) -> impl Future<Output = Result<(), StoreError>> + Send {
        S::add_tally(self, scope, addition)
    }

    fn tallies(
        &self,
        scope: &ScopeKey,
        hours: RangeInclusive<Hour>,
    ) -> impl Future<Output = Result<Vec<(Hour, Counters)>, StoreError>> + Send {
        S::tallies(self, scope, hours)
    }

    fn name_scopes(&self, day: Day, names: Vec<ScopeName>) -> impl Future<Output = Result<(), StoreError>> + Send {
        S::name_scopes(self, day, names)
    }

    fn named_scopes(&self, days: RangeInclusive<Day>) -> impl Future<Output = Result<BTreeSet<ScopeName>, StoreError>> + Send {
        S::named_scopes(self, days)
    }

    fn on_reached(&self, tell: OnReached) {
        S::on_reached(self, tell);
    }
}

#[cfg(test)]
mod tests {
    use paceline_core::units::Span;

    use super::*;

    #[test]
    fn versions_rise_and_never_come_back_after_a_loss() {
        let now = FleetTime::from_secs(1_800_000_000);
        let first = Version::NONE.next(now);
        assert_eq!(first, Version(1_800_000_000_000_000));
        assert_eq!(first.next(FleetTime::ZERO), Version(first.0 + 1));
        assert_eq!(first.next(now), Version(first.0 + 1), "two commits in one microsecond");
        let (lost, restored) = (first.next(now + Span::from_millis(5)), first.next(now + Span::from_millis(9)));
        assert!(restored > lost, "an older value is back and written over: {lost:?} must not come back");
        assert_eq!(Version::NONE.next(FleetTime::ZERO), Version(1), "zero means that nothing is stored");
        assert_eq!(Version::NONE.next(FleetTime::from_secs(-5)), Version(1));
    }
}
