//! A scope's shared state as one value: all buckets, groups and floors of one (provider, account).

use std::sync::Arc;

use crate::amounts::Amounts;
use crate::breaker::Breaker;
use crate::bucket::BucketState;
use crate::controls::Limits;
use crate::exhausted::{Exhausted, LONGEST_INTERVAL};
use crate::fair::{CrewTurns, LINGER};
use crate::floor::Floor;
use crate::holds::Holds;
use crate::in_force::{InForce, Loaded, Meeting, meet};
use crate::leader::{LEADS_FOR, Leader};
use crate::lineage::Lineage;
use crate::plan::{BucketId, BucketPlan, GroupPlan, Refill};
use crate::provisional::Provisional;
use crate::tally::Tally;
use crate::units::{FleetTime, Milli, Span};
use crate::usage::{CallKind, Form, UsageBook};

/// From this many groups under a catch-all pattern on, further models share the group `other`.
pub const MOST_EACH_GROUPS: usize = 63;
/// The key of the group that further models share.
pub const OTHER_GROUP: &str = "other";
/// The most buckets a scope has; groups whose buckets no longer fit share `other`.
pub const MOST_BUCKETS: usize = 256;
/// Calls in flight that a group with no known limit starts with.
pub const RAMP_START: u32 = 4;

/// The state of one scope: everything that replicas share about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopeValue {
    /// The buckets; positions are stable while the value lives.
    pub buckets: Vec<BucketState>,
    /// The groups of models.
    pub groups: Vec<GroupState>,
    /// The floor under the whole account.
    pub floor: Option<Floor>,
    /// The last refusal that named no bucket: which group, and when (a second group within a moment: the account).
    pub last_refusal: Option<(Arc<str>, FleetTime)>,
    /// Fields that were out of bounds when the value was read and were reset.
    pub repaired: u64,
    /// When what was stored of this scope was lost or damaged; [`FleetTime::ZERO`]: never. Buckets that are new within their
    /// window after it may be old ones: they start cautiously, whatever the configuration says (I-10).
    pub lost_at: FleetTime,
    /// What calls turned out to use, and how long they ran.
    pub usage: UsageBook,
    /// The whole account is out of money or quota.
    pub exhausted: Option<Exhausted>,
    /// Long waits that one call alone has heard of.
    pub provisional: Vec<Provisional>,
    /// Whose commits it includes.
    pub lineage: Lineage,
    /// Which replica decides about it.
    pub leader: Option<Leader>,
    /// Whose configuration its limits come from.
    pub in_force: Option<InForce>,
    /// The limits that people have said for a while.
    pub limits: Limits,
    /// Whether buckets that are there keep their limits and are charged also where the plan lacks them, because the configuration
    /// in force is not the one read here. Says something of this replica, and is not stored.
    pub keeps_limits: bool,
}

/// The state of one group of models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupState {
    /// Its key.
    pub key: Arc<str>,
    /// Whether it came from a catch-all pattern (one group per model).
    pub is_each: bool,
    /// The floor under the group.
    pub floor: Option<Floor>,
    /// Calls granted so far; the value at a grant is the lease's mark.
    pub granted: u64,
    /// Refusals in a row that said nothing usable (one per cut).
    pub refusals: u32,
    /// Only a lease marked after this may count as the next refusal.
    pub cut_mark: u64,
    /// Calls in flight by expiry, one unit each.
    pub flights: Holds,
    /// How many calls may be in flight while no limit is known, in thousandths.
    pub ramp: Milli,
    /// Only a lease marked after this may cut the ramp again.
    pub ramp_cut_mark: u64,
    /// Whether the ramp has met a refusal: from then on it grows by one per round trip instead of doubling.
    pub ramp_met_refusal: bool,
    /// Whether the group began with no known limit and has met neither an empty bucket nor a floor since: what turns up in
    /// its buckets is then sent as fast as the ramp grows, instead of spread.
    pub is_starting: bool,
    /// Whether its service answers.
    pub breaker: Breaker,
    /// First attempts, retries and fallbacks of the last minutes.
    pub tally: Tally,
    /// The group is out of money or quota.
    pub exhausted: Option<Exhausted>,
    /// What its lanes have had.
    pub crews: CrewTurns,
}

