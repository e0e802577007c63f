//! Whether a replica is worth waiting for. Pure: time and chance are arguments.

use std::time::Duration;

use rand::{Rng, RngExt as _};
use tokio::time::Instant;

/// A replica that did not answer is tried again after about this long, by one call.
const PROBE_EVERY: Duration = Duration::from_millis(250);
/// One that is cut off from its store knows no more than others; it is left alone for this long.
const AVOIDED_FOR: Duration = Duration::from_secs(1);

/// What is known of a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Health {
    /// It answers, as far as is known.
    #[default]
    Up,
    /// It did not answer; one call at a time tries, not before this.
    Down { probe_at: Instant },
    /// It answers without its store; not before this again.
    Avoided { until: Instant },
}

impl Health {
    /// Whether a call goes there now. Where it is tried only now and then, this is the one that tries.
    pub(crate) fn takes<R: Rng + ?Sized>(&mut self, now: Instant, rng: &mut R) -> bool {
        match *self {
            Self::Up => true,
            Self::Down { probe_at } if now < probe_at => false,
            Self::Down { .. } => {
                self.failed(now, rng);
                true
            }
            Self::Avoided { until } => {
                if until <= now {
                    *self = Self::Up;
                }
                until <= now
            }
        }
    }

    /// Whether the last call did not get an answer.
    pub(crate) const fn is_down(&self) -> bool {
        matches!(self, Self::Down { .. })
    }

    /// It answered.
    pub(crate) fn answered(&mut self, is_degraded: bool, now: Instant) {
        *self = if is_degraded { Self::Avoided { until: now + AVOIDED_FOR } } else { Self::Up };
    }

    /// It did not answer, or broke off.
    pub(crate) fn failed<R: Rng + ?Sized>(&mut self, now: Instant, rng: &mut R) {
        let jitter = PROBE_EVERY / 5 * rng.random_range(0..=100) / 100;
        *self = Self::Down { probe_at: now + PROBE_EVERY - PROBE_EVERY / 10 + jitter };
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::*;

    #[test]
    fn one_call_tries_every_quarter_of_a_second_and_the_others_do_not_wait() {
        let (mut health, mut rng, start) = (Health::default(), StdRng::seed_from_u64(1), Instant::now());
        assert!(health.takes(start, &mut rng));
        health.failed(start, &mut rng);
        let at = |millis: u64| start + Duration::from_millis(millis);
        let tries = (1..=10_000).filter(|millis| health.takes(at(*millis), &mut rng)).count();
        assert!((36..=45).contains(&tries), "{tries} in ten seconds");
        health.answered(false, at(10_001));
        assert!(health.takes(at(10_001), &mut rng) && health.takes(at(10_001), &mut rng));
    }

    #[test]
    fn one_without_its_store_is_left_alone_for_a_second() {
        let (mut health, mut rng, start) = (Health::default(), StdRng::seed_from_u64(1), Instant::now());
        health.answered(true, start);
        assert!(!health.takes(start + Duration::from_millis(999), &mut rng));
        assert!(health.takes(start + Duration::from_secs(1), &mut rng));
        assert_eq!(health, Health::Up);
    }
}
