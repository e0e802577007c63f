//! How calls that had to wait are spread: the distance between their slots, the margin they leave, the room for jitter.

use crate::bucket::BucketState;
use crate::level::Rate;
use crate::units::{FleetTime, Milli, Span};

/// The time constant where little may go together.
const UNPROVEN_DRAIN: Span = Span::from_secs(1);

impl BucketState {
    /// The distance to the next paced slot after a call of `cost`: what it will really use at the rate of refill and drain. At
    /// most the time constant of the drain (I-5): after a large call the level alone keeps the next one waiting, and only as
    /// long as that one needs.
    pub fn gap(&self, cost: Milli, at: FleetTime) -> Span {
        let Some(rate) = self.rate() else { return Span::ZERO };
        let tau = drain_time(rate.per);
        let cost = self.expected_use(cost);
        if self.is_windowed() {
            // The whole quota spread over a quarter of tau: it is all there, and the last window of a run is waited for. All of
            // tau where it only may be a window.
            let over = if self.only_may_be_windowed() { tau } else { Span::from_micros((tau.as_micros() / 4).max(1)) };
            return Rate::new(rate.limit, over, rate.capacity).time_for(cost).min(over);
        }
        let spare = (self.level.at(at, &rate) - margin(&rate, cost)).at_least_zero();
        let burst = self.burst_rate(&rate);
        // Since a calm, what little is proven goes soon, so that a bucket that is not the scarce one holds nobody up.
        let (surplus, tau) = if self.calm.length > Span::ZERO && self.is_unproven(&rate) {
            (spare.min((self.burst.at(at, &burst) - cost).at_least_zero()), tau.min(UNPROVEN_DRAIN))
        } else {
            (spare.min(burst.capacity), tau)
        };
        let per_tau = rate.gained_in(tau) + surplus;
        Rate::new(per_tau.max(Milli::from_milli(1)), tau, rate.capacity).time_for(cost).min(tau)
    }

    /// How long it takes, once the first call in line goes, until those behind it have been handed what they cost together, as
    /// [`BucketState::gap`] spaces it: the refill, and the surplus that there is. Never more than that, so that nobody comes back after
    /// its turn.
    pub fn handed_out_in(&self, first: Milli, cost: Milli, now: FleetTime) -> Span {
        let Some(rate) = self.rate() else { return Span::ZERO };
        let (tau, cost) = (drain_time(rate.per), self.expected_use(cost));
        let burst = self.burst_rate(&rate);
        let at_once = if burst.capacity < rate.capacity { self.burst.at(now, &burst) } else { rate.capacity };
        let level = self.level_at(now).unwrap_or(Milli::ZERO) - margin(&rate, first);
        let surplus = (level.min(at_once) - first).at_least_zero();
        let at_first = Rate::new(rate.gained_in(tau) + surplus, tau, rate.capacity).time_for(cost);
        rate.time_for(cost - surplus).max(at_first)
    }

    /// How far a slot may be moved within jitter at `base` before units would be lost at the brim, or the window ends.
    pub fn room(&self, base: FleetTime) -> Span {
        let Some(rate) = self.rate().filter(|_| self.started) else { return Span::MAX };
        if self.is_windowed() {
            let end = if self.window_is_over(base) { base + rate.per } else { self.window_end };
            return (end - base).at_least_zero();
        }
        let burst = self.burst_rate(&rate);
        let brim = rate.time_for(rate.capacity - self.level.at(base, &rate));
        if burst.capacity < rate.capacity {
            brim.min(burst.time_for(burst.capacity - self.burst.at(base, &burst)))
        } else {
            brim
        }
    }

    /// Whether it is our spreading that makes paced calls wait, rather than the refill: more than half of what goes out is
    /// surplus, or a window's quota.
    pub(crate) fn is_spread(&self, now: FleetTime, rate: &Rate) -> bool {
        let per_tau = rate.gained_in(drain_time(rate.per));
        self.is_windowed() || self.level.at(now, rate) > margin(rate, Milli::ZERO) + per_tau
    }
}

/// What paced calls leave in the bucket: 0.15 s of refill, never so much that the call becomes impossible.
pub fn margin(rate: &Rate, cost: Milli) -> Milli {
    rate.gained_in(Span::from_millis(150)).min((rate.capacity - cost).at_least_zero())
}

/// The time constant with which a surplus is handed out while calls wait: 2/15 of the window, at most 8 s.
pub fn drain_time(per: Span) -> Span {
    Span::from_micros((per.as_micros() / 15).saturating_mul(2).clamp(1, 8_000_000))
}

/// Nothing is sent in the first moments after a window's boundary: clocks differ, and late calls of the old window land here.
pub fn guard(per: Span) -> Span {
    Span::from_micros((per.as_micros() / 40).min(150_000))
}
