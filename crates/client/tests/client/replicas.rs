//! Several replicas behind one name: a scope has its own, and the next one when that is away.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use paceline_client::{Ask, Channel, Discovery, Found, Limiter, Reason, Report, replica_for};
use paceline_proto::v1::AcquireResponse;
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::peer::{Peer, Say, breathe, denial, grant, queued};

const SECOND: Duration = Duration::from_secs(1);
const NEVER: Duration = Duration::from_secs(86_400);

/// A name that stands for these replicas, as long as it is told so.
#[derive(Clone)]
struct Name {
    peers: Arc<Mutex<BTreeMap<String, Peer>>>,
    /// Whom a look-up finds; `Err`: it fails.
    said: Arc<Mutex<Result<Vec<String>, String>>>,
    looks: Arc<Mutex<usize>>,
}

impl std::fmt::Debug for Name {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Name")
    }
}

impl Name {
    /// Replicas a, b, c, ... that grant whatever they are asked for.
    fn of(names: &[&str]) -> Self {
        let said = Arc::new(Mutex::new(Ok(Vec::new())));
        let name = Self { peers: Arc::default(), said, looks: Arc::default() };
        for replica in names {
            name.add(replica);
        }
        name
    }

    fn add(&self, replica: &str) {
        let peer = Peer::up();
        peer.always(grant(replica, Duration::ZERO));
        self.peers.lock().unwrap().insert(replica.to_owned(), peer);
        self.says(Ok(self.peers.lock().unwrap().keys().cloned().collect()));
    }

    fn says(&self, found: Result<Vec<String>, String>) {
        *self.said.lock().unwrap() = found;
    }

    fn peer(&self, replica: &str) -> Peer {
        self.peers.lock().unwrap()[replica].clone()
    }

    fn limiter(&self) -> Limiter {
        Limiter::builder().discovery(self.clone()).build().unwrap()
    }

    /// The replica of an account, by the function that says so.
    fn home(&self, account: &str) -> String {
        let names: Vec<String> = self.peers.lock().unwrap().keys().cloned().collect();
        replica_for("openai", account, names.iter().map(String::as_str)).unwrap().to_owned()
    }
}

impl Discovery for Name {
    fn find(&self) -> Pin<Box<dyn Future<Output = Result<Found, String>> + Send + '_>> {
        *self.looks.lock().unwrap() += 1;
        let said = self.said.lock().unwrap().clone();
        Box::pin(async { said.map(|replicas| Found { replicas, spares: Vec::new() }) })
    }

    fn connect(&self, replica: &str) -> Channel {
        self.peer(replica).channel()
    }
}

/// Acquires and gives back; says which replica granted.
async fn granted_by(limiter: &Limiter, account: &str) -> String {
    let slot = limiter.acquire(Ask::new("openai").account(account)).await.unwrap();
    let replica = slot.lease_id().to_owned();
    slot.release().await.unwrap();
    replica
}

