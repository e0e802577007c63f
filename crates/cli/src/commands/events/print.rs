//! Events as lines for people and as objects for programs.

use jiff::Timestamp;
use jiff::tz::Offset;
use paceline_proto::v1::{FleetEvent, ListEventsResponse};
use serde_json::json;

use crate::commands::status::printable;

/// One event on a line: when (UTC, as logs have it), what, where, from what to what, who and why.
pub(super) fn line(event: &FleetEvent, now: Timestamp) -> String {
    let at = Offset::UTC.to_datetime(at(event, now)).strftime("%m-%d %H:%M:%SZ").to_string();
    let mut line = format!("{at}  {:<15} {}", printable(&event.kind), place(event));
    match (event.before.is_empty(), event.after.is_empty()) {
        (false, false) => line.push_str(&format!("  {} -> {}", printable(&event.before), printable(&event.after))),
        (true, false) => line.push_str(&format!("  {}", printable(&event.after))),
        (false, true) => line.push_str(&format!("  was: {}", printable(&event.before))),
        (true, true) => {}
    }
    line.push_str(&format!(
        "  ({}{}{})",
        printable(&event.who),
        if event.why.is_empty() { "" } else { ": " },
        printable(&event.why)
    ));
    line
}

/// One event as a JSON object; `at` is RFC 3339, in UTC.
pub(super) fn json(event: &FleetEvent, now: Timestamp) -> String {
    json!({
        "at": at(event, now).to_string(),
        "kind": event.kind,
        "provider": event.provider,
        "account": event.account,
        "group": event.group,
        "bucket": event.bucket,
        "who": event.who,
        "why": event.why,
        "before": event.before,
        "after": event.after,
        "id": event.id,
    })
    .to_string()
}

/// What is not told.
pub(super) fn missing(told: &ListEventsResponse) -> Vec<String> {
    let mut lines = Vec::new();
    if told.not_told > 0 {
        lines.push(format!("{} more happened and are not told: only so many are kept of an hour", told.not_told));
    }
    if !told.store_away.is_empty() {
        lines.push(format!(
            "the store does not answer ({}): only what this replica has not written yet is told",
            printable(&told.store_away)
        ));
    }
    lines
}

/// To the millisecond: what is told is how long ago it was.
fn at(event: &FleetEvent, now: Timestamp) -> Timestamp {
    let age = event.age.as_ref().map_or(0, |age| age.seconds.saturating_mul(1_000) + i64::from(age.nanos) / 1_000_000);
    Timestamp::from_millisecond(now.as_millisecond().saturating_sub(age)).unwrap_or(now)
}

/// `openai/prod gpt-4o requests`; of the whole fleet: `fleet`.
fn place(event: &FleetEvent) -> String {
    if event.provider.is_empty() {
        return "fleet".to_owned();
    }
    let scope = format!("{}/{}", event.provider, event.account);
    let parts = [scope.as_str(), event.group.as_str(), event.bucket.as_str()];
    printable(&parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")).to_string()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn event() -> FleetEvent {
        FleetEvent {
            age: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
            kind: "limit_learned".to_owned(),
            provider: "openai".to_owned(),
            account: "prod".to_owned(),
            group: "gpt-4o".to_owned(),
            bucket: "requests".to_owned(),
            who: "the provider".to_owned(),
            why: "its answers say so".to_owned(),
            before: "500".to_owned(),
            after: "250".to_owned(),
            id: "1-2-3".to_owned(),
        }
    }

    #[test]
    fn a_line_says_when_what_where_and_why() {
        let now: Timestamp = "2026-03-01T08:01:00Z".parse().unwrap();
        assert_eq!(
            line(&event(), now),
            "03-01 08:00:00Z  limit_learned   openai/prod gpt-4o requests  500 -> 250  (the provider: its answers say so)"
        );
        let fleet = FleetEvent {
            kind: "replica_left".to_owned(),
            who: "10.0.0.7:7070".to_owned(),
            why: String::new(),
            age: None,
            ..FleetEvent::default()
        };
        assert_eq!(line(&fleet, now), "03-01 08:01:00Z  replica_left    fleet  (10.0.0.7:7070)");
        assert!(json(&event(), now).contains(r#""at":"2026-03-01T08:00:00Z""#));
    }

    #[test]
    fn a_name_cannot_write_to_the_terminal() {
        let now: Timestamp = "2026-03-01T08:01:00Z".parse().unwrap();
        let evil = FleetEvent { account: "\u{1b}[2Jgone\n".to_owned(), after: "\u{7}".to_owned(), ..event() };
        let line = line(&evil, now);
        assert!(!line.contains(['\u{1b}', '\n', '\u{7}']), "{line:?}");
    }
}
