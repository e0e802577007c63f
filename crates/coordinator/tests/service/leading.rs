//! One replica leads a scope; the others send their calls on, with their places.

use std::sync::Arc;

use paceline_coordinator::Lead;
use paceline_coordinator::api::{AcquireRequest, Answer, CallError};
use paceline_core::units::Span;
use paceline_store::MemoryStore;

use crate::support::{Look, answered, ask, limits, settings, target};
use crate::{Service, secs, service, service_at, sleep, store};

type Replica = Service<Arc<MemoryStore>>;

async fn two(configuration: &str) -> (Replica, Replica) {
    let (store, settings) = (store(), limits(configuration));
    (service_at(Some("a:1"), store.clone(), settings.clone()).await, service_at(Some("b:1"), store, settings).await)
}

/// The ticket with which a replica sends a call on.
async fn moved(replica: &Replica, request: AcquireRequest) -> Option<Vec<u8>> {
    match replica.coordinator.acquire(request).await {
        Err(CallError::Moved { ticket }) => ticket,
        other => panic!("{other:?}"),
    }
}

fn here(request: AcquireRequest) -> AcquireRequest {
    AcquireRequest { decide_here: true, ..request }
}

#[tokio::test(start_paused = true)]
async fn who_commits_first_leads_and_the_others_send_their_calls_on() {
    let (a, b) = two("limits: {requests: 600/min}").await;
    assert_eq!(a.coordinator.leads(&target("")), Lead::Unknown);
    let grant = a.grant(ask("1")).await;
    assert_eq!(a.coordinator.leads(&target("")), Lead::Here);
    assert_eq!(moved(&b, ask("2")).await, None, "it has no place yet");
    let at_a = Lead::At { replica: a.coordinator.replica(), address: Arc::from("a:1") };
    assert_eq!(b.coordinator.leads(&target("")), at_a);
    assert_eq!(b.coordinator.leads_of_lease(&grant.lease_id), at_a);
    assert!(matches!(b.coordinator.report(answered(&grant.lease_id, 200, &[])).await, Err(CallError::Moved { ticket: None })));
    // What is to be decided here is, and takes no lead from anybody.
    b.grant(here(ask("2"))).await;
    assert_eq!(b.coordinator.leads(&target("")), at_a);
    a.grant(ask("3")).await;
    // An idle lead ends by itself, and whoever commits next has it.
    sleep(secs(2)).await;
    b.grant(ask("4")).await;
    assert_eq!(b.coordinator.leads(&target("")), Lead::Here);
    moved(&a, ask("5")).await;
}

#[tokio::test(start_paused = true)]
async fn a_place_given_ahead_counts_wherever_the_call_is_decided() {
    let (a, b) = two("limits: {requests: {limit: 60, per: 1m, burst: 1}}").await;
    a.grant(ask("first")).await;
    // Asked at the other replica, before "later" is asked here; on its way for a while.
    let ticket = b.coordinator.place_for(&ask("early")).unwrap();
    sleep(Span::from_millis(10)).await;
    let early = async {
        sleep(Span::from_millis(100)).await;
        let request = AcquireRequest { ticket: Some(ticket), decide_here: true, hold: secs(10), ..ask("early") };
        (a.coordinator.acquire(request).await.unwrap(), a.coordinator.now())
    };
    let later = async {
        let answer = a.coordinator.acquire(AcquireRequest { hold: secs(10), ..ask("later") }).await.unwrap();
        (answer, a.coordinator.now())
    };
    let ((early, at), (later, later_at)) = tokio::join!(early, later);
    assert!(at + early.grant().wait < later_at + wait_of(&later), "{early:?} {later:?}");
    // The way there is a part of its wait (I-7), held a second as a first ask is.
    let total = early.grant().delays.iter().fold(Span::ZERO, |sum, part| sum + part.length);
    assert!(total >= Span::from_millis(110), "{total:?}");
}

/// The state of a scope is the same for all, so that only one of them tells it; who waits where is told by each.
#[tokio::test(start_paused = true)]
async fn only_who_leads_tells_what_is_shared() {
    let (a, b) = two("limits: {requests: {limit: 60, per: 1m, burst: 2}}").await;
    let shared = ["paceline_inflight", "paceline_bucket_level", "paceline_bucket_limit", "paceline_account_mixed"];
    let told_by = |replica: &Replica| shared.map(|name| replica.series(name) > 0);
    a.grant(ask("1")).await;
    assert_eq!(told_by(&a), [true; 4], "it leads");
    // B has the scope too, and decides this one.
    moved(&b, ask("2")).await;
    b.grant(here(ask("2"))).await;
    let waits = b.coordinator.acquire(AcquireRequest { hold: secs(10), ..here(ask("3")) });
    let look = async {
        sleep(Span::from_millis(100)).await;
        assert_eq!((told_by(&a), told_by(&b)), ([true; 4], [false; 4]));
        assert_eq!(b.series("paceline_queue_depth"), 1, "this is its own");
    };
    let (waited, ()) = tokio::join!(waits, look);
    waited.unwrap();
    // The lead moves, and with it who tells.
    sleep(secs(3)).await;
    b.grant(ask("4")).await;
    moved(&a, ask("5")).await;
    assert_eq!((told_by(&a), told_by(&b)), ([false; 4], [true; 4]));
}

