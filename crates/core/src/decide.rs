//! Who is sent next: one pass over the lanes' heads. Pure: the value, the queue, fleet time and randomness in; slots and denials
//! out, and when to look again.
//!
//! Order says who is next; only levels say whether. Every grant debits every bucket it touches or none.

use std::collections::HashSet;
use std::sync::Arc;

use rand::Rng;

use crate::bucket::BucketState;
use crate::charge::cost_in;
use crate::delays::{self, Cause, DelayPart, RunnerUp, describe};
use crate::denial::{Denial, Reason};
use crate::exhausted;
use crate::holds::Holds;
use crate::jitter::uniform;
use crate::lanes::{self, Line};
use crate::lease::Charge;
use crate::outlook::{Outlook, charge_for, outlook, outlook_beside};
use crate::plan::Class;
use crate::provisional;
use crate::queue::{Ask, AskId, Queue};
use crate::signal::Source;
use crate::units::{FleetTime, Milli, Span};
use crate::value::{Binding, ScopeValue};
use crate::verdict::verdict;

/// A slot that is firm so long ahead reaches the worker in time.
const IN_TIME: Span = Span::from_millis(5);
/// After a floor, a call alone in line is moved within at most this.
const ALONE_JITTER: Span = Span::from_secs(5);

/// A granted slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// When to send, jitter included.
    pub send_at: FleetTime,
    /// What was taken.
    pub charges: Vec<Charge>,
    /// Meters whose cost the core filled in, with what was charged.
    pub estimated: Vec<(Arc<str>, Milli)>,
    /// The group's `granted` after this call.
    pub group_mark: u64,
    /// The group's key.
    pub group: Arc<str>,
    /// The expiry slot of held units.
    pub hold_until: FleetTime,
    /// The whole wait by cause, from the attempt's first ask to `send_at`.
    pub delays: Vec<DelayPart>,
    /// What else would have held it up.
    pub runner_up: Option<RunnerUp>,
}

/// What became of a waiting call.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It may send.
    Granted(Box<Slot>),
    /// It may not.
    Denied(Denial, Vec<DelayPart>),
}

/// The outcome of one pass.
#[derive(Debug, Default)]
pub struct Pass {
    /// Calls that left the queue, in the order of decision.
    pub decided: Vec<(Ask, Decision)>,
    /// When the next pass could decide something by time alone.
    pub look_again_at: Option<FleetTime>,
}

/// Decides about every waiting call that can be decided now. `recheck`: floors or limits changed, so every call's bounds are
/// looked at again, not only those of the heads.
pub fn decide<R: Rng + ?Sized>(value: &mut ScopeValue, queue: &mut Queue, now: FleetTime, recheck: bool, rng: &mut R) -> Pass {
    let mut pass = Pass::default();
    queue.advance(now);
    let fresh = queue.take_fresh();
    deny_overdue(queue, now, &mut pass);
    let to_check = if recheck { queue.ids() } else { fresh.clone() };
    for id in to_check {
        check_bounds(value, queue, id, now, &mut pass);
    }
    grant_heads(value, queue, now, rng, &mut pass);
    for id in fresh {
        if let Some(waiting) = queue.waiting_mut(id) {
            waiting.fresh = false;
        }
    }
    if let Some((limit, _)) = queue.first_limit() {
        sooner(&mut pass.look_again_at, limit + Span::from_micros(1));
    }
    if let Some(back_at) = queue.next_back() {
        sooner(&mut pass.look_again_at, back_at);
    }
    pass
}

fn deny_overdue(queue: &mut Queue, now: FleetTime, pass: &mut Pass) {
    while let Some((limit, id)) = queue.first_limit() {
        if limit >= now {
            return;
        }
        let until_deadline = queue.get(id).filter(|waiting| waiting.ask.until_deadline).map(|waiting| waiting.ask.run);
        let cause = queue.cause_of(id);
        let detail = format!(
            "{}; it waited for {}",
            match until_deadline {
                None => "max_wait is over".to_string(),
                Some(Span::ZERO) => "the deadline is over".to_string(),
                Some(run) => format!("the deadline ends in {run}, and such calls typically run as long"),
            },
            cause.as_ref().map_or_else(|| "its turn".to_string(), describe)
        );
        let denial = Denial { reason: Reason::Deadline, retry_after: Some(Span::ZERO), detail };
        if !deny(queue, id, now, denial, pass) {
            queue.forget_limit(limit, id);
        }
    }
}

