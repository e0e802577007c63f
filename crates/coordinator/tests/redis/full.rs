//! A server that answers and takes nothing.

use std::time::{Duration, Instant};

use paceline_coordinator::api::{AcquireRequest, Answer};
use paceline_core::units::Span;
use paceline_tests::servers::{Server, wait_until};

use super::Replica;
use super::support::{ask, settings};

/// A server without memory answers what it is asked and refuses what it is told: its replicas stay alone until it takes writes
/// again. What they begin alone must not begin anew with each look at it, or a part of less than a call a look is never granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_is_a_server_that_is_away_until_it_takes_writes() {
    let server = Server::redis();
    // Its part is one in three seconds, and a look comes every quarter of a second.
    let accounts = "accounts: {prod: {models: {m: {limits: {requests: 60/min}}}}}";
    let settings = settings(&format!("expected_replicas: 3\nproviders: {{acme: {{extends: generic, {accounts}}}}}"));
    let replica = Replica::with(server.port(), "one", settings).await;
    replica.drain("first", 100).await;
    server.run(&["CONFIG", "SET", "maxmemory", "1"]);
    let (start, mut granted) = (Instant::now(), 0);
    while granted < 4 {
        let held = AcquireRequest { hold: Span::from_secs(5), ..ask(&format!("alone {granted}")) };
        if matches!(replica.coordinator.acquire(held).await, Ok(Answer::Granted(_))) {
            granted += 1;
        }
        assert!(start.elapsed() < Duration::from_secs(40), "{granted} slots only, one every three seconds");
    }
    assert!(replica.metric("paceline_degraded") > 0.0, "it is alone all the while");
    server.run(&["CONFIG", "SET", "maxmemory", "0"]);
    wait_until("it is back", Duration::from_secs(10), || replica.metric("paceline_degraded") == 0.0);
    let keys = server.run(&["KEYS", "*:t*"]).list();
    for key in &keys {
        assert!(server.run(&["PTTL", &key.text()]).number() != -1, "a trial ends by itself");
    }
}
