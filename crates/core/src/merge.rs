//! When the stored value was lost, or a store came back with an older one: it is put together again from what the store holds
//! and what replicas remember, never overwritten and never begun anew.
//!
//! [`merge`] takes the worse of both in everything that lets calls through: the lower level and limit, the later floor, the
//! higher count of what was granted, the longer hold. So folding a memory in late, twice, or in another order does no harm.
//! Replicas may remember less than was granted; what nobody remembers is bounded by [`begin_again`].

mod bucket;
mod turns;

use std::cmp::Reverse;

use crate::breaker::Breaker;
use crate::exhausted::Exhausted;
use crate::floor;
use crate::holds::{Holds, Slot};
use crate::in_force;
use crate::provisional::{MOST_PROVISIONAL, Provisional};
use crate::sketch::Sketch;
use crate::units::{FleetTime, Milli};
use crate::usage::{MOST_KINDS, Remembered, UsageBook};
use crate::value::{GroupState, RAMP_START, ScopeValue};

/// Both values in one, which lets nothing through that either of them would hold up. Positions are those of `stored`; what
/// only `remembered` has follows.
pub fn merge(stored: &ScopeValue, remembered: &ScopeValue) -> ScopeValue {
    let mut value = ScopeValue {
        limits: stored.limits.later(&remembered.limits),
        buckets: union(&stored.buckets, &remembered.buckets, |a, b| a.plan.id == b.plan.id, bucket::merge),
        groups: union(&stored.groups, &remembered.groups, |a, b| a.key == b.key, group),
        floor: later(stored.floor, remembered.floor),
        last_refusal: match (&stored.last_refusal, &remembered.last_refusal) {
            (Some(ours), Some(theirs)) => Some(std::cmp::max_by_key(ours, theirs, |(group, at)| (*at, group.clone())).clone()),
            (ours, theirs) => ours.clone().or_else(|| theirs.clone()),
        },
        repaired: stored.repaired.max(remembered.repaired),
        lost_at: stored.lost_at.max(remembered.lost_at),
        usage: usage(&stored.usage, &remembered.usage),
        exhausted: exhausted(stored.exhausted, remembered.exhausted),
        provisional: provisional(&stored.provisional, &remembered.provisional),
        lineage: stored.lineage.joined(&remembered.lineage),
        // Who leads is what the store says: a memory of a lead is worth nothing.
        leader: stored.leader.clone(),
        in_force: in_force::later(stored.in_force, remembered.in_force),
        keeps_limits: stored.keeps_limits,
    };
    for bucket in &mut value.buckets {
        bucket.over = value.limits.of(bucket).cloned();
        bucket.clamp_to_capacity();
    }
    value
}

/// Makes a merged value safe to go on with, once per loss: others may have granted what nobody remembers, so each bucket holds
/// one second of refill at most (one call at least), and what was left in a window comes evenly until its end. Buckets that
/// nobody remembers start cautiously too (I-10).
pub fn begin_again(value: &mut ScopeValue, now: FleetTime) {
    value.lost_at = now;
    value.buckets.iter_mut().for_each(|state| bucket::begin_again(state, now));
    for group in &mut value.groups {
        group.ramp = group.ramp.min(Milli::from_units(u64::from(RAMP_START)));
    }
}

fn union<T: Clone>(ours: &[T], theirs: &[T], same: impl Fn(&T, &T) -> bool, both: impl Fn(&T, &T) -> T) -> Vec<T> {
    let mut all: Vec<T> = Vec::with_capacity(ours.len());
    all.extend(ours.iter().map(|a| theirs.iter().find(|b| same(a, b)).map_or_else(|| a.clone(), |b| both(a, b))));
    all.extend(theirs.iter().filter(|b| !ours.iter().any(|a| same(a, b))).cloned());
    all
}

fn later(ours: Option<floor::Floor>, theirs: Option<floor::Floor>) -> Option<floor::Floor> {
    let mut standing = ours;
    if let Some(floor) = theirs {
        floor::raise(&mut standing, floor);
    }
    standing
}

/// A slot that both know holds as much as the one that knows more: freeing twice would let too many through.
fn holds(ours: &Holds, theirs: &Holds) -> Holds {
    let same = |a: &Slot, b: &Slot| a.ends == b.ends;
    Holds::from_slots(union(ours.slots(), theirs.slots(), same, |a, b| Slot { amount: a.amount.max(b.amount), ..*a }))
}

// Written out field by field, so that a new one cannot be forgotten here.

