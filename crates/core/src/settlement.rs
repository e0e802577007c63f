//! What calls turned out to use: unused reservations come back, overruns are taken, and what is typical is remembered.

use crate::bucket::{BucketState, Observation};
use crate::units::{FleetTime, Milli};

impl BucketState {
    /// Makes the level at `now` what it would be with `change` more (or less). What has refilled until now is settled first:
    /// a loss that came before a bucket was full again would otherwise be forgotten at the brim.
    pub fn shift_level(&mut self, change: Milli, now: FleetTime) {
        if let Some(rate) = self.rate() {
            if !self.is_windowed() {
                self.level.advance(now, &rate);
            }
            self.level.credit(change, &rate);
            // A debt of more than the whole bucket would only punish calls that had no part in it.
            self.level.amount = self.level.amount.max(Milli::ZERO - rate.capacity);
        }
    }

    /// Gives back what a lease reserved and did not use (negative: it used more), unless the window it was charged to is over;
    /// where a newer observation has told already, only up to what it showed (I-4). Returns whether it did.
    pub fn settle(&mut self, unused: Milli, mark: i64, window_end: FleetTime, now: FleetTime) -> bool {
        let unused = match self.observed.filter(|seen| seen.mark >= mark) {
            Some(_) if unused < Milli::ZERO => Milli::ZERO,
            Some(seen) => unused.min(self.room_below(&seen, now)),
            None => unused,
        };
        let turned = self.is_windowed() && {
            let moved = (self.window_end - window_end).as_micros().unsigned_abs();
            self.rate().is_some_and(|rate| moved > rate.per.as_micros().unsigned_abs() / 2)
        };
        if unused == Milli::ZERO || turned || !self.started {
            return false;
        }
        self.shift_level(unused, now);
        if let Some(rate) = self.rate() {
            // What was not used did not go back to back with anything either.
            let burst = self.burst_rate(&rate);
            self.burst.advance(now, &burst);
            self.burst.credit(unused.at_least_zero(), &burst);
        }
        true
    }

    /// How far the level lies below what was observed, less what was granted since, with what has refilled since.
    fn room_below(&self, seen: &Observation, now: FleetTime) -> Milli {
        let Some(rate) = self.rate() else { return Milli::ZERO };
        let told = |mark: i64| seen.remaining - Milli::from_milli(self.fired.saturating_sub(mark)).at_least_zero();
        let room = if self.is_windowed() {
            let in_this_window = seen.at >= self.window_start(&rate);
            if in_this_window { told(seen.mark.max(self.fired_at_turn)) - self.level.amount } else { Milli::ZERO }
        } else {
            // Both at the same instant; the level's may lie a slot ahead of now.
            let time = now.max(self.level.as_of);
            told(seen.mark) + rate.gained_in(time.since(seen.at)) - self.level.at(time, &rate)
        };
        room.at_least_zero()
    }

    /// Remembers what a call that reserved so much turned out to cost.
    pub fn note_usage(&mut self, reserved: Milli, actual: Milli) {
        let average = |old: Milli, new: Milli| match old {
            Milli::ZERO => new,
            old => old + Milli::from_milli((new - old).as_milli() / 8),
        };
        self.typical = average(self.typical, actual);
        self.typical_reserved = average(self.typical_reserved, reserved);
    }

    /// What a reservation of `cost` typically turns out to use: paced by the reservation, calls that use half of it would
    /// leave half of the refill unused. At least a twentieth of it, at most four times.
    pub fn expected_use(&self, cost: Milli) -> Milli {
        if self.typical_reserved <= Milli::ZERO {
            return cost;
        }
        let cost = i128::from(cost.as_milli());
        let used = cost * i128::from(self.typical.as_milli()) / i128::from(self.typical_reserved.as_milli());
        Milli::from_milli(i64::try_from(used.clamp(cost / 20, cost * 4)).unwrap_or(i64::MAX))
    }

    /// What to charge a call that does not say what it costs here while nobody knows what such calls use: a hundredth of the
    /// capacity, at least one unit.
    pub fn guess_cost(&self) -> Milli {
        let hundredth = self.capacity().map_or(0, |capacity| capacity.as_units_floor() / 100);
        Milli::from_units(hundredth.max(1))
    }

    /// What grants of `reserved` units may turn out to use: no less, and more where calls typically overrun.
    pub fn likely_use(&self, reserved: Milli) -> Milli {
        self.expected_use(reserved).max(reserved)
    }
}
