//! Every metric, once: what instruments are built from, what the reference is generated from, what dashboards are
//! checked against.

mod calls;
mod labels;
mod process;
mod provider;
mod service;
mod shadow;

pub use self::calls::*;
pub use self::labels::LABELS;
pub use self::process::*;
pub use self::provider::*;
pub use self::service::*;
pub use self::shadow::*;
pub(crate) use crate::series::Across;
use crate::series::MAX_PROVIDERS;
use crate::store::{CLOCK_STEPS, STORE_ERRORS, STORE_SECONDS};

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only grows; ask for its rate.
    Counter,
    /// Goes up and down; what the values of several replicas make together.
    Gauge(Across),
    /// Counts by size, with these upper bounds in the metric's unit and one more bucket above them.
    Histogram {
        /// Upper bounds, ascending, inclusive.
        bounds: &'static [f64],
    },
}

impl Kind {
    /// Prometheus' name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge(_) => "gauge",
            Self::Histogram { .. } => "histogram",
        }
    }
}

/// How many series a metric can have at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesBound {
    /// So many in all.
    InAll(usize),
    /// So many for each provider; providers beyond the 64th are summed as `other`.
    PerProvider(usize),
    /// So many for each of the first `max_scopes` (provider, account, model), and as many for `other`.
    PerScope(usize),
    /// So many for each of the `max_scopes` busiest (provider, account), and as many for `other`.
    PerAccount(usize),
}

impl SeriesBound {
    /// The bound as a number, under a setting of `max_scopes`.
    pub const fn most(self, max_scopes: usize) -> usize {
        match self {
            Self::InAll(most) => most,
            Self::PerProvider(each) => each * (MAX_PROVIDERS + 1),
            Self::PerScope(each) | Self::PerAccount(each) => each * (max_scopes + 1),
        }
    }
}

/// One metric as it is exposed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// The exposed name, with the unit and `_total` where Prometheus wants them.
    pub name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// The unit in UCUM (`s`, or what is counted in braces: `{ask}`); empty for parts of a whole and for facts that are always 1.
    pub unit: &'static str,
    /// Its labels; what they mean: [`LABELS`].
    pub labels: &'static [&'static str],
    /// What it counts: the text after `# HELP`.
    pub help: &'static str,
    /// The question one opens a dashboard with.
    pub question: &'static str,
    /// How many series it can have at most.
    pub series: SeriesBound,
}

/// Bounds of waits in seconds: from 1 ms by factors of two, the last at 4 h. A quantile read from them is at most a factor
/// of two too high, and waits beyond 4 h are seen as such.
pub const WAIT_BOUNDS_SECONDS: [f64; 25] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384, 32.768, 65.536,
    131.072, 262.144, 524.288, 1048.576, 2097.152, 4194.304, 8388.608, 14400.0,
];

/// Every metric, in the order of the reference.
pub const CATALOGUE: [&Metric; 57] = [
    &DELAY_SECONDS,
    &WAIT_SECONDS,
    &OLDEST_WAIT_SECONDS,
    &QUEUE_DEPTH,
    &INFLIGHT,
    &ACQUIRES,
    &REPORTS,
    &SIGNALS,
    &UNREAD_HEADERS,
    &UNITS,
    &TENANT_WAIT_SECONDS,
    &TENANT_ACQUIRES,
    &LEASES_EXPIRED,
    &LATE_USES,
    &BUCKET_LEVEL,
    &BUCKET_LIMIT,
    &BUCKET_OBSERVED_REMAINING,
    &BUCKET_FOREIGN_DRAIN,
    &UTILIZATION,
    &QUOTA_EXHAUSTED_IN_SECONDS,
    &QUOTA_RESETS_IN_SECONDS,
    &BREAKER_OPEN,
    &LEARNED_LIMIT_FLAPS,
    &ACCOUNT_MIXED,
    &MODE,
    &SHADOW_ASKS,
    &SHADOW_WOULD_WAIT,
    &SHADOW_WAIT_SECONDS,
    &SHADOW_WOULD_DENY,
    &SHADOW_PREVENTED,
    &FORWARDED,
    &ORDER_LOST,
    &READY,
    &REPLICAS_LIVE,
    &SCOPES_LED,
    &DEGRADED,
    &OVERRIDE_ACTIVE,
    &OVERRIDE_ENDS_IN,
    &STORE_SECONDS,
    &STORE_ERRORS,
    &STORE_CONFLICTS,
    &CLOCK_STEPS,
    &STATE_REPAIRED,
    &STATE_MERGED,
    &CONFIG_RELOADS,
    &CONFIG_HASH_INFO,
    &CONFIG_STALE,
    &BUILD_INFO,
    &RPC_DURATION,
    &RUNTIME_WORKERS,
    &RUNTIME_BUSY,
    &RUNTIME_TASKS,
    &PROCESS_CPU,
    &PROCESS_MEMORY,
    &PROCESS_OPEN_FDS,
    &PROCESS_MAX_FDS,
    &PROCESS_START,
];
