//! What is told of calls after a server has lost all it held.

use std::time::{Duration, Instant};

use paceline_core::history::{Hour, Hourly};
use paceline_core::mode::Mode;
use paceline_tests::servers::Server;

use crate::support::ask;
use crate::{Replica, SLOW};

/// Somebody empties the server: what was counted is gone, and what is counted from then on is told, by the replicas that were there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_told_again_after_the_server_was_emptied() {
    let server = Server::redis();
    let replica = Replica::at(server.port(), "one", SLOW).await;
    let sum = async || {
        let scopes = replica.coordinator.history(Hour(0), |_, _| true).await.unwrap();
        let mut sum = Hourly::default();
        scopes.iter().flat_map(|scope| &scope.hours).for_each(|(_, hour)| sum.add(hour));
        sum.mode(Mode::Enforce).asks
    };
    // A call is counted just after it is answered.
    let told = async || {
        let start = Instant::now();
        loop {
            match sum().await {
                0 if start.elapsed() < Duration::from_secs(20) => tokio::time::sleep(Duration::from_millis(5)).await,
                sum => return sum,
            }
        }
    };
    replica.coordinator.acquire(ask("before")).await.unwrap();
    assert_eq!(told().await, 1);
    tokio::task::block_in_place(|| server.run(&["FLUSHALL"]));
    replica.coordinator.acquire(ask("after")).await.unwrap();
    assert_eq!(told().await, 1, "what was written before is gone with the rest");
}
