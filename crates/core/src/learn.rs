//! Learning from `limit`, `remaining` and `reset`: one observed bucket against one of ours.
//!
//! An answer's `remaining` was true at some instant between sending and answering. What we granted meanwhile is known exactly
//! (the lease carries the bucket's `fired` as its mark); what refilled meanwhile is known within bounds. So each observation
//! gives an interval for the level now: a level above it is cut at once, one below it is raised by a quarter of the distance
//! (only by calls that had been in line), one inside it is left alone. The first observation sets the level outright.

use crate::backing::{Backing, MOST_REPORTS};
use crate::bucket::{BucketState, Observation};
use crate::drain::Base;
use crate::level::{Level, Rate};
use crate::plan::{Refill, StartLevel};
use crate::shape::{self, close, grain_of, inferred_window};
use crate::signal::{ObservedBucket, ResetMeans};
use crate::units::{FleetTime, Milli, Span};

/// The part of the distance by which a higher observation raises a level.
const GAIN_DIVISOR: i64 = 4;
/// A distance that is raised outright.
const LAST_BIT: Milli = Milli::from_thousandths(125);
/// Reports in a row that must name a higher limit before it is believed.
const AGREEING_REPORTS: u8 = 3;

/// When and under which mark an answer was observed.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The lease's mark in this bucket.
    pub mark: i64,
    /// What had been granted so long before that it had arrived: calls granted between this and the mark may have been counted
    /// in the answer, or have come later.
    pub early: i64,
    /// Whether no other call is in flight that may be charged here.
    pub is_last: bool,
    /// When the call was sent at the earliest.
    pub sent_at: FleetTime,
    /// When the answer came.
    pub answered_at: FleetTime,
    /// Now.
    pub now: FleetTime,
    /// Whether the provider refused the call: then its figures hold outright.
    pub refused: bool,
    /// What the call cost here.
    pub cost: Milli,
    /// Whether the call had been in line. Those are sent spaced; calls that are let through at once may go in a crowd, in which
    /// any of them may arrive first and tell of units that the others are about to take.
    pub in_line: bool,
}

/// What learning changed, for events and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learnt {
    /// The limit in force changed.
    pub limit_changed: bool,
    /// A rise that was being believed was contradicted by a lower figure.
    pub flapped: bool,
}

/// Whether what was observed can be about this bucket: the same meter is given; windows and limits must not contradict.
pub fn fits(bucket: &BucketState, observed: &ObservedBucket) -> bool {
    if bucket.is_held() {
        return false;
    }
    let effective = bucket.effective();
    let (Some(per), Some(limit)) = (bucket.plan.per.or(bucket.learned.per), effective.limit) else { return true };
    if let Some(window) = observed.window {
        return close(window, per, 1.25);
    }
    if observed.limit.is_none_or(|told| told == limit || bucket.plan.limit == Some(told) || bucket.learned.limit == Some(told))
    {
        return true;
    }
    // The limit differs: the same bucket with a changed limit, unless its refill shows another window.
    inferred_window(observed).is_none_or(|(least, most)| {
        least.as_secs_f64() <= per.as_secs_f64() * 3.0 && most.as_secs_f64() * 3.0 >= per.as_secs_f64()
    })
}

