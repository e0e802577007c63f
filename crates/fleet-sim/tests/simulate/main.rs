//! Simulations of small fleets: the same seed gives the same bytes, whatever breaks no call gets lost, files say what is wrong.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod breaking;
mod files;
mod replay;
mod same;

use paceline_fleet_sim::scenario::{Scenario, read};

/// A small fleet on a token bucket of 120 requests a minute, with something added to its file.
fn small(added: &str) -> Scenario {
    let text = format!(
        "provider: {{limits: {{requests: 120/min, tokens: 60k/min}}, latency: 300ms}}\n\
         fleet: {{workers: 40, calls: 200, cost: {{tokens: 50..300}}}}\n{added}"
    );
    read("small", "small.yaml", &text).unwrap_or_else(|error| panic!("{error}"))
}
