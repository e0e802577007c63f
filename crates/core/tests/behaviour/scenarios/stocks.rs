//! Stocks: what is held at the provider until a job ends, and comes back with it, not with time.

use std::sync::Arc;

use paceline_core::amounts::Amounts;
use paceline_core::denial::Reason;
use paceline_core::plan::{BucketPlan, Class, GroupPlan, Refill, StartLevel};
use paceline_core::queue::Ask;
use paceline_core::signal::{Signal, Source};
use paceline_core::units::Span;

use super::at_once;
use crate::support::plans::{group, per_minute, unknown};
use crate::support::world::World;

const HOUR: Span = Span::from_secs(3_600);

fn plan() -> Arc<GroupPlan> {
    let stock = unknown("enqueued_tokens");
    let stock = BucketPlan { limit: Some(2_000_000), refill: Some(Refill::Held), start: StartLevel::Full, ..stock };
    group(vec![per_minute("requests", 600), per_minute("tokens", 10_000), stock])
}

/// A batch job of so many tokens, in the lane of its class; a lease for half an hour.
fn job(world: &mut World, plan: &Arc<GroupPlan>, tokens: u64) -> Ask {
    let mut ask = world.ask(plan);
    ask.cost.set("enqueued_tokens", tokens);
    ask.class = Class::Batch;
    ask.ttl = Span::from_secs(1_800);
    ask.wait_until = world.now + HOUR + HOUR + HOUR;
    ask
}

/// Held through hours of renewals, freed by the job's last report, whose tokens are not counted against the minute; the next job
/// waits for exactly that. Calls that put nothing there are not held up, and jobs take nothing from the minute's tokens.
#[test]
fn a_job_holds_its_stock_until_it_ends() {
    let plan = plan();
    let mut world = World::new(1);
    let first = job(&mut world, &plan, 1_500_000);
    let first = world.acquire(first).map_err(|denied| denied.denial).unwrap().ask.id;
    assert_eq!(world.level("enqueued_tokens"), 500_000.0);
    assert_eq!(world.level("tokens"), 10_000.0);
    let second = job(&mut world, &plan, 600_000);
    let second = world.push(second);
    for _ in 0..5 {
        world.run_for(Span::from_secs(1_500));
        assert!(world.queue.get(second).is_some(), "it waits");
        assert_eq!(world.queue.cause_of(second).map(|cause| cause.source), Some(Source::Concurrency));
        world.report(first, None, None, None, false);
        assert_eq!(at_once(&mut world, &plan, 1), 1, "an ordinary call goes past");
    }
    world.run_for(Span::from_secs(60));
    let full = world.level("tokens");
    let usage = Amounts::from_pairs([("tokens", 1_480_000)]);
    world.report(first, Some(&Signal::default()), None, Some(&usage), true);
    assert_eq!(world.level("tokens"), full);
    world.decide();
    assert!(world.granted.iter().any(|granted| granted.ask.id == second && granted.slot.send_at <= world.now + HOUR));
    assert_eq!(world.level("enqueued_tokens"), 1_400_000.0);
}

/// A job that can never fit is refused at once; one whose worker is gone comes free with its lease.
#[test]
fn too_large_or_forgotten() {
    let plan = plan();
    let mut world = World::new(2);
    let large = job(&mut world, &plan, 2_000_001);
    let denied = world.acquire(large).err().expect("it never fits");
    assert_eq!(denied.denial.reason, Reason::CostExceedsCapacity);
    assert!(denied.denial.detail.contains("enqueued_tokens"), "{}", denied.denial.detail);
    let whole = job(&mut world, &plan, 2_000_000);
    world.acquire(whole).map_err(|denied| denied.denial).unwrap();
    let next = job(&mut world, &plan, 1);
    let asked_at = world.now;
    world.push(next);
    world.decide();
    while let Some(look) = world.look.filter(|_| !world.queue.is_empty()) {
        world.now = look;
        world.value.expire(world.now);
        world.decide();
    }
    let waited = world.granted.last().unwrap().slot.send_at - asked_at;
    assert!((Span::from_secs(1_800)..Span::from_secs(1_900)).contains(&waited), "{waited}");
}

/// A stock says nothing about how many calls may be in flight.
#[test]
fn a_stock_is_no_limit_of_calls() {
    let stock = BucketPlan { limit: Some(2_000_000), refill: Some(Refill::Held), ..unknown("enqueued_tokens") };
    let plan = group(vec![unknown("requests"), stock]);
    let mut world = World::new(3);
    assert_eq!(at_once(&mut world, &plan, 10), 4, "four at first, while no limit is known");
}
