//! Providers: what they answer, how big their limits are, and what is left of them.

use paceline_core::signal::Source;

use super::{Across, Kind, Metric, SeriesBound};
use crate::series::{MAX_BUCKETS_PER_SCOPE, MAX_HEADERS, MAX_PROVIDERS, MAX_REPORTS_PER_PROVIDER};

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

/// How much of a limit is drawn.
pub const UTILIZATION: Metric = Metric {
    name: "paceline_utilization",
    kind: Kind::Gauge(Across::Whole),
    unit: "",
    labels: &["provider", "account", "model", "bucket"],
    help: "The part of our limit that is drawn, 1 for all: granted in the last minute of what a minute brings; of a window longer than a minute, what was granted in it; of calls in flight, those that are.",
    question: "Do we get what we pay for?",
    series: SeriesBound::PerScope(MAX_BUCKETS_PER_SCOPE),
};

/// When a long quota will be gone.
pub const QUOTA_EXHAUSTED_IN_SECONDS: Metric = Metric {
    name: "paceline_quota_exhausted_in_seconds",
    kind: Kind::Gauge(Across::Whole),
    unit: "s",
    labels: &["provider", "account", "model", "bucket"],
    help: "Time until a quota of a day or longer is gone if it is used on as in the last hour, by others too; absent where nothing was used, or the use was watched for less than five minutes.",
    question: "When will the day's quota be gone?",
    series: SeriesBound::PerScope(MAX_BUCKETS_PER_SCOPE),
};

/// When a long quota comes back.
pub const QUOTA_RESETS_IN_SECONDS: Metric = Metric {
    name: "paceline_quota_resets_in_seconds",
    kind: Kind::Gauge(Across::Whole),
    unit: "s",
    labels: &["provider", "account", "model", "bucket"],
    help: "Time until a quota of a day or longer comes back.",
    question: "Does the day's quota last until it comes back?",
    series: SeriesBound::PerScope(MAX_BUCKETS_PER_SCOPE),
};

/// Services that are away.
pub const BREAKER_OPEN: Metric = Metric {
    name: "paceline_breaker_open",
    kind: Kind::Gauge(Across::Whole),
    unit: "",
    labels: &["provider", "account", "model"],
    help: "1 while a group's service is taken to be away and only probes go; 0 since it is back; absent where it was not away of late.",
    question: "Is it the provider that is down?",
    series: SeriesBound::PerScope(1),
};
