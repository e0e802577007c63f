//! What is remembered of who had how much: the part of fairness that lives in the shared value, so that a hand-over between
//! replicas keeps it.
//!
//! Two questions, two accounts. *Between classes*, per bucket and in its own units: what a class with a guarantee is owed of
//! what went to the others while it waited, and how far one with a `max_share` is over it. *Between tenants and groups*:
//! start-time fair queueing (Goyal, Vin, Cheng 1996): who has had the least service for its weight is next, and whoever was
//! away begins where the others are. Both count service rendered and not time, so they need no belief about rates, and a
//! standstill changes nothing.

use crate::bucket::BucketState;
use crate::plan::{Class, ClassPolicy};
use crate::units::{FleetTime, Milli, Span};

/// The most lanes whose turns are remembered in a scope: 64, and 16 that share the rest by hash.
pub const MOST_LANE_TURNS: usize = 80;
/// For so long after somebody of a class was last seen waiting for a bucket, the class counts as waiting for it: callers with a
/// ticket come and go, and other replicas' callers are not seen here.
pub const LINGER: Span = Span::from_secs(3);
/// A lane that nobody has used for so long is forgotten.
const FORGET_AFTER: Span = Span::from_secs(60);
/// How much refill a class may be owed beyond its next call.
const SPARE: Span = Span::from_millis(100);
/// From so much refill on a call's units are kept for it while its guarantee grows; smaller calls have no need of it.
const KEPT_FROM: Span = Span::from_secs(1);
/// How much unused share may be saved up, in refill of the bucket.
const SAVED_UP: Span = Span::from_secs(2);
/// And in calls of the size that others have just had.
const SAVED_UP_CALLS: i64 = 8;

/// How much a lane has had for its weight: nanoseconds that its scarcest bucket needs to refill it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Turn(i64);

impl Turn {
    /// From nanoseconds of service per unit of weight; never negative.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(if nanos < 0 { 0 } else { nanos })
    }

    /// Nanoseconds of service per unit of weight.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// After `service` for `weight`.
    pub fn after(self, service: Service, weight: u64) -> Self {
        let per_weight = service.0 / i64::try_from(weight.max(1)).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(per_weight.max(1)))
    }
}

/// What one call takes, comparable over buckets: nanoseconds of the scarcest one's refill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Service(i64);

impl Service {
    /// One call where no limit is known: a call is a call.
    pub const ONE_CALL: Self = Self(1_000_000_000);
    /// No call counts for more: a month of refill.
    const MOST: i128 = 31 * 86_400 * 1_000_000_000;

    /// `cost` in a bucket: the time in which it refills; where units are held, the part of what there is, in seconds. Nothing
    /// while no limit is known.
    pub fn of(bucket: &BucketState, cost: Milli) -> Self {
        let cost = i128::from(cost.as_milli().max(0));
        let nanos = match (bucket.rate(), bucket.capacity()) {
            (Some(rate), _) => cost * i128::from(rate.per.as_micros()) * 1_000 / i128::from(rate.limit.as_milli().max(1)),
            (None, Some(capacity)) => cost * 1_000_000_000 / i128::from(capacity.as_milli().max(1)),
            (None, None) => 0,
        };
        Self(i64::try_from(nanos.clamp(0, Self::MOST)).unwrap_or(0))
    }
}

/// What one class has coming in one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassTurn {
    /// Until when the class counts as waiting for this bucket.
    pub waits_until: FleetTime,
    /// Units of its guarantee that it has not had yet; with enough for its next call it goes first. Nothing while it does not
    /// wait: who is idle brings back no credit.
    pub owed: Milli,
    /// Units it has had beyond its `max_share`; above nothing it goes last, below nothing are units it saved up.
    pub over: Milli,
    /// The turn of the group of this class that was served last here: where groups begin that come to compete for the bucket.
    pub clock: Turn,
}

impl ClassTurn {
    /// Whether the class waits for the bucket.
    pub fn waits(&self, now: FleetTime) -> bool {
        self.waits_until > now
    }
}

/// What the classes have coming in one bucket, by [`Class::index`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassTurns(pub [ClassTurn; 3]);

