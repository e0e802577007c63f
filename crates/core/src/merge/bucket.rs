//! One bucket of two values: the lower level, the later waits, the higher counts.

use std::cmp::Reverse;

use super::{holds, later, turns};
use crate::backing::Backing;
use crate::bucket::{BucketState, Calm, Learned, Observation};
use crate::ceiling::Ceiling;
use crate::drain::Drain;
use crate::level::{Level, Rate};
use crate::pacing::guard;
use crate::plan::Refill;
use crate::units::{FleetTime, Milli, Span};

/// Both states in one.
pub(super) fn merge(ours: &BucketState, theirs: &BucketState) -> BucketState {
    let usage = |state: &BucketState| (state.typical, state.typical_reserved);
    let (typical, typical_reserved) = usage(ours).max(usage(theirs));
    let mut merged = BucketState {
        plan: ours.plan.clone(),
        learned: learned(&ours.learned, &theirs.learned),
        // The one that allows less, until it is known which holds.
        over: lesser(ours, theirs).over.clone(),
        level: ours.level,
        burst: ours.burst,
        window_end: ours.window_end.max(theirs.window_end),
        opens_at: ours.opens_at.max(theirs.opens_at),
        fired: ours.fired.max(theirs.fired),
        spreading: ours.spreading,
        fired_at_turn: 0, // below
        paced_until: ours.paced_until.max(theirs.paced_until),
        observed: newer(ours.observed, theirs.observed),
        lowest: least(ours.lowest, theirs.lowest),
        typical,
        typical_reserved,
        started: ours.started || theirs.started,
        calm: calm(ours.calm, theirs.calm),
        proven: ours.proven.min(theirs.proven),
        proof: both(ours.proof, theirs.proof),
        trail: std::cmp::max_by_key(ours.trail, theirs.trail, |trail| (trail.at, trail.fired, trail.before)),
        drain: drain(ours.drain, theirs.drain),
        ceiling: Ceiling {
            is_silent: ours.ceiling.is_silent || theirs.ceiling.is_silent,
            ..std::cmp::min_by_key(ours.ceiling, theirs.ceiling, tightness)
        },
        floor: later(ours.floor, theirs.floor),
        holds: holds(&ours.holds, &theirs.holds),
        classes: turns::classes(ours.classes, theirs.classes),
    };
    set_used(&mut merged, used(ours, None).max(used(theirs, None)));
    match (ours.started, theirs.started) {
        (true, true) => merge_levels(&mut merged, ours, theirs),
        (false, true) => copy_levels(&mut merged, theirs),
        (true, false) => copy_levels(&mut merged, ours),
        (false, false) => {}
    }
    merged.clamp_to_capacity();
    merged
}

/// At most a cautious start from `now` on (see [`super::begin_again`]).
pub(super) fn begin_again(state: &mut BucketState, now: FleetTime) {
    let Some(rate) = state.rate().filter(|_| state.started && !state.is_held()) else { return };
    let burst = state.burst_rate(&rate);
    let mut as_of = now.max(state.level.as_of);
    let mut level = state.level;
    if !state.is_windowed() {
        level.advance(as_of, &rate);
    }
    if has_windows(state) {
        if state.window_end != FleetTime::ZERO && state.window_is_over(now) {
            // It is followed by one in which others may have sent already.
            let begins = state.window_start_at_or_after_end(now, &rate);
            let calendar = state.plan.calendar.as_ref();
            state.window_end = calendar.map_or(begins + rate.per, |calendar| calendar.end_following(begins));
            state.fired_at_turn = state.fired;
            level.amount = rate.capacity;
            as_of = as_of.max(begins + guard(rate.per));
        } else {
            set_used(state, used(state, Some(&rate)));
        }
        state.spreading = true;
    }
    state.burst.advance(as_of, &burst);
    let one_call = Milli::from_units(1).max(state.typical);
    let cautious = rate.gained_in(Span::from_secs(1)).max(one_call).min(rate.capacity);
    state.level = Level::new(level.amount.min(cautious), as_of);
    state.burst = Level::new(state.burst.amount.min(cautious), as_of);
}

fn has_windows(state: &BucketState) -> bool {
    state.effective().refill == Refill::Window
}

fn copy_levels(merged: &mut BucketState, from: &BucketState) {
    (merged.level, merged.burst, merged.spreading) = (from.level, from.burst, from.spreading);
    (merged.proven, merged.proof) = (from.proven, from.proof);
}

fn merge_levels(merged: &mut BucketState, ours: &BucketState, theirs: &BucketState) {
    let Some(rate) = merged.rate() else { return };
    if has_windows(merged)
        && let Some(current) = current_of(ours, theirs, &rate)
    {
        // What is known of a window that is over says nothing about the next.
        copy_levels(merged, current);
        merged.window_end = current.window_end;
        merged.fired_at_turn = merged.fired.saturating_sub(used(current, None).as_milli()).max(0);
        return;
    }
    let burst = merged.burst_rate(&rate);
    merged.spreading = ours.spreading || theirs.spreading;
    merged.level = lower(ours, theirs, |state| state.level, &rate);
    merged.burst = lower(ours, theirs, |state| state.burst, &burst);
    let rate = merged.spreading.then_some(rate);
    set_used(merged, used(ours, rate.as_ref()).max(used(theirs, rate.as_ref())));
}

