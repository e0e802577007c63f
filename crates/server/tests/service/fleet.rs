//! Several replicas, one of which leads: whoever is asked, calls are answered in their order, and go on when the leader does not.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use paceline_coordinator::token::{Keyring, Kind};
use paceline_proto::v1::acquire_response::Outcome;
use paceline_proto::v1::rate_limiter_client::RateLimiterClient;
use paceline_proto::v1::session_request::Call;
use paceline_proto::v1::session_response::Answer;
use paceline_proto::v1::{
    AcquireBatchRequest, AcquireRequest, Forwarded, Header, ReleaseRequest, ReportRequest, RetryAsk, SessionRequest, Verdict,
};
use paceline_store::Store as _;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::BinaryMetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Request};

use crate::support::fleet::{Fleet, Slot, worker};
use crate::support::{ask, granted, queued, report, secs};

/// Twenty calls a second go through `steady`, one in ten seconds through `slow`; nothing holds `m` up.
const CONFIG: &str = "
providers:
  acme:
    extends: generic
    accounts:
      prod:
        models:
          m: {limits: {requests: 60000/min, tokens: 1000000/min}, start_level: full}
          steady: {limits: {requests: {limit: 1200, per: 1m, burst: 1}}, start_level: full}
          slow: {limits: {requests: {limit: 6, per: 1m, burst: 1}}, start_level: full}
";

/// A fleet whose first replica leads `acme/prod`, as all of them know.
async fn led_by_the_first(count: usize) -> Fleet {
    told_who_leads(Fleet::start(count, CONFIG).await, count).await
}

/// The same on a machine that may be busy: what is decided alone there is decided so because somebody stands still.
async fn calm(count: usize) -> Fleet {
    told_who_leads(Fleet::patient(count, CONFIG, Some(Duration::from_secs(20))).await, count).await
}

async fn told_who_leads(fleet: Fleet, count: usize) -> Fleet {
    for replica in 0..count {
        // The second call of each: the first tells it who leads.
        for call in ["a", "b"] {
            let request = soon(&format!("{call}{replica}"), "m");
            granted(&fleet.limiter(replica).await.acquire(request).await.unwrap().into_inner());
        }
    }
    fleet
}

/// An ask that is held for as long as pacing may take.
fn soon(request_id: &str, model: &str) -> AcquireRequest {
    AcquireRequest { hold: Some(secs(1)), ..ask(request_id, model) }
}

/// Workers of `count` calls, a few milliseconds apart, each at the next of `replicas`.
async fn workers(fleet: &Fleet, replicas: &[usize], count: usize) -> Vec<JoinHandle<Slot>> {
    let mut limiters = Vec::new();
    for replica in replicas {
        limiters.push(fleet.limiter(*replica).await);
    }
    let mut running = Vec::new();
    for number in 0..count {
        let mut own = limiters.clone();
        own.rotate_left(number % limiters.len());
        running.push(tokio::spawn(worker(own, ask(&format!("call{number}"), "steady"))));
        sleep(Duration::from_millis(4)).await;
    }
    running
}

async fn all(running: Vec<JoinHandle<Slot>>) -> Vec<Slot> {
    let mut slots = Vec::new();
    for one in running {
        slots.push(tokio::time::timeout(Duration::from_secs(30), one).await.expect("nobody is stuck").expect("no panic"));
    }
    let leases: BTreeSet<&str> = slots.iter().map(|slot| slot.grant.lease_id.as_str()).collect();
    assert_eq!(leases.len(), slots.len(), "each call has a slot of its own");
    slots
}

/// How late a busy machine may hand out an answer: some slots of fifty milliseconds. Who lost its place comes seconds late.
const NOISE: Duration = Duration::from_millis(500);

/// How many slots come before one that was asked for earlier.
fn overtakings(slots: &[&Slot]) -> usize {
    let mut overtakings = 0;
    for (later, slot) in slots.iter().enumerate() {
        overtakings += slots[..later].iter().filter(|earlier| earlier.send_at > slot.send_at + NOISE).count();
    }
    overtakings
}

