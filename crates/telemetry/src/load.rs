//! What is read at the moment of a scrape: who waits, what runs, which configuration is in force.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use paceline_core::mode::Modes;
use paceline_core::plan::Class;
use paceline_core::units::Span;

use crate::buckets::{self, InBucket};
use crate::fleet::Fleet;
use crate::process::Runtime;
use crate::series::OTHER;

/// What one class of one scope has in hand at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The scope's provider.
    pub provider: Arc<str>,
    /// The scope's account.
    pub account: Arc<str>,
    /// The class of the calls.
    pub class: Class,
    /// Calls granted and not yet ended, of the whole fleet; `None`: another replica tells.
    pub in_flight: Option<u64>,
    /// Calls waiting on this replica.
    pub queued: u64,
    /// Age of the oldest of those; zero when nobody waits.
    pub oldest_wait: Span,
}

/// What is done with the calls of one scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InMode {
    /// The scope's provider.
    pub provider: Arc<str>,
    /// The scope's account.
    pub account: Arc<str>,
    /// Which part of its calls is in which mode.
    pub modes: Modes,
    /// How many organisations the answers of the account have named lately; `None`: another replica tells.
    pub organisations: Option<u64>,
}

/// One group of a scope, where there is something to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InGroup {
    /// The scope's provider.
    pub provider: Arc<str>,
    /// The scope's account.
    pub account: Arc<str>,
    /// The group's key.
    pub model: Arc<str>,
    /// Whether its service is taken to be away, so that only probes go.
    pub is_breaker_open: bool,
}

type Source<T> = Arc<dyn Fn() -> Vec<T> + Send + Sync>;

/// What the gauges read.
pub(crate) struct Observed {
    max_scopes: usize,
    source: RwLock<Option<Source<Load>>>,
    modes: RwLock<Option<Source<InMode>>>,
    buckets: RwLock<Option<Source<InBucket>>>,
    groups: RwLock<Option<Source<InGroup>>>,
    ready: RwLock<Option<Arc<dyn Fn() -> bool + Send + Sync>>>,
    runtime: RwLock<Option<Arc<dyn Fn() -> Runtime + Send + Sync>>>,
    fleet: RwLock<Option<Arc<dyn Fn() -> Fleet + Send + Sync>>>,
    config_hash: RwLock<Option<Arc<str>>>,
}

impl Observed {
    pub(crate) fn new(max_scopes: usize) -> Self {
        Self {
            max_scopes,
            source: RwLock::new(None),
            modes: RwLock::new(None),
            buckets: RwLock::new(None),
            groups: RwLock::new(None),
            ready: RwLock::new(None),
            runtime: RwLock::new(None),
            fleet: RwLock::new(None),
            config_hash: RwLock::new(None),
        }
    }

    pub(crate) fn set_source(&self, source: Source<Load>) {
        *self.source.write().unwrap_or_else(PoisonError::into_inner) = Some(source);
    }

    pub(crate) fn set_modes(&self, source: Source<InMode>) {
        *self.modes.write().unwrap_or_else(PoisonError::into_inner) = Some(source);
    }

    pub(crate) fn set_buckets(&self, source: Source<InBucket>) {
        *self.buckets.write().unwrap_or_else(PoisonError::into_inner) = Some(source);
    }

    pub(crate) fn set_groups(&self, source: Source<InGroup>) {
        *self.groups.write().unwrap_or_else(PoisonError::into_inner) = Some(source);
    }

    pub(crate) fn set_ready(&self, source: Arc<dyn Fn() -> bool + Send + Sync>) {
        *self.ready.write().unwrap_or_else(PoisonError::into_inner) = Some(source);
    }

    pub(crate) fn set_runtime(&self, source: Arc<dyn Fn() -> Runtime + Send + Sync>) {
        *self.runtime.write().unwrap_or_else(PoisonError::into_inner) = Some(source);
    }

    /// The runtime now, if anybody tells.
    pub(crate) fn runtime(&self) -> Option<Runtime> {
        let source = self.runtime.read().unwrap_or_else(PoisonError::into_inner).clone();
        source.map(|source| source())
    }

    /// Whether calls are taken, if anybody tells.
    pub(crate) fn is_ready(&self) -> Option<bool> {
        let source = self.ready.read().unwrap_or_else(PoisonError::into_inner).clone();
        source.map(|source| source())
    }

    /// The groups now that have something to tell, the first `max_scopes` by name.
    pub(crate) fn groups(&self) -> Vec<InGroup> {
        let source = self.groups.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut rows = source.map(|source| source()).unwrap_or_default();
        // Those that are open come first: they are what one looks for.
        let name = |row: &InGroup| (!row.is_breaker_open, row.provider.clone(), row.account.clone(), row.model.clone());
        rows.sort_by_key(name);
        rows.truncate(self.max_scopes);
        rows
    }

    pub(crate) fn set_fleet(&self, source: Arc<dyn Fn() -> Fleet + Send + Sync>) {
        *self.fleet.write().unwrap_or_else(PoisonError::into_inner) = Some(source);
    }

