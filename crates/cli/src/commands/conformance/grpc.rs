//! The kit as the service: all ways of the contract, answered by the stage. Thin.

use std::collections::HashMap;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::join_all;
use paceline_proto::v1::acquire_batch_item::Result as AcquireResult;
use paceline_proto::v1::rate_limiter_server::RateLimiter;
use paceline_proto::v1::release_request::What as Given;
use paceline_proto::v1::report_batch_item::Result as ReportResult;
use paceline_proto::v1::session_request::Call;
use paceline_proto::v1::session_response::Answer as SessionAnswer;
use paceline_proto::v1::{
    AcquireBatchItem, AcquireBatchRequest, AcquireBatchResponse, AcquireRequest, AcquireResponse, ReleaseRequest,
    ReleaseResponse, ReportBatchItem, ReportBatchRequest, ReportBatchResponse, ReportRequest, ReportResponse, SessionRequest,
    SessionResponse,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};
use tonic_types::Status as RpcStatus;

use super::event::{Answer, Said, Way};
use super::says;
use super::stage::{Answering, Stage, job_of, job_of_ticket};

/// The service that a worker sees.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) stage: Stage,
}

impl Service {
    async fn acquire_one(&self, way: Way, request: AcquireRequest) -> Result<AcquireResponse, Status> {
        let job = request.target.as_ref().map_or("", |target| target.model.as_str()).to_owned();
        let answering = self.stage.ask(way, &request).ok_or_else(no_job)?;
        self.say(&job, answering, &request).await
    }

    async fn say(&self, job: &str, answering: Answering, request: &AcquireRequest) -> Result<AcquireResponse, Status> {
        sleep(answering.after).await;
        self.stage.answered(job, &answering.answer);
        says::to_ask(answering, request, self.has_every_word(job))
    }

    async fn report_one(&self, way: Way, request: ReportRequest) -> Result<ReportResponse, Status> {
        let said = self.stage.report(way, &request);
        self.tell(&request, said).await
    }

    async fn tell(&self, request: &ReportRequest, (number, after, said): Told) -> Result<ReportResponse, Status> {
        sleep(after).await;
        self.stage.told(&request.lease_id, number, &said);
        says::to_report(said, request, self.has_every_word(job_of(&request.lease_id)))
    }

    fn has_every_word(&self, job: &str) -> bool {
        self.stage.situation(job).is_some_and(|situation| situation.has_every_word)
    }

    fn release_one(&self, request: ReleaseRequest) -> Result<ReleaseResponse, Status> {
        match request.what {
            Some(Given::LeaseId(lease)) => self.stage.released(job_of(&lease), &lease),
            Some(Given::Ticket(ticket)) => self.stage.released(job_of_ticket(&ticket), ""),
            None => return Err(Status::invalid_argument("a release names a lease or a ticket")),
        }
        Ok(ReleaseResponse { released: true })
    }

    /// Hears one call of a Session, in the order of the stream, and answers it in its own time.
    fn session_call(&self, id: u64, call: Call, out: &Answers, waiting: &mut Waiting) {
        let (service, out) = (self.clone(), out.clone());
        match call {
            Call::Acquire(request) => {
                let first = self.stage.ask(Way::Session, &request);
                let job = request.target.as_ref().map_or("", |target| target.model.as_str()).to_owned();
                let task = tokio::spawn(async move {
                    let answer = service.session_acquire(id, request, first, &out).await;
                    send(&out, id, answer.map(SessionAnswer::Acquire));
                });
                waiting.insert(id, (job, task));
            }
            Call::Report(request) => {
                let said = self.stage.report(Way::Session, &request);
                tokio::spawn(async move {
                    let answer = service.tell(&request, said).await;
                    send(&out, id, answer.map(SessionAnswer::Report));
                });
            }
            Call::Release(request) => send(&out, id, self.release_one(request).map(SessionAnswer::Release)),
            Call::Cancel(_) => {
                // One that has had its last answer is not answered again.
                if let Some((job, task)) = waiting.remove(&id).filter(|(_, task)| !task.is_finished()) {
                    task.abort();
                    self.stage.released(&job, "");
                    send(&out, id, Err(Status::cancelled("cancelled")));
                }
            }
        }
    }