impl GroupState {
    /// A group that nobody has used yet.
    pub fn new(key: Arc<str>, is_each: bool) -> Self {
        Self {
            key,
            is_each,
            floor: None,
            granted: 0,
            refusals: 0,
            cut_mark: 0,
            flights: Holds::default(),
            ramp: Milli::from_units(u64::from(RAMP_START)),
            ramp_cut_mark: 0,
            ramp_met_refusal: false,
            is_starting: false,
            breaker: Breaker::default(),
            tally: Tally::default(),
            exhausted: None,
            crews: CrewTurns::default(),
        }
    }
}

/// Where a plan's group and buckets lie in a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The plan as bound (its group may have become `other`, limits in force that it lacks were added).
    pub plan: Arc<GroupPlan>,
    /// Position of the group.
    pub group: usize,
    /// Positions of the plan's buckets, in the plan's order, those included that it lacks of the configuration in force.
    pub buckets: Vec<usize>,
}

impl ScopeValue {
    /// Finds the plan's group and buckets, creates what is missing and adopts a changed configuration.
    pub fn bind(&mut self, plan: &Arc<GroupPlan>, now: FleetTime) -> Binding {
        let plan = self.completed(self.admit(plan));
        let group = match self.groups.iter().position(|group| group.key == plan.key) {
            Some(index) => index,
            None => {
                self.groups.push(GroupState::new(plan.key.clone(), plan.is_each));
                self.groups.len() - 1
            }
        };
        let is_new = self.groups.get(group).is_some_and(|group| group.granted == 0);
        let keeps_limits = self.keeps_limits;
        let buckets: Vec<usize> = plan
            .buckets
            .iter()
            .map(|bucket| match self.position(&bucket.id) {
                Some(index) => {
                    if let Some(state) = self.buckets.get_mut(index).filter(|_| !keeps_limits) {
                        state.replan(bucket, now);
                    }
                    index
                }
                None => {
                    self.buckets.push(self.new_bucket(bucket, now));
                    self.set_limits(now);
                    self.buckets.len() - 1
                }
            })
            .collect();
        if is_new {
            let has_rates = self.rated(&buckets).next().is_some();
            if let Some(group) = self.groups.get_mut(group) {
                group.is_starting = has_rates;
            }
        }
        Binding { plan, group, buckets }
    }

    /// Compares the configuration read here with the one that the limits come from; to be called before anything is bound.
    /// Returns whether its own was put in force.
    pub fn meet(&mut self, mine: &Loaded, now: FleetTime) -> bool {
        let meeting = meet(self.in_force, mine, now);
        self.keeps_limits = meeting == Meeting::Follows;
        if let Meeting::Takes(new) = meeting {
            self.in_force = Some(new);
        }
        matches!(meeting, Meeting::Takes(_))
    }

    /// Those of the buckets at these positions that refill.
    pub fn rated(&self, positions: &[usize]) -> impl Iterator<Item = &BucketState> {
        positions.iter().filter_map(|index| self.buckets.get(*index)).filter(|bucket| !bucket.is_held())
    }

    /// A value in place of one that was lost at `now`.
    pub fn after_loss(now: FleetTime) -> Self {
        Self { lost_at: now, ..Self::default() }
    }

    fn new_bucket(&self, plan: &BucketPlan, now: FleetTime) -> BucketState {
        let mut state = BucketState::new(plan.clone());
        let may_be_old = self.lost_at != FleetTime::ZERO && now.since(self.lost_at) < state.effective().per;
        if may_be_old {
            state.start_after_loss(now);
        }
        state
    }

    /// Where the bucket with this identity lies.
    pub fn position(&self, id: &BucketId) -> Option<usize> {
        self.buckets.iter().position(|bucket| bucket.plan.id == *id)
    }

    /// The latest instant at which anything in the value still matters: what its time to live must exceed.
    pub fn matters_until(&self, now: FleetTime) -> FleetTime {
        let floors = self.groups.iter().map(|group| group.floor).chain([self.floor]).flatten().map(|floor| floor.until);
        let flights = self.groups.iter().filter_map(|group| group.flights.slots().last()).map(|slot| slot.ends);
        let buckets = self.buckets.iter().map(|bucket| bucket.matters_until(now));
        let exhausted = self.groups.iter().map(|group| group.exhausted).chain([self.exhausted]).flatten().map(|it| it.until);
        let told = self.provisional.iter().map(|known| known.told);
        let told = told.chain(self.limits.said.iter().map(|said| said.ends));
        floors.chain(flights).chain(exhausted).chain(buckets).chain(told).fold(now, FleetTime::max)
    }

