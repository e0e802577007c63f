//! Much that is sent on to a leader: reports while it is killed, and a stream of a thousand calls.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use paceline_proto::v1::acquire_response::Outcome;
use paceline_proto::v1::session_request::Call;
use paceline_proto::v1::session_response::Answer;
use paceline_proto::v1::{AcquireRequest, ReportRequest, SessionRequest};
use tokio::task::JoinHandle;

use crate::support::fleet::Fleet;
use crate::support::stream::Stream;
use crate::support::{ask, granted, report, secs, until};

/// Nothing of `day` comes back while a test runs; two hundred calls a second go through `line`.
const CONFIG: &str = "
providers:
  acme:
    extends: generic
    accounts:
      prod:
        models:
          day: {limits: {tokens: {limit: 1000000, per: day, zone: UTC}}, concurrency: 1000, start_level: full}
          line: {limits: {requests: {limit: 12000, per: 1m, burst: 1}}, start_level: full}
";

/// Two replicas of which the first leads, as both know.
async fn two() -> Fleet {
    let fleet = Fleet::patient(2, CONFIG, Some(Duration::from_secs(20))).await;
    for replica in 0..2 {
        for call in ["a", "b"] {
            let request = AcquireRequest { hold: Some(secs(1)), ..ask(&format!("{call}{replica}"), "line") };
            granted(&fleet.limiter(replica).await.acquire(request).await.unwrap().into_inner());
        }
    }
    fleet
}

/// Leases of 100 tokens each, asked for at a replica.
async fn leases(fleet: &Fleet, replica: usize, count: usize) -> Vec<String> {
    let mut limiter = fleet.limiter(replica).await;
    let mut leases = Vec::new();
    for number in 0..count {
        let request = AcquireRequest {
            cost: [("tokens".to_owned(), 100)].into(),
            hold: Some(secs(5)),
            ..ask(&format!("{number}"), "day")
        };
        leases.push(granted(&limiter.acquire(request).await.unwrap().into_inner()).lease_id.clone());
    }
    leases
}

/// Reports that each lease used 40 tokens, all at once.
async fn reports(fleet: &Fleet, replica: usize, leases: &[String]) -> Vec<JoinHandle<bool>> {
    let limiter = fleet.limiter(replica).await;
    let used = |lease: &String| ReportRequest { usage: [("tokens".to_owned(), 40)].into(), ..report(lease, 200) };
    let one = |said: ReportRequest| {
        let mut limiter = limiter.clone();
        tokio::spawn(async move { limiter.report(said).await.expect("it is taken").into_inner().applied })
    };
    leases.iter().map(used).map(one).collect()
}

async fn all_applied(running: Vec<JoinHandle<bool>>) {
    for one in running {
        let told = tokio::time::timeout(Duration::from_secs(30), one).await.expect("nobody is stuck").expect("no error");
        assert!(told, "each is told that it was applied");
    }
}

/// What is in flight at a replica, and what is left of the tokens of the day.
async fn ledger(fleet: &Fleet, replica: usize) -> (u64, f64) {
    let asked = paceline_proto::v1::GetScopeRequest { provider: "acme".into(), account: "prod".into() };
    let seen = fleet.replicas[replica].admin().await.get_scope(asked).await.unwrap().into_inner();
    let tokens = seen.buckets.iter().find(|bucket| bucket.label == "tokens" && bucket.group == "day").unwrap();
    (seen.in_flight, tokens.level.unwrap())
}

/// Reports that were sent on when the leader died are taken where they came in, or were taken there: each once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_survive_the_leader_that_they_were_sent_to() {
    let mut fleet = two().await;
    let leases = leases(&fleet, 1, 200).await;
    let sent_before = fleet.counted("paceline_forwarded_total{outcome=\"answered\"").await;
    let (while_it_leads, when_it_dies) = leases.split_at(100);
    let running = reports(&fleet, 1, while_it_leads).await;
    all_applied(running).await;
    assert!(fleet.counted("paceline_forwarded_total{outcome=\"answered\"").await - sent_before >= 90.0, "they are sent on");
    // These are on their way, or about to be, when it is gone.
    let running = reports(&fleet, 1, when_it_dies).await;
    fleet.replicas[0].kill();
    all_applied(running).await;
    // Once more, as a worker does that has not heard: known, and nothing happens twice.
    for lease in &leases {
        let used = ReportRequest { usage: [("tokens".to_owned(), 40)].into(), ..report(lease, 200) };
        let start = Instant::now();
        // One that is still sent on gets the answer of the first, because that may have been lost with the leader.
        while fleet.limiter(1).await.report(used.clone()).await.unwrap().into_inner().applied {
            assert!(start.elapsed() < Duration::from_secs(30), "the leader is gone for long");
        }
    }
    let (in_flight, left) = ledger(&fleet, 1).await;
    assert_eq!(left, 1_000_000.0 - 200.0 * 40.0, "each used 40, once");
    assert_eq!(in_flight, 4, "the calls that told who leads");
}

