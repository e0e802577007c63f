//! How much passes where no header tells: measured from one refusal to the next.
//!
//! At a refusal the provider's bucket is empty. Between two such instants it let through exactly what refilled, whatever it
//! holds: so what was granted between two refused calls, less what was refused, over the time between them, is the refill that
//! is ours. No limit need be known for that, and what another consumer takes is left out of it by itself.
//!
//! Until a second refusal the first one gives a guess: a bucket holds a minute's worth, as most do, so that in `t` seconds
//! 60 + t seconds' worth went through. After a measurement the pace keeps to it, and later climbs, in steps that grow while nothing
//! is refused; each time it meets the same ceiling again it waits twice as long before it tries.
//!
//! A bucket that holds less than a minute's worth is full now and then below its rate, so less was counted than could have passed:
//! the pace that went through just before is kept then. And a provider that counts in windows stands still until one ends: what
//! passes is counted from the last call that was refused in that time.

use crate::backing::Backing;
use crate::bucket::BucketState;
use crate::level::{Level, Rate};
use crate::units::{FleetTime, Milli, Span};

/// Two refusals must lie so far apart to measure anything, and so many calls must have passed between them: at a refusal the bucket
/// holds anything less than the call's cost.
const APART: (Span, i64) = (Span::from_secs(1), 20);
/// Where so few pass that this takes minutes: a call that passed in a minute, beside so many that were refused, tells enough to
/// slow down. It is counted from the same refusal on until enough have passed. (In less than a minute a window may just have ended.)
const CRAWL: (Span, i64) = (MINUTE, 2);
/// A first refusal after so many calls tells of a bucket that was full.
const GUESS_FROM: i64 = 50;
/// How long the pace keeps to a ceiling before it climbs, and the longest.
const HOLD: (Span, Span) = (Span::from_secs(20), Span::from_secs(120));
/// How often a ceiling is climbed, a measured and a guessed one.
const STEP: Span = Span::from_secs(5);
const GUESS_STEP: Span = Span::from_secs(2);
/// Where few calls go, so many must have gone at a pace before it climbs, after a step and after a refusal.
const CALLS: (i64, i64) = (4, 8);
/// The highest step, in percent.
const HIGHEST_STEP: i64 = 50;
/// The pace before the last step stands where what was measured is less than this part of it.
const PART_OF_SUSTAINED: (i64, i64) = (7, 8);
/// The part of a silent bucket that is only sent paced.
const RESERVE_PART: i64 = 20;
/// So many calls are a crowd.
const CROWD: i64 = 20;
/// Two measurements that differ by less than this part are the same ceiling.
const SAME: i64 = 8;

const MINUTE: Span = Span::from_secs(60);

/// The pace that refusals have shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ceiling {
    /// Units a minute that we allow ourselves, in thousandths; zero: no refusal has shown any.
    pub allowed: Milli,
    /// The last measurement; zero: only guessed.
    pub measured: Milli,
    /// When the last refused call was sent; [`FleetTime::ZERO`]: none was.
    pub anchor_at: FleetTime,
    /// Its mark.
    pub anchor_mark: i64,
    /// What was refused of later leases, in thousandths.
    pub refused: Milli,
    /// Only a lease marked after this counts as another refusal.
    pub cut_mark: i64,
    /// Whether calls that went through were answered without a word about this bucket.
    pub is_silent: bool,
    /// When the current stretch of work began: the first call after a minute of rest.
    pub began_at: FleetTime,
    /// `fired` then.
    pub began_fired: i64,
    /// No climb before this.
    pub hold_until: FleetTime,
    /// How long the last hold was.
    pub hold: Span,
    /// Steps climbed since the last refusal.
    pub climbs: u32,
    /// When the stretch began that the last refusal but for repetitions ended.
    pub stretch_at: FleetTime,
    /// What passed in it, in thousandths.
    pub stretch_passed: Milli,
}

