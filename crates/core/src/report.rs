//! What a report does to a scope: levels, limits and floors from the provider's answer, and the settlement of the lease.

use rand::Rng;

use crate::amounts::Amounts;
use crate::backoff;
use crate::bucket::{BucketState, Observation};
use crate::floor::{self, Floor};
use crate::holds::Holds;
use crate::learn::{self, Seen};
use crate::lease::{CallFloor, Lease};
use crate::signal::{AnswerKind, ObservedBucket, ObservedOwner, ResetMeans, Signal, Source};
use crate::units::{FleetTime, Milli, Span};
use crate::value::{Binding, ScopeValue};

/// A second group refused within this time means that the account as a whole is refused.
const ACCOUNT_REFUSAL_WITHIN: Span = Span::from_secs(1);

/// What a worker says about its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The provider answered.
    Response,
    /// Still running; renews the lease.
    Running,
    /// No answer in time; it may have run.
    Timeout,
    /// It was never sent.
    ConnectionFailed,
    /// The worker gave up on it; it may have run.
    Abandoned,
}

impl Outcome {
    /// Whether nothing more can come.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Timeout | Self::ConnectionFailed | Self::Abandoned)
    }
}

/// One report, with what the coordinator knows about its lease.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// What happened.
    pub outcome: Outcome,
    /// What the answer said, for responses with headers.
    pub signal: Option<&'a Signal>,
    /// When the answer came.
    pub answered_at: FleetTime,
    /// Actual units, when known.
    pub usage: Option<&'a Amounts>,
    /// Whether the lease is over with this.
    pub is_final: bool,
    /// Whether the lease was open until now: settlement and renewal are due, and a success counts.
    pub is_open: bool,
}

/// What a report did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// The floor set because of it, as a length from now.
    pub honored: Span,
    /// Where that came from.
    pub source: Source,
    /// A floor under this call alone.
    pub call_floor: Option<CallFloor>,
    /// Limits in force that changed.
    pub limits_changed: u32,
    /// Rises that were contradicted.
    pub flaps: u32,
    /// Observed buckets that fit none of ours.
    pub unmatched: u32,
    /// The expiry slot the lease's held units are in from now on.
    pub hold_until: FleetTime,
}

/// Applies a report at fleet time `now`.
pub fn apply<R: Rng + ?Sized>(
    value: &mut ScopeValue,
    binding: &Binding,
    lease: &Lease,
    report: &Report<'_>,
    now: FleetTime,
    rng: &mut R,
) -> Reported {
    let mut done = Reported { hold_until: lease.hold_until, ..Reported::default() };
    if let Some(signal) = report.signal {
        learn_buckets(value, binding, lease, signal, report.answered_at, now, &mut done);
        match signal.kind {
            AnswerKind::Throttled => refused(value, binding, lease, signal, report.answered_at, now, rng, &mut done),
            AnswerKind::Overloaded => overloaded(value, binding, lease, signal, report.answered_at, now, rng, &mut done),
            AnswerKind::Ok if report.is_open => succeeded(value, binding, lease),
            AnswerKind::Failed => call_waits(lease, signal, report.answered_at, now, binding, rng, &mut done),
            _ => {}
        }
    } else if matches!(report.outcome, Outcome::Timeout | Outcome::ConnectionFailed) {
        let wait = backoff::full(lease.attempt, backoff::BASE, rng);
        done.call_floor = Some(CallFloor { until: now + wait, source: Source::Backoff });
    }
    if report.is_open {
        if report.is_final {
            settle(value, lease, report, now);
        } else {
            done.hold_until = renew(value, lease, now);
        }
    }
    done
}

/// Gives back all of a lease that was not used.
pub fn release(value: &mut ScopeValue, lease: &Lease) {
    for charge in &lease.charges {
        let Some(bucket) = value.position(&charge.bucket).and_then(|index| value.buckets.get_mut(index)) else { continue };
        if charge.held {
            bucket.holds.free(lease.hold_until, charge.amount);
        } else {
            // A gain is the same whenever it comes: before a refill or after it.
            bucket.settle(charge.amount, charge.mark, charge.window_end, FleetTime::ZERO);
        }
    }
    end_flight(value, lease);
}