    /// Remembers what a call of this kind used, in the meters that anybody will ask for.
    pub fn note_usage(&mut self, kind: &CallKind, plan: &GroupPlan, form: Form, usage: &Amounts, now: FleetTime) {
        let followed: Vec<BucketPlan> = self.followed(plan).map(|(_, bucket)| bucket.clone()).collect();
        let buckets = || plan.buckets.iter().chain(&followed);
        let rated = buckets().filter(|bucket| bucket.refill != Some(Refill::Held)).map(|bucket| &*bucket.meter);
        // A call that states only one of them is charged the other as learned.
        let parts = buckets().any(|bucket| &*bucket.meter == "tokens");
        let parts = ["input_tokens", "output_tokens"].into_iter().filter(|_| parts);
        self.usage.note_usage(kind, &plan.key, form, usage, rated.chain(parts), now);
    }

    /// How long half of the calls of this model run at most; `None` while nobody knows.
    pub fn typical_run(&self, model: &str) -> Option<Span> {
        self.usage.typical_run(model)
    }

    /// Frees what has expired; returns how many leases ended without a report.
    pub fn expire(&mut self, now: FleetTime) -> u64 {
        if !self.limits.said.is_empty() {
            self.set_limits(now);
        }
        for bucket in &mut self.buckets {
            bucket.holds.expire(now);
        }
        for crew in self.groups.iter_mut().flat_map(|group| &mut group.crews.0) {
            crew.forget(now);
        }
        self.groups.iter_mut().map(|group| group.flights.expire(now).as_units_floor()).sum()
    }

    /// Pulls back what lies further ahead than anything legal (a clock that was wrong, a damaged value): no freeze outlasts a
    /// window or the longest floor. Returns how many fields were pulled back.
    pub fn repair(&mut self, now: FleetTime) -> u64 {
        let mut repairs = 0;
        let mut pull = |instant: &mut FleetTime, most: Span| {
            if *instant > now + most {
                *instant = now + most;
                repairs += 1;
            }
        };
        let longest = crate::units::LONGEST_FLOOR;
        for bucket in &mut self.buckets {
            let per = bucket.effective().per;
            let ahead = per + Span::from_secs(10);
            pull(&mut bucket.level.as_of, ahead);
            pull(&mut bucket.burst.as_of, ahead);
            pull(&mut bucket.paced_until, ahead);
            pull(&mut bucket.opens_at, ahead);
            pull(&mut bucket.window_end, per + per);
            for turn in &mut bucket.classes.0 {
                pull(&mut turn.waits_until, LINGER);
            }
            if let Some(floor) = &mut bucket.floor {
                pull(&mut floor.until, longest);
            }
        }
        for group in &mut self.groups {
            if let Some(floor) = &mut group.floor {
                pull(&mut floor.until, longest);
            }
            if let Some(exhausted) = &mut group.exhausted {
                pull(&mut exhausted.until, LONGEST_INTERVAL);
            }
            pull(&mut group.tally.since, Span::ZERO);
        }
        if let Some(floor) = &mut self.floor {
            pull(&mut floor.until, longest);
        }
        if let Some(exhausted) = &mut self.exhausted {
            pull(&mut exhausted.until, LONGEST_INTERVAL);
        }
        for known in &mut self.provisional {
            pull(&mut known.told, longest);
        }
        if let Some(leader) = &mut self.leader {
            pull(&mut leader.until, LEADS_FOR);
        }
        self.repaired = self.repaired.saturating_add(repairs);
        repairs
    }

