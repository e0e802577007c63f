//! How a limit is counted, exactly: integers only, so that no rounding hides an unearned or a lost unit.
//!
//! A token bucket's level is kept in milli-units times the window's microseconds. In that scale a microsecond brings back the
//! limit in milli-units, a whole number: nothing is ever rounded, and a level never drifts. The largest level is 10^18 x
//! 2.7x10^12, far inside an `i128`.

use std::sync::Arc;

use paceline_core::signal::ResetMeans;
use paceline_core::units::{FleetTime, Milli, Span};

use crate::limit::{Limit, Metering};

/// What a meter says of itself: the figures behind the headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What it counts.
    pub meter: Arc<str>,
    /// Units per window.
    pub limit: u64,
    /// The window.
    pub window: Span,
    /// Whole units left; 0 when in debt.
    pub remaining: u64,
    /// Until it is full (token bucket) or its window ends, rounded up to a microsecond.
    pub reset_in: Span,
    /// Which of the two.
    pub reset_means: ResetMeans,
}

/// What another consumer wanted of a meter and what it got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// All that it came for.
    pub wanted: Milli,
    /// What was there.
    pub got: Milli,
}

/// One limit's state.
#[derive(Clone, Debug)]
pub struct Meter {
    limit: Limit,
    stated: Gauge,
    enforced: Option<TokenBucket>,
    drained: Drained,
}

#[derive(Clone, Debug)]
enum Gauge {
    Bucket(TokenBucket),
    Window(FixedWindow),
}

impl Meter {
    /// A meter that nobody has used yet: full. The limit must be valid ([`Limit::validate`]).
    pub fn new(limit: &Limit) -> Self {
        let (stated, enforced) = match limit.metering {
            Metering::TokenBucket => (Gauge::Bucket(TokenBucket::new(limit, limit.capacity())), None),
            Metering::FixedWindow { phase } => (Gauge::Window(FixedWindow::new(limit, phase)), None),
            Metering::EnforcedEvery { interval } => {
                let share = TokenBucket::new(limit, share_of(limit, interval));
                (Gauge::Bucket(TokenBucket::new(limit, limit.capacity())), Some(share))
            }
        };
        Self { limit: limit.clone(), stated, enforced, drained: Drained::default() }
    }

    /// What it meters.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// How long until `cost` fits if nobody else takes any: zero when it fits now, `None` when it never does. What fits once
    /// goes on fitting until somebody takes some.
    pub fn wait(&self, now: FleetTime, cost: Milli) -> Option<Span> {
        let stated = match &self.stated {
            Gauge::Bucket(bucket) => bucket.wait(now, cost)?,
            Gauge::Window(window) => window.wait(now, cost)?,
        };
        let Some(enforced) = &self.enforced else { return Some(stated) };
        // A call larger than an interval's share passes when that share is whole, and the next ones wait for it.
        let enforced = enforced.wait(now, cost.min(enforced.capacity()))?;
        Some(stated.max(enforced))
    }

    /// The same for one who leaves `others` of this window to others, as far as `cost` fits beside it. A token bucket, which
    /// refills for all, has no such share.
    pub fn wait_leaving(&self, now: FleetTime, cost: Milli, others: Milli) -> Option<Span> {
        let cost = match &self.stated {
            Gauge::Window(window) if cost <= window.limit => (cost + others).min(window.limit),
            _ => cost,
        };
        self.wait(now, cost)
    }

    /// When the present window ends, where there are windows.
    pub fn window_end(&self, now: FleetTime) -> Option<FleetTime> {
        match &self.stated {
            Gauge::Bucket(_) => None,
            Gauge::Window(window) => Some(now + window.ends_in(now)),
        }
    }

    /// Takes `cost`, whether it fits or not; the caller asked [`Meter::wait`] first.
    pub fn take(&mut self, now: FleetTime, cost: Milli) {
        match &mut self.stated {
            Gauge::Bucket(bucket) => bucket.take(now, cost),
            Gauge::Window(window) => window.take(now, cost),
        }
        if let Some(enforced) = &mut self.enforced {
            enforced.take(now, cost);
        }
    }

