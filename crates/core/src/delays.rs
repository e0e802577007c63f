//! Where waiting came from: named parts that add up to the whole wait (I-7).

use std::sync::Arc;

use crate::signal::Source;
use crate::units::{FleetTime, Span};

/// Why something waits: the source, and the bucket it is about (empty when it is about none).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The source.
    pub source: Source,
    /// The bucket's label, or empty.
    pub bucket: Arc<str>,
}

impl Cause {
    /// A cause about a bucket.
    pub fn new(source: Source, bucket: &Arc<str>) -> Self {
        Self { source, bucket: bucket.clone() }
    }

    /// A cause about no bucket.
    pub fn plain(source: Source) -> Self {
        Self { source, bucket: Arc::from("") }
    }
}

/// One named part of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayPart {
    /// Why.
    pub cause: Cause,
    /// How long.
    pub length: Span,
}

/// What else would have held the call up, and for how long from its first look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerUp {
    /// Why.
    pub cause: Cause,
    /// From then.
    pub free_in: Span,
}

/// Adds a part, merging it with one of the same cause; parts of no length are dropped.
pub fn add(parts: &mut Vec<DelayPart>, cause: &Cause, length: Span) {
    if length <= Span::ZERO {
        return;
    }
    match parts.iter_mut().find(|part| part.cause == *cause) {
        Some(part) => part.length += length,
        None => parts.push(DelayPart { cause: cause.clone(), length }),
    }
}

/// The sum of the parts.
pub fn total(parts: &[DelayPart]) -> Span {
    parts.iter().fold(Span::ZERO, |sum, part| sum + part.length)
}

/// The part that governed: the longest, jitter aside unless there is nothing else.
pub fn governing(parts: &[DelayPart]) -> Option<&DelayPart> {
    parts.iter().max_by_key(|part| (part.cause.source != Source::Jitter, part.length))
}

/// A lane's clock by cause: instead of charging each waiting call at every step, the lane keeps running totals, and a call
/// compares them at its arrival and departure.
#[derive(Clone, Debug)]
pub struct Ledger {
    totals: Vec<DelayPart>,
    since: FleetTime,
    current: Cause,
}

/// The totals at one instant.
#[derive(Clone, Debug, Default)]
pub struct Snapshot(Vec<Span>);

impl Ledger {
    /// A ledger that starts at `now`.
    pub fn new(now: FleetTime) -> Self {
        Self { totals: Vec::new(), since: now, current: Cause::plain(Source::Pacing) }
    }

    /// Charges the time since the last step to the cause that held.
    pub fn advance(&mut self, now: FleetTime) {
        let length = now.since(self.since);
        if length > Span::ZERO {
            add(&mut self.totals, &self.current.clone(), length);
            self.since = now;
        }
    }

    /// From now on this holds the lane up.
    pub fn set(&mut self, source: Source, bucket: &Arc<str>) {
        if self.current.source != source || self.current.bucket != *bucket {
            self.current = Cause::new(source, bucket);
        }
    }

    /// What holds the lane up.
    pub fn current(&self) -> &Cause {
        &self.current
    }

    /// The totals now; `advance` first.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.totals.iter().map(|part| part.length).collect())
    }

    /// What was added since the snapshot.
    pub fn since(&self, snapshot: &Snapshot) -> Vec<DelayPart> {
        let before = snapshot.0.iter().copied().chain(std::iter::repeat(Span::ZERO));
        self.totals
            .iter()
            .zip(before)
            .filter(|(part, before)| part.length > *before)
            .map(|(part, before)| DelayPart { cause: part.cause.clone(), length: part.length - before })
            .collect()
    }
}

/// A cause in words.
pub fn describe(cause: &Cause) -> String {
    let what = match cause.source {
        Source::None => "nothing",
        Source::Pacing => "its paced slot",
        Source::Bucket => "the bucket to refill",
        Source::RetryAfterSeconds | Source::RetryAfterDate | Source::RetryAfterMs => "the end of the provider's Retry-After",
        Source::ResetHeader => "the provider's reset",
        Source::ErrorBody => "the end of the wait named in the provider's error",
        Source::Backoff => "the end of our backoff after a refusal that named no wait",
        Source::Ramp => "the first answers, which tell the limit",
        Source::Concurrency => "a call in flight to end",
        Source::FairShare => "calls before it in another lane",
        Source::Jitter => "its jittered slot",
        Source::Store => "the store",
        Source::Paused => "a pause to end",
    };
    if cause.bucket.is_empty() { what.to_string() } else { format!("{what} ({})", cause.bucket) }
}
