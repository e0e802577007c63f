//! What the headers of one family say about one bucket, gathered figure by figure.

use paceline_core::units::{FleetTime, Span};

use super::buckets::MOST_BUCKETS;
use super::clock::Clock;
use super::figures::Figure;
use super::hits::Hit;
use super::reading::BucketReading;
use crate::catalogue::{Bucket, BucketRef};
use crate::value::time::When;

/// What was gathered of one bucket from one family.
#[derive(Clone)]
pub(super) struct Draft<'a> {
    pub(super) family: usize,
    pub(super) bucket: Bucket,
    /// Whether a gateway passed it on from the provider behind it.
    pub(super) is_passed_on: bool,
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
    /// Whether it was called full or used up, in a word or as a share.
    is_spent: Option<bool>,
    /// The headers it was read from, as sent.
    fields: Vec<&'a str>,
}

/// Puts a figure into the first occurrence that does not have it yet, made if there is none and room for it.
pub(super) fn take<'a>(drafts: &mut Vec<Draft<'a>>, family: usize, bucket: &BucketRef<'_>, figure: Figure, hit: &Hit<'_, 'a>) {
    let empty = |occurrence: usize| Draft::new(family, bucket.get(), hit.is_passed_on, occurrence);
    let mut occurrence = 0;
    let is_it =
        |draft: &Draft<'_>| draft.family == family && draft.is_passed_on == hit.is_passed_on && draft.is_of(bucket.get());
    for draft in drafts.iter_mut().filter(|draft| is_it(draft)) {
        if !draft.has(&figure) {
            return draft.put(figure, hit.name);
        }
        occurrence += 1;
    }
    if drafts.len() < MOST_BUCKETS {
        let mut draft = empty(occurrence);
        draft.put(figure, hit.name);
        drafts.push(draft);
    }
}

impl<'a> Draft<'a> {
    fn new(family: usize, bucket: &Bucket, is_passed_on: bool, occurrence: usize) -> Self {
        Self {
            family,
            bucket: bucket.clone(),
            is_passed_on,
            occurrence,
            limit: None,
            remaining: None,
            used: None,
            reset_in: None,
            reset_at: None,
            window: None,
            fill: None,
            is_spent: None,
            fields: Vec::with_capacity(4),
        }
    }

    /// The headers it was read from, as sent.
    pub(super) fn fields(&self) -> &[&'a str] {
        &self.fields
    }

    /// Whether what is left stands beside a limit or a reset.
    pub(super) fn is_whole(&self) -> bool {
        let tells_what_is_left = self.remaining.or(self.used).is_some() || self.is_spent.is_some();
        tells_what_is_left && (self.limit.is_some() || self.when().is_some())
    }

    /// Whether it is about that bucket.
    fn is_of(&self, bucket: &Bucket) -> bool {
        self.bucket.name == bucket.name && self.bucket.window == bucket.window
    }

    fn has(&self, figure: &Figure) -> bool {
        match figure {
            Figure::Limit(..) => self.limit.is_some(),
            Figure::Remaining(_) => self.remaining.is_some(),
            Figure::Used(_) => self.used.is_some(),
            Figure::Reset(When::In(_)) => self.reset_in.is_some(),
            Figure::Reset(When::At(_)) => self.reset_at.is_some(),
            Figure::Window(_) => self.window.is_some(),
            Figure::Fill(_) => self.fill.is_some(),
            // A word and a share may say the same; neither is a figure that a second line repeats.
            Figure::Spent(_) => false,
        }
    }

