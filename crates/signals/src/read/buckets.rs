//! Buckets: the headers of a family are gathered per bucket, then families that describe the same bucket are joined.

use paceline_core::units::{FleetTime, Span};

use super::clock::Clock;
use super::hits::{Hits, tell};
use super::rate_limit;
use super::reading::BucketReading;
use crate::catalogue::{Bucket, BucketRef, NamedBy, PartFact, Provider, Quantity, Target};
use crate::value::number::Number;
use crate::value::structured::{self, Bare};
use crate::value::time::{self, When};

/// At most this many buckets are kept of one answer.
const MOST_BUCKETS: usize = 32;

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
            Some(value) => match figure(value, fact, clock) {
                Some(figure) => take(&mut drafts, *family, bucket, figure, hit.name),
                // Words that nobody knows and a value that is no figure: this is no part of a bucket at all.
                None if bucket.get().named_by == NamedBy::Guess => unread.push(hit.name),
                None => malformed.push(hit.name),
            },
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

/// One figure of a header.
enum Figure {
    Limit(i64, Option<Span>),
    Remaining(i64),
    Used(i64),
    Reset(When),
    Window(Span),
}

fn figure(value: &str, fact: &PartFact, clock: &Clock) -> Option<Figure> {
    let count = || Number::parse(value).map(Number::as_count);
    let when = || time::parse(value, &fact.forms, clock.near()).map(|(when, _)| when);
    match fact.reads {
        Quantity::Limit => limit(value).map(|(limit, window)| Figure::Limit(limit, window)),
        Quantity::Remaining => count().map(Figure::Remaining),
        Quantity::Used => count().filter(|used| *used >= 0).map(Figure::Used),
        Quantity::Reset => when().map(Figure::Reset),
        Quantity::Window => match when()? {
            When::In(span) if span > Span::ZERO => Some(Figure::Window(span)),
            _ => None,
        },
    }
}

/// A limit alone, or the list of drafts 00 to 06: the limit in force, then policies with their windows (`100, 100;w=60`).
fn limit(value: &str) -> Option<(i64, Option<Span>)> {
    if let Some(number) = Number::parse(value) {
        return Some((number.as_count(), None));
    }
    let items = structured::list(value)?;
    let policies: Option<Vec<(i64, Option<Span>)>> = items
        .iter()
        .map(|item| {
            let window = item.parameter("w").or_else(|| item.parameter("window")).and_then(Bare::number);
            Some((item.value.number()?.as_count(), window.map(|window| window.as_span(1_000_000))))
        })
        .collect();
    let policies = policies?;
    let ((first, own_window), rest) = policies.split_first()?;
    // Numbers without any window are no list of policies: `1,000` must not be read as 1.
    if own_window.is_none() && rest.iter().all(|(_, window)| window.is_none()) {
        return rest.iter().all(|(other, _)| other == first).then_some((*first, None));
    }
    // The window of the limit in force: its own when it is the only one, else that of the one policy with the same limit.
    let window = match (own_window, rest) {
        (Some(window), []) => Some(*window),
        (Some(_), _) => None,
        (None, _) => rest.iter().find(|(other, _)| other == first).and_then(|(_, window)| *window),
    };
    Some((*first, window.filter(|window| *window > Span::ZERO)))
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
    }

    fn finish(self, clock: &Clock) -> BucketReading {
        // -1 stands for "not known"; below a positive limit it is an overdraft.
        let is_unknown = self.limit.is_some_and(|limit| limit < 0)
            || (self.limit.is_none() && self.remaining.is_some_and(|remaining| remaining < 0));
        let remaining = self.remaining.or_else(|| {
            let (limit, used) = self.limit.zip(self.used)?;
            Some(limit.saturating_sub(used))
        });
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
            window: self.bucket.window.or(self.window),
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
