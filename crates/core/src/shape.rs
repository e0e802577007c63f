//! Learning the shape of a bucket that nobody configured: does it refill evenly or in windows, how long is its window, and how
//! much does it hold?

use crate::bucket::{BucketState, Learned};
use crate::learn::Seen;
use crate::plan::Refill;
use crate::signal::{ObservedBucket, ResetMeans};
use crate::units::{FleetTime, LONGEST_FLOOR, Milli, Span};

/// So many windows away a reset is about something else: debts and clocks that differ make some of them longer than one.
const FAR_FROM_WRITTEN: f64 = 4.0;
/// A window that was inferred from one answer may be far too short.
const FAR_FROM_LEARNED: f64 = 60.0;
/// Two figures must lie this many units, and this many grains of their resets, apart before their difference tells anything.
const APART: u64 = 8;

/// An answer with a reset that nobody explains: the end it names, if it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedEnd {
    /// The lease's mark.
    pub mark: i64,
    /// Units left.
    pub remaining: u64,
    /// Until the reset.
    pub reset_in: Span,
    /// The end lies after this: resets are rounded up, and the figure may be as old as the call.
    pub earliest: FleetTime,
    /// And not after this.
    pub latest: FleetTime,
}

impl BucketState {
    /// What an answer's reset means: as told, or as this bucket's answers have shown.
    pub(crate) fn meaning(&self, observed: &ObservedBucket) -> ResetMeans {
        match observed.reset_means {
            ResetMeans::Unspecified if self.learned.ends_move => ResetMeans::Full,
            told => told,
        }
    }
}

/// A window's end stands still until it is there. A time until full grows while units are used, and its end moves with it: when
/// answers show that, the reset means *full*, and the bucket is looked at anew.
fn learn_meaning(bucket: &mut BucketState, observed: &ObservedBucket, seen: Seen) {
    let (Some(remaining), Some(reset_in)) = (observed.remaining, observed.reset_in) else { return };
    let is_settled = bucket.learned.ends_move || bucket.learned.ends_stand;
    if observed.reset_means != ResetMeans::Unspecified || bucket.plan.refill.is_some() || is_settled {
        return;
    }
    let latest = seen.answered_at + reset_in;
    let earliest = (seen.sent_at + reset_in - grain_of(reset_in)).min(latest);
    let named = NamedEnd { mark: seen.mark, remaining, reset_in, earliest, latest };
    let Some(before) = bucket.learned.named_end.filter(|before| seen.answered_at < before.earliest) else {
        bucket.learned.named_end = Some(named);
        return;
    };
    let has_grown = reset_in > before.reset_in && remaining < before.remaining;
    if named.mark > before.mark && has_grown && earliest > before.latest {
        bucket.learned = Learned { ends_move: true, windowed: Some(false), per: None, named_end: None, ..bucket.learned };
        (bucket.window_end, bucket.opens_at, bucket.spreading) = (FleetTime::ZERO, FleetTime::ZERO, false);
        (bucket.observed, bucket.started, bucket.proven) = (None, false, Milli::ZERO);
    } else if observed.limit.is_some_and(|limit| remaining < limit / 2) && earliest <= before.latest {
        bucket.learned.ends_stand = true;
    }
}

/// The reset that an answer names, where it can be one: at most 31 days, and no longer than the window allows. The end of a window
/// and the time until full both lie within it, so one far beyond what a person wrote is about something else; one far beyond
/// what was learned is believed when the answer to a second lease says so too. The figures beside it count all the same.
pub(crate) fn plausible_reset(bucket: &mut BucketState, observed: &ObservedBucket, seen: Seen) -> Option<Span> {
    let reset = observed.reset_in.filter(|reset| *reset <= LONGEST_FLOOR)?;
    let (known, times) = match bucket.plan.per {
        Some(written) => (written, FAR_FROM_WRITTEN),
        None if bucket.observed.is_some() => (bucket.effective().per, FAR_FROM_LEARNED),
        None => return Some(reset),
    };
    if observed.window.is_some() || reset.as_secs_f64() <= known.as_secs_f64() * times {
        bucket.learned.far_mark = None;
        return Some(reset);
    }
    if bucket.plan.per.is_none() && bucket.learned.far_mark.is_some_and(|mark| mark != seen.mark) {
        return Some(reset);
    }
    bucket.learned.far_mark = Some(seen.mark);
    None
}

/// Learns the kind of refill, the window and the brim from one observation.
pub(crate) fn learn(bucket: &mut BucketState, observed: &ObservedBucket, seen: Seen) {
    learn_meaning(bucket, observed, seen);
    let observed = &ObservedBucket { reset_means: bucket.meaning(observed), ..observed.clone() };
    if bucket.plan.refill.is_none() && bucket.learned.windowed.is_none() && observed.reset_in.is_some() {
        // A reset of unknown meaning is taken as a window's end: that never sends earlier.
        bucket.learned.windowed = Some(observed.reset_means != ResetMeans::Full);
    }
    if bucket.plan.per.is_some() {
        return;
    }
    if let Some(window) = observed.window {
        bucket.learned.per = Some(window);
    } else if bucket.effective().refill == Refill::Window {
        // The longest reset seen bounds the window from below; windows have round lengths.
        let told = observed.reset_in.filter(|reset| *reset > Span::ZERO).map(round_up);
        bucket.learned.per = told.max(bucket.learned.per);
    } else if !learn_from_difference(bucket, observed) && bucket.learned.brim.is_none() {
        learn_from_used(bucket, observed);
    }
}

