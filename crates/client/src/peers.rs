//! The replicas of the service: which one is asked, and what happens when it does not answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use paceline_proto::v1::rate_limiter_client::RateLimiterClient;
use paceline_proto::v1::{AcquireRequest, AcquireResponse, ReleaseRequest, ReleaseResponse, ReportRequest, ReportResponse};
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::ask::Deadline;
use crate::error::{Error, Trouble};
use crate::timing;

/// How much longer than it may be held an RPC may take, before its replica counts as gone.
const SLACK: Duration = Duration::from_secs(5);
/// How long an RPC may take when the deadline is near or over: the service's own denial says more than ours.
const LAST_CHANCE: Duration = Duration::from_secs(1);

/// The replicas, and the one that is asked first.
#[derive(Debug)]
pub(crate) struct Peers {
    peers: Vec<(String, RateLimiterClient<Channel>)>,
    preferred: AtomicUsize,
    patience: Duration,
}

/// How long an RPC may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// How long the service may hold it.
    pub(crate) held: Duration,
    /// When its answer is of no use any more.
    pub(crate) deadline: Option<Deadline>,
}

impl Bounds {
    /// Answered at once, for as long as the client is patient.
    pub(crate) const AT_ONCE: Self = Self { held: Duration::ZERO, deadline: None };
}

impl Peers {
    pub(crate) fn new(peers: Vec<(String, Channel)>, patience: Duration) -> Self {
        // Workers that start together do not all begin with the first replica.
        let preferred = AtomicUsize::new(rand::random_range(0..peers.len().max(1)));
        let peers = peers.into_iter().map(|(addr, channel)| (addr, RateLimiterClient::new(channel))).collect();
        Self { peers, preferred, patience }
    }

    /// Sends what `make` makes until a replica answers: every request here may be repeated. `make` is called for each try, so
    /// that lengths of time in it count from then.
    pub(crate) async fn send<C: Call>(&self, bounds: Bounds, mut make: impl FnMut() -> C + Send) -> Result<C::Answer, Error> {
        let started = Instant::now();
        let (mut failures, mut last) = (0_u32, String::new());
        loop {
            let chosen = self.preferred.load(Ordering::Relaxed);
            let Some((addr, client)) = self.peers.get(chosen).or_else(|| self.peers.first()) else {
                return Err(self.unreachable(started, "no address was given".into()));
            };
            let left = self.left(started, bounds.deadline);
            if left.is_zero() && failures > 0 {
                return Err(self.unreachable(started, last));
            }
            let pause = match one_try(client, make(), bounds).await {
                Ok(answer) => return Ok(answer),
                Err(Trouble::Final(error)) => return Err(error),
                Err(Trouble::Again { not_before, what }) => {
                    failures = failures.saturating_add(1);
                    tracing::debug!(addr, failures, what, "the Paceline service did not answer");
                    last = what;
                    self.prefer_another(chosen);
                    self.pause(failures, not_before)
                }
            };
            sleep(pause.min(self.left(started, bounds.deadline))).await;
        }
    }

    /// Sends it once, and does not wait long: for what is of no use later.
    pub(crate) async fn send_once<C: Call>(&self, call: C) -> Result<C::Answer, Error> {
        let chosen = self.preferred.load(Ordering::Relaxed);
        let Some((_, client)) = self.peers.get(chosen).or_else(|| self.peers.first()) else {
            return Err(self.unreachable(Instant::now(), "no address was given".into()));
        };
        let started = Instant::now();
        one_try(client, call, Bounds::AT_ONCE).await.map_err(|trouble| match trouble {
            Trouble::Final(error) => error,
            Trouble::Again { what, .. } => {
                self.prefer_another(chosen);
                self.unreachable(started, what)
            }
        })
    }

    /// How long tries may go on: patience runs from the first one, and no longer than the deadline.
    fn left(&self, started: Instant, deadline: Option<Deadline>) -> Duration {
        let now = Instant::now();
        let patience = timing::after(started, self.patience).saturating_duration_since(now);
        deadline.map_or(patience, |deadline| patience.min(deadline.at.saturating_duration_since(now)))
    }

    fn pause(&self, failures: u32, not_before: Duration) -> Duration {
        let peers = u32::try_from(self.peers.len()).unwrap_or(u32::MAX);
        let pause = timing::pause(failures, peers, rand::random());
        // A replica that names a time protects itself: come back a little later than it says, and not all at once.
        pause.max(timing::spread(not_before, not_before.saturating_mul(5) / 4, rand::random()))
    }

    /// Turns to the next replica, unless another call has done so since `failed` was chosen.
    fn prefer_another(&self, failed: usize) {
        let next = (failed + 1) % self.peers.len().max(1);
        let _ = self.preferred.compare_exchange(failed, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn unreachable(&self, started: Instant, last: String) -> Error {
        let addrs: Vec<&str> = self.peers.iter().map(|(addr, _)| addr.as_str()).collect();
        Error::Unreachable { addrs: addrs.join(", "), after: started.elapsed(), last }
    }
}

async fn one_try<C: Call>(client: &RateLimiterClient<Channel>, call: C, bounds: Bounds) -> Result<C::Answer, Trouble> {
    let until_deadline = bounds.deadline.map(|deadline| deadline.at.saturating_duration_since(Instant::now()));
    let within = bounds.held.saturating_add(SLACK).min(until_deadline.unwrap_or(Duration::MAX).max(LAST_CHANCE));
    match timeout(within, call.send(client.clone())).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(status.into()),
        Err(_) => Err(Trouble::Again { not_before: Duration::ZERO, what: format!("no answer in {within:?}") }),
    }
}

/// A request of the contract, and the RPC it goes with.
pub(crate) trait Call: Send {
    type Answer: Send;
    fn send(self, client: RateLimiterClient<Channel>) -> impl Future<Output = Result<Response<Self::Answer>, Status>> + Send;
}

impl Call for AcquireRequest {
    type Answer = AcquireResponse;
    async fn send(self, mut client: RateLimiterClient<Channel>) -> Result<Response<AcquireResponse>, Status> {
        client.acquire(self).await
    }
}

impl Call for ReportRequest {
    type Answer = ReportResponse;
    async fn send(self, mut client: RateLimiterClient<Channel>) -> Result<Response<ReportResponse>, Status> {
        client.report(self).await
    }
}

impl Call for ReleaseRequest {
    type Answer = ReleaseResponse;
    async fn send(self, mut client: RateLimiterClient<Channel>) -> Result<Response<ReleaseResponse>, Status> {
        client.release(self).await
    }
}