    /// This replica in its fleet now, if anybody tells.
    pub(crate) fn fleet(&self) -> Option<Fleet> {
        let source = self.fleet.read().unwrap_or_else(PoisonError::into_inner).clone();
        source.map(|source| source())
    }

    /// The buckets now, as many as there are series for.
    pub(crate) fn buckets(&self) -> Vec<InBucket> {
        let source = self.buckets.read().unwrap_or_else(PoisonError::into_inner).clone();
        source.map(|source| buckets::bounded(source(), self.max_scopes)).unwrap_or_default()
    }

    /// What is done with calls now, for the first `max_scopes` scopes by name.
    pub(crate) fn modes(&self) -> Vec<InMode> {
        let source = self.modes.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut rows = source.map(|source| source()).unwrap_or_default();
        rows.sort_by(|a, b| (&a.provider, &a.account).cmp(&(&b.provider, &b.account)));
        rows.truncate(self.max_scopes);
        rows
    }

    pub(crate) fn set_config_hash(&self, hash: &str) {
        *self.config_hash.write().unwrap_or_else(PoisonError::into_inner) = Some(hash.into());
    }

    pub(crate) fn config_hash(&self) -> Option<Arc<str>> {
        self.config_hash.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The load now, for the busiest scopes, the rest summed. The lock is not held while the source runs.
    pub(crate) fn loads(&self) -> Vec<Load> {
        let source = self.source.read().unwrap_or_else(PoisonError::into_inner).clone();
        source.map(|source| busiest(source(), self.max_scopes)).unwrap_or_default()
    }
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("max_scopes", &self.max_scopes).finish_non_exhaustive()
    }
}

/// Sums per (provider, account, class); beyond `most` accounts the least busy become one `other`.
fn busiest(loads: Vec<Load>, most: usize) -> Vec<Load> {
    let mut accounts: BTreeMap<(Arc<str>, Arc<str>), (u64, u64)> = BTreeMap::new();
    for load in &loads {
        let (queued, in_flight) = accounts.entry((load.provider.clone(), load.account.clone())).or_default();
        *queued = queued.saturating_add(load.queued);
        *in_flight = in_flight.saturating_add(load.in_flight.unwrap_or(0));
    }
    let mut ranked: Vec<_> = accounts.into_iter().collect();
    // Stable: equally busy ones stay in the order of their names, so that series do not come and go at every scrape.
    ranked.sort_by_key(|(_, busy)| std::cmp::Reverse(*busy));
    let unnamed: std::collections::BTreeSet<_> = ranked.into_iter().skip(most).map(|(account, _)| account).collect();

    let other: Arc<str> = OTHER.into();
    let mut sums: BTreeMap<(Arc<str>, Arc<str>, Class), Load> = BTreeMap::new();
    for mut load in loads {
        if unnamed.contains(&(load.provider.clone(), load.account.clone())) {
            (load.provider, load.account) = (other.clone(), other.clone());
        }
        let key = (load.provider.clone(), load.account.clone(), load.class);
        match sums.get_mut(&key) {
            Some(sum) => {
                sum.in_flight = match (sum.in_flight, load.in_flight) {
                    (Some(sum), Some(more)) => Some(sum.saturating_add(more)),
                    (sum, more) => sum.or(more),
                };
                sum.queued = sum.queued.saturating_add(load.queued);
                sum.oldest_wait = sum.oldest_wait.max(load.oldest_wait);
            }
            None => {
                sums.insert(key, load);
            }
        }
    }
    sums.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(account: &str, class: Class, in_flight: u64, queued: u64, oldest_secs: i64) -> Load {
        let oldest_wait = Span::from_secs(oldest_secs);
        Load { provider: "openai".into(), account: account.into(), class, in_flight: Some(in_flight), queued, oldest_wait }
    }

    #[test]
    fn rows_of_one_class_are_summed_and_the_oldest_kept() {
        let rows = vec![load("prod", Class::Batch, 1, 2, 30), load("prod", Class::Batch, 3, 4, 10)];
        assert_eq!(busiest(rows, 200), vec![load("prod", Class::Batch, 4, 6, 30)]);
    }

    #[test]
    fn the_busiest_keep_their_names_and_nothing_is_lost() {
        let quiet = (0..300).map(|n| load(&format!("quiet-{n}"), Class::Normal, 1, 0, 0));
        let rows: Vec<_> = quiet.chain([load("stuck", Class::Normal, 0, 50, 900)]).collect();
        let shown = busiest(rows, 10);
        assert_eq!(shown.len(), 11);
        assert!(shown.contains(&load("stuck", Class::Normal, 0, 50, 900)));
        assert_eq!(shown.iter().filter_map(|row| row.in_flight).sum::<u64>(), 300);
        let other = shown.iter().find(|row| &*row.account == OTHER).map(|row| (&*row.provider, row.in_flight));
        assert_eq!(other, Some((OTHER, Some(291))));
    }
}