impl Ceiling {
    /// By how much the next step after `climbs` is higher, in percent: 1, 1, 2, 2, 4, ... from what was measured, 4, 8, 16, ... from
    /// a guess.
    fn step_after(&self, climbs: u32) -> i64 {
        let (first, doublings) = if self.measured == Milli::ZERO { (4, climbs) } else { (1, climbs / 2) };
        (first << doublings.min(8)).min(HIGHEST_STEP)
    }

    /// The pace that calls went through at before the last step.
    fn sustained(&self) -> Milli {
        match self.climbs.checked_sub(1) {
            None | Some(0) => Milli::ZERO,
            Some(last) => Milli::from_milli(self.allowed.as_milli() / (100 + self.step_after(last)) * 100),
        }
    }

    /// What speaks for it: a guess is one report, and each measurement that met the same ceiling doubled the hold.
    pub fn backing(&self) -> Backing {
        let met = self.hold.as_micros() / HOLD.0.as_micros();
        let measured = u32::try_from(met).unwrap_or(0).checked_ilog2().map_or(0, |doubled| doubled + 1);
        let reports = if self.allowed > Milli::ZERO { 1 + measured } else { 0 };
        Backing { at: self.anchor_at, reports }
    }

    /// What passes is counted from this refusal on.
    fn count_from(&mut self, call: Refused) {
        (self.anchor_at, self.anchor_mark, self.refused) = (call.sent_at, call.mark, Milli::ZERO);
    }
}

/// A refused call, as it concerns one bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    /// The lease's mark.
    pub(crate) mark: i64,
    /// What it was to cost.
    pub(crate) cost: Milli,
    /// When it was sent.
    pub(crate) sent_at: FleetTime,
    /// Whether it was sent although it was to wait.
    pub(crate) is_needless: bool,
}

impl BucketState {
    /// Learns from a refusal that tells nothing of this bucket.
    pub(crate) fn meet_ceiling(&mut self, call: Refused, now: FleetTime) {
        if self.is_held() || self.is_windowed() {
            return;
        }
        let Ceiling { anchor_at, anchor_mark, cut_mark, .. } = self.ceiling;
        if call.is_needless && self.told_rate().is_some() {
            // That more than a known limit does not pass says nothing of how much does.
            if anchor_at > FleetTime::ZERO && call.mark > anchor_mark {
                self.ceiling.refused += call.cost;
            }
            return;
        }
        if anchor_at == FleetTime::ZERO {
            return self.meet_first(call, now);
        }
        if call.mark <= anchor_mark {
            return; // granted before the last one: it repeats it
        }
        if anchor_at < self.ceiling.began_at {
            // After a minute's rest it was full, and less was counted than could have passed: begin anew.
            self.ceiling.count_from(call);
            self.ceiling.cut_mark = self.fired;
            return;
        }
        let refused = self.ceiling.refused;
        let passed = call.mark.saturating_sub(anchor_mark) - call.cost.as_milli() - refused.as_milli();
        let time = call.sent_at - anchor_at;
        self.ceiling.refused += call.cost;
        if call.mark <= cut_mark {
            return;
        }
        self.ceiling.cut_mark = self.fired;
        let sustained = self.ceiling.sustained();
        self.ceiling.climbs = 0;
        if passed <= 0 && self.stands_still(time, call.cost) {
            return self.stand_still(call, now);
        }
        let is_crawl = passed < call.cost.as_milli().saturating_mul(APART.1);
        let tells_of_crawl = passed >= call.cost.as_milli()
            && refused.as_milli() >= call.cost.as_milli().saturating_mul(CRAWL.1)
            && time >= CRAWL.0;
        if time < APART.0 || is_crawl && !tells_of_crawl {
            return;
        }
        // In units that calls turn out to use, as levels are.
        let measured = per_minute(self.expected_use(Milli::from_milli(passed)).as_milli(), time);
        // What is left over at either end makes this uncertain; a limit that it may be is left alone.
        let doubt = i128::from(measured.as_milli()) * i128::from(call.cost.as_milli()) / i128::from(passed);
        let doubt = i64::try_from(doubt).unwrap_or(i64::MAX);
        let most = measured.as_milli().saturating_add(doubt).saturating_add(doubt);
        let told = self.told_rate().map(|rate| rate.gained_in(MINUTE).as_milli());
        if self.ceiling.allowed == Milli::ZERO && told.is_some_and(|told| told <= most) {
            if is_crawl {
                return;
            }
            self.ceiling.count_from(call);
            return;
        }
        let counted = measured + Milli::from_milli(doubt);
        let is_short = counted.as_milli() < sustained.as_milli() / PART_OF_SUSTAINED.1 * PART_OF_SUSTAINED.0;
        let (measured, likely) = if is_short { (sustained, sustained) } else { (measured, counted) };
        let before = self.ceiling.measured;
        let is_same = (measured - before).as_milli().abs() <= before.as_milli() / SAME;
        let hold = if is_same { (self.ceiling.hold + self.ceiling.hold).min(HOLD.1) } else { HOLD.0 };
        // A refusal never makes anybody sooner (I-3): what is too low is climbed by calls that go through.
        let allowed = if self.ceiling.allowed > Milli::ZERO { likely.min(self.ceiling.allowed) } else { likely };
        (self.ceiling.allowed, self.ceiling.measured) = (allowed, measured);
        (self.ceiling.hold_until, self.ceiling.hold) = (now + self.for_calls(CALLS.1, call.cost, hold), hold);
        if is_crawl {
            return;
        }
        self.ceiling = Ceiling {
            anchor_at: call.sent_at,
            anchor_mark: call.mark,
            refused: Milli::ZERO,
            stretch_at: anchor_at,
            stretch_passed: Milli::from_milli(passed),
            ..self.ceiling
        };
    }

