//! What a refusal does: who waits, and until when (the table in docs/internals/deciding.md).

use rand::Rng;

use crate::backoff;
use crate::bucket::{BucketState, Observation};
use crate::ceiling::Refused;
use crate::evidence::{self, Evidence, charge_of};
use crate::floor::{self, Floor};
use crate::lease::{CallFloor, Lease};
use crate::report::{Answered, Reported};
use crate::signal::{ObservedOwner, ResetMeans, Source};
use crate::units::{FleetTime, LONGEST_FLOOR, Milli, Span};
use crate::value::{Binding, ScopeValue};

/// A second group refused within this time means that the account as a whole is refused.
const ACCOUNT_REFUSAL_WITHIN: Span = Span::from_secs(1);

/// 429 and its kin. What the provider said decides who waits (see the table in docs/internals/deciding.md).
pub(crate) fn refused<R: Rng + ?Sized>(value: &mut ScopeValue, answered: &Answered<'_>, rng: &mut R, done: &mut Reported) {
    let Answered { signal, now, .. } = *answered;
    shrink_ramp(value, answered);
    let evidence = evidence::evidence(value, answered);
    if evidence.leaves_open() {
        meet_ceiling(value, answered);
    }
    let Some(told) = signal.retry_after.filter(|told| *told > Span::ZERO) else {
        if is_next_refusal(value, answered) {
            empty_levels(value, answered);
        }
        return bare_refusal(value, answered.binding, answered.lease, now, rng, done, &BARE_REFUSAL);
    };
    let until = answered.answered_at + told.min(LONGEST_FLOOR);
    if until <= now {
        return; // the report came so late that the wait is over
    }
    let names_own = signal.names_model || signal.buckets.iter().any(|seen| seen.owner == ObservedOwner::Group);
    let new_floor = Floor { until, since: now, source: signal.source };
    if evidence.contradicts_level() {
        calm_down(value, answered);
    }
    match evidence {
        Evidence::Empty(buckets) => {
            for (index, observed) in buckets {
                let own_reset = (signal.source == Source::ResetHeader).then_some(observed.reset_in).flatten();
                // Time until full is no time to wait: the bucket is paced by its refill instead.
                let Some(bucket) = value.buckets.get_mut(index) else { continue };
                if own_reset.is_some() && bucket.meaning(observed) == ResetMeans::Full {
                    continue;
                }
                let until = own_reset.map_or(until, |reset| answered.answered_at + reset.min(LONGEST_FLOOR));
                floor::raise(&mut bucket.floor, Floor { until, ..new_floor });
                note(done, until, now, signal.source);
            }
        }
        Evidence::Short | Evidence::Room => {
            done.call_floor = Some(CallFloor { until, source: signal.source });
            note(done, until, now, signal.source);
        }
        Evidence::RoomWhereTold | Evidence::Unknown => {
            cap_levels(value, answered, until);
            if !names_own {
                floor_account(value, answered.binding, new_floor, now);
            }
            if let Some(group) = value.groups.get_mut(answered.binding.group) {
                floor::raise(&mut group.floor, new_floor);
            }
            note(done, until, now, signal.source);
        }
    }
}

/// 503, 529: the service is away, not our bucket.
pub(crate) fn overloaded<R: Rng + ?Sized>(value: &mut ScopeValue, answered: &Answered<'_>, rng: &mut R, done: &mut Reported) {
    let Answered { signal, now, .. } = *answered;
    match signal.retry_after.filter(|told| *told > Span::ZERO) {
        Some(told) => {
            let until = answered.answered_at + told.min(LONGEST_FLOOR);
            if until > now
                && let Some(group) = value.groups.get_mut(answered.binding.group)
            {
                floor::raise(&mut group.floor, Floor { until, since: now, source: signal.source });
                note(done, until, now, signal.source);
            }
        }
        None => service_failed(value, answered.binding, answered.lease, now, rng, done),
    }
}

/// The service failed and said nothing of when: before the breaker opens as after a bare refusal, then one probe at a time.
pub(crate) fn service_failed<R: Rng + ?Sized>(
    value: &mut ScopeValue,
    binding: &Binding,
    lease: &Lease,
    now: FleetTime,
    rng: &mut R,
    done: &mut Reported,
) {
    let Some(group) = value.groups.get_mut(binding.group) else { return };
    let wait = group.breaker.fail(lease.group_mark, group.granted, now, rng);
    if !group.breaker.is_open() {
        return bare_refusal(value, binding, lease, now, rng, done, &BARE_OVERLOAD);
    }
    let wait = wait.unwrap_or_else(|| group.floor.map_or(Span::ZERO, |floor| floor.until.since(now)));
    floor::raise(&mut group.floor, Floor::new(now, wait, Source::Backoff));
    done.call_floor = Some(CallFloor { until: now + wait, source: Source::Backoff });
    note(done, now + wait, now, Source::Backoff);
}

