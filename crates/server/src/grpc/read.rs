//! From messages to the coordinator's requests: what is wrong with the shape of a message is told here, all at once.

use std::collections::BTreeMap;
use std::time::Duration;

use paceline_coordinator::EventKind;
use paceline_coordinator::api::{
    self, AcquireRequest, DEFAULT_HOLD, LONGEST_TTL, MOST_FALLBACKS, ReportRequest, RetryAsk, Target,
};
use paceline_core::amounts::Amounts;
use paceline_core::lease::Repeat;
use paceline_core::report::Outcome;
use paceline_core::units::Span;
use paceline_proto::convert::{self, InvalidField, Problem};
use paceline_proto::v1;
use tonic::{Request, Status};

use super::bounds::{
    HIGHEST_STATUS, MOST_HEADER_VALUE_BYTES, MOST_HEADERS, MOST_ID_CHARS, MOST_ITEMS, MOST_LABELS, MOST_METERS,
    MOST_NAME_BYTES, MOST_UNITS_USED,
};
use super::status::Problems;
use crate::overview::EventsAsked;

/// What a release gives back.
#[derive(Debug)]
pub(super) enum Released {
    Lease(String),
    Ticket(Vec<u8>),
}

/// Reads an ask.
pub(super) fn acquire(message: v1::AcquireRequest) -> Result<AcquireRequest, Status> {
    let mut wrong = Problems::default();
    request_id(&message.request_id, &mut wrong);
    target(message.target.as_ref(), &mut wrong);
    fallbacks("fallbacks", &message.fallbacks, &mut wrong);
    cost("cost", &message.cost, &mut wrong);
    let max_wait = wrong.take(convert::optional_span("max_wait", message.max_wait.as_ref())).flatten();
    let deadline = wrong.take(convert::optional_span("deadline", message.deadline.as_ref())).flatten();
    let hold = wrong.take(convert::optional_span("hold", message.hold.as_ref())).flatten();
    let run_time = wrong.take(run_time(message.run_time.as_ref())).flatten();
    let class = wrong.take(convert::class("priority", message.priority));
    let repeat = wrong.take(convert::known::<v1::Repeat>("repeat", message.repeat)).map(repeat);
    name("tenant", &message.tenant, &mut wrong);
    labels(&message.labels, &mut wrong);
    if message.parent.chars().count() > MOST_ID_CHARS || message.parent.chars().any(char::is_control) {
        wrong.add(
            "parent",
            format!("must be the request_id of the enclosing call: at most {MOST_ID_CHARS} printable characters"),
        );
    }
    wrong.into_result(AcquireRequest {
        identity: String::new(),
        request_id: message.request_id,
        attempt: message.attempt,
        target: message.target.map(target_of).unwrap_or_default(),
        fallbacks: message.fallbacks.into_iter().map(target_of).collect(),
        cost: amounts(&message.cost),
        cost_estimated: message.cost_estimated,
        max_wait,
        deadline,
        hold: hold.unwrap_or(DEFAULT_HOLD),
        run_time,
        class: class.unwrap_or_default(),
        tenant: message.tenant,
        labels: message.labels,
        parent: message.parent,
        ticket: (!message.ticket.is_empty()).then_some(message.ticket),
        previous_lease_id: (!message.previous_lease_id.is_empty()).then_some(message.previous_lease_id),
        repeat: repeat.unwrap_or_default(),
        decide_here: false,
        sent_on_by: None,
    })
}

/// Reads a report.
pub(super) fn report(message: v1::ReportRequest) -> Result<ReportRequest, Status> {
    let mut wrong = Problems::default();
    if message.lease_id.is_empty() {
        wrong.add("lease_id", "is empty; pass on the lease_id of the grant exactly as received");
    }
    let outcome = match wrong.take(convert::known::<v1::Outcome>("outcome", message.outcome)) {
        Some(v1::Outcome::Unspecified) => {
            wrong.add("outcome", "is not set; say OUTCOME_RESPONSE when the provider answered, or how else the attempt went");
            None
        }
        outcome => outcome.and_then(outcome_of),
    };
    status("status", message.status, &mut wrong);
    headers("headers", &message.headers, &mut wrong);
    usage(&message.usage, &mut wrong);
    let age = wrong.take(convert::optional_span("age", message.age.as_ref())).flatten();
    name("served_by", &message.served_by, &mut wrong);
    let retry = message.retry.as_ref().and_then(|retry| retry_ask(retry, &mut wrong));
    let outcome = outcome.unwrap_or(Outcome::Abandoned); // not used: something is wrong then
    wrong.into_result(ReportRequest {
        identity: String::new(),
        lease_id: message.lease_id,
        seq: message.seq,
        outcome,
        status: message.status,
        grpc_status: message.grpc_status,
        headers: message.headers.into_iter().map(|header| (header.name, header.value)).collect(),
        body: first_bytes(message.body),
        usage: amounts(&message.usage),
        usage_estimated: message.usage_estimated,
        is_final: message.r#final,
        age: age.unwrap_or(Span::ZERO),
        served_by: message.served_by,
        retry,
        decide_here: false,
    })
}