    fn meet_first(&mut self, call: Refused, now: FleetTime) {
        self.ceiling.anchor_at = call.sent_at;
        self.ceiling.anchor_mark = call.mark;
        self.ceiling.cut_mark = self.fired;
        if self.told_rate().is_some() {
            return; // a limit that was written or told stands until it is measured
        }
        let passed = call.mark.saturating_sub(self.ceiling.began_fired) - call.cost.as_milli();
        if passed < call.cost.as_milli().saturating_mul(GUESS_FROM) {
            return; // it was probably not full when we began
        }
        (self.ceiling.stretch_at, self.ceiling.stretch_passed) = (self.ceiling.began_at, Milli::from_milli(passed));
        let lasted = call.sent_at.since(self.ceiling.began_at) + MINUTE;
        self.ceiling.allowed = per_minute(self.expected_use(Milli::from_milli(passed)).as_milli(), lasted);
        self.ceiling.hold_until = now + STEP;
        self.started = true;
        self.level = Level::new(Milli::ZERO, now);
        self.trust_first(now, call.cost);
    }

    /// So long, or until so many calls have gone.
    fn for_calls(&self, calls: i64, cost: Milli, least: Span) -> Span {
        let all = self.expected_use(Milli::from_milli(cost.as_milli().saturating_mul(calls)));
        self.gross_rate().map_or(least, |rate| least.max(rate.time_for(all)))
    }

    /// Whether calls take what refills: at most a second of it is left, or two calls.
    fn is_in_use(&self, now: FleetTime) -> bool {
        let Some((rate, level)) = self.rate().zip(self.level_at(now)) else { return true };
        level <= rate.gained_in(Span::from_secs(1)).max(self.guess_cost() + self.guess_cost())
    }

    /// Whether nothing has passed for so long that a bucket which refills evenly would have let a crowd through: it is a window,
    /// and what passes is counted from its end on.
    fn stands_still(&self, time: Span, cost: Milli) -> bool {
        let expected = self.gross_rate().map_or(Milli::ZERO, |rate| rate.gained_in(time));
        expected.as_milli() >= cost.as_milli().saturating_mul(APART.1)
    }

    /// A window stands still until its end: what passed before it did is all there is for that time too. The next stretch begins
    /// here.
    fn stand_still(&mut self, call: Refused, now: FleetTime) {
        let Ceiling { stretch_at, stretch_passed, allowed, measured, hold, .. } = self.ceiling;
        self.ceiling.count_from(call);
        if allowed == Milli::ZERO || stretch_at == FleetTime::ZERO {
            return;
        }
        let used = self.expected_use(stretch_passed).as_milli();
        let over_all = per_minute(used, call.sent_at - stretch_at);
        self.ceiling.allowed = allowed.min(over_all);
        self.ceiling.measured = measured.min(over_all);
        self.ceiling.hold_until = now + hold.max(HOLD.0);
    }