/// Whoever is sent after a moment is sent in the order in which it came.
fn check_order_after<'s>(slots: impl IntoIterator<Item = &'s Slot>, from: Instant) {
    let later: Vec<&Slot> = slots.into_iter().filter(|slot| slot.send_at > from).collect();
    assert!(later.len() > 5, "most have gone before: {}", later.len());
    assert_eq!(overtakings(&later), 0, "the order is that of their stamps again");
}

/// No second of the whole has more slots than the limit allows.
fn check_rate(slots: &[Slot]) {
    let mut times: Vec<Instant> = slots.iter().map(|slot| slot.send_at).collect();
    times.sort();
    for (index, from) in times.iter().enumerate() {
        let within = times[index..].iter().filter(|at| **at < *from + Duration::from_secs(1)).count();
        assert!(within <= 30, "{within} slots in one second, and twenty are allowed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_through_any_replica_are_answered_in_their_order() {
    let fleet = calm(3).await;
    let slots = all(workers(&fleet, &[0, 1, 2], 60).await).await;
    assert_eq!(overtakings(&slots.iter().collect::<Vec<_>>()), 0);
    check_rate(&slots);
    assert!(fleet.counted("paceline_forwarded_total{outcome=\"answered\"").await >= 40.0);
    assert_eq!(fleet.counted("paceline_order_lost_total").await, 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_batches_reports_and_releases_reach_the_leader() {
    let fleet = calm(2).await;
    let mut limiter = fleet.limiter(1).await;
    let before = fleet.counted("paceline_forwarded_total{outcome=\"answered\"").await;
    // A batch, item by item.
    let items = (0..50).map(|number| ask(&format!("item{number}"), "slow")).collect();
    let told = limiter.acquire_batch(AcquireBatchRequest { items, hold: None }).await.unwrap().into_inner();
    let answers: Vec<_> = told
        .items
        .iter()
        .map(|item| match item.result.as_ref().unwrap() {
            paceline_proto::v1::acquire_batch_item::Result::Answer(answer) => answer,
            paceline_proto::v1::acquire_batch_item::Result::Error(error) => panic!("{error:?}"),
        })
        .collect();
    let lease_id = granted(answers[0]).lease_id.clone();
    let ahead: Vec<u64> = answers[1..].iter().map(|answer| queued(answer).ahead).collect();
    assert_eq!(ahead, (0..49).collect::<Vec<_>>(), "in their order");
    // A report whose next attempt has to wait: a place, and the verdict of the leader.
    let retry = Some(RetryAsk { wanted: true, ..RetryAsk::default() });
    let header = Header { name: "retry-after".into(), value: "5".into() };
    let refused = ReportRequest { retry, headers: vec![header], ..report(&lease_id, 429) };
    let told = limiter.report(refused.clone()).await.unwrap().into_inner();
    assert!(told.applied && told.verdict() == Verdict::Retry, "{told:?}");
    let ticket = queued(told.next.as_ref().unwrap()).ticket.clone();
    let again = fleet.limiter(0).await.report(refused).await.unwrap().into_inner();
    assert!(!again.applied, "it is known at the leader");
    let what = Some(paceline_proto::v1::release_request::What::Ticket(ticket));
    assert!(limiter.release(ReleaseRequest { what: what.clone() }).await.unwrap().into_inner().released);
    assert!(!fleet.limiter(0).await.release(ReleaseRequest { what }).await.unwrap().into_inner().released);
    // Errors of the leader are those of the caller.
    let forged = AcquireRequest { ticket: vec![7; 60], ..ask("forged", "slow") };
    assert_eq!(limiter.acquire(forged).await.unwrap_err().code(), Code::InvalidArgument);
    let other = AcquireRequest { cost: [("requests".to_owned(), 2)].into(), ..ask("b1", "m") };
    assert_eq!(limiter.acquire(other).await.unwrap_err().code(), Code::AlreadyExists);
    let sent_on = fleet.counted("paceline_forwarded_total{outcome=\"answered\"").await - before;
    assert!(sent_on >= 53.0, "{sent_on}");
    assert_eq!(fleet.counted("paceline_order_lost_total").await, 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_hangs_up_leaves_the_line_of_the_leader() {
    let fleet = calm(2).await;
    let mut limiter = fleet.limiter(1).await;
    granted(&limiter.acquire(ask("first", "slow")).await.unwrap().into_inner());
    let mut waiting = Vec::new();
    for number in 0..20 {
        let mut limiter = limiter.clone();
        waiting.push(tokio::spawn(async move {
            let held = AcquireRequest { hold: None, ..ask(&format!("held{number}"), "slow") };
            limiter.acquire(held).await
        }));
    }
    let depth = async || fleet.replicas[0].counted_of("paceline_queue_depth").await;
    crate::support::until("they wait at the leader", async || depth().await >= 20.0).await;
    waiting.iter().for_each(JoinHandle::abort);
    crate::support::until("they have left", async || depth().await < 1.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_go_on_when_the_leader_is_killed() {
    let mut fleet = led_by_the_first(3).await;
    let running = workers(&fleet, &[0, 1, 2], 160).await;
    sleep(Duration::from_millis(300)).await;
    fleet.replicas[0].kill();
    let killed_at = Instant::now();
    let slots = all(running).await;
    check_rate(&slots);
    // Those that were held at the killed one itself had no ticket yet, and lose the second they have waited.
    let others = slots.iter().enumerate().filter(|(number, _)| number % 3 != 0).map(|(_, slot)| slot);
    check_order_after(others, killed_at + Duration::from_secs(2));
    let longest = slots.iter().map(|slot| slot.longest_silence).max().unwrap();
    assert!(longest < Duration::from_secs(6), "{longest:?}");
    // Those that are asked from now on wait for nobody.
    let asked_at = Instant::now();
    granted(&fleet.limiter(1).await.acquire(soon("later", "m")).await.unwrap().into_inner());
    assert!(asked_at.elapsed() < Duration::from_secs(1), "{:?}", asked_at.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_go_on_when_the_leader_stands_still() {
    let mut fleet = led_by_the_first(3).await;
    let running = workers(&fleet, &[1, 2], 160).await;
    sleep(Duration::from_millis(300)).await;
    fleet.replicas[0].freeze();
    let frozen_at = Instant::now();
    let asked = soon("while", "m");
    granted(&fleet.limiter(1).await.acquire(asked).await.unwrap().into_inner());
    assert!(frozen_at.elapsed() < Duration::from_secs(2), "{:?}", frozen_at.elapsed());
    let slots = all(running).await;
    check_rate(&slots);
    check_order_after(&slots, frozen_at + Duration::from_secs(2));
    let mut sent: Vec<Instant> = slots.iter().map(|slot| slot.send_at).filter(|at| *at > frozen_at).collect();
    sent.sort();
    let first = sent.first().map(|at| *at - frozen_at);
    assert!(first.is_some_and(|first| first < Duration::from_secs(2)), "the next slot comes after {first:?}");
    assert!(fleet.counted("paceline_order_lost_total").await >= 1.0, "it is counted");
    // It comes back and finds that it does not lead any more; nothing of what it had is granted twice.
    fleet.replicas[0].thaw();
    let after = all(workers(&fleet, &[0, 1, 2], 1).await).await;
    assert_eq!(after.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_go_on_when_the_leader_leaves() {
    let mut fleet = led_by_the_first(3).await;
    let running = workers(&fleet, &[0, 1, 2], 160).await;
    sleep(Duration::from_millis(300)).await;
    fleet.replicas[0].drain();
    let drained_at = Instant::now();
    let slots = all(running).await;
    check_rate(&slots);
    check_order_after(&slots, drained_at + Duration::from_secs(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_a_replica_that_leaves_get_their_tickets() {
    let mut fleet = led_by_the_first(2).await;
    let mut limiter = fleet.limiter(1).await;
    granted(&limiter.acquire(ask("first", "slow")).await.unwrap().into_inner());
    let ticket = queued(&limiter.acquire(ask("second", "slow")).await.unwrap().into_inner()).ticket.clone();
    let held = tokio::spawn(async move {
        let held = AcquireRequest { ticket, hold: Some(secs(60)), ..ask("second", "slow") };
        limiter.acquire(held).await
    });
    crate::support::until("it waits", async || fleet.replicas[0].counted_of("paceline_queue_depth").await >= 1.0).await;
    let drained_at = Instant::now();
    fleet.replicas[1].drain();
    let answer = held.await.unwrap().unwrap().into_inner();
    assert!(drained_at.elapsed() < Duration::from_secs(2));
    // With its place, at the other one.
    let ticket = queued(&answer).ticket.clone();
    let again = AcquireRequest { ticket, ..ask("second", "slow") };
    let answer = fleet.limiter(0).await.acquire(again).await.unwrap().into_inner();
    assert!(!queued(&answer).place_lost && queued(&answer).ahead == 0, "{answer:?}");
}

/// Opens a Session as a replica.
async fn as_replica(limiter: &mut RateLimiterClient<Channel>, proof: &[u8]) -> Result<Replica, tonic::Status> {
    let (says, said) = mpsc::channel(16);
    let mut request = Request::new(ReceiverStream::new(said));
    request.metadata_mut().insert_bin("paceline-peer-bin", BinaryMetadataValue::from_bytes(proof));
    let mut hears = limiter.session(request).await?.into_inner();
    let (forward, heard) = mpsc::channel(16);
    tokio::spawn(async move {
        while let Ok(Some(answer)) = hears.message().await {
            forward.send(answer.answer.unwrap()).await.unwrap();
        }
    });
    Ok(Replica { says, heard })
}

struct Replica {
    says: mpsc::Sender<SessionRequest>,
    heard: mpsc::Receiver<Answer>,
}

impl Replica {
    async fn say(&mut self, identity: Option<&str>, call: Call) -> Answer {
        let forwarded = identity.map(|identity| Forwarded { identity: identity.into(), unheard: false });
        self.says
            .send(SessionRequest { correlation_id: 1, call: Some(call), forwarded, ..SessionRequest::default() })
            .await
            .unwrap();
        tokio::time::timeout(Duration::from_secs(10), self.heard.recv()).await.expect("an answer").expect("an open stream")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_replicas_speak_for_others() {
    let fleet = Fleet::start(1, CONFIG).await;
    let mut limiter = fleet.limiter(0).await;
    let keys = fleet.store.token_keys().await.unwrap();
    let now = fleet.store.now().as_micros();
    let body = |to: u32, at: i64| [7_u32.to_be_bytes().as_slice(), &to.to_be_bytes(), &at.to_be_bytes()].concat();
    let (keyring, own) = (Keyring::new(keys), fleet.replicas[0].number);
    let good = keyring.seal(Kind::Peer, &body(own, now));
    let wrong: BTreeMap<&str, Vec<u8>> = [
        ("nothing", Vec::new()),
        ("nonsense", vec![1; 40]),
        ("another kind", keyring.seal(Kind::Ticket, &body(own, now))),
        ("another replica", keyring.seal(Kind::Peer, &body(own ^ 1, now))),
        ("an old one", keyring.seal(Kind::Peer, &body(own, now - 120_000_000))),
        ("another key", {
            let mut keys = fleet.store.token_keys().await.unwrap();
            keys.current.secret = [3; 32];
            Keyring::new(keys).seal(Kind::Peer, &body(own, now))
        }),
    ]
    .into();
    for (what, proof) in wrong {
        let refused = as_replica(&mut limiter, &proof).await.err().unwrap_or_else(|| panic!("{what} is taken for a proof"));
        assert_eq!(refused.code(), Code::PermissionDenied, "{what}: {refused:?}");
    }
    // One that proves itself speaks for its callers, each of whom is somebody.
    let mut replica = as_replica(&mut limiter, &good).await.unwrap();
    let Answer::Acquire(answer) = replica.say(Some("team-a"), Call::Acquire(soon("a", "m"))).await else { panic!() };
    let lease_id = granted(&answer).lease_id.clone();
    let Answer::Error(error) = replica.say(Some("team-b"), Call::Report(report(&lease_id, 200))).await else { panic!() };
    assert!(error.message.contains("another caller"), "{error:?}");
    let refused = limiter.report(report(&lease_id, 200)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let Answer::Report(told) = replica.say(Some("team-a"), Call::Report(report(&lease_id, 200))).await else { panic!() };
    assert!(told.applied);
    let Answer::Error(error) = replica.say(None, Call::Acquire(soon("b", "m"))).await else { panic!() };
    assert_eq!(Code::from_i32(error.code), Code::InvalidArgument);
    // What waits is told that it has arrived, and decided at the end of its hold.
    granted(&limiter.acquire(ask("c", "slow")).await.unwrap().into_inner());
    let waits = AcquireRequest { hold: Some(secs(1)), ..ask("d", "slow") };
    let Answer::Acquire(arrived) = replica.say(Some(""), Call::Acquire(waits)).await else { panic!() };
    assert!(queued(&arrived).ticket.is_empty());
    let Some(Answer::Acquire(answer)) = replica.heard.recv().await else { panic!() };
    assert!(matches!(answer.outcome, Some(Outcome::Queued(ref queued)) if !queued.ticket.is_empty()), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lead_moves_to_the_replica_that_gets_the_calls() {
    let fleet = calm(2).await;
    let led = async || fleet.replicas[1].counted_of("paceline_scopes_led").await;
    assert_eq!(led().await, 0.0);
    let limiter = fleet.limiter(1).await;
    // Some wait while it moves.
    let waiting: Vec<_> = (0..3)
        .map(|number| {
            let held = AcquireRequest { hold: None, ..ask(&format!("held{number}"), "slow") };
            let mut limiter = limiter.clone();
            tokio::spawn(async move { limiter.acquire(held).await })
        })
        .collect();
    let began = Instant::now();
    let mut calls = 0;
    while led().await < 1.0 {
        assert!(began.elapsed() < Duration::from_secs(60), "it never moves");
        calls += 1;
        granted(&limiter.clone().acquire(soon(&format!("call{calls}"), "m")).await.unwrap().into_inner());
        sleep(Duration::from_millis(20)).await;
    }
    assert!(began.elapsed() > Duration::from_secs(4), "not before it is sure");
    // From then on calls are decided where they come in.
    let before = fleet.counted("paceline_forwarded_total{outcome=\"answered\"").await;
    for number in 0..20 {
        granted(&limiter.clone().acquire(soon(&format!("later{number}"), "m")).await.unwrap().into_inner());
    }
    assert_eq!(fleet.counted("paceline_forwarded_total{outcome=\"answered\"").await, before);
    assert_eq!(fleet.counted("paceline_order_lost_total").await, 0.0);
    for held in waiting {
        let answer = tokio::time::timeout(Duration::from_secs(60), held).await.expect("nobody is stuck").unwrap().unwrap();
        match &answer.get_ref().outcome {
            Some(Outcome::Grant(grant)) => assert!(!grant.place_lost),
            // A first ask is held for a second.
            Some(Outcome::Queued(queued)) => assert!(!queued.place_lost),
            other => panic!("{other:?}"),
        }
    }
}