/// Units that came with a difference in time until full: that is the refill, however much the bucket holds. Returns whether it
/// could tell.
fn learn_from_difference(bucket: &mut BucketState, observed: &ObservedBucket) -> bool {
    let told = (observed.limit, observed.remaining, observed.reset_in);
    let (Some(limit), Some(remaining), Some(until_full)) = told else { return false };
    if observed.reset_means != ResetMeans::Full {
        return false;
    }
    let Some((before, before_until)) = bucket.learned.anchor else {
        bucket.learned.anchor = Some((remaining, until_full));
        return false;
    };
    let units = remaining.abs_diff(before);
    let time = (until_full - before_until).as_micros();
    let grain = grain_of(until_full).max(grain_of(before_until)).as_micros();
    let apart = i64::try_from(APART).unwrap_or(i64::MAX);
    if units < APART || time.abs() < grain.saturating_mul(apart) || (remaining < before) != (time > 0) {
        return false;
    }
    let scaled = |amount: u64, by: i128, per: i128| i128::from(amount) * by / per.max(1);
    let time = i128::from(time.abs());
    let window = i64::try_from(scaled(limit, time, i128::from(units))).unwrap_or(i64::MAX);
    bucket.learned.per = Some(round_near(Span::from_micros(window.max(1))));
    // What is left and what is missing is what it holds.
    let missing = scaled(units, i128::from(until_full.as_micros()), time);
    let brim = remaining.saturating_add(u64::try_from(missing).unwrap_or(0)).max(1);
    bucket.learned.brim = (brim < limit - limit / 10).then_some(brim);
    true
}

/// Limit x reset / used, where the bucket holds its limit. Where it holds less, `used` is too large and the window would come out
/// far too short: only a window of a usual length is believed, and a longer one in any case.
fn learn_from_used(bucket: &mut BucketState, observed: &ObservedBucket) {
    let Some((least, most)) = inferred_window(observed) else { return };
    if close(least, most, 1.5)
        && let Some(usual) = usual_near(most)
    {
        bucket.learned.per = Some(usual);
    } else if least > bucket.effective().per {
        bucket.learned.per = Some(round_up(least));
    }
}

/// To what resets are rounded: whole seconds or milliseconds.
pub(crate) fn grain_of(reset: Span) -> Span {
    if reset.as_micros() % 1_000_000 == 0 { Span::from_secs(1) } else { Span::from_millis(1) }
}

/// The window that limit, used and time-to-full imply: limit x reset / used, as bounds, because resets are rounded (up) to the
/// second or the millisecond. `None` when nothing is used or the reset means something else.
pub(crate) fn inferred_window(observed: &ObservedBucket) -> Option<(Span, Span)> {
    let (limit, remaining, reset) = (observed.limit?, observed.remaining?, observed.reset_in?.as_micros());
    let used = limit.checked_sub(remaining).filter(|used| *used > 0)?;
    if observed.reset_means != ResetMeans::Full || reset <= 0 {
        return None;
    }
    let grain = grain_of(Span::from_micros(reset)).as_micros();
    let window = |micros: i64| {
        let window = i128::from(limit) * i128::from(micros) / i128::from(used);
        Span::from_micros(i64::try_from(window).unwrap_or(i64::MAX).max(1))
    };
    Some((window((reset - grain).max(0)), window(reset)))
}

/// The window that one answer tells: stated, or by limit, use and time until full where they agree on a usual length. `None`: it
/// tells none.
pub fn window_told(observed: &ObservedBucket) -> Option<Span> {
    let from_figures = || {
        let (least, most) = inferred_window(observed)?;
        close(least, most, 1.5).then(|| usual_near(most))?
    };
    observed.window.or_else(from_figures)
}

/// The shortest window of a usual length that ends so long from now.
pub fn window_at_least(reset: Span) -> Span {
    round_up(reset)
}

const ROUND_WINDOWS_SECS: [i64; 9] = [1, 10, 60, 300, 900, 3_600, 86_400, 604_800, 2_678_400];

fn round_up(span: Span) -> Span {
    ROUND_WINDOWS_SECS.iter().map(|secs| Span::from_secs(*secs)).find(|round| *round >= span).unwrap_or(span)
}

fn round_near(span: Span) -> Span {
    usual_near(span).unwrap_or(span)
}

fn usual_near(span: Span) -> Option<Span> {
    ROUND_WINDOWS_SECS.iter().map(|secs| Span::from_secs(*secs)).find(|round| close(*round, span, 1.35))
}

pub(crate) fn close(a: Span, b: Span, factor: f64) -> bool {
    let (a, b) = (a.as_secs_f64(), b.as_secs_f64());
    a <= b * factor && b <= a * factor
}