impl ClassTurns {
    /// What a class has coming.
    pub fn of(&self, class: Class) -> &ClassTurn {
        let [interactive, normal, batch] = &self.0;
        match class {
            Class::Interactive => interactive,
            Class::Normal => normal,
            Class::Batch => batch,
        }
    }

    /// What a class has coming.
    pub fn of_mut(&mut self, class: Class) -> &mut ClassTurn {
        let [interactive, normal, batch] = &mut self.0;
        match class {
            Class::Interactive => interactive,
            Class::Normal => normal,
            Class::Batch => batch,
        }
    }

    /// Somebody of this class waits for the bucket now. What is owed from before it went away is forgotten.
    pub fn wait(&mut self, class: Class, now: FleetTime) {
        let turn = self.of_mut(class);
        if !turn.waits(now) {
            turn.owed = Milli::ZERO;
        }
        turn.waits_until = now + LINGER;
    }

    /// Whether a class other than this one waits.
    pub fn others_wait(&self, class: Class, now: FleetTime) -> bool {
        Class::ALL.into_iter().any(|other| other != class && self.of(other).waits(now))
    }

    /// Whether a call of `class` that costs `cost` here goes before all others: its class's guarantee covers it.
    pub fn is_owed(&self, class: Class, cost: Milli, now: FleetTime) -> bool {
        let turn = self.of(class);
        cost > Milli::ZERO && turn.waits(now) && turn.owed >= cost && self.others_wait(class, now)
    }

    /// Whether `class` has had its `max_share` while others wait.
    pub fn is_over(&self, class: Class, now: FleetTime) -> bool {
        self.of(class).over > Milli::ZERO && self.others_wait(class, now)
    }

    /// A call of `class` took `cost`; `saved_up`: how many units an unused share may come to; `most`: the largest cost there is.
    pub fn served(
        &mut self,
        class: Class,
        cost: Milli,
        policies: &[ClassPolicy; 3],
        saved_up: Milli,
        most: Milli,
        now: FleetTime,
    ) {
        if cost <= Milli::ZERO {
            return;
        }
        let least = Milli::ZERO - saved_up.max(Milli::from_milli(cost.as_milli().saturating_mul(SAVED_UP_CALLS)));
        let contested = Class::ALL.map(|other| self.others_wait(other, now));
        let turns = policies.iter().zip(&mut self.0).zip(Class::ALL).zip(contested);
        for (((policy, turn), other), others_wait) in turns {
            let taken = if other == class { cost } else { Milli::ZERO };
            if turn.waits(now) {
                turn.owed = (turn.owed + policy.guarantee.of(cost) - taken).at_least_zero().min(most);
            }
            // Its share is one of all that goes while others wait, whether or not it wants anything itself just then.
            if others_wait {
                turn.over = (turn.over + taken - policy.max_share.of(cost)).max(least);
            }
        }
    }
}

impl BucketState {
    /// No class is owed much more than its next call costs, `need`: what a call that left had coming is nobody's. A little more
    /// stays, for slots that were firm when its turn came.
    pub(crate) fn settle_owed(&mut self, class: Class, need: Milli, now: FleetTime) {
        let spare = self.rate().map_or(need, |rate| rate.gained_in(SPARE)).max(Milli::from_milli(need.as_milli() / 4));
        let turn = self.classes.of_mut(class);
        turn.owed = if turn.waits(now) { turn.owed.min(need + spare) } else { Milli::ZERO };
    }

    /// Units that are kept in the bucket for a call of `class` that costs `cost`: what its class is owed.
    pub(crate) fn kept_for(&self, class: Class, cost: Milli, now: FleetTime) -> Milli {
        let is_large = self.rate().is_some_and(|rate| rate.time_for(cost) > KEPT_FROM);
        // A window's units cannot be kept beyond its end, and held ones come back one by one.
        let can_keep = is_large && !self.is_windowed() && !self.spreading;
        if !can_keep || !self.classes.others_wait(class, now) || !self.classes.of(class).waits(now) {
            return Milli::ZERO;
        }
        self.classes.of(class).owed.min(cost)
    }

