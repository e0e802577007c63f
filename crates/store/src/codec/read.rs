//! From messages to a scope value, with every field checked.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use paceline_core::bucket::{BucketState, Calm, Learned, Observation};
use paceline_core::calendar::{Calendar, CalendarUnit, Zone};
use paceline_core::controls::Limits;
use paceline_core::fair::{ClassTurn, ClassTurns, CrewTurn, CrewTurns, LINGER, LaneTurn, MOST_LANE_TURNS};
use paceline_core::leader::Leader;
use paceline_core::level::{Level, Rate};
use paceline_core::lineage::{Lineage, MOST_WRITERS, Writer};
use paceline_core::plan::{BucketId, BucketPlan, OurPart, Owner, Portion, Refill, StartLevel};
use paceline_core::provisional::{MOST_PROVISIONAL, Place, Provisional};
use paceline_core::units::{FleetTime, LONGEST_FLOOR, Milli};
use paceline_core::usage::UsageBook;
use paceline_core::value::{GroupState, MOST_BUCKETS, RAMP_START, ScopeValue};
use prost::Message;

use super::bounds::{Checks, LONGEST_WINDOW_MICROS, MOST_COUNTED};
use super::{calls, pace, wire};

/// Longer addresses are damage.
const MOST_ADDRESS_BYTES: usize = 512;
/// More buckets or groups than this are damage; the core keeps to fewer.
pub(super) const MOST_READ: usize = 4 * MOST_BUCKETS;
/// The most calls in flight a ramp allows, in thousandths; the least is one.
const RAMP_MILLI: std::ops::RangeInclusive<i64> = 1_000..=1_000_000_000;

/// The value, and how many fields were out of bounds.
pub(super) fn scope(stored: wire::Scope, now: FleetTime) -> (ScopeValue, u64) {
    let mut checks = Checks::default();
    let mut of_limits = Checks::default();
    let limits = super::limits::read(stored.limits, now, &mut of_limits);
    let value = ScopeValue {
        buckets: buckets(stored.buckets, &limits, now, &mut checks),
        groups: groups(stored.groups, now, &mut checks),
        floor: checks.floor(stored.floor),
        last_refusal: stored.last_refusal.and_then(|refusal| last_refusal(&refusal, &mut checks)),
        repaired: stored.repaired,
        lost_at: checks.instant(stored.lost_at).min(now),
        usage: UsageBook::default(),
        exhausted: calls::read_exhausted(stored.exhausted, &mut checks),
        provisional: provisional(stored.provisional, &mut checks),
        lineage: lineage(&stored.writers, &mut checks),
        leader: None,
        in_force: stored.in_force.and_then(|stored| super::in_force::read(&stored, checks.instant(stored.since), now)),
        limits,
        keeps_limits: false,
    };
    let of_buckets = checks.found;
    checks.found += of_limits.found;
    let usage = super::usage::read(stored.usage, &mut checks);
    let value = ScopeValue { usage, leader: leader(stored.leader, &mut checks), ..value };
    let repaired = value.repaired.saturating_add(checks.found);
    // What was dropped must not come back as a bucket that nobody has used.
    let lost_at = if of_buckets > 0 { now } else { value.lost_at };
    (ScopeValue { repaired, lost_at, ..value }, checks.found)
}

/// A wait of which nobody can say what it is under is confirmed: its floor stands by itself.
fn provisional(stored: Vec<wire::Provisional>, checks: &mut Checks) -> Vec<Provisional> {
    checks.require(stored.len() <= MOST_PROVISIONAL);
    let read = stored.into_iter().take(MOST_PROVISIONAL).filter_map(|known| {
        let place = match (&known.group, &known.bucket) {
            (None, None) => Place::Account,
            (Some(key), _) => Place::Group(checks.name(key, true)?),
            (None, Some(plan)) => Place::Bucket(bucket_id(plan, checks)?),
        };
        let told = checks.instant(known.told);
        Some(Provisional { place, told, mark: checks.count(known.mark, MOST_COUNTED) })
    });
    read.collect()
}

/// A lead that cannot be read is none: the next commit takes it.
fn leader(stored: Option<wire::Leader>, checks: &mut Checks) -> Option<Leader> {
    let stored = stored?;
    let is_sound = checks.require(!stored.address.is_empty() && stored.address.len() <= MOST_ADDRESS_BYTES);
    let until = checks.instant(stored.until);
    is_sound.then(|| Leader { replica: stored.replica, address: Arc::from(stored.address), until })
}

