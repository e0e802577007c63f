//! How often a process connects anew: enough to be back soon, too seldom to be a storm (RF13).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rand::RngExt as _;
use tokio::time::{Instant, sleep_until};

/// Between two connections in the long run.
const EVERY: Duration = Duration::from_micros(62_500);
/// So many may come at once; with [`EVERY`] there are never more than 20 within a second.
const AT_ONCE: u32 = 4;
/// The first wait after a failure is at most this, each further one twice as long.
const FIRST: Duration = Duration::from_millis(50);
/// No wait is longer.
const LONGEST: Duration = Duration::from_millis(400);

/// The connections of one process, spread in time.
#[derive(Debug)]
pub(super) struct Reconnects {
    /// When the next one would be due if they came evenly.
    next: Mutex<Instant>,
}

impl Reconnects {
    pub(super) fn new() -> Self {
        Self { next: Mutex::new(Instant::now()) }
    }

    /// Waits until one more connection may be opened.
    pub(super) async fn turn(&self) {
        let at = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            take(&mut next, Instant::now())
        };
        sleep_until(at).await;
    }
}

/// When the next connection may be opened.
fn take(next: &mut Instant, now: Instant) -> Instant {
    let due = (*next).max(now);
    *next = due + EVERY;
    due.checked_sub(EVERY * (AT_ONCE - 1)).map_or(now, |early| early.max(now))
}

/// How long to wait before the attempt after so many failures: full jitter, so that replicas do not come in step.
pub(super) fn pause(failures: u32) -> Duration {
    let longest = FIRST.saturating_mul(1 << failures.min(8)).min(LONGEST);
    if failures == 0 { Duration::ZERO } else { rand::rng().random_range(Duration::ZERO..=longest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_twenty_within_a_second() {
        let start = Instant::now();
        let mut next = start;
        let opened: Vec<Instant> = (0..100).map(|_| take(&mut next, start)).collect();
        for first in &opened {
            let within = opened.iter().filter(|at| (*first..*first + Duration::from_secs(1)).contains(at)).count();
            assert!(within <= 20, "{within} within a second");
        }
        assert_eq!(opened.iter().filter(|at| **at == start).count(), 4, "the first few come at once");
        let later = start + Duration::from_secs(60);
        assert_eq!(take(&mut next, later), later);
    }

    #[test]
    fn pauses_grow_up_to_a_bound() {
        assert_eq!(pause(0), Duration::ZERO);
        for failures in [1, 2, 3, 50, u32::MAX] {
            assert!(pause(failures) <= LONGEST);
        }
    }
}
