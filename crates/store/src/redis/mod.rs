//! A store at Redis or Valkey: one server, a cluster, or behind sentinels.
//!
//! `docs/internals/store.md` has the layout, `docs/operating/redis.md` is for those who run it.

mod calls;
mod cell;
mod clock;
mod cluster;
mod connect;
mod endpoint;
mod errors;
mod fleet;
mod inspect;
mod journal;
mod keys;
mod lane;
mod link;
mod look;
mod meta;
mod reconnects;
mod ring;
mod routes;
mod script;
mod secret;
mod sentinel;
mod tallies;
mod url;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use paceline_core::history::Hour;
use paceline_core::units::FleetTime;
use tokio::sync::Notify;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use self::calls::Courier;
use self::connect::Access;
use self::fleet::Fleet;
use self::journal::Journal;
use self::keys::Keys;
use self::lane::{Common, Listeners};
pub use self::look::FirstLook;
use self::reconnects::Reconnects;
use self::routes::{Route, Routes};
use self::script::{CommitRequest, LoadRequest, RecordsRequest, TrialRequest};
pub use self::url::{RedisUrl, UrlError};
use crate::error::StoreError;
use crate::key::{RecordKey, ScopeKey};
use crate::observe::{Observer, Operation};
use crate::register::{Commit, Committed, Loaded, OnReached, Store};
use crate::replica::{Announcement, Replica};
use crate::tally::{Addition, Counters, Day, ScopeName};
use crate::token::TokenKeys;

/// A store at Redis or Valkey. It connects by itself, and again when a connection is lost; requests meanwhile fail at once.
pub struct RedisStore {
    url: RedisUrl,
    keys: Keys,
    courier: Arc<Courier>,
    fleet: Arc<Fleet>,
    tender: AbortHandle,
}

impl RedisStore {
    /// A store that begins to connect. Must be called within a tokio runtime.
    pub fn open(url: RedisUrl, observer: Arc<dyn Observer>) -> Self {
        let common = Arc::new(Common {
            access: Access::of(&url),
            reconnects: Reconnects::new(),
            observer,
            lost: Notify::new(),
            opened: Notify::new(),
            listeners: Listeners::default(),
            journal: Journal::default(),
        });
        let routes = Routes::new(&url, &common);
        let courier = Arc::new(Courier { routes, common, timeout: url.timeout });
        let keys = Keys::new(&url.prefix);
        let fleet = Arc::new(Fleet::new(courier.clone(), keys.meta()));
        let tender = tokio::spawn(fleet::tend(Arc::downgrade(&fleet))).abort_handle();
        Self { url, keys, courier, fleet, tender }
    }

    /// Its address, without secrets.
    pub fn url(&self) -> &RedisUrl {
        &self.url
    }

    /// Becomes true when the server has answered for the first time, and stays so.
    pub fn contact(&self) -> watch::Receiver<bool> {
        self.fleet.contact()
    }

    /// What whoever runs the server should know: settings under which it loses our state, in sentences. Empty when all is well,
    /// or when the server may not be asked.
    pub async fn warnings(&self) -> Vec<String> {
        let Some(link) = self.courier.routes.any_link() else { return Vec::new() };
        let settings = inspect::Settings::read(&link).await;
        settings.findings().iter().map(ToString::to_string).collect()
    }

    /// What is there, or nothing in place of what cannot be ours.
    async fn sound(&self, scope: &ScopeKey, loaded: Loaded) -> Result<Loaded, StoreError> {
        if !script::is_broken(&loaded) {
            return Ok(loaded);
        }
        self.courier.repair(Route::of(scope), &[self.keys.value(scope)]).await?;
        Ok(Loaded::default())
    }
}

impl Store for RedisStore {
    async fn load(&self, scope: &ScopeKey) -> Result<Loaded, StoreError> {
        let request = LoadRequest::new(&self.keys, scope, self.now());
        let loaded = self.courier.ask(Operation::Load, Route::of(scope), &request, |answer| request.read(answer)).await?;
        self.sound(scope, loaded).await
    }

    async fn records(&self, scope: &ScopeKey, keys: &[RecordKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let request = RecordsRequest::new(&self.keys, scope, keys, self.now());
        self.courier.ask(Operation::Records, Route::of(scope), &request, |answer| request.read(answer)).await
    }

    async fn commit(&self, scope: &ScopeKey, commit: Commit) -> Result<Committed, StoreError> {
        let version = commit.check()?;
        let request = CommitRequest::new(&self.keys, scope, commit, version, self.now());
        let answer = self.courier.ask(Operation::Commit, Route::of(scope), &request, |answer| request.read(answer)).await?;
        match answer {
            Committed::Stale(loaded) => Ok(Committed::Stale(self.sound(scope, loaded).await?)),
            other => Ok(other),
        }
    }

    async fn try_writing(&self, scope: &ScopeKey) -> Result<(), StoreError> {
        let request = TrialRequest::new(&self.keys, scope);
        self.courier.ask(Operation::Commit, Route::of(scope), &request, |answer| request.read(answer)).await
    }

    fn now(&self) -> FleetTime {
        self.fleet.now()
    }

    async fn token_keys(&self) -> Result<TokenKeys, StoreError> {
        Ok(self.fleet.token_keys().await)
    }

    async fn heartbeat(&self, me: &Announcement) -> Result<Vec<Replica>, StoreError> {
        self.fleet.heartbeat(me).await
    }

    async fn retire(&self, id: u32) -> Result<(), StoreError> {
        self.fleet.retire(id).await
    }

    async fn add_tally(&self, scope: &ScopeKey, addition: Addition) -> Result<(), StoreError> {
        tallies::add(&self.courier, &self.keys, scope, addition, self.now()).await
    }

    async fn tallies(&self, scope: &ScopeKey, hours: RangeInclusive<Hour>) -> Result<Vec<(Hour, Counters)>, StoreError> {
        tallies::read(&self.courier, &self.keys, scope, hours, self.now()).await
    }

    async fn name_scopes(&self, day: Day, names: Vec<ScopeName>) -> Result<(), StoreError> {
        tallies::name(&self.courier, &self.keys, day, &names, self.now()).await
    }

    async fn named_scopes(&self, days: RangeInclusive<Day>) -> Result<BTreeSet<ScopeName>, StoreError> {
        tallies::names(&self.courier, &self.keys, days, self.now()).await
    }

    fn on_reached(&self, tell: OnReached) {
        self.courier.common.listeners.add(tell);
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        self.tender.abort();
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisStore({})", self.url)
    }
}
