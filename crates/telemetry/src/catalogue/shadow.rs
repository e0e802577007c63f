//! Modes: what is switched, and what enforce would have done.

use paceline_core::mode::Mode;

use super::{Across, Kind, Metric, SeriesBound};
use crate::series::MAX_REASONS_PER_SCOPE;

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