    /// Notes for the classes what a call took.
    pub(crate) fn note_served(&mut self, class: Class, cost: Milli, policies: &[ClassPolicy; 3], now: FleetTime) {
        let saved_up = self.rate().map_or(Milli::ZERO, |rate| rate.gained_in(SAVED_UP));
        let most = self.capacity().unwrap_or(Milli::MAX);
        self.classes.served(class, cost, policies, saved_up, most, now);
    }
}

/// The turn of one lane; the lane is named by a hash of its tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneTurn {
    /// Which.
    pub lane: u64,
    /// Where it goes on.
    pub turn: Turn,
    /// When it was last served.
    pub at: FleetTime,
}

/// The lanes of one class in one group: a *crew*.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrewTurn {
    /// Where the crew goes on among those of other groups, on a bucket they share.
    pub turn: Turn,
    /// The turn of the lane that was served last: where lanes begin that were away.
    pub clock: Turn,
    /// The lanes that are further than that. Nothing is kept of a crew with one lane.
    pub lanes: Vec<LaneTurn>,
}

impl CrewTurn {
    /// Where a lane goes on.
    pub fn start_of(&self, lane: u64) -> Turn {
        self.lanes.iter().find(|known| known.lane == lane).map_or(self.clock, |known| known.turn.max(self.clock))
    }

    /// Whether anything is remembered of single lanes.
    pub fn has_lanes(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// A lane was served; `alone`: no other lane of the crew has anybody waiting, so that whoever comes begins behind it.
    /// `room`: how many more lanes may be remembered.
    pub fn served(&mut self, lane: u64, service: Service, weight: u64, alone: bool, room: usize, now: FleetTime) {
        let start = self.start_of(lane);
        let end = start.after(service, weight);
        self.clock = self.clock.max(if alone { end } else { start });
        let clock = self.clock;
        self.lanes.retain(|known| known.lane != lane && known.turn > clock && now.since(known.at) < FORGET_AFTER);
        if end > clock {
            if self.lanes.len() >= MOST_LANE_TURNS || room == 0 {
                // The one that is least ahead loses least.
                let least = self.lanes.iter().enumerate().min_by_key(|(_, known)| known.turn).map(|(index, _)| index);
                match least {
                    Some(index) => drop(self.lanes.swap_remove(index)),
                    None => return,
                }
            }
            self.lanes.push(LaneTurn { lane, turn: end, at: now });
        }
    }

    /// Forgets lanes that nobody has used for a minute.
    pub fn forget(&mut self, now: FleetTime) {
        self.lanes.retain(|known| now.since(known.at) < FORGET_AFTER);
    }
}

/// What the lanes of a group have had, by [`Class::index`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrewTurns(pub [CrewTurn; 3]);

impl CrewTurns {
    /// The crew of a class.
    pub fn of(&self, class: Class) -> &CrewTurn {
        let [interactive, normal, batch] = &self.0;
        match class {
            Class::Interactive => interactive,
            Class::Normal => normal,
            Class::Batch => batch,
        }
    }

    /// The crew of a class.
    pub fn of_mut(&mut self, class: Class) -> &mut CrewTurn {
        let [interactive, normal, batch] = &mut self.0;
        match class {
            Class::Interactive => interactive,
            Class::Normal => normal,
            Class::Batch => batch,
        }
    }

    /// How many lanes are remembered.
    pub fn remembered(&self) -> usize {
        self.0.iter().map(|crew| crew.lanes.len()).sum()
    }
}

/// The name of a lane in the value: FNV-1a with 64 bits (<http://www.isthe.com/chongo/tech/comp/fnv/>) of its tenant. The same on
/// every replica; two tenants with the same hash would share a turn.
pub fn lane_hash(tenant: &str) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    tenant.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: FleetTime = FleetTime::from_secs(1_800_000_000);
    const CALL: Service = Service::ONE_CALL;

    fn policies() -> [ClassPolicy; 3] {
        Class::ALL.map(ClassPolicy::default_of)
    }

    #[test]
    fn who_was_away_begins_where_the_others_are() {
        let mut crew = CrewTurn::default();
        for _ in 0..10 {
            crew.served(1, CALL, 1, false, 9, NOW);
            crew.served(2, CALL, 1, false, 9, NOW);
        }
        assert_eq!(crew.start_of(3), crew.clock, "a lane nobody knows");
        assert!(crew.start_of(3) < crew.start_of(1), "and yet it is next");
    }

