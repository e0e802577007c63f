//! Headers of a refusal whose value names the bucket that refused.

use super::clock::Clock;
use super::hits::Hits;
use super::reading::BucketReading;
use crate::catalogue::{Provider, Target, Window, words_of};
use crate::value::time;

/// The buckets that refused, which are empty by definition; `UserByModelByDay` is one of requests per day.
pub(super) fn read(provider: &Provider, hits: &Hits<'_, '_>, clock: &Clock) -> Vec<BucketReading> {
    let bucket = |(index, fact): (usize, &crate::catalogue::RefusalFact)| {
        let named = hits.first(&Target::Refusal(index))?;
        let words = words_of(named.value.filter(|value| !value.is_empty())?);
        let timed = hits.first(&Target::RefusalReset(index));
        let reset = timed.and_then(|hit| time::parse(hit.value?, &fact.forms, clock.near()));
        let phrase = provider.facts().vocabulary.phrase(&words);
        Some(BucketReading {
            name: words.join("_"),
            meter: phrase.meter.unwrap_or("requests").to_owned(),
            remaining: Some(0),
            reset_in: reset.and_then(|(when, _)| clock.until(when)),
            window: phrase.window.map(Window::span),
            fields: timed.into_iter().chain([named]).map(|hit| hit.name.to_ascii_lowercase()).collect(),
            ..BucketReading::default()
        })
    };
    provider.facts().refusals.iter().enumerate().filter_map(bucket).collect()
}