fn group(ours: &GroupState, theirs: &GroupState) -> GroupState {
    GroupState {
        key: ours.key.clone(),
        is_each: ours.is_each,
        floor: later(ours.floor, theirs.floor),
        granted: ours.granted.max(theirs.granted),
        refusals: match ours.cut_mark.cmp(&theirs.cut_mark) {
            std::cmp::Ordering::Less => theirs.refusals,
            std::cmp::Ordering::Equal => ours.refusals.max(theirs.refusals),
            std::cmp::Ordering::Greater => ours.refusals,
        },
        cut_mark: ours.cut_mark.max(theirs.cut_mark),
        flights: holds(&ours.flights, &theirs.flights),
        ramp: ours.ramp.min(theirs.ramp),
        ramp_cut_mark: ours.ramp_cut_mark.max(theirs.ramp_cut_mark),
        ramp_met_refusal: ours.ramp_met_refusal || theirs.ramp_met_refusal,
        is_starting: ours.is_starting && theirs.is_starting,
        breaker: std::cmp::max_by_key(ours.breaker, theirs.breaker, openness),
        tally: turns::tally(ours.tally, theirs.tally),
        exhausted: exhausted(ours.exhausted, theirs.exhausted),
        crews: turns::crews(&ours.crews, &theirs.crews),
    }
}

/// The one that holds calls back for longer; a probe soon tells whether it was over.
fn exhausted(ours: Option<Exhausted>, theirs: Option<Exhausted>) -> Option<Exhausted> {
    ours.into_iter().chain(theirs).max_by_key(|standing| (standing.until, standing.since, standing.interval))
}

/// Whoever has heard of a wait keeps it in doubt, however long the floor above it is; too many count as confirmed, as ever.
fn provisional(ours: &[Provisional], theirs: &[Provisional]) -> Vec<Provisional> {
    let same = |a: &Provisional, b: &Provisional| a.place == b.place;
    let mut all = union(ours, theirs, same, |a, b| std::cmp::max_by_key(a, b, |known| (known.told, known.mark)).clone());
    if all.len() > MOST_PROVISIONAL {
        all.sort_by_key(|known| Reverse(known.told));
        all.truncate(MOST_PROVISIONAL);
    }
    all
}

/// Of each kind of calls what was seen last.
fn usage(ours: &UsageBook, theirs: &UsageBook) -> UsageBook {
    let same = |a: &Remembered, b: &Remembered| (&a.model, &a.label, a.form) == (&b.model, &b.label, b.form);
    let ranges =
        |sketch: &Sketch| sketch.ranges().iter().map(|range| (range.index, range.count, range.most)).collect::<Vec<_>>();
    let meters =
        |kind: &Remembered| kind.meters.iter().map(|(meter, sketch)| (meter.clone(), ranges(sketch))).collect::<Vec<_>>();
    let newer = |a: &Remembered, b: &Remembered| std::cmp::max_by_key(a, b, |kind| (kind.seen_at, meters(kind))).clone();
    let mut kinds = union(ours.kinds(), theirs.kinds(), same, newer);
    if kinds.len() > MOST_KINDS {
        kinds.sort_by_key(|kind| Reverse(kind.seen_at));
    }
    UsageBook::from_kinds(kinds)
}

/// The largest is the one that holds calls back.
fn openness(breaker: &Breaker) -> impl Ord + use<> {
    let Breaker { failures, leases, last_mark, opened_at, gap, probing_until } = *breaker;
    (opened_at, gap, failures, leases, last_mark, probing_until)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::exhausted::FIRST_INTERVAL;
    use crate::provisional::Place;
    use crate::units::Span;

    const NOW: FleetTime = FleetTime::from_secs(1_800_000_000);

    #[test]
    fn an_account_without_money_is_still_without_it() {
        let stopped = |until: i64| {
            let until = NOW + Span::from_secs(until);
            let exhausted = Some(Exhausted { since: NOW, until, interval: FIRST_INTERVAL });
            ScopeValue { exhausted, ..ScopeValue::default() }
        };
        assert_eq!(merge(&ScopeValue::default(), &stopped(60)), stopped(60));
        assert_eq!(merge(&stopped(600), &stopped(60)), stopped(600));
        assert_eq!(merge(&stopped(60), &stopped(600)), stopped(600));
    }

    #[test]
    fn a_wait_that_one_of_them_doubts_is_doubted() {
        let heard = |group: &str, told: i64, mark: u64| Provisional {
            place: Place::Group(Arc::from(group)),
            told: NOW + Span::from_secs(told),
            mark,
        };
        let of = |provisional: Vec<Provisional>| ScopeValue { provisional, ..ScopeValue::default() };
        let merged = merge(&of(vec![heard("a", 9_000, 1)]), &of(vec![heard("b", 9_000, 2), heard("a", 86_400, 3)]));
        assert_eq!(merged.provisional, [heard("a", 86_400, 3), heard("b", 9_000, 2)]);

        let many: Vec<_> = (0..MOST_PROVISIONAL).map(|number| heard(&number.to_string(), 9_000, 1)).collect();
        let merged = merge(&of(many), &of(vec![heard("longest", 86_400, 1)]));
        assert_eq!(merged.provisional.len(), MOST_PROVISIONAL);
        assert_eq!(merged.provisional[0], heard("longest", 86_400, 1), "the ones that end first count as confirmed");
    }
}
