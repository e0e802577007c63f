//! Whether a replica is asked: one that failed is left alone, looked at now and then, and asked again as soon as it answers.

use std::time::Duration;

use crate::timing;

/// From a failure to the first look.
const FIRST_LOOK: Duration = Duration::from_millis(500);
/// The longest time between two looks while another replica answers.
const LONGEST_BESIDE_OTHERS: Duration = Duration::from_secs(15);
/// The longest while none does: the first one back is used at once.
const LONGEST_ALONE: Duration = Duration::from_secs(2);

/// What is known of a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Health {
    /// It answered last time, or was not asked yet.
    #[default]
    Up,
    /// It did not answer last time. One task looks after it.
    Down,
}

impl Health {
    /// It did not answer. Returns whether somebody must begin to look after it: one looker, however many calls failed.
    pub(crate) fn failed(&mut self) -> bool {
        std::mem::replace(self, Self::Down) == Self::Up
    }

    /// It answered. Returns whether that is news.
    pub(crate) fn answered(&mut self) -> bool {
        std::mem::replace(self, Self::Up) == Self::Down
    }

    pub(crate) fn is_down(self) -> bool {
        self == Self::Down
    }
}

/// How long to wait before the `nth` look, from 1, at a replica that is down; doubling, and spread by `chance` in 0..1 so that
/// a fleet's clients neither look nor come back together.
pub(crate) fn look_in(nth: u32, others_answer: bool, chance: f64) -> Duration {
    let longest = if others_answer { LONGEST_BESIDE_OTHERS } else { LONGEST_ALONE };
    let this = FIRST_LOOK.saturating_mul(1 << nth.saturating_sub(1).min(16)).min(longest);
    timing::spread(this / 2, this, chance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_replica_has_one_looker_however_many_calls_fail() {
        let mut health = Health::default();
        assert_eq!([health.failed(), health.failed(), health.failed()], [true, false, false]);
        assert!(health.is_down());
        assert_eq!([health.answered(), health.answered()], [true, false]);
        assert!(!health.is_down() && health.failed(), "the next failure needs a looker again");
    }

    #[test]
    fn looks_become_rarer_to_a_bound() {
        let looks = |others| (1..8).map(|nth| look_in(nth, others, 1.0).as_millis()).collect::<Vec<_>>();
        assert_eq!(looks(true), [500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000]);
        assert_eq!(looks(false), [500, 1_000, 2_000, 2_000, 2_000, 2_000, 2_000]);
    }

    proptest! {
        #[test]
        fn looks_are_spread_over_half_their_gap(nth in any::<u32>(), others: bool, chance in 0.0f64..1.0) {
            let (least, this, most) = (look_in(nth, others, 0.0), look_in(nth, others, chance), look_in(nth, others, 1.0));
            prop_assert!(least <= this && this <= most && least == most / 2);
        }
    }
}
