//! Three replicas, one Redis behind sentinels, a mock provider and 200 workers, while a replica is killed, everything in Redis is
//! flushed and Redis fails over. What must hold is read from the grants themselves.
//!
//! Two minutes, ten with `PACELINE_LONG_TESTS=1`, else as `PACELINE_FLEET_SECONDS` says. `--nocapture` shows the figures.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

mod checks;
mod faults;
mod processes;
mod workers;

use std::time::Duration;

use tokio::time::Instant;

use checks::Run;
use processes::Service;
use workers::Workers;

/// Calls a second that the provider takes and the configuration says.
const PER_SECOND: f64 = 100.0;
/// What a bucket of a minute holds: the most that may ever go at once, and what must never go after a loss.
const CAPACITY: f64 = 6_000.0;
/// A bucket that nobody has seen starts with a second of refill, and so does one whose value was lost.
const CAUTIOUS: f64 = 100.0;
/// How many work.
const WORKERS: usize = 200;
/// Processes that they share: each has its own connections.
const CLIENTS: usize = 8;

/// How long it takes.
fn length() -> Duration {
    let usual = if std::env::var_os("PACELINE_LONG_TESTS").is_some() { 600 } else { 120 };
    let seconds = std::env::var("PACELINE_FLEET_SECONDS").ok();
    Duration::from_secs(seconds.map_or(usual, |seconds| seconds.parse().expect("PACELINE_FLEET_SECONDS is a number")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_keeps_its_limit_and_its_order_whatever_fails() {
    let mut service = tokio::task::spawn_blocking(Service::start).await.unwrap();
    let start = Instant::now();
    let workers = Workers::start(&service, start, length());
    let faults = faults::inject(&mut service, start, length()).await;
    let (grants, failures) = workers.ended().await;
    let provider = service.provider_counts().await;
    let run = Run { grants, failures, faults, provider, length: length() };
    println!("{}", run.figures());
    run.check();
}