    fn admit(&self, plan: &Arc<GroupPlan>) -> Arc<GroupPlan> {
        if self.groups.iter().any(|group| group.key == plan.key) {
            return plan.clone();
        }
        let each = self.groups.iter().filter(|group| group.is_each && &*group.key != OTHER_GROUP).count();
        let new_buckets = plan.buckets.iter().filter(|bucket| self.position(&bucket.id).is_none()).count();
        let too_many = plan.is_each && each >= MOST_EACH_GROUPS;
        // Leave room for the buckets of `other` itself.
        let too_large = self.buckets.len() + 2 * new_buckets > MOST_BUCKETS;
        if too_many || too_large { Arc::new(plan.renamed(&Arc::from(OTHER_GROUP))) } else { plan.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Class, ClassPolicy, OurPart, Owner, StartLevel};
    use crate::retry_budget::RetryPolicy;

    fn plan() -> Arc<GroupPlan> {
        let key: Arc<str> = Arc::from("m");
        let bucket = BucketPlan {
            id: BucketId { owner: Owner::Group(key.clone()), name: Arc::from("requests") },
            meter: Arc::from("requests"),
            limit: Some(600),
            per: Some(Span::from_secs(60)),
            capacity: None,
            burst: None,
            refill: Some(Refill::Continuous),
            calendar: None,
            start: StartLevel::Full,
            learn_above: false,
            ours: OurPart::default(),
        };
        let classes = Class::ALL.map(ClassPolicy::default_of);
        Arc::new(GroupPlan {
            key,
            is_each: false,
            buckets: vec![bucket],
            classes,
            min_backoff: Span::ZERO,
            modes: Default::default(),
            store_down: Default::default(),
            retries: RetryPolicy::default(),
        })
    }

    fn first_level(mut value: ScopeValue, now: FleetTime) -> u64 {
        let binding = value.bind(&plan(), now);
        let bucket = &mut value.buckets[binding.buckets[0]];
        bucket.start(now, Milli::from_units(1));
        bucket.level_at(now).unwrap().as_units_floor()
    }

    /// Two replicas with different files take turns at one value: its limit does not swing, and no turn refills it (LC06).
    #[test]
    fn different_files_do_not_take_turns() {
        use crate::in_force::ConfigHash;
        let start = FleetTime::from_secs(1_800_000_000);
        let slow = |limit| {
            let mut plan = (*plan()).clone();
            plan.buckets[0].limit = Some(limit);
            Arc::new(plan)
        };
        let loaded = |hash, secs, is_reload| Loaded { hash: ConfigHash(hash), at: start + Span::from_secs(secs), is_reload };
        let (old, new) = (loaded(1, 0, false), loaded(2, 10, true));
        let mut value = ScopeValue::default();
        let mut turn = |mine: &Loaded, limit, secs: i64| {
            let now = start + Span::from_secs(secs);
            value.meet(mine, now);
            let binding = value.bind(&slow(limit), now);
            let bucket = &mut value.buckets[binding.buckets[0]];
            bucket.start(now, Milli::from_units(1));
            bucket.level.amount -= Milli::from_units(1);
            (bucket.plan.limit, bucket.level.amount, value.keeps_limits)
        };
        assert_eq!(turn(&old, 600, 1).0, Some(600));
        let mut before = turn(&new, 60, 11);
        assert_eq!((before.0, before.2), (Some(60), false), "who has just read a new file says what holds");
        for secs in 0..20 {
            let (mine, limit) = if secs % 2 == 0 { (&old, 600) } else { (&new, 60) };
            let after = turn(mine, limit, 11);
            assert_eq!((after.0, after.2), (Some(60), secs % 2 == 0), "the other one follows");
            assert!(after.1 < before.1, "no turn gives anything back: {before:?} {after:?}");
            before = after;
        }
        let reread = Loaded { is_reload: true, ..loaded(2, 60, true) };
        assert!(!turn(&reread, 60, 61).2, "until it has read the same file");
    }

    /// I-10: a value that was lost is never a full bucket, until its window has passed.
    #[test]
    fn after_a_loss_a_full_start_is_cautious_for_a_window() {
        let lost = FleetTime::from_secs(1_800_000_000);
        assert_eq!(first_level(ScopeValue::default(), lost), 600, "nobody has used a new scope");
        assert_eq!(first_level(ScopeValue::after_loss(lost), lost + Span::from_secs(59)), 10, "a second's worth");
        assert_eq!(first_level(ScopeValue::after_loss(lost), lost + Span::from_secs(60)), 600, "it would be full again");
    }
}