/// Learns from one observation; `observed` must fit.
pub fn learn(bucket: &mut BucketState, observed: &ObservedBucket, seen: Seen) -> Learnt {
    let before = bucket.effective();
    let observed = &ObservedBucket { reset_in: shape::plausible_reset(bucket, observed, seen), ..observed.clone() };
    shape::learn(bucket, observed, seen);
    let observed = &ObservedBucket { reset_means: bucket.meaning(observed), ..observed.clone() };
    let flapped = observed.limit.is_some_and(|limit| learn_limit(bucket, limit, seen));
    let after = bucket.effective();
    if after.limit != before.limit {
        (bucket.learned.brim, bucket.learned.anchor) = (None, None);
    }
    if after != before || bucket.learned.brim.is_some() {
        bucket.clamp_to_capacity();
    }
    if let Some(remaining) = observed.remaining {
        let base = Base {
            // A refused call took nothing.
            mark: if seen.refused { seen.mark - seen.cost.as_milli() } else { seen.mark },
            remaining: precise(bucket, observed, remaining),
            at: seen.sent_at,
            took: seen.answered_at - seen.sent_at,
        };
        // Against a limit that a person said, nothing is known of what others take.
        let is_ours = bucket.over.is_none();
        if is_ours {
            bucket.learn_drain(base, seen.refused);
        }
        // Of which window? Without its reset a figure tells nothing of others (I-3).
        if observed.reset_in.is_some() && is_ours {
            bucket.learn_window_drain(base, &seen);
        }
        learn_level(bucket, precise(bucket, observed, remaining), observed, seen);
    }
    Learnt { limit_changed: before.limit.is_some() && after.limit != before.limit, flapped }
}

/// Cuts at once; rises after three agreeing reports on two leases at least. Returns whether a rise was contradicted.
fn learn_limit(bucket: &mut BucketState, told: u64, seen: Seen) -> bool {
    if told == 0 {
        return false;
    }
    let mark = seen.mark;
    let learned = &mut bucket.learned;
    let ceiling = bucket.plan.limit.filter(|_| !bucket.plan.learn_above);
    let standing = learned.limit.or(bucket.plan.limit);
    match standing {
        Some(limit) if told > limit => {
            if ceiling.is_some_and(|ceiling| limit >= ceiling) {
                return false;
            }
            if learned.candidate == told {
                learned.agreeing = learned.agreeing.saturating_add(1);
            } else {
                (learned.candidate, learned.agreeing, learned.candidate_mark) = (told, 1, mark);
            }
            if learned.agreeing >= AGREEING_REPORTS && learned.candidate_mark != mark {
                learned.limit = Some(told);
                learned.backing = Backing { at: seen.answered_at, reports: u32::from(AGREEING_REPORTS) };
                learned.agreeing = 0;
            }
            false
        }
        _ => {
            let flapped = learned.agreeing > 0 && standing.is_some_and(|limit| told <= limit);
            match learned.limit == Some(told) {
                true => learned.backing.agree(seen.answered_at),
                false => learned.backing.restart(seen.answered_at),
            }
            learned.limit = Some(told);
            learned.agreeing = 0;
            learned.candidate = 0;
            flapped
        }
    }
}

/// What is left, as far as it is told: `remaining` is rounded down, but a time until full says the rest of that unit. Of a limit
/// of five a minute the rest is up to twelve seconds.
fn precise(bucket: &BucketState, observed: &ObservedBucket, remaining: u64) -> Milli {
    let units = Milli::from_units(remaining);
    let most = Milli::from_units(remaining.saturating_add(1)) - Milli::from_milli(1);
    let until_full = observed.reset_in.filter(|_| observed.reset_means == ResetMeans::Full);
    match (until_full, bucket.told_rate()) {
        (Some(until_full), Some(rate))
            if observed.limit.map(Milli::from_units) == Some(rate.limit) && bucket.learned.brim.is_none() =>
        {
            // Rounded up, so that it is never too much.
            let missing = rate.gained_in(until_full) + Milli::from_milli(1);
            (rate.limit - missing).clamp(units, most)
        }
        _ => units,
    }
}

