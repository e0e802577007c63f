//! What is counted by tenant: what each uses, and how long its calls wait.

use std::sync::OnceLock;

use opentelemetry::KeyValue;
use opentelemetry::metrics::BoundCounter;
use paceline_core::plan::Class;

use crate::instruments::Instruments;
use crate::labels::{AcquireOutcome, Units, UnitsKind};
use crate::series::{Bounded, Budget, MAX_METERS_PER_SCOPE, MAX_TENANTS_PER_SCOPE, OTHER, label};

/// One counter of units per kind.
type ByKind = [BoundCounter<u64>; UnitsKind::ALL.len()];

/// The units of one (provider, account, model), by tenant.
#[derive(Debug)]
pub(crate) struct UnitsOfTenants {
    named: Bounded<Box<str>, UnitsOfTenant>,
    /// The first tenant comes with the scope; later ones are paid for, each with its meters.
    first: OnceLock<(Box<str>, UnitsOfTenant)>,
    others: OnceLock<UnitsOfTenant>,
}

impl Default for UnitsOfTenants {
    fn default() -> Self {
        Self { named: Bounded::new(MAX_TENANTS_PER_SCOPE - 1), first: OnceLock::new(), others: OnceLock::new() }
    }
}

impl UnitsOfTenants {
    pub(crate) fn add(&self, instruments: &Instruments, base: &[KeyValue; 3], budget: &Budget, units: &Units<'_>) {
        let add = |of: &UnitsOfTenant| of.add(instruments, base, units);
        let make = |name: &str| UnitsOfTenant::new(name);
        let (first, of_first) = self.first.get_or_init(|| (units.tenant.into(), make(units.tenant)));
        if &**first == units.tenant {
            return add(of_first);
        }
        // Nearly all calls have a count and tokens.
        let cost = 2 * UnitsKind::ALL.len();
        let named = || (units.tenant.into(), make(units.tenant));
        if self.named.with_paid(units.tenant, (budget, cost), named, add).is_none() {
            add(self.others.get_or_init(|| make(OTHER)));
        }
    }
}

/// The units of one tenant, by meter.
#[derive(Debug)]
struct UnitsOfTenant {
    tenant: KeyValue,
    meters: Bounded<Box<str>, ByKind>,
    others: OnceLock<ByKind>,
}

impl UnitsOfTenant {
    fn new(tenant: &str) -> Self {
        Self { tenant: label("tenant", tenant), meters: Bounded::new(MAX_METERS_PER_SCOPE), others: OnceLock::new() }
    }

    fn add(&self, instruments: &Instruments, base: &[KeyValue; 3], units: &Units<'_>) {
        // All kinds of a meter at once: the first overrun must show as a rise.
        let bind = |meter: &str| {
            UnitsKind::ALL.map(|kind| {
                let more = [label("meter", meter), self.tenant.clone(), label("kind", kind.name())];
                let labels: Vec<KeyValue> = base.iter().cloned().chain(more).collect();
                instruments.units.bind(&labels)
            })
        };
        let add = |[first, retry, overrun]: &ByKind| {
            (if units.is_retry { retry } else { first }).add(units.used);
            overrun.add(units.overrun);
        };
        if self.meters.with(units.meter, || (units.meter.into(), bind(units.meter)), add).is_none() {
            add(self.others.get_or_init(|| bind(OTHER)));
        }
    }
}

/// How the asks of one tenant at one provider are answered.
#[derive(Debug)]
pub(crate) struct TenantSeries {
    base: [KeyValue; 2],
    waits: [OnceLock<BoundCounter<f64>>; Class::ALL.len()],
    answers: [[OnceLock<BoundCounter<u64>>; AcquireOutcome::ALL.len()]; Class::ALL.len()],
}

impl TenantSeries {
    pub(crate) fn new(provider: &str, tenant: &str) -> Self {
        let base = [label("provider", provider), label("tenant", tenant)];
        Self { base, waits: Default::default(), answers: Default::default() }
    }

    /// Counts an answer; `waited`: seconds in all, where the wait is over.
    pub(crate) fn answered(&self, instruments: &Instruments, class: Class, outcome: AcquireOutcome, waited: Option<f64>) {
        let of_class = || self.base.iter().cloned().chain([label("priority", class.name())]);
        if let Some(series) = self.answers.get(class.index()).and_then(|of_class| of_class.get(outcome as usize)) {
            let labels = || of_class().chain([label("outcome", outcome.name())]).collect::<Vec<_>>();
            series.get_or_init(|| instruments.tenant_acquires.bind(&labels())).add(1);
        }
        if let (Some(series), Some(waited)) = (self.waits.get(class.index()), waited) {
            series.get_or_init(|| instruments.tenant_wait_seconds.bind(&of_class().collect::<Vec<_>>())).add(waited);
        }
    }
}