/// The one whose window began when that of the other was over; `None`: their windows overlap.
fn current_of<'a>(ours: &'a BucketState, theirs: &'a BucketState, rate: &Rate) -> Option<&'a BucketState> {
    let begins = |state: &BucketState| match state.window_end {
        FleetTime::ZERO => state.level.as_of, // nothing was granted in it yet
        _ => state.window_start(rate),
    };
    let is_over =
        |state: &BucketState, other: &BucketState| state.window_end != FleetTime::ZERO && state.window_end <= begins(other);
    match (is_over(ours, theirs), is_over(theirs, ours)) {
        (true, false) => Some(theirs),
        (false, true) => Some(ours),
        _ => None,
    }
}

/// What is gone of the current window. Where it is to be spread, the level says how much more than what was granted: a header
/// may have lowered it.
fn used(state: &BucketState, spread: Option<&Rate>) -> Milli {
    let fired = Milli::from_milli(state.fired.saturating_sub(state.fired_at_turn));
    match spread.filter(|_| state.is_windowed()) {
        Some(rate) => fired.max(rate.capacity - state.level.amount),
        None => fired,
    }
}

fn set_used(state: &mut BucketState, used: Milli) {
    let used = used.as_milli().max(0);
    state.fired = state.fired.max(used);
    state.fired_at_turn = state.fired - used;
}

/// The lower of two levels, at the later of their instants.
fn lower(ours: &BucketState, theirs: &BucketState, of: impl Fn(&BucketState) -> Level, rate: &Rate) -> Level {
    let as_of = of(ours).as_of.max(of(theirs).as_of);
    let at = |state: &BucketState| {
        let mut level = of(state);
        if state.is_windowed() {
            level.as_of = as_of; // nothing refills inside a window
        } else {
            level.advance(as_of, rate);
        }
        level
    };
    let (ours, theirs) = (at(ours), at(theirs));
    if (theirs.amount, theirs.carry) < (ours.amount, ours.carry) { theirs } else { ours }
}

/// The one that allows less.
fn lesser<'a>(ours: &'a BucketState, theirs: &'a BucketState) -> &'a BucketState {
    std::cmp::min_by_key(ours, theirs, |state| state.effective().limit.unwrap_or(u64::MAX))
}

fn learned(ours: &Learned, theirs: &Learned) -> Learned {
    let (rising, other) = if theirs.candidate_mark > ours.candidate_mark { (theirs, ours) } else { (ours, theirs) };
    Learned {
        limit: least(ours.limit, theirs.limit),
        per: ours.per.max(theirs.per),
        windowed: ours.windowed.max(theirs.windowed),
        candidate: rising.candidate,
        agreeing: if rising.candidate_mark > other.candidate_mark {
            rising.agreeing
        } else {
            rising.agreeing.min(other.agreeing)
        },
        candidate_mark: rising.candidate_mark,
        brim: least(ours.brim, theirs.brim),
        // A difference to a figure that may be of another time would teach a wrong refill.
        anchor: ours.anchor.filter(|anchor| theirs.anchor == Some(*anchor)),
        // A second answer counts; whether it was one or two is not known, so it is none.
        far_mark: ours.far_mark.filter(|mark| theirs.far_mark == Some(*mark)),
        ends_move: ours.ends_move || theirs.ends_move,
        ends_stand: ours.ends_stand && theirs.ends_stand,
        named_end: ours.named_end.filter(|named| theirs.named_end == Some(*named)),
        backing: match (least(ours.limit, theirs.limit), ours.limit == theirs.limit) {
            (_, true) => both(ours.backing, theirs.backing),
            (limit, _) if limit == ours.limit => ours.backing,
            _ => theirs.backing,
        },
    }
}

/// As often as the one who heard it more often, and as lately as the one who heard it last.
fn both(ours: Backing, theirs: Backing) -> Backing {
    Backing { at: ours.at.max(theirs.at), reports: ours.reports.max(theirs.reports) }
}

fn least<T: Ord + Copy>(ours: Option<T>, theirs: Option<T>) -> Option<T> {
    ours.into_iter().chain(theirs).min()
}

fn newer(ours: Option<Observation>, theirs: Option<Observation>) -> Option<Observation> {
    let age = |seen: &Observation| (seen.mark, seen.at, Reverse(seen.remaining), seen.reports);
    ours.into_iter().chain(theirs).max_by_key(age)
}

fn calm(ours: Calm, theirs: Calm) -> Calm {
    let order = |calm: &Calm| (calm.until, calm.length, calm.mark);
    if order(&theirs) > order(&ours) { theirs } else { ours }
}

fn drain(ours: Drain, theirs: Drain) -> Drain {
    let base = ours.base.filter(|base| theirs.base == Some(*base));
    Drain {
        per_minute: ours.per_minute.max(theirs.per_minute),
        base,
        last: ours.last.max(theirs.last),
        backing: both(ours.backing, theirs.backing),
    }
}

/// The smallest is the tightest ceiling; one that allows zero is none.
fn tightness(ceiling: &Ceiling) -> impl Ord + use<> {
    let Ceiling { allowed, measured, anchor_at, anchor_mark, refused, cut_mark, is_silent, .. } = *ceiling;
    let Ceiling { began_at, began_fired, hold_until, hold, climbs, stretch_at, stretch_passed, .. } = *ceiling;
    let latest = Reverse((anchor_at, anchor_mark, cut_mark, hold_until, hold));
    let stretch = (stretch_at, stretch_passed, climbs);
    ((allowed == Milli::ZERO, allowed), latest, (measured, refused, began_at, began_fired, is_silent), stretch)
}