fn learn_level(bucket: &mut BucketState, remaining: Milli, observed: &ObservedBucket, seen: Seen) {
    let Some(rate) = bucket.rate() else { return };
    let older = bucket.observed.is_some_and(|last| seen.mark < last.mark);
    let raise = if older { Raise::Never } else { how_far(bucket, observed, seen) };
    let was = bucket.level_at(seen.now);
    if bucket.effective().refill == Refill::Window {
        let was_vouched = bucket.observed.is_none() && is_vouched_full(bucket);
        let aligned = align_window(bucket, observed, &rate, seen);
        let exact = bucket.likely_use(fired_since(bucket, seen.mark.max(bucket.fired_at_turn)));
        let fired = not_counted(bucket, seen, bucket.fired_at_turn);
        // What was granted since may have arrived before the figure was taken, or after it.
        let (mut low, high) = ((remaining - fired).min(rate.capacity), remaining.min(rate.capacity));
        if aligned != Aligned::Elsewhere {
            bucket.lowest = if aligned == Aligned::Same {
                bucket.lowest.map_or(remaining, |lowest| lowest.min(remaining))
            } else {
                remaining
            }
            .into();
        }
        // With everything answered, the lowest figure of the window counts it all.
        if let Some(lowest) = bucket.lowest.filter(|_| seen.is_last && aligned == Aligned::Same && raise != Raise::Never) {
            low = low.max(lowest.min(high));
        }
        match aligned {
            Aligned::Elsewhere => return,
            Aligned::Same => settle_on(bucket, low, high, raise, seen),
            // Who said that it starts full has counted its calls from the start: what is known of them is not made less.
            Aligned::New if was_vouched => settle_on(bucket, low, (remaining - exact).min(rate.capacity), raise, seen),
            Aligned::New => settle_on(bucket, low, low, raise, seen),
        }
    } else {
        let fired = bucket.likely_use(fired_since(bucket, seen.mark));
        let early = not_counted(bucket, seen, 0);
        let low = (remaining - early + rate.gained_in(seen.now.since(seen.answered_at))).min(rate.capacity);
        let high = (remaining - fired + rate.gained_in(seen.now.since(seen.sent_at))).min(rate.capacity);
        settle_on(bucket, low, high, raise, seen);
    }
    if bucket.started && bucket.proven == Milli::ZERO {
        bucket.trust_first(seen.now, seen.cost);
    }
    if !older {
        let reports = match bucket.observed {
            Some(last) if is_about_right(bucket, was, &rate, seen) => last.reports.saturating_add(1).min(MOST_REPORTS),
            _ => 1,
        };
        bucket.observed = Some(Observation { mark: seen.mark, remaining, at: seen.answered_at, reports });
    }
}

/// Whether an observation left the level about where it was: no farther off than a hundredth of the bucket or a call.
fn is_about_right(bucket: &BucketState, was: Option<Milli>, rate: &Rate, seen: Seen) -> bool {
    let Some((was, is)) = was.zip(bucket.level_at(seen.now)) else { return false };
    let off = (is - was).as_milli().abs();
    off <= (rate.capacity.as_milli() / 100).max(seen.cost.as_milli())
}

/// What was granted and may not be counted in the figure: everything since the call and shortly before it.
fn not_counted(bucket: &BucketState, seen: Seen, since: i64) -> Milli {
    bucket.likely_use((fired_since(bucket, seen.early.max(since)) - seen.cost).at_least_zero())
}

/// How far an observation, newer than all others, may raise the level.
fn how_far(bucket: &BucketState, observed: &ObservedBucket, seen: Seen) -> Raise {
    let is_first = bucket.observed.is_none();
    let is_windowed = bucket.effective().refill == Refill::Window;
    match seen.refused || (is_first && !is_vouched_full(bucket)) {
        // Units of which window? Without its reset a figure may only lower (I-3).
        _ if is_windowed && !is_first && observed.reset_in.is_none() => Raise::Never,
        // What others leave of their part is not ours.
        _ if !is_first && bucket.plan.ours.is_shared() => Raise::Never,
        // Units of a larger limit than the one we keep to are not ours to spend (I-1).
        _ if !is_first && observed.limit > bucket.effective().limit => Raise::Never,
        true => Raise::Outright,
        false if seen.in_line => Raise::ByGain,
        false => Raise::Never,
    }
}

/// How far an observation may raise a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Raise {
    Outright,
    ByGain,
    Never,
}

