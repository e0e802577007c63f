//! One type for whichever store a service was told to use.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use paceline_core::history::Hour;
use paceline_core::units::FleetTime;

use crate::error::StoreError;
use crate::key::{RecordKey, ScopeKey};
use crate::memory::MemoryStore;
use crate::register::{Commit, Committed, Loaded, OnReached, Store};
use crate::replica::{Announcement, Replica};
use crate::tally::{Addition, Counters, Day, ScopeName};
use crate::token::TokenKeys;

/// A store that is chosen when the service starts. Clones are handles to the same store.
#[derive(Clone, Debug)]
pub enum AnyStore {
    /// In the memory of this process.
    Memory(Arc<MemoryStore>),
    /// At Redis or Valkey.
    #[cfg(feature = "redis")]
    Redis(Arc<crate::redis::RedisStore>),
}

impl AnyStore {
    /// An empty store in the memory of this process.
    pub fn memory() -> Self {
        Self::Memory(Arc::default())
    }

    /// Whether it ends with this process.
    pub fn is_in_memory(&self) -> bool {
        matches!(self, Self::Memory(_))
    }

    /// What people call it; no secrets.
    pub fn describe(&self) -> String {
        match self {
            Self::Memory(_) => "memory".to_owned(),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.url().to_string(),
        }
    }
}

impl Store for AnyStore {
    async fn load(&self, scope: &ScopeKey) -> Result<Loaded, StoreError> {
        match self {
            Self::Memory(store) => store.load(scope).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.load(scope).await,
        }
    }

    async fn records(&self, scope: &ScopeKey, keys: &[RecordKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        match self {
            Self::Memory(store) => store.records(scope, keys).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.records(scope, keys).await,
        }
    }

    async fn commit(&self, scope: &ScopeKey, commit: Commit) -> Result<Committed, StoreError> {
        match self {
            Self::Memory(store) => store.commit(scope, commit).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.commit(scope, commit).await,
        }
    }

    async fn try_writing(&self, scope: &ScopeKey) -> Result<(), StoreError> {
        match self {
            Self::Memory(store) => store.try_writing(scope).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.try_writing(scope).await,
        }
    }

    fn now(&self) -> FleetTime {
        match self {
            Self::Memory(store) => store.now(),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.now(),
        }
    }

    async fn token_keys(&self) -> Result<TokenKeys, StoreError> {
        match self {
            Self::Memory(store) => store.token_keys().await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.token_keys().await,
        }
    }

    async fn heartbeat(&self, me: &Announcement) -> Result<Vec<Replica>, StoreError> {
        match self {
            Self::Memory(store) => store.heartbeat(me).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.heartbeat(me).await,
        }
    }

    async fn retire(&self, id: u32) -> Result<(), StoreError> {
        match self {
            Self::Memory(store) => store.retire(id).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.retire(id).await,
        }
    }

    async fn add_tally(&self, scope: &ScopeKey, addition: Addition) -> Result<(), StoreError> {
        match self {
            Self::Memory(store) => store.add_tally(scope, addition).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.add_tally(scope, addition).await,
        }
    }

    async fn tallies(&self, scope: &ScopeKey, hours: RangeInclusive<Hour>) -> Result<Vec<(Hour, Counters)>, StoreError> {
        match self {
            Self::Memory(store) => store.tallies(scope, hours).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.tallies(scope, hours).await,
        }
    }

    async fn name_scopes(&self, day: Day, names: Vec<ScopeName>) -> Result<(), StoreError> {
        match self {
            Self::Memory(store) => store.name_scopes(day, names).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.name_scopes(day, names).await,
        }
    }

    async fn named_scopes(&self, days: RangeInclusive<Day>) -> Result<BTreeSet<ScopeName>, StoreError> {
        match self {
            Self::Memory(store) => store.named_scopes(days).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.named_scopes(days).await,
        }
    }

    fn on_reached(&self, tell: OnReached) {
        match self {
            Self::Memory(store) => store.on_reached(tell),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.on_reached(tell),
        }
    }
}
