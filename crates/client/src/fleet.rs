//! The replicas that are known, which of them answers, and since when none does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use paceline_proto::v1::rate_limiter_client::RateLimiterClient;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::discovery::{Discovery, Found};
use crate::error::Trouble;
use crate::health::{self, Health};
use crate::rendezvous::Route;
use crate::timing;

/// Replicas are looked up again about this often.
const REFRESH_EVERY: Duration = Duration::from_secs(30);
/// However many replicas fail, not more often than this.
const REFRESH_AT_MOST: Duration = Duration::from_secs(1);
/// A look-up that takes longer has failed.
const FIND_WITHIN: Duration = Duration::from_secs(5);
/// A replica that is looked at gets this long to say that it serves.
const LOOK_WITHIN: Duration = Duration::from_secs(2);

/// One replica.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) name: String,
    is_spare: bool,
    channel: Channel,
    health: Mutex<Health>,
}

impl Replica {
    fn new(name: &str, is_spare: bool, channel: Channel) -> Arc<Self> {
        Arc::new(Self { name: name.to_owned(), is_spare, channel, health: Mutex::default() })
    }

    pub(crate) fn client(&self) -> RateLimiterClient<Channel> {
        RateLimiterClient::new(self.channel.clone())
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_down(&self) -> bool {
        self.health().is_down()
    }

    /// Whether it answers and serves. One that knows nothing of health checks is there all the same.
    async fn serves(&self) -> bool {
        let mut client = HealthClient::new(self.channel.clone());
        match timeout(LOOK_WITHIN, client.check(HealthCheckRequest::default())).await {
            Ok(Ok(answer)) => answer.into_inner().status() != ServingStatus::NotServing,
            Ok(Err(status)) => !matches!(Trouble::from(status), Trouble::Elsewhere { .. }),
            Err(_) => false,
        }
    }
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Fleet {
    /// Those made by the caller, which never change.
    fixed: Vec<Arc<Replica>>,
    discovery: Option<Arc<dyn Discovery>>,
    /// For errors: what was configured.
    configured: String,
    known: RwLock<Arc<[Arc<Replica>]>>,
    /// Why the last look-up found nothing.
    problem: Mutex<Option<String>>,
    refresh: Arc<Notify>,
    /// Counts look-ups and returns of replicas, for those who wait for one.
    changes: watch::Sender<u64>,
    /// Since when nobody answers; `None`: somebody did last time.
    silent_since: Mutex<Option<Instant>>,
    runtime: Handle,
}

/// Which replica is next.
pub(crate) enum Choice {
    This(Arc<Replica>),
    /// Every one was tried.
    NoneLeft,
    /// None has been found so far.
    NoneKnown,
}

impl Fleet {
    /// The replicas in `fixed`, those known beforehand, and those that `discovery` goes on finding.
    pub(crate) fn start(
        fixed: Vec<(String, Channel)>,
        beforehand: &Found,
        discovery: Option<Arc<dyn Discovery>>,
        configured: String,
        runtime: Handle,
    ) -> Arc<Self> {
        let fixed: Vec<_> = fixed.into_iter().map(|(name, channel)| Replica::new(&name, false, channel)).collect();
        let fleet = Arc::new(Self {
            known: RwLock::new(fixed.clone().into()),
            fixed,
            discovery,
            configured,
            problem: Mutex::default(),
            refresh: Arc::default(),
            changes: watch::Sender::new(0),
            silent_since: Mutex::default(),
            runtime,
        });
        if let Some(discovery) = fleet.discovery.clone() {
            fleet.take(&*discovery, beforehand);
        }
        fleet
    }

    /// Looks replicas up from now on, until the limiter is gone.
    pub(crate) fn keep_finding(self: &Arc<Self>) {
        if let Some(discovery) = self.discovery.clone() {
            self.runtime.spawn(find_for_ever(Arc::downgrade(self), discovery));
        }
    }

    pub(crate) fn known(&self) -> Arc<[Arc<Replica>]> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The replica that a scope's call is sent to, after it was tried at others: of those that answer the one that weighs
    /// most, then of the others.
    pub(crate) fn choose(&self, route: Route, tried: &[Arc<Replica>]) -> Choice {
        let known = self.known();
        let left = known.iter().filter(|replica| !tried.iter().any(|tried| Arc::ptr_eq(tried, replica)));
        let rank = |replica: &&Arc<Replica>| (!replica.is_down(), !replica.is_spare, route.weight(&replica.name));
        match left.max_by_key(rank) {
            Some(replica) => Choice::This(replica.clone()),
            None if known.is_empty() => Choice::NoneKnown,
            None => Choice::NoneLeft,
        }
    }

    /// A replica answered, whatever it said.
    pub(crate) fn answered(&self, replica: &Replica) {
        let is_news = replica.health().answered();
        let was_silent = self.silence().take().is_some();
        if is_news || was_silent {
            tracing::debug!(replica = replica.name, "a replica of the Paceline service answers again");
            self.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
        }
    }

    /// A replica did not answer: it is left alone until it does, and names are looked up again.
    pub(crate) fn failed(self: &Arc<Self>, replica: &Arc<Replica>) {
        self.silence().get_or_insert_with(Instant::now);
        if replica.health().failed() {
            self.runtime.spawn(look_after(Arc::downgrade(self), Arc::downgrade(replica)));
        }
        self.refresh.notify_one();
    }

    /// None was found.
    pub(crate) fn nobody_known(&self) {
        self.silence().get_or_insert_with(Instant::now);
    }

    /// Since when nobody answers, if that is so: every known replica is down.
    pub(crate) fn silent_since(&self) -> Option<Instant> {
        let since = *self.silence();
        since.filter(|_| self.known().iter().all(|replica| replica.is_down()))
    }

    /// Tells of replicas that were found or that answer again. Whoever waits looks after subscribing, so nothing is missed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The addresses, for errors.
    pub(crate) fn addrs(&self) -> String {
        let known = self.known();
        let names: Vec<&str> = known.iter().map(|replica| replica.name.as_str()).collect();
        let names = names.join(", ");
        match (&self.discovery, names.is_empty() || names == self.configured) {
            (Some(_), true) => self.configured.clone(),
            (Some(_), false) => format!("{} ({names})", self.configured),
            (None, _) => names,
        }
    }

    /// Why no replica is known.
    pub(crate) fn problem(&self) -> String {
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
        problem.unwrap_or_else(|| "no address was found".to_owned())
    }

    fn silence(&self) -> MutexGuard<'_, Option<Instant>> {
        self.silent_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what was found; replicas known before keep their connections.
    fn take(&self, discovery: &dyn Discovery, found: &Found) {
        let before = self.known();
        let named = found.replicas.iter().map(|name| (name, false)).chain(found.spares.iter().map(|name| (name, true)));
        let mut now: Vec<Arc<Replica>> = self.fixed.clone();
        for (name, is_spare) in named {
            if now.iter().any(|replica| replica.name == *name) {
                continue;
            }
            let known = before.iter().find(|replica| replica.name == *name && replica.is_spare == is_spare);
            now.push(known.cloned().unwrap_or_else(|| Replica::new(name, is_spare, discovery.connect(name))));
        }
        if now.len() == self.fixed.len() {
            return; // nothing found: what was known before may still be there
        }
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = now.into();
        self.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
    }
}

/// Looks replicas up: now, about twice a minute, and soon after one failed.
async fn find_for_ever(weak: Weak<Fleet>, discovery: Arc<dyn Discovery>) {
    loop {
        let found = match timeout(FIND_WITHIN, discovery.find()).await {
            Ok(found) => found,
            Err(_) => Err(format!("the look-up did not end in {FIND_WITHIN:?}")),
        };
        let Some(fleet) = weak.upgrade() else { return };
        match found {
            Ok(found) => fleet.take(&*discovery, &found),
            Err(problem) => {
                tracing::debug!(problem, "replicas of the Paceline service were not looked up");
                *fleet.problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
            }
        }
        let is_unknown = fleet.known().is_empty();
        // Only what is waited for is kept meanwhile: the limiter may go, and the next round ends.
        let wanted = fleet.refresh.clone();
        drop(fleet);
        let again_in = if is_unknown { REFRESH_AT_MOST } else { REFRESH_EVERY };
        tokio::select! {
            () = sleep(timing::spread(again_in * 3 / 4, again_in * 5 / 4, rand::random())) => {}
            () = wanted.notified() => sleep(timing::spread(Duration::ZERO, REFRESH_AT_MOST, rand::random())).await,
        }
    }
}

/// Looks at a replica that is down until it serves, or nobody asks any more.
async fn look_after(fleet: Weak<Fleet>, replica: Weak<Replica>) {
    for nth in 1.. {
        let Some(others_answer) = fleet.upgrade().map(|fleet| fleet.known().iter().any(|replica| !replica.is_down())) else {
            return;
        };
        sleep(health::look_in(nth, others_answer, rand::random())).await;
        let Some(replica) = replica.upgrade().filter(|replica| replica.is_down()) else { return };
        let serves = replica.serves().await;
        let Some(fleet) = fleet.upgrade() else { return };
        if serves {
            return fleet.answered(&replica);
        }
        fleet.refresh.notify_one();
    }
}
