//! The IETF RateLimit fields: a list since draft 08, a dictionary in draft 07, policies beside either (and beside drafts 05 and 06).

use paceline_core::units::Span;

use super::clock::Clock;
use super::hits::Hits;
use super::reading::BucketReading;
use crate::catalogue::{Bucket, Provider, Target};
use crate::value::number::Number;
use crate::value::structured::{self, Bare, Item};
use crate::value::time::When;

/// What the two fields say.
pub(super) struct RateLimit<'a> {
    pub(super) buckets: Vec<BucketReading>,
    pub(super) malformed: Vec<&'a str>,
    /// Policies without a name: limit and window.
    policies: Vec<(i64, Span)>,
}

impl RateLimit<'_> {
    /// Gives a bucket the window of the policy with its limit, when it has none.
    pub(super) fn with_window(&self, reading: BucketReading) -> BucketReading {
        let policy = self.policies.iter().find(|(limit, _)| Some(*limit) == reading.limit);
        BucketReading { window: reading.window.or(policy.map(|(_, window)| *window)), ..reading }
    }
}

/// A named policy: quota, window, unit.
struct Policy {
    name: String,
    quota: Option<i64>,
    window: Option<Span>,
    meter: String,
    /// Whether a later name stands for the same policy.
    is_other_name: bool,
}

/// Reads both fields. A field that is split over several lines is one list (RFC 9110, section 5.3).
pub(super) fn read<'a>(provider: &Provider, hits: &Hits<'_, 'a>, clock: &Clock) -> RateLimit<'a> {
    let mut result = RateLimit { buckets: Vec::new(), malformed: Vec::new(), policies: Vec::new() };
    let mut named = Vec::new();
    for (text, name) in joined(hits, &Target::Policy) {
        let alone = |items: Vec<Item>| items.into_iter().map(|item| vec![item]).collect();
        match structured::list(&text).map(alone).or_else(|| structured::list_of_fused(&text)) {
            Some(groups) => {
                groups.iter().flat_map(|group| with_last(group)).for_each(|(item, is_last)| match item.value.text() {
                    // Of names that stand together, the last one is the bucket's; the others say what kind of limit it is.
                    Some(name) => named.push(Policy { is_other_name: !is_last, ..policy(provider, name, item) }),
                    None => result.policies.extend(unnamed_policy(item)),
                })
            }
            None => result.malformed.push(name),
        }
    }
    let fields = joined(hits, &Target::RateLimit);
    for (text, name) in &fields {
        let buckets: Option<Vec<BucketReading>> = match structured::list(text) {
            Some(items) => items.iter().map(|item| listed(provider, item, &named, clock, name)).collect(),
            None => structured::dictionary(text).and_then(|members| Some(vec![dictionary(&members, clock, name)?])),
        };
        match buckets {
            Some(buckets) => result.buckets.extend(buckets),
            None => result.malformed.push(name),
        }
    }
    if fields.is_empty() {
        // Quotas alone are worth knowing.
        let quota = |policy: Policy| BucketReading {
            name: Bucket::named(&policy.name, &policy.meter).name,
            meter: policy.meter,
            limit: policy.quota,
            window: policy.window,
            ..BucketReading::default()
        };
        result.buckets =
            named.into_iter().filter(|policy| policy.quota.is_some() && !policy.is_other_name).map(quota).collect();
    }
    result
}

