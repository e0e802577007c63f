//! What the answers show together: limits, windows, how they refill, what a call takes. Pure.

use std::collections::BTreeSet;

use paceline_core::plan::Refill;
use paceline_core::shape::{window_at_least, window_told};
use paceline_core::signal::{ObservedBucket, ObservedOwner, ResetMeans};
use paceline_core::units::Span;
use paceline_signals::{BucketReading, Meter, Provider, Reading};

/// A window's end that moves by less than this stands still: times are rounded and answers take theirs.
const STANDS: Span = Span::from_millis(1_500);

/// One answer: when it came, counted from the first call, and what it said.
#[derive(Clone, Debug)]
pub(super) struct Sighting {
    pub(super) at: Span,
    pub(super) reading: Reading,
}

/// How sure a window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sureness {
    /// The answer or the catalogue states it.
    Stated,
    /// What is left, the limit and the time until it is full agree on it, in two answers at least.
    Reckoned,
    /// The same in one answer, or in some that contradict each other.
    Guessed,
    /// The shortest usual window in which the stated end lies: the true one may be longer.
    AtLeast,
}

/// One limit that the answers told of.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bucket {
    pub(super) name: String,
    pub(super) meter: String,
    pub(super) owner: ObservedOwner,
    pub(super) limit: Option<u64>,
    pub(super) remaining: Option<u64>,
    pub(super) reset_in: Option<Span>,
    pub(super) window: Option<(Span, Sureness)>,
    pub(super) refill: Option<Refill>,
    /// Where its days end.
    pub(super) zone: Option<String>,
    /// What one call took of it, where two answers agree.
    pub(super) per_call: Option<u64>,
    pub(super) headers: Vec<String>,
}

/// Everything that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Found {
    pub(super) buckets: Vec<Bucket>,
    /// Look like limits, and no rule reads them.
    pub(super) unread: Vec<String>,
    /// A rule reads them, and the value fits no form.
    pub(super) malformed: Vec<String>,
}

/// Puts the answers together.
pub(super) fn found(provider: &Provider, sightings: &[Sighting]) -> Found {
    let mut names: Vec<(String, ObservedOwner)> = Vec::new();
    for bucket in sightings.iter().flat_map(|sighting| &sighting.reading.buckets) {
        let key = (bucket.name.clone(), bucket.owner);
        if bucket.observed().is_some() && !names.contains(&key) {
            names.push(key);
        }
    }
    let all = |pick: fn(&Reading) -> &Vec<String>| {
        let names: BTreeSet<String> = sightings.iter().flat_map(|sighting| pick(&sighting.reading)).cloned().collect();
        names.into_iter().collect()
    };
    let (mut buckets, ends): (Vec<Bucket>, Vec<bool>) =
        names.iter().filter_map(|(name, owner)| bucket(provider, sightings, name, *owner)).unzip();
    doubt(&mut buckets, ends.contains(&true));
    Found {
        buckets,
        unread: all(|reading| &reading.signal.unread_headers),
        malformed: all(|reading| &reading.signal.malformed_headers),
    }
}

/// One bucket over all answers, and whether they show that its reset is the end of a window, though it should be a time until full.
fn bucket(provider: &Provider, sightings: &[Sighting], name: &str, owner: ObservedOwner) -> Option<(Bucket, bool)> {
    let is_it = |bucket: &&BucketReading| bucket.name == name && bucket.owner == owner;
    let seen: Vec<(Span, ObservedBucket, &BucketReading)> = sightings
        .iter()
        .filter_map(|sighting| {
            let reading = sighting.reading.buckets.iter().find(is_it)?;
            Some((sighting.at, reading.observed()?, reading))
        })
        .collect();
    let (_, last, reading) = seen.last()?;
    let meter = provider.meters().find(|meter| meter.name == last.meter);
    let means = meaning(&seen);
    // Two answers know better than the catalogue what this one means: a gateway in front of it may count in another way.
    let is_end = means == ResetMeans::Full && contradicts_full(&seen) && stands(&seen);
    let means = if is_end { ResetMeans::Window } else { means };
    let refill = if is_end { Some(Refill::Window) } else { refill(means, meter.as_ref()) };
    let window = window(&seen, means, meter.as_ref());
    let bucket = Bucket {
        name: name.to_owned(),
        meter: meter.as_ref().map_or(last.meter.as_str(), |meter| meter.name).to_owned(),
        owner,
        limit: last.limit,
        remaining: last.remaining,
        reset_in: last.reset_in,
        zone: meter.as_ref().and_then(|meter| meter.zone).map(str::to_owned),
        per_call: per_call(&seen),
        headers: reading.fields.clone(),
        window,
        refill,
    };
    Some((bucket, is_end))
}

