//! One bucket: what we believe the provider's bucket holds, and when it lets a call through.

use crate::backing::Backing;
use crate::ceiling::Ceiling;
use crate::controls::OverLimit;
use crate::drain::Drain;
use crate::fair::ClassTurns;
use crate::floor::Floor;
use crate::holds::Holds;
use crate::level::{Level, Rate};
use crate::plan::{BucketPlan, Refill};
use crate::shape::NamedEnd;
use crate::trail::Trail;
use crate::units::{FleetTime, Milli, Span};

/// The window of a bucket whose window nobody has told us.
pub const WINDOW_UNTIL_TOLD: Span = Span::from_secs(60);

/// A limit read from headers, and what speaks for changing it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// Units per window, if any header told.
    pub limit: Option<u64>,
    /// The window, if told or inferred.
    pub per: Option<Span>,
    /// Whether headers show windows (true) or a continuous refill (false).
    pub windowed: Option<bool>,
    /// A higher limit that reports have named, and how many agreed in a row.
    pub candidate: u64,
    /// Reports in a row that named `candidate`.
    pub agreeing: u8,
    /// The mark of the last lease that named `candidate`.
    pub candidate_mark: i64,
    /// What it holds, where answers show that this is less than its limit.
    pub brim: Option<u64>,
    /// Whether a reset that nobody explains has shown itself to be the time until full.
    pub ends_move: bool,
    /// Whether it has shown itself to be a window's end: it stood still while more than half of the limit was used.
    pub ends_stand: bool,
    /// An earlier answer with such a reset.
    pub named_end: Option<NamedEnd>,
    /// An earlier `remaining` and its time until full: the difference to a later one tells the refill, whatever it holds.
    pub anchor: Option<(u64, Span)>,
    /// The mark of the last lease whose answer named a reset far beyond the window that was known.
    pub far_mark: Option<i64>,
    /// What speaks for `limit`.
    pub backing: Backing,
}

/// No bursts for a while: the provider refused a call although its bucket had room for it, so it counts over a shorter time
/// than it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calm {
    /// Until then every call is paced by the refill alone.
    pub until: FleetTime,
    /// How long the calm was; the next one is four times as long.
    pub length: Span,
    /// Only a lease marked after this counts as another such refusal.
    pub mark: i64,
}

/// What was last observed of the provider's bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The mark of the lease whose answer it was.
    pub mark: i64,
    /// `remaining` as read.
    pub remaining: Milli,
    /// When the answer came.
    pub at: FleetTime,
    /// How many in a row have found the level about right.
    pub reports: u32,
}

/// The state of one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketState {
    /// What is configured for it (its identity included).
    pub plan: BucketPlan,
    /// What headers told about its limit.
    pub learned: Learned,
    /// The limit that a person said for a while, in place of both. Follows from the value's limits, and is not stored with the bucket.
    pub over: Option<OverLimit>,
    /// What it holds.
    pub level: Level,
    /// What may go back to back, where that is less than the capacity.
    pub burst: Level,
    /// The end of the current window; [`FleetTime::ZERO`]: phase unknown, the next grant starts one.
    pub window_end: FleetTime,
    /// Nothing is sent before this in the current window: the guard after a boundary.
    pub opens_at: FleetTime,
    /// Units granted since the beginning, in thousandths.
    pub fired: i64,
    /// Whether this is a first window seen from somewhere in its middle, with a cautious level: until it ends, its units come
    /// evenly, because handing out a second's worth and then nothing for a minute would help nobody.
    pub spreading: bool,
    /// `fired` when the current window began.
    pub fired_at_turn: i64,
    /// The next paced slot (calls that had to wait are spread).
    pub paced_until: FleetTime,
    /// The last observation.
    pub observed: Option<Observation>,
    /// The lowest figure of the current window.
    pub lowest: Option<Milli>,
    /// What a call typically turns out to cost here (moving average of settled usage); zero while unknown.
    pub typical: Milli,
    /// What those calls had reserved (moving average): with `typical` it tells how much of a reservation comes back.
    pub typical_reserved: Milli,
    /// Whether a level has been set: by a header, or by the start level.
    pub started: bool,
    /// Whether bursts are off.
    pub calm: Calm,
    /// What may go back to back, as far as calls have proven it; zero until the bucket has started.
    pub proven: Milli,
    /// What speaks for `proven`: calls that went through while little of it was left.
    pub proof: Backing,
    /// What was granted shortly before.
    pub trail: Trail,
    /// What others take.
    pub drain: Drain,
    /// What refusals have shown where no header tells.
    pub ceiling: Ceiling,
    /// The floor under everything that uses this bucket.
    pub floor: Option<Floor>,
    /// Units in use, for buckets without refill.
    pub holds: Holds,
    /// What the classes have coming here.
    pub classes: ClassTurns,
}

