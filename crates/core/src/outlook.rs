//! What holds a call up at one instant: floors, calls in flight, buckets; the latest of them, and the one before.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::charge::cost_in;
use crate::delays::{Cause, RunnerUp};
use crate::floor::Floor;
use crate::opening::Opening;
use crate::plan::CONCURRENCY;
use crate::queue::Ask;
use crate::signal::Source;
use crate::units::{FleetTime, Milli, Span};
use crate::value::{Binding, ScopeValue};

/// What holds a call up, as found at one instant.
#[derive(Clone, Debug)]
pub struct Outlook {
    /// When it may be sent.
    pub opening: Opening,
    /// About which bucket (empty: the group, the account or the call itself).
    pub bucket: Arc<str>,
    /// The second latest.
    pub runner_up: Option<RunnerUp>,
    /// The longest standing floor that is the provider's word.
    pub floor: Option<Floor>,
    /// The window of the binding bucket, if it is one.
    pub per: Span,
    /// When enough calls in flight will have ended, if only by expiry. Until then each may be renewed, so no slot is firm.
    pub(crate) ends_at: FleetTime,
    pub(crate) binding_bucket: Option<usize>,
}

/// What holds `ask` up at `now`. `waited`: it has been in line, so pacing and margin apply.
pub fn outlook(value: &ScopeValue, binding: &Binding, ask: &Ask, now: FleetTime, waited: bool) -> Outlook {
    outlook_beside(value, binding, ask, now, waited, |_| Milli::ZERO)
}

/// The same, beside what is kept in the buckets for others.
pub(crate) fn outlook_beside(
    value: &ScopeValue,
    binding: &Binding,
    ask: &Ask,
    now: FleetTime,
    waited: bool,
    kept: impl Fn(usize) -> Milli,
) -> Outlook {
    let mut openings: Vec<(Opening, Option<usize>)> = Vec::with_capacity(binding.buckets.len() + 3);
    let mut standing = None;
    let group = value.groups.get(binding.group);
    let call =
        ask.not_before.map(|floor| Floor { until: floor.until, since: ask.asked_at.min(floor.until), source: floor.source });
    for floor in
        [value.floor, group.and_then(|group| group.floor), call].into_iter().flatten().filter(|floor| floor.holds_at(now))
    {
        openings.push((Opening { at: floor.until, at_best: floor.until, source: floor.source }, None));
        note_floor(&mut standing, floor);
    }
    if let Some(pause) = ask.pause.as_ref().filter(|pause| pause.until > now) {
        openings.push((Opening { at: pause.until, at_best: pause.until, source: Source::Paused }, None));
    }
    if let Some(breaker) = group.map(|group| group.breaker).filter(|breaker| breaker.is_probing(now)) {
        openings.push((Opening { at: breaker.probing_until, at_best: now, source: Source::Backoff }, None));
    }
    let mut ends_at = now;
    if let Some(opening) = ramp_opening(value, binding, now) {
        ends_at = ends_at.max(opening.at);
        openings.push((opening, None));
    }
    for index in &binding.buckets {
        let Some(bucket) = value.buckets.get(*index) else { continue };
        let (cost, _) = charge_for(value, ask, *index);
        let opening = bucket.opens_beside(cost, kept(*index), now, waited);
        if opening.source == Source::Concurrency {
            ends_at = ends_at.max(opening.at);
        }
        openings.push((opening, Some(*index)));
        if let Some(floor) = bucket.floor.filter(|floor| floor.holds_at(now)) {
            note_floor(&mut standing, floor);
        }
    }
    openings.sort_by_key(|(opening, _)| Reverse(opening.at));
    let label = |index: Option<usize>| -> Arc<str> {
        index
            .and_then(|index| value.buckets.get(index))
            .map_or_else(|| Arc::from(""), |bucket| Arc::from(bucket.plan.id.label()))
    };
    let best = openings.iter().map(|(opening, _)| opening.at_best).max().unwrap_or(now);
    let (opening, index) = openings.first().copied().unwrap_or((Opening { at: now, at_best: now, source: Source::None }, None));
    let runner_up = openings.get(1).map(|(second, index)| RunnerUp {
        cause: Cause { source: if second.at > now { second.source } else { Source::Bucket }, bucket: label(*index) },
        free_in: second.at.since(now),
    });
    Outlook {
        opening: Opening { at_best: best, ..opening },
        bucket: label(index),
        runner_up: runner_up.filter(|_| opening.at > now),
        floor: standing,
        per: index.and_then(|index| value.buckets.get(index)).map_or(Span::ZERO, |bucket| bucket.effective().per),
        ends_at,
        binding_bucket: index,
    }
}

/// What `ask` is charged in the bucket at `index`, and whether that was filled in.
pub fn charge_for(value: &ScopeValue, ask: &Ask, index: usize) -> (Milli, bool) {
    let Some(bucket) = value.buckets.get(index) else { return (Milli::ZERO, false) };
    let (cost, guessed) = cost_in(value, ask, bucket);
    // Only a guess is cut.
    match ask.cost_estimated.then(|| bucket.capacity()).flatten() {
        Some(capacity) if cost > capacity => (capacity, guessed),
        _ => (cost, guessed),
    }
}

fn note_floor(standing: &mut Option<Floor>, floor: Floor) {
    if floor.source.is_providers_word() && standing.is_none_or(|longest| longest.until < floor.until) {
        *standing = Some(floor);
    }
}

/// While no limit of the group is known at all, calls in flight are bounded instead.
fn ramp_opening(value: &ScopeValue, binding: &Binding, now: FleetTime) -> Option<Opening> {
    let group = value.groups.get(binding.group)?;
    let mut rated = value.rated(&binding.buckets).peekable();
    rated.peek()?;
    // A person who told how many may be in flight has told the limit there is.
    let told = binding.plan.buckets.iter().any(|bucket| &*bucket.meter == CONCURRENCY && bucket.limit.is_some());
    if told || rated.any(|bucket| bucket.told_rate().is_some() || bucket.ceiling.measured > Milli::ZERO) {
        return None;
    }
    let one = Milli::from_units(1);
    if group.flights.in_use(now) + one <= group.ramp {
        return None;
    }
    let at = group.flights.frees_by_expiry(now, one).unwrap_or(FleetTime::MAX);
    Some(Opening { at, at_best: now, source: Source::Ramp })
}
