//! Buckets that a body describes, and the wait that follows from them: what is missing for the request, at the rate at which it
//! comes back. GraphQL APIs count points and state all of that beside the answer.

use paceline_core::signal::Source;
use paceline_core::units::Span;

use super::body::Body;
use super::reading::{BucketReading, Rule};
use super::waits::Wait;
use crate::catalogue::{BodyBucketFact, BodyPath, Provider};
use crate::value::number::Number;

/// The buckets of a body, and the longest wait for one of them.
pub(super) fn read(provider: &Provider, body: &Body<'_>) -> (Vec<BucketReading>, Option<Wait>) {
    let mut buckets = Vec::new();
    let mut longest: Option<Wait> = None;
    for fact in &provider.facts().body.buckets {
        let (limit, remaining) = (body.number(&fact.limit), body.number(&fact.remaining));
        if limit.is_none() && remaining.is_none() {
            continue;
        }
        let bucket = provider.body_bucket(&fact.bucket);
        buckets.push(BucketReading {
            name: bucket.name,
            meter: bucket.meter,
            limit: limit.map(Number::as_count).filter(|limit| *limit >= 0),
            remaining: remaining.map(Number::as_count),
            reset_means: bucket.reset_means,
            window: bucket.window.or_else(|| window(fact, body, limit?)),
            owner: bucket.owner,
            fields: vec![format!("body {}", fact.remaining)],
            ..BucketReading::default()
        });
        let wait = remaining.and_then(|remaining| wait(fact, body, remaining));
        longest = if wait.as_ref().map(|wait| wait.span) > longest.as_ref().map(|wait| wait.span) { wait } else { longest };
    }
    (buckets, longest)
}

/// The time in which the whole limit comes back.
fn window(fact: &BodyBucketFact, body: &Body<'_>, limit: Number) -> Option<Span> {
    divided(limit.as_millionths(), rate(fact.per_second.as_ref(), body)?).filter(|window| *window > Span::ZERO)
}

/// What is left may be overdrawn. When nothing is missing, the figures do not explain the refusal and say nothing.
fn wait(fact: &BodyBucketFact, body: &Body<'_>, remaining: Number) -> Option<Wait> {
    let cost = body.number(fact.cost.as_ref()?)?;
    let missing = cost.as_millionths() - remaining.as_millionths();
    let span = divided(missing, rate(fact.per_second.as_ref(), body)?).filter(|span| *span > Span::ZERO)?;
    let span = Span::from_millis(span.min(super::LONGEST_READ).as_millis_ceil());
    Some(Wait { span, source: Source::ErrorBody, field: format!("body {}", fact.remaining), rule: Rule::Shortage })
}

fn rate(path: Option<&BodyPath>, body: &Body<'_>) -> Option<i128> {
    Some(body.number(path?)?.as_millionths()).filter(|rate| *rate > 0)
}

/// Units at a rate per second, both in millionths; rounded up.
fn divided(units: i128, rate: i128) -> Option<Span> {
    let scaled = units.checked_mul(1_000_000)?;
    let micros = (scaled + rate - 1).checked_div(rate)?;
    Some(Span::from_micros(i64::try_from(micros).unwrap_or(i64::MAX)))
}