fn end_flight(value: &mut ScopeValue, lease: &Lease) {
    if let Some(group) = value.groups.iter_mut().find(|group| group.key == lease.group) {
        group.flights.free(lease.hold_until, Milli::from_units(1));
    }
}

fn settle(value: &mut ScopeValue, lease: &Lease, report: &Report<'_>, now: FleetTime) {
    if report.outcome == Outcome::ConnectionFailed {
        return release(value, lease);
    }
    for charge in &lease.charges {
        let Some(bucket) = value.position(&charge.bucket).and_then(|index| value.buckets.get_mut(index)) else { continue };
        if charge.held {
            bucket.holds.free(lease.hold_until, charge.amount);
            continue;
        }
        let actual = report.usage.and_then(|usage| usage.of(&bucket.plan.meter)).map(Milli::from_units);
        if let Some(actual) = actual {
            bucket.note_usage(charge.amount, actual);
            bucket.settle(charge.amount - actual, charge.mark, charge.window_end, now);
        }
    }
    end_flight(value, lease);
}

fn renew(value: &mut ScopeValue, lease: &Lease, now: FleetTime) -> FleetTime {
    let until = Holds::slot_for(now, lease.ttl);
    if until <= lease.hold_until {
        return lease.hold_until;
    }
    for charge in lease.charges.iter().filter(|charge| charge.held) {
        if let Some(bucket) = value.position(&charge.bucket).and_then(|index| value.buckets.get_mut(index)) {
            let moved = bucket.holds.free(lease.hold_until, charge.amount);
            bucket.holds.take(until, moved);
        }
    }
    if let Some(group) = value.groups.iter_mut().find(|group| group.key == lease.group) {
        let moved = group.flights.free(lease.hold_until, Milli::from_units(1));
        group.flights.take(until, moved);
    }
    until
}

/// Which of our buckets an observed one is about: of the same meter and owner, and not the namesake of another observed one.
fn matching(value: &ScopeValue, binding: &Binding, observed: &ObservedBucket, all: &[ObservedBucket]) -> Option<usize> {
    let candidates = || {
        binding.buckets.iter().copied().filter(|index| {
            value.buckets.get(*index).is_some_and(|bucket| {
                let account = matches!(bucket.plan.id.owner, crate::plan::Owner::Account);
                let name = &*bucket.plan.id.name;
                *bucket.plan.meter == *observed.meter
                    && account == (observed.owner == ObservedOwner::Account)
                    && (name == observed.name || !all.iter().any(|other| other.name == name && other.owner == observed.owner))
            })
        })
    };
    let exact = candidates().find(|index| {
        value.buckets.get(*index).is_some_and(|bucket| {
            observed.window.is_none()
                && observed.limit.is_some()
                && bucket.effective().limit == observed.limit
                && learn::fits(bucket, observed)
        })
    });
    exact.or_else(|| candidates().find(|index| value.buckets.get(*index).is_some_and(|bucket| learn::fits(bucket, observed))))
}

fn learn_buckets(
    value: &mut ScopeValue,
    binding: &Binding,
    lease: &Lease,
    signal: &Signal,
    answered_at: FleetTime,
    now: FleetTime,
    done: &mut Reported,
) {
    for observed in &signal.buckets {
        let Some(index) = matching(value, binding, observed, &signal.buckets) else {
            done.unmatched += 1;
            continue;
        };
        let Some(bucket) = value.buckets.get_mut(index) else { continue };
        let charge = lease.charges.iter().find(|charge| charge.bucket == bucket.plan.id);
        let seen = Seen {
            // A lease from before this bucket was known has no mark: everything granted since counts against it.
            mark: charge.map_or(0, |charge| charge.mark),
            sent_at: lease.send_at.min(answered_at),
            answered_at,
            now,
            refused: signal.kind == AnswerKind::Throttled,
            cost: charge.map_or(Milli::ZERO, |charge| charge.amount),
            in_line: lease.waited() > Span::ZERO,
        };
        let learnt = learn::learn(bucket, observed, seen);
        done.limits_changed += u32::from(learnt.limit_changed);
        done.flaps += u32::from(learnt.flapped);
    }
}

