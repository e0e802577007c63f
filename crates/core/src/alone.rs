//! Deciding without the store: a replica that cannot reach it goes on with its part of each limit, and what it handed out is
//! brought back when the store answers again.
//!
//! Each of `among` replicas takes that part of refill, capacity and level. Levels begin cautiously: nobody knows what the others
//! granted in the last moments. So all replicas together keep to the limit, and one that is cut off alone adds its part at most.

use crate::bucket::BucketState;
use crate::holds::Holds;
use crate::lease::Lease;
use crate::merge::{begin_again, merge};
use crate::plan::{BucketId, BucketPlan, GroupPlan, OurPart, Portion, Refill};
use crate::units::{FleetTime, LONGEST_FLOOR, Milli, Span};
use crate::value::ScopeValue;

/// What is remembered of the moment in which a replica was left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alone {
    /// Since when.
    pub since: FleetTime,
    /// Among how many replicas the limits are divided.
    pub among: u32,
    /// What the store held for sure.
    written: ScopeValue,
    /// The value of that moment: with what may have been written after that.
    base: ScopeValue,
    /// What had been granted of each bucket when it was divided.
    fired: Vec<(BucketId, i64)>,
    /// What had been granted in vain: neither stored nor sent.
    unsent: Vec<(BucketId, i64)>,
    /// The expiry slot under which the others' part of free places is kept from us: no other hold ends then.
    kept_until: FleetTime,
}

/// A plan under which each of `among` replicas takes its part. Places for calls in flight are divided when the replica is left
/// alone (see [`Alone::begin`]): those that come free are its own.
pub fn divide(plan: &GroupPlan, among: u32) -> GroupPlan {
    let buckets = plan.buckets.iter().map(|bucket| BucketPlan { ours: part_of(bucket, among), ..bucket.clone() });
    GroupPlan { buckets: buckets.collect(), ..plan.clone() }
}

fn part_of(bucket: &BucketPlan, among: u32) -> OurPart {
    if bucket.refill == Some(Refill::Held) {
        return bucket.ours;
    }
    let of = |portion: Portion| Portion::from_millionths(portion.as_millionths() / among.max(1));
    // Never nothing: the least there is to a limit is one unit in its time.
    OurPart { least: of(bucket.ours.least), most: of(bucket.ours.most).max(Portion::from_millionths(1)) }
}

impl Alone {
    /// Divides `value` among so many replicas at `now`; alone in the world, a replica has everything and knows everything.
    /// `written`: the last value that the store held for sure.
    pub fn begin(value: &mut ScopeValue, written: ScopeValue, among: u32, now: FleetTime) -> Self {
        let among = among.max(1);
        // An instant that no slot ends at: those lie on whole seconds.
        let kept_until = FleetTime::from_micros((now + LONGEST_FLOOR).as_micros() / 1_000_000 * 1_000_000 + 1);
        let mut alone =
            Self { since: now, among, written, base: value.clone(), fired: Vec::new(), unsent: Vec::new(), kept_until };
        value.leader = None;
        if among > 1 {
            alone.divide(value, now);
        }
        let fired = |bucket: &BucketState| (bucket.plan.id.clone(), bucket.fired);
        alone.fired = value.buckets.iter().map(fired).collect();
        alone
    }

    /// The store holds a commit that was on its way when this replica was left alone: it held `value` then, for sure.
    pub fn was_written(&mut self, value: ScopeValue) {
        self.written = value;
    }

    /// A lease of a commit that was on its way, and that was not stored: nobody was told of it.
    pub fn unsent(&mut self, lease: &Lease) {
        self.unsent.extend(lease.charges.iter().map(|charge| (charge.bucket.clone(), charge.amount.as_milli())));
    }

    fn divide(&self, value: &mut ScopeValue, now: FleetTime) {
        for bucket in &mut value.buckets {
            if bucket.is_held() {
                let free = bucket.level_at(now).unwrap_or(Milli::ZERO);
                bucket.holds.take(self.kept_until, self.of_others(free));
                continue;
            }
            if let Some(rate) = bucket.rate().filter(|_| bucket.started) {
                if !bucket.is_windowed() {
                    bucket.level.advance(now.max(bucket.level.as_of), &rate);
                }
                bucket.level.amount -= self.of_others(bucket.level.amount);
                let used = bucket.fired.saturating_sub(bucket.fired_at_turn).max(0);
                bucket.fired_at_turn = bucket.fired - used / i64::from(self.among);
            }
            bucket.plan.ours = part_of(&bucket.plan, self.among);
            bucket.clamp_to_capacity();
        }
        for group in &mut value.groups {
            let free = group.ramp - group.flights.in_use(now);
            let kept = self.of_others(free).min(group.ramp - Milli::from_units(1));
            group.ramp -= kept.at_least_zero();
        }
        begin_again(value, now);
    }

    /// The others' part of an amount; of a debt nothing.
    fn of_others(&self, amount: Milli) -> Milli {
        let amount = amount.at_least_zero().as_milli();
        Milli::from_milli(amount - amount / i64::from(self.among))
    }

