//! Dividing the limit: each worker is given an equal part of it and keeps to that.

use paceline_core::signal::Source;
use paceline_core::units::{FleetTime, Span};
use paceline_provider_sim::{Answer, Call};
use rand_chacha::ChaCha8Rng;

use super::backoff::Backoff;
use super::{Pause, Strategy, told_wait};
use crate::scenario::Scenario;

/// One worker's own buckets.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    buckets: Vec<Bucket>,
    guess: Backoff,
}

#[derive(Clone, Debug)]
struct Bucket {
    meter: String,
    /// May be below zero: a call that costs more than a worker's part is paid off afterwards.
    level: f64,
    capacity: f64,
    per_second: f64,
    at: Option<FleetTime>,
}

impl Split {
    /// The part of one worker; all start full.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let workers = scenario.workers().max(1) as f64;
        let buckets = scenario.limits().map(|limit| {
            let capacity = limit.units as f64 / workers;
            let per_second = capacity / limit.per.as_secs_f64();
            Bucket { meter: limit.meter.to_string(), level: capacity, capacity, per_second, at: None }
        });
        Self { buckets: buckets.collect(), guess: Backoff::jittered() }
    }
}

impl Strategy for Split {
    fn before(&mut self, call: &Call, now: FleetTime, _: &mut ChaCha8Rng) -> Pause {
        let mut wait = 0.0_f64;
        for bucket in &mut self.buckets {
            let cost = call.cost.of(&bucket.meter) as f64;
            let passed = bucket.at.map_or(0.0, |at| (now - at).as_secs_f64());
            bucket.level = (bucket.level + passed * bucket.per_second).min(bucket.capacity);
            bucket.at = Some(now);
            // What costs more than the bucket holds goes when it is full.
            let needed = cost.min(bucket.capacity) - bucket.level;
            wait = wait.max(needed / bucket.per_second);
            bucket.level -= cost;
        }
        Pause::new(Source::Bucket, Span::from_secs_f64(wait.max(0.0)).unwrap_or(Span::ZERO))
    }

    fn refused(&mut self, answer: &Answer, nth: u32, now: FleetTime, rng: &mut ChaCha8Rng) -> Option<Pause> {
        told_wait(answer).or_else(|| self.guess.refused(answer, nth, now, rng))
    }
}
