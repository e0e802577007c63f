//! Every metric, once: what instruments are built from, what the reference is generated from, what dashboards are
//! checked against.

use paceline_core::mode::Mode;
use paceline_core::plan::Class;
use paceline_core::signal::Source;

use crate::labels::{AcquireOutcome, Forwarded, UnitsKind};
use crate::series::{
    Across, MAX_BUCKETS_PER_SCOPE, MAX_HEADERS, MAX_METERS_PER_SCOPE, MAX_PROVIDERS, MAX_REASONS_PER_SCOPE,
    MAX_REPORTS_PER_PROVIDER,
};
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

/// What workers reported.
pub const REPORTS: Metric = Metric {
    name: "paceline_reports_total",
    kind: Kind::Counter,
    unit: "{report}",
    labels: &["provider", "outcome", "status", "verdict"],
    help: "Reports of calls, by what happened, the provider's status and what the worker was told to do.",
    question: "What did the provider say?",
    series: SeriesBound::PerProvider(2 * MAX_REPORTS_PER_PROVIDER),
};

/// Where waiting times were read.
pub const SIGNALS: Metric = Metric {
    name: "paceline_signals_total",
    kind: Kind::Counter,
    unit: "{answer}",
    labels: &["provider", "source"],
    help: "Answers that asked to wait, by where the length of the wait was read; none: nothing usable came.",
    question: "With what signal does the provider push back? A rise of `none` is the alarm.",
    series: SeriesBound::PerProvider(Source::ALL.len()),
};

