//! What a body repeats of headers, and lists of buckets in bodies: both are read like headers and count like a body.

use paceline_core::signal::Source;
use serde_json::{Map, Value};

use super::body::{Body, text_of};
use super::buckets;
use super::clock::Clock;
use super::hits::Hits;
use super::reading::BucketReading;
use super::waits::{self, Wait};
use crate::catalogue::{Bucket, BucketListFact, Provider};
use crate::value::number::Number;
use crate::value::time;

/// More members than this are no header fields.
const MOST_FIELDS: usize = 64;

/// The buckets that the body tells of, and the wait that follows.
pub(super) fn read(provider: &Provider, body: &Body<'_>, clock: &Clock) -> (Vec<BucketReading>, Option<Wait>) {
    let facts = &provider.facts().body;
    let mut told = Vec::new();
    let mut wait: Option<Wait> = None;
    for fact in &facts.headers {
        body.objects(&fact.at, &mut |object| {
            let (buckets, addressed) = repeated_headers(provider, object, clock);
            told.extend(buckets);
            wait = wait.take().or(addressed);
        });
    }
    for fact in &facts.lists {
        body.objects(&fact.at, &mut |object| told.extend(listed(provider, fact, object, clock)));
    }
    let wait = wait.or_else(|| waits::from_buckets(&told));
    let in_body = |wait: Wait| Wait { source: Source::ErrorBody, field: format!("body {}", wait.field), ..wait };
    (told, wait.map(in_body))
}

fn repeated_headers(provider: &Provider, object: &Map<String, Value>, clock: &Clock) -> (Vec<BucketReading>, Option<Wait>) {
    let values = |value: &Value| match value {
        Value::Array(items) => items.iter().filter_map(|item| text_of(item).map(|text| text.into_owned())).collect(),
        other => text_of(other).map(|text| vec![text.into_owned()]).unwrap_or_default(),
    };
    let owned: Vec<(&str, String)> = object
        .iter()
        .take(MOST_FIELDS)
        .flat_map(|(name, value)| values(value).into_iter().map(|value| (name.as_str(), value)))
        .collect();
    let headers: Vec<(&str, &[u8])> = owned.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    let mut hits = Hits::collect(provider, &headers);
    let buckets = buckets::read(provider, &mut hits, clock, true);
    let addressed = waits::from_headers(provider, &mut hits, clock).wait;
    (buckets, addressed)
}

fn listed(provider: &Provider, fact: &BucketListFact, object: &Map<String, Value>, clock: &Clock) -> Option<BucketReading> {
    let text = |member: &str| object.get(member).and_then(text_of);
    let count = |member: &str| text(member).and_then(|text| Number::parse(text.trim())).map(Number::as_count);
    let name = text(&fact.name)?;
    let vocabulary = &provider.facts().vocabulary;
    let bucket = Bucket::from_words(&name, vocabulary, paceline_core::signal::ResetMeans::default());
    let meter = provider.meters().find(|meter| meter.name == bucket.meter);
    let reset = text(&fact.reset).and_then(|text| time::parse(text.trim(), &fact.forms, clock.near()));
    Some(BucketReading {
        limit: count(&fact.limit).filter(|limit| *limit >= 0),
        remaining: count(&fact.remaining),
        reset_in: reset.and_then(|(when, _)| clock.until(when)),
        reset_means: meter.map(|meter| meter.reset_means).unwrap_or_default(),
        owner: meter.map(|meter| meter.owner).unwrap_or_default(),
        window: bucket.window,
        fields: vec![format!("{}/{}", fact.at, fact.reset)],
        name: bucket.name,
        meter: bucket.meter,
        ..BucketReading::default()
    })
}