    /// Takes `cost` or whatever is left of it: how providers charge calls that they refuse.
    pub fn waste(&mut self, now: FleetTime, cost: Milli) {
        match &mut self.stated {
            Gauge::Bucket(bucket) => bucket.waste(now, cost),
            Gauge::Window(window) => window.waste(now, cost),
        }
        if let Some(enforced) = &mut self.enforced {
            enforced.waste(now, cost);
        }
    }

    /// Another consumer takes `wanted`, or what there is of it.
    pub fn drain(&mut self, now: FleetTime, wanted: Milli) {
        let there = match &self.stated {
            Gauge::Bucket(bucket) => bucket.level(now),
            Gauge::Window(window) => window.left(now),
        };
        self.drained.wanted += wanted;
        self.drained.got += wanted.min(there.at_least_zero());
        self.waste(now, wanted);
    }

    /// What another consumer took so far.
    pub fn drained(&self) -> Drained {
        self.drained
    }

    /// Corrects what was charged at `charged`: more when positive, given back when negative. A window that has ended keeps what
    /// was charged in it.
    pub fn settle(&mut self, charged: FleetTime, now: FleetTime, change: Milli) {
        match &mut self.stated {
            Gauge::Bucket(bucket) => bucket.settle(now, change),
            Gauge::Window(window) => window.settle(charged, now, change),
        }
        if let Some(enforced) = &mut self.enforced {
            enforced.settle(now, change);
        }
    }

    /// Another limit of the same meter and window from `now` on: keeps what is left as far as it fits.
    pub fn change(&mut self, now: FleetTime, limit: &Limit) {
        match &mut self.stated {
            Gauge::Bucket(bucket) => bucket.change(now, limit, limit.capacity()),
            Gauge::Window(window) => window.limit = Milli::from_units(limit.units),
        }
        if let (Some(enforced), Metering::EnforcedEvery { interval }) = (&mut self.enforced, limit.metering) {
            enforced.change(now, limit, share_of(limit, interval));
        }
        self.limit = limit.clone();
    }

    /// What it tells, which leaves a shorter enforced interval out.
    pub fn reading(&self, now: FleetTime) -> Reading {
        let (remaining, reset_in, reset_means) = match &self.stated {
            Gauge::Bucket(bucket) => (bucket.level(now), bucket.full_in(now), ResetMeans::Full),
            Gauge::Window(window) => (window.left(now), window.ends_in(now), ResetMeans::Window),
        };
        Reading {
            meter: self.limit.meter.clone(),
            limit: self.limit.units,
            window: self.limit.per,
            remaining: remaining.as_units_floor(),
            reset_in,
            reset_means,
        }
    }
}

/// An interval's share of a limit, at least one unit.
fn share_of(limit: &Limit, interval: Span) -> Milli {
    let share = i128::from(Milli::from_units(limit.units).as_milli()) * i128::from(interval.as_micros())
        / i128::from(limit.per.as_micros().max(1));
    Milli::from_milli(clamped(share)).max(Milli::from_units(1)).min(limit.capacity())
}

#[derive(Clone, Debug)]
struct TokenBucket {
    /// Scaled by `window_us`, as `level`.
    capacity: i128,
    level: i128,
    /// Milli-units per window, which is scaled units per microsecond.
    refill: i128,
    window_us: i128,
    at: FleetTime,
}

impl TokenBucket {
    fn new(limit: &Limit, capacity: Milli) -> Self {
        let window_us = i128::from(limit.per.as_micros().max(1));
        let capacity = i128::from(capacity.as_milli()) * window_us;
        let refill = i128::from(Milli::from_units(limit.units).as_milli().max(1));
        Self { capacity, level: capacity, refill, window_us, at: FleetTime::ZERO }
    }

    fn capacity(&self) -> Milli {
        Milli::from_milli(clamped(self.capacity / self.window_us))
    }

    fn scaled_level(&self, now: FleetTime) -> i128 {
        let gained = i128::from(now.since(self.at).as_micros()) * self.refill;
        (self.level + gained).min(self.capacity)
    }