/// What a grant took from a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// `fired` right after.
    pub mark: i64,
    /// `fired` so long before that all of it has arrived by then.
    pub early: i64,
    /// The end of the window it was taken from.
    pub window_end: FleetTime,
}

/// How a bucket's effective limit came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveLimit {
    /// Units per window in force; `None`: unknown.
    pub limit: Option<u64>,
    /// The window in force.
    pub per: Span,
    /// The kind of refill in force.
    pub refill: Refill,
}

impl BucketState {
    /// A bucket that nobody has used yet.
    pub fn new(plan: BucketPlan) -> Self {
        Self {
            plan,
            learned: Learned::default(),
            over: None,
            level: Level::default(),
            burst: Level::default(),
            window_end: FleetTime::ZERO,
            opens_at: FleetTime::ZERO,
            fired: 0,
            spreading: false,
            fired_at_turn: 0,
            paced_until: FleetTime::ZERO,
            observed: None,
            lowest: None,
            typical: Milli::ZERO,
            typical_reserved: Milli::ZERO,
            started: false,
            calm: Calm::default(),
            proven: Milli::ZERO,
            proof: Backing::default(),
            trail: Trail::default(),
            drain: Drain::default(),
            ceiling: Ceiling::default(),
            floor: None,
            holds: Holds::default(),
            classes: ClassTurns::default(),
        }
    }

    /// The limit in force as the provider counts it: what a person said for a while, else the lower of configured and learned, or
    /// the learned one where headers may raise it. How much of it is ours: [`BucketState::our_limit`].
    pub fn effective(&self) -> EffectiveLimit {
        let guessed = Some(self.ceiling.allowed.as_units_floor().max(1)).filter(|_| self.ceiling.allowed > Milli::ZERO);
        let limit = match (self.plan.limit, self.learned.limit) {
            (None, None) => guessed,
            (Some(_), Some(learned)) if self.plan.learn_above => Some(learned),
            (Some(configured), Some(learned)) => Some(configured.min(learned)),
            (configured, learned) => configured.or(learned),
        };
        let refill = self.plan.refill.unwrap_or(match self.learned.windowed {
            Some(true) => Refill::Window,
            _ => Refill::Continuous,
        });
        let per = self.plan.per.or(self.learned.per).unwrap_or(WINDOW_UNTIL_TOLD);
        let over = self.over.as_ref().map(|over| over.within(per));
        EffectiveLimit { limit: over.or(limit), per, refill }
    }

    /// The rate in force: the refill that is ours. `None` while nothing is known, and for buckets without refill.
    pub fn rate(&self) -> Option<Rate> {
        self.gross_rate().map(|gross| self.our_part(gross))
    }

    /// The part of the limit in force that we take at most, whatever others take; `None`: unknown.
    pub fn our_limit(&self) -> Option<u64> {
        self.effective().limit.map(|limit| self.plan.ours.most_of_units(limit))
    }

