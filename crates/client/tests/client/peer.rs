//! A service that answers by a script, writes down what it hears and when, and can go away and come back.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use paceline_client::{Builder, Channel, Limiter, Reason, Verdict};
use paceline_proto::v1::acquire_response::Outcome as Decision;
use paceline_proto::v1::rate_limiter_server::{RateLimiter, RateLimiterServer};
use paceline_proto::v1::release_request::What;
use paceline_proto::v1::{
    AcquireBatchRequest, AcquireBatchResponse, AcquireRequest, AcquireResponse, Denial, Grant, NotApplied, Outcome, Queued,
    ReleaseRequest, ReleaseResponse, ReportBatchRequest, ReportBatchResponse, ReportRequest, ReportResponse, SessionRequest,
    SessionResponse,
};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};

/// An answer of the script: what, and after how long.
pub(crate) struct Say<A> {
    pub(crate) after: Duration,
    pub(crate) answer: Result<A, Status>,
}

impl From<AcquireResponse> for Say<AcquireResponse> {
    fn from(answer: AcquireResponse) -> Self {
        Self { after: Duration::ZERO, answer: Ok(answer) }
    }
}

impl From<ReportResponse> for Say<ReportResponse> {
    fn from(answer: ReportResponse) -> Self {
        Self { after: Duration::ZERO, answer: Ok(answer) }
    }
}

impl<A> From<Status> for Say<A> {
    fn from(status: Status) -> Self {
        Self { after: Duration::ZERO, answer: Err(status) }
    }
}

/// Something a worker said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Heard {
    Acquire(AcquireRequest),
    Report(ReportRequest),
    Release(What),
}

/// The service. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Peer {
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    acquires: Mutex<VecDeque<Say<AcquireResponse>>>,
    /// What every ask is answered with that the script has no answer for.
    always: Mutex<Option<AcquireResponse>>,
    reports: Mutex<VecDeque<Say<ReportResponse>>>,
    heard: Mutex<Vec<(Instant, Heard)>>,
    /// Where connections go; `None` while the service is away.
    door: Mutex<Option<mpsc::UnboundedSender<io::Result<DuplexStream>>>>,
    /// How often somebody tried to connect.
    knocks: AtomicUsize,
    /// What ends when it goes away.
    running: Mutex<Vec<AbortHandle>>,
}

impl Peer {
    /// A service that is there.
    pub(crate) fn up() -> Self {
        let peer = Self::default();
        peer.start();
        peer
    }

    /// Comes (back).
    pub(crate) fn start(&self) {
        let (door, incoming) = mpsc::unbounded_channel();
        *self.state.door.lock().unwrap() = Some(door);
        let service = RateLimiterServer::new(self.clone());
        let serve = Server::builder().add_service(service).serve_with_incoming(UnboundedReceiverStream::new(incoming));
        self.run(async move { serve.await.unwrap() });
    }

    /// Goes away: connections break, new ones are refused.
    pub(crate) fn stop(&self) {
        *self.state.door.lock().unwrap() = None;
        for task in self.state.running.lock().unwrap().drain(..) {
            task.abort();
        }
    }

    fn run(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.state.running.lock().unwrap().push(tokio::spawn(task).abort_handle());
    }

    /// A connection to it, through a pipe that [`Peer::stop`] cuts.
    pub(crate) fn channel(&self) -> Channel {
        let peer = self.clone();
        let connect = tower::service_fn(move |_| {
            let peer = peer.clone();
            async move { peer.connect().map(TokioIo::new) }
        });
        Endpoint::from_static("http://scripted:7070").connect_with_connector_lazy(connect)
    }

    /// How often somebody tried to connect.
    pub(crate) fn knocks(&self) -> usize {
        self.state.knocks.load(Ordering::Relaxed)
    }

    fn connect(&self) -> io::Result<DuplexStream> {
        self.state.knocks.fetch_add(1, Ordering::Relaxed);
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let door = self.state.door.lock().unwrap().clone().ok_or_else(refused)?;
        let (workers_end, mut near) = tokio::io::duplex(1 << 16);
        let (mut far, services_end) = tokio::io::duplex(1 << 16);
        self.run(async move {
            let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
        });
        door.send(Ok(services_end)).map_err(|_| refused())?;
        Ok(workers_end)
    }

    /// A limiter that knows this service only.
    pub(crate) fn limiter(&self) -> Limiter {
        self.builder().build().unwrap()
    }

    pub(crate) fn builder(&self) -> Builder {
        Limiter::builder().channel("scripted", self.channel())
    }

    /// Answers the next ask with this.
    pub(crate) fn on_acquire(&self, say: impl Into<Say<AcquireResponse>>) -> &Self {
        self.state.acquires.lock().unwrap().push_back(say.into());
        self
    }

    /// Answers every ask with this that nothing else was said for.
    pub(crate) fn always(&self, answer: AcquireResponse) -> &Self {
        *self.state.always.lock().unwrap() = Some(answer);
        self
    }

    /// Answers the next report, other than that a call still runs, with this.
    pub(crate) fn on_report(&self, say: impl Into<Say<ReportResponse>>) -> &Self {
        self.state.reports.lock().unwrap().push_back(say.into());
        self
    }