/// Returns whether there was such a call.
fn deny(queue: &mut Queue, id: AskId, now: FleetTime, denial: Denial, pass: &mut Pass) -> bool {
    let Some((waiting, parts)) = queue.remove(id, now) else { return false };
    pass.decided.push((waiting.ask, Decision::Denied(denial, parts)));
    true
}

/// Denies a call that cannot succeed however soon the others leave; nothing is charged.
fn check_bounds(value: &mut ScopeValue, queue: &mut Queue, id: AskId, now: FleetTime, pass: &mut Pass) {
    let Some(waiting) = queue.get(id) else { return };
    let ask = waiting.ask.clone();
    let binding = bind(value, &ask, now);
    let seen = outlook(value, &binding, &ask, now, false);
    if let Some(denial) = verdict(value, &binding, &ask, &seen, now) {
        deny(queue, id, now, denial, pass);
        return;
    }
    if let Some(waiting) = queue.waiting_mut(id)
        && waiting.runner_up.is_none()
    {
        waiting.runner_up = seen.runner_up;
    }
}

/// The buckets of a call, with a first level where nobody has used them.
pub(crate) fn bind(value: &mut ScopeValue, ask: &Ask, now: FleetTime) -> Binding {
    let binding = value.bind(&ask.plan, now);
    for index in &binding.buckets {
        let one_call = value.buckets.get(*index).map(|bucket| cost_in(value, ask, bucket).0);
        if let (Some(bucket), Some(cost)) = (value.buckets.get_mut(*index), one_call) {
            bucket.start(now, cost);
        }
    }
    binding
}

struct Round {
    line: Line,
    /// Buckets that a call waits for whose turn comes before all that follow.
    claimed: HashSet<usize>,
    alone: bool,
}

/// What became of a call whose turn it was.
enum Stepped {
    /// It left the queue; true: granted.
    Gone(bool),
    /// It waits, for a bucket or something else.
    Held { source: Source, bucket: Option<usize>, label: Arc<str> },
}

fn grant_heads<R: Rng + ?Sized>(value: &mut ScopeValue, queue: &mut Queue, now: FleetTime, rng: &mut R, pass: &mut Pass) {
    let mut round = Round { line: Line::new(value, queue, now), claimed: HashSet::new(), alone: queue.len() == 1 };
    while let Some(next) = round.line.next(value, queue, now) {
        let Some(head) = queue.lane(&next.key).and_then(|lane| lane.head()) else { continue };
        let (ask, fresh) = (head.ask.clone(), head.fresh);
        match step_head(value, queue, &ask, fresh, now, rng, &mut round, pass) {
            Stepped::Gone(granted) => {
                if granted {
                    round.line.served(&next, value, &ask, now);
                }
                round.line.put_back(&next, value, queue);
            }
            Stepped::Held { source, bucket, label } => round.line.hold(&next, value, queue, source, bucket, &label, now),
        }
    }
}