    /// The refill as a whole, what others take included.
    pub(crate) fn gross_rate(&self) -> Option<Rate> {
        // What a person says is not doubted while it lasts.
        if self.over.is_some() { self.told_rate() } else { self.under_ceiling(self.told_rate()) }
    }

    /// The rate that a person said or wrote, or headers told.
    pub(crate) fn told_rate(&self) -> Option<Rate> {
        let effective = self.effective();
        if effective.refill == Refill::Held {
            return None;
        }
        let is_told = self.over.is_some() || self.plan.limit.is_some() || self.learned.limit.is_some();
        let limit = effective.limit.filter(|_| is_told)?;
        let capacity = match (self.plan.capacity, self.plan.limit) {
            // A capacity beside a limit scales with what is learned of that limit.
            (Some(capacity), Some(configured)) if limit < configured => {
                let scaled = u128::from(capacity) * u128::from(limit) / u128::from(configured.max(1));
                u64::try_from(scaled).unwrap_or(u64::MAX).max(1)
            }
            (Some(capacity), _) => capacity,
            (None, _) => self.learned.brim.map_or(limit, |brim| brim.min(limit)),
        };
        Some(Rate::new(Milli::from_units(limit), effective.per, Milli::from_units(capacity)))
    }

    /// The largest cost that ever fits; `None`: unknown.
    pub fn capacity(&self) -> Option<Milli> {
        match self.effective() {
            EffectiveLimit { refill: Refill::Held, .. } => self.our_limit().map(Milli::from_units),
            _ => self.rate().map(|rate| rate.capacity),
        }
    }

    /// Whether units come back by themselves.
    pub fn is_held(&self) -> bool {
        self.plan.refill == Some(Refill::Held)
    }

    /// Whether units come back all at once when a window turns (as opposed to evenly).
    pub fn is_windowed(&self) -> bool {
        !self.spreading && self.effective().refill == Refill::Window
    }

    /// Adopts another configuration: levels stay, never above the new capacity (a reload never refills a bucket).
    pub fn replan(&mut self, plan: &BucketPlan, now: FleetTime) {
        if self.plan == *plan {
            return;
        }
        if let Some(rate) = self.rate() {
            self.level.advance(now, &rate);
            self.burst.advance(now, &self.burst_rate(&rate));
        }
        self.adopt_calendar(plan, now);
        self.plan = plan.clone();
        self.clamp_to_capacity();
    }

    /// Sets the limit that a person said, or none: levels stay, never above the new capacity.
    pub(crate) fn set_over(&mut self, over: Option<OverLimit>, now: FleetTime) {
        if self.over == over {
            return;
        }
        if let Some(rate) = self.rate().filter(|_| self.started && !self.is_windowed()) {
            let burst = self.burst_rate(&rate);
            self.level.advance(now, &rate);
            self.burst.advance(now, &burst);
        }
        self.over = over;
        self.clamp_to_capacity();
    }

    /// Cuts levels to what the bucket can hold.
    pub fn clamp_to_capacity(&mut self) {
        if let Some(rate) = self.rate() {
            self.level.amount = self.level.amount.min(rate.capacity);
            self.burst.amount = self.burst.amount.min(self.burst_rate(&rate).capacity);
        }
    }

    /// The level at `time`; `None` while unknown. Buckets without refill: what is free.
    pub fn level_at(&self, time: FleetTime) -> Option<Milli> {
        if self.is_held() {
            return self.capacity().map(|capacity| capacity - self.holds.in_use(time));
        }
        let rate = self.rate()?;
        if !self.started {
            return None;
        }
        let full = self.window_end != FleetTime::ZERO && self.window_is_over(time);
        Some(match (self.is_windowed(), full && self.spreading) {
            (false, false) => self.level.at(time, &rate),
            (true, _) if !full => self.level.amount,
            _ => rate.capacity,
        })
    }

