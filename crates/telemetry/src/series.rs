//! Bounded sets of pre-bound series: whatever names come in, memory and `/metrics` stay bounded.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{BoundCounter, BoundHistogram};
use paceline_core::plan::Class;
use paceline_core::signal::Source;

use crate::instruments::Instruments;
use crate::labels::{AcquireOutcome, ReportOutcome, Units};
use crate::shadow::ShadowSeries;
use crate::tenants::{TenantSeries, UnitsOfTenants};

/// Providers with series of their own; later ones are summed as `other`.
pub(crate) const MAX_PROVIDERS: usize = 64;
/// Buckets of one scope with series of their own.
pub(crate) const MAX_BUCKETS_PER_SCOPE: usize = 8;
/// Meters of one scope with series of their own.
pub(crate) const MAX_METERS_PER_SCOPE: usize = 8;
/// (outcome, reason) pairs of one scope.
pub(crate) const MAX_REASONS_PER_SCOPE: usize = 32;
/// (outcome, status, verdict) triples of one provider.
pub(crate) const MAX_REPORTS_PER_PROVIDER: usize = 128;
/// Tenants of one scope with series of their own.
pub(crate) const MAX_TENANTS_PER_SCOPE: usize = 8;
/// Pairs of a provider and a tenant with series of their own.
pub(crate) const MAX_TENANTS: usize = 200;
/// So many series a named scope is taken to have: two meters, four reasons to wait, three kinds of answers and what is always there.
pub(crate) const SERIES_OF_A_SCOPE: usize = 16;
/// Header names over all providers.
pub(crate) const MAX_HEADERS: usize = 200;

/// What the values that several replicas tell of one gauge make together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Across {
    /// Each replica tells its own part: they are summed.
    Parts,
    /// Whoever tells it tells the whole, read from the shared state: the greatest is taken, a sum would count it twice.
    Whole,
    /// It is about the replica itself: the greatest or the least is asked for, never the sum.
    Each,
}

impl Across {
    /// The word for it in the machine-readable catalogue.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parts => "parts",
            Self::Whole => "whole",
            Self::Each => "each",
        }
    }
}

/// What everything beyond a bound is summed as.
pub(crate) const OTHER: &str = "other";

/// How many things may still get a name of their own, whoever asks first.
#[derive(Debug)]
pub(crate) struct Budget(AtomicUsize);

impl Budget {
    pub(crate) fn new(most: usize) -> Self {
        Self(AtomicUsize::new(most))
    }

    /// Takes `cost`, all of it or nothing.
    fn take(&self, cost: usize) -> bool {
        self.0.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(cost)).is_ok()
    }
}

/// A map that stops growing: beyond `most` keys the caller must fall back to a shared entry.
#[derive(Debug)]
pub(crate) struct Bounded<K, V> {
    most: usize,
    entries: RwLock<HashMap<K, V>>,
}

impl<K: Eq + Hash, V> Bounded<K, V> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, entries: RwLock::new(HashMap::new()) }
    }

    /// Uses the entry of a key, made first where it is missing; `None` when it is missing and the map is full.
    /// `used` runs under the map's lock, so that the common case costs no reference count.
    pub(crate) fn with<Q, R>(&self, key: &Q, make: impl FnOnce() -> (K, V), used: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.with_if(key, || true, make, used)
    }

    /// The same, where a new entry also has to be paid for.
    pub(crate) fn with_paid<Q, R>(
        &self,
        key: &Q,
        (budget, cost): (&Budget, usize),
        make: impl FnOnce() -> (K, V),
        used: impl FnOnce(&V) -> R,
    ) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.with_if(key, || budget.take(cost), make, used)
    }

    fn with_if<Q, R>(
        &self,
        key: &Q,
        may_come: impl FnOnce() -> bool,
        make: impl FnOnce() -> (K, V),
        used: impl FnOnce(&V) -> R,
    ) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        {
            let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(value) = entries.get(key) {
                return Some(used(value));
            }
            if entries.len() >= self.most {
                return None;
            }
        }
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have come first between the locks.
        if !entries.contains_key(key) {
            if entries.len() >= self.most || !may_come() {
                return None;
            }
            let (key, value) = make();
            entries.insert(key, value);
        }
        entries.get(key).map(used)
    }
}

