//! Messages as workers send them, and what their answers are.

use paceline_core::units::Span;
use paceline_proto::v1::acquire_response::Outcome as Answer;
use paceline_proto::v1::{AcquireRequest, AcquireResponse, Grant, Outcome, Queued, ReportRequest, Target};
use prost_types::Duration;

/// An ask for a model of `acme/prod` that is answered at once.
pub(crate) fn ask(request_id: &str, model: &str) -> AcquireRequest {
    AcquireRequest {
        request_id: request_id.into(),
        target: Some(Target { provider: "acme".into(), account: "prod".into(), model: model.into() }),
        hold: Some(secs(0)),
        ..AcquireRequest::default()
    }
}

/// A final report of a response without headers.
pub(crate) fn report(lease_id: &str, status: u32) -> ReportRequest {
    ReportRequest {
        lease_id: lease_id.into(),
        seq: 1,
        outcome: Outcome::Response.into(),
        status,
        r#final: true,
        ..ReportRequest::default()
    }
}

pub(crate) fn secs(seconds: i64) -> Duration {
    Duration { seconds, nanos: 0 }
}

pub(crate) fn length(duration: Option<&Duration>) -> Span {
    let duration = duration.expect("a length of time");
    Span::from_secs(duration.seconds) + Span::from_micros(i64::from(duration.nanos) / 1_000)
}

pub(crate) fn granted(answer: &AcquireResponse) -> &Grant {
    let Some(Answer::Grant(grant)) = &answer.outcome else { panic!("no grant: {answer:?}") };
    let parts = answer.delays.iter().fold(Span::ZERO, |sum, delay| sum + length(delay.duration.as_ref()));
    assert!(parts >= length(grant.wait.as_ref()), "delays add up to at least what is left to wait: {answer:?}");
    grant
}

pub(crate) fn queued(answer: &AcquireResponse) -> &Queued {
    let Some(Answer::Queued(queued)) = &answer.outcome else { panic!("no ticket: {answer:?}") };
    queued
}
