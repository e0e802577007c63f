//! Changes of a scope in words.

use paceline_core::journal::{Change, Changed, Where};
use paceline_core::signal::Source;
use paceline_core::units::{FleetTime, Span};

use super::{Happened, Kind};
use crate::api::Target;

/// A change of a scope as an event. The replica and its number come later.
pub(crate) fn of_scope(target: &Target, changed: &Changed, now: FleetTime) -> Happened {
    let (group, bucket) = match &changed.at {
        Where::Account => (String::new(), String::new()),
        Where::Group(group) => (group.to_string(), String::new()),
        Where::Bucket(group, bucket) => (group.to_string(), bucket.to_string()),
    };
    let event = |kind: Kind, who: &str, why: String, before: String, after: String| Happened {
        at: now,
        kind,
        provider: target.provider.clone(),
        account: target.account.clone(),
        group,
        bucket,
        who: who.to_owned(),
        why,
        before,
        after,
        ..Happened::default()
    };
    let none = String::new;
    match changed.what {
        Change::FloorSet { until, source } => event(
            Kind::FloorSet,
            who_said(source),
            why_said(source),
            none(),
            format!("nothing is sent for {}", length(until, now)),
        ),
        Change::FloorLifted { until, source } => {
            let before = format!("nothing was to be sent for {} more", length(until, now));
            event(
                Kind::FloorLifted,
                "paceline",
                format!("an answer or a person showed that it is over; it came from {}", why_said(source)),
                before,
                none(),
            )
        }
        Change::Limit { before, after, is_learned } => {
            let limit = |limit: Option<u64>| limit.map_or_else(|| "unknown".to_owned(), |limit| limit.to_string());
            let (kind, who, why) = if is_learned {
                (Kind::LimitLearned, "the provider", "its answers say so")
            } else {
                (Kind::LimitChanged, "the configuration", "it was written so, or a control lies over it")
            };
            event(kind, who, why.to_owned(), limit(before), limit(after))
        }
        Change::BreakerOpened => event(
            Kind::BreakerOpened,
            "the provider",
            "only failures came back".to_owned(),
            none(),
            "one call at a time is let through, to see".to_owned(),
        ),
        Change::BreakerClosed { lasted } => {
            event(Kind::BreakerClosed, "the provider", "a call succeeded".to_owned(), format!("open for {lasted}"), none())
        }
        Change::Exhausted => event(
            Kind::Exhausted,
            "the provider",
            "it said that money or a quota is used up".to_owned(),
            none(),
            "one call now and then is let through, to see".to_owned(),
        ),
        Change::NotExhausted => event(Kind::Replenished, "the provider", "a call succeeded".to_owned(), none(), none()),
    }
}

fn length(until: FleetTime, now: FleetTime) -> Span {
    // Whole seconds: nobody on call needs more.
    Span::from_secs((until.since(now).at_least_zero().as_micros() + 500_000) / 1_000_000)
}

const fn who_said(source: Source) -> &'static str {
    match source {
        Source::RetryAfterSeconds | Source::RetryAfterDate | Source::RetryAfterMs | Source::ResetHeader | Source::ErrorBody => {
            "the provider"
        }
        _ => "paceline",
    }
}

fn why_said(source: Source) -> String {
    match source {
        Source::RetryAfterSeconds | Source::RetryAfterDate => "Retry-After".to_owned(),
        Source::RetryAfterMs => "retry-after-ms".to_owned(),
        Source::ResetHeader => "a reset header".to_owned(),
        Source::ErrorBody => "the body of its answer".to_owned(),
        Source::Backoff => "refusals that did not say how long to wait".to_owned(),
        other => other.name().replace('_', " "),
    }
}