/// The series of one (provider, account, model).
#[derive(Debug)]
pub(crate) struct ScopeSeries {
    base: [KeyValue; 3],
    acquires: Bounded<(AcquireOutcome, &'static str), BoundCounter<u64>>,
    delays: Bounded<Box<str>, BySource>,
    delays_of_others: BySource,
    units: UnitsOfTenants,
    leases_expired: OnceLock<BoundCounter<u64>>,
    pub(crate) late_uses: BoundCounter<u64>,
    pub(crate) learned_limit_flaps: BoundCounter<u64>,
    /// Made with the first call that is only watched.
    shadow: OnceLock<ShadowSeries>,
}

impl ScopeSeries {
    pub(crate) fn new(instruments: &Instruments, provider: &str, account: &str, model: &str) -> Self {
        let base = [label("provider", provider), label("account", account), label("model", model)];
        // Bound here and not at the first event: a counter that starts at 1 hides that event from `rate()`.
        let late_uses = instruments.late_uses.bind(&base);
        let learned_limit_flaps = instruments.learned_limit_flaps.bind(&base);
        let leases_expired = OnceLock::new();
        if model.is_empty() {
            // Leases are an account's, so that only there they can end.
            let _ = leases_expired.set(instruments.leases_expired.bind(&base));
        }
        Self {
            base,
            acquires: Bounded::new(MAX_REASONS_PER_SCOPE),
            delays: Bounded::new(MAX_BUCKETS_PER_SCOPE),
            delays_of_others: BySource::default(),
            units: UnitsOfTenants::default(),
            leases_expired,
            late_uses,
            learned_limit_flaps,
            shadow: OnceLock::new(),
        }
    }

    /// Counts leases that ended without a report.
    pub(crate) fn leases_expired(&self, instruments: &Instruments, count: u64) {
        self.leases_expired.get_or_init(|| instruments.leases_expired.bind(&self.base)).add(count);
    }

    pub(crate) fn shadow(&self, instruments: &Instruments) -> &ShadowSeries {
        self.shadow.get_or_init(|| ShadowSeries::new(instruments, &self.base))
    }

    pub(crate) fn acquire(&self, instruments: &Instruments, outcome: AcquireOutcome, reason: &'static str) {
        let attributes = |reason: &'static str| self.and([label("outcome", outcome.name()), label("reason", reason)]);
        let make = || ((outcome, reason), instruments.acquires.bind(&attributes(reason)));
        if self.acquires.with(&(outcome, reason), make, |counter| counter.add(1)).is_none() {
            instruments.acquires.add(1, &attributes(OTHER));
        }
    }

    pub(crate) fn delay(&self, instruments: &Instruments, source: Source, bucket: &str, seconds: f64) {
        let bind = |bucket: &str| {
            let labels = self.and([label("source", source.name()), label("bucket", bucket)]);
            instruments.delay_seconds.bind(&labels)
        };
        let add = |series: &BySource, bucket: &str| series.add(source, seconds, || bind(bucket));
        let known = self.delays.with(bucket, || (bucket.into(), BySource::default()), |series| add(series, bucket));
        if known.is_none() {
            add(&self.delays_of_others, OTHER);
        }
    }

    pub(crate) fn units(&self, instruments: &Instruments, budget: &Budget, units: &Units<'_>) {
        self.units.add(instruments, &self.base, budget, units);
    }