/// Whether a report holds an answer of the provider to be read: later reports of the same one do not.
pub(super) fn has_answer(report: &ReportRequest) -> bool {
    let says_something =
        report.status > 0 || report.grpc_status.is_some() || !report.headers.is_empty() || !report.body.is_empty();
    report.outcome == Outcome::Response && says_something
}

/// Reads a release.
pub(super) fn release(message: v1::ReleaseRequest) -> Result<Released, Status> {
    let mut wrong = Problems::default();
    match message.what {
        Some(v1::release_request::What::LeaseId(lease_id)) if !lease_id.is_empty() => return Ok(Released::Lease(lease_id)),
        Some(v1::release_request::What::Ticket(ticket)) if !ticket.is_empty() => return Ok(Released::Ticket(ticket)),
        Some(v1::release_request::What::LeaseId(_)) => wrong.add("lease_id", "is empty; pass on the lease_id of the grant"),
        Some(v1::release_request::What::Ticket(_)) => wrong.add("ticket", "is empty; pass on the ticket of the Queued answer"),
        None => wrong.add("lease_id", "is not set, and neither is ticket; name what is given back"),
    }
    Err(wrong.into_status())
}

/// Reads an answer to be explained: provider, headers, the start of the body, its age.
pub(super) fn explain(message: &v1::ExplainRequest) -> Result<Span, Status> {
    let mut wrong = Problems::default();
    name("provider", &message.provider, &mut wrong);
    status("status", message.status, &mut wrong);
    headers("headers", &message.headers, &mut wrong);
    let age = wrong.take(convert::optional_span("age", message.age.as_ref())).flatten();
    wrong.into_result(age.unwrap_or(Span::ZERO))
}

/// Reads of which scopes the history is asked for, and how far back.
pub(super) fn history(message: v1::GetHistoryRequest) -> Result<(v1::Selector, Span), Status> {
    const UNLESS_SAID: Span = Span::from_secs(86_400);
    let mut wrong = Problems::default();
    let selector = message.selector.unwrap_or_default();
    name("selector.provider", &selector.provider, &mut wrong);
    name("selector.account", &selector.account, &mut wrong);
    let since = wrong.take(convert::optional_span("since", message.since.as_ref())).flatten();
    wrong.into_result((selector, since.unwrap_or(UNLESS_SAID)))
}

/// Reads which events are asked for.
pub(super) fn events(message: v1::ListEventsRequest) -> Result<EventsAsked, Status> {
    const UNLESS_SAID: Span = Span::from_secs(3_600);
    let mut wrong = Problems::default();
    let selector = message.selector.unwrap_or_default();
    name("selector.provider", &selector.provider, &mut wrong);
    name("selector.account", &selector.account, &mut wrong);
    let since = wrong.take(convert::optional_span("since", message.since.as_ref())).flatten();
    let mut kinds = Vec::new();
    for asked in &message.kinds {
        match EventKind::ALL.into_iter().find(|kind| kind.name() == asked) {
            Some(kind) => kinds.push(kind),
            None => {
                let known = EventKind::ALL.map(EventKind::name).join(", ");
                wrong.add("kinds", format!("has {asked:?}, which is no kind of event; there are {known}"));
            }
        }
    }
    wrong.into_result(EventsAsked { selector, since: since.unwrap_or(UNLESS_SAID), kinds })
}

/// Reads which call is meant.
pub(super) fn why(message: v1::WhyRequest) -> Result<v1::WhyRequest, Status> {
    const MOST_BYTES: usize = 8_192;
    let mut wrong = Problems::default();
    if message.call.is_empty() {
        wrong.add("call", "is empty; name a call: its request_id, a lease_id, or a ticket in base64");
    } else if message.call.len() > MOST_BYTES {
        wrong.add("call", format!("has {} bytes, and no name or token is longer than {MOST_BYTES}", message.call.len()));
    }
    wrong.into_result(message)
}

