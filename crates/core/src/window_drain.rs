//! What somebody else takes from a window: what is gone from it and was not granted here.
//!
//! A window's quota is handed out in seconds, so whoever sends evenly finds nothing left for the rest of it. What others have
//! taken since the window began, over the time since, says what they will take until its end: so much is left to them, less with
//! every moment, so that at the end nothing is left lying.
//!
//! The figure is an interval. All that was granted in the window until now may have been counted in the answer, or only what had
//! arrived for certain; and it was made between sending and answering. Inside the interval the estimate stays as it is.

use crate::bucket::BucketState;
use crate::drain::Base;
use crate::learn::Seen;
use crate::level::Rate;
use crate::units::{FleetTime, Milli, Span};

/// No sooner after a window's beginning does an answer tell anything.
const TELLS_AFTER: Span = Span::from_secs(1);
/// What a consumer does in a minute says nothing of its day.
const LONGEST_WINDOW: Span = Span::from_secs(600);
/// However much others take, this part of a window is ours to ask for: less would never notice that they left.
const LEAST_PART: i64 = 50;

const MINUTE: Span = Span::from_secs(60);

impl BucketState {
    /// Learns from a figure in the current window, the second one at the earliest; an answer from another one tells nothing.
    pub(crate) fn learn_window_drain(&mut self, figure: Base, seen: &Seen) {
        let Some(gross) = self.gross_rate().filter(|rate| self.tells_of_others(rate)) else { return };
        let start = self.window_start(&gross);
        if seen.sent_at < start + TELLS_AFTER || seen.answered_at >= self.window_end {
            return;
        }
        // One answer alone may be anything.
        if self.drain.base.replace(figure).is_none_or(|base| base.at < start) {
            return;
        }
        let remaining = figure.remaining;
        let gone = gross.capacity - remaining;
        let granted_since = |mark: i64| Milli::from_milli(mark.saturating_sub(self.fired_at_turn)).at_least_zero();
        let at_least = gone - granted_since(self.fired);
        let at_most = gone - self.expected_use(granted_since(seen.early.min(seen.mark)));
        let least = per_minute(at_least.at_least_zero(), seen.answered_at - start);
        let most = per_minute(at_most.at_least_zero(), seen.sent_at - start);
        let known = self.drain.per_minute.at_least_zero();
        // That they took so much is certain; that they take no more is one window's word.
        let falls = (known - most.max(least)).at_least_zero();
        self.drain.per_minute = known.max(least) - Milli::from_milli(falls.as_milli() / 4);
        self.drain.backing.agree(seen.answered_at);
    }

    /// What others will probably take from `at` to the end of the window; never nearly all of it.
    pub(crate) fn left_to_others(&self, at: FleetTime, rate: &Rate) -> Milli {
        let Some(drain) = self.foreign_drain().filter(|_| self.tells_of_others(rate)) else { return Milli::ZERO };
        let left = i128::from((self.window_end - at).at_least_zero().as_micros());
        let units = i128::from(drain.as_milli()) * left / i128::from(MINUTE.as_micros());
        let units = Milli::from_milli(i64::try_from(units).unwrap_or(i64::MAX)) - self.never_ours(rate);
        let share = self.plan.ours.least.of(rate.capacity + self.never_ours(rate));
        let least = share.max(Milli::from_milli(rate.capacity.as_milli() / LEAST_PART)).min(rate.capacity);
        units.at_least_zero().min(rate.capacity - least)
    }

    /// From when on `cost` is there beside what is left to others, not before `now`; only where it is there at all.
    pub(crate) fn spared_at(&self, cost: Milli, now: FleetTime, rate: &Rate) -> FleetTime {
        let spare = self.level.amount - cost;
        if self.left_to_others(now, rate) <= spare {
            return now;
        }
        let Some(drain) = self.foreign_drain() else { return now };
        let spare = spare.at_least_zero() + self.never_ours(rate);
        let lasts = i128::from(spare.as_milli()) * i128::from(MINUTE.as_micros()) / i128::from(drain.as_milli().max(1));
        self.window_end - Span::from_micros(i64::try_from(lasts).unwrap_or(i64::MAX))
    }

    /// What others have of a window beside our part of it.
    fn never_ours(&self, rate: &Rate) -> Milli {
        self.gross_rate().map_or(Milli::ZERO, |gross| (gross.capacity - rate.capacity).at_least_zero())
    }

    fn tells_of_others(&self, rate: &Rate) -> bool {
        let is_told = self.is_windowed() && !self.only_may_be_windowed() && self.observed.is_some();
        is_told && self.window_end != FleetTime::ZERO && rate.per <= LONGEST_WINDOW
    }
}

