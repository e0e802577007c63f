//! What happened: every change of the fleet is told once, by whoever made it, and outlives him.

use std::sync::Arc;

use paceline_coordinator::settings::Settings;
use paceline_coordinator::{Events, Happened};
use paceline_core::units::Span;
use paceline_store::Store;

use crate::support::{answered, ask, settings};
use crate::{Service, secs, service, sleep, store};

fn limit(limit: &str) -> Arc<dyn Settings> {
    settings(&format!(
        "providers: {{acme: {{extends: generic, start_level: full, accounts: {{prod: {{models: {{m: {{limits: {{requests: \
         {limit}}}}}}}}}}}}}}}"
    ))
}

/// An hour of events, as kind, place and what changed.
async fn told<S: Store>(service: &Service<S>) -> Vec<String> {
    let Events { events, dropped, store_away } = service.coordinator.events(secs(3_600)).await;
    assert_eq!((dropped, store_away), (0, None));
    events.iter().map(line).collect()
}

fn line(event: &Happened) -> String {
    let parts = [event.kind.name(), &event.account, &event.group, &event.bucket, &event.before, &event.after];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" | ")
}

#[tokio::test(start_paused = true)]
async fn a_floor_is_told_by_the_replica_that_set_it_and_read_at_any() {
    let store = store();
    let (here, there) = (service(store.clone(), limit("60/min")).await, service(store.clone(), limit("60/min")).await);
    let grant = here.grant(ask("a")).await;
    there.grant(ask("b")).await;
    here.coordinator.report(answered(&grant.lease_id, 429, &[("retry-after", "60")])).await.unwrap();
    here.coordinator.write_journal().await.unwrap();
    // Whoever adopts the value does not tell it again.
    there.ask(ask("c")).await;
    let set = "floor_set | prod | m | nothing is sent for 1 min";
    assert_eq!(told(&there).await, [set]);
    assert_eq!(told(&here).await, [set], "it was written once");
    let event = there.coordinator.events(secs(3_600)).await.events.remove(0);
    assert_eq!((event.who.as_str(), event.why.as_str()), ("the provider", "Retry-After"));
    drop((here, there));
    let after_a_restart = service(store, limit("60/min")).await;
    assert_eq!(told(&after_a_restart).await, [set]);
    sleep(secs(3_601)).await;
    assert_eq!(told(&after_a_restart).await, Vec::<String>::new(), "that was longer ago");
    assert_eq!(after_a_restart.coordinator.events(secs(2 * 3_600)).await.events.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn limits_are_told_with_who_changed_them() {
    let service = service(store(), limit("60/min")).await;
    for n in 0..4 {
        let grant = service.grant(ask(&n.to_string())).await;
        let headers = [("x-ratelimit-limit-requests", "30"), ("x-ratelimit-remaining-requests", "20")];
        service.coordinator.report(answered(&grant.lease_id, 200, &headers)).await.unwrap();
    }
    assert_eq!(told(&service).await, ["limit_learned | prod | m | requests | 60 | 30"]);
    service.coordinator.reconfigure(limit("20/min")).await;
    service.ask(ask("next")).await;
    assert_eq!(told(&service).await[1..], ["limit_changed | prod | m | requests | 30 | 20"]);
}

#[tokio::test(start_paused = true)]
async fn replicas_note_that_they_come_and_that_others_are_gone() {
    let store = store();
    let here = service(store.clone(), limit("60/min")).await;
    let there = service(store.clone(), limit("60/min")).await;
    for one in [&here, &there, &here] {
        one.coordinator.heartbeat("1.2.3", "", Default::default()).await.unwrap();
        one.coordinator.write_journal().await.unwrap();
    }
    let joined = "replica_joined | version 1.2.3";
    assert_eq!(told(&here).await, [joined, joined]);
    sleep(secs(1)).await;
    there.coordinator.retire().await.unwrap();
    here.coordinator.heartbeat("1.2.3", "", Default::default()).await.unwrap();
    assert_eq!(told(&here).await[2..], ["replica_left | it stopped, or was not heard of"]);
    sleep(secs(1)).await;
    assert_eq!(here.coordinator.events(Span::ZERO).await.events, []);
}
