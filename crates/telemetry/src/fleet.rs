//! What replicas are to each other, as the gauges show it: who lives, who leads, who goes on without the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use paceline_core::plan::StoreDown;

use paceline_core::units::Span;

use crate::series::{MAX_PROVIDERS, OTHER};

/// One scope, as far as the fleet goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFleet {
    /// The scope's provider.
    pub provider: Arc<str>,
    /// Whether this replica leads it.
    pub is_led: bool,
    /// Whether this replica decides it without the store.
    pub is_degraded: bool,
    /// Whether calls are denied then, all of them; else each replica grants its part.
    pub is_closed: bool,
}

/// A control that a person has said for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InOverride {
    /// The providers it selects; empty: any.
    pub provider: Arc<str>,
    /// The accounts it selects; empty: any.
    pub account: Arc<str>,
    /// Of which kind it is.
    pub kind: &'static str,
    /// Until it ends.
    pub ends_in: Span,
}

/// This replica in its fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// Every scope that somebody uses here.
    pub scopes: Vec<InFleet>,
    /// Replicas that share the state, this one included; zero: not known yet.
    pub replicas: u64,
    /// Whether the limits of others are followed, because their configuration is newer than ours.
    pub is_config_stale: bool,
    /// What people have said for a while.
    pub overrides: Vec<InOverride>,
}

/// By provider, account and kind: how many there are, and when the next one ends.
type Overrides = BTreeMap<(Arc<str>, Arc<str>, &'static str), (u64, Span)>;

impl Fleet {
    /// How many controls there are of each kind that select the same provider and account, and how soon the next of them ends.
    pub(crate) fn overrides(&self) -> Overrides {
        let mut found = BTreeMap::new();
        let any = |glob: &Arc<str>| if glob.is_empty() { Arc::from("*") } else { glob.clone() };
        for one in &self.overrides {
            let of = found.entry((any(&one.provider), any(&one.account), one.kind)).or_insert((0, one.ends_in));
            *of = (of.0 + 1, of.1.min(one.ends_in));
        }
        found
    }

    /// How many scopes this replica leads.
    pub(crate) fn led(&self) -> u64 {
        self.scopes.iter().map(|scope| u64::from(scope.is_led)).sum()
    }

    /// How many scopes of each provider are degraded under which policy, the first [`MAX_PROVIDERS`] by name; the rest as `other`.
    pub(crate) fn degraded(&self) -> BTreeMap<(Arc<str>, &'static str), u64> {
        let names: BTreeSet<&Arc<str>> = self.scopes.iter().map(|scope| &scope.provider).collect();
        let named: BTreeSet<&Arc<str>> = names.into_iter().take(MAX_PROVIDERS).collect();
        let mut sums = BTreeMap::new();
        for scope in &self.scopes {
            let provider = if named.contains(&scope.provider) { scope.provider.clone() } else { OTHER.into() };
            let policy = if scope.is_closed { StoreDown::Closed } else { StoreDown::Local };
            *sums.entry((provider, policy.name())).or_default() += u64::from(scope.is_degraded);
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_that_select_the_same_are_one_series() {
        let control = |provider: &str, kind, secs| InOverride {
            provider: Arc::from(provider),
            account: Arc::from(""),
            kind,
            ends_in: Span::from_secs(secs),
        };
        let overrides = vec![control("openai", "pause", 60), control("openai", "pause", 30), control("", "mode", 90)];
        let found = Fleet { overrides, ..Fleet::default() }.overrides();
        let found: Vec<_> =
            found.iter().map(|((provider, account, kind), told)| (&**provider, &**account, *kind, *told)).collect();
        assert_eq!(found, [("*", "*", "mode", (1, Span::from_secs(90))), ("openai", "*", "pause", (2, Span::from_secs(30)))]);
    }

    #[test]
    fn degraded_scopes_are_counted_by_provider_and_none_is_lost() {
        let scope = |n: usize| InFleet {
            provider: format!("p{n:03}").into(),
            is_led: n.is_multiple_of(2),
            is_degraded: true,
            is_closed: n == 1,
        };
        let fleet = Fleet { scopes: (0..100).chain(0..1).map(scope).collect(), ..Fleet::default() };
        let counted = fleet.degraded();
        assert_eq!((counted.len(), counted.values().sum::<u64>()), (MAX_PROVIDERS + 1, 101));
        let of = |provider: &str, policy| counted.get(&(provider.into(), policy)).copied();
        assert_eq!((of("p000", "local"), of("p001", "closed"), of(OTHER, "local")), (Some(2), Some(1), Some(36)));
        assert_eq!(fleet.led(), 51);
    }
}