    /// On a Session who has to wait is told so at once, and again when it is decided.
    async fn session_acquire(
        &self,
        id: u64,
        request: AcquireRequest,
        first: Option<Answering>,
        out: &Answers,
    ) -> Result<AcquireResponse, Status> {
        let job = request.target.as_ref().map_or("", |target| target.model.as_str()).to_owned();
        let first = first.ok_or_else(no_job)?;
        let come_back_in = match &first.answer {
            Answer::Queued { come_back_in, .. } => Some(*come_back_in),
            _ => None,
        };
        let answer = self.say(&job, first, &request).await?;
        let Some(come_back_in) = come_back_in else { return Ok(answer) };
        send(out, id, Ok(SessionAnswer::Acquire(answer)));
        sleep(come_back_in).await;
        let second = self.stage.ask_on(&job).ok_or_else(no_job)?;
        self.say(&job, second, &request).await
    }
}

/// A report's number, after how long it is answered, and what.
type Told = (u64, Duration, Said);

/// The asks of a Session by their number: whose, and who answers them.
type Waiting = HashMap<u64, (String, JoinHandle<()>)>;

/// Where the answers of a Session go.
type Answers = mpsc::UnboundedSender<Result<SessionResponse, Status>>;

fn send(out: &Answers, id: u64, answer: Result<SessionAnswer, Status>) {
    let answer = answer.unwrap_or_else(|status| SessionAnswer::Error(rpc_status(&status)));
    // A worker that has gone misses it.
    let _ = out.send(Ok(SessionResponse { correlation_id: id, answer: Some(answer), ..SessionResponse::default() }));
}

#[tonic::async_trait]
impl RateLimiter for Service {
    async fn acquire(&self, request: Request<AcquireRequest>) -> Result<Response<AcquireResponse>, Status> {
        self.acquire_one(Way::Unary, request.into_inner()).await.map(Response::new)
    }

    async fn report(&self, request: Request<ReportRequest>) -> Result<Response<ReportResponse>, Status> {
        self.report_one(Way::Unary, request.into_inner()).await.map(Response::new)
    }

    async fn release(&self, request: Request<ReleaseRequest>) -> Result<Response<ReleaseResponse>, Status> {
        self.release_one(request.into_inner()).map(Response::new)
    }

    async fn acquire_batch(&self, request: Request<AcquireBatchRequest>) -> Result<Response<AcquireBatchResponse>, Status> {
        let answers = request.into_inner().items.into_iter().map(|item| self.acquire_one(Way::Batch, item));
        let items = join_all(answers).await.into_iter().map(|answer| {
            let result = answer.map_or_else(|status| AcquireResult::Error(rpc_status(&status)), AcquireResult::Answer);
            AcquireBatchItem { result: Some(result) }
        });
        Ok(Response::new(AcquireBatchResponse { items: items.collect() }))
    }

    async fn report_batch(&self, request: Request<ReportBatchRequest>) -> Result<Response<ReportBatchResponse>, Status> {
        let answers = request.into_inner().items.into_iter().map(|item| self.report_one(Way::Batch, item));
        let items = join_all(answers).await.into_iter().map(|answer| {
            let result = answer.map_or_else(|status| ReportResult::Error(rpc_status(&status)), ReportResult::Answer);
            ReportBatchItem { result: Some(result) }
        });
        Ok(Response::new(ReportBatchResponse { items: items.collect() }))
    }

    type SessionStream = Pin<Box<dyn Stream<Item = Result<SessionResponse, Status>> + Send>>;

    async fn session(&self, request: Request<Streaming<SessionRequest>>) -> Result<Response<Self::SessionStream>, Status> {
        let mut calls = request.into_inner();
        let (out, answers) = mpsc::unbounded_channel();
        let service = self.clone();
        tokio::spawn(async move {
            let mut waiting = Waiting::new();
            while let Some(Ok(message)) = calls.next().await {
                let more = message.more.into_iter().map(|more| (more.correlation_id, more.call));
                for (id, call) in std::iter::once((message.correlation_id, message.call)).chain(more) {
                    if let Some(call) = call {
                        service.session_call(id, call, &out, &mut waiting);
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(answers))))
    }
}

fn rpc_status(status: &Status) -> RpcStatus {
    RpcStatus { code: status.code().into(), message: status.message().to_owned(), details: Vec::new() }
}

fn no_job() -> Status {
    Status::invalid_argument("target.model is the `model` of no job of the conformance kit")
}
