//! A Session as a worker's library uses it.

use std::time::Duration;

use paceline_proto::v1::acquire_response::Outcome;
use paceline_proto::v1::rate_limiter_client::RateLimiterClient;
use paceline_proto::v1::session_request::Call;
use paceline_proto::v1::session_response::Answer;
use paceline_proto::v1::{
    AcquireRequest, AcquireResponse, Cancel, ReportRequest, ReportResponse, SessionRequest, SessionResponse,
};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::Service;

/// An open stream.
pub(crate) struct Stream {
    pub(crate) says: mpsc::Sender<SessionRequest>,
    pub(crate) hears: Streaming<SessionResponse>,
}

impl Stream {
    pub(crate) async fn open(service: &Service) -> Self {
        Self::over(service.limiter().await).await
    }

    pub(crate) async fn over(mut limiter: RateLimiterClient<Channel>) -> Self {
        let (says, said) = mpsc::channel(64);
        let hears = limiter.session(ReceiverStream::new(said)).await.expect("it opens").into_inner();
        Self { says, hears }
    }

    pub(crate) async fn say(&self, correlation_id: u64, call: Call) {
        self.says
            .send(SessionRequest { correlation_id, call: Some(call), ..SessionRequest::default() })
            .await
            .expect("it is open");
    }

    pub(crate) async fn ask(&self, correlation_id: u64, ask: AcquireRequest) {
        self.say(correlation_id, Call::Acquire(ask)).await;
    }

    pub(crate) async fn report(&self, correlation_id: u64, report: ReportRequest) {
        self.say(correlation_id, Call::Report(report)).await;
    }

    pub(crate) async fn cancel(&self, correlation_id: u64) {
        self.say(correlation_id, Call::Cancel(Cancel {})).await;
    }

    /// The next answer.
    pub(crate) async fn hear(&mut self) -> (u64, Answer) {
        let answer = self.next().await.expect("no error").expect("not the end");
        (answer.correlation_id, answer.answer.expect("an answer"))
    }

    /// The next answer, the end, or what the stream ends with.
    pub(crate) async fn next(&mut self) -> Result<Option<SessionResponse>, Status> {
        timeout(Duration::from_secs(30), self.hears.message()).await.expect("something is said within half a minute")
    }

    /// The next answer, which is one to an ask.
    pub(crate) async fn hear_of(&mut self, correlation_id: u64) -> AcquireResponse {
        match self.hear().await {
            (id, Answer::Acquire(answer)) if id == correlation_id => answer,
            other => panic!("expected an answer to the ask {correlation_id}, not {other:?}"),
        }
    }

    /// The next answer, which is one to a report.
    pub(crate) async fn hear_of_report(&mut self, correlation_id: u64) -> ReportResponse {
        match self.hear().await {
            (id, Answer::Report(answer)) if id == correlation_id => answer,
            other => panic!("expected an answer to the report {correlation_id}, not {other:?}"),
        }
    }

    /// The next answer, which is an error: its code and what it says.
    pub(crate) async fn hear_error(&mut self, correlation_id: u64) -> tonic_types::Status {
        match self.hear().await {
            (id, Answer::Error(error)) if id == correlation_id => error,
            other => panic!("expected an error of {correlation_id}, not {other:?}"),
        }
    }
}

pub(crate) fn is_granted(answer: &AcquireResponse) -> bool {
    matches!(answer.outcome, Some(Outcome::Grant(_)))
}
