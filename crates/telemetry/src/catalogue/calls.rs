//! Calls and their callers: who waits, for what, and who uses what.

use paceline_core::plan::Class;
use paceline_core::signal::Source;

use super::{Across, Kind, Metric, SeriesBound, WAIT_BOUNDS_SECONDS};
use crate::labels::{AcquireOutcome, UnitsKind};
use crate::series::{
    MAX_BUCKETS_PER_SCOPE, MAX_METERS_PER_SCOPE, MAX_PROVIDERS, MAX_REASONS_PER_SCOPE, MAX_TENANTS, MAX_TENANTS_PER_SCOPE,
};

/// Where waiting went.
pub const DELAY_SECONDS: Metric = Metric {
    name: "paceline_delay_seconds_total",
    kind: Kind::Counter,
    unit: "s",
    labels: &["provider", "account", "model", "source", "bucket"],
    help: "Time that calls waited, by what they waited for.",
    question: "Where did the fleet's waiting go?",
    series: SeriesBound::PerScope(Source::ALL.len() * (MAX_BUCKETS_PER_SCOPE + 1)),
};

/// How long callers wait.
pub const WAIT_SECONDS: Metric = Metric {
    name: "paceline_wait_seconds",
    kind: Kind::Histogram { bounds: &WAIT_BOUNDS_SECONDS },
    unit: "s",
    labels: &["provider", "priority", "outcome"],
    help: "Time from a call's first ask to its answer and, when granted, to its slot.",
    question: "How long do callers wait?",
    series: SeriesBound::PerProvider(Class::ALL.len() * AcquireOutcome::ALL.len()),
};

/// The longest wait now.
pub const OLDEST_WAIT_SECONDS: Metric = Metric {
    name: "paceline_oldest_wait_seconds",
    kind: Kind::Gauge(Across::Each),
    unit: "s",
    labels: &["provider", "account", "priority"],
    help: "Age of the call that has waited longest and waits still; 0 when nobody waits.",
    question: "Who is stuck now?",
    series: SeriesBound::PerAccount(Class::ALL.len()),
};

/// Calls waiting.
pub const QUEUE_DEPTH: Metric = Metric {
    name: "paceline_queue_depth",
    kind: Kind::Gauge(Across::Parts),
    unit: "{call}",
    labels: &["provider", "account", "priority"],
    help: "Calls waiting for a slot on this replica.",
    question: "Who waits now?",
    series: SeriesBound::PerAccount(Class::ALL.len()),
};

/// Calls in flight.
pub const INFLIGHT: Metric = Metric {
    name: "paceline_inflight",
    kind: Kind::Gauge(Across::Whole),
    unit: "{call}",
    labels: &["provider", "account", "priority"],
    help: "Calls granted and not yet reported as ended.",
    question: "How many calls are at the provider now?",
    series: SeriesBound::PerAccount(Class::ALL.len()),
};

/// How asks were answered.
pub const ACQUIRES: Metric = Metric {
    name: "paceline_acquires_total",
    kind: Kind::Counter,
    unit: "{ask}",
    labels: &["provider", "account", "model", "outcome", "reason"],
    help: "Asks for a slot, by answer and, when denied, by reason.",
    question: "Granted, queued, denied, and why?",
    series: SeriesBound::PerScope(MAX_REASONS_PER_SCOPE + 4),
};

/// Leases nobody reported.
pub const LEASES_EXPIRED: Metric = Metric {
    name: "paceline_leases_expired_total",
    kind: Kind::Counter,
    unit: "{lease}",
    labels: &["provider", "account", "model"],
    help: "Leases that ended because no report came in time.",
    question: "Do workers crash, or forget to report?",
    series: SeriesBound::PerScope(1),
};

/// Slots used too late.
pub const LATE_USES: Metric = Metric {
    name: "paceline_late_uses_total",
    kind: Kind::Counter,
    unit: "{call}",
    labels: &["provider", "account", "model"],
    help: "Slots whose caller came back after the time in which they could be used.",
    question: "Do workers oversleep their slots?",
    series: SeriesBound::PerScope(1),
};

/// What calls used.
pub const UNITS: Metric = Metric {
    name: "paceline_units_total",
    kind: Kind::Counter,
    unit: "{unit}",
    labels: &["provider", "account", "model", "meter", "tenant", "kind"],
    help: "Units that ended calls used, as reported or else as reserved, by meter; kind `overrun` is the part beyond the reservation.",
    question: "Who uses what, what do retries cost, and how often is more used than was reserved?",
    series: SeriesBound::PerScope((MAX_TENANTS_PER_SCOPE + 1) * (MAX_METERS_PER_SCOPE + 1) * UnitsKind::ALL.len()),
};

/// Places in line that could not be kept.
pub const ORDER_LOST: Metric = Metric {
    name: "paceline_order_lost_total",
    kind: Kind::Counter,
    unit: "{call}",
    labels: &["provider"],
    help: "Calls whose order among all could not be kept: decided here while another replica leads and does not answer, or with a ticket that cannot be read any more.",
    question: "Is anybody overtaken?",
    series: SeriesBound::PerProvider(1),
};

/// How long tenants wait.
pub const TENANT_WAIT_SECONDS: Metric = Metric {
    name: "paceline_tenant_wait_seconds_total",
    kind: Kind::Counter,
    unit: "s",
    labels: &["provider", "tenant", "priority"],
    help: "Time that calls of a tenant waited before they were granted or denied.",
    question: "Does one team wait longer than the others?",
    series: SeriesBound::InAll(TENANTS * Class::ALL.len()),
};

/// How asks of tenants were answered.
pub const TENANT_ACQUIRES: Metric = Metric {
    name: "paceline_tenant_acquires_total",
    kind: Kind::Counter,
    unit: "{ask}",
    labels: &["provider", "tenant", "priority", "outcome"],
    help: "Asks for a slot, by tenant and answer.",
    question: "Is one team denied while others are granted?",
    series: SeriesBound::InAll(TENANTS * Class::ALL.len() * AcquireOutcome::ALL.len()),
};

/// Those that are named, and `other` of each provider.
const TENANTS: usize = MAX_TENANTS + MAX_PROVIDERS + 1;
