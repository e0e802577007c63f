//! Scenarios seen in the field, by their ids (HE herd, SE state and expiry, HM header meaning, LC limit change, RL reservation
//! lifecycle, TE token estimate, NU numeric, SK scope and keys, CK clock, QC classification, LG load, WB bursts, FA fairness).
//! Each test's comment says what must hold; where our design decides differently from the scenario, the comment says so and the
//! design is tested. Where each of them is tested: docs/internals/scenarios.md.

mod calendars;
mod estimates;
mod fairness;
mod floors;
mod headers;
mod herd;
mod leases;
mod levels;
mod stocks;

use std::sync::Arc;

use paceline_core::plan::GroupPlan;
use paceline_core::signal::{ObservedBucket, ResetMeans, Signal};
use paceline_core::units::Span;

use crate::support::world::World;

/// Asks for `count` calls at once; how many of them may go this very moment.
fn at_once(world: &mut World, plan: &Arc<GroupPlan>, count: usize) -> usize {
    let before = world.granted.len();
    world.push_many(plan, count);
    world.decide();
    world.granted[before..].iter().filter(|granted| granted.slot.send_at == world.now).count()
}

/// An answer that went well and tells of one bucket.
fn tells(meter: &str, limit: u64, remaining: u64, reset: Option<(Span, ResetMeans)>) -> Signal {
    let bucket = ObservedBucket {
        name: meter.to_string(),
        meter: meter.to_string(),
        limit: Some(limit),
        remaining: Some(remaining),
        reset_in: reset.map(|(reset_in, _)| reset_in),
        reset_means: reset.map_or(ResetMeans::Unspecified, |(_, means)| means),
        ..ObservedBucket::default()
    };
    Signal { buckets: vec![bucket], ..Signal::default() }
}
