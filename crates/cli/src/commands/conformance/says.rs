//! What the kit says over the contract: its answers as messages, with what a service reads out of an answer of the provider.

use std::time::Duration;

use paceline_proto::v1::acquire_response::Outcome as Decision;
use paceline_proto::v1::{
    AcquireRequest, AcquireResponse, AnswerKind, Delay, Denial, Grant, Mode, NotApplied, ObservedBucket, ObservedOwner, Queued,
    Reason, ReportRequest, ReportResponse, ResetMeans, Shadow, Signal, Source, Verdict,
};
use tonic::Status;

use super::event::{Answer, Granted, Said};
use super::situations::NEWER;
use super::stage::Answering;

/// The lease of a slot that comes with a report.
const TTL: Duration = Duration::from_secs(120);

/// The answer to an ask; `every_word`: it names all that it can name.
pub(super) fn to_ask(answering: Answering, request: &AcquireRequest, every_word: bool) -> Result<AcquireResponse, Status> {
    let ttl = answering.ttl;
    let answer = match answering.answer {
        Answer::Granted(granted) => {
            let mode = granted.mode;
            let grant = Grant { target: request.target.clone(), ..grant(granted, ttl) };
            let shadow = Shadow { wait: Some(proto(Duration::from_secs(9))), ..Shadow::default() };
            AcquireResponse {
                shadow: (mode == Mode::Shadow).then_some(shadow),
                mode: mode.into(),
                delays: if every_word { delays() } else { Vec::new() },
                ..decided(Decision::Grant(grant))
            }
        }
        Answer::Queued { ticket, come_back_in } => decided(Decision::Queued(Queued {
            ticket,
            come_back_in: Some(proto(come_back_in)),
            estimated_wait: Some(proto(come_back_in)),
            ahead: 1,
            place_lost: false,
        })),
        Answer::Denied { reason, is_for_ever } => decided(Decision::Denial(Denial {
            reason,
            retry_after: (!is_for_ever).then(|| proto(Duration::from_secs(60))),
            detail: "the conformance kit denies this one".to_owned(),
        })),
        Answer::Failed => return Err(away()),
    };
    Ok(answer)
}

/// The answer to a report; `every_word`: it names all that it can name.
pub(super) fn to_report(said: Said, request: &ReportRequest, every_word: bool) -> Result<ReportResponse, Status> {
    let kind = kind_of(request.status);
    let (applied, not_applied, verdict, next) = match said {
        Said::Failed => return Err(away()),
        Said::NotApplied(why, verdict) => (false, why, verdict, None),
        Said::Verdict(verdict, next) => (true, NotApplied::Unspecified, verdict, next),
    };
    let signal = Signal {
        source: Source::None.into(),
        retryable: matches!(kind, AnswerKind::Throttled | AnswerKind::Overloaded | AnswerKind::Failed),
        kind: if every_word { NEWER } else { kind.into() },
        buckets: if every_word { buckets() } else { Vec::new() },
        ..Signal::default()
    };
    Ok(ReportResponse {
        applied,
        not_applied: not_applied.into(),
        ttl: applied.then(|| proto(TTL)),
        verdict: verdict.into(),
        reason: if verdict == Verdict::GiveUp { why(kind).into() } else { Reason::Unspecified.into() },
        signal: (request.status > 0).then_some(signal),
        next: next.map(|granted| decided(Decision::Grant(grant(granted, TTL)))),
        ..ReportResponse::default()
    })
}

/// The service is away.
pub(super) fn away() -> Status {
    Status::unavailable("the conformance kit plays a replica that is away")
}

/// What a service reads out of a status.
fn kind_of(status: u32) -> AnswerKind {
    match status {
        429 => AnswerKind::Throttled,
        503 | 529 => AnswerKind::Overloaded,
        402 => AnswerKind::QuotaExhausted,
        413 => AnswerKind::Impossible,
        500.. => AnswerKind::Failed,
        400.. => AnswerKind::Rejected,
        _ => AnswerKind::Ok,
    }
}

/// Why a call is given up after such an answer.
fn why(kind: AnswerKind) -> Reason {
    match kind {
        AnswerKind::QuotaExhausted => Reason::QuotaExhausted,
        AnswerKind::Impossible | AnswerKind::Rejected => Reason::NotRetryable,
        _ => Reason::AttemptsExhausted,
    }
}

/// A wait for each cause there is, and for one that only a newer service has.
fn delays() -> Vec<Delay> {
    let sources = known(|number| Source::try_from(number).ok()).chain([NEWER]);
    sources.map(|source| Delay { source, duration: Some(proto(Duration::ZERO)), ..Delay::default() }).collect()
}

/// A bucket for each meaning of a reset and for each owner, and for those that only a newer service has.
fn buckets() -> Vec<ObservedBucket> {
    let bucket = || ObservedBucket { name: "requests".to_owned(), meter: "requests".to_owned(), ..ObservedBucket::default() };
    let resets = known(|number| ResetMeans::try_from(number).ok()).chain([NEWER]);
    let owners = known(|number| ObservedOwner::try_from(number).ok()).chain([NEWER]);
    let resets = resets.map(|reset_means| ObservedBucket { reset_means, ..bucket() });
    resets.chain(owners.map(|owner| ObservedBucket { owner, ..bucket() })).collect()
}

/// The numbers of an enumeration.
fn known<T: Into<i32>>(read: impl Fn(i32) -> Option<T>) -> impl Iterator<Item = i32> {
    (0..NEWER).filter_map(read).map(Into::into)
}

fn grant(granted: Granted, ttl: Duration) -> Grant {
    Grant {
        lease_id: granted.lease,
        wait: Some(proto(granted.wait)),
        use_within: Some(proto(granted.use_within)),
        ttl: Some(proto(ttl)),
        reserved: [("requests".to_owned(), 1)].into(),
        ..Grant::default()
    }
}

fn decided(decision: Decision) -> AcquireResponse {
    AcquireResponse { outcome: Some(decision), mode: Mode::Enforce.into(), ..AcquireResponse::default() }
}

fn proto(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}
