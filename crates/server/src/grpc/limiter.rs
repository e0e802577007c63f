//! The service that workers call.

use paceline_proto::v1;
use paceline_proto::v1::rate_limiter_server::RateLimiter;
use paceline_store::Store;
use tonic::{Request, Response, Status, Streaming};

use super::desk::{Caller, Desk, Held};
use super::session::{self, Answers};
use super::spans::CallSpan;
use super::unheard::{Holds, Untold};
use super::{batch, read};

/// `paceline.v1.RateLimiter`. A dropped RPC drops its future with it, which leaves the line.
pub(crate) struct Limiter<S>(Desk<S>);

impl<S: Store> Limiter<S> {
    pub(crate) fn new(desk: Desk<S>) -> Self {
        Self(desk)
    }

    /// An answer whose slots and places are given back when it does not get as far as the transport.
    fn answered<A: Holds>(&self, answer: A) -> Response<A> {
        let untold = Untold::of(&self.0, &answer);
        let mut response = Response::new(answer);
        untold.into_iter().for_each(|untold| drop(response.extensions_mut().insert(untold)));
        response
    }
}

#[tonic::async_trait]
impl<S: Store> RateLimiter for Limiter<S> {
    type SessionStream = Answers;

    async fn acquire(&self, request: Request<v1::AcquireRequest>) -> Result<Response<v1::AcquireResponse>, Status> {
        let held = Held::AsAsked(read::longest_hold_of(&request));
        let parent = self.0.traces().parent(request.metadata());
        let ask = request.into_inner();
        let span = self.0.traces().acquire("paceline.v1.RateLimiter/Acquire", parent, &ask);
        let answer = self.0.acquire(&Caller::default(), ask, held).await;
        span.into_iter().for_each(|span| span.acquired(answer.as_ref()));
        answer.map(|answer| self.answered(answer))
    }

    async fn report(&self, request: Request<v1::ReportRequest>) -> Result<Response<v1::ReportResponse>, Status> {
        let parent = self.0.traces().parent(request.metadata());
        let span = self.0.traces().rpc("paceline.v1.RateLimiter/Report", parent);
        let answer = self.0.report(&Caller::default(), request.into_inner(), None).await;
        span.into_iter().for_each(|span| span.reported(answer.as_ref()));
        answer.map(|answer| self.answered(answer))
    }

    async fn release(&self, request: Request<v1::ReleaseRequest>) -> Result<Response<v1::ReleaseResponse>, Status> {
        let parent = self.0.traces().parent(request.metadata());
        let span = self.0.traces().rpc("paceline.v1.RateLimiter/Release", parent);
        let answer = self.0.release(&Caller::default(), request.into_inner()).await;
        span.into_iter().for_each(|span| span.end(answer.as_ref().err()));
        answer.map(Response::new)
    }

    async fn acquire_batch(
        &self,
        request: Request<v1::AcquireBatchRequest>,
    ) -> Result<Response<v1::AcquireBatchResponse>, Status> {
        let longest = read::longest_hold_of(&request);
        let parent = self.0.traces().parent(request.metadata());
        let span = self.0.traces().rpc("paceline.v1.RateLimiter/AcquireBatch", parent);
        let caller = Caller { parent: span.as_ref().map(CallSpan::as_parent), ..Caller::default() };
        let answer = batch::acquire(&self.0, &caller, request.into_inner(), longest).await;
        span.into_iter().for_each(|span| span.end(answer.as_ref().err()));
        answer.map(|answer| self.answered(answer))
    }

    async fn report_batch(
        &self,
        request: Request<v1::ReportBatchRequest>,
    ) -> Result<Response<v1::ReportBatchResponse>, Status> {
        let longest = read::longest_hold_of(&request);
        let parent = self.0.traces().parent(request.metadata());
        let span = self.0.traces().rpc("paceline.v1.RateLimiter/ReportBatch", parent);
        let caller = Caller { parent: span.as_ref().map(CallSpan::as_parent), ..Caller::default() };
        let answer = batch::report(&self.0, &caller, request.into_inner(), longest).await;
        span.into_iter().for_each(|span| span.end(answer.as_ref().err()));
        answer.map(|answer| self.answered(answer))
    }

    async fn session(&self, request: Request<Streaming<v1::SessionRequest>>) -> Result<Response<Answers>, Status> {
        let peer = self.0.peer(request.metadata()).await?;
        let parent = self.0.traces().parent(request.metadata());
        let caller = Caller { is_sent_on: peer.is_some(), sent_on_by: peer, parent, ..Caller::default() };
        Ok(Response::new(session::open(self.0.clone(), caller, request.into_inner())))
    }
}
