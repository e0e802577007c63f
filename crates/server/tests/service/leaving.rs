//! Callers that hang up, and a service that stops.

use std::time::Duration;

use paceline_proto::v1::AcquireRequest;
use paceline_server::Drained;
use tokio::net::TcpStream;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;

use crate::support::{Service, ask, granted, length, queued, secs, until};

/// An ask that is held: fleet time stands still, so it waits until somebody ends it.
fn held(request_id: &str) -> AcquireRequest {
    AcquireRequest { hold: None, ..ask(request_id, "slow") }
}

#[tokio::test]
async fn a_caller_that_hangs_up_leaves_the_line() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    granted(&limiter.acquire(ask("a", "slow")).await.unwrap().into_inner());

    // The call is cancelled, the connection stays.
    let waiting = tokio::spawn(async move { limiter.acquire(held("b")).await });
    until("it waits", async || service.waiting().await == 1).await;
    waiting.abort();
    until("it has left", async || service.waiting().await == 0).await;

    // Its own deadline strikes: the hold ends before it, so there is an answer to come back with.
    let mut limiter = service.limiter().await;
    let mut hurried = tonic::Request::new(held("c"));
    hurried.set_timeout(Duration::from_millis(50));
    // Time stands still for the hold, so here the deadline itself ends the call.
    assert!(limiter.acquire(hurried).await.is_err());
    until("it has left", async || service.waiting().await == 0).await;

    // The connection goes with everything on it.
    let mut limiter = service.limiter().await;
    let many: Vec<_> = (0..20)
        .map(|number| {
            let mut limiter = limiter.clone();
            tokio::spawn(async move { limiter.acquire(held(&format!("many{number}"))).await })
        })
        .collect();
    until("they wait", async || service.waiting().await == 20).await;
    many.iter().for_each(tokio::task::JoinHandle::abort);
    drop(many);
    limiter = service.limiter().await;
    until("they have left", async || service.waiting().await == 0).await;

    // Nobody is delayed by those who left: the next one is first in line.
    let answer = limiter.acquire(ask("next", "slow")).await.unwrap().into_inner();
    assert_eq!(queued(&answer).ahead, 0);
}

#[tokio::test]
async fn thousands_wait_on_one_connection_and_leave_in_one_moment() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    granted(&limiter.acquire(ask("a", "slow")).await.unwrap().into_inner());
    let mut many = tokio::task::JoinSet::new();
    for number in 0..3_000 {
        let mut limiter = limiter.clone();
        let patient = AcquireRequest { max_wait: Some(secs(30 * 86_400)), ..held(&format!("many{number}")) };
        many.spawn(async move { limiter.acquire(patient).await });
    }
    until("they wait", async || service.waiting().await == 3_000).await;
    // As when the deadline of a whole fleet strikes.
    many.abort_all();
    until("they have left", async || service.waiting().await == 0).await;
    // The connection survived it.
    assert_eq!(queued(&limiter.acquire(ask("next", "slow")).await.unwrap().into_inner()).ahead, 0);
}

#[tokio::test]
async fn a_service_that_stops_gives_tickets_and_goes() {
    let mut service = Service::start().await;
    let mut limiter = service.limiter().await;
    granted(&limiter.acquire(ask("a", "slow")).await.unwrap().into_inner());
    let waiting: Vec<_> = (0..10)
        .map(|number| {
            let mut limiter = limiter.clone();
            tokio::spawn(async move { limiter.acquire(held(&format!("b{number}"))).await })
        })
        .collect();
    until("they wait", async || service.waiting().await == 10).await;
    service.stop();
    for held in waiting {
        let answer = held.await.unwrap().expect("an answer").into_inner();
        let queued = queued(&answer);
        assert!(!queued.ticket.is_empty());
        assert_eq!(length(queued.come_back_in.as_ref()).as_micros(), 0, "at another replica, at once");
    }
    drop(limiter);
    let grpc = service.grpc;
    assert_eq!(service.ended().await, Drained::Completely);
    assert!(TcpStream::connect(grpc).await.is_err(), "nothing is accepted any more");
}

#[tokio::test]
async fn health_and_readiness_say_that_it_goes() {
    let mut service = Service::start().await;
    assert_eq!(service.get("/readyz").await.0, 200);
    let mut health = HealthClient::new(service.channel().await);
    let asked = |service: &str| HealthCheckRequest { service: service.into() };
    let serving = HealthCheckResponse { status: ServingStatus::Serving.into() };
    for name in ["", "paceline.v1.RateLimiter", "paceline.v1.Admin"] {
        assert_eq!(health.check(asked(name)).await.unwrap().into_inner(), serving, "{name:?}");
    }
    assert!(health.check(asked("nobody")).await.is_err());
    let mut watch = health.watch(asked("")).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap(), Some(serving));
    // Somebody who never hangs up keeps it from ending, so that there is time to look.
    let (_ask, asks) = tokio::sync::mpsc::channel(1);
    let mut reflection = ServerReflectionClient::new(service.channel().await);
    let open = reflection.server_reflection_info(tokio_stream::wrappers::ReceiverStream::new(asks)).await.unwrap();

    service.stop();
    let gone = HealthCheckResponse { status: ServingStatus::NotServing.into() };
    assert_eq!(watch.message().await.unwrap(), Some(gone));
    assert_eq!(watch.message().await.unwrap(), None, "who watches is let go");
    until("it is not ready", async || service.get("/readyz").await.0 == 503).await;
    assert!(service.get("/readyz").await.2.contains("draining"));
    assert_eq!(service.get("/healthz").await.0, 200, "alive all the same");
    assert_eq!(service.get("/metrics").await.0, 200, "the last minutes can be scraped");
    drop((open, _ask, reflection));
    assert_eq!(service.ended().await, Drained::Completely);
}