/// The leader stands still with the reports in its hands, and is killed before it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_that_a_leader_has_not_taken_are_taken_here() {
    let mut fleet = two().await;
    let leases = leases(&fleet, 1, 50).await;
    fleet.replicas[0].freeze();
    let running = reports(&fleet, 1, &leases).await;
    all_applied(running).await;
    assert_eq!(ledger(&fleet, 1).await, (4, 1_000_000.0 - 50.0 * 40.0));
    fleet.replicas[0].kill();
    // It comes to itself in its last moment, with what was sent to it.
    fleet.replicas[0].thaw();
    for lease in &leases {
        assert!(!fleet.limiter(1).await.report(report(lease, 200)).await.unwrap().into_inner().applied);
    }
    assert_eq!(ledger(&fleet, 1).await, (4, 1_000_000.0 - 50.0 * 40.0));
}

/// A thousand calls on one stream at a replica that does not lead: each is told its place, in order, and decided once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_calls_of_a_stream_are_sent_on_in_their_order() {
    const CALLS: u64 = 1_000;
    let fleet = two().await;
    let lost_before = fleet.counted("paceline_order_lost_total").await;
    let sent_before = fleet.counted("paceline_forwarded_total{outcome=\"answered\"").await;
    let mut stream = Stream::over(fleet.limiter(1).await).await;
    let says = stream.says.clone();
    let asking = tokio::spawn(async move {
        for id in 1..=CALLS {
            let patient = AcquireRequest { max_wait: Some(secs(600)), ..ask(&format!("call{id}"), "line") };
            says.send(SessionRequest { correlation_id: id, call: Some(Call::Acquire(patient)), ..SessionRequest::default() })
                .await
                .unwrap();
        }
    });
    let (mut queued, mut decided) = (BTreeMap::new(), Vec::new());
    let mut leases = BTreeSet::new();
    while decided.len() < usize::try_from(CALLS).unwrap() {
        let (id, Answer::Acquire(answer)) = stream.hear().await else { panic!("no error") };
        match answer.outcome {
            Some(Outcome::Queued(place)) => assert!(queued.insert(id, place).is_none(), "{id} is told once that it waits"),
            Some(Outcome::Grant(grant)) => {
                assert!(leases.insert(grant.lease_id), "a slot of its own");
                decided.push(id);
            }
            other => panic!("{id}: {other:?}"),
        }
    }
    asking.await.unwrap();
    assert_eq!(decided.iter().copied().collect::<BTreeSet<_>>(), (1..=CALLS).collect(), "each is decided once");
    assert!(queued.len() > 800, "most have waited: {}", queued.len());
    assert!(queued.values().all(|place| !place.ticket.is_empty()), "with a place to come back to");
    // A call that has just been told its place is not there for a moment, so on a busy machine a later one may be let go then; none
    // loses its turn for good.
    let astray: Vec<(u64, u64)> = decided.iter().copied().zip(1..).filter(|(id, turn)| id.abs_diff(*turn) > 100).collect();
    assert!(astray.len() <= 20, "these came far from their turn: {astray:?}");
    assert!(astray.iter().all(|(id, turn)| id > turn), "some came late: {astray:?}");
    let sent = fleet.counted("paceline_forwarded_total{outcome=\"answered\"").await - sent_before;
    assert!(sent >= CALLS as f64, "{sent} were sent on");
    assert_eq!(fleet.counted("paceline_order_lost_total").await - lost_before, 0.0);
    // Whoever is gone leaves the line of the leader.
    for id in 1..=100 {
        stream.ask(id, AcquireRequest { max_wait: Some(secs(600)), ..ask(&format!("more{id}"), "line") }).await;
    }
    let depth = async || fleet.replicas[0].counted_of("paceline_queue_depth").await;
    drop(stream);
    until("all have left", async || depth().await < 1.0).await;
}
