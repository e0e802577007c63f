//! Buckets: the headers of a family are gathered per bucket, then families that describe the same bucket are joined.

use super::clock::Clock;
use super::draft::{Draft, collapse, fold_summaries, take};
use super::figures;
use super::hits::{Hits, tell};
use super::rate_limit;
use super::reading::BucketReading;
use crate::catalogue::{NamedBy, Provider, Target};

/// At most this many buckets are kept of one answer.
pub(super) const MOST_BUCKETS: usize = 32;

/// Reads every bucket the headers describe, in the order in which they first appear. Which headers those are is kept on demand:
/// nobody asks after a success.
pub(super) fn read(provider: &Provider, hits: &mut Hits<'_, '_>, clock: &Clock, keeps_fields: bool) -> Vec<BucketReading> {
    let mut drafts: Vec<Draft<'_>> = Vec::new();
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
                    take(&mut drafts, *family, bucket, figure, hit);
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
    let drafts = without_weak(provider, collapse(drafts), &mut hits.unread);
    let mut structured = rate_limit::read(provider, hits, clock);
    malformed.append(&mut structured.malformed);
    malformed.iter().for_each(|name| tell(&mut hits.malformed, name));
    unread.iter().for_each(|name| tell(&mut hits.unread, name));

    let mut joined = Joined::default();
    let mut passed_on = Vec::new();
    for draft in fold_summaries(drafts) {
        let (named_by, is_passed_on) = (draft.bucket.named_by, draft.is_passed_on);
        let reading = structured.with_window(draft.finish(clock, keeps_fields));
        if is_passed_on { passed_on.push(reading) } else { joined.add(reading, named_by) }
    }
    for reading in std::mem::take(&mut structured.buckets) {
        joined.add(structured.with_window(reading), NamedBy::Nothing);
    }
    passed_on.into_iter().for_each(|reading| joined.add_passed_on(reading));
    joined.buckets.truncate(MOST_BUCKETS);
    joined.buckets.into_iter().map(|(reading, _)| reading).collect()
}

/// Leaves out what is too weak a hint to be a bucket; its headers are unread.
fn without_weak<'a>(provider: &Provider, mut drafts: Vec<Draft<'a>>, unread: &mut Vec<String>) -> Vec<Draft<'a>> {
    let families = &provider.facts().families;
    drafts.retain(|draft| {
        let is_weak = !draft.is_whole() && families.get(draft.family).is_some_and(|family| family.only_together);
        if is_weak {
            draft.fields().iter().for_each(|name| tell(unread, name));
        }
        !is_weak
    });
    drafts
}

/// Adds buckets that something beside the headers describes, unless the headers describe the same ones.
pub(super) fn with(known: Vec<BucketReading>, more: Vec<BucketReading>) -> Vec<BucketReading> {
    if more.is_empty() {
        return known;
    }
    let mut joined = Joined { buckets: known.into_iter().map(|reading| (reading, NamedBy::Known)).collect() };
    more.into_iter().for_each(|reading| joined.add(reading, NamedBy::Known));
    joined.buckets.truncate(MOST_BUCKETS);
    joined.buckets.into_iter().map(|(reading, _)| reading).collect()
}

/// The buckets of an answer, those that several headers describe in several dialects only once.
#[derive(Default)]
struct Joined {
    buckets: Vec<(BucketReading, NamedBy)>,
}

impl Joined {
    /// Joins a bucket to one that other headers describe; adds it when it is another one.
    fn add(&mut self, reading: BucketReading, named_by: NamedBy) {
        let same = self.buckets.iter_mut().find(|(known, known_by)| {
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
            None => self.buckets.push((reading, named_by)),
        }
    }

    /// A bucket that a gateway passed on is the one that it repeats under the plain name, when the figures are the same. Else the
    /// plain name speaks of the gateway's own, and that of the provider behind it must not be taken for it.
    fn add_passed_on(&mut self, reading: BucketReading) {
        let is_namesake = |known: &BucketReading| known.name == reading.name && known.window == reading.window;
        let is_ours = |(known, _): &(BucketReading, NamedBy)| {
            is_namesake(known) && !(is_same(known, &reading) && agrees(known.reset_in, reading.reset_in))
        };
        if !self.buckets.iter().any(is_ours) {
            return self.add(reading, NamedBy::Known);
        }
        let upstream = |name: &str| format!("upstream_{name}");
        let (name, meter) = (upstream(&reading.name), upstream(&reading.meter));
        self.add(BucketReading { name, meter, ..reading }, NamedBy::Known);
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
