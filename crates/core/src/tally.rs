//! How many calls of each kind a group sent within the last minute: two counters of a minute each, of which the older fades.
//!
//! Exact in integers and independent of how often anybody looks: a count is what the current minute holds, and of the one
//! before as large a part as still lies within the last sixty seconds.

use crate::units::{FleetTime, Milli, Span};

/// Over how long calls are counted.
pub const COUNTED_OVER: Span = Span::from_secs(60);

/// What a granted call was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Whether it was attempt 2 or later of its call.
    pub is_retry: bool,
    /// Whether it came here because another target was worse off.
    pub is_fallback: bool,
}

/// Calls sent within one minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// First attempts.
    pub firsts: u64,
    /// Later attempts.
    pub retries: u64,
    /// Those of either kind that came as fallbacks.
    pub fallbacks: u64,
}

/// The counters of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// When the current minute began.
    pub since: FleetTime,
    /// The current minute.
    pub current: Counts,
    /// The minute before it.
    pub before: Counts,
}

/// What was sent within the last minute, in thousandths of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recent {
    /// First attempts.
    pub firsts: Milli,
    /// Later attempts.
    pub retries: Milli,
    /// Those of either kind that came as fallbacks.
    pub fallbacks: Milli,
}

impl Tally {
    /// Counts a call sent at `now`.
    pub fn count(&mut self, sent: Sent, now: FleetTime) {
        *self = self.at(now);
        let counter = if sent.is_retry { &mut self.current.retries } else { &mut self.current.firsts };
        *counter = counter.saturating_add(1);
        self.current.fallbacks = self.current.fallbacks.saturating_add(u64::from(sent.is_fallback));
    }

    /// What was sent within the last minute before `now`.
    pub fn recent(&self, now: FleetTime) -> Recent {
        let turned = self.at(now);
        let left = (COUNTED_OVER - now.since(turned.since)).at_least_zero();
        let faded = |current: u64, before: u64| {
            let before = i128::from(before) * 1_000 * i128::from(left.as_micros()) / i128::from(COUNTED_OVER.as_micros());
            let before = i64::try_from(before).unwrap_or(i64::MAX);
            Milli::from_units(current) + Milli::from_milli(before)
        };
        Recent {
            firsts: faded(turned.current.firsts, turned.before.firsts),
            retries: faded(turned.current.retries, turned.before.retries),
            fallbacks: faded(turned.current.fallbacks, turned.before.fallbacks),
        }
    }

    /// The same with the minutes turned as far as `now` demands.
    pub(crate) fn at(self, now: FleetTime) -> Self {
        let age = now.since(self.since);
        if age < COUNTED_OVER {
            self
        } else if age < COUNTED_OVER + COUNTED_OVER {
            Self { since: self.since + COUNTED_OVER, current: Counts::default(), before: self.current }
        } else {
            Self { since: now, ..Self::default() }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FIRST: Sent = Sent { is_retry: false, is_fallback: false };
    const RETRY: Sent = Sent { is_retry: true, is_fallback: false };

    fn at(secs: i64) -> FleetTime {
        FleetTime::from_secs(1_000_000 + secs)
    }

    #[test]
    fn a_minute_fades_over_the_next_one() {
        let mut tally = Tally::default();
        for second in 0..30 {
            tally.count(FIRST, at(second));
        }
        tally.count(RETRY, at(30));
        let units = |secs| tally.recent(at(secs)).firsts.as_milli();
        assert_eq!([30, 59, 60, 75, 90, 119, 120, 900].map(units), [30_000, 30_000, 30_000, 22_500, 15_000, 500, 0, 0]);
        assert_eq!(tally.recent(at(90)).retries, Milli::from_milli(500));
    }

    #[test]
    fn fallbacks_are_counted_besides() {
        let mut tally = Tally::default();
        tally.count(Sent { is_retry: true, is_fallback: true }, at(0));
        let recent = tally.recent(at(1));
        assert_eq!((recent.retries, recent.fallbacks), (Milli::from_units(1), Milli::from_units(1)));
    }

    proptest! {
        /// Never more than was sent, never less than what the last minute really held.
        #[test]
        fn it_is_the_last_minute_within_a_minute(gaps in proptest::collection::vec(0_i64..40, 1..60), look in 0_i64..200) {
            let mut tally = Tally::default();
            let mut times = Vec::new();
            let mut second = 0;
            for gap in gaps {
                second += gap;
                tally.count(FIRST, at(second));
                times.push(second);
            }
            let now = second + look;
            let within = |secs: i64| 1_000 * times.iter().filter(|sent| **sent > now - secs).map(|_| 1_i64).sum::<i64>();
            let told = tally.recent(at(now)).firsts.as_milli();
            prop_assert!(told <= within(121), "{told} of {}", within(121));
            prop_assert!(told >= 0);
        }
    }
}