/// What resets mean: as told, else as two answers show. A window's end stands still, the time until full moves with what is used.
fn meaning(seen: &[(Span, ObservedBucket, &BucketReading)]) -> ResetMeans {
    let told = seen.iter().map(|(_, bucket, _)| bucket.reset_means).find(|means| *means != ResetMeans::Unspecified);
    if let Some(told) = told {
        return told;
    }
    let with_reset = seen.iter().filter_map(|(at, bucket, _)| Some((*at, bucket.reset_in?, bucket.remaining?)));
    let ends: Vec<(Span, Span, u64)> = with_reset.collect();
    let (Some(first), Some(last)) = (ends.first(), ends.last()) else { return ResetMeans::Unspecified };
    let moved = (last.0 + last.1) - (first.0 + first.1);
    if last.2 >= first.2 || last.0 == first.0 {
        ResetMeans::Unspecified
    } else if moved > STANDS && last.1 > first.1 {
        ResetMeans::Full
    } else if moved.as_micros().abs() <= STANDS.as_micros() && first.1 > Span::from_secs(3) {
        ResetMeans::Window
    } else {
        ResetMeans::Unspecified
    }
}

fn refill(means: ResetMeans, meter: Option<&Meter<'_>>) -> Option<Refill> {
    meter.and_then(|meter| meter.refill).or(match means {
        ResetMeans::Full => Some(Refill::Continuous),
        ResetMeans::Window => Some(Refill::Window),
        ResetMeans::Unspecified => None,
    })
}

/// The window: stated in an answer, known to the catalogue, reckoned from an answer's figures, or bounded from below by the end.
fn window(
    seen: &[(Span, ObservedBucket, &BucketReading)],
    means: ResetMeans,
    meter: Option<&Meter<'_>>,
) -> Option<(Span, Sureness)> {
    let stated = seen.iter().find_map(|(_, bucket, _)| bucket.window).or(meter.and_then(|meter| meter.window));
    if let Some(stated) = stated {
        return Some((stated, Sureness::Stated));
    }
    let with_meaning = |bucket: &ObservedBucket| ObservedBucket { reset_means: means, ..bucket.clone() };
    // The last answer has used the most, so that rounding matters least.
    if let Some(reckoned) = seen.iter().rev().find_map(|(_, bucket, _)| window_told(&with_meaning(bucket))) {
        let fits: Vec<bool> = seen.iter().filter_map(|(_, bucket, _)| fits(bucket, reckoned)).collect();
        let is_sure = fits.len() > 1 && fits.iter().all(|fits| *fits);
        return Some((reckoned, if is_sure { Sureness::Reckoned } else { Sureness::Guessed }));
    }
    let longest = seen.iter().filter_map(|(_, bucket, _)| bucket.reset_in).max()?;
    let is_end = means != ResetMeans::Full && longest > Span::ZERO;
    is_end.then(|| (window_at_least(longest), Sureness::AtLeast))
}

/// So much is gone, and so long until it is full again, where an answer tells both and neither is zero.
fn used(bucket: &ObservedBucket) -> Option<(u64, i64)> {
    let used = bucket.limit?.checked_sub(bucket.remaining?).filter(|used| *used > 0)?;
    Some((used, bucket.reset_in?.as_micros())).filter(|(_, reset)| *reset > 0)
}

