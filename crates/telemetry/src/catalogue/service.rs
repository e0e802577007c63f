//! The service and its fleet: replicas, stored state, configuration.

use super::{Across, Kind, Metric, SeriesBound};
use crate::labels::Forwarded;

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

/// Scopes decided without the store.
pub const DEGRADED: Metric = Metric {
    name: "paceline_degraded",
    kind: Kind::Gauge(Across::Each),
    unit: "{scope}",
    labels: &["provider", "policy"],
    help: "Scopes that this replica decides without the store: with its part of each limit (`local`), or by denying (`closed`), as configured.",
    question: "Is the store there for every scope?",
    series: SeriesBound::PerProvider(2),
};

/// Controls in force.
pub const OVERRIDE_ACTIVE: Metric = Metric {
    name: "paceline_override_active",
    kind: Kind::Gauge(Across::Each),
    unit: "{control}",
    labels: &["provider", "account", "kind"],
    help: "Controls that people have said for a while, by whom they select (`*`: any) and kind: `mode`, `pause` or `limit`.",
    question: "Has somebody switched something by hand?",
    series: SeriesBound::InAll(MOST_OVERRIDES),
};

/// When the next control ends.
pub const OVERRIDE_ENDS_IN: Metric = Metric {
    name: "paceline_override_ends_in_seconds",
    kind: Kind::Gauge(Across::Each),
    unit: "s",
    labels: &["provider", "account", "kind"],
    help: "Seconds until the next of these controls ends by itself.",
    question: "What is about to be as it was before?",
    series: SeriesBound::InAll(MOST_OVERRIDES),
};

/// A fleet has no more controls at a time.
const MOST_OVERRIDES: usize = paceline_core::controls::MOST_CONTROLS;

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

/// Whether calls are taken.
pub const READY: Metric = Metric {
    name: "paceline_ready",
    kind: Kind::Gauge(Across::Each),
    unit: "",
    labels: &[],
    help: "1 while this replica takes calls; 0 while it starts or lets its callers go, as /readyz says.",
    question: "How many replicas take calls?",
    series: SeriesBound::InAll(1),
};