#[tokio::test(start_paused = true)]
async fn a_scope_goes_to_the_same_replica_from_every_client_with_all_that_concerns_it() {
    let name = Name::of(&["a", "b", "c"]);
    for _ in 0..3 {
        let limiter = name.limiter();
        for account in ["prod", "batch", "eval", "test", "ads", "chat"] {
            let mut slot = limiter.acquire(Ask::new("openai").model("gpt-4o").account(account)).await.unwrap();
            assert_eq!(slot.lease_id(), name.home(account), "{account}");
            slot.report(Report::response(200)).await.unwrap();
            assert_eq!(granted_by(&limiter, account).await, name.home(account));
        }
    }
    for replica in ["a", "b", "c"] {
        let peer = name.peer(replica);
        assert_eq!(peer.reports().len() + peer.releases().len(), peer.acquires().len(), "{replica}");
        assert!(peer.reports().iter().all(|report| report.lease_id == replica));
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_went_is_replaced_by_the_next_and_gets_its_scopes_back() {
    let name = Name::of(&["a", "b", "c"]);
    let limiter = name.limiter();
    let home = name.home("prod");
    assert_eq!(granted_by(&limiter, "prod").await, home);

    name.peer(&home).stop();
    let began = Instant::now();
    let instead = granted_by(&limiter, "prod").await;
    assert!(instead != home && began.elapsed() < Duration::from_millis(10), "{:?}", began.elapsed());
    let knocks = name.peer(&home).knocks();
    for _ in 0..100 {
        assert_eq!(granted_by(&limiter, "prod").await, instead, "everybody goes to the same one instead");
    }
    assert_eq!(name.peer(&home).knocks(), knocks, "calls leave the one that failed alone");
    sleep(SECOND * 600).await;
    let looks = name.peer(&home).knocks() - knocks;
    assert!((35..=90).contains(&looks), "a look every 7.5 to 15 s, one after the other: {looks}");

    name.peer(&home).start();
    sleep(SECOND * 15).await;
    assert_eq!(granted_by(&limiter, "prod").await, home);
    assert_eq!(limiter.stats().failovers, 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_accepts_and_says_nothing_is_left_in_less_than_five_seconds_and_once() {
    let name = Name::of(&["a", "b", "c"]);
    let limiter = name.limiter();
    let home = name.home("prod");
    for _ in 0..100 {
        name.peer(&home).on_acquire(Say { after: NEVER, answer: Ok(grant("never", Duration::ZERO)) });
    }
    let began = Instant::now();
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { granted_by(&limiter, "prod").await })
        })
        .collect();
    for call in calls {
        assert_ne!(call.await.unwrap(), home);
    }
    assert!(began.elapsed() < SECOND * 5, "{:?}", began.elapsed());
    let began = Instant::now();
    assert_ne!(granted_by(&limiter, "prod").await, home);
    assert!(began.elapsed() < Duration::from_millis(10), "those that come after lose nothing: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_place_goes_along_to_the_next_replica() {
    let name = Name::of(&["a", "b"]);
    let (home, other) = if name.home("prod") == "a" { ("a", "b") } else { ("b", "a") };
    name.peer(home).on_acquire(queued("place", SECOND * 3));
    let limiter = name.limiter();
    let stopping = name.peer(home);
    tokio::spawn(async move {
        sleep(SECOND).await;
        stopping.stop();
    });
    let ask = Ask::new("openai").account("prod").request_id("call-1");
    let slot = limiter.acquire(ask).await.unwrap();
    assert_eq!(slot.lease_id(), other);
    let [elsewhere] = name.peer(other).acquires().try_into().unwrap();
    assert_eq!((elsewhere.request_id.as_str(), elsewhere.attempt, elsewhere.ticket.as_slice()), ("call-1", 1, &b"place"[..]));
}

#[tokio::test(start_paused = true)]
async fn what_the_service_decides_is_not_argued_with_elsewhere() {
    let name = Name::of(&["a", "b", "c"]);
    let limiter = name.limiter();
    let home = name.peer(&name.home("prod"));
    let busy = Status::with_error_details(Code::ResourceExhausted, "busy", ErrorDetails::with_retry_info(Some(SECOND * 3)));
    let ask = || limiter.acquire(Ask::new("openai").account("prod"));
    home.on_acquire(denial(Reason::Deadline)).on_acquire(Status::invalid_argument("no")).on_acquire(busy);
    assert!(ask().await.unwrap_err().denied().is_some());
    assert!(ask().await.unwrap_err().to_string().contains("refused the request"));
    let began = Instant::now();
    let slot = ask().await.unwrap();
    assert!(began.elapsed() >= SECOND * 3);
    assert_eq!(slot.lease_id(), name.home("prod"), "one that protects itself is not gone");
    breathe().await;
    let asked: Vec<usize> = ["a", "b", "c"].map(|replica| name.peer(replica).acquires().len()).into();
    assert_eq!((asked.iter().sum::<usize>(), home.acquires().len()), (4, 4));
}

#[tokio::test(start_paused = true)]
async fn replicas_come_and_go_with_the_name() {
    let name = Name::of(&["a", "b"]);
    let limiter = name.limiter();
    let accounts: Vec<String> = (0..40).map(|n| format!("account-{n}")).collect();
    let mut before = BTreeMap::new();
    for account in &accounts {
        before.insert(account, granted_by(&limiter, account).await);
    }
    name.add("c");
    sleep(SECOND * 38).await;
    for account in &accounts {
        let now = granted_by(&limiter, account).await;
        assert!(now == before[account] || now == "c", "{account}: {} -> {now}", before[account]);
        assert_eq!(now, name.home(account));
    }
    assert!(!name.peer("c").acquires().is_empty());

    let before = name.peer("c").acquires().len();
    name.says(Ok(vec!["a".into(), "b".into()]));
    sleep(SECOND * 38).await;
    for said in [Ok(Vec::new()), Err("the resolver is away".to_owned())] {
        for account in &accounts {
            granted_by(&limiter, account).await;
        }
        name.says(said);
        sleep(SECOND * 76).await;
    }
    assert_eq!(name.peer("c").acquires().len(), before, "one that is not found any more is not asked");
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_a_reason_to_look_again_at_once_but_not_more_than_once_a_second() {
    let name = Name::of(&["a"]);
    let limiter = name.limiter();
    granted_by(&limiter, "prod").await;
    // The replica was replaced by another at another address, as when a pod is rescheduled.
    name.peer("a").stop();
    name.add("b");
    name.says(Ok(vec!["b".into()]));
    let looks = *name.looks.lock().unwrap();
    let began = Instant::now();
    assert_eq!(granted_by(&limiter, "prod").await, "b");
    assert!(began.elapsed() < SECOND * 3, "{:?}", began.elapsed());
    assert!(*name.looks.lock().unwrap() - looks <= 4, "{} look-ups", *name.looks.lock().unwrap() - looks);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_cannot_be_looked_up_is_told() {
    let name = Name::of(&[]);
    name.says(Err("paceline.example:7070 cannot be looked up".into()));
    let limiter = Limiter::builder().discovery(name.clone()).go_on_without_service(false).build().unwrap();
    let error = limiter.acquire(Ask::new("openai").deadline(SECOND * 5)).await.unwrap_err();
    assert!(error.to_string().contains("cannot be looked up"), "{error}");
    name.add("a");
    assert_eq!(granted_by(&limiter, "prod").await, "a");
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_scope_without_its_store_are_spread_and_come_back_with_it() {
    let name = Name::of(&["a", "b", "c"]);
    let limiter = name.limiter();
    let home = name.home("prod");
    assert_eq!(granted_by(&limiter, "prod").await, home);
    let degraded = |is_degraded| {
        for replica in ["a", "b", "c"] {
            name.peer(replica).always(AcquireResponse { degraded: is_degraded, ..grant(replica, Duration::ZERO) });
        }
    };
    degraded(true);
    let mut by: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..300 {
        let mut slot = limiter.acquire(Ask::new("openai").account("prod")).await.unwrap();
        *by.entry(slot.lease_id().to_owned()).or_default() += 1;
        slot.report(Report::response(200)).await.unwrap();
    }
    assert!(by.len() == 3 && by.values().all(|calls| *calls > 60), "{by:?}");
    for replica in ["a", "b", "c"] {
        let reports = name.peer(replica).reports();
        assert!(reports.iter().all(|report| report.lease_id == replica), "each is told what it granted: {reports:?}");
    }
    degraded(false);
    granted_by(&limiter, "prod").await;
    for _ in 0..20 {
        assert_eq!(granted_by(&limiter, "prod").await, home, "the store is back");
    }
    // Nobody says that it is: calls go home after a while.
    degraded(true);
    granted_by(&limiter, "prod").await;
    sleep(SECOND * 11).await;
    assert_eq!(granted_by(&limiter, "prod").await, home);
}

#[tokio::test(start_paused = true)]
async fn one_call_stays_at_one_replica_while_its_scope_is_spread() {
    let name = Name::of(&["a", "b", "c"]);
    let limiter = name.limiter();
    for replica in ["a", "b", "c"] {
        let place = AcquireResponse { degraded: true, ..queued(replica, SECOND) };
        name.peer(replica).always(place);
    }
    let running = tokio::spawn(async move { limiter.acquire(Ask::new("openai").account("prod").request_id("one")).await });
    sleep(SECOND * 20).await;
    running.abort();
    let asked: Vec<usize> = ["a", "b", "c"].iter().map(|replica| name.peer(replica).acquires().len()).collect();
    let (most, all) = (asked.iter().max().copied().unwrap_or(0), asked.iter().sum::<usize>());
    assert!(all > 10 && most >= all - 1, "the first ask goes home, all others to one: {asked:?}");
}