/// Reads the names of a scope or of a selector.
pub(super) fn names(names: &[(&'static str, &str)]) -> Result<(), Status> {
    let mut wrong = Problems::default();
    for (field, text) in names {
        name(field, text, &mut wrong);
    }
    wrong.into_result(())
}

/// Reads how long the answer to a batch of asks or reports may be held.
pub(super) fn batch(items: usize, hold: Option<&prost_types::Duration>) -> Result<Span, Status> {
    let mut wrong = Problems::default();
    if items > MOST_ITEMS {
        wrong.add("items", format!("has {items} entries, and none was taken; send at most {MOST_ITEMS} in one message"));
    }
    let hold = wrong.take(convert::optional_span("hold", hold)).flatten();
    wrong.into_result(hold.unwrap_or(Span::ZERO))
}

/// How long the answer to an RPC may be held back because of its own deadline, which bounds that and nothing else.
pub(super) fn longest_hold_of<T>(request: &Request<T>) -> Span {
    longest_hold(patience(request))
}

/// What is left of an RPC's own deadline (`grpc-timeout`, gRPC over HTTP/2: up to eight digits and a unit).
fn patience<T>(request: &Request<T>) -> Option<Duration> {
    let text = request.metadata().get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let amount: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(amount.saturating_mul(3_600))),
        "M" => Some(Duration::from_secs(amount.saturating_mul(60))),
        "S" => Some(Duration::from_secs(amount)),
        "m" => Some(Duration::from_millis(amount)),
        "u" => Some(Duration::from_micros(amount)),
        "n" => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

/// The answer must be on its way before the caller stops listening: a tenth earlier, at most 200 ms.
fn longest_hold(patience: Option<Duration>) -> Span {
    const MOST_LEAD: Span = Span::from_millis(200);
    let Some(patience) = patience.map(Span::from) else { return Span::MAX };
    patience - Span::from_micros(patience.as_micros() / 10).min(MOST_LEAD)
}

fn request_id(text: &str, wrong: &mut Problems) {
    let chars = text.chars().count();
    if chars == 0 {
        wrong.add("request_id", "is empty; name each call by something unique, such as a UUID");
    } else if chars > MOST_ID_CHARS {
        wrong.add("request_id", format!("has {chars} characters; at most {MOST_ID_CHARS} are allowed, and a UUID has 36"));
    } else if text.chars().any(char::is_control) {
        wrong.add("request_id", "has control characters in it; use printable ones, such as a UUID's");
    }
}

fn target(target: Option<&v1::Target>, wrong: &mut Problems) {
    let Some(target) = target else {
        wrong.add("target", "is not set; say where the call goes: provider, account, model");
        return;
    };
    if target.provider.is_empty() {
        wrong.add("target.provider", "is empty; name one of the catalogue (such as openai) or of the configuration");
    }
    name("target.provider", &target.provider, wrong);
    name("target.account", &target.account, wrong);
    name("target.model", &target.model, wrong);
}

fn target_of(target: v1::Target) -> Target {
    Target { provider: target.provider, account: target.account, model: target.model }
}

fn fallbacks(field: &str, fallbacks: &[v1::Target], wrong: &mut Problems) {
    if fallbacks.len() > MOST_FALLBACKS {
        wrong.add(field, format!("has {} targets; at most {MOST_FALLBACKS} are compared", fallbacks.len()));
        return;
    }
    for (at, target) in fallbacks.iter().enumerate() {
        if target.provider.is_empty() {
            wrong.add(format!("{field}[{at}].provider"), "is empty; name one of the catalogue or of the configuration");
        }
        name(&format!("{field}[{at}].provider"), &target.provider, wrong);
        name(&format!("{field}[{at}].account"), &target.account, wrong);
        name(&format!("{field}[{at}].model"), &target.model, wrong);
    }
}

/// A name that may be empty.
pub(crate) fn name(field: &str, text: &str, wrong: &mut Problems) {
    if text.len() > MOST_NAME_BYTES {
        wrong.add(field, format!("has {} bytes; a name has at most {MOST_NAME_BYTES}", text.len()));
    } else if text.chars().any(char::is_control) {
        wrong.add(field, "has control characters in it; use printable ones");
    }
}

fn meters(field: &str, units: &BTreeMap<String, u64>, wrong: &mut Problems) {
    if units.len() > MOST_METERS {
        wrong.add(field, format!("has {} meters; at most {MOST_METERS} are allowed", units.len()));
    }
    if units.contains_key("") {
        wrong.add(field, "has a meter without a name; use requests, tokens, ...");
    }
    for meter in units.keys() {
        name(field, meter, wrong);
    }
}

fn cost(field: &str, units: &BTreeMap<String, u64>, wrong: &mut Problems) {
    meters(field, units, wrong);
    if units.get("requests") == Some(&0) {
        wrong.add(format!("{field}.requests"), "is 0, but a call is at least one request; leave it out for one");
    }
}

fn usage(units: &BTreeMap<String, u64>, wrong: &mut Problems) {
    meters("usage", units, wrong);
    for (meter, units) in units.iter().filter(|(_, units)| **units > MOST_UNITS_USED) {
        let field = format!("usage.{}", meter.chars().filter(|c| !c.is_control()).take(64).collect::<String>());
        wrong.add(field, format!("is {units}; more than {MOST_UNITS_USED} were never used: report the provider's own figure"));
    }
}

fn amounts(units: &BTreeMap<String, u64>) -> Amounts {
    Amounts::from_pairs(units.iter().map(|(meter, units)| (meter.as_str(), *units)))
}

/// How long the call may run; longer than the longest is read as the longest.
fn run_time(duration: Option<&prost_types::Duration>) -> Result<Option<Span>, InvalidField> {
    match convert::optional_span("run_time", duration) {
        Err(InvalidField { problem: Problem::TooLong, .. }) => Ok(Some(LONGEST_TTL)),
        read => read.map(|span| span.map(|span| span.min(LONGEST_TTL))),
    }
}

fn labels(labels: &BTreeMap<String, String>, wrong: &mut Problems) {
    if labels.len() > MOST_LABELS {
        wrong.add("labels", format!("has {} entries; at most {MOST_LABELS} are allowed", labels.len()));
    }
    if labels.contains_key("") {
        wrong.add("labels", "has an entry without a name");
    }
    for (label, value) in labels {
        name("labels", label, wrong);
        name("labels", value, wrong);
    }
}

fn status(field: &str, status: u32, wrong: &mut Problems) {
    if status != 0 && !(100..=HIGHEST_STATUS).contains(&status) {
        wrong.add(field, format!("is {status}, which is no HTTP status; leave it 0 where there was none"));
    }
}

fn headers(field: &str, headers: &[v1::Header], wrong: &mut Problems) {
    if headers.len() > MOST_HEADERS {
        wrong.add(
            field,
            format!("has {} entries; at most {MOST_HEADERS} are read: send those of the last response", headers.len()),
        );
        return;
    }
    for (at, header) in headers.iter().enumerate() {
        if header.name.is_empty() {
            wrong.add(format!("{field}[{at}].name"), "is empty");
        }
        name(&format!("{field}[{at}].name"), &header.name, wrong);
        if header.value.len() > MOST_HEADER_VALUE_BYTES {
            let bytes = header.value.len();
            wrong.add(format!("{field}[{at}].value"), format!("has {bytes} bytes; at most {MOST_HEADER_VALUE_BYTES} are read"));
        }
    }
}

fn retry_ask(retry: &v1::RetryAsk, wrong: &mut Problems) -> Option<RetryAsk> {
    fallbacks("retry.fallbacks", &retry.fallbacks, wrong);
    cost("retry.cost", &retry.cost, wrong);
    let max_wait = wrong.take(convert::optional_span("retry.max_wait", retry.max_wait.as_ref())).flatten();
    let fallbacks = || retry.fallbacks.iter().cloned().map(target_of).collect();
    retry.wanted.then(|| RetryAsk { max_wait, cost: amounts(&retry.cost), fallbacks: fallbacks(), hold: None })
}

/// The start of a body; the rest is let go at once instead of travelling on.
fn first_bytes(mut body: Vec<u8>) -> Vec<u8> {
    if body.len() > api::MOST_BODY_BYTES {
        body.truncate(api::MOST_BODY_BYTES);
        body.shrink_to_fit();
    }
    body
}

fn repeat(repeat: v1::Repeat) -> Repeat {
    match repeat {
        v1::Repeat::Unspecified => Repeat::Unspecified,
        v1::Repeat::Safe => Repeat::Safe,
        v1::Repeat::Keyed => Repeat::Keyed,
        v1::Repeat::Never => Repeat::Never,
    }
}

fn outcome_of(outcome: v1::Outcome) -> Option<Outcome> {
    match outcome {
        v1::Outcome::Unspecified => None,
        v1::Outcome::Response => Some(Outcome::Response),
        v1::Outcome::Running => Some(Outcome::Running),
        v1::Outcome::Timeout => Some(Outcome::Timeout),
        v1::Outcome::ConnectionFailed => Some(Outcome::ConnectionFailed),
        v1::Outcome::Abandoned => Some(Outcome::Abandoned),
    }
}
