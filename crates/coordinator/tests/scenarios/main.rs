//! Scenarios seen in the field, by their ids, for one service and its clients as the coordinator's step sees them: leases and
//! their ends, several replicas over one store, names and scopes, standing still. Where the design decides differently from
//! the scenario, the test's comment says so and the design is tested. All of them: docs/internals/scenarios.md.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../support/mod.rs"]
mod support;

mod herd;
mod leases;
mod numbers;
mod page;
mod replicas;
mod scopes;
mod shared;

use paceline_core::units::Span;

use support::{Look, World};

fn secs(secs: i64) -> Span {
    Span::from_secs(secs)
}

/// Those that were told, so far, to send without waiting.
fn sent_at_once(world: &World, ids: &[u64]) -> usize {
    let at_once = |id: &&u64| match world.replied(**id).map(Look::answer) {
        Some(paceline_coordinator::api::Answer::Granted(grant)) => grant.wait == Span::ZERO,
        _ => false,
    };
    ids.iter().filter(at_once).count()
}
