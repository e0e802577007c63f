//! A level that refills evenly: exact integer arithmetic at any instant, also shortly before the last one written.

use crate::units::{FleetTime, Milli, Span};

/// How fast a bucket refills and how much it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Units per `per`; at least a thousandth.
    pub limit: Milli,
    /// The window; at least a microsecond.
    pub per: Span,
    /// What it can hold.
    pub capacity: Milli,
}

impl Rate {
    /// A rate from whole units; both are raised to the least the arithmetic bears.
    pub fn new(limit: Milli, per: Span, capacity: Milli) -> Self {
        Self { limit: limit.max(Milli::from_milli(1)), per: per.max(Span::from_micros(1)), capacity }
    }

    /// Units that refill within `span`, rounded down.
    pub fn gained_in(&self, span: Span) -> Milli {
        clamp(i128::from(span.as_micros().max(0)) * i128::from(self.limit.as_milli()) / i128::from(self.per.as_micros()))
    }

    /// The time in which `amount` refills, rounded up; zero for nothing or less.
    pub fn time_for(&self, amount: Milli) -> Span {
        let needed = i128::from(amount.as_milli().max(0)) * i128::from(self.per.as_micros());
        span_of(div_ceil(needed, i128::from(self.limit.as_milli())))
    }
}

/// What a bucket holds at one instant. The instant may lie a slot or two ahead of now, when the last granted call is to be
/// sent then; levels before it are found by running the refill backwards, which can only be too low (see [`Level::at`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// The level at `as_of`; negative: debt.
    pub amount: Milli,
    /// When that was.
    pub as_of: FleetTime,
    /// The part of a thousandth that has refilled already, times `per`.
    pub carry: i64,
}

impl Level {
    /// A level of `amount` at `as_of`.
    pub fn new(amount: Milli, as_of: FleetTime) -> Self {
        Self { amount, as_of, carry: 0 }
    }

    /// The level at `time`: later than `as_of` with refill up to the capacity; earlier without the refill in between. The
    /// latter counts everything granted up to `as_of` as gone already, so it never promises more than there is.
    pub fn at(&self, time: FleetTime, rate: &Rate) -> Milli {
        if time >= self.as_of {
            let mut later = *self;
            later.advance(time, rate);
            later.amount
        } else {
            let back = i128::from((self.as_of - time).as_micros()) * i128::from(rate.limit.as_milli());
            self.amount - clamp(div_ceil(back, i128::from(rate.per.as_micros())))
        }
    }

    /// The first instant at which the level is `target` or more; [`FleetTime::MAX`] when it can never hold that much.
    pub fn reaches(&self, target: Milli, rate: &Rate) -> FleetTime {
        if target > rate.capacity {
            return FleetTime::MAX;
        }
        let per = i128::from(rate.per.as_micros());
        let limit = i128::from(rate.limit.as_milli());
        if self.amount >= target {
            let spare = i128::from((self.amount - target).as_milli()) * per / limit;
            self.as_of - span_of(spare)
        } else {
            let missing = i128::from((target - self.amount).as_milli()) * per - i128::from(self.carry);
            self.as_of + span_of(div_ceil(missing.max(0), limit))
        }
    }

    /// Takes `cost` for a call sent at `time`.
    pub fn debit(&mut self, time: FleetTime, cost: Milli, rate: &Rate) {
        self.advance(time, rate);
        self.amount -= cost;
    }

    /// Gives `amount` back (or takes more, if negative), never above the capacity.
    pub fn credit(&mut self, amount: Milli, rate: &Rate) {
        self.amount = (self.amount + amount).min(rate.capacity);
    }

    /// Moves forward to `time`; does nothing when `time` is earlier.
    pub fn advance(&mut self, time: FleetTime, rate: &Rate) {
        if time <= self.as_of {
            return;
        }
        if self.amount >= rate.capacity {
            self.amount = rate.capacity;
            self.carry = 0;
            self.as_of = time;
            return;
        }
        let per = i128::from(rate.per.as_micros());
        let gained = i128::from((time - self.as_of).as_micros()) * i128::from(rate.limit.as_milli())
            + i128::from(self.carry.clamp(0, rate.per.as_micros() - 1));
        self.amount += clamp(gained / per);
        // The remainder is below `per`, which is an i64.
        self.carry = i64::try_from(gained % per).unwrap_or(0);
        self.as_of = time;
        if self.amount >= rate.capacity {
            self.amount = rate.capacity;
            self.carry = 0;
        }
    }
}

fn clamp(milli: i128) -> Milli {
    let most = i128::from(Milli::MAX.as_milli());
    Milli::from_milli(i64::try_from(milli.clamp(-most, most)).unwrap_or(0))
}

fn span_of(micros: i128) -> Span {
    Span::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

fn div_ceil(numerator: i128, denominator: i128) -> i128 {
    let quotient = numerator / denominator;
    if numerator % denominator > 0 { quotient + 1 } else { quotient }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn per_minute(limit: u64) -> Rate {
        Rate::new(Milli::from_units(limit), Span::from_secs(60), Milli::from_units(limit))
    }

    #[test]
    fn refill_keeps_its_remainder() {
        // SE04 in small steps: 1 unit per 15 s asked for every 7 ms must still come after 15 s.
        let rate = Rate::new(Milli::from_units(1), Span::from_secs(15), Milli::from_units(3));
        let mut level = Level::new(Milli::ZERO, FleetTime::ZERO);
        for step in 1..=2_143 {
            level.advance(FleetTime::from_micros(step * 7_000), &rate);
        }
        assert_eq!(level.amount.as_milli(), 1_000);
        assert_eq!(level.at(FleetTime::from_secs(20), &rate).as_units_floor(), 1);
        assert_eq!(level.at(FleetTime::from_secs(86_400), &rate).as_units_floor(), 3);
    }

    #[test]
    fn impossible_targets_are_never_reached() {
        let level = Level::new(Milli::from_units(10), FleetTime::ZERO);
        assert_eq!(level.reaches(Milli::from_units(11), &per_minute(10)), FleetTime::MAX);
    }

    proptest! {
        /// `reaches` is the first instant at which `at` says so.
        #[test]
        fn reaches_and_at_agree(limit in 1_u64..1_000_000, per in 1_i64..86_400, amount in -1_000_i64..1_000_000, carry in 0_i64..1_000_000, target in 1_i64..1_000_000) {
            let rate = Rate::new(Milli::from_units(limit), Span::from_secs(per), Milli::from_units(limit));
            let start = FleetTime::from_secs(1_000_000_000);
            let level = Level { amount: Milli::from_milli(amount).min(rate.capacity), as_of: start, carry };
            let target = Milli::from_milli(target);
            prop_assume!(target <= rate.capacity);
            let when = level.reaches(target, &rate);
            prop_assert!(level.at(when, &rate) >= target);
            if when > start {
                prop_assert!(level.at(when - Span::from_micros(1), &rate) < target);
            }
        }

        /// Looking in between changes nothing: advancing in two steps is advancing in one.
        #[test]
        fn advancing_is_additive(limit in 1_u64..100_000, a in 0_i64..10_000_000, b in 0_i64..10_000_000) {
            let rate = per_minute(limit);
            let mut two = Level::new(Milli::ZERO, FleetTime::ZERO);
            let mut one = two;
            two.advance(FleetTime::from_micros(a), &rate);
            two.advance(FleetTime::from_micros(a + b), &rate);
            one.advance(FleetTime::from_micros(a + b), &rate);
            prop_assert_eq!(one, two);
        }
    }
}