/// Decides about one head.
#[expect(clippy::too_many_arguments, reason = "one pass's state; a struct would only rename it")]
fn step_head<R: Rng + ?Sized>(
    value: &mut ScopeValue,
    queue: &mut Queue,
    ask: &Ask,
    fresh: bool,
    now: FleetTime,
    rng: &mut R,
    round: &mut Round,
    pass: &mut Pass,
) -> Stepped {
    let binding = bind(value, ask, now);
    if let Some(taken) = binding.buckets.iter().find(|index| round.claimed.contains(index)) {
        let label = value.buckets.get(*taken).map_or_else(|| Arc::from(""), |bucket| Arc::from(bucket.plan.id.label()));
        return Stepped::Held { source: Source::FairShare, bucket: Some(*taken), label };
    }
    // Another call of this pass may have been the one probe.
    if let Some(denial) = exhausted::denial(value, &binding, now) {
        deny(queue, ask.id, now, denial, pass);
        return Stepped::Gone(false);
    }
    let is_calm = value.rated(&binding.buckets).any(|bucket| bucket.is_calm(now));
    let is_first = fresh && !binding.buckets.iter().any(|index| round.line.contended.contains(index));
    if !is_calm && (is_first || is_starting(value, &binding)) {
        let seen = outlook(value, &binding, ask, now, false);
        if seen.opening.at <= now {
            grant(value, queue, ask, &binding, &seen, now, None, pass, now);
            return Stepped::Gone(true);
        }
        end_start(value, &binding, &seen);
    }
    let seen = outlook_beside(value, &binding, ask, now, true, |index| round.line.kept_from(ask.class, index));
    if let Some(denial) = verdict(value, &binding, ask, &seen, now) {
        deny(queue, ask.id, now, denial, pass);
        return Stepped::Gone(false);
    }
    let ahead = firm_ahead(value, &binding, ask, now);
    if seen.opening.at <= now + ahead && seen.ends_at <= now {
        let base = seen.opening.at.max(now);
        lanes::waits_briefly(value, seen.binding_bucket, ask.class, &seen.opening, now);
        let send = base + jitter(value, &binding, ask, &seen, base, round.alone, rng);
        grant(value, queue, ask, &binding, &seen, send, Some(base), pass, now);
        return Stepped::Gone(true);
    }
    let decidable_at = (seen.opening.at - ahead).max(seen.ends_at);
    if seen.opening.at != FleetTime::MAX {
        sooner(&mut pass.look_again_at, decidable_at);
    }
    round.line.contended.extend(&binding.buckets);
    // A call that waits for a shared bucket comes before later ones in it; one that waits for something of its own keeps
    // nobody else.
    round.claimed.extend(seen.binding_bucket);
    // Where no limit is known yet, calls in flight are what classes share, by any bucket's count of them.
    let shared =
        || binding.buckets.iter().copied().find(|index| value.buckets.get(*index).is_some_and(|bucket| !bucket.is_held()));
    let bucket = if seen.opening.source == Source::Ramp { shared() } else { seen.binding_bucket };
    Stepped::Held { source: seen.opening.source, bucket, label: seen.bucket }
}

/// How far ahead a slot is firm: the horizon of the class, and for batch at most half of a spacing where that is longer than
/// what a replica needs to be in time, so that a chat that comes next gets the next slot but one at the latest.
fn firm_ahead(value: &ScopeValue, binding: &Binding, ask: &Ask, now: FleetTime) -> Span {
    let horizon = ask.class.horizon();
    if ask.class != Class::Batch {
        return horizon;
    }
    horizon.min(spacing(value, binding, ask, now).scaled(0.25).max(IN_TIME))
}

/// The distance to the next slot after this call, on the slowest of its buckets.
fn spacing(value: &ScopeValue, binding: &Binding, ask: &Ask, at: FleetTime) -> Span {
    let gaps = binding.buckets.iter().filter_map(|index| {
        let bucket = value.buckets.get(*index).filter(|bucket| !bucket.is_held())?;
        Some(bucket.gap(charge_for(value, ask, *index).0, at))
    });
    gaps.max().unwrap_or(Span::ZERO)
}

/// Whether the group is still starting: what its buckets show is then sent as fast as calls prove that it may go together.
/// Spreading it over the drain's time constant would cost a short run a third of its time.
fn is_starting(value: &ScopeValue, binding: &Binding) -> bool {
    let is_unproven = |bucket: &BucketState| bucket.rate().is_none_or(|rate| bucket.is_unproven(&rate));
    value.groups.get(binding.group).is_some_and(|group| group.is_starting) && value.rated(&binding.buckets).any(is_unproven)
}

/// The start is over once an empty bucket or a floor governs: from there on calls are paced.
fn end_start(value: &mut ScopeValue, binding: &Binding, seen: &Outlook) {
    if let Some(group) = value.groups.get_mut(binding.group)
        && seen.opening.source != Source::Ramp
    {
        group.is_starting = false;
    }
}