fn per_minute(units: Milli, time: Span) -> Milli {
    let scaled = i128::from(units.as_milli()) * i128::from(MINUTE.as_micros()) / i128::from(time.as_micros().max(1));
    Milli::from_milli(i64::try_from(scaled).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::bucket::Observation;
    use crate::level::Level;
    use crate::plan::{BucketId, BucketPlan, OurPart, Owner, Portion, Refill, StartLevel};

    const START: FleetTime = FleetTime::from_secs(1_800_000_000);

    /// 600 a minute in windows, of which 200 were granted in the first two seconds.
    fn bucket() -> BucketState {
        let name: Arc<str> = Arc::from("requests");
        let plan = BucketPlan {
            id: BucketId { owner: Owner::Account, name: name.clone() },
            meter: name,
            limit: Some(600),
            per: Some(MINUTE),
            capacity: None,
            burst: None,
            refill: Some(Refill::Window),
            calendar: None,
            start: StartLevel::Full,
            learn_above: false,
            ours: OurPart::default(),
        };
        let at = START + Span::from_secs(2);
        BucketState {
            started: true,
            level: Level::new(Milli::from_units(400), at),
            window_end: START + MINUTE,
            fired: 200_000,
            observed: Some(Observation { mark: 200_000, remaining: Milli::from_units(400), at, reports: 1 }),
            ..BucketState::new(plan)
        }
    }

    fn learn(bucket: &mut BucketState, remaining: u64, after: Span, early: i64) {
        let sent_at = START + after;
        let figure = Base { mark: 200_000, remaining: Milli::from_units(remaining), at: sent_at, took: Span::ZERO };
        let seen = Seen {
            mark: 200_000,
            early,
            is_last: false,
            sent_at,
            answered_at: sent_at,
            now: sent_at,
            refused: false,
            cost: Milli::from_units(1),
            in_line: true,
        };
        bucket.learn_window_drain(figure, &seen);
    }

    #[test]
    fn what_is_gone_and_was_not_granted_here_was_taken_by_others() {
        let mut bucket = bucket();
        learn(&mut bucket, 390, Span::from_secs(3), 200_000);
        assert_eq!(bucket.foreign_drain(), None, "one answer alone may be anything");
        learn(&mut bucket, 380, Span::from_secs(4), 200_000);
        assert_eq!(bucket.foreign_drain(), Some(Milli::from_units(300)), "20 in 4 s");
        let rate = bucket.rate().unwrap();
        let at = START + Span::from_secs(10);
        assert_eq!(bucket.left_to_others(at, &rate), Milli::from_units(250), "for 50 s");
        assert_eq!(bucket.left_to_others(START + MINUTE, &rate), Milli::ZERO, "nothing is left lying");
    }

    #[test]
    fn calls_that_may_have_been_counted_or_not_tell_nothing() {
        let mut bucket = bucket();
        learn(&mut bucket, 455, Span::from_secs(3), 100_000);
        learn(&mut bucket, 450, Span::from_secs(4), 100_000);
        assert_eq!(bucket.foreign_drain(), None, "150 are gone, and 100 to 200 were ours");
    }

    #[test]
    fn a_call_waits_until_what_is_left_to_others_is_less() {
        let mut bucket = bucket();
        bucket.drain.per_minute = Milli::from_units(300);
        bucket.level.amount = Milli::from_units(101);
        let rate = bucket.rate().unwrap();
        let cost = Milli::from_units(1);
        assert_eq!(bucket.spared_at(cost, START + Span::from_secs(10), &rate), START + Span::from_secs(40), "100 last 20 s");
        assert_eq!(bucket.spared_at(cost, START + Span::from_secs(50), &rate), START + Span::from_secs(50));
    }

    #[test]
    fn our_part_is_not_left_to_others() {
        let half = Portion::from_millionths(500_000);
        let at = START + Span::from_secs(10);
        for (ours, left) in [
            (OurPart::default(), 500),
            (OurPart { least: half, ..OurPart::default() }, 300),
            (OurPart { most: half, ..OurPart::default() }, 200), // of their own half they take the rest
        ] {
            let mut bucket = bucket();
            bucket.plan.ours = ours;
            bucket.drain.per_minute = Milli::from_units(600);
            let rate = bucket.rate().unwrap();
            assert_eq!(bucket.left_to_others(at, &rate), Milli::from_units(left), "{ours:?}");
        }
    }
}
