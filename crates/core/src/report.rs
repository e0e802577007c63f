//! What a report does to a scope: levels, limits and floors from the provider's answer, and the settlement of the lease.

use rand::Rng;

use crate::amounts::Amounts;
use crate::backoff;
use crate::charge::used_in;
use crate::evidence;
use crate::exhausted;
use crate::holds::Holds;
use crate::learn::{self, Seen};
use crate::lease::{CallFloor, Lease};
use crate::plan::Owner;
use crate::provisional;
use crate::refusal;
use crate::signal::{AnswerKind, Signal, Source};
use crate::units::{FleetTime, Milli, Span};
use crate::value::{Binding, ScopeValue};

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
    /// Floors that a success has contradicted.
    pub floors_ended: u32,
    /// Observed buckets that fit none of ours.
    pub unmatched: u32,
    /// The expiry slot the lease's held units are in from now on.
    pub hold_until: FleetTime,
}

/// An answer of the provider, and what it is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered<'a> {
    pub(crate) binding: &'a Binding,
    pub(crate) lease: &'a Lease,
    pub(crate) signal: &'a Signal,
    pub(crate) answered_at: FleetTime,
    pub(crate) now: FleetTime,
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
        let answered = Answered { binding, lease, signal, answered_at: report.answered_at, now };
        learn_buckets(value, &answered, &mut done);
        match signal.kind {
            AnswerKind::Throttled => refusal::refused(value, &answered, rng, &mut done),
            AnswerKind::Overloaded => refusal::overloaded(value, &answered, rng, &mut done),
            AnswerKind::Ok if report.is_open => succeeded(value, binding, lease, now),
            AnswerKind::QuotaExhausted => exhausted::refused(value, binding, lease, now),
            AnswerKind::Failed => refusal::call_waits(&answered, rng, &mut done),
            _ => {}
        }
        match signal.kind {
            AnswerKind::Throttled | AnswerKind::Overloaded => provisional::review(value, &answered),
            AnswerKind::Ok => done.floors_ended = provisional::contradict(value, binding, lease, now),
            _ => {}
        }
    } else if report.outcome == Outcome::ConnectionFailed && report.is_open {
        refusal::service_failed(value, binding, lease, now, rng, &mut done);
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
    let is_away = report.signal.is_some_and(|signal| signal.kind == AnswerKind::Overloaded);
    if report.outcome == Outcome::ConnectionFailed || is_away {
        // A service that is away charges nothing.
        return release(value, lease);
    }
    let puts_into_stock = lease.puts_into_stock();
    for charge in &lease.charges {
        let Some(bucket) = value.position(&charge.bucket).and_then(|index| value.buckets.get_mut(index)) else { continue };
        if charge.held {
            bucket.holds.free(lease.hold_until, charge.amount);
            continue;
        }
        // What a stock counts is not counted again by what it was handed over with.
        if puts_into_stock && charge.amount == Milli::ZERO {
            continue;
        }
        if let Some(actual) = report.usage.and_then(|usage| used_in(usage, &bucket.plan.meter)).map(Milli::from_units) {
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

fn learn_buckets(value: &mut ScopeValue, answered: &Answered<'_>, done: &mut Reported) {
    let Answered { binding, lease, signal, answered_at, now } = *answered;
    let flights = value.groups.get(binding.group).map_or(0, |group| group.flights.in_use(now).as_units_floor());
    for observed in &signal.buckets {
        let Some(index) = evidence::matching(value, binding, observed, &signal.buckets) else {
            done.unmatched += 1;
            continue;
        };
        let Some(bucket) = value.buckets.get_mut(index) else { continue };
        let charge = lease.charges.iter().find(|charge| charge.bucket == bucket.plan.id);
        let seen = Seen {
            // A lease from before this bucket was known has no mark: everything granted since counts against it.
            mark: charge.map_or(0, |charge| charge.mark),
            early: charge.map_or(0, |charge| charge.early),
            is_last: flights <= 1 && matches!(bucket.plan.id.owner, Owner::Group(_)),
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

fn succeeded(value: &mut ScopeValue, binding: &Binding, lease: &Lease, now: FleetTime) {
    exhausted::succeeded(value, binding, lease);
    for charge in lease.charges.iter().filter(|charge| !charge.held) {
        if let Some(bucket) = value.position(&charge.bucket).and_then(|index| value.buckets.get_mut(index)) {
            bucket.prove(charge.amount, now);
            bucket.climb(charge.amount, now);
            bucket.ceiling.is_silent = bucket.learned.limit.is_none();
        }
    }
    let Some(group) = value.groups.get_mut(binding.group) else { return };
    if lease.group_mark > group.breaker.last_mark && group.breaker.succeed() {
        // The service is back: what its buckets hold goes out slowly at first.
        group.is_starting = true;
        for charge in lease.charges.iter().filter(|charge| !charge.held) {
            if let Some(index) = value.buckets.iter().position(|bucket| bucket.plan.id == charge.bucket)
                && let Some(bucket) = value.buckets.get_mut(index)
            {
                bucket.doubt(now, charge.amount);
            }
        }
    }
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
