//! The service that workers call.

use paceline_coordinator::Coordinator;
use paceline_proto::v1;
use paceline_proto::v1::rate_limiter_server::RateLimiter;
use paceline_store::Store;
use tonic::{Request, Response, Status};

use super::{read, status, write};

/// `paceline.v1.RateLimiter` over a coordinator. A dropped RPC drops the coordinator's future with it, which leaves the line.
pub(crate) struct Limiter<S>(Coordinator<S>);

impl<S> Limiter<S> {
    pub(crate) fn new(coordinator: Coordinator<S>) -> Self {
        Self(coordinator)
    }
}

#[tonic::async_trait]
impl<S: Store> RateLimiter for Limiter<S> {
    async fn acquire(&self, request: Request<v1::AcquireRequest>) -> Result<Response<v1::AcquireResponse>, Status> {
        let patience = read::patience(&request);
        let ask = read::acquire(request.into_inner(), patience)?;
        let answer = self.0.acquire(ask).await.map_err(status::of_call)?;
        Ok(Response::new(write::acquire_response(&answer)))
    }

    async fn report(&self, request: Request<v1::ReportRequest>) -> Result<Response<v1::ReportResponse>, Status> {
        let report = read::report(request.into_inner())?;
        let has_signal = read::has_answer(&report);
        let answer = self.0.report(report).await.map_err(status::of_call)?;
        Ok(Response::new(write::report_response(&answer, has_signal)))
    }

    async fn release(&self, request: Request<v1::ReleaseRequest>) -> Result<Response<v1::ReleaseResponse>, Status> {
        let released = match read::release(request.into_inner())? {
            read::Released::Lease(lease_id) => self.0.release_lease(&lease_id).await,
            read::Released::Ticket(ticket) => self.0.release_ticket(&ticket).await,
        };
        Ok(Response::new(v1::ReleaseResponse { released: released.map_err(status::of_call)? }))
    }
}