fn lineage(stored: &[wire::Writer], checks: &mut Checks) -> Lineage {
    let sound = stored.iter().rev().take(MOST_WRITERS).rev().filter(|part| checks.require(part.commits <= MOST_COUNTED));
    Lineage::from_writers(sound.map(|part| Writer { replica: part.replica, commits: part.commits }).collect())
}

fn buckets(stored: Vec<Bytes>, limits: &Limits, now: FleetTime, checks: &mut Checks) -> Vec<BucketState> {
    checks.require(stored.len() <= MOST_READ);
    let mut seen = HashSet::new();
    let mut buckets = Vec::with_capacity(stored.len().min(MOST_READ));
    for bytes in stored.into_iter().take(MOST_READ) {
        let message = wire::Bucket::decode(bytes).ok();
        checks.require(message.is_some());
        let Some(state) = message.and_then(|message| bucket(message, limits, now, checks)) else { continue };
        if checks.require(seen.insert(state.plan.id.clone())) {
            buckets.push(state);
        }
    }
    buckets
}

/// One bucket; `None` when nobody can say which one it is.
fn bucket(stored: wire::Bucket, limits: &Limits, now: FleetTime, checks: &mut Checks) -> Option<BucketState> {
    let before = checks.found;
    let id = stored.plan.as_ref().and_then(|plan| bucket_id(plan, checks));
    let meter = stored.plan.as_ref().and_then(|plan| checks.name(&plan.meter, false));
    let (Some(plan), Some(id), Some(meter)) = (stored.plan, id, meter) else {
        // A missing plan is one field; a damaged one has been counted.
        checks.require(checks.found > before);
        return None;
    };
    let mut state = BucketState {
        plan: bucket_plan(&plan, id, meter, checks),
        learned: learned(stored.learned.unwrap_or_default(), checks),
        over: None, // below
        level: level(stored.level.unwrap_or_default(), checks),
        burst: level(stored.burst.unwrap_or_default(), checks),
        window_end: checks.instant(stored.window_end),
        opens_at: checks.instant(stored.opens_at),
        fired: checks.mark(stored.fired),
        spreading: stored.spreading,
        fired_at_turn: checks.mark(stored.fired_at_turn),
        paced_until: checks.instant(stored.paced_until),
        observed: stored.observed.and_then(|seen| observed(&seen, checks)),
        typical: checks.stock(stored.typical),
        typical_reserved: checks.stock(stored.typical_reserved),
        started: stored.started,
        floor: checks.floor(stored.floor),
        holds: checks.holds(stored.holds, now),
        calm: calm(stored.calm.unwrap_or_default(), checks),
        proven: checks.stock(stored.proven),
        proof: pace::read_backing(stored.proof, checks),
        lowest: stored.lowest.map(|lowest| checks.stock(lowest)),
        trail: pace::read_trail(stored.trail.unwrap_or_default(), checks),
        drain: pace::read_drain(stored.drain.unwrap_or_default(), checks),
        ceiling: pace::read_ceiling(stored.ceiling.unwrap_or_default(), checks),
        classes: ClassTurns([stored.interactive, stored.normal, stored.batch].map(|turn| class_turn(turn, now, checks))),
    };
    // Levels were right under the limit that was said, also if that has just ended.
    state.over = limits.of(&state).cloned();
    check_levels(&mut state, checks);
    Some(if checks.found == before { state } else { cautious(state, now) })
}

fn bucket_id(plan: &wire::Plan, checks: &mut Checks) -> Option<BucketId> {
    let owner = match plan.owner_kind {
        wire::OWNER_GROUP => checks.name(&plan.owner, true).map(Owner::Group),
        wire::OWNER_SHARED => checks.name(&plan.owner, true).map(Owner::Shared),
        kind => checks.only_if(kind == wire::OWNER_ACCOUNT, Owner::Account),
    };
    let name = checks.name(&plan.name, false);
    Some(BucketId { owner: owner?, name: name? })
}

fn bucket_plan(plan: &wire::Plan, id: BucketId, meter: Arc<str>, checks: &mut Checks) -> BucketPlan {
    checks.require(plan.refill <= wire::REFILL_HELD && plan.start <= wire::START_FULL);
    BucketPlan {
        id,
        meter,
        limit: plan.limit,
        per: checks.window(plan.per),
        capacity: plan.capacity,
        burst: plan.burst,
        refill: match plan.refill {
            wire::REFILL_CONTINUOUS => Some(Refill::Continuous),
            wire::REFILL_WINDOW => Some(Refill::Window),
            wire::REFILL_HELD => Some(Refill::Held),
            _ => None,
        },
        calendar: calendar(plan, checks),
        start: if plan.start == wire::START_FULL { StartLevel::Full } else { StartLevel::Cautious },
        learn_above: plan.learn_above,
        ours: our_part(plan, checks),
    }
}

