//! How long to wait: the ladder of headers, the resets of buckets.

use paceline_core::signal::Source;
use paceline_core::units::Span;

use super::clock::Clock;
use super::hits::{Hit, Hits, tell};
use super::reading::{BucketReading, Rule};
use crate::catalogue::{Provider, Target, Unusable, WaitFact};
use crate::value::time::{self, TimeForm, When};

/// A wait, and where it is from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wait {
    pub(super) span: Span,
    pub(super) source: Source,
    pub(super) field: String,
    pub(super) rule: Rule,
}

/// What the headers addressed to the caller say.
pub(super) struct HeaderWait {
    pub(super) wait: Option<Wait>,
    /// The wait among an error's details (gRPC sends them as trailers): worth as much as one in a body.
    pub(super) details: Option<Wait>,
    /// Whether one of them forbids another attempt (gRPC's push-back).
    pub(super) forbidden: bool,
}

/// Reads what is addressed to us; only without it, what a gateway passed on from the provider behind it.
pub(super) fn from_headers(provider: &Provider, hits: &mut Hits<'_, '_>, clock: &Clock) -> HeaderWait {
    let ours = ladder(provider, hits, clock, false);
    if ours.wait.is_some() || !hits.all.iter().any(|hit| hit.is_passed_on) {
        return ours;
    }
    let theirs = ladder(provider, hits, clock, true);
    HeaderWait { wait: theirs.wait, details: ours.details.or(theirs.details), forbidden: ours.forbidden }
}

/// The first usable header in milliseconds, the first usable one in seconds or as a date, and which of the two.
fn ladder(provider: &Provider, hits: &mut Hits<'_, '_>, clock: &Clock, is_passed_on: bool) -> HeaderWait {
    let mut by_rule: Vec<Option<Wait>> = Vec::new();
    let mut forbidden = false;
    for hit in hits.all.iter().filter(|hit| hit.is_passed_on == is_passed_on) {
        let (Target::Wait(index), Some(fact)) = (&hit.target, wait_fact(provider, hit)) else { continue };
        if by_rule.len() <= *index {
            by_rule.resize(*index + 1, None);
        }
        let found = in_details(hit, fact, clock);
        let found = found.or_else(|| hit.value.and_then(|value| one_wait(value, &fact.forms, clock, hit.name)));
        match (found, by_rule.get_mut(*index)) {
            // The larger of repeated values: two hops that disagree are both right about their own refusal.
            (Some(found), Some(best)) if best.as_ref().is_none_or(|best| found.span > best.span) => *best = Some(found),
            (Some(_), _) => {}
            (None, _) => {
                forbidden |= fact.unusable == Unusable::DoNotRetry;
                let is_stop = fact.unusable == Unusable::DoNotRetry && hit.value.is_some_and(|value| value.starts_with('-'));
                if hit.value != Some("") && !is_stop && fact.unusable != Unusable::Nothing {
                    tell(&mut hits.malformed, hit.name);
                }
            }
        }
    }
    let first = |is_it: fn(Source) -> bool| by_rule.iter().flatten().find(|wait| is_it(wait.source)).cloned();
    let in_millis = first(|source| source == Source::RetryAfterMs);
    let in_seconds = first(|source| !matches!(source, Source::RetryAfterMs | Source::ErrorBody));
    let details = first(|source| source == Source::ErrorBody);
    HeaderWait { wait: finer_or_longer(in_millis, in_seconds), details, forbidden }
}

/// The wait among an error's details, which libraries hand over as bytes or as base64.
fn in_details(hit: &Hit<'_, '_>, fact: &WaitFact, clock: &Clock) -> Option<Wait> {
    let span = fact.forms.iter().find_map(|form| form.parse_bytes(hit.bytes))?;
    let span = clock.until(When::In(span))?;
    Some(Wait { span, source: Source::ErrorBody, field: hit.name.to_ascii_lowercase(), rule: Rule::Details })
}

/// Without a wait for the caller, the buckets known to be empty bind, the latest of them; if it is not known of any bucket with
/// a reset whether it is empty, the latest reset. A bucket that has something left did not refuse the call.
pub(super) fn from_buckets(buckets: &[BucketReading]) -> Option<Wait> {
    let latest = |rule: Rule, counts: &dyn Fn(&BucketReading) -> bool| {
        let binding = buckets.iter().filter(|bucket| counts(bucket)).max_by_key(|bucket| bucket.reset_in)?;
        let field = binding.fields.iter().find(|field| field.contains("reset")).or_else(|| binding.fields.first());
        let field = field.cloned().unwrap_or_default();
        Some(Wait { span: binding.reset_in?, source: Source::ResetHeader, field, rule })
    };
    if buckets.iter().any(BucketReading::is_empty) {
        latest(Rule::EmptyBuckets, &BucketReading::is_empty)
    } else {
        latest(Rule::UnknownBuckets, &|bucket| bucket.remaining.is_none())
    }
}

/// Milliseconds beside seconds: seconds are the rounded-up milliseconds when both are right. Otherwise the longer one.
fn finer_or_longer(millis: Option<Wait>, seconds: Option<Wait>) -> Option<Wait> {
    let (Some(millis), Some(seconds)) = (millis.as_ref(), seconds.as_ref()) else { return millis.or(seconds) };
    let agrees = seconds.span - Span::from_secs(1) < millis.span && millis.span <= seconds.span;
    let (chosen, rule) = match () {
        () if millis.span == Span::ZERO => (seconds, Rule::ZeroMilliseconds),
        () if agrees => (millis, Rule::FinerAgrees),
        () if millis.span > seconds.span => (millis, Rule::LongerOfTwo),
        () => (seconds, Rule::LongerOfTwo),
    };
    Some(Wait { rule, ..chosen.clone() })
}

fn wait_fact<'p>(provider: &'p Provider, hit: &Hit<'_, '_>) -> Option<&'p WaitFact> {
    match hit.target {
        Target::Wait(index) => provider.facts().waits.get(index),
        _ => None,
    }
}

/// One value; several numbers in one value are what an intermediary makes of repeated lines, and a date has a comma of its own.
fn one_wait(value: &str, forms: &[TimeForm], clock: &Clock, name: &str) -> Option<Wait> {
    let whole = usable(value, forms, clock);
    let (span, form) = whole.or_else(|| {
        let numbers: Option<Vec<_>> = value.split(',').map(|part| usable(part.trim(), forms, clock)).collect();
        numbers?.into_iter().max_by_key(|(span, _)| *span)
    })?;
    Some(Wait { span, source: source_of(form), field: name.to_ascii_lowercase(), rule: Rule::Header })
}

/// A wait in any of the forms; a negative one is unusable, a date that is over is no wait at all.
pub(super) fn usable(value: &str, forms: &[TimeForm], clock: &Clock) -> Option<(Span, TimeForm)> {
    let (when, form) = time::parse(value, forms, clock.near())?;
    match when {
        // `-0` is as malformed as `-5`.
        When::In(span) if span < Span::ZERO || value.starts_with('-') => None,
        _ => clock.until(when).map(|span| (span, form)),
    }
}

fn source_of(form: TimeForm) -> Source {
    match form {
        TimeForm::Milliseconds => Source::RetryAfterMs,
        TimeForm::Rfc3339 | TimeForm::HttpDate | TimeForm::Epoch => Source::RetryAfterDate,
        TimeForm::Seconds | TimeForm::Minutes | TimeForm::Duration | TimeForm::SecondsOrEpoch => Source::RetryAfterSeconds,
        TimeForm::RetryInfo | TimeForm::StatusDetails => Source::ErrorBody,
    }
}
