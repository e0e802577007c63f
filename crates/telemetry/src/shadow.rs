//! What is counted of calls that are only watched.

use opentelemetry::KeyValue;
use opentelemetry::metrics::BoundCounter;

use crate::instruments::Instruments;
use crate::series::{Bounded, MAX_REASONS_PER_SCOPE, OTHER, label};

/// The shadow series of one (provider, account, model).
#[derive(Debug)]
pub(crate) struct ShadowSeries {
    base: [KeyValue; 3],
    asks: BoundCounter<u64>,
    would_wait: BoundCounter<u64>,
    wait_seconds: BoundCounter<f64>,
    would_deny: Bounded<&'static str, BoundCounter<u64>>,
    pub(crate) prevented: BoundCounter<u64>,
}

impl ShadowSeries {
    pub(crate) fn new(instruments: &Instruments, base: &[KeyValue; 3]) -> Self {
        Self {
            base: base.clone(),
            asks: instruments.shadow_asks.bind(base),
            would_wait: instruments.shadow_would_wait.bind(base),
            wait_seconds: instruments.shadow_wait_seconds.bind(base),
            would_deny: Bounded::new(MAX_REASONS_PER_SCOPE),
            prevented: instruments.shadow_prevented.bind(base),
        }
    }

    /// One call that would have waited so long.
    pub(crate) fn ask(&self, wait_seconds: f64) {
        self.asks.add(1);
        if wait_seconds > 0.0 {
            self.would_wait.add(1);
            self.wait_seconds.add(wait_seconds);
        }
    }

    /// One call that would have been denied.
    pub(crate) fn denied(&self, instruments: &Instruments, reason: &'static str) {
        let attributes =
            |reason: &'static str| -> Vec<KeyValue> { self.base.iter().cloned().chain([label("reason", reason)]).collect() };
        let make = || (reason, instruments.shadow_would_deny.bind(&attributes(reason)));
        if self.would_deny.with(&reason, make, |counter| counter.add(1)).is_none() {
            instruments.shadow_would_deny.add(1, &attributes(OTHER));
        }
    }
}
