//! Sends what every request is: something that may be repeated, at another replica, until one answers.

use std::sync::Arc;
use std::time::Duration;

use paceline_proto::v1::rate_limiter_client::RateLimiterClient;
use paceline_proto::v1::{AcquireRequest, AcquireResponse, ReleaseRequest, ReleaseResponse, ReportRequest, ReportResponse};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::ask::Deadline;
use crate::blind::Blind;
use crate::error::{Error, Trouble};
use crate::fleet::{Choice, Fleet, Replica};
use crate::rendezvous::Route;
use crate::stats::{Counters, Stats};
use crate::timing;

/// How much longer than it may be held an RPC may take, before its replica counts as gone.
const SLACK: Duration = Duration::from_secs(3);
/// How long an RPC may take when the deadline is near or over: the service's own denial says more than ours.
const LAST_CHANCE: Duration = Duration::from_secs(1);

/// The service, whichever replica is it.
#[derive(Debug)]
pub(crate) struct Peers {
    fleet: Arc<Fleet>,
    patience: Duration,
    pub(crate) counters: Counters,
    /// Scopes that are decided without the store.
    pub(crate) blind: Blind,
}

/// How long an RPC may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// How long the service may hold it.
    pub(crate) held: Duration,
    /// When its answer is of no use any more.
    pub(crate) deadline: Option<Deadline>,
    /// Longest time of trying, where that is shorter than the limiter's patience.
    pub(crate) patience: Option<Duration>,
    /// Whether nobody waits for it: then it is tried also when the service is known to be away.
    pub(crate) in_background: bool,
}

impl Bounds {
    /// Answered at once, for as long as the client is patient.
    pub(crate) const AT_ONCE: Self = Self { held: Duration::ZERO, deadline: None, patience: None, in_background: false };
    /// The same, with nobody waiting for the answer.
    pub(crate) const IN_BACKGROUND: Self = Self { in_background: true, ..Self::AT_ONCE };
}

impl Peers {
    pub(crate) fn new(fleet: Arc<Fleet>, patience: Duration) -> Self {
        Self { fleet, patience, counters: Counters::default(), blind: Blind::default() }
    }

    /// Since when calls go on without the service: nobody has answered for as long as the client is patient.
    pub(crate) fn away_since(&self, now: Instant) -> Option<Instant> {
        let since = timing::after(self.fleet.silent_since()?, self.patience);
        (now >= since).then_some(since)
    }

    /// Whether nobody answered last time.
    pub(crate) fn is_silent(&self) -> bool {
        self.fleet.silent_since().is_some()
    }

    /// Tells when somebody may be there again.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.fleet.changes()
    }

    pub(crate) fn stats(&self) -> Stats {
        self.counters.read(self.away_since(Instant::now()).is_some())
    }

    /// The addresses, for people.
    pub(crate) fn addrs(&self) -> String {
        self.fleet.addrs()
    }

    /// Sends what `make` makes until a replica answers: every request here may be repeated. The scope's own replica is asked
    /// first, then the others in the scope's order. `make` is called for each try, so that lengths of time in it count from then.
    pub(crate) async fn send<C: Call>(
        &self,
        route: Route,
        bounds: Bounds,
        mut make: impl FnMut() -> C + Send,
    ) -> Result<C::Answer, Error> {
        let started = Instant::now();
        let (mut tried, mut rounds, mut last) = (Vec::new(), 0_u32, None);
        loop {
            if !bounds.in_background && self.away_since(Instant::now()).is_some() {
                return Err(self.unreachable(started, last));
            }
            let left = self.left(started, bounds);
            if left.is_zero() && last.is_some() {
                return Err(self.unreachable(started, last));
            }
            let pause = match self.fleet.choose(route, &tried) {
                Choice::This(replica) => match self.one_try(&replica, make(), bounds).await {
                    Ok(answer) => return Ok(answer),
                    Err(Trouble::Final(error)) => return Err(error),
                    Err(Trouble::Elsewhere { what }) => {
                        last = Some(what);
                        tried.push(replica);
                        continue;
                    }
                    Err(Trouble::Again { not_before, what }) => {
                        last = Some(what);
                        // Not all at once, and a little later than it says.
                        timing::spread(not_before, not_before.saturating_mul(5) / 4, rand::random())
                    }
                },
                Choice::NoneLeft => {
                    tried.clear();
                    rounds = rounds.saturating_add(1);
                    timing::pause(rounds, rand::random())
                }
                Choice::NoneKnown => {
                    self.wait_for_replicas(left).await;
                    last = Some(self.fleet.problem());
                    Duration::ZERO
                }
            };
            sleep(pause.min(self.left(started, bounds))).await;
        }
    }

    /// Sends it to each replica once, without pauses: for what is of no use later.
    pub(crate) async fn send_once<C: Call + Clone>(&self, route: Route, call: C) -> Result<C::Answer, Error> {
        let started = Instant::now();
        let (mut tried, mut last) = (Vec::new(), None);
        while let Choice::This(replica) = self.fleet.choose(route, &tried) {
            match self.one_try(&replica, call.clone(), Bounds::AT_ONCE).await {
                Ok(answer) => return Ok(answer),
                Err(Trouble::Final(error)) => return Err(error),
                Err(Trouble::Again { what, .. }) => return Err(self.unreachable(started, Some(what))),
                Err(Trouble::Elsewhere { what }) => last = Some(what),
            }
            tried.push(replica);
        }
        Err(self.unreachable(started, last))
    }

    /// How long tries may go on: patience runs from the first one, and no longer than the deadline.
    fn left(&self, started: Instant, bounds: Bounds) -> Duration {
        let now = Instant::now();
        let patience = bounds.patience.map_or(self.patience, |patience| patience.min(self.patience));
        let patience = timing::after(started, patience).saturating_duration_since(now);
        bounds.deadline.map_or(patience, |deadline| patience.min(deadline.at.saturating_duration_since(now)))
    }

    /// Until a look-up has found somebody.
    async fn wait_for_replicas(&self, at_most: Duration) {
        let mut changes = self.changes();
        self.fleet.nobody_known();
        if self.fleet.known().is_empty() {
            // Found or not: whoever waits looks again.
            let _ = timeout(at_most, changes.changed()).await;
        }
    }

    async fn one_try<C: Call>(&self, replica: &Arc<Replica>, call: C, bounds: Bounds) -> Result<C::Answer, Trouble> {
        let until_deadline = bounds.deadline.map(|deadline| deadline.at.saturating_duration_since(Instant::now()));
        let enough = bounds.held.saturating_add(SLACK);
        let within = enough.min(until_deadline.unwrap_or(Duration::MAX).max(LAST_CHANCE));
        let said = match timeout(within, call.send(replica.client())).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(status.into()),
            // A short deadline says nothing about the replica.
            Err(_) if within < enough => return Err(Trouble::Elsewhere { what: format!("no answer in {within:?}") }),
            Err(_) => Err(Trouble::Elsewhere { what: format!("no answer in {within:?}") }),
        };
        if let Err(Trouble::Elsewhere { what }) = &said {
            tracing::debug!(replica = replica.name, what, "a replica of the Paceline service did not answer");
            self.counters.failover();
            self.fleet.failed(replica);
        } else {
            self.fleet.answered(replica);
        }
        said
    }

    fn unreachable(&self, started: Instant, last: Option<String>) -> Error {
        let last = last.unwrap_or_else(|| "nobody has answered for some time".to_owned());
        Error::Unreachable { addrs: self.fleet.addrs(), after: started.elapsed(), last }
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