/// A replica that nobody can call never leads: it is alone, or shares a scope with its like.
#[tokio::test(start_paused = true)]
async fn who_has_no_leader_tells() {
    let alone = service(store(), limits("limits: {requests: 600/min}")).await;
    alone.grant(ask("1")).await;
    assert_eq!((alone.series("paceline_inflight"), alone.series("paceline_bucket_level")), (1, 1));
}

fn wait_of(answer: &Answer) -> Span {
    match answer {
        Answer::Granted(grant) => grant.wait,
        Answer::Queued(queued) => queued.come_back_in,
        Answer::Denied(_) => panic!("{answer:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_where_nobody_leads_any_more_move_with_their_places() {
    let slow = |request| AcquireRequest { target: target("slow"), hold: secs(30), ..request };
    let models = "{slow: {limits: {requests: {limit: 6, per: 1m, burst: 1}}}, fast: {limits: {requests: 600/min}}}";
    let yaml =
        format!("providers: {{acme: {{extends: generic, start_level: full, accounts: {{prod: {{models: {models}}}}}}}}}");
    let (store, settings) = (store(), settings(&yaml));
    let a = service_at(Some("a:1"), store.clone(), settings.clone()).await;
    let b = service_at(Some("b:1"), store, settings).await;
    a.grant(slow(ask("first"))).await;
    let Answer::Queued(queued) = a.ask(slow(ask("waits"))).await else { panic!("ten seconds for each") };
    let waiting = a.coordinator.acquire(AcquireRequest { ticket: Some(queued.ticket), ..slow(ask("waits")) });
    // A is silent until its lead is over; B takes it with a call that need not wait.
    let taking = async {
        sleep(secs(1)).await;
        for n in 0..20 {
            b.grant(AcquireRequest { target: target("fast"), ..ask(&format!("other {n}")) }).await;
            sleep(Span::from_millis(500)).await;
        }
    };
    let (answer, ()) = tokio::join!(waiting, taking);
    let Err(CallError::Moved { ticket: Some(ticket) }) = answer else { panic!("{answer:?}") };
    let answer = b.ask(AcquireRequest { ticket: Some(ticket), ..slow(ask("waits")) }).await;
    let total = answer.grant().delays.iter().fold(Span::ZERO, |sum, part| sum + part.length);
    assert!(total >= secs(11) && total <= secs(13), "the whole wait is told: {total:?}");
    assert!(!answer.grant().place_lost);
}

#[tokio::test(start_paused = true)]
async fn a_drained_leader_lays_the_lead_down() {
    let (a, b) = two("limits: {requests: 600/min}").await;
    a.grant(ask("1")).await;
    a.coordinator.drain().await;
    sleep(Span::from_millis(1)).await;
    b.grant(ask("2")).await;
    assert_eq!(b.coordinator.leads(&target("")), Lead::Here);
    assert_eq!(b.metric("paceline_store_conflicts_total"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn who_cannot_be_reached_never_leads_and_decides_alone() {
    let (store, settings) = (store(), limits("limits: {requests: 600/min}"));
    let (a, b) = (service(store.clone(), settings.clone()).await, service_at(Some("b:1"), store, settings).await);
    a.grant(ask("1")).await;
    assert_eq!(b.coordinator.leads(&target("")), Lead::Unknown);
    b.grant(ask("2")).await;
    a.grant(ask("3")).await;
    assert_eq!(b.coordinator.leads(&target("")), Lead::Here);
}

/// A call that `by` has taken and sends on to the leader.
fn sent_on(by: &Replica, request: AcquireRequest) -> AcquireRequest {
    let ticket = by.coordinator.place_for(&request).unwrap();
    AcquireRequest { ticket: Some(ticket), sent_on_by: Some(by.coordinator.replica()), ..here(request) }
}

/// They know each other.
async fn announced(replicas: &[&Replica]) {
    for _ in 0..2 {
        for replica in replicas {
            replica.coordinator.heartbeat("1.0", "hash", replica.coordinator.now()).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lead_moves_to_where_the_calls_come_in_and_those_that_wait_move_with_it() {
    let models = "{slow: {limits: {requests: {limit: 6, per: 1m, burst: 1}}}, fast: {limits: {requests: 6000/min}}}";
    let yaml =
        format!("providers: {{acme: {{extends: generic, start_level: full, accounts: {{prod: {{models: {models}}}}}}}}}");
    let (store, settings) = (store(), settings(&yaml));
    let a = service_at(Some("a:1"), store.clone(), settings.clone()).await;
    let b = service_at(Some("b:1"), store, settings).await;
    announced(&[&a, &b]).await;
    let slow = |id: &str| AcquireRequest { target: target("slow"), hold: secs(60), ..ask(id) };
    let fast = |id: &str| AcquireRequest { target: target("fast"), ..ask(id) };
    a.grant(fast("first")).await;
    a.grant(sent_on(&b, slow("gone"))).await;
    assert_eq!(moved(&b, fast("not here")).await, None, "b knows who leads");
    // One waits that came in at the other replica, and one that came in here.
    // First asks are held for a second; with their tickets they are held on.
    let (theirs, ours) = tokio::join!(a.coordinator.acquire(sent_on(&b, slow("theirs"))), a.coordinator.acquire(slow("ours")),);
    let again = |id: &str, answer: Result<Answer, CallError>| match answer {
        Ok(Answer::Queued(queued)) => AcquireRequest { ticket: Some(queued.ticket), ..slow(id) },
        other => panic!("{other:?}"),
    };
    let theirs = AcquireRequest { sent_on_by: Some(b.coordinator.replica()), ..here(again("theirs", theirs)) };
    let (theirs, ours) = (a.coordinator.acquire(theirs), a.coordinator.acquire(again("ours", ours)));
    let traffic = async {
        for n in 0..80 {
            sleep(Span::from_millis(100)).await;
            if a.coordinator.leads(&target("")) != Lead::Here {
                return n;
            }
            a.grant(sent_on(&b, fast(&format!("call {n}")))).await;
        }
        panic!("it still leads");
    };
    let (theirs, ours, after) = tokio::join!(theirs, ours, traffic);
    assert!((40..80).contains(&after), "five seconds after the last call that came in here: {after}");
    let at_b = Lead::At { replica: b.coordinator.replica(), address: Arc::from("b:1") };
    assert_eq!(a.coordinator.leads(&target("")), at_b);
    let ticket = |answer| match answer {
        Err(CallError::Moved { ticket: Some(ticket) }) => ticket,
        other => panic!("{other:?}"),
    };
    let (theirs, ours) = (ticket(theirs), ticket(ours));
    // B learns of it from the store, at once, and decides: both have kept their places and waits.
    assert_eq!(b.coordinator.look_who_leads(&target("")).await, Lead::Here);
    let first = b.ask(AcquireRequest { ticket: Some(theirs), ..slow("theirs") }).await;
    let second = b.ask(AcquireRequest { ticket: Some(ours), ..slow("ours") }).await;
    let (first, second) = (first.grant().clone(), second.grant().clone());
    assert!(!first.place_lost && !second.place_lost);
    let total = |grant: &paceline_coordinator::api::Grant| grant.delays.iter().fold(Span::ZERO, |sum, part| sum + part.length);
    assert!(total(&first) >= secs(7) && total(&second) >= total(&first), "{first:?} {second:?}");
    // What is still sent on to the old one, because not all know yet, goes back to the new one.
    assert!(matches!(a.coordinator.acquire(sent_on(&b, fast("late"))).await, Err(CallError::Moved { ticket: Some(_) })));
}

#[tokio::test(start_paused = true)]
async fn a_lead_does_not_swing_while_calls_come_in_evenly() {
    let (a, b) = two("limits: {requests: 60000/min}").await;
    announced(&[&a, &b]).await;
    a.grant(ask("first")).await;
    for n in 0..600 {
        sleep(Span::from_millis(50)).await;
        let request = ask(&format!("call {n}"));
        a.grant(if n % 2 == 0 { request } else { sent_on(&b, request) }).await;
        assert_eq!(a.coordinator.leads(&target("")), Lead::Here, "call {n}");
    }
    // One that others cannot reach gets no lead, however many calls it sends on.
    let (c, d) = two("limits: {requests: 60000/min}").await;
    c.grant(ask("first")).await;
    for n in 0..200 {
        sleep(Span::from_millis(50)).await;
        c.grant(sent_on(&d, ask(&format!("call {n}")))).await;
    }
    assert_eq!(c.coordinator.leads(&target("")), Lead::Here, "it has not announced itself");
}
