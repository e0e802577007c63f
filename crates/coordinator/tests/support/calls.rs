//! Asks, reports and settings for tests, and short ways to look at answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use paceline_config::Config;
use paceline_coordinator::Configured;
use paceline_coordinator::api::{AcquireRequest, Answer, CallError, DEFAULT_HOLD, Denied, Grant, Queued};
use paceline_coordinator::api::{ReportAnswer, ReportRequest, RetryAsk, Target};
use paceline_coordinator::scope::Reply;
use paceline_coordinator::settings::Settings;
use paceline_core::amounts::Amounts;
use paceline_core::denial::Reason;
use paceline_core::lease::Repeat;
use paceline_core::plan::Class;
use paceline_core::report::Outcome;
use paceline_core::units::Span;

/// The settings of a configuration file.
pub(crate) fn settings(yaml: &str) -> Arc<dyn Settings> {
    let config = Config::parse(yaml, "test.yaml").unwrap_or_else(|errors| panic!("{errors}"));
    Arc::new(Configured::new(config))
}

/// The settings of provider `acme`, account `prod`, with these limits of model `m` (as in `requests: 60/min`).
pub(crate) fn limits(limits: &str) -> Arc<dyn Settings> {
    settings(&format!(
        "providers: {{acme: {{extends: generic, start_level: full, accounts: {{prod: {{models: {{m: {{{limits}}}}}}}}}}}}}"
    ))
}

/// The first attempt of a call to `acme/prod/m`, held for ten seconds.
pub(crate) fn ask(request_id: &str) -> AcquireRequest {
    AcquireRequest {
        request_id: request_id.to_owned(),
        attempt: 1,
        target: target("m"),
        hold: DEFAULT_HOLD,
        class: Class::Normal,
        ..AcquireRequest::default()
    }
}

/// A model of `acme/prod`.
pub(crate) fn target(model: &str) -> Target {
    Target { provider: "acme".into(), account: "prod".into(), model: model.into() }
}

/// The same ask with the ticket it was given, held for `hold`.
pub(crate) fn back(first: &AcquireRequest, queued: &Queued, hold: Span) -> AcquireRequest {
    AcquireRequest { ticket: Some(queued.ticket.clone()), hold, ..first.clone() }
}

/// The next attempt after the one with this lease.
pub(crate) fn next(first: &AcquireRequest, lease_id: &str) -> AcquireRequest {
    AcquireRequest { attempt: first.attempt + 1, previous_lease_id: Some(lease_id.to_owned()), ticket: None, ..first.clone() }
}

/// A report about a lease.
pub(crate) fn report(lease_id: &str, seq: u32, outcome: Outcome) -> ReportRequest {
    ReportRequest {
        identity: String::new(),
        lease_id: lease_id.to_owned(),
        seq,
        outcome,
        status: 0,
        grpc_status: None,
        headers: Vec::new(),
        body: Vec::new(),
        usage: Amounts::default(),
        usage_estimated: false,
        is_final: outcome.is_final(),
        age: Span::ZERO,
        served_by: String::new(),
        retry: None,
        decide_here: false,
    }
}

/// The final report of an answer with this status and these headers.
pub(crate) fn answered(lease_id: &str, status: u32, headers: &[(&str, &str)]) -> ReportRequest {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ReportRequest { status, headers, is_final: true, ..report(lease_id, 1, Outcome::Response) }
}

/// The same with this `seq` and without headers.
pub(crate) fn answered_as(lease_id: &str, seq: u32, status: u32) -> ReportRequest {
    ReportRequest { seq, ..answered(lease_id, status, &[]) }
}

/// The same report, asking for the next slot.
pub(crate) fn with_retry(report: ReportRequest) -> ReportRequest {
    ReportRequest { retry: Some(RetryAsk::default()), ..report }
}

/// Costs by meter.
pub(crate) fn cost<const N: usize>(pairs: [(&str, u64); N]) -> Amounts {
    Amounts::from_pairs(pairs)
}

/// Labels.
pub(crate) fn labels<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// A call that must not be sent twice.
pub(crate) fn never_twice(request_id: &str) -> AcquireRequest {
    AcquireRequest { repeat: Repeat::Never, ..ask(request_id) }
}

/// Looks at a reply as what it must be; anything else fails the test with what came instead.
pub(crate) trait Look {
    /// The answer to an ask.
    fn answer(&self) -> &Answer;
    /// A slot.
    fn grant(&self) -> &Grant {
        match self.answer() {
            Answer::Granted(grant) => grant,
            other => panic!("a grant was expected, not {other:?}"),
        }
    }
    /// A ticket.
    fn queued(&self) -> &Queued {
        match self.answer() {
            Answer::Queued(queued) => queued,
            other => panic!("a ticket was expected, not {other:?}"),
        }
    }
    /// A refusal.
    fn denied(&self) -> &Denied {
        match self.answer() {
            Answer::Denied(denied) => denied,
            other => panic!("a denial was expected, not {other:?}"),
        }
    }
    /// Why it was refused.
    fn reason(&self) -> Reason {
        self.denied().denial.reason
    }
}

impl Look for Answer {
    fn answer(&self) -> &Answer {
        self
    }
}

impl Look for Reply {
    fn answer(&self) -> &Answer {
        match self {
            Reply::Answer(Ok(answer)) => answer,
            Reply::Report(Ok(report)) => report.next.as_ref().expect("the report asked for the next slot"),
            other => panic!("an answer was expected, not {other:?}"),
        }
    }
}

/// The answer to a report.
pub(crate) fn reported(reply: &Reply) -> &ReportAnswer {
    match reply {
        Reply::Report(Ok(answer)) => answer,
        other => panic!("a report's answer was expected, not {other:?}"),
    }
}

/// The error that was answered.
pub(crate) fn error(reply: &Reply) -> &CallError {
    match reply {
        Reply::Answer(Err(error)) | Reply::Report(Err(error)) => error,
        other => panic!("an error was expected, not {other:?}"),
    }
}
