//! Scopes that nobody uses are put away, and come back with what the store holds.

use paceline_coordinator::api::AcquireRequest;
use paceline_core::units::Span;

use crate::support::{Look, START, answered, ask, limits};
use crate::{secs, service, sleep, store};

#[tokio::test(start_paused = true)]
async fn an_idle_scope_is_put_away_and_comes_back_with_its_floor() {
    // SE05: the bucket is full again in a minute, the floor lasts a quarter of an hour.
    let service = service(store(), limits("limits: {requests: 60/min}")).await;
    let grant = service.grant(ask("A")).await;
    service.coordinator.report(answered(&grant.lease_id, 429, &[("retry-after", "900")])).await.unwrap();
    assert_eq!(service.coordinator.scopes().await.len(), 1);
    sleep(secs(600)).await;
    assert!(service.coordinator.scopes().await.is_empty());
    let request = AcquireRequest { class: paceline_core::plan::Class::Batch, ..ask("B") };
    let (grant, send_at) = service.worker(request).await;
    assert!(send_at - START >= secs(900), "{:?}", send_at - START);
    assert!(grant.delays.iter().all(|part| part.cause.source.is_providers_word() || part.length <= secs(5)));
}

#[tokio::test(start_paused = true)]
async fn looking_at_a_scope_does_not_keep_it() {
    let service = service(store(), limits("limits: {requests: 60/min}")).await;
    service.grant(ask("A")).await;
    for _ in 0..60 {
        sleep(secs(15)).await;
        service.coordinator.scopes().await;
    }
    assert!(service.coordinator.scopes().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_scope_in_which_a_call_runs_or_waits_stays() {
    let service = std::sync::Arc::new(service(store(), limits("concurrency: 1")).await);
    let running = service.grant(AcquireRequest { run_time: Some(secs(1_800)), ..ask("A") }).await;
    let waits = {
        let service = service.clone();
        let request = AcquireRequest { max_wait: Some(secs(3_600)), ..ask("B") };
        tokio::spawn(async move { service.worker(request).await })
    };
    sleep(secs(1_200)).await;
    assert_eq!(service.coordinator.scopes().await[0].lanes[0].depth, 1);
    service.coordinator.report(answered(&running.lease_id, 200, &[])).await.unwrap();
    let (_, send_at) = waits.await.unwrap();
    assert!(send_at - START <= secs(1_201));
}

#[tokio::test(start_paused = true)]
async fn a_scope_comes_back_with_the_configuration_of_now() {
    let service = service(store(), limits("limits: {requests: {limit: 6, per: 1m, burst: 1}}")).await;
    service.grant(ask("A")).await;
    sleep(secs(600)).await;
    service.coordinator.reconfigure(limits("limits: {requests: {limit: 60, per: 1m, burst: 1}}")).await;
    service.grant(ask("B")).await;
    let waits = service.ask(AcquireRequest { hold: Span::ZERO, ..ask("C") }).await;
    assert_eq!(waits.queued().estimated_wait, secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_wakes_nobody_but_when_something_can_change() {
    let service = std::sync::Arc::new(service(store(), limits("limits: {requests: {limit: 1, per: 1h}}")).await);
    service.grant(ask("A")).await;
    let request = AcquireRequest { max_wait: Some(secs(7_200)), ..ask("B") };
    let first = service.ask(AcquireRequest { hold: Span::ZERO, ..request.clone() }).await;
    // Held for two thirds of an hour without a word: a loop that did not sleep would never let the paused clock go on.
    let start = service.coordinator.now();
    let answer = service.ask(crate::support::back(&request, first.queued(), secs(2_400))).await;
    answer.queued();
    assert_eq!(service.coordinator.now() - start, secs(2_400));
}