/// Moves the level at `now` into `[low, high]`: down at once, up as far as `raise` allows.
fn settle_on(bucket: &mut BucketState, low: Milli, high: Milli, raise: Raise, seen: Seen) {
    let now = seen.now;
    if !bucket.started {
        bucket.started = true;
        bucket.level = Level::new(low, now);
        return;
    }
    let Some(level) = bucket.level_at(now) else { return };
    let change = match raise {
        _ if level > high => high - level,
        Raise::Outright if level < low => low - level,
        Raise::ByGain => {
            let distance = (low - level).at_least_zero();
            // The last bit at once: a level a thousandth below a unit would keep the last call of a window from going.
            if distance <= LAST_BIT { distance } else { Milli::from_milli(distance.as_milli() / GAIN_DIVISOR) }
        }
        _ => Milli::ZERO,
    };
    bucket.shift_level(change, now);
}

/// Which window an answer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aligned {
    /// The one we are in.
    Same,
    /// One we did not know; now we are in it.
    New,
    /// One that is over, or it does not tell.
    Elsewhere,
}

/// Brings our window in line with the one the answer speaks of.
///
/// The figure was true at some instant between sending and answering, and resets are rounded up, so the window ends between
/// `sent + reset - grain` and `answered + reset`. Within these bounds we keep what we have; outside we take the later bound:
/// it is never too early, and a quick answer moves it forward again.
fn align_window(bucket: &mut BucketState, observed: &ObservedBucket, rate: &Rate, seen: Seen) -> Aligned {
    let Some(reset) = observed.reset_in.filter(|reset| *reset > Span::ZERO) else {
        // No reset, or one that is past: the figure is about a window we cannot place. Only a current one may be corrected.
        let is_current = observed.reset_in.is_none() && seen.answered_at + rate.per > seen.now;
        return if is_current { Aligned::Same } else { Aligned::Elsewhere };
    };
    let latest = seen.answered_at + reset;
    let earliest = (seen.sent_at + reset - grain_of(reset)).min(latest);
    if latest <= seen.now || bucket.is_passed_boundary(latest, rate) {
        return Aligned::Elsewhere;
    }
    let is_guess = bucket.window_end == FleetTime::ZERO || bucket.observed.is_none();
    if !is_guess && latest - earliest >= rate.per {
        // The answer took longer than a window: whose figure it is nobody knows. Only a refusal says something about now: the
        // next units come after it, and not a second time when our own idea of the window ends a moment later.
        if !seen.refused {
            return Aligned::Elsewhere;
        }
        bucket.window_end = bucket.window_end.max(latest);
        return Aligned::New;
    }
    let contains = |end: FleetTime| earliest <= end && end <= latest;
    let within = contains(bucket.window_end);
    let half = Span::from_micros(rate.per.as_micros() / 2);
    let near = bucket.window_end > earliest - half && bucket.window_end < latest + half;
    let same = !is_guess && (within || (near && !contains(bucket.window_end - rate.per)));
    if !same {
        if bucket.window_end > latest && !is_guess {
            return Aligned::Elsewhere; // about an earlier window than the one we have seen already
        }
        bucket.opens_at = FleetTime::ZERO;
        if !(is_guess && is_vouched_full(bucket)) {
            bucket.fired_at_turn = bucket.fired_at_turn.max(seen.mark.saturating_sub(seen.cost.as_milli()));
            bucket.level = Level::new(rate.capacity, seen.now);
            bucket.started = true;
        }
    }
    if !within {
        bucket.window_end = latest;
    }
    bucket.spreading = false;
    if same { Aligned::Same } else { Aligned::New }
}

/// Whether a person said that it starts full: then its first answers have nothing to raise it to, and may have overtaken others
/// that took their share before them.
fn is_vouched_full(bucket: &BucketState) -> bool {
    bucket.started && bucket.plan.start == StartLevel::Full && bucket.plan.limit.is_some()
}

fn fired_since(bucket: &BucketState, mark: i64) -> Milli {
    Milli::from_milli(bucket.fired.saturating_sub(mark)).at_least_zero()
}