    fn put(&mut self, figure: Figure, header: &'a str) {
        if !self.fields.iter().any(|known| known.eq_ignore_ascii_case(header)) {
            self.fields.push(header);
        }
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
            Figure::Spent(is_spent) => self.is_spent = self.is_spent.max(Some(is_spent)),
        }
    }

    /// Whether this occurrence repeats everything the first one said: then the lines describe two buckets, not one twice.
    fn repeats(&self, first: &Draft<'_>) -> bool {
        self.limit.is_some() == first.limit.is_some()
            && self.remaining.is_some() == first.remaining.is_some()
            && (self.reset_in.is_some() || self.reset_at.is_some()) == (first.reset_in.is_some() || first.reset_at.is_some())
    }

    /// Takes what a repeated line adds: the later reset and the smaller figures, so that nobody is sent too early.
    fn absorb(&mut self, other: &Draft<'_>) {
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
        self.is_spent = self.is_spent.max(other.is_spent);
    }

    /// The window in which the whole limit comes back: as stated, or as long as the refill takes (`limit / fill` windows).
    fn full_window(&self) -> Option<Span> {
        let Some(fill) = self.fill else { return self.window };
        let (limit, window) = self.limit.zip(self.window)?;
        let micros = (i128::from(limit) * i128::from(window.as_micros())).checked_div(i128::from(fill))?;
        Some(Span::from_micros(i64::try_from(micros).ok()?)).filter(|window| *window > Span::ZERO)
    }

    /// The reset as sent: a time from now needs no clock and so beats an instant.
    fn when(&self) -> Option<When> {
        self.reset_in.map(When::In).or(self.reset_at.map(When::At))
    }

    /// What was gathered, in figures from now.
    pub(super) fn finish(self, clock: &Clock, keeps_fields: bool) -> BucketReading {
        // -1 stands for "not known"; below a positive limit it is an overdraft.
        let is_unknown = self.limit.is_some_and(|limit| limit < 0)
            || (self.limit.is_none() && self.remaining.is_some_and(|remaining| remaining < 0));
        let spare = || self.limit.zip(self.used).map(|(limit, used)| limit.saturating_sub(used));
        // What a share leaves of an unknown limit is unknown; nothing is nothing.
        let spent = (self.is_spent == Some(true)).then_some(0);
        let remaining = spent.or(self.remaining).or_else(spare);
        let full_window = self.full_window();
        let when = self.when().filter(|_| !is_unknown);
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
            fields: if keeps_fields { self.fields.iter().map(|name| name.to_ascii_lowercase()).collect() } else { Vec::new() },
        }
    }
}

/// Puts repeated lines together unless they describe buckets of their own.
pub(super) fn collapse(drafts: Vec<Draft<'_>>) -> Vec<Draft<'_>> {
    if drafts.iter().all(|draft| draft.occurrence == 0) {
        return drafts;
    }
    let mut kept: Vec<Draft<'_>> = Vec::new();
    for draft in drafts {
        let first = kept.iter_mut().find(|first| {
            first.occurrence == 0
                && first.family == draft.family
                && first.is_passed_on == draft.is_passed_on
                && first.is_of(&draft.bucket)
        });
        match first {
            Some(first) if !draft.repeats(first) => first.absorb(&draft),
            _ => kept.push(draft),
        }
    }
    kept
}

/// Folds a bucket that sums up the others of its family into them: it says which of them refused, or until when. Alone, or when it
/// refuses and none of the others does, it is a bucket of its own.
pub(super) fn fold_summaries(drafts: Vec<Draft<'_>>) -> Vec<Draft<'_>> {
    if !drafts.iter().any(|draft| draft.bucket.sums_up) {
        return drafts;
    }
    let (summaries, mut others): (Vec<Draft<'_>>, Vec<Draft<'_>>) = drafts.into_iter().partition(|draft| draft.bucket.sums_up);
    for summary in summaries {
        let is_spent = summary.is_spent == Some(true);
        let of_family: Vec<&mut Draft<'_>> = others
            .iter_mut()
            .filter(|other| {
                other.family == summary.family && other.is_passed_on == summary.is_passed_on && !other.bucket.sums_up
            })
            .collect();
        let has_others = !of_family.is_empty();
        let mut is_told = !is_spent;
        for other in of_family {
            let ends_together = other.when().is_some() && other.when() == summary.when();
            if is_spent && (ends_together || other.is_spent == Some(true)) {
                is_told = true;
                other.is_spent = Some(true);
                if other.when().is_none() {
                    (other.reset_in, other.reset_at) = (summary.reset_in, summary.reset_at);
                }
            }
        }
        if !(has_others && is_told) {
            others.push(summary);
        }
    }
    others
}
