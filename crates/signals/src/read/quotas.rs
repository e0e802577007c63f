//! Quotas that the body of a refusal names because they are used up. The name says what a quota counts and per how long; a day or
//! month ends when it ends where the provider counts, however soon the refusal says to come back.

use paceline_core::calendar::{Calendar, CalendarUnit, Zone};
use paceline_core::signal::{ResetMeans, Source};
use paceline_core::units::Span;
use serde_json::{Map, Value};

use super::body::Body;
use super::clock::Clock;
use super::reading::{BucketReading, Rule};
use super::waits::Wait;
use crate::catalogue::{Provider, QuotaFact, Window, words_of};
use crate::value::number::Number;
use crate::value::time::When;

/// What the quotas of a refusal come to.
#[derive(Default)]
pub(super) struct Quotas {
    /// One bucket each, empty.
    pub(super) buckets: Vec<BucketReading>,
    /// Until the last of their days and months is over; `None` when none of them has any.
    pub(super) wait: Option<Wait>,
    /// Whether one of them is zero: there is nothing to wait for.
    pub(super) has_zero: bool,
}

/// Reads the quotas; `stated` is what the body otherwise says to wait, which is when a quota without a calendar is back.
pub(super) fn read(provider: &Provider, body: &Body<'_>, clock: &Clock, stated: Option<&Wait>) -> Quotas {
    let mut quotas = Quotas::default();
    for fact in &provider.facts().body.quotas {
        body.objects(&fact.at, &mut |object| quotas.take(provider, fact, object, clock, stated));
    }
    quotas
}

impl Quotas {
    fn take(
        &mut self,
        provider: &Provider,
        fact: &QuotaFact,
        object: &Map<String, Value>,
        clock: &Clock,
        stated: Option<&Wait>,
    ) {
        let Some(name) = object.get(&fact.name).and_then(Value::as_str) else { return };
        let limit = fact.limit.as_ref().and_then(|member| number(object.get(member)?)).map(Number::as_count);
        self.has_zero |= limit == Some(0);
        let vocabulary = &provider.facts().vocabulary;
        let phrase = vocabulary.phrase(&words_of(name));
        let metric = || vocabulary.phrase(&words_of(object.get(fact.metric.as_ref()?)?.as_str()?)).meter;
        let Some(meter) = phrase.meter.or_else(metric) else { return };
        let window = phrase.window;
        let end = window.zip(fact.zone.as_deref()).and_then(|(window, zone)| end_of(window, zone, clock));
        let stated = stated.map(|wait| wait.span);
        let field = format!("body {}/{}", fact.at, fact.name);
        if let Some(span) = end {
            let span = stated.map_or(span, |stated| span.max(stated));
            let is_later = self.wait.as_ref().is_none_or(|wait| wait.span < span);
            let wait = Wait { span, source: Source::ErrorBody, field: field.clone(), rule: Rule::CalendarQuota };
            self.wait = if is_later { Some(wait) } else { self.wait.take() };
        }
        let bucket = BucketReading {
            name: format!("{meter}{}", window.map_or("", Window::suffix)),
            meter: meter.to_owned(),
            limit: limit.filter(|limit| *limit >= 0),
            remaining: Some(0),
            reset_in: end.max(stated),
            reset_means: if end.is_some() { ResetMeans::Window } else { ResetMeans::Unspecified },
            window: window.map(Window::span),
            fields: vec![field],
            ..BucketReading::default()
        };
        self.add(bucket);
    }

    /// Several dimensions of one quota may be named: the smallest limit is the one in force.
    fn add(&mut self, bucket: BucketReading) {
        let has_room = self.buckets.len() < super::buckets::MOST_BUCKETS;
        match self.buckets.iter_mut().find(|known| known.name == bucket.name && known.window == bucket.window) {
            Some(known) => {
                known.limit =
                    known.limit.zip(bucket.limit).map(|(known, other)| known.min(other)).or(known.limit).or(bucket.limit);
                known.reset_in = known.reset_in.max(bucket.reset_in);
            }
            None if has_room => self.buckets.push(bucket),
            None => {}
        }
    }
}

/// Until the day, week or month is over; other windows have no calendar.
fn end_of(window: Window, zone: &str, clock: &Clock) -> Option<Span> {
    let calendar = Calendar { unit: CalendarUnit::of_length(window.span())?, zone: Zone::named(zone)? };
    clock.until(When::At(calendar.end_after(clock.now?)))
}

fn number(value: &Value) -> Option<Number> {
    match value {
        Value::String(text) => Number::parse(text.trim()),
        Value::Number(number) => Number::parse(&number.to_string()),
        _ => None,
    }
}