/// Headers nobody reads.
pub const UNREAD_HEADERS: Metric = Metric {
    name: "paceline_unread_headers_total",
    kind: Kind::Counter,
    unit: "{header}",
    labels: &["provider", "header"],
    help: "Response headers that look like limits and that nothing reads.",
    question: "Does the provider say something that Paceline does not understand?",
    series: SeriesBound::InAll(MAX_HEADERS + MAX_PROVIDERS + 1),
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
    labels: &["provider", "account", "model", "meter", "kind"],
    help: "Units that ended calls used, as reported or else as reserved, by meter; kind `overrun` is the part beyond the reservation.",
    question: "Who uses what, what do retries cost, and how often is more used than was reserved?",
    series: SeriesBound::PerScope((MAX_METERS_PER_SCOPE + 1) * UnitsKind::ALL.len()),
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

/// Scopes decided without the store.
pub const DEGRADED: Metric = Metric {
    name: "paceline_degraded",
    kind: Kind::Gauge(Across::Each),
    unit: "{scope}",
    labels: &["provider"],
    help: "Scopes that this replica decides without the store: with its part of each limit, or not at all, as configured.",
    question: "Is the store there for every scope?",
    series: SeriesBound::PerProvider(1),
};

/// Replicas that live.
pub const REPLICAS_LIVE: Metric = Metric {
    name: "paceline_replicas_live",
    kind: Kind::Gauge(Across::Each),
    unit: "{replica}",
    labels: &[],
    help: "Replicas that share the state, this one included, as this one sees it.",
    question: "Does every replica see the others?",
    series: SeriesBound::InAll(1),
};

/// Scopes that a replica decides for all.
pub const SCOPES_LED: Metric = Metric {
    name: "paceline_scopes_led",
    kind: Kind::Gauge(Across::Parts),
    unit: "{scope}",
    labels: &[],
    help: "Scopes that this replica leads: the others send their calls on to it.",
    question: "Is the work spread over the replicas?",
    series: SeriesBound::InAll(1),
};

/// Configurations that differ.
pub const CONFIG_STALE: Metric = Metric {
    name: "paceline_config_stale",
    kind: Kind::Gauge(Across::Each),
    unit: "",
    labels: &[],
    help: "1 while this replica follows the limits of a newer configuration that it has not read itself; else 0.",
    question: "Has every replica got the newest configuration?",
    series: SeriesBound::InAll(1),
};

/// Calls sent on to the replica that leads.
pub const FORWARDED: Metric = Metric {
    name: "paceline_forwarded_total",
    kind: Kind::Counter,
    unit: "{call}",
    labels: &["outcome"],
    help: "Calls sent on to the replica that leads their scope, by what became of them; those without an answer are decided here.",
    question: "Do replicas answer each other?",
    series: SeriesBound::InAll(Forwarded::ALL.len()),
};

/// Swaps lost to another replica.
pub const STORE_CONFLICTS: Metric = Metric {
    name: "paceline_store_conflicts_total",
    kind: Kind::Counter,
    unit: "{commit}",
    labels: &[],
    help: "Commits refused because another replica had committed first; each is decided again.",
    question: "Do replicas fight over one scope?",
    series: SeriesBound::InAll(1),
};

/// Stored values out of bounds.
pub const STATE_REPAIRED: Metric = Metric {
    name: "paceline_state_repaired_total",
    kind: Kind::Counter,
    unit: "{bucket}",
    labels: &[],
    help: "Stored buckets with a value out of bounds that were set back to a cautious start.",
    question: "Is the stored state sound?",
    series: SeriesBound::InAll(1),
};

/// Stored values that were less than what replicas remember.
pub const STATE_MERGED: Metric = Metric {
    name: "paceline_state_merged_total",
    kind: Kind::Counter,
    unit: "{value}",
    labels: &["why"],
    help: "Stored values merged with what a replica remembered: `lost`, `rolled_back`, or `joined` when another replica had \
           found the loss before.",
    question: "Does the store lose what it was given?",
    series: SeriesBound::InAll(3),
};

/// Configurations read again.
pub const CONFIG_RELOADS: Metric = Metric {
    name: "paceline_config_reloads_total",
    kind: Kind::Counter,
    unit: "{reload}",
    labels: &["result"],
    help: "Changed configurations, by whether they were applied or refused as invalid.",
    question: "Is the newest configuration in force?",
    series: SeriesBound::InAll(2),
};

/// Which configuration runs.
pub const CONFIG_HASH_INFO: Metric = Metric {
    name: "paceline_config_hash_info",
    kind: Kind::Gauge(Across::Each),
    unit: "",
    labels: &["hash"],
    help: "Always 1; the hash of the configuration in force is the label.",
    question: "Do all replicas run the same configuration?",
    series: SeriesBound::InAll(1),
};

/// Which build runs.
pub const BUILD_INFO: Metric = Metric {
    name: "paceline_build_info",
    kind: Kind::Gauge(Across::Each),
    unit: "",
    labels: &["version"],
    help: "Always 1; the running version is the label.",
    question: "Which versions run?",
    series: SeriesBound::InAll(1),
};

/// Learned limits that swing.
pub const LEARNED_LIMIT_FLAPS: Metric = Metric {
    name: "paceline_learned_limit_flaps_total",
    kind: Kind::Counter,
    unit: "{change}",
    labels: &["provider", "account", "model"],
    help: "Learned limits that went back soon after a change.",
    question: "Does a limit swing, as when one account name stands for two keys?",
    series: SeriesBound::PerScope(1),
};

/// Calls that were only watched.
pub const SHADOW_ASKS: Metric = Metric {
    name: "paceline_shadow_asks_total",
    kind: Kind::Counter,
    unit: "{ask}",
    labels: &["provider", "account", "model"],
    help: "Asks in shadow mode: let through at once, whatever would have been decided.",
    question: "How many calls are only watched?",
    series: SeriesBound::PerScope(1),
};

/// Watched calls that would have waited.
pub const SHADOW_WOULD_WAIT: Metric = Metric {
    name: "paceline_shadow_would_wait_total",
    kind: Kind::Counter,
    unit: "{ask}",
    labels: &["provider", "account", "model"],
    help: "Asks in shadow mode that enforce would have made wait; further attempts that it would have made needless are not counted again.",
    question: "Is it safe to enforce: how many calls would wait?",
    series: SeriesBound::PerScope(1),
};

/// How long they would have waited.
pub const SHADOW_WAIT_SECONDS: Metric = Metric {
    name: "paceline_shadow_wait_seconds_total",
    kind: Kind::Counter,
    unit: "s",
    labels: &["provider", "account", "model"],
    help: "Time that calls in shadow mode would have waited.",
    question: "Is it safe to enforce: how long would calls wait?",
    series: SeriesBound::PerScope(1),
};

/// Watched calls that would have been denied.
pub const SHADOW_WOULD_DENY: Metric = Metric {
    name: "paceline_shadow_would_deny_total",
    kind: Kind::Counter,
    unit: "{ask}",
    labels: &["provider", "account", "model", "reason"],
    help: "Asks in shadow mode that enforce would have denied, by reason; needless attempts likewise.",
    question: "Is it safe to enforce: how many calls would be denied, and why?",
    series: SeriesBound::PerScope(MAX_REASONS_PER_SCOPE + 1),
};

/// Refusals that would not have happened.
pub const SHADOW_PREVENTED: Metric = Metric {
    name: "paceline_shadow_prevented_total",
    kind: Kind::Counter,
    unit: "{answer}",
    labels: &["provider", "account", "model"],
    help: "Calls in shadow mode that the provider refused and that enforce would not have sent then.",
    question: "What is there to gain: how many rejections would enforce prevent?",
    series: SeriesBound::PerScope(1),
};

/// What is done with calls.
pub const MODE: Metric = Metric {
    name: "paceline_mode",
    kind: Kind::Gauge(Across::Whole),
    unit: "",
    labels: &["provider", "account", "mode"],
    help: "The part of an account's calls, 0 to 1, that the configuration puts in this mode; groups and tenants may differ.",
    question: "What is switched: where are calls enforced, where only watched?",
    series: SeriesBound::PerAccount(Mode::ALL.len()),
};

/// How full buckets are.
pub const BUCKET_LEVEL: Metric = Metric {
    name: "paceline_bucket_level",
    kind: Kind::Gauge(Across::Whole),
    unit: "",
    labels: &["provider", "account", "model", "bucket"],
    help: "Units that a bucket holds now, as the service believes; negative: in debt. `model` is the group it belongs to.",
    question: "How full are the buckets?",
    series: SeriesBound::PerScope(MAX_BUCKETS_PER_SCOPE),
};

/// How big buckets are.
pub const BUCKET_LIMIT: Metric = Metric {
    name: "paceline_bucket_limit",
    kind: Kind::Gauge(Across::Whole),
    unit: "",
    labels: &["provider", "account", "model", "bucket", "kind"],
    help: "Units per window of a bucket: configured, learned from headers, and in force (our part of it).",
    question: "How big are the limits, and who says so?",
    series: SeriesBound::PerScope(3 * MAX_BUCKETS_PER_SCOPE),
};

/// What the provider said is left.
pub const BUCKET_OBSERVED_REMAINING: Metric = Metric {
    name: "paceline_bucket_observed_remaining",
    kind: Kind::Gauge(Across::Whole),
    unit: "",
    labels: &["provider", "account", "model", "bucket"],
    help: "Units that the provider last said are left in a bucket.",
    question: "What does the provider say is left?",
    series: SeriesBound::PerScope(MAX_BUCKETS_PER_SCOPE),
};

/// What others take.
pub const BUCKET_FOREIGN_DRAIN: Metric = Metric {
    name: "paceline_bucket_foreign_drain",
    kind: Kind::Gauge(Across::Whole),
    unit: "",
    labels: &["provider", "account", "model", "bucket"],
    help: "Units a minute that somebody else takes from a bucket of the same account, as answers show; 0: nobody.",
    question: "Who else drinks from our quota, and how much?",
    series: SeriesBound::PerScope(MAX_BUCKETS_PER_SCOPE),
};

/// One name for several quotas.
pub const ACCOUNT_MIXED: Metric = Metric {
    name: "paceline_account_mixed",
    kind: Kind::Gauge(Across::Whole),
    unit: "",
    labels: &["provider", "account"],
    help: "How many organisations the answers of one account have named in the last day, where there are several; else 0.",
    question: "Does one account name stand for two keys of different organisations?",
    series: SeriesBound::PerAccount(1),
};

/// Every metric, in the order of the reference.
pub const CATALOGUE: [&Metric; 39] = [
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
    &LEASES_EXPIRED,
    &LATE_USES,
    &BUCKET_LEVEL,
    &BUCKET_LIMIT,
    &BUCKET_OBSERVED_REMAINING,
    &BUCKET_FOREIGN_DRAIN,
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
    &REPLICAS_LIVE,
    &SCOPES_LED,
    &DEGRADED,
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
];

/// What each label means; `{sources}` in a text stands for the list of sources.
pub const LABELS: [(&str, &str); 20] = [
    ("account", "Whose quota: the name workers send, never a key."),
    (
        "bucket",
        "The bucket that governed: its meter, with its owner (`account/requests`) and window (`requests_day`); empty when no bucket did; `other` beyond eight of a scope.",
    ),
    ("hash", "Of the configuration in force."),
    ("header", "A header's name in lower case, never its value; `other` beyond 200 names."),
    (
        "kind",
        "Of units: `first` or `retry` by the attempt that used them; `overrun`: the part of either that its reservation did not cover. Of limits: `configured`, `learned`, `effective`. Of errors: what was wrong, `timeout`, `connection`, `read_only`, `loading`, `cluster_down`, `full`, `denied`, `corrupt`, `protocol`, `other`.",
    ),
    ("meter", "What is counted: `requests`, `tokens`, `images`, ...; `other` beyond eight of a scope."),
    ("mode", "What is done with a call: `enforce`, `shadow` or `off`."),
    ("op", "What was asked of Redis: `load` a value, `records` of calls, `commit`, or `meta`: time, token keys, replicas."),
    ("model", "What the provider meters apart: a model, a deployment, a resource; may be empty."),
    (
        "outcome",
        "Of an ask: `granted`, `queued`, `denied`, `cancelled` (the caller went away). Of a report: `response`, `running`, `timeout`, `connection_failed`, `abandoned`. Of a call sent on to another replica: `answered`, `unanswered` (not within 200 ms), `broken` (not reached, or the connection ended).",
    ),
    ("priority", "`interactive`, `normal` or `batch`."),
    ("provider", "A name from the catalogue or the configuration; `other` beyond 64 of them."),
    (
        "reason",
        "Why an ask was, or would be, denied (`deadline`, `over_honor_cap`, ...; in shadow mode also `already_exists`: a request_id used for two calls); empty when it was not.",
    ),
    ("result", "`applied`, or `refused`: the old configuration stays in force."),
    ("source", "Why a call waited, or where a wait was read: {sources}."),
    (
        "status",
        "The HTTP status where it is one in use, else its class (`4xx`); the name of a gRPC status; `other` for numbers that are neither; empty when the provider did not answer.",
    ),
    ("verdict", "What the worker was told: `done`, `retry`, `fail_over`, `give_up`; empty when the call goes on."),
    ("version", "Of this build."),
    ("le", "Of histograms only: the upper bound of a bucket."),
    ("why", "`lost`, `rolled_back`: an older value came back, or `joined`: another replica found out first."),
];
