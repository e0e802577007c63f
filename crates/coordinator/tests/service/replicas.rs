//! Several coordinators over one store.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use paceline_coordinator::api::{AcquireRequest, Answer};
use paceline_core::units::Span;
use paceline_store::MemoryStore;

use crate::support::{Look, START, answered, ask, limits};
use crate::{secs, service, sleep, store};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_slot_is_granted_once_however_many_ask() {
    // AT03: capacity one, 64 at once from two replicas, a thousand rounds. Time stands still within a round, so only order
    // between threads decides.
    const ROUNDS: i64 = 1_000;
    let clock = Arc::new(AtomicI64::new(0));
    let ticks = clock.clone();
    let store = Arc::new(MemoryStore::with_clock(Arc::new(move || START + secs(ticks.load(Ordering::SeqCst)))));
    let settings = limits("limits: {requests: {limit: 1, per: 1m, capacity: 1}}");
    let replicas = [Arc::new(service(store.clone(), settings.clone()).await), Arc::new(service(store, settings).await)];
    for round in 0..ROUNDS {
        clock.store(round * 61, Ordering::SeqCst);
        let callers: Vec<_> = (0..64)
            .map(|n| {
                let replica = replicas[n % 2].clone();
                let request = AcquireRequest { max_wait: Some(Span::ZERO), hold: Span::ZERO, ..ask(&format!("{round}/{n}")) };
                tokio::spawn(async move { replica.ask(request).await })
            })
            .collect();
        let mut granted = 0;
        for caller in callers {
            match caller.await.unwrap() {
                Answer::Granted(grant) => {
                    assert_eq!(grant.wait, Span::ZERO);
                    granted += 1;
                }
                Answer::Denied(_) => {}
                Answer::Queued(queued) => panic!("{queued:?}"),
            }
        }
        assert_eq!(granted, 1, "round {round}");
    }
    assert!(replicas.iter().any(|replica| replica.metric("paceline_store_conflicts_total") > 0.0), "they did meet");
}

#[tokio::test(start_paused = true)]
async fn what_one_replica_is_told_the_other_knows() {
    let store = store();
    let settings = limits("limits: {requests: 60/min}");
    let (here, there) = (service(store.clone(), settings.clone()).await, service(store, settings).await);
    let grant = here.grant(ask("A")).await;
    there.grant(ask("B")).await;
    there.coordinator.report(answered(&grant.lease_id, 429, &[("retry-after", "30")])).await.unwrap();
    // The first has not read the store since; its own commit finds out.
    let start = here.coordinator.now();
    let (_, send_at) = here.worker(ask("C")).await;
    assert!(send_at - start >= secs(30), "{:?}", send_at - start);
    assert!(!here.coordinator.release_lease(&grant.lease_id).await.unwrap(), "it is settled");
}

#[tokio::test(start_paused = true)]
async fn a_line_on_each_of_two_replicas_shares_one_bucket() {
    let store = store();
    let settings = limits("limits: {requests: {limit: 120, per: 1m, burst: 1}}");
    let replicas = [Arc::new(service(store.clone(), settings.clone()).await), Arc::new(service(store, settings).await)];
    let mut workers = Vec::new();
    for n in 0..60 {
        let replica = replicas[n % 2].clone();
        workers.push(tokio::spawn(async move { replica.worker(ask(&n.to_string())).await.1 }));
    }
    let mut sent = Vec::new();
    for worker in workers {
        sent.push(worker.await.unwrap() - START);
    }
    sent.sort();
    for (n, pair) in sent.windows(2).enumerate() {
        assert!(pair[1] - pair[0] >= Span::from_millis(499), "calls {n} and {}: {pair:?}", n + 1);
    }
    assert!(*sent.last().unwrap() <= secs(31), "sixty calls, two a second: {:?}", sent.last());
    sleep(secs(60)).await; // until no place of an absent caller is remembered
    for replica in &replicas {
        assert!(replica.coordinator.scopes().await[0].lanes.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_asked_for_on_both_replicas_is_one_slot() {
    let store = store();
    let settings = limits("limits: {requests: {limit: 10, per: 1h}}");
    let (here, there) = (service(store.clone(), settings.clone()).await, service(store, settings).await);
    let (first, second) = tokio::join!(here.ask(ask("A")), there.ask(ask("A")));
    assert_eq!(first.grant().lease_id, second.grant().lease_id);
    assert!(here.coordinator.release_lease(&first.grant().lease_id).await.unwrap());
    // Given back, the key can be asked for again, on either.
    let (first, second) = tokio::join!(there.ask(ask("A")), here.ask(ask("A")));
    assert_eq!(first.grant().lease_id, second.grant().lease_id);
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_another_replica_told_again_is_not_given_back_by_who_did_not_hear_of_it() {
    let store = store();
    let settings = limits("limits: {requests: {limit: 10, per: 1h}}");
    let (here, there) = (service(store.clone(), settings.clone()).await, service(store, settings).await);
    let first = here.grant(ask("A")).await;
    // The reply was lost on the way, so the caller asked the other replica, and has its slot from there.
    assert_eq!(there.grant(ask("A")).await.lease_id, first.lease_id);
    // Now the first one finds that nobody hears it.
    here.coordinator.give_up_unheard(&first.lease_id).await;
    assert_eq!(there.coordinator.scopes().await[0].in_flight, 1, "the caller goes on with it");
    assert!(here.coordinator.release_lease(&first.lease_id).await.unwrap(), "who has it may give it back");
    // One that nobody else was told of is given back.
    let second = here.grant(ask("B")).await;
    here.coordinator.give_up_unheard(&second.lease_id).await;
    assert!(!here.coordinator.release_lease(&second.lease_id).await.unwrap(), "it is gone already");
}
