//! When a bucket lets a call through.

use crate::bucket::BucketState;
use crate::level::Rate;
use crate::pacing::{guard, margin};
use crate::signal::Source;
use crate::units::{FleetTime, Milli};

/// When a bucket lets a call through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The first instant at which it does; [`FleetTime::MAX`]: only after somebody else ends.
    pub at: FleetTime,
    /// The least the wait can be, even if others leave.
    pub at_best: FleetTime,
    /// What it waits for.
    pub source: Source,
}

impl BucketState {
    /// When a call of `cost` may be sent at the earliest, not before `now`. `waited`: it has been in line, or others are,
    /// so that pacing and its margin apply.
    pub fn opens(&self, cost: Milli, now: FleetTime, waited: bool) -> Opening {
        let mut opening = Opening { at: now, at_best: now, source: Source::None };
        if let Some(floor) = self.floor.filter(|floor| floor.until > now) {
            opening = Opening { at: floor.until, at_best: floor.until, source: floor.source };
        }
        if self.is_held() {
            return self.opens_held(cost, now, opening);
        }
        let Some(rate) = self.rate().filter(|_| self.started) else { return opening };
        let level_at = if self.is_windowed() {
            self.window_opens(cost, now, &rate)
        } else {
            let margin = if waited { margin(&rate, cost) } else { self.reserve(&rate, cost) };
            let evenly = self.level.reaches(cost + margin, &rate);
            if self.spreading { self.spread_opens(evenly, cost, now, &rate) } else { evenly }
        };
        if level_at > opening.at {
            opening = Opening { at: level_at, at_best: level_at, source: Source::Bucket };
        }
        let burst = self.burst_rate(&rate);
        if burst.capacity < rate.capacity {
            let at = self.burst.reaches(cost.min(burst.capacity), &burst);
            if at > opening.at {
                let source = if self.is_unproven(&rate) { Source::Ramp } else { Source::Bucket };
                opening = Opening { at, at_best: at, source };
            }
        }
        if waited && self.paced_until > opening.at {
            opening.at = self.paced_until;
            opening.source = if self.is_spread(now, &rate) { Source::Pacing } else { Source::Bucket };
        }
        opening
    }

    /// The same beside units that are kept for a class with a guarantee: they stay in the bucket until its call has enough.
    pub fn opens_beside(&self, cost: Milli, kept: Milli, now: FleetTime, waited: bool) -> Opening {
        let mut opening = self.opens(cost, now, waited);
        let Some(rate) = self.rate().filter(|_| self.started && kept > Milli::ZERO) else { return opening };
        let at = self.level.reaches((cost + margin(&rate, cost) + kept).min(rate.capacity), &rate);
        if at > opening.at {
            (opening.at, opening.source) = (at, Source::FairShare);
        }
        opening
    }

    fn opens_held(&self, cost: Milli, now: FleetTime, opening: Opening) -> Opening {
        let Some(capacity) = self.capacity() else { return opening };
        let short = cost - (capacity - self.holds.in_use(now));
        if short <= Milli::ZERO {
            return opening;
        }
        let at = self.holds.frees_by_expiry(now, short).unwrap_or(FleetTime::MAX);
        if at > opening.at { Opening { at, at_best: opening.at_best, source: Source::Concurrency } } else { opening }
    }

    /// In a first window that is spread: evenly, as long as its quota lasts, or when the next one begins.
    fn spread_opens(&self, evenly: FleetTime, cost: Milli, now: FleetTime, rate: &Rate) -> FleetTime {
        if self.window_end == FleetTime::ZERO || cost > rate.capacity {
            return evenly;
        }
        let turned = now.max(self.window_end + guard(rate.per));
        let used = Milli::from_milli(self.fired.saturating_sub(self.fired_at_turn));
        if used + cost > rate.capacity { turned } else { evenly.min(turned) }
    }

    fn window_opens(&self, cost: Milli, now: FleetTime, rate: &Rate) -> FleetTime {
        if cost > rate.capacity {
            return FleetTime::MAX;
        }
        let has_room = self.level.amount >= cost;
        if self.window_end == FleetTime::ZERO {
            return if has_room { now } else { FleetTime::MAX };
        }
        if !self.window_is_over(now) && has_room {
            return self.spared_at(cost, now, rate).max(self.opens_at);
        }
        now.max(self.window_start_at_or_after_end(now, rate) + guard(rate.per))
    }
}