    /// Whether many calls had passed when the last one was refused: a limit, and not a provider that refuses everything.
    pub(crate) fn was_passing(&self) -> bool {
        let Ceiling { anchor_at, anchor_mark, began_fired, .. } = self.ceiling;
        anchor_at != FleetTime::ZERO
            && anchor_mark.saturating_sub(began_fired) >= self.guess_cost().as_milli().saturating_mul(GUESS_FROM)
    }

    /// A call is sent at `send`, after a minute of rest or not.
    pub(crate) fn note_work(&mut self, send: FleetTime) {
        if self.ceiling.began_at == FleetTime::ZERO || send.since(self.trail.at) > MINUTE {
            (self.ceiling.began_at, self.ceiling.began_fired) = (send, self.fired);
        }
    }

    /// What a call that finds nobody waiting leaves in a bucket that no answer tells of: nobody knows who else uses it, and a
    /// crowd that takes the last of it at full speed is refused by the dozen. The rest comes paced.
    /// (Where that is less than a crowd there is no need.)
    pub(crate) fn reserve(&self, rate: &Rate, cost: Milli) -> Milli {
        let is_silent = self.ceiling.is_silent && self.learned.limit.is_none();
        let reserve = Milli::from_milli(rate.capacity.as_milli() / RESERVE_PART);
        let is_crowd = reserve.as_milli() >= cost.as_milli().saturating_mul(CROWD);
        if is_silent && is_crowd { reserve } else { Milli::ZERO }
    }

    /// A call of `cost` went through: after a while without a refusal the pace climbs, as long as calls really come at it.
    pub(crate) fn climb(&mut self, cost: Milli, now: FleetTime) {
        // Where nobody tells a limit we take our part of what passed, and nothing would tell us when the part was too large.
        let is_tried = !self.plan.ours.is_shared() || self.told_rate().is_some();
        if self.ceiling.allowed == Milli::ZERO || now < self.ceiling.hold_until || !self.is_in_use(now) || !is_tried {
            return;
        }
        let percent = self.ceiling.step_after(self.ceiling.climbs);
        self.ceiling.allowed += Milli::from_milli((self.ceiling.allowed.as_milli() / 100).saturating_mul(percent).max(1));
        self.ceiling.climbs = self.ceiling.climbs.saturating_add(1);
        let is_guess = self.ceiling.measured == Milli::ZERO;
        self.ceiling.hold_until = now + if is_guess { GUESS_STEP } else { self.for_calls(CALLS.0, cost, STEP) };
        let limit = self.told_rate().map(|rate| rate.gained_in(MINUTE));
        if limit.is_some_and(|limit| self.ceiling.allowed >= limit) {
            self.ceiling.allowed = Milli::ZERO;
        }
    }

    /// The rate where refusals have shown a ceiling: the lower of both, or the ceiling alone.
    pub(crate) fn under_ceiling(&self, told: Option<Rate>) -> Option<Rate> {
        if self.ceiling.allowed == Milli::ZERO {
            return told;
        }
        match told {
            Some(rate) if rate.gained_in(MINUTE) <= self.ceiling.allowed => Some(rate),
            Some(rate) => {
                let limit = Rate::new(self.ceiling.allowed, MINUTE, rate.capacity).gained_in(rate.per);
                Some(Rate::new(limit, rate.per, rate.capacity))
            }
            None => Some(Rate::new(self.ceiling.allowed, MINUTE, self.ceiling.allowed.max(Milli::from_units(1)))),
        }
    }
}

fn per_minute(milli: i64, time: Span) -> Milli {
    let scaled = i128::from(milli) * 60_000_000 / i128::from(time.as_micros().max(1));
    Milli::from_milli(i64::try_from(scaled).unwrap_or(i64::MAX).max(1))
}
