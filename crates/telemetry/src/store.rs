//! The store as its users see it: how long it takes, what goes wrong, and whether its clock was set.

use crate::catalogue::{Kind, Metric, SeriesBound};
use crate::series::label;
use crate::telemetry::Telemetry;

/// Upper bounds in seconds: from a round trip within one machine to the longest that is waited.
const BOUNDS_SECONDS: [f64; 11] = [0.000_25, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 1.0];

/// How long the store takes.
pub(crate) const STORE_SECONDS: Metric = Metric {
    name: "paceline_store_seconds",
    kind: Kind::Histogram { bounds: &BOUNDS_SECONDS },
    unit: "s",
    labels: &["op"],
    help: "Time from a request to Redis to its answer, whatever the answer; requests without one are errors.",
    question: "Is Redis fast?",
    series: SeriesBound::InAll(4),
};

/// What goes wrong with the store.
pub(crate) const STORE_ERRORS: Metric = Metric {
    name: "paceline_store_errors_total",
    kind: Kind::Counter,
    unit: "{error}",
    labels: &["kind"],
    help: "Requests to Redis that failed and connections that could not be opened, by what was wrong.",
    question: "Is Redis well, and if not, what is it?",
    series: SeriesBound::InAll(16),
};

/// Steps of the store's clock.
pub(crate) const CLOCK_STEPS: Metric = Metric {
    name: "paceline_clock_steps_total",
    kind: Kind::Counter,
    unit: "{step}",
    labels: &[],
    help: "Times that Redis' clock was found set by more than a second, as when another server took over; fleet time went on without a step.",
    question: "Do the clocks of the Redis servers agree?",
    series: SeriesBound::InAll(1),
};

impl Telemetry {
    /// Records a request that the store answered. `op` is one of few words.
    pub fn store_answered(&self, op: &'static str, seconds: f64) {
        self.instruments().store_seconds.record(seconds, &[label("op", op)]);
    }

    /// Counts things that went wrong at the store; zero shows the series. `kind` is one of few words.
    pub fn store_failed(&self, kind: &'static str, times: u64) {
        self.instruments().store_errors.add(times, &[label("kind", kind)]);
    }

    /// Counts steps of the store's clock; zero shows the series.
    pub fn clock_stepped(&self, times: u64) {
        self.instruments().clock_steps.add(times, &[]);
    }
}
