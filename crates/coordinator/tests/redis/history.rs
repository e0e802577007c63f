//! What became of calls, over a server whose answers are lost: nothing is counted twice, nothing is missing, and no call waits for it.

use std::time::{Duration, Instant};

use paceline_coordinator::api::AcquireRequest;
use paceline_core::history::{Hour, Hourly};
use paceline_core::mode::Mode;
use paceline_core::units::Span;
use paceline_tests::proxy::{Fault, Proxy};
use paceline_tests::servers::{Server, wait_until};

use crate::Replica;
use crate::support::{ask, settings};

const WATCHED: &str =
    "mode: shadow\nproviders: {acme: {extends: generic, accounts: {prod: {models: {m: {limits: {requests: 60/min}}}}}}}";

async fn sum(replica: &Replica) -> Hourly {
    let scopes = replica.coordinator.history(Hour(0), |_, _| true).await.unwrap();
    let mut sum = Hourly::default();
    scopes.iter().flat_map(|scope| &scope.hours).for_each(|(_, hour)| sum.add(hour));
    sum
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn additions_that_nobody_heard_of_count_once() {
    let server = Server::redis();
    let proxy = Proxy::before(server.port());
    let one = Replica::with(proxy.port(), "one", settings(WATCHED)).await;
    let other = Replica::with(server.port(), "other", settings(WATCHED)).await;
    let calls = async |replica: &Replica, round: &str, count: usize| {
        for n in 0..count {
            let call = AcquireRequest { hold: Span::ZERO, ..ask(&format!("{} {round} {n}", replica.name)) };
            assert!(matches!(replica.coordinator.acquire(call).await.unwrap(), paceline_coordinator::api::Answer::Granted(_)));
        }
    };
    calls(&one, "before", 3).await;
    calls(&other, "before", 4).await;
    one.coordinator.write_history().await.unwrap();
    other.coordinator.write_history().await.unwrap();

    // What is sent is carried out, and its answers are lost.
    calls(&one, "unheard", 5).await;
    proxy.set(Fault { mute: true, ..Fault::default() });
    assert!(one.coordinator.write_history().await.is_err());
    assert!(one.coordinator.write_history().await.is_err());
    let began = Instant::now();
    calls(&one, "meanwhile", 6).await;
    assert!(began.elapsed() < Duration::from_secs(20), "calls go on without the store");
    proxy.heal();
    let is_normal = || one.metric("paceline_degraded") == 0.0;
    tokio::task::block_in_place(|| wait_until("it is heard again", Duration::from_secs(20), is_normal));
    let mut written = one.coordinator.write_history().await;
    while written.is_err() && began.elapsed() < Duration::from_secs(40) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        written = one.coordinator.write_history().await;
    }
    written.unwrap();

    let sums = sum(&other).await;
    assert_eq!((sums.mode(Mode::Shadow).asks, sums.lost), (18, 0));
    drop((one, other));
    let after_a_restart = Replica::with(server.port(), "after", settings(WATCHED)).await;
    assert_eq!(sum(&after_a_restart).await, sums);
}