fn succeeded(value: &mut ScopeValue, binding: &Binding, lease: &Lease) {
    let Some(group) = value.groups.get_mut(binding.group) else { return };
    if lease.group_mark > group.cut_mark {
        group.refusals = 0;
    }
    // One more per success doubles per round trip; after a refusal one more per round of successes.
    let growth = if group.ramp_met_refusal {
        Milli::from_milli(1_000_000 / group.ramp.as_milli().max(1_000))
    } else {
        Milli::from_units(1)
    };
    group.ramp = (group.ramp + growth).min(Milli::from_units(1_000_000));
}

/// 429 and its kin. What the provider said decides who waits (see the table in docs/internals/deciding.md).
#[expect(clippy::too_many_arguments, reason = "each is a different thing, and a struct would only rename them")]
fn refused<R: Rng + ?Sized>(
    value: &mut ScopeValue,
    binding: &Binding,
    lease: &Lease,
    signal: &Signal,
    answered_at: FleetTime,
    now: FleetTime,
    rng: &mut R,
    done: &mut Reported,
) {
    shrink_ramp(value, binding, lease);
    let Some(told) = signal.retry_after.filter(|told| *told > Span::ZERO) else {
        if is_next_refusal(value, binding, lease) {
            empty_levels(value, binding, lease, signal, now);
        }
        return bare_refusal(value, binding, lease, now, rng, done, &BARE_REFUSAL);
    };
    let until = answered_at + told.min(crate::units::LONGEST_FLOOR);
    if until <= now {
        return; // the report came so late that the wait is over
    }
    let new_floor = Floor { until, since: now, source: signal.source };
    let evidence = evidence(value, binding, lease, signal);
    match evidence {
        Evidence::Empty(buckets) => {
            for (index, observed) in buckets {
                let own_reset = (signal.source == Source::ResetHeader).then_some(observed.reset_in).flatten();
                // Time until full is no time to wait: the bucket is paced by its refill instead.
                if own_reset.is_some() && observed.reset_means == ResetMeans::Full {
                    continue;
                }
                let until = own_reset.map_or(until, |reset| answered_at + reset);
                if let Some(bucket) = value.buckets.get_mut(index) {
                    floor::raise(&mut bucket.floor, Floor { until, ..new_floor });
                    note(done, until, now, signal.source);
                }
            }
        }
        Evidence::Short | Evidence::Room => {
            if matches!(evidence, Evidence::Room) {
                calm_down(value, binding, lease, now);
            }
            done.call_floor = Some(CallFloor { until, source: signal.source });
            note(done, until, now, signal.source);
        }
        Evidence::RoomWhereTold | Evidence::Unknown => {
            if matches!(evidence, Evidence::RoomWhereTold) {
                calm_down(value, binding, lease, now);
            }
            cap_levels(value, binding, lease, signal, now, until);
            floor_group(value, binding, new_floor, now);
            note(done, until, now, signal.source);
        }
    }
}

/// 503, 529: the service is away, not our bucket.
#[expect(clippy::too_many_arguments, reason = "each is a different thing, and a struct would only rename them")]
fn overloaded<R: Rng + ?Sized>(
    value: &mut ScopeValue,
    binding: &Binding,
    lease: &Lease,
    signal: &Signal,
    answered_at: FleetTime,
    now: FleetTime,
    rng: &mut R,
    done: &mut Reported,
) {
    match signal.retry_after.filter(|told| *told > Span::ZERO) {
        Some(told) => {
            let until = answered_at + told.min(crate::units::LONGEST_FLOOR);
            if until > now
                && let Some(group) = value.groups.get_mut(binding.group)
            {
                floor::raise(&mut group.floor, Floor { until, since: now, source: signal.source });
                note(done, until, now, signal.source);
            }
        }
        None => bare_refusal(value, binding, lease, now, rng, done, &BARE_OVERLOAD),
    }
}

