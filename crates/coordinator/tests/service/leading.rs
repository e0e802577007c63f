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
