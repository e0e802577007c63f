//! Buckets: the headers of a family are gathered per bucket, then families that describe the same bucket are joined.

use paceline_core::units::{FleetTime, Span};

use super::clock::Clock;
use super::figures::{self, Figure};
use super::hits::{Hits, tell};
use super::rate_limit;
use super::reading::BucketReading;
use crate::catalogue::{Bucket, BucketRef, NamedBy, Provider, Target};
use crate::value::time::When;

/// At most this many buckets are kept of one answer.
pub(super) const MOST_BUCKETS: usize = 32;

/// Reads every bucket the headers describe, in the order in which they first appear.
pub(super) fn read(provider: &Provider, hits: &mut Hits<'_, '_>, clock: &Clock) -> Vec<BucketReading> {
    let mut drafts: Vec<Draft> = Vec::new();
    let (mut malformed, mut unread): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for hit in &hits.all {
        let Target::Part { family, part, bucket } = &hit.target else { continue };
        let Some(fact) = provider.facts().families.get(*family).and_then(|family| family.parts.get(*part)) else { continue };
        match hit.value {
            Some("") => {}
            None => malformed.push(hit.name),
            Some(value) => {
                let mut is_part = false;
                let is_whole = figures::read(value, fact, clock, &mut |figure| {
                    is_part = true;
                    take(&mut drafts, *family, bucket, figure, hit.name);
                });
                match (is_whole, is_part) {
                    (true, _) => {}
                    // Words that nobody knows and a value that is no figure: this is no part of a bucket at all.
                    (false, false) if bucket.get().named_by == NamedBy::Guess => unread.push(hit.name),
                    (false, _) => malformed.push(hit.name),
                }
            }
        }
    }
    let mut structured = rate_limit::read(hits, clock);
    malformed.append(&mut structured.malformed);
    malformed.iter().for_each(|name| tell(&mut hits.malformed, name));
    unread.iter().for_each(|name| tell(&mut hits.unread, name));

    let mut joined: Vec<(BucketReading, NamedBy)> = Vec::new();
    let listed = std::mem::take(&mut structured.buckets).into_iter().map(|bucket| (bucket, NamedBy::Nothing));
    let gathered = collapse(drafts).into_iter().map(|draft| {
        let named_by = draft.bucket.named_by;
        (draft.finish(clock), named_by)
    });
    for (reading, named_by) in gathered.chain(listed) {
        join(&mut joined, structured.with_window(reading), named_by);
    }
    joined.truncate(MOST_BUCKETS);
    joined.into_iter().map(|(reading, _)| reading).collect()
}

/// What was gathered of one bucket from one family.
#[derive(Clone)]
struct Draft {
    family: usize,
    bucket: Bucket,
    /// 0 for the first of each header, 1 for the second of a repeated one, ...
    occurrence: usize,
    limit: Option<i64>,
    remaining: Option<i64>,
    used: Option<i64>,
    reset_in: Option<Span>,
    reset_at: Option<FleetTime>,
    window: Option<Span>,
    /// Units that come back per window, when that is not the limit.
    fill: Option<i64>,
    fields: Vec<String>,
}

/// The draft of that bucket and occurrence, made if there is none and room for it.
fn draft<'d>(drafts: &'d mut Vec<Draft>, family: usize, bucket: &BucketRef<'_>, occurrence: usize) -> Option<&'d mut Draft> {
    let bucket = bucket.get();
    let is_it = |draft: &Draft| {
        draft.family == family
            && draft.occurrence == occurrence
            && draft.bucket.name == bucket.name
            && draft.bucket.window == bucket.window
    };
    let position = match drafts.iter().position(is_it) {
        Some(position) => position,
        None if drafts.len() >= MOST_BUCKETS => return None,
        None => {
            drafts.push(Draft {
                family,
                bucket: bucket.clone(),
                occurrence,
                limit: None,
                remaining: None,
                used: None,
                reset_in: None,
                reset_at: None,
                window: None,
                fill: None,
                fields: Vec::new(),
            });
            drafts.len() - 1
        }
    };
    drafts.get_mut(position)
}

/// Puts a figure into the first occurrence that does not have it yet.
fn take(drafts: &mut Vec<Draft>, family: usize, bucket: &BucketRef<'_>, figure: Figure, name: &str) {
    let mut occurrence = 0;
    while let Some(draft) = draft(drafts, family, bucket, occurrence) {
        if draft.has(&figure) {
            occurrence += 1;
            continue;
        }
        draft.put(figure);
        tell(&mut draft.fields, name);
        return;
    }
}

impl Draft {
    fn has(&self, figure: &Figure) -> bool {
        match figure {
            Figure::Limit(..) => self.limit.is_some(),
            Figure::Remaining(_) => self.remaining.is_some(),
            Figure::Used(_) => self.used.is_some(),
            Figure::Reset(When::In(_)) => self.reset_in.is_some(),
            Figure::Reset(When::At(_)) => self.reset_at.is_some(),
            Figure::Window(_) => self.window.is_some(),
            Figure::Fill(_) => self.fill.is_some(),
        }
    }

    fn put(&mut self, figure: Figure) {
        match figure {
            Figure::Limit(limit, window) => {
                self.limit = Some(limit);
                self.window = self.window.or(window);
            }
            Figure::Remaining(remaining) => self.remaining = Some(remaining),
            Figure::Used(used) => self.used = Some(used),
            Figure::Reset(When::In(span)) => self.reset_in = Some(span),
            Figure::Reset(When::At(at)) => self.reset_at = Some(at),
            Figure::Window(window) => self.window = Some(window),
            Figure::Fill(fill) => self.fill = Some(fill),
        }
    }