    #[test]
    fn of_one_lane_nothing_is_kept() {
        let mut crew = CrewTurn::default();
        for _ in 0..10 {
            crew.served(1, CALL, 1, true, 9, NOW);
        }
        assert!(!crew.has_lanes());
        assert_eq!(crew.start_of(2), crew.start_of(1), "whoever comes is level with it");
    }

    #[test]
    fn no_more_lanes_are_remembered_than_there_is_room() {
        let mut crew = CrewTurn::default();
        for lane in 0..1_000 {
            crew.served(lane, CALL, 1, false, MOST_LANE_TURNS.saturating_sub(crew.lanes.len()), NOW);
        }
        assert_eq!(crew.lanes.len(), MOST_LANE_TURNS);
        crew.forget(NOW + Span::from_secs(60));
        assert!(!crew.has_lanes(), "and after a minute none");
    }

    #[test]
    fn a_guarantee_grows_with_what_the_others_get() {
        let mut turns = ClassTurns::default();
        let call = Milli::from_units(1);
        turns.wait(Class::Batch, NOW);
        turns.wait(Class::Interactive, NOW);
        for _ in 0..19 {
            turns.served(Class::Interactive, call, &policies(), Milli::ZERO, Milli::MAX, NOW);
        }
        assert!(!turns.is_owed(Class::Batch, call, NOW), "19 of 20");
        turns.served(Class::Interactive, call, &policies(), Milli::ZERO, Milli::MAX, NOW);
        assert!(turns.is_owed(Class::Batch, call, NOW));
        turns.wait(Class::Batch, NOW + Span::from_secs(4));
        assert_eq!(turns.of(Class::Batch).owed, Milli::ZERO, "an idle class brings back no credit");
    }

    #[test]
    fn a_class_above_its_share_yields_only_while_others_wait() {
        let mut turns = ClassTurns::default();
        let call = Milli::from_units(1);
        turns.wait(Class::Interactive, NOW);
        turns.served(Class::Interactive, call, &policies(), Milli::ZERO, Milli::MAX, NOW);
        assert!(!turns.is_over(Class::Interactive, NOW), "alone it takes all");
        turns.wait(Class::Batch, NOW);
        turns.served(Class::Interactive, call, &policies(), Milli::ZERO, Milli::MAX, NOW);
        assert!(turns.is_over(Class::Interactive, NOW));
        turns.served(Class::Batch, call, &policies(), Milli::ZERO, Milli::MAX, NOW);
        assert!(!turns.is_over(Class::Interactive, NOW), "half each");
        assert!(!turns.is_over(Class::Interactive, NOW + LINGER), "and nobody waits any more");
    }

    /// Who asks rarely and is served at once never waits, and has its share of what goes meanwhile all the same.
    #[test]
    fn a_share_is_one_of_all_that_goes_while_others_wait() {
        let mut turns = ClassTurns::default();
        let call = Milli::from_units(1);
        turns.wait(Class::Batch, NOW);
        for _ in 0..10 {
            for _ in 0..4 {
                turns.served(Class::Batch, call, &policies(), call, Milli::MAX, NOW);
            }
            turns.served(Class::Interactive, call, &policies(), call, Milli::MAX, NOW);
            assert!(!turns.is_over(Class::Interactive, NOW), "a fifth is no half");
        }
    }

    #[test]
    fn weights_divide_service() {
        assert_eq!(Turn::default().after(CALL, 4).as_nanos() * 4, Turn::default().after(CALL, 1).as_nanos());
        assert!(Turn::from_nanos(i64::MAX).after(CALL, 1) >= Turn::from_nanos(i64::MAX), "saturates");
        assert!(Turn::default().after(Service::default(), 1_000) > Turn::default(), "a free call counts too");
    }

    #[test]
    fn names_hash_the_same_everywhere() {
        assert_eq!(lane_hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(lane_hash("a"), 0xaf63_dc4c_8601_ec8c);
    }
}