fn our_part(plan: &wire::Plan, checks: &mut Checks) -> OurPart {
    let whole = Portion::WHOLE.as_millionths();
    let most = plan.our_most.unwrap_or(whole);
    checks.require((1..=whole).contains(&most) && plan.our_least <= whole);
    OurPart { least: Portion::from_millionths(plan.our_least), most: Portion::from_millionths(most.max(1)) }
}

/// A zone that only later releases know is no damage: the configuration names the calendar again with the next call.
fn calendar(plan: &wire::Plan, checks: &mut Checks) -> Option<Calendar> {
    let unit = match plan.calendar {
        wire::CALENDAR_DAY => CalendarUnit::Day,
        wire::CALENDAR_WEEK => CalendarUnit::Week,
        wire::CALENDAR_MONTH => CalendarUnit::Month,
        other => return checks.only_if(other == wire::CALENDAR_NONE, None).flatten(),
    };
    let zone = checks.name(&plan.zone, false).and_then(|name| Zone::named(&name))?;
    Some(Calendar { unit, zone })
}

fn learned(stored: wire::Learned, checks: &mut Checks) -> Learned {
    checks.require(stored.limit != Some(0));
    let agreeing = u8::try_from(stored.agreeing).ok();
    checks.require(agreeing.is_some());
    Learned {
        limit: stored.limit.filter(|limit| *limit > 0),
        per: checks.window(stored.per),
        windowed: stored.windowed,
        candidate: stored.candidate,
        agreeing: agreeing.unwrap_or(0),
        candidate_mark: checks.mark(stored.candidate_mark),
        brim: stored.brim.filter(|brim| checks.require(*brim > 0)),
        far_mark: stored.far_mark.map(|mark| checks.mark(mark)),
        anchor: stored.anchor.and_then(|anchor| {
            let until_full = checks.length(anchor.until_full)?;
            Some((anchor.remaining, until_full))
        }),
        ends_move: stored.ends_move,
        ends_stand: stored.ends_stand,
        named_end: stored.named_end.and_then(|end| pace::read_named_end(&end, checks)),
        backing: pace::read_backing(stored.backing, checks),
    }
}

fn calm(stored: wire::Calm, checks: &mut Checks) -> Calm {
    Calm {
        until: checks.instant(stored.until),
        length: checks.length(stored.length).unwrap_or_default(),
        mark: checks.mark(stored.mark),
    }
}

fn class_turn(stored: Option<wire::ClassTurn>, now: FleetTime, checks: &mut Checks) -> ClassTurn {
    let Some(stored) = stored else { return ClassTurn::default() };
    ClassTurn {
        waits_until: checks.instant(stored.waits_until).min(now + LINGER),
        owed: checks.stock(stored.owed),
        over: checks.amount(stored.over),
        clock: checks.turn(stored.clock),
    }
}

fn level(stored: wire::Level, checks: &mut Checks) -> Level {
    let has_carry = (0..=LONGEST_WINDOW_MICROS).contains(&stored.carry);
    Level {
        amount: checks.amount(stored.amount),
        as_of: checks.instant(stored.as_of),
        carry: checks.only_if(has_carry, stored.carry).unwrap_or(0),
    }
}

fn observed(stored: &wire::Observed, checks: &mut Checks) -> Option<Observation> {
    let before = checks.found;
    let seen = Observation {
        mark: checks.mark(stored.mark),
        remaining: checks.stock(stored.remaining),
        at: checks.instant(stored.at),
        reports: pace::reports(stored.reports, checks),
    };
    (checks.found == before).then_some(seen)
}

/// Levels against the limit in force: never more than fits, never a debt that outlasts the longest floor.
fn check_levels(state: &mut BucketState, checks: &mut Checks) {
    // A window that has just become shorter leaves a larger remainder: less than a thousandth of a unit, no damage.
    let most_carry = state.effective().per.as_micros() - 1;
    for level in [&mut state.level, &mut state.burst] {
        level.carry = level.carry.min(most_carry);
    }
    let Some(rate) = state.rate().filter(|_| state.started) else { return };
    let burst = state.most_at_once(&rate);
    for (level, most) in [(&state.level, rate.capacity), (&state.burst, burst)] {
        checks.require(level.amount <= most && is_payable(level.amount, &rate));
    }
}

