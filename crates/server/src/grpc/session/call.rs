//! One call of a stream, from its message to its last answer.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt as _;
use paceline_core::units::{LONGEST_FLOOR, Span};
use paceline_proto::v1;
use paceline_proto::v1::acquire_response::Outcome;
use paceline_proto::v1::session_request::Call;
use paceline_proto::v1::session_response::Answer;
use paceline_store::Store;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tonic::{Code, Status};

use super::answers::Outbox;
use super::renewals::Lease;
use crate::grpc::desk::{ARRIVED_AFTER, Caller, Desk, Held};
use crate::grpc::status;
use crate::grpc::unheard::Holds as _;

/// A call that is under way.
pub(super) type Running = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// What came of it.
pub(super) enum Ended {
    /// A call has its last answer; `lease`: what it did to one, apart from what the answer says.
    Call { id: u64, answer: Box<Answer>, lease: Option<Lease> },
    /// A lease was renewed for so long; `None`: it is over.
    Renewed { lease_id: Arc<str>, ttl: Option<Span> },
    /// Nothing that anybody is told of.
    Nothing,
}

/// How long a call on a stream waits: until it is decided, or the stream ends.
const AS_LONG_AS_IT_LIVES: Held = Held::For(LONGEST_FLOOR);

/// Takes a call to its last answer.
pub(super) async fn run<S: Store>(
    desk: Desk<S>,
    caller: Caller,
    outbox: Outbox,
    id: u64,
    call: Call,
    cancelled: oneshot::Receiver<()>,
) -> Ended {
    let (lease, is_ask) = (touched(&call), matches!(call, Call::Acquire(_)));
    // The replica that a call came to first tells of it.
    let span = if caller.is_sent_on { None } else { desk.traces().call(caller.parent, &call) };
    let work = async {
        match call {
            Call::Acquire(ask) if caller.is_sent_on => {
                Box::pin(sent_on(&desk, &caller, &outbox, id, ask)).await.map(Answer::Acquire)
            }
            Call::Acquire(ask) => acquire(&desk, &caller, &outbox, id, ask).await.map(Answer::Acquire),
            Call::Report(report) => self::report(&desk, &caller, &outbox, id, report).await,
            Call::Release(release) => Box::pin(desk.release(&caller, release)).await.map(Answer::Release),
            Call::Cancel(_) => Err(Status::internal("a cancel is no call")),
        }
    };
    let (mut work, mut cancelled) = (pin!(work), cancelled.fuse());
    let answer = poll_fn(|context| {
        // An ask is dropped with what was decided meanwhile, which is given back: nobody was told.
        if is_ask && Pin::new(&mut cancelled).poll(context) == Poll::Ready(Ok(())) {
            return Poll::Ready(Err(has_left()));
        }
        if let Poll::Ready(answer) = work.as_mut().poll(context) {
            return Poll::Ready(answer);
        }
        // What was reported or given back was taken, and is told.
        match !is_ask && Pin::new(&mut cancelled).poll(context) == Poll::Ready(Ok(())) {
            true => Poll::Ready(Err(has_left())),
            false => Poll::Pending,
        }
    });
    let answer = match answer.await {
        // The slot that a report asked for, decided in the same moment.
        Ok(slot @ Answer::Acquire(_)) if (&mut cancelled).now_or_never() == Some(Ok(())) => {
            desk.give_back(slot.left());
            Err(has_left())
        }
        answer => answer,
    };
    span.into_iter().for_each(|span| span.answered(answer.as_ref()));
    match answer {
        Ok(answer) => Ended::Call { id, answer: Box::new(answer), lease },
        Err(error) => Ended::Call { id, answer: Box::new(Answer::Error(status::as_message(&error))), lease: None },
    }
}

/// The last word to a call that was cancelled.
fn has_left() -> Status {
    Status::new(Code::Cancelled, "it has left the line, as it was told to; no grant follows")
}

/// Renews a lease in the name of its worker, who is there as long as the stream is.
pub(super) async fn renew<S: Store>(desk: Desk<S>, caller: Caller, lease_id: Arc<str>) -> Ended {
    let report = v1::ReportRequest {
        lease_id: lease_id.to_string(),
        outcome: v1::Outcome::Running.into(),
        ..v1::ReportRequest::default()
    };
    match desk.report(&caller, report, None).await {
        Ok(told) => Ended::Renewed { lease_id, ttl: told.ttl.as_ref().filter(|_| told.applied).map(super::renewals::span) },
        // The store is away: it is tried again.
        Err(_) => Ended::Nothing,
    }
}

