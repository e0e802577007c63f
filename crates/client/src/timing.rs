//! How long to wait, as arithmetic on instants: nothing here sleeps.

use std::time::{Duration, SystemTime};

use paceline_proto::v1::Grant;
use tokio::time::Instant;

/// How late a granted call may be sent when the service does not say.
const USE_WITHIN: Duration = Duration::from_secs(2);
/// The longest pause between two rounds of tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The first pause after every address failed.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The shortest time between two renewals.
const SHORTEST_RENEWAL: Duration = Duration::from_millis(50);
/// The longest length of time that is calculated with, so that adding it to an instant cannot overflow.
const LONGEST: Duration = Duration::from_secs(1 << 31);

/// A length of time from the service; a negative one (there is none) is zero.
pub(crate) fn length(duration: &prost_types::Duration) -> Duration {
    Duration::try_from(*duration).unwrap_or_default().min(LONGEST)
}

/// A length of time for the service.
pub(crate) fn to_proto(duration: Duration) -> prost_types::Duration {
    let duration = duration.min(LONGEST);
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    prost_types::Duration { seconds, nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0) }
}

/// The instant this long after `from`; very far ones are cut to what an instant can hold.
pub(crate) fn after(from: Instant, wait: Duration) -> Instant {
    from.checked_add(wait.min(LONGEST)).unwrap_or(from)
}

/// A moment on both clocks of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The monotonic clock: what waits are counted on.
    pub(crate) steady: Instant,
    /// The wall clock: the monotonic one stands still while a machine sleeps or a virtual one is frozen, this one does not.
    wall: SystemTime,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self { steady: Instant::now(), wall: SystemTime::now() }
    }

    /// The time since `earlier` by the clock that says more: only used to tell that something is too late, where a clock
    /// that was set forward costs no more than asking again.
    fn longest_since(self, earlier: Self) -> Duration {
        let steady = self.steady.saturating_duration_since(earlier.steady);
        steady.max(self.wall.duration_since(earlier.wall).unwrap_or_default())
    }
}

/// When a granted call may be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    received: Moment,
    /// Never before this.
    pub(crate) opens: Instant,
    /// From `received`, not later than this.
    closes_in: Duration,
}

impl Window {
    pub(crate) fn new(grant: &Grant, received: Moment) -> Self {
        let wait = grant.wait.as_ref().map(length).unwrap_or_default();
        let use_within = grant.use_within.as_ref().map_or(USE_WITHIN, length);
        Self { received, opens: after(received.steady, wait), closes_in: wait.saturating_add(use_within) }
    }

    /// Whether a call sent at `now` would be later than the service allows.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        now.longest_since(self.received) > self.closes_in
    }
}

/// How long to pause after every address failed so many times, from once: it doubles with each round. `chance` in 0..1 spreads
/// it over the upper half, so that workers do not come back together.
pub(crate) fn pause(rounds: u32, chance: f64) -> Duration {
    let longest = FIRST_PAUSE.saturating_mul(1 << rounds.saturating_sub(1).min(16)).min(LONGEST_PAUSE);
    spread(longest / 2, longest, chance)
}

/// When to renew a lease that ends in `left`: about the middle, so that a lost renewal leaves time for another.
pub(crate) fn renew_in(left: Duration, chance: f64) -> Duration {
    spread(left * 2 / 5, left * 3 / 5, chance).max(SHORTEST_RENEWAL)
}

/// A length of time between two others: the shorter at chance 0, the longer at chance 1.
pub(crate) fn spread(shortest: Duration, longest: Duration, chance: f64) -> Duration {
    let room = longest.saturating_sub(shortest).as_secs_f64() * chance.clamp(0.0, 1.0);
    shortest.saturating_add(Duration::try_from_secs_f64(room).unwrap_or_default()).min(longest.max(shortest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grant(wait_ms: u64, use_within_ms: Option<u64>) -> Grant {
        let proto = |millis| to_proto(Duration::from_millis(millis));
        Grant { wait: Some(proto(wait_ms)), use_within: use_within_ms.map(proto), ..Grant::default() }
    }

    fn later(moment: Moment, millis: u64) -> Moment {
        let by = Duration::from_millis(millis);
        Moment { steady: moment.steady + by, wall: moment.wall + by }
    }

    #[test]
    fn a_window_opens_after_wait_and_is_over_after_use_within() {
        let now = Moment::now();
        for (wait, within, at, is_over) in [
            (0, Some(2_000), 0, false),
            (0, Some(2_000), 2_000, false),
            (0, Some(2_000), 2_001, true),
            (500, Some(100), 600, false),
            (500, Some(100), 601, true),
            (500, None, 2_500, false),
            (500, None, 2_501, true),
            (0, Some(0), 1, true),
        ] {
            let window = Window::new(&grant(wait, within), now);
            assert_eq!(window.opens, now.steady + Duration::from_millis(wait));
            assert_eq!(window.is_over(later(now, at)), is_over, "wait {wait}, within {within:?}, at {at}");
        }
    }

    #[test]
    fn a_machine_that_slept_is_late_although_its_monotonic_clock_stood_still() {
        let now = Moment::now();
        let window = Window::new(&grant(500, Some(2_000)), now);
        let woken = Moment { steady: now.steady + Duration::from_millis(500), wall: now.wall + Duration::from_secs(3_600) };
        assert!(window.is_over(woken));
        let set_back = Moment { steady: now.steady + Duration::from_millis(600), wall: now.wall - Duration::from_secs(60) };
        assert!(!window.is_over(set_back), "a wall clock that was set back hides nothing");
    }

    #[test]
    fn odd_lengths_from_a_service_do_no_harm() {
        let odd = |seconds, nanos| length(&prost_types::Duration { seconds, nanos });
        assert_eq!(odd(-1, 0), Duration::ZERO);
        assert_eq!(odd(0, -1), Duration::ZERO);
        assert_eq!(odd(i64::MAX, i32::MAX), LONGEST);
        assert_eq!(odd(1, 500_000_000), Duration::from_millis(1_500));
        let now = Instant::now();
        assert!(after(now, Duration::MAX) > now);
    }

    #[test]
    fn pauses_double_with_each_round() {
        let pauses: Vec<_> = (1..9).map(|rounds| pause(rounds, 1.0).as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
    }

    proptest! {
        #[test]
        fn pauses_grow_to_a_bound_and_are_spread(rounds in 1u32.., chance in 0.0f64..1.0) {
            let (least, this, most) = (pause(rounds, 0.0), pause(rounds, chance), pause(rounds, 1.0));
            prop_assert!(FIRST_PAUSE / 2 <= least && least <= this && this <= most && most <= LONGEST_PAUSE);
        }

        #[test]
        fn a_renewal_leaves_time_for_another(left_ms in 200u64..7_200_000, chance in 0.0f64..1.0) {
            let left = Duration::from_millis(left_ms);
            let first = renew_in(left, chance);
            prop_assert!(first < left && first + renew_in(left - first, chance) < left);
        }

        #[test]
        fn lengths_round_trip(secs in 0u64..1 << 31, nanos in 0u32..1_000_000_000) {
            let there = Duration::new(secs, nanos);
            prop_assert_eq!(length(&to_proto(there)), there);
        }
    }
}