/// To what a time is rounded, in microseconds.
fn grain(reset: i64) -> i64 {
    if reset % 1_000_000 == 0 { 1_000_000 } else { 1_000 }
}

/// Whether an answer agrees with a window in which the limit comes back evenly: what is gone is rounded up, as the time is. `None`:
/// it says nothing of that.
fn fits(bucket: &ObservedBucket, window: Span) -> Option<bool> {
    /// Windows of usual lengths lie further apart.
    const NEAR: f64 = 1.35;
    let (used, reset) = used(bucket)?;
    let each = |units: u64| window.as_secs_f64() * units as f64 / bucket.limit.unwrap_or(1).max(1) as f64;
    let (least, most) = ((reset - grain(reset)) as f64 / 1e6, reset as f64 / 1e6);
    Some(most * NEAR >= each(used - 1) && least <= each(used) * NEAR)
}

/// Whether a time until full cannot be one: more is gone, and it has become shorter, or has not grown with it.
fn contradicts_full(seen: &[(Span, ObservedBucket, &BucketReading)]) -> bool {
    let told: Vec<(u64, i64)> = seen.iter().filter_map(|(_, bucket, _)| used(bucket)).collect();
    let pairs = told.windows(2).filter_map(|pair| Some((*pair.first()?, *pair.last()?)));
    let whole = told.first().copied().zip(told.last().copied());
    pairs.chain(whole).any(|((before, first), (after, last))| {
        let grown = first as f64 * after.saturating_sub(1) as f64 / before.max(1) as f64;
        after > before && (last < first || (last + 2 * grain(last)) as f64 * 1.2 < grown)
    })
}

/// Whether the end that the first answer named is the end that the last one names.
fn stands(seen: &[(Span, ObservedBucket, &BucketReading)]) -> bool {
    let ends: Vec<Span> = seen.iter().filter_map(|(at, bucket, _)| Some(*at + bucket.reset_in?)).collect();
    let (Some(first), Some(last)) = (ends.first(), ends.last()) else { return false };
    (*last - *first).as_micros().abs() <= STANDS.as_micros()
}

/// What one limit's answers contradict is not believed of the others of the same provider; and resets that are the same although
/// other parts of the limits are gone are ends of windows.
fn doubt(buckets: &mut [Bucket], is_contradicted: bool) {
    let part = |bucket: &Bucket| {
        let (limit, remaining) = (bucket.limit? as f64, bucket.remaining? as f64);
        Some((limit - remaining) / limit.max(1.0)).filter(|part| *part > 0.0)
    };
    let is_even =
        |bucket: &Bucket| bucket.refill == Some(Refill::Continuous) && !matches!(bucket.window, Some((_, Sureness::Stated)));
    // Times that are rounded to seconds are often the same when they are short.
    let is_telling = |reset: Span| reset.as_micros() > 5 * grain(reset.as_micros());
    let evenly: Vec<(f64, Span)> = buckets
        .iter()
        .filter(|bucket| is_even(bucket))
        .filter_map(|bucket| Some((part(bucket)?, bucket.reset_in.filter(|reset| is_telling(*reset))?)))
        .collect();
    let is_same = evenly.iter().enumerate().any(|(index, (part, reset))| {
        let differs = |other: f64| other > part * 1.5 || *part > other * 1.5;
        evenly.iter().skip(index + 1).any(|(other, end)| reset == end && differs(*other))
    });
    for bucket in buckets.iter_mut().filter(|bucket| (is_same || is_contradicted) && is_even(bucket)) {
        bucket.refill = None;
        bucket.window = bucket.window.map(|(window, _)| (window, Sureness::Guessed));
    }
}

/// What a call took, by how much less was left after the next one; a refill in between makes it come out less, so the most counts.
fn per_call(seen: &[(Span, ObservedBucket, &BucketReading)]) -> Option<u64> {
    let left: Vec<u64> = seen.iter().filter_map(|(_, bucket, _)| bucket.remaining).collect();
    left.windows(2).filter_map(|pair| pair.first()?.checked_sub(*pair.last()?)).filter(|taken| *taken > 0).max()
}