/// An ask: Queued goes out at once, the decision is the answer.
async fn acquire<S: Store>(
    desk: &Desk<S>,
    caller: &Caller,
    outbox: &Outbox,
    id: u64,
    ask: v1::AcquireRequest,
) -> Result<v1::AcquireResponse, Status> {
    let first = desk.acquire(caller, ask.clone(), Held::For(Span::ZERO)).await?;
    let Some(Outcome::Queued(queued)) = &first.outcome else { return Ok(first) };
    let waiting = v1::AcquireRequest { ticket: queued.ticket.clone(), ..ask };
    wait(desk, caller, outbox, id, Answer::Acquire(first), waiting).await
}

/// In line again before the caller has read that it waits. Boxed: most calls need no room for it.
fn wait<'a, S: Store>(
    desk: &'a Desk<S>,
    caller: &'a Caller,
    outbox: &'a Outbox,
    id: u64,
    first: Answer,
    waiting: v1::AcquireRequest,
) -> Pin<Box<dyn Future<Output = Result<v1::AcquireResponse, Status>> + Send + 'a>> {
    Box::pin(async move { tokio::join!(desk.acquire(caller, waiting, AS_LONG_AS_IT_LIVES), tell(outbox, id, first)).0 })
}

/// An ask that another replica sent on: it has its place already, and is held as long as it says. Where that takes a while, the
/// other one is told that it has arrived: a Queued without a ticket.
async fn sent_on<S: Store>(
    desk: &Desk<S>,
    caller: &Caller,
    outbox: &Outbox,
    id: u64,
    ask: v1::AcquireRequest,
) -> Result<v1::AcquireResponse, Status> {
    let mut decided = pin!(desk.acquire(caller, ask, Held::AsAsked(LONGEST_FLOOR)));
    tokio::select! {
        biased;
        answer = &mut decided => return answer,
        () = sleep(ARRIVED_AFTER) => {}
    }
    let arrived =
        v1::AcquireResponse { outcome: Some(Outcome::Queued(v1::Queued::default())), ..v1::AcquireResponse::default() };
    let (answer, ()) = tokio::join!(decided, tell(outbox, id, Answer::Acquire(arrived)));
    answer
}

/// A report: answered at once; the slot it asks for follows when it has to wait.
async fn report<S: Store>(
    desk: &Desk<S>,
    caller: &Caller,
    outbox: &Outbox,
    id: u64,
    report: v1::ReportRequest,
) -> Result<Answer, Status> {
    let wants_next = report.retry.as_ref().is_some_and(|retry| retry.wanted).then(|| report.clone());
    let first = desk.report(caller, report, Some(Span::ZERO)).await?;
    let queued = first.next.as_ref().and_then(|next| match &next.outcome {
        Some(Outcome::Queued(queued)) => Some(queued.ticket.as_slice()),
        _ => None,
    });
    let next = queued.zip(wants_next).and_then(|(ticket, report)| desk.next_ask(caller, report, ticket));
    let Some(next) = next else { return Ok(Answer::Report(first)) };
    wait(desk, caller, outbox, id, Answer::Report(first), next).await.map(Answer::Acquire)
}

/// An answer that is not the last one. That nobody reads it any more is noticed elsewhere.
async fn tell(outbox: &Outbox, id: u64, answer: Answer) {
    if let Some(room) = outbox.room().await {
        room.send(v1::SessionResponse { correlation_id: id, answer: Some(answer), ..v1::SessionResponse::default() });
    }
}

/// The lease that a call is about, as far as its answer does not name it.
fn touched(call: &Call) -> Option<Lease> {
    match call {
        Call::Report(report) => Some(Lease::Reported(Arc::from(report.lease_id.as_str()))),
        Call::Release(v1::ReleaseRequest { what: Some(v1::release_request::What::LeaseId(lease_id)) }) => {
            Some(Lease::Released(Arc::from(lease_id.as_str())))
        }
        _ => None,
    }
}
