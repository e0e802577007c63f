//! What runs and who waits, per scope: written by the actor at each step, read when somebody scrapes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use paceline_core::plan::Class;
use paceline_core::units::{FleetTime, Span};
use paceline_telemetry::{InGroup, Load};

use crate::bucket_gauges::BucketGauges;
use crate::scope::Scope;

/// The figures of one scope, by class. Plain atomics: each is right by itself, and a scrape needs no more.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    classes: [ClassGauges; 3],
    /// How many organisations the answers of the account have named.
    organisations: AtomicU64,
    is_degraded: AtomicBool,
    /// Whether every group in use denies its calls while the store is away.
    is_closed: AtomicBool,
    is_config_stale: AtomicBool,
    /// How many scopes of this replica are degraded, so that asking is free while none is.
    all_degraded: Arc<AtomicU64>,
    pub(crate) buckets: BucketGauges,
    pub(crate) breakers: BreakerGauges,
}

/// The groups whose breaker is open, or was since this replica has had the scope.
#[derive(Debug, Default)]
pub(crate) struct BreakerGauges {
    is_any: AtomicBool,
    open: Mutex<BTreeMap<Arc<str>, bool>>,
}

impl BreakerGauges {
    fn write(&self, scope: &Scope) {
        let groups = &scope.value().groups;
        // Nearly always nothing to do.
        if !self.is_any.load(Ordering::Relaxed) && !groups.iter().any(|group| group.breaker.is_open()) {
            return;
        }
        self.is_any.store(true, Ordering::Relaxed);
        let mut known = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        known.values_mut().for_each(|is_open| *is_open = false);
        for group in groups.iter().filter(|group| group.breaker.is_open()) {
            known.insert(group.key.clone(), true);
        }
    }

    pub(crate) fn read(&self, provider: &Arc<str>, account: &Arc<str>) -> Vec<InGroup> {
        let known = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let row = |(model, is_open): (&Arc<str>, &bool)| InGroup {
            provider: provider.clone(),
            account: account.clone(),
            model: model.clone(),
            is_breaker_open: *is_open,
        };
        known.iter().map(row).collect()
    }
}

#[derive(Debug, Default)]
struct ClassGauges {
    in_flight: AtomicU64,
    queued: AtomicU64,
    /// When the longest waiting call came, in microseconds; zero: nobody waits.
    oldest_since: AtomicI64,
}

impl Drop for Gauges {
    fn drop(&mut self) {
        let _ = self.set_degraded(false);
    }
}

impl Gauges {
    pub(crate) fn new(all_degraded: Arc<AtomicU64>) -> Self {
        let mut gauges = Self::default();
        gauges.all_degraded = all_degraded;
        gauges
    }

    /// Whether this replica decides the scope without the store. True when it is the first one, or was the last one: what all
    /// scopes meet together is told once.
    pub(crate) fn set_degraded(&self, is_degraded: bool) -> bool {
        match (self.is_degraded.swap(is_degraded, Ordering::Relaxed), is_degraded) {
            (false, true) => self.all_degraded.fetch_add(1, Ordering::Relaxed) == 0,
            (true, false) => self.all_degraded.fetch_sub(1, Ordering::Relaxed) == 1,
            _ => false,
        }
    }

    pub(crate) fn is_degraded(&self) -> bool {
        self.is_degraded.load(Ordering::Relaxed)
    }

    pub(crate) fn write(&self, scope: &Scope, now: FleetTime) {
        let mut queued = [0_u64; 3];
        let mut oldest = [None; 3];
        for (key, lane) in scope.queue().lanes() {
            if let (Some(count), Some(since)) = (queued.get_mut(key.class.index()), oldest.get_mut(key.class.index())) {
                *count += u64::try_from(lane.depth()).unwrap_or(u64::MAX);
                *since = match (*since, lane.oldest()) {
                    (Some(a), Some(b)) => Some(FleetTime::min(a, b)),
                    (a, b) => a.or(b),
                };
            }
        }
        self.is_closed.store(scope.is_closed_without_store(), Ordering::Relaxed);
        self.breakers.write(scope);
        self.is_config_stale.store(scope.value().keeps_limits, Ordering::Relaxed);
        self.organisations.store(scope.organisations(now), Ordering::Relaxed);
        let flights = scope.in_flight_by_class(now);
        self.buckets.write(scope, now);
        for (gauge, ((queued, oldest), flights)) in self.classes.iter().zip(queued.into_iter().zip(oldest).zip(flights)) {
            gauge.queued.store(queued, Ordering::Relaxed);
            gauge.oldest_since.store(oldest.map_or(0, FleetTime::as_micros), Ordering::Relaxed);
            gauge.in_flight.store(flights, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Whether the scope's limits come from a configuration that is not the one read here.
    pub(crate) fn is_config_stale(&self) -> bool {
        self.is_config_stale.load(Ordering::Relaxed)
    }

    /// How many organisations the answers of the account name.
    pub(crate) fn organisations(&self) -> u64 {
        self.organisations.load(Ordering::Relaxed)
    }

    /// Who waits here, and, where this replica `tells` what is shared, what runs.
    pub(crate) fn read(
        &self,
        provider: &Arc<str>,
        account: &Arc<str>,
        tells: bool,
        now: FleetTime,
    ) -> impl Iterator<Item = Load> {
        self.classes.iter().zip(Class::ALL).filter_map(move |(gauge, class)| {
            let oldest_since = gauge.oldest_since.load(Ordering::Relaxed);
            let load = Load {
                provider: provider.clone(),
                account: account.clone(),
                class,
                in_flight: tells.then(|| gauge.in_flight.load(Ordering::Relaxed)),
                queued: gauge.queued.load(Ordering::Relaxed),
                oldest_wait: if oldest_since == 0 { Span::ZERO } else { now.since(FleetTime::from_micros(oldest_since)) },
            };
            (load.in_flight.is_some_and(|calls| calls > 0) || load.queued > 0).then_some(load)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_degraded_scope_counts_once_and_no_more_when_it_is_gone() {
        let all: Arc<AtomicU64> = Arc::default();
        let (one, other) = (Gauges::new(all.clone()), Gauges::new(all.clone()));
        one.set_degraded(true);
        one.set_degraded(true);
        other.set_degraded(true);
        assert_eq!((all.load(Ordering::Relaxed), one.is_degraded()), (2, true));
        one.set_degraded(false);
        assert_eq!((all.load(Ordering::Relaxed), one.is_degraded()), (1, false));
        drop((one, other));
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }
}