fn call_waits<R: Rng + ?Sized>(
    lease: &Lease,
    signal: &Signal,
    answered_at: FleetTime,
    now: FleetTime,
    binding: &Binding,
    rng: &mut R,
    done: &mut Reported,
) {
    let (until, source) = match signal.retry_after.filter(|told| *told > Span::ZERO) {
        Some(told) => (answered_at + told, signal.source),
        None => (now + backoff::full(lease.attempt, binding.plan.min_backoff.max(backoff::BASE), rng), Source::Backoff),
    };
    if until > now {
        done.call_floor = Some(CallFloor { until, source });
        note(done, until, now, source);
    }
}

enum Evidence<'a> {
    /// These buckets are empty.
    Empty(Vec<(usize, &'a ObservedBucket)>),
    /// A bucket holds less than the call costs.
    Short,
    /// Every bucket of the call was named, and has room for it.
    Room,
    /// Not every bucket of the call was named, and those that were have room.
    RoomWhereTold,
    /// It names none.
    Unknown,
}

fn evidence<'a>(value: &ScopeValue, binding: &Binding, lease: &Lease, signal: &'a Signal) -> Evidence<'a> {
    let mut empty = Vec::new();
    let mut named = 0;
    let mut short = false;
    for observed in &signal.buckets {
        let (Some(index), Some(remaining)) = (matching(value, binding, observed, &signal.buckets), observed.remaining) else {
            continue;
        };
        named += 1;
        let cost = value.buckets.get(index).and_then(|bucket| charge_of(lease, bucket)).map_or(1, |cost| cost.as_units_floor());
        if remaining == 0 {
            empty.push((index, observed));
        }
        short |= remaining < cost;
    }
    let rated =
        binding.buckets.iter().filter(|index| value.buckets.get(**index).is_some_and(|bucket| !bucket.is_held())).count();
    match (empty.is_empty(), short, named >= rated && rated > 0) {
        (false, _, _) => Evidence::Empty(empty),
        (true, true, _) => Evidence::Short,
        (true, false, true) => Evidence::Room,
        _ if named > 0 => Evidence::RoomWhereTold,
        _ => Evidence::Unknown,
    }
}

fn charge_of(lease: &Lease, bucket: &BucketState) -> Option<Milli> {
    lease.charges.iter().find(|charge| charge.bucket == bucket.plan.id).map(|charge| charge.amount)
}

/// A refusal that does not name its bucket: each bucket of the call that the answer is silent about holds less than the call
/// cost. A window whose phase nobody has seen ends when the provider says to come back.
fn cap_levels(value: &mut ScopeValue, binding: &Binding, lease: &Lease, signal: &Signal, now: FleetTime, until: FleetTime) {
    empty_levels(value, binding, lease, signal, now);
    for index in &binding.buckets {
        let Some(bucket) = value.buckets.get_mut(*index).filter(|bucket| bucket.is_windowed() && bucket.observed.is_none())
        else {
            continue;
        };
        if bucket.rate().is_some_and(|rate| until.since(now) <= rate.per) {
            bucket.level.amount = bucket.level.amount.min(Milli::ZERO);
            bucket.window_end = until;
            bucket.opens_at = FleetTime::ZERO;
        }
    }
}

/// Buckets that refill evenly, and about which the refusal is silent, hold less than the call cost: an observation that counts
/// all that was granted so far, so that what those calls turn out to use is not taken a second time. A window is left alone: it
/// would stay empty until an end that nobody has told.
fn empty_levels(value: &mut ScopeValue, binding: &Binding, lease: &Lease, signal: &Signal, now: FleetTime) {
    for index in &binding.buckets {
        let is_told = |bucket: &BucketState| {
            signal.buckets.iter().any(|seen| *seen.meter == *bucket.plan.meter && seen.remaining.is_some())
        };
        let Some(bucket) =
            value.buckets.get_mut(*index).filter(|bucket| !bucket.is_held() && !bucket.is_windowed() && !is_told(bucket))
        else {
            continue;
        };
        let (Some(cost), Some(level)) = (charge_of(lease, bucket), bucket.level_at(now)) else { continue };
        let most = cost - Milli::from_milli(1);
        if level > most {
            bucket.shift_level(most - level, now);
        }
        bucket.observed = Some(Observation { mark: bucket.fired, remaining: most.at_least_zero(), at: now });
    }
}