/// Whether a debt is paid off some day soon; anything but debt is.
fn is_payable(amount: Milli, rate: &Rate) -> bool {
    rate.time_for(Milli::ZERO - amount) <= LONGEST_FLOOR + rate.per
}

/// The bucket as if nobody had observed it, with what is still sound and makes it safer: limits, floor, units in use, and what
/// was granted, against which open leases have their marks.
fn cautious(damaged: BucketState, now: FleetTime) -> BucketState {
    let marks = [damaged.fired, damaged.fired_at_turn, damaged.observed.map_or(0, |seen| seen.mark)];
    let Learned { limit, per, windowed, brim, ends_move, .. } = damaged.learned;
    let mut state = BucketState {
        learned: Learned { limit, per, windowed, brim, ends_move, ..Learned::default() },
        fired: marks.into_iter().fold(0, i64::max),
        typical: damaged.typical,
        typical_reserved: damaged.typical_reserved,
        floor: damaged.floor,
        over: damaged.over,
        holds: damaged.holds,
        ..BucketState::new(damaged.plan)
    };
    // A person may have vouched for a full bucket at the start, but not after damage (I-10).
    state.start_after_loss(now);
    state
}

fn groups(stored: Vec<Bytes>, now: FleetTime, checks: &mut Checks) -> Vec<GroupState> {
    checks.require(stored.len() <= MOST_READ);
    let mut seen = HashSet::new();
    let mut groups = Vec::with_capacity(stored.len().min(MOST_READ));
    for bytes in stored.into_iter().take(MOST_READ) {
        let message = wire::Group::decode(bytes).ok();
        checks.require(message.is_some());
        let Some(state) = message.and_then(|message| group(message, now, checks)) else { continue };
        if checks.require(seen.insert(state.key.clone())) {
            groups.push(state);
        }
    }
    groups
}

/// One group; `None` when nobody can say which one it is.
fn group(stored: wire::Group, now: FleetTime, checks: &mut Checks) -> Option<GroupState> {
    let key = checks.name(&stored.key, true)?;
    let granted = checks.count(stored.granted, MOST_COUNTED);
    let ramp = checks.only_if(RAMP_MILLI.contains(&stored.ramp), Milli::from_milli(stored.ramp));
    Some(GroupState {
        key,
        is_each: stored.is_each,
        floor: checks.floor(stored.floor),
        granted,
        refusals: stored.refusals,
        // A mark ahead of the count would keep refusals from counting for ever.
        cut_mark: checks.count(stored.cut_mark, granted),
        flights: checks.holds(stored.flights, now),
        ramp: ramp.unwrap_or_else(|| Milli::from_units(u64::from(RAMP_START))),
        ramp_cut_mark: checks.count(stored.ramp_cut_mark, granted),
        ramp_met_refusal: stored.ramp_met_refusal,
        is_starting: stored.is_starting,
        breaker: pace::read_breaker(stored.breaker.unwrap_or_default(), checks),
        tally: calls::read_tally(stored.tally, now, checks),
        exhausted: calls::read_exhausted(stored.exhausted, checks),
        crews: CrewTurns([stored.interactive, stored.normal, stored.batch].map(|crew| crew_turn(crew, now, checks))),
    })
}

fn crew_turn(stored: Option<wire::CrewTurn>, now: FleetTime, checks: &mut Checks) -> CrewTurn {
    let Some(stored) = stored else { return CrewTurn::default() };
    checks.require(stored.lanes.len() <= MOST_LANE_TURNS);
    let lanes = stored.lanes.into_iter().take(MOST_LANE_TURNS).map(|known| LaneTurn {
        lane: known.lane,
        turn: checks.turn(known.turn),
        at: checks.instant(known.at).min(now),
    });
    let lanes = lanes.collect();
    CrewTurn { turn: checks.turn(stored.turn), clock: checks.turn(stored.clock), lanes }
}

fn last_refusal(stored: &wire::Refusal, checks: &mut Checks) -> Option<(Arc<str>, FleetTime)> {
    let before = checks.found;
    let at = checks.instant(stored.at);
    let group = checks.name(&stored.group, true)?;
    (checks.found == before).then_some((group, at))
}