    /// All it heard, with the time.
    pub(crate) fn heard_when(&self) -> Vec<(Instant, Heard)> {
        self.state.heard.lock().unwrap().clone()
    }

    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.heard_when().into_iter().map(|(_, heard)| heard).collect()
    }

    pub(crate) fn acquires(&self) -> Vec<AcquireRequest> {
        let only = |heard| if let Heard::Acquire(request) = heard { Some(request) } else { None };
        self.heard().into_iter().filter_map(only).collect()
    }

    pub(crate) fn reports(&self) -> Vec<ReportRequest> {
        let only = |heard| if let Heard::Report(request) = heard { Some(request) } else { None };
        self.heard().into_iter().filter_map(only).collect()
    }

    pub(crate) fn releases(&self) -> Vec<What> {
        let only = |heard| if let Heard::Release(what) = heard { Some(what) } else { None };
        self.heard().into_iter().filter_map(only).collect()
    }

    fn hear(&self, heard: Heard) {
        self.state.heard.lock().unwrap().push((Instant::now(), heard));
    }
}

#[tonic::async_trait]
impl RateLimiter for Peer {
    async fn acquire(&self, request: Request<AcquireRequest>) -> Result<Response<AcquireResponse>, Status> {
        self.hear(Heard::Acquire(request.into_inner()));
        let say = self.state.acquires.lock().unwrap().pop_front();
        let say = say.or_else(|| self.state.always.lock().unwrap().clone().map(Say::from));
        answer(say.unwrap_or_else(|| Status::failed_precondition("the script has no more answers").into())).await
    }

    async fn report(&self, request: Request<ReportRequest>) -> Result<Response<ReportResponse>, Status> {
        let request = request.into_inner();
        let is_running = request.outcome() == Outcome::Running;
        self.hear(Heard::Report(request));
        let say = if is_running { None } else { self.state.reports.lock().unwrap().pop_front() };
        let verdict = if is_running { Verdict::Unspecified } else { Verdict::Done };
        answer(say.unwrap_or_else(|| told(verdict).into())).await
    }

    async fn release(&self, request: Request<ReleaseRequest>) -> Result<Response<ReleaseResponse>, Status> {
        self.hear(Heard::Release(request.into_inner().what.unwrap()));
        Ok(Response::new(ReleaseResponse { released: true }))
    }

    async fn acquire_batch(&self, _: Request<AcquireBatchRequest>) -> Result<Response<AcquireBatchResponse>, Status> {
        Err(unscripted())
    }

    async fn report_batch(&self, _: Request<ReportBatchRequest>) -> Result<Response<ReportBatchResponse>, Status> {
        Err(unscripted())
    }

    type SessionStream = tokio_stream::Empty<Result<SessionResponse, Status>>;

    async fn session(&self, _: Request<Streaming<SessionRequest>>) -> Result<Response<Self::SessionStream>, Status> {
        Err(unscripted())
    }
}

fn unscripted() -> Status {
    Status::unimplemented("the script knows single calls only")
}

async fn answer<A>(say: Say<A>) -> Result<Response<A>, Status> {
    sleep(say.after).await;
    say.answer.map(Response::new)
}

/// A grant to be sent after `wait`, with [`USE_WITHIN`] to do so and a lease of [`TTL`].
pub(crate) fn grant(lease_id: &str, wait: Duration) -> AcquireResponse {
    let grant = Grant {
        lease_id: lease_id.into(),
        wait: Some(proto(wait)),
        use_within: Some(proto(USE_WITHIN)),
        ttl: Some(proto(TTL)),
        ..Grant::default()
    };
    decided(Decision::Grant(grant))
}

/// How late a scripted grant may be used: longer than a noisy machine stalls, because the wall clock is real here.
pub(crate) const USE_WITHIN: Duration = Duration::from_secs(50);
/// The lease of a scripted grant.
pub(crate) const TTL: Duration = Duration::from_secs(60);

/// A place in line.
pub(crate) fn queued(ticket: &str, come_back_in: Duration) -> AcquireResponse {
    let queued = Queued { ticket: ticket.into(), come_back_in: Some(proto(come_back_in)), ..Queued::default() };
    decided(Decision::Queued(queued))
}

/// A denial.
pub(crate) fn denial(reason: Reason) -> AcquireResponse {
    decided(Decision::Denial(Denial { reason: reason.into(), detail: "by the script".into(), ..Denial::default() }))
}

/// An answer with nothing but its decision.
pub(crate) fn decided(decision: Decision) -> AcquireResponse {
    AcquireResponse { outcome: Some(decision), ..AcquireResponse::default() }
}

/// An applied report with this verdict.
pub(crate) fn told(verdict: Verdict) -> ReportResponse {
    ReportResponse { applied: true, ttl: Some(proto(TTL)), verdict: verdict.into(), ..ReportResponse::default() }
}

/// A report that changed nothing.
pub(crate) fn not_applied(why: NotApplied) -> ReportResponse {
    ReportResponse { not_applied: why.into(), ..ReportResponse::default() }
}

pub(crate) fn proto(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration).unwrap()
}

/// Lets everything that can happen now happen.
pub(crate) async fn breathe() {
    sleep(Duration::from_millis(1)).await;
}
