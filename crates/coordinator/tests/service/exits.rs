//! However a caller goes, what it held comes free.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Waker};

use paceline_coordinator::api::{AcquireRequest, Answer, NotApplied};
use paceline_core::report::Outcome;
use paceline_core::units::Span;

use crate::support::{Look, answered, ask, back, limits, report};
use crate::{secs, service, sleep, store};

#[tokio::test(start_paused = true)]
async fn a_hundred_exits_of_all_kinds_leave_ten_slots_free() {
    // RL01: drop the connection, report nothing, report a failure, cancel.
    let service = service(store(), limits("concurrency: 10, limits: {requests: 60000/min}")).await;
    for n in 0..100 {
        let request = AcquireRequest { run_time: Some(secs(5)), ..ask(&n.to_string()) };
        if n % 4 == 0 {
            // Gone before the answer could be heard.
            let _ = tokio::time::timeout(std::time::Duration::ZERO, service.coordinator.acquire(request)).await;
            continue;
        }
        let grant = service.worker(AcquireRequest { max_wait: Some(secs(600)), ..request }).await.0;
        match n % 4 {
            1 => {}
            2 => {
                service.coordinator.report(answered(&grant.lease_id, 504, &[])).await.unwrap();
            }
            _ => assert!(service.coordinator.release_lease(&grant.lease_id).await.unwrap()),
        }
    }
    sleep(secs(60)).await;
    for n in 0..10 {
        service.grant(ask(&format!("after {n}"))).await;
    }
    let one_more = service.ask(AcquireRequest { hold: Span::ZERO, ..ask("one more") }).await;
    one_more.queued();
    assert_eq!(service.metric("paceline_leases_expired_total"), 25.0);
    assert_eq!(service.metric("paceline_inflight"), 10.0);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_the_line_frees_its_place() {
    let service = Arc::new(service(store(), limits("concurrency: 1")).await);
    let running = service.grant(ask("running")).await;
    let first = service.ask(AcquireRequest { hold: Span::ZERO, ..ask("leaves") }).await;
    let held = {
        let (service, request) = (service.clone(), back(&ask("leaves"), first.queued(), secs(60)));
        tokio::spawn(async move { service.ask(request).await })
    };
    sleep(secs(1)).await;
    held.abort();
    assert!(held.await.unwrap_err().is_cancelled());
    service.coordinator.report(answered(&running.lease_id, 200, &[])).await.unwrap();
    service.grant(ask("next")).await;
}

#[tokio::test(start_paused = true)]
async fn a_slot_whose_caller_left_while_the_answer_was_under_way_is_given_back() {
    let service = service(store(), limits("concurrency: 1")).await;
    let mut asking = Box::pin(service.coordinator.acquire(ask("gone")));
    // It asks, the answer is made, and nobody looks at it.
    assert!(asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    sleep(Span::from_millis(10)).await;
    drop(asking);
    sleep(Span::from_millis(10)).await;
    service.grant(ask("next")).await;
}

#[tokio::test(start_paused = true)]
async fn the_slot_of_a_retry_nobody_waits_for_is_given_back() {
    let service = Arc::new(service(store(), limits("concurrency: 1")).await);
    let first = service.grant(ask("A")).await;
    let reporting = {
        let service = service.clone();
        let report = crate::support::with_retry(answered(&first.lease_id, 429, &[]));
        tokio::spawn(async move { service.coordinator.report(report).await })
    };
    sleep(Span::from_millis(100)).await; // held for its backoff of a quarter of a second at least
    reporting.abort();
    sleep(secs(5)).await;
    service.grant(ask("B")).await;
    // The report itself was taken.
    let again = service.coordinator.report(answered(&first.lease_id, 429, &[])).await.unwrap();
    assert_eq!(again.not_applied, Some(NotApplied::Repeated));
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_was_stopped_for_ninety_seconds_starts_in_order() {
    // RL12: a hundred slots, all workers stopped, all continued at once.
    let service = Arc::new(service(store(), limits("limits: {requests: {limit: 600, per: 1m, burst: 100}}")).await);
    let mut slots = Vec::new();
    for n in 0..100 {
        slots.push(service.grant(ask(&n.to_string())).await);
    }
    sleep(secs(90)).await;
    // Half of them notice and ask again; the other half sends all the same and reports.
    let start = service.coordinator.now();
    let mut workers = Vec::new();
    for n in 0..50 {
        let service = service.clone();
        workers.push(tokio::spawn(async move { service.worker(ask(&n.to_string())).await }));
    }
    for (n, worker) in workers.into_iter().enumerate() {
        let (grant, send_at) = worker.await.unwrap();
        assert_ne!(grant.lease_id, slots[n].lease_id);
        assert!(send_at - start <= secs(6), "{:?}", send_at - start);
        let late = service.coordinator.report(answered(&slots[n].lease_id, 200, &[])).await.unwrap();
        assert_eq!(late.not_applied, Some(NotApplied::LeaseSettled));
    }
    for slot in &slots[50..] {
        let late = service.coordinator.report(answered(&slot.lease_id, 200, &[])).await.unwrap();
        assert_eq!(late.not_applied, Some(NotApplied::LeaseExpired));
    }
    assert_eq!(service.metric("paceline_leases_expired_total"), 100.0);
    assert!(service.metric("paceline_late_uses_total") >= 50.0);
}

#[tokio::test(start_paused = true)]
async fn shutting_down_sends_everyone_away_with_a_place_that_another_replica_takes() {
    let store = store();
    let settings = limits("limits: {requests: {limit: 6, per: 1m, burst: 1}}");
    let old = Arc::new(service(store.clone(), settings.clone()).await);
    let new = service(store, settings).await;
    old.grant(ask("first")).await;
    let held = {
        let old = old.clone();
        tokio::spawn(async move { old.ask(ask("held")).await })
    };
    sleep(Span::from_millis(300)).await;
    old.coordinator.drain().await;
    let answer = held.await.unwrap();
    assert_eq!(answer.queued().come_back_in, Span::ZERO);
    let late = old.ask(ask("late")).await;
    late.queued();
    let start = new.coordinator.now();
    let Answer::Granted(grant) = new.ask(back(&ask("held"), answer.queued(), secs(60))).await else { panic!("{answer:?}") };
    assert!(!grant.place_lost);
    assert_eq!(paceline_core::delays::total(&grant.delays), secs(10));
    assert!(new.coordinator.now() - start < secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_renewed_call_keeps_its_slot_and_a_silent_one_loses_it() {
    let service = service(store(), limits("concurrency: 2")).await;
    let alive = service.grant(AcquireRequest { run_time: Some(secs(10)), ..ask("alive") }).await;
    service.grant(AcquireRequest { run_time: Some(secs(10)), ..ask("silent") }).await;
    for seq in 1..=10 {
        sleep(secs(6)).await;
        let told = service.coordinator.report(report(&alive.lease_id, seq, Outcome::Running)).await.unwrap();
        assert_eq!((told.not_applied, told.ttl), (None, secs(10)));
    }
    service.grant(ask("next")).await;
    service.ask(AcquireRequest { hold: Span::ZERO, ..ask("one more") }).await.queued();
}