/// The refused call's bucket, where no header tells of one, is the one that is probably empty: of those with a limit the least
/// full, else that of requests.
fn meet_ceiling(value: &mut ScopeValue, answered: &Answered<'_>) {
    let Answered { binding, lease, signal, now, .. } = *answered;
    let is_silent = |bucket: &BucketState| {
        let is_told = signal.buckets.iter().any(|seen| *seen.meter == *bucket.plan.meter && seen.remaining.is_some());
        !bucket.is_held() && !is_told && bucket.learned.limit.is_none()
    };
    let silent = binding.buckets.iter().copied().filter(|index| value.buckets.get(*index).is_some_and(is_silent));
    let fullness = |index: &usize| -> (i64, bool) {
        let Some(bucket) = value.buckets.get(*index) else { return (i64::MAX, true) };
        let part = bucket.told_rate().zip(bucket.level_at(now)).map(|(rate, level)| {
            let thousand = i128::from(level.as_milli()) * 1_000 / i128::from(rate.capacity.as_milli().max(1));
            i64::try_from(thousand).unwrap_or(i64::MAX)
        });
        (part.unwrap_or(i64::MAX), &*bucket.plan.meter != "requests")
    };
    let Some(bucket) = silent.min_by_key(fullness).and_then(|index| value.buckets.get_mut(index)) else { return };
    let Some(charge) = lease.charges.iter().find(|charge| charge.bucket == bucket.plan.id) else { return };
    // A watched call that was not to be sent then: no group has ever granted nothing.
    let is_needless = lease.group_mark == 0;
    bucket.meet_ceiling(Refused { mark: charge.mark, cost: charge.amount, sent_at: lease.send_at, is_needless }, now);
}

/// 5xx that may have run: this call alone waits.
pub(crate) fn call_waits<R: Rng + ?Sized>(answered: &Answered<'_>, rng: &mut R, done: &mut Reported) {
    let Answered { binding, lease, signal, answered_at, now } = *answered;
    let (until, source) = match signal.retry_after.filter(|told| *told > Span::ZERO) {
        Some(told) => (answered_at + told, signal.source),
        None => (now + backoff::full(lease.attempt, binding.plan.min_backoff.max(backoff::BASE), rng), Source::Backoff),
    };
    if until > now {
        done.call_floor = Some(CallFloor { until, source });
        note(done, until, now, source);
    }
}

/// A refusal that does not name its bucket: each bucket of the call that the answer is silent about holds less than the call
/// cost. A window whose phase nobody has seen ends when the provider says to come back.
fn cap_levels(value: &mut ScopeValue, answered: &Answered<'_>, until: FleetTime) {
    empty_levels(value, answered);
    for index in &answered.binding.buckets {
        // A calendar's phase is known, and a wait of minutes is not for what comes back with the day.
        let is_meant = |bucket: &BucketState| {
            let is_short = bucket.is_long_window() && until.since(answered.now) < Span::from_secs(3_600);
            bucket.is_windowed() && bucket.observed.is_none() && bucket.plan.calendar.is_none() && !is_short
        };
        let Some(bucket) = value.buckets.get_mut(*index).filter(|bucket| is_meant(bucket)) else { continue };
        if bucket.rate().is_some_and(|rate| until.since(answered.now) <= rate.per) {
            bucket.level.amount = bucket.level.amount.min(Milli::ZERO);
            bucket.window_end = until;
            bucket.opens_at = FleetTime::ZERO;
        }
    }
}