    fn level(&self, now: FleetTime) -> Milli {
        Milli::from_milli(clamped(self.scaled_level(now).div_euclid(self.window_us)))
    }

    fn full_in(&self, now: FleetTime) -> Span {
        self.time_to_earn(self.capacity - self.scaled_level(now))
    }

    fn wait(&self, now: FleetTime, cost: Milli) -> Option<Span> {
        let cost = i128::from(cost.as_milli()) * self.window_us;
        (cost <= self.capacity).then(|| self.time_to_earn(cost - self.scaled_level(now)))
    }

    fn take(&mut self, now: FleetTime, cost: Milli) {
        self.level = self.scaled_level(now) - i128::from(cost.as_milli()) * self.window_us;
        // A clock that went back earns nothing twice.
        self.at = self.at.max(now);
    }

    fn waste(&mut self, now: FleetTime, cost: Milli) {
        let before = self.scaled_level(now);
        self.take(now, cost);
        self.level = self.level.max(before.min(0));
    }

    fn settle(&mut self, now: FleetTime, change: Milli) {
        self.take(now, change);
        self.level = self.level.min(self.capacity);
    }

    fn change(&mut self, now: FleetTime, limit: &Limit, capacity: Milli) {
        self.take(now, Milli::ZERO);
        let changed = Self::new(limit, capacity);
        *self = Self { level: self.level.min(changed.capacity), at: self.at, ..changed };
    }

    /// Rounded up: after it, the amount is there.
    fn time_to_earn(&self, scaled: i128) -> Span {
        if scaled <= 0 {
            return Span::ZERO;
        }
        Span::from_micros(clamped((scaled + self.refill - 1) / self.refill))
    }
}

#[derive(Clone, Debug)]
struct FixedWindow {
    limit: Milli,
    window_us: i64,
    phase_us: i64,
    /// Number of the window that `used` counts.
    index: i64,
    used: Milli,
}

impl FixedWindow {
    fn new(limit: &Limit, phase: Span) -> Self {
        let window_us = limit.per.as_micros().max(1);
        let phase_us = phase.as_micros().rem_euclid(window_us);
        Self { limit: Milli::from_units(limit.units), window_us, phase_us, index: i64::MIN, used: Milli::ZERO }
    }

    /// The window `now` is in; a clock that went back stays in the window it had reached.
    fn index_at(&self, now: FleetTime) -> i64 {
        self.index_of(now).max(self.index)
    }

    fn index_of(&self, at: FleetTime) -> i64 {
        at.as_micros().saturating_sub(self.phase_us).div_euclid(self.window_us)
    }

    fn left(&self, now: FleetTime) -> Milli {
        if self.index_at(now) == self.index { self.limit - self.used } else { self.limit }
    }

    fn ends_in(&self, now: FleetTime) -> Span {
        let end = i128::from(self.index_at(now)) * i128::from(self.window_us)
            + i128::from(self.window_us)
            + i128::from(self.phase_us);
        FleetTime::from_micros(clamped(end)).since(now)
    }

    fn wait(&self, now: FleetTime, cost: Milli) -> Option<Span> {
        if cost > self.limit {
            return None;
        }
        Some(if cost <= self.left(now) { Span::ZERO } else { self.ends_in(now) })
    }

    fn take(&mut self, now: FleetTime, cost: Milli) {
        let left = self.left(now);
        self.index = self.index_at(now);
        self.used = self.limit - left + cost;
    }

    fn waste(&mut self, now: FleetTime, cost: Milli) {
        let left = self.left(now);
        self.take(now, cost);
        // A limit that was cut, or output charged late, may have been overdrawn before.
        self.used = self.used.min(self.limit.max(self.limit - left));
    }

    fn settle(&mut self, charged: FleetTime, now: FleetTime, change: Milli) {
        let of_this_window = self.index_of(charged) == self.index_at(now);
        if change > Milli::ZERO || of_this_window {
            self.take(now, change);
        }
    }
}

fn clamped(wide: i128) -> i64 {
    i64::try_from(wide).unwrap_or(if wide < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
#[path = "meter_laws.rs"]
mod laws;
