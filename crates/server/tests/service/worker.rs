//! The Rust client against the real service: what a worker's library must survive.

use std::time::Duration;

use paceline_client::{Ask, Error, Limiter, Report, Target};

use crate::support::{Folder, Service};

fn limiter(service: &Service) -> Limiter {
    Limiter::builder()
        .addr(format!("http://{}", service.grpc))
        .account("prod")
        .patience(Duration::from_secs(60))
        .build()
        .expect("the address is well formed")
}

fn ask() -> Ask {
    Ask::new("acme").model("m").cost("tokens", 10)
}

#[tokio::test]
async fn a_worker_lives_on_when_the_service_restarts() {
    let mut service = Service::start().await;
    let limiter = limiter(&service);
    let addr = service.grpc.to_string();
    let mut before = limiter.acquire(ask()).await.expect("a slot");
    before.sent();
    service.stop();
    service.ended().await;

    let folder = Folder::new();
    folder.write("paceline.yaml", crate::support::CONFIG);
    let again = Service::start_in(folder, &addr).await;
    // The lease of before is signed by nobody who is left: that is told, and is no error.
    let told = before.report(Report::response(200)).await.expect("an answer");
    assert!(told.not_applied.is_some());
    let mut slot = limiter.acquire(ask()).await.expect("a slot of the new process");
    slot.sent();
    let told = slot.report(Report::response(200).usage("tokens", 5)).await.expect("an answer");
    assert!(told.not_applied.is_none());
    drop(again);
}

#[tokio::test]
async fn a_slot_that_is_dropped_unsent_is_given_back() {
    let service = Service::start().await;
    let limiter = limiter(&service);
    let full = tokens_left(&service, &limiter).await;
    let slot = limiter.acquire(Ask::new("acme").model("m").cost("tokens", 500)).await.expect("a slot");
    assert_eq!(level(&service).await, full - 500.0);
    drop(slot);
    crate::support::until("the dropped slot is given back", || async { level(&service).await == full }).await;
}

#[tokio::test]
async fn a_denial_tells_what_the_service_told() {
    let service = Service::start().await;
    let too_large = Ask::new("acme").model("m").cost("tokens", 1_001);
    let Err(Error::Denied(denied)) = limiter(&service).acquire(too_large).await else { panic!("it can never fit") };
    assert!(denied.to_string().contains("tokens"), "{denied}");
}

/// The level of the tokens once the scope exists.
async fn tokens_left(service: &Service, limiter: &Limiter) -> f64 {
    let slot = limiter.acquire(Ask::new("acme").model("m").cost("tokens", 1)).await.expect("a slot");
    assert!(slot.release().await.expect("an answer"));
    level(service).await
}

async fn level(service: &Service) -> f64 {
    let scope = service.scope().await;
    scope.buckets.iter().find(|bucket| bucket.meter == "tokens").and_then(|bucket| bucket.level).expect("it is known")
}

#[tokio::test]
async fn a_call_goes_on_at_another_target_when_the_first_one_refuses() {
    let provider = "{extends: generic, start_level: full, accounts: {prod: {models: {m: {limits: {requests: 600/min}}}}}}";
    let service = Service::start_with(&format!("providers:\n  acme: {provider}\n  other: {provider}\n")).await;
    let other = Target { provider: "other".into(), account: "prod".into(), model: "m".into() };
    let mut sent = Vec::new();
    let called = limiter(&service)
        .call(ask().fallback(other), async |slot| {
            let provider = slot.target().provider;
            sent.push(provider.clone());
            let status = if provider == "acme" { 503 } else { 200 };
            (Report::response(status), status)
        })
        .await
        .expect("it was sent");
    assert_eq!((called.is_done(), called.value, called.attempts), (true, 200, 2));
    assert_eq!(sent, ["acme", "other"]);
}
