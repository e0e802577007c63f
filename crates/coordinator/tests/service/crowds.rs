//! Many callers: leavers, a refusal for all, identical workers, a provider that always refuses.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use paceline_coordinator::api::AcquireRequest;
use paceline_core::units::Span;

use crate::support::{Look, START, answered, ask, back, labels, limits};
use crate::{secs, service, sleep, store};

/// Lets `count` callers take places and come back with their tickets, held; the tasks that wait.
async fn line(
    service: &Arc<crate::Service<Arc<paceline_store::MemoryStore>>>,
    count: usize,
) -> Vec<tokio::task::JoinHandle<(paceline_coordinator::api::Grant, paceline_core::units::FleetTime)>> {
    let mut held = Vec::new();
    for n in 0..count {
        let request = AcquireRequest { max_wait: Some(secs(3_600)), ..ask(&format!("in line {n}")) };
        let first = service.ask(AcquireRequest { hold: Span::ZERO, ..request.clone() }).await;
        let again = back(&request, first.queued(), secs(3_600));
        let service = service.clone();
        held.push(tokio::spawn(async move { service.worker(again).await }));
    }
    tokio::task::yield_now().await;
    held
}

#[tokio::test(start_paused = true)]
async fn two_hundred_who_leave_delay_nobody_behind_them() {
    let service = Arc::new(service(store(), limits("limits: {requests: {limit: 60, per: 1m, burst: 1}}")).await);
    service.grant(ask("first")).await;
    let leavers = line(&service, 200).await;
    let behind = {
        let service = service.clone();
        tokio::spawn(async move { service.worker(ask("behind")).await })
    };
    sleep(Span::from_millis(100)).await;
    let waits = service.coordinator.scopes().await[0].lanes[0].depth;
    assert_eq!(waits, 201);
    leavers.iter().for_each(|leaver| leaver.abort());
    let (_, send_at) = behind.await.unwrap();
    assert!(send_at - START <= secs(1), "it gets the next unit: {:?}", send_at - START);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_in_line_hear_a_refusal_and_do_not_bunch_after_it() {
    let service = Arc::new(service(store(), limits("limits: {requests: {limit: 600, per: 1m, burst: 600}}")).await);
    for n in 0..600 {
        service.grant(ask(&format!("burst {n}"))).await;
    }
    let refused = service.worker(ask("refused")).await.0;
    let line = line(&service, 1_000).await;
    sleep(secs(5)).await;
    let committed = {
        service.coordinator.report(answered(&refused.lease_id, 429, &[("retry-after", "10")])).await.unwrap();
        service.coordinator.now()
    };
    let floor = committed + secs(10);
    let mut sent = Vec::new();
    for waiting in line {
        sent.push(waiting.await.unwrap().1);
    }
    sent.sort();
    let between: Vec<_> = sent.iter().filter(|at| **at > committed && **at < floor).collect();
    // Ten a second, firm 100 ms ahead, jittered by another 100 ms at most.
    assert!(between.len() <= 3, "sent before the floor: {:?}", between.iter().map(|at| **at - START).collect::<Vec<_>>());
    let mut bins: BTreeMap<i64, u32> = BTreeMap::new();
    for at in sent.iter().filter(|at| **at >= floor) {
        *bins.entry((*at - floor).as_micros() / 1_000_000).or_default() += 1;
    }
    // The refill, and an eighth a second of the hundred units that have refilled meanwhile.
    let most = bins.values().max().copied().unwrap_or_default();
    assert!(most <= 10 + 13 + 2, "{bins:?}");
    assert_eq!(sent.len(), 1_000);
    let last = *sent.last().unwrap() - floor;
    assert!(last <= secs(96), "and no unit is lost: {last:?}");
}

#[tokio::test(start_paused = true)]
async fn identical_workers_are_told_different_times() {
    // HE04: nothing about them differs but the calls' names, and those do not decide.
    let mut runs = Vec::new();
    for _ in 0..2 {
        let service = Arc::new(service(store(), limits("limits: {requests: 600/min}")).await);
        let first = service.grant(ask("refused")).await;
        service.coordinator.report(answered(&first.lease_id, 429, &[("retry-after", "5")])).await.unwrap();
        let mut workers = Vec::new();
        for n in 0..100 {
            let request =
                AcquireRequest { identity: "worker".into(), labels: labels([("host", "same")]), ..ask(&format!("{n}")) };
            let service = service.clone();
            workers.push(tokio::spawn(async move { service.worker(request).await }));
        }
        let mut sent = Vec::new();
        for worker in workers {
            sent.push((worker.await.unwrap().1 - START).as_micros());
        }
        assert_eq!(sent.iter().collect::<HashSet<_>>().len(), 100, "no two at once");
        runs.push(sent);
    }
    assert_ne!(runs[0], runs[1], "another process draws otherwise");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_always_refuses_sees_eight_attempts_a_minute() {
    // QC06: the worker has no sleep of its own and asks for a new call each time.
    let service = service(store(), limits("limits: {requests: 6000/min}")).await;
    let start = service.coordinator.now();
    let mut attempts = 0;
    loop {
        let (grant, send_at) =
            service.worker(AcquireRequest { max_wait: Some(secs(600)), ..ask(&format!("{attempts}")) }).await;
        if send_at - start > secs(60) {
            break;
        }
        attempts += 1;
        sleep(grant.wait).await;
        service.coordinator.report(answered(&grant.lease_id, 429, &[])).await.unwrap();
    }
    assert!((4..=8).contains(&attempts), "{attempts} attempts");
}