/// All lines of a field as one text, with the name of the field as sent; one entry per name, since a field that is unusable
/// takes no other with it.
fn joined<'a>(hits: &Hits<'_, 'a>, target: &Target<'_>) -> Vec<(String, &'a str)> {
    let mut fields: Vec<(String, &'a str)> = Vec::new();
    for line in hits.of(target).filter(|hit| hit.value != Some("")) {
        // Bytes that are no text make the field unusable, which an empty member does.
        let text = line.value.unwrap_or(",");
        match fields.iter_mut().find(|(_, name)| name.eq_ignore_ascii_case(line.name)) {
            Some((known, _)) => {
                known.push_str(", ");
                known.push_str(text);
            }
            None => fields.push((text.to_owned(), line.name)),
        }
    }
    fields
}

/// `"name";r=0;t=30`, with the quota and window of its policy.
fn listed(provider: &Provider, item: &Item, policies: &[Policy], clock: &Clock, field: &str) -> Option<BucketReading> {
    let name = item.value.text()?;
    let policy = policies.iter().find(|policy| policy.name == name);
    let meter = policy.map_or_else(|| unit_by(provider, name), |policy| policy.meter.as_str());
    let figure = |key: &str| item.parameter(key).and_then(Bare::number);
    let limit = policy.and_then(|policy| policy.quota).or_else(|| figure("q").map(Number::as_count));
    Some(BucketReading {
        name: Bucket::named(name, meter).name,
        meter: meter.to_owned(),
        limit: limit.filter(|limit| *limit >= 0),
        remaining: figure("r").map(Number::as_count),
        reset_in: figure("t").and_then(|seconds| reset(seconds, clock)),
        window: policy.and_then(|policy| policy.window).or_else(|| seconds(item, "w")),
        fields: vec![field.to_ascii_lowercase()],
        ..BucketReading::default()
    })
}

/// `limit=100, remaining=0, reset=5`; some put semicolons between.
fn dictionary(members: &[(String, Item)], clock: &Clock, field: &str) -> Option<BucketReading> {
    let figure = |wanted: &str| {
        let member = members.iter().find(|(key, _)| key == wanted).map(|(_, item)| &item.value);
        let parameter = || members.iter().find_map(|(_, item)| item.parameter(wanted));
        member.or_else(parameter).and_then(Bare::number)
    };
    let bucket = BucketReading {
        name: "requests".to_owned(),
        meter: "requests".to_owned(),
        limit: figure("limit").map(Number::as_count).filter(|limit| *limit >= 0),
        remaining: figure("remaining").map(Number::as_count),
        reset_in: figure("reset").and_then(|seconds| reset(seconds, clock)),
        fields: vec![field.to_ascii_lowercase()],
        ..BucketReading::default()
    };
    (bucket.limit.is_some() || bucket.remaining.is_some() || bucket.reset_in.is_some()).then_some(bucket)
}

fn policy(provider: &Provider, name: &str, item: &Item) -> Policy {
    let meter = match item.parameter("qu").and_then(Bare::text) {
        None => unit_by(provider, name),
        Some("concurrent-requests") => "concurrency",
        Some(other) => other,
    };
    let quota = item.parameter("q").and_then(Bare::number).map(Number::as_count).filter(|quota| *quota >= 0);
    Policy {
        name: name.to_owned(),
        quota,
        window: seconds(item, "w"),
        meter: Bucket::named(name, meter).meter,
        is_other_name: false,
    }
}

/// What a policy counts that does not say so. The draft says requests; one that bears the name of a meter counts that: taken for a quota of
/// requests, a quota of tokens would let through a hundred times too much.
fn unit_by<'n>(provider: &Provider, name: &'n str) -> &'n str {
    if provider.meters().any(|meter| meter.name == name) { name } else { "requests" }
}

/// Items, each with whether it is the last one.
fn with_last(items: &[Item]) -> impl Iterator<Item = (&Item, bool)> {
    items.iter().enumerate().map(|(index, item)| (item, index + 1 == items.len()))
}

/// `50;w=60`, as drafts 05 to 07 have it.
fn unnamed_policy(item: &Item) -> Option<(i64, Span)> {
    Some((item.value.number()?.as_count(), seconds(item, "w")?))
}

fn seconds(item: &Item, key: &str) -> Option<Span> {
    let number = item.parameter(key).and_then(Bare::number).filter(|number| !number.negative && !number.is_zero())?;
    Some(number.as_span(1_000_000))
}

/// A negative time is over.
fn reset(seconds: Number, clock: &Clock) -> Option<Span> {
    clock.until(When::In(if seconds.negative { Span::ZERO } else { seconds.as_span(1_000_000) }))
}
