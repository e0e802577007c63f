//! What is counted while a fleet runs: shared by all workers, read by the live view.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::outcome::Done;

/// The counters of one run.
#[derive(Debug)]
pub(super) struct Tally {
    started: Instant,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    done: Vec<Done>,
    waiting: BTreeMap<&'static str, u32>,
    delays: BTreeMap<&'static str, Duration>,
    refused: Duration,
}

/// What was counted.
#[derive(Debug)]
pub(super) struct Counted {
    /// Every call that went through.
    pub(super) done: Vec<Done>,
    /// Time spent waiting, summed over the fleet, by source.
    pub(super) delays: BTreeMap<&'static str, Duration>,
    /// Time spent in calls that the provider refused, summed over the fleet.
    pub(super) refused: Duration,
}

impl Tally {
    /// From now on.
    pub(super) fn start() -> Self {
        Self { started: Instant::now(), inner: Mutex::default() }
    }

    /// The time since the start.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// A call went through.
    pub(super) fn finish(&self, done: Done) {
        self.lock().done.push(done);
    }

    /// Time that a call spent waiting.
    pub(super) fn waited(&self, source: &'static str, length: Duration) {
        *self.lock().delays.entry(source).or_default() += length;
    }

    /// Time that a call spent being refused.
    pub(super) fn was_refused(&self, length: Duration) {
        self.lock().refused += length;
    }

    /// A worker waits, for this reason, until the guard is dropped.
    pub(super) fn waiting(&self, reason: &'static str) -> Waiting<'_> {
        *self.lock().waiting.entry(reason).or_default() += 1;
        Waiting { tally: self, reason }
    }

    /// Calls that went through.
    pub(super) fn finished(&self) -> usize {
        self.lock().done.len()
    }

    /// How many workers wait, and for what most of them do.
    pub(super) fn who_waits(&self) -> (u32, &'static str) {
        let inner = self.lock();
        let most = inner.waiting.iter().filter(|(_, count)| **count > 0).max_by_key(|(_, count)| **count);
        (inner.waiting.values().sum(), most.map_or("", |(reason, _)| *reason))
    }

    /// Everything that was counted, which it forgets.
    pub(super) fn take(&self) -> Counted {
        let inner = std::mem::take(&mut *self.lock());
        Counted { done: inner.done, delays: inner.delays, refused: inner.refused }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic elsewhere leaves counts at worst one call behind.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker that waits.
#[derive(Debug)]
pub(super) struct Waiting<'a> {
    tally: &'a Tally,
    reason: &'static str,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.tally.lock().waiting.get_mut(self.reason) {
            *count = count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_counted_by_reason_while_they_last() {
        let tally = Tally::start();
        assert_eq!(tally.who_waits(), (0, ""));
        let first = tally.waiting("backoff");
        let second = tally.waiting("retry_after_ms");
        let third = tally.waiting("retry_after_ms");
        assert_eq!(tally.who_waits(), (3, "retry_after_ms"));
        drop((second, third));
        assert_eq!(tally.who_waits(), (1, "backoff"));
        drop(first);
        tally.waited("backoff", Duration::from_millis(5));
        tally.waited("backoff", Duration::from_millis(6));
        tally.was_refused(Duration::from_millis(7));
        let counted = tally.take();
        assert!(counted.done.is_empty() && counted.refused == Duration::from_millis(7));
        assert_eq!(counted.delays, BTreeMap::from([("backoff", Duration::from_millis(11))]));
    }
}