/// How far a slot at `base` is moved: uniform within its own spacing, at most the class's horizon, and never so far that a
/// brimming bucket would lose units; after a floor, alone in line, within the floor's length instead (at most 5 s), because
/// nobody knows who else was told the same.
fn jitter<R: Rng + ?Sized>(
    value: &ScopeValue,
    binding: &Binding,
    ask: &Ask,
    seen: &Outlook,
    base: FleetTime,
    alone: bool,
    rng: &mut R,
) -> Span {
    let spacing = spacing(value, binding, ask, base);
    let room = value.rated(&binding.buckets).map(|bucket| bucket.room(base)).min().unwrap_or(Span::MAX);
    let after_floor = seen.floor.filter(|floor| alone && floor.until == base).map(|floor| floor.length().min(ALONE_JITTER));
    let latest = ask.wait_until - base;
    let window = match after_floor {
        Some(window) => window,
        // A person waits: half of that is enough where order has broken the herd already.
        None if ask.class == Class::Interactive && !alone => spacing.scaled(0.25).min(ask.class.horizon()).min(room),
        None => spacing.min(ask.class.horizon()).min(room),
    };
    uniform(rng, window.min(latest.at_least_zero() + Span::from_micros(1)))
}

#[expect(clippy::too_many_arguments, reason = "one pass's state; a struct would only rename it")]
fn grant(
    value: &mut ScopeValue,
    queue: &mut Queue,
    ask: &Ask,
    binding: &Binding,
    seen: &Outlook,
    send_at: FleetTime,
    base: Option<FleetTime>,
    pass: &mut Pass,
    now: FleetTime,
) {
    let Some((waiting, mut parts)) = queue.remove(ask.id, now) else { return };
    let hold_until = Holds::slot_for(send_at, ask.ttl);
    let (charges, estimated) = take(value, ask, binding, (base.unwrap_or(send_at), send_at), base.is_some(), hold_until);
    let (group, group_mark) = begin_flight(value, binding, hold_until);
    if let Some(group) = value.groups.get_mut(binding.group) {
        group.breaker.let_go(send_at);
        group.tally.count(ask.sent, now);
    }
    exhausted::granted(value, binding, now);
    provisional::probe(value, binding, send_at);
    if let Some(base) = base {
        let cause = Cause { source: seen.opening.source, bucket: seen.bucket.clone() };
        delays::add(&mut parts, &cause, base.since(now));
        delays::add(&mut parts, &Cause::plain(Source::Jitter), send_at.since(base));
    }
    let slot = Slot { send_at, charges, estimated, group_mark, group, hold_until, delays: parts, runner_up: waiting.runner_up };
    pass.decided.push((waiting.ask, Decision::Granted(Box::new(slot))));
}

/// Charges a call in all its buckets; `at`: its place in the paced line, and when it is sent. Returns what was taken, and the
/// meters that were filled in.
pub(crate) fn take(
    value: &mut ScopeValue,
    ask: &Ask,
    binding: &Binding,
    at: (FleetTime, FleetTime),
    waited: bool,
    hold_until: FleetTime,
) -> (Vec<Charge>, Vec<(Arc<str>, Milli)>) {
    let mut charges = Vec::with_capacity(binding.buckets.len());
    let mut estimated = Vec::new();
    for (plan, index) in binding.plan.buckets.iter().zip(&binding.buckets) {
        let (amount, guessed) = charge_for(value, ask, *index);
        let Some(bucket) = value.buckets.get_mut(*index) else { continue };
        let held = bucket.is_held();
        let kept = bucket.kept_for(ask.class, amount, at.0);
        let taken = bucket.take(amount, kept, at.0, at.1, waited, hold_until);
        charges.push(Charge {
            bucket: plan.id.clone(),
            amount,
            mark: taken.mark,
            early: taken.early,
            window_end: taken.window_end,
            held,
        });
        if guessed {
            estimated.push((plan.meter.clone(), amount));
        }
    }
    (charges, estimated)
}

/// Counts a call in flight; returns its group's key and mark.
pub(crate) fn begin_flight(value: &mut ScopeValue, binding: &Binding, hold_until: FleetTime) -> (Arc<str>, u64) {
    let Some(group) = value.groups.get_mut(binding.group) else { return (binding.plan.key.clone(), 0) };
    group.granted = group.granted.saturating_add(1);
    group.flights.take(hold_until, Milli::from_units(1));
    (group.key.clone(), group.granted)
}

fn sooner(look: &mut Option<FleetTime>, at: FleetTime) {
    *look = Some(look.map_or(at, |standing| standing.min(at)));
}