    fn and(&self, more: [KeyValue; 2]) -> Vec<KeyValue> {
        self.base.iter().cloned().chain(more).collect()
    }
}

/// One counter of seconds per source, each bound when it is first needed.
#[derive(Debug, Default)]
struct BySource([OnceLock<BoundCounter<f64>>; Source::ALL.len()]);

impl BySource {
    fn add(&self, source: Source, seconds: f64, bind: impl FnOnce() -> BoundCounter<f64>) {
        if let Some(series) = self.0.get(source as usize) {
            series.get_or_init(bind).add(seconds);
        }
    }
}

/// The series of one provider.
#[derive(Debug)]
pub(crate) struct ProviderSeries {
    name: Box<str>,
    tenants: Bounded<Box<str>, TenantSeries>,
    other_tenants: OnceLock<TenantSeries>,
    waits: [[OnceLock<BoundHistogram<f64>>; AcquireOutcome::ALL.len()]; Class::ALL.len()],
    reports: Bounded<(ReportOutcome, &'static str, &'static str), BoundCounter<u64>>,
    signals: [BoundCounter<u64>; Source::ALL.len()],
    pub(crate) order_lost: BoundCounter<u64>,
}

impl ProviderSeries {
    pub(crate) fn new(instruments: &Instruments, provider: &str) -> Self {
        // All of them at once: the first `none` must show as a rise.
        let signals =
            Source::ALL.map(|source| instruments.signals.bind(&[label("provider", provider), label("source", source.name())]));
        let order_lost = instruments.order_lost.bind(&[label("provider", provider)]);
        order_lost.add(0);
        let reports = Bounded::new(MAX_REPORTS_PER_PROVIDER);
        Self {
            name: provider.into(),
            tenants: Bounded::new(MAX_TENANTS),
            other_tenants: OnceLock::new(),
            waits: Default::default(),
            reports,
            signals,
            order_lost,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn wait(&self, instruments: &Instruments, class: Class, outcome: AcquireOutcome, seconds: f64) {
        let Some(series) = self.waits.get(class.index()).and_then(|of_class| of_class.get(outcome as usize)) else {
            return;
        };
        let bind = || {
            let labels = [label("provider", &self.name), label("priority", class.name()), label("outcome", outcome.name())];
            instruments.wait_seconds.bind(&labels)
        };
        series.get_or_init(bind).record(seconds);
    }

    /// An answered ask of a tenant; `waited`: in all, where the wait is over.
    pub(crate) fn tenant(
        &self,
        instruments: &Instruments,
        budget: &Budget,
        tenant: &str,
        (class, outcome): (Class, AcquireOutcome),
        waited: Option<f64>,
    ) {
        let make = |name: &str| TenantSeries::new(&self.name, name);
        let count = |series: &TenantSeries| series.answered(instruments, class, outcome, waited);
        if self.tenants.with_paid(tenant, (budget, 1), || (tenant.into(), make(tenant)), count).is_none() {
            count(self.other_tenants.get_or_init(|| make(OTHER)));
        }
    }

    pub(crate) fn report(
        &self,
        instruments: &Instruments,
        outcome: ReportOutcome,
        status: &'static str,
        verdict: &'static str,
    ) {
        let attributes = |status: &'static str| {
            [
                label("provider", &self.name),
                label("outcome", outcome.name()),
                label("status", status),
                label("verdict", verdict),
            ]
        };
        let key = (outcome, status, verdict);
        let make = || (key, instruments.reports.bind(&attributes(status)));
        if self.reports.with(&key, make, |counter| counter.add(1)).is_none() {
            instruments.reports.add(1, &attributes(OTHER));
        }
    }

    pub(crate) fn signal(&self, source: Source) {
        if let Some(counter) = self.signals.get(source as usize) {
            counter.add(1);
        }
    }
}

pub(crate) fn label(key: &'static str, value: &str) -> KeyValue {
    KeyValue::new(key, value.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Never more than the bound, the first ones always kept, the same key always the same entry.
        #[test]
        fn a_bounded_map_keeps_the_first_and_no_more(keys in prop::collection::vec(0_u8..40, 0..200), most in 0_usize..20) {
            let map = Bounded::new(most);
            let mut first: Vec<u8> = Vec::new();
            for key in keys {
                if !first.contains(&key) && first.len() < most {
                    first.push(key);
                }
                let seen = map.with(&key, || (key, u32::from(key) * 3), |value| *value);
                prop_assert_eq!(seen, first.contains(&key).then_some(u32::from(key) * 3));
            }
            prop_assert_eq!(map.entries.read().unwrap().len(), first.len());
        }
    }
}