    /// The value to go on with at `now`, when the store holds `stored`, written at `stored_at`, and this replica got to `local` by
    /// itself.
    ///
    /// Where others went on with the store meanwhile, its levels are right but for what was granted here: that becomes a debt.
    /// Where nobody did, all replicas were alone like this one, and each bucket begins again cautiously.
    pub fn end(&self, stored: &ScopeValue, stored_at: FleetTime, local: &ScopeValue, now: FleetTime) -> ScopeValue {
        let mut local = local.clone();
        for bucket in &mut local.buckets {
            bucket.holds.free(self.kept_until, bucket.holds.in_use(FleetTime::ZERO));
            if let Some(known) = self.base.buckets.iter().find(|known| known.plan.id == bucket.plan.id) {
                bucket.plan.ours = known.plan.ours;
            }
        }
        let mut value = merge(stored, &local);
        // Its last commits were written or not: their writer's count tells.
        let is_written = stored.lineage.includes(&self.base.lineage);
        let before = if is_written { &self.base } else { &self.written };
        bring_holds(&mut value, stored, before, &local);
        // Not all lose the store in the same moment.
        let early = Span::from_micros(now.since(self.since).as_micros() / 2).min(Span::from_secs(1));
        let others_went_on = stored_at > self.since + early && !self.base.lineage.includes(&stored.lineage);
        if !others_went_on {
            if self.among > 1 {
                begin_again(&mut value, now);
            }
            return value;
        }
        for bucket in &mut value.buckets {
            let Some(theirs) = stored.buckets.iter().find(|known| known.plan.id == bucket.plan.id) else { continue };
            let granted = self.granted_since(&theirs.plan.id, before, &local, stored.lost_at, now);
            (bucket.level, bucket.burst, bucket.spreading) = (theirs.level, theirs.burst, theirs.spreading);
            (bucket.window_end, bucket.opens_at, bucket.paced_until) = (theirs.window_end, theirs.opens_at, theirs.paced_until);
            (bucket.proven, bucket.proof) = (theirs.proven, theirs.proof);
            bucket.fired = theirs.fired.saturating_add(granted.as_milli());
            bucket.fired_at_turn = theirs.fired_at_turn;
            bucket.plan = theirs.plan.clone();
            bucket.shift_level(Milli::ZERO - granted, now);
        }
        for group in &mut value.groups {
            if let Some(theirs) = stored.groups.iter().find(|known| known.key == group.key) {
                group.ramp = theirs.ramp;
            }
        }
        value.lost_at = stored.lost_at;
        value
    }

    /// What was granted here of a bucket. When somebody began again at `lost_at` meanwhile, what lies before that is accounted for.
    fn granted_since(
        &self,
        id: &BucketId,
        before: &ScopeValue,
        local: &ScopeValue,
        lost_at: FleetTime,
        now: FleetTime,
    ) -> Milli {
        let fired = |value: &ScopeValue| value.buckets.iter().find(|bucket| bucket.plan.id == *id).map(|bucket| bucket.fired);
        let begun = self.fired.iter().find(|(known, _)| known == id).map_or(0, |(_, fired)| *fired);
        let unsent: i64 =
            self.unsent.iter().filter(|(known, _)| known == id).fold(0, |sum, (_, units)| sum.saturating_add(*units));
        let unclear = fired(&self.base).unwrap_or(0).saturating_sub(fired(before).unwrap_or(0)).saturating_sub(unsent);
        let granted = fired(local).unwrap_or(0).saturating_sub(begun).saturating_add(unclear.max(0));
        let all = Milli::from_milli(granted).at_least_zero();
        if lost_at <= self.since {
            return all;
        }
        let Some(bucket) = local.buckets.iter().find(|bucket| bucket.plan.id == *id) else { return all };
        let Some(rate) = bucket.rate() else { return all };
        // From then on it refilled so much here; what was there at the beginning is a second's worth.
        let refilled = rate.gained_in(now.since(lost_at) + Span::from_secs(1)).as_milli() / i64::from(self.among);
        all.min(Milli::from_milli(refilled).max(Milli::from_units(1)))
    }
}

/// Calls in flight: those of the store, and what began and ended here since. (Merging alone would hold what came free.)
fn bring_holds(value: &mut ScopeValue, stored: &ScopeValue, before: &ScopeValue, local: &ScopeValue) {
    let none = Holds::default();
    for bucket in &mut value.buckets {
        let of = |value: &'_ ScopeValue| {
            value.buckets.iter().find(|known| known.plan.id == bucket.plan.id).map(|it| it.holds.clone())
        };
        let (Some(theirs), Some(ours)) = (of(stored), of(local)) else { continue };
        bucket.holds = theirs.moved(&of(before).unwrap_or(none.clone()), &ours);
    }
    for group in &mut value.groups {
        let of = |value: &'_ ScopeValue| value.groups.iter().find(|known| known.key == group.key).map(|it| it.flights.clone());
        let (Some(theirs), Some(ours)) = (of(stored), of(local)) else { continue };
        group.flights = theirs.moved(&of(before).unwrap_or(none.clone()), &ours);
    }
}