/// Buckets that refill evenly, and about which the refusal is silent, hold less than the call cost: an observation that counts
/// all that was granted so far, so that what those calls turn out to use is not taken a second time. A window is left alone: it
/// would stay empty until an end that nobody has told.
fn empty_levels(value: &mut ScopeValue, answered: &Answered<'_>) {
    let Answered { binding, lease, signal, now, .. } = *answered;
    for index in &binding.buckets {
        let is_told = |bucket: &BucketState| {
            signal.buckets.iter().any(|seen| *seen.meter == *bucket.plan.meter && seen.remaining.is_some())
        };
        let is_meant =
            |bucket: &BucketState| !bucket.is_held() && !bucket.is_windowed() && !bucket.is_long_window() && !is_told(bucket);
        let Some(bucket) = value.buckets.get_mut(*index).filter(|bucket| is_meant(bucket)) else { continue };
        let (Some(cost), Some(level)) = (charge_of(lease, bucket), bucket.level_at(now)) else { continue };
        let most = cost - Milli::from_milli(1);
        if level > most {
            bucket.shift_level(most - level, now);
        }
        bucket.observed = Some(Observation { mark: bucket.fired, remaining: most.at_least_zero(), at: now, reports: 1 });
    }
}

/// Whether this refusal counts: those of calls granted before the last one was reported only repeat it.
fn is_next_refusal(value: &ScopeValue, answered: &Answered<'_>) -> bool {
    value.groups.get(answered.binding.group).is_some_and(|group| answered.lease.group_mark > group.cut_mark)
}

/// There was room, and still the call was refused: the buckets are counted over a shorter time than they say.
fn calm_down(value: &mut ScopeValue, answered: &Answered<'_>) {
    let Answered { binding, lease, now, .. } = *answered;
    for index in &binding.buckets {
        let Some(bucket) = value.buckets.get_mut(*index).filter(|bucket| !bucket.is_held()) else { continue };
        let charge = lease.charges.iter().find(|charge| charge.bucket == bucket.plan.id);
        let (mark, cost) = charge.map_or((0, Milli::from_units(1)), |charge| (charge.mark, charge.amount));
        bucket.calm_down(now, mark, cost);
    }
}

/// Raises the account's floor when another group was refused a moment ago, for as long as both were told to wait. Only refusals count
/// that name neither their model nor a bucket of its group: one that does is about those, however many come together.
fn floor_account(value: &mut ScopeValue, binding: &Binding, new_floor: Floor, now: FleetTime) {
    let other_group = match &value.last_refusal {
        Some((group, at)) => {
            Some(group).filter(|group| **group != binding.plan.key && now.since(*at) <= ACCOUNT_REFUSAL_WITHIN)
        }
        None => None,
    };
    let others_floor = other_group.and_then(|key| value.groups.iter().find(|group| group.key == *key)?.floor);
    if other_group.is_some() {
        let both = others_floor.filter(|floor| floor.until < new_floor.until).unwrap_or(new_floor);
        floor::raise(&mut value.floor, both);
    }
    value.last_refusal = Some((binding.plan.key.clone(), now));
}

/// After a limit that calls were passing has refused one: so many refusals in a row, at most so far apart; about a minute and a half.
const PROBES: u32 = 24;
const PROBE_GAP: Span = Span::from_secs(5);
/// Steps of the backoff that come to less than [`PROBE_GAP`].
const STEPS_TO_PROBE_GAP: u32 = 4;

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
    let has_passed = value.rated(&binding.buckets).any(BucketState::was_passing);
    let Some(group) = value.groups.get_mut(binding.group) else { return };
    let group_wait = if lease.group_mark > group.cut_mark {
        group.refusals = group.refusals.saturating_add(1);
        group.cut_mark = group.granted;
        let (refusals, most) = if has_passed { probing(group.refusals, wait.most) } else { (group.refusals, wait.most) };
        backoff::equal(refusals, base, wait.factor, most.max(base), rng)
    } else {
        Span::ZERO
    };
    floor::raise(&mut group.floor, Floor::new(now, group_wait, Source::Backoff));
    note(done, now + call.max(group_wait), now, Source::Backoff);
}

/// A limit that many calls passed until just now comes back within a minute or two, whether evenly or at the end of a window: so
/// the steps stay short for as long as that. Returns the step, and the longest wait.
fn probing(refusals: u32, most: Span) -> (u32, Span) {
    match refusals.checked_sub(PROBES) {
        None => (refusals, PROBE_GAP.min(most)),
        // From there on as if the short steps had not been.
        Some(beyond) => (beyond.saturating_add(STEPS_TO_PROBE_GAP), most),
    }
}

fn shrink_ramp(value: &mut ScopeValue, answered: &Answered<'_>) {
    let Some(group) = value.groups.get_mut(answered.binding.group) else { return };
    if answered.lease.group_mark > group.ramp_cut_mark {
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