    /// Takes `cost` for a call to be sent at `send`, whose place in the paced line was `base`; returns the marks and the window.
    ///
    /// `kept`: so much of it had been kept in the bucket for this call, and holds up nobody behind it.
    pub fn take(
        &mut self,
        cost: Milli,
        kept: Milli,
        base: FleetTime,
        send: FleetTime,
        waited: bool,
        hold_until: FleetTime,
    ) -> Taken {
        self.note_work(send);
        let early = self.trail.step(send, self.fired, self.effective().per);
        self.fired = self.fired.saturating_add(cost.as_milli());
        if self.is_held() {
            self.holds.take(hold_until, cost);
            return Taken { mark: self.fired, early, window_end: FleetTime::ZERO };
        }
        let Some(rate) = self.rate().filter(|_| self.started) else {
            return Taken { mark: self.fired, early, window_end: FleetTime::ZERO };
        };
        if self.effective().refill == Refill::Window {
            self.turn(send, &rate, cost);
        }
        if self.is_windowed() {
            self.level.amount -= cost;
        } else {
            self.level.debit(send, cost, &rate);
        }
        let burst = self.burst_rate(&rate);
        let likely = self.likely_use(cost);
        self.burst.debit(send, likely, &burst);
        if waited {
            self.paced_until = self.paced_until.max(base) + self.gap(cost - kept, send);
        }
        Taken { mark: self.fired, early, window_end: self.window_end }
    }

    /// The latest instant at which anything here still matters, for the value's time to live.
    pub fn matters_until(&self, now: FleetTime) -> FleetTime {
        let full = match self.rate() {
            Some(rate) if self.started && !self.is_windowed() => self.level.reaches(rate.capacity, &rate).max(now),
            _ => now,
        };
        let floor = self.floor.map_or(FleetTime::ZERO, |floor| floor.until);
        let held = self.holds.slots().last().map_or(FleetTime::ZERO, |slot| slot.ends);
        full.max(self.window_end).max(self.paced_until).max(floor).max(held)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::plan::{BucketId, OurPart, Owner, StartLevel};

    fn bucket() -> BucketState {
        let name: Arc<str> = Arc::from("requests");
        BucketState::new(BucketPlan {
            id: BucketId { owner: Owner::Account, name: name.clone() },
            meter: name,
            limit: Some(600),
            per: Some(Span::from_secs(60)),
            capacity: None,
            burst: None,
            refill: Some(Refill::Continuous),
            calendar: None,
            start: StartLevel::Full,
            learn_above: false,
            ours: OurPart::default(),
        })
    }

    #[test]
    fn each_refusal_with_room_turns_bursts_off_four_times_longer() {
        let mut bucket = bucket();
        let mut now = FleetTime::from_secs(1_800_000_000);
        for length in [20, 80, 320, 900, 900] {
            bucket.fired += 1_000;
            bucket.calm_down(now, bucket.fired, Milli::from_units(1));
            assert_eq!(bucket.calm.until.since(now), Span::from_secs(length));
            // Refusals of calls that were granted before are no repetition.
            bucket.calm_down(now + Span::from_secs(1), bucket.fired, Milli::from_units(1));
            assert_eq!(bucket.calm.until.since(now), Span::from_secs(length));
            now = bucket.calm.until + Span::from_secs(1);
            assert!(!bucket.is_calm(now));
        }
        now = now + Span::from_secs(901);
        bucket.fired += 1_000;
        bucket.calm_down(now, bucket.fired, Milli::from_units(1));
        assert_eq!(bucket.calm.length, Span::from_secs(20), "long ago is forgotten");
    }

    #[test]
    fn a_debt_is_at_most_what_the_bucket_holds() {
        let mut bucket = bucket();
        let now = FleetTime::from_secs(1_800_000_000);
        bucket.start(now, Milli::from_units(1));
        bucket.shift_level(Milli::ZERO - Milli::from_units(1_000_000_000_000), now);
        assert_eq!(bucket.level_at(now), Some(Milli::ZERO - Milli::from_units(600)));
    }
}