    /// Whether this occurrence repeats everything the first one said: then the lines describe two buckets, not one twice.
    fn repeats(&self, first: &Self) -> bool {
        self.limit.is_some() == first.limit.is_some()
            && self.remaining.is_some() == first.remaining.is_some()
            && (self.reset_in.is_some() || self.reset_at.is_some()) == (first.reset_in.is_some() || first.reset_at.is_some())
    }

    /// Takes what a repeated line adds: the later reset and the smaller figures, so that nobody is sent too early.
    fn absorb(&mut self, other: &Self) {
        fn pick<T: Copy>(mine: Option<T>, other: Option<T>, choose: fn(T, T) -> T) -> Option<T> {
            mine.zip(other).map(|(mine, other)| choose(mine, other)).or(mine).or(other)
        }
        self.limit = pick(self.limit, other.limit, i64::min);
        self.remaining = pick(self.remaining, other.remaining, i64::min);
        self.used = pick(self.used, other.used, i64::max);
        self.reset_in = pick(self.reset_in, other.reset_in, Span::max);
        self.reset_at = pick(self.reset_at, other.reset_at, FleetTime::max);
        self.window = self.window.or(other.window);
        self.fill = pick(self.fill, other.fill, i64::min);
    }

    /// The window in which the whole limit comes back: as stated, or as long as the refill takes (`limit / fill` windows).
    fn full_window(&self) -> Option<Span> {
        let Some(fill) = self.fill else { return self.window };
        let (limit, window) = self.limit.zip(self.window)?;
        let micros = (i128::from(limit) * i128::from(window.as_micros())).checked_div(i128::from(fill))?;
        Some(Span::from_micros(i64::try_from(micros).ok()?)).filter(|window| *window > Span::ZERO)
    }

    fn finish(self, clock: &Clock) -> BucketReading {
        // -1 stands for "not known"; below a positive limit it is an overdraft.
        let is_unknown = self.limit.is_some_and(|limit| limit < 0)
            || (self.limit.is_none() && self.remaining.is_some_and(|remaining| remaining < 0));
        let remaining = self.remaining.or_else(|| {
            let (limit, used) = self.limit.zip(self.used)?;
            Some(limit.saturating_sub(used))
        });
        let full_window = self.full_window();
        // A time from now needs no clock and so beats an instant.
        let when = self.reset_in.map(When::In).or(self.reset_at.map(When::At)).filter(|_| !is_unknown);
        BucketReading {
            name: self.bucket.name,
            meter: self.bucket.meter,
            limit: self.limit.filter(|_| !is_unknown),
            remaining: remaining.filter(|_| !is_unknown),
            reset_in: when.and_then(|when| clock.until(when)),
            is_reset_instant: matches!(when, Some(When::At(_))),
            is_reset_past: matches!(when, Some(When::At(at)) if clock.is_past(at)),
            reset_means: self.bucket.reset_means,
            window: self.bucket.window.or(full_window),
            owner: self.bucket.owner,
            fields: self.fields,
        }
    }
}

/// Puts repeated lines together unless they describe buckets of their own.
fn collapse(drafts: Vec<Draft>) -> Vec<Draft> {
    let mut kept: Vec<Draft> = Vec::new();
    for draft in drafts {
        let first = kept.iter_mut().find(|first| {
            first.occurrence == 0
                && first.family == draft.family
                && first.bucket.name == draft.bucket.name
                && first.bucket.window == draft.bucket.window
        });
        match first {
            Some(first) if !draft.repeats(first) => first.absorb(&draft),
            _ => kept.push(draft),
        }
    }
    kept
}

/// Joins a bucket to one that other headers describe; adds it when it is another one.
fn join(joined: &mut Vec<(BucketReading, NamedBy)>, reading: BucketReading, named_by: NamedBy) {
    let same = joined.iter_mut().find(|(known, known_by)| {
        let may_be_renamed = *known_by == NamedBy::Nothing || named_by == NamedBy::Nothing;
        is_same(known, &reading) || (may_be_renamed && has_same_figures(known, &reading))
    });
    match same {
        Some((known, _)) => {
            known.limit = known.limit.or(reading.limit);
            known.remaining = known.remaining.or(reading.remaining);
            known.reset_in = known.reset_in.max(reading.reset_in);
            known.is_reset_past &= reading.is_reset_past;
            known.is_reset_instant |= reading.is_reset_instant;
            known.window = known.window.or(reading.window);
            reading.fields.iter().for_each(|field| tell(&mut known.fields, field));
        }
        None => joined.push((reading, named_by)),
    }
}

/// The same name and no figure that contradicts.
fn is_same(known: &BucketReading, other: &BucketReading) -> bool {
    known.name == other.name
        && agrees(known.window, other.window)
        && agrees(known.limit, other.limit)
        && agrees(known.remaining, other.remaining)
}

/// One bucket in two dialects: one of them does not name it, and the figures are the same.
fn has_same_figures(known: &BucketReading, other: &BucketReading) -> bool {
    known.limit.is_some()
        && known.remaining.is_some()
        && (known.limit, known.remaining) == (other.limit, other.remaining)
        && known.meter == other.meter
        && agrees(known.window, other.window)
        && agrees(known.reset_in, other.reset_in)
}

fn agrees<T: PartialEq>(mine: Option<T>, other: Option<T>) -> bool {
    mine.is_none() || other.is_none() || mine == other
}
