//! Buckets that come back all at once: when a window ends, what follows it, and what a first one holds.
//!
//! A window has no phase (until its first grant, or a header), or ends with a calendar's days. It is turned by the first call that
//! is sent behind its end, once, whatever instant its end is said to be meanwhile.

use crate::bucket::BucketState;
use crate::calendar;
use crate::level::{Level, Rate};
use crate::pacing::guard;
use crate::plan::{BucketPlan, Refill, StartLevel};
use crate::units::{FleetTime, Milli, Span};

/// From this window on nobody waits for even units: a first window holds what is probably left of it.
const LONG: Span = Span::from_secs(3_600);

impl BucketState {
    /// Whether `time` lies behind the current window (also when there is none yet).
    pub fn window_is_over(&self, time: FleetTime) -> bool {
        time >= self.window_end
    }

    /// Whether a reset that nobody explains is all that speaks for windows.
    pub(crate) fn only_may_be_windowed(&self) -> bool {
        self.plan.refill.is_none() && self.learned.named_end.is_some() && !self.learned.ends_stand
    }

    /// Gives a known but unseen bucket its first level: all of it, or a cautious part of it.
    ///
    /// Cautious is one second of refill, at least one call of `cost`: nobody knows who used it a moment ago. Of a window of an
    /// hour or more it is the part that is probably left (of a calendar's day, as much as of the day; else half), because even
    /// units of a day are no use to anybody, and a wrong guess costs one refusal that says so.
    pub fn start(&mut self, now: FleetTime, cost: Milli) {
        let Some(rate) = self.rate() else { return };
        if self.started {
            return self.doubt_what_is_old(now, cost);
        }
        self.place_window(now);
        let first = match self.plan.start {
            StartLevel::Full => rate.capacity,
            StartLevel::Cautious => self.cautious_level(now, cost, &rate),
        };
        self.start_with(first, now, cost);
    }

    /// The first level of a bucket that may have been in use before (its state was lost or damaged): one second of refill, at
    /// least one call, whatever its window and whatever a person said of the start (I-10). One that would start with no more is
    /// left to its first call.
    pub fn start_after_loss(&mut self, now: FleetTime) {
        let Some(rate) = self.rate() else { return };
        let would_anyway = self.plan.start == StartLevel::Cautious && !(self.is_windowed() && rate.per >= LONG);
        if self.started || would_anyway {
            return;
        }
        self.place_window(now);
        let first = rate.gained_in(Span::from_secs(1)).max(Milli::from_units(1)).min(rate.capacity);
        let is_windowed = self.is_windowed();
        let one = Milli::from_units(1);
        self.start_with(first, now, one);
        self.doubt(now, one);
        self.spreading = is_windowed;
    }

    /// A calendar's window that nobody has told of is the one that `now` lies in.
    pub(crate) fn place_window(&mut self, now: FleetTime) {
        if let Some(calendar) = self.plan.calendar.as_ref().filter(|_| self.observed.is_none()) {
            self.window_end = calendar.end_after(now);
        }
    }

    /// Another calendar takes over the window as it is: its end is where the new one says, and nothing refills before. A window
    /// that is over already ends by the old one, or its turn would be lost.
    pub(crate) fn adopt_calendar(&mut self, plan: &BucketPlan, now: FleetTime) {
        if plan.calendar == self.plan.calendar || !self.started {
            return;
        }
        if let Some(rate) = self.rate().filter(|_| self.effective().refill == Refill::Window) {
            self.turn(now, &rate, Milli::ZERO);
        }
        self.plan.calendar.clone_from(&plan.calendar);
        self.place_window(now);
    }

    /// Whether it comes back all at once, an hour or more from now: a refusal that does not say what it was about, and asks to wait
    /// for less, is hardly about this one.
    pub(crate) fn is_long_window(&self) -> bool {
        let effective = self.effective();
        effective.refill == Refill::Window && effective.per >= LONG
    }

    /// When the current window began; meaningless before there is one.
    pub(crate) fn window_start(&self, rate: &Rate) -> FleetTime {
        match &self.plan.calendar {
            Some(calendar) => calendar.start_before(self.window_end),
            None => self.window_end - rate.per,
        }
    }

    /// Whether an end that somebody states is the one that a calendar's window began with: whoever says so has a slower clock, and
    /// the figures are of the window before.
    pub(crate) fn is_passed_boundary(&self, end: FleetTime, rate: &Rate) -> bool {
        self.plan.calendar.is_some() && end < self.window_end && calendar::is_same_boundary(end - self.window_start(rate))
    }

    /// Turns to the window in which `send` lies.
    pub(crate) fn turn(&mut self, send: FleetTime, rate: &Rate, cost: Milli) {
        if self.window_end == FleetTime::ZERO {
            self.window_end = self.plan.calendar.as_ref().map_or(send + rate.per, |calendar| calendar.end_after(send));
            self.opens_at = FleetTime::ZERO;
            return;
        }
        if !self.window_is_over(send) {
            return;
        }
        let start = self.window_start_at_or_after_end(send, rate);
        (self.spreading, self.lowest) = (false, None);
        self.window_end = self.plan.calendar.as_ref().map_or(start + rate.per, |calendar| calendar.end_following(start));
        self.opens_at = start + guard(rate.per);
        self.level = Level::new(rate.capacity, send);
        self.fired_at_turn = self.fired.saturating_sub(cost.as_milli());
    }

    /// The start of the window that holds at `time`, if the stored one is over by then, else of the next one.
    pub(crate) fn window_start_at_or_after_end(&self, time: FleetTime, rate: &Rate) -> FleetTime {
        if let Some(calendar) = &self.plan.calendar {
            return calendar.last_end_at(self.window_end, time);
        }
        let per = rate.per.as_micros();
        let windows = (time - self.window_end).at_least_zero().as_micros() / per;
        self.window_end + Span::from_micros(windows.saturating_mul(per))
    }

    fn cautious_level(&self, now: FleetTime, cost: Milli, rate: &Rate) -> Milli {
        let least = rate.gained_in(Span::from_secs(1)).max(cost).min(rate.capacity);
        if !self.is_windowed() || rate.per < LONG {
            return least;
        }
        let left = self.plan.calendar.as_ref().map_or(500, |calendar| calendar.left_at(now, self.window_end));
        let whole = Milli::from_milli(rate.capacity.as_milli() / 1_000 * left);
        Milli::from_units(whole.as_units_floor()).max(least)
    }

    fn start_with(&mut self, first: Milli, now: FleetTime, cost: Milli) {
        self.started = true;
        self.spreading = self.plan.start == StartLevel::Cautious && self.is_windowed();
        self.fired_at_turn = self.fired;
        self.level = Level::new(first, now);
        self.trust_first(now, cost);
    }
}
