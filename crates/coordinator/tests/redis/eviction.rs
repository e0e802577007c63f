//! SE09: a server that may evict, whose memory another client fills.

use std::time::{Duration, Instant};

use paceline_coordinator::api::Answer;
use paceline_tests::servers::{Client, Options, Server, wait_until};

use crate::support::{answered, ask};
use crate::{Replica, SLOW, key};

/// How often the value is evicted.
const ROUNDS: usize = 4;

/// Values of another client, until ours is thrown out.
fn fill(server: &Server) {
    let mut client = server.client();
    let (value, mut number) = ("x".repeat(10_000), 0_u64);
    wait_until("our value is evicted", Duration::from_secs(60), || {
        for _ in 0..100 {
            number += 1;
            client.run(&["SET", &format!("somebody:{number}"), &value]);
        }
        client.run(&["EXISTS", &key()]).number() == 0
    });
}

fn server(policy: &str) -> Server {
    Server::start(Options::new().line("maxmemory 4mb").line(&format!("maxmemory-policy {policy}")))
}

/// What may be granted in all: the bucket, what came back since, and one call for each loss.
fn most(start: Instant, losses: f64) -> f64 {
    100.0 + start.elapsed().as_secs_f64() * 100.0 / 3_600.0 + losses + 1.0
}

/// Whoever remembers adds it, so an evicted bucket is no second one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_evicted_bucket_is_no_second_one() {
    let server = server("allkeys-lru");
    let (one, two) = (Replica::at(server.port(), "one", SLOW).await, Replica::at(server.port(), "two", SLOW).await);
    let start = Instant::now();
    let mut granted = one.drain("first", 40).await + two.drain("first", 40).await;
    assert_eq!(granted, 80);
    let mut running = Vec::new();
    for round in 0..ROUNDS {
        let Answer::Granted(grant) = one.coordinator.acquire(ask(&format!("runs {round}"))).await.unwrap() else { panic!() };
        running.push(grant.lease_id);
        granted += 1;
    }
    for (round, lease) in running.iter().enumerate() {
        tokio::task::block_in_place(|| fill(&server));
        let name = format!("round {round}");
        granted += two.drain(&name, 100).await;
        // Whose record is gone too; it is found out here at the latest.
        one.coordinator.report(answered(lease, 200, &[])).await.unwrap();
        granted += one.drain(&name, 100).await;
    }
    let losses = one.metric("paceline_state_merged_total") + two.metric("paceline_state_merged_total");
    assert!(losses >= ROUNDS as f64, "{losses} were noticed");
    assert!(granted as f64 <= most(start, losses), "{granted} of 100 after {losses} losses");
}

/// The same while calls come all the time, and any key may go.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn evictions_under_load_open_nothing() {
    let server = server("allkeys-random");
    let (one, two) = (Replica::at(server.port(), "one", SLOW).await, Replica::at(server.port(), "two", SLOW).await);
    let start = Instant::now();
    let port = server.port();
    let filling = tokio::task::spawn_blocking(move || {
        let mut client = Client::connect(port).expect("it runs");
        let value = "x".repeat(10_000);
        for number in 0..20_000 {
            client.run(&["SET", &format!("somebody:{number}"), &value]);
        }
    });
    let mut granted = 0;
    let mut round = 0;
    while !filling.is_finished() || round == 0 {
        let name = format!("round {round}");
        // One more and no more than that at a time, so that both go on to the end.
        granted += one.drain(&name, 1).await + two.drain(&name, 1).await;
        round += 1;
    }
    filling.await.unwrap();
    granted += one.drain("rest", 200).await + two.drain("rest", 200).await;
    let evicted: f64 = server.info("stats", "evicted_keys").parse().unwrap();
    assert!(evicted > 1_000.0, "{evicted} keys were evicted");
    let losses = one.metric("paceline_state_merged_total") + two.metric("paceline_state_merged_total");
    println!("{granted} granted in {round} rounds, {losses} losses of the value, {evicted} keys evicted");
    assert!(granted as f64 <= most(start, losses), "{granted} of 100 after {losses} losses");
}