/// Whether this refusal counts: those of calls granted before the last one was reported only repeat it.
fn is_next_refusal(value: &ScopeValue, binding: &Binding, lease: &Lease) -> bool {
    value.groups.get(binding.group).is_some_and(|group| lease.group_mark > group.cut_mark)
}

/// There was room, and still the call was refused: the buckets are counted over a shorter time than they say.
fn calm_down(value: &mut ScopeValue, binding: &Binding, lease: &Lease, now: FleetTime) {
    for index in &binding.buckets {
        let Some(bucket) = value.buckets.get_mut(*index).filter(|bucket| !bucket.is_held()) else { continue };
        let mark = lease.charges.iter().find(|charge| charge.bucket == bucket.plan.id).map_or(0, |charge| charge.mark);
        bucket.calm_down(now, mark);
    }
}

fn floor_group(value: &mut ScopeValue, binding: &Binding, new_floor: Floor, now: FleetTime) {
    let second_group = match &value.last_refusal {
        Some((group, at)) => *group != binding.plan.key && now.since(*at) <= ACCOUNT_REFUSAL_WITHIN,
        None => false,
    };
    value.last_refusal = Some((binding.plan.key.clone(), now));
    if second_group {
        floor::raise(&mut value.floor, new_floor);
    }
    if let Some(group) = value.groups.get_mut(binding.group) {
        floor::raise(&mut group.floor, new_floor);
    }
}

struct BareWait {
    base: Span,
    factor: f64,
    most: Span,
}

const BARE_REFUSAL: BareWait = BareWait { base: backoff::BASE, factor: 2.0, most: backoff::MOST };
/// A service that is away is probed more often: its return must not cost ten more seconds.
const BARE_OVERLOAD: BareWait = BareWait { base: Span::from_millis(600), factor: 1.4, most: Span::from_millis(2_500) };

/// Nothing usable came with the refusal: the call backs off, and so does the group, once per cut.
fn bare_refusal<R: Rng + ?Sized>(
    value: &mut ScopeValue,
    binding: &Binding,
    lease: &Lease,
    now: FleetTime,
    rng: &mut R,
    done: &mut Reported,
    wait: &BareWait,
) {
    let base = wait.base.max(binding.plan.min_backoff);
    let call = backoff::full(lease.attempt, base, rng).min(wait.most.max(base));
    done.call_floor = Some(CallFloor { until: now + call, source: Source::Backoff });
    let Some(group) = value.groups.get_mut(binding.group) else { return };
    let group_wait = if lease.group_mark > group.cut_mark {
        group.refusals = group.refusals.saturating_add(1);
        group.cut_mark = group.granted;
        backoff::equal(group.refusals, base, wait.factor, wait.most.max(base), rng)
    } else {
        Span::ZERO
    };
    floor::raise(&mut group.floor, Floor::new(now, group_wait, Source::Backoff));
    note(done, now + call.max(group_wait), now, Source::Backoff);
}

fn shrink_ramp(value: &mut ScopeValue, binding: &Binding, lease: &Lease) {
    let Some(group) = value.groups.get_mut(binding.group) else { return };
    if lease.group_mark > group.ramp_cut_mark {
        group.ramp_cut_mark = group.granted;
        let halved = Milli::from_milli(group.ramp.as_milli() / 2);
        group.ramp = halved.max(Milli::from_units(1));
        group.ramp_met_refusal = true;
        group.is_starting = false;
    }
}

fn note(done: &mut Reported, until: FleetTime, now: FleetTime, source: Source) {
    let length = until.since(now);
    if length >= done.honored {
        done.honored = length;
        done.source = source;
    }
}
