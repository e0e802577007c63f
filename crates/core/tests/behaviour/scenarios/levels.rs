//! What a bucket holds, over time, for costs of all sizes.

use paceline_core::amounts::Amounts;
use paceline_core::denial::Reason;
use paceline_core::plan::BucketPlan;
use paceline_core::signal::Signal;
use paceline_core::units::Span;

use super::{at_once, tells};
use crate::support::plans::{continuous, group, named, per_minute, windowed};
use crate::support::script::refused_for;
use crate::support::world::{START, World, at};

const DAY: Span = Span::from_secs(86_400);

/// SE04: capacity 3, one unit per period: take three, wait one and a third periods: one is there, not three.
#[test]
fn se04_refill_is_by_time_alone() {
    for period in [Span::from_secs(15), DAY, Span::from_secs(1), Span::from_secs(100)] {
        let plan = group(vec![BucketPlan { capacity: Some(3), ..continuous("requests", 1, period) }]);
        let mut world = World::new(1);
        assert_eq!(at_once(&mut world, &plan, 3), 3);
        let full_again = START + period + period + period;
        assert!(world.value.matters_until(world.now) >= full_again, "a value that lives shorter would come back full");
        world.now = world.now + period.scaled(4.0 / 3.0);
        assert_eq!(at_once(&mut world, &plan, 3), 1, "one per {period}");
    }
}

/// SE05: a bucket that is full again in a minute, and Retry-After 900: held for 900 s, however quiet it is.
#[test]
fn se05_a_floor_outlives_a_full_bucket() {
    let plan = group(vec![per_minute("requests", 60)]);
    let mut world = World::new(1);
    at_once(&mut world, &plan, 1);
    world.answer(1, &refused_for(Span::from_secs(900)));
    assert!(world.value.matters_until(world.now) >= at(900.0));
    world.run_until(at(120.0));
    let ask = world.ask(&plan);
    let granted = world.acquire(ask).map_err(|denied| denied.denial).unwrap();
    assert!(granted.slot.send_at >= at(900.0));
}

/// SE12, for a window of 24 hours in our own phase (calendar days come with their zones): one reset per boundary, a hundred after
/// it once, the next one waits for the following boundary. A caller that cannot wait that long is told so.
#[test]
fn se12_a_day_turns_once() {
    let plan = group(vec![windowed("requests", 100, DAY)]);
    let mut world = World::new(1);
    assert_eq!(at_once(&mut world, &plan, 100), 100);
    world.run_until(START + DAY + Span::from_secs(1));
    assert_eq!(at_once(&mut world, &plan, 1), 1);
    assert_eq!(at_once(&mut world, &plan, 99), 99);
    let mut patient = world.ask(&plan);
    patient.wait_until = world.now + DAY + DAY;
    let mut hurried = world.ask(&plan);
    hurried.wait_until = world.now + Span::from_secs(60);
    let denied = world.acquire(hurried).err().expect("the quota is used up");
    assert_eq!(denied.denial.reason, Reason::QuotaExhausted);
    let next = START + DAY + DAY;
    assert!(world.now + denied.denial.retry_after.unwrap() >= next);
    world.push(patient);
    world.run_for(Span::from_secs(23 * 3_600));
    assert_eq!(world.granted.len(), 200, "23 hours later it still waits");
    world.run_for(Span::from_secs(3_600));
    assert!(world.granted.last().unwrap().slot.send_at >= next);
    assert_eq!(world.granted.len(), 201);
}

/// SE14: asking at the very instant at which the unit is there: a normal grant, no wait, and no special value.
#[test]
fn se14_at_the_instant_of_refill() {
    let plan = group(vec![continuous("requests", 1, Span::from_secs(1))]);
    let mut world = World::new(1);
    assert_eq!(at_once(&mut world, &plan, 1), 1);
    world.now = START + Span::from_secs(1);
    assert_eq!(at_once(&mut world, &plan, 1), 1);
    let granted = world.granted.last().unwrap();
    assert!(granted.slot.delays.is_empty() && granted.slot.charges.len() == 1);
}

/// TE05: a cost that nobody stated is what such calls turn out to cost, before that a hundredth of what fits: never nothing, never
/// everything. (The scenario has a stated 0 guessed, too; here it is taken as said: embeddings really have no output tokens.)
#[test]
fn te05_an_unstated_cost_is_guessed() {
    let plan = group(vec![per_minute("requests", 100), per_minute("tokens", 10_000)]);
    let mut world = World::new(1);
    assert_eq!(at_once(&mut world, &plan, 10), 10);
    assert_eq!(world.level("tokens"), 9_000.0);
    for granted in &world.granted {
        assert_eq!(granted.slot.estimated.len(), 1);
    }
    for id in 1..=10 {
        let used = Amounts::from_pairs([("tokens", 300)]);
        world.report(id, Some(&Signal::default()), None, Some(&used), true);
    }
    assert_eq!(world.level("tokens"), 7_000.0);
    at_once(&mut world, &plan, 1);
    assert_eq!(world.level("tokens"), 6_700.0, "what such calls cost");
    let mut ask = world.ask(&plan);
    ask.cost.set("tokens", 0);
    world.acquire(ask).map_err(|denied| denied.denial).unwrap();
    assert_eq!(world.level("tokens"), 6_700.0);
}

/// TE07: 40,000 a minute: 800 and 30,000 at once, 40,000 when all of it is there, 40,001 never.
#[test]
fn te07_up_to_the_whole_capacity() {
    let plan = group(vec![per_minute("tokens", 40_000)]);
    let mut world = World::new(1);
    let mut wait_for = |tokens| {
        let mut ask = world.ask(&plan);
        ask.cost.set("tokens", tokens);
        let asked_at = world.now;
        let granted = world.acquire(ask).map_err(|denied| denied.denial)?;
        Ok::<f64, paceline_core::denial::Denial>((granted.slot.send_at - asked_at).as_secs_f64())
    };
    assert_eq!(wait_for(800).unwrap(), 0.0);
    assert_eq!(wait_for(30_000).unwrap(), 0.0);
    let all = wait_for(40_000).unwrap();
    assert!((46.2..46.5).contains(&all), "30,800 units refill in 46.2 s: {all}");
    let denial = wait_for(40_001).unwrap_err();
    assert_eq!((denial.reason, denial.retry_after), (Reason::CostExceedsCapacity, None));
}

/// NU04: costs beyond what fits are refused at once, whatever their size, with cost, capacity and bucket named and nothing
/// charged; a queued one when the limit falls below it; a guessed one is cut to what fits.
#[test]
fn nu04_costs_beyond_the_capacity() {
    let plan = group(vec![per_minute("tokens", 10_000)]);
    let mut world = World::new(1);
    for tokens in [10_001, 1 << 31, 1 << 63, u64::MAX] {
        let mut ask = world.ask(&plan);
        ask.cost.set("tokens", tokens);
        let denied = world.acquire(ask).err().expect("it never fits");
        assert_eq!((denied.denial.reason, denied.denial.retry_after), (Reason::CostExceedsCapacity, None));
        assert!(denied.denial.detail.contains("tokens") && denied.denial.detail.contains("10000"), "{}", denied.denial.detail);
        assert_eq!(world.level("tokens"), 10_000.0);
    }
    let mut all = world.ask(&plan);
    all.cost.set("tokens", 10_000);
    let first = world.acquire(all.clone()).map_err(|denied| denied.denial).unwrap().ask.id;
    assert_eq!(world.level("tokens"), 0.0);
    let mut queued = world.ask(&plan);
    queued.cost.set("tokens", 10_000);
    world.push(queued);
    world.decide();
    assert_eq!(world.queue.len(), 1);
    world.run_for(Span::from_secs(1));
    world.answer(first, &tells("tokens", 5_000, 0, None));
    world.decide();
    assert_eq!(world.denied.last().unwrap().denial.reason, Reason::CostExceedsCapacity, "the limit fell below it");
    world.run_for(Span::from_secs(60));
    let mut guess = world.ask(&plan);
    guess.cost.set("tokens", u64::MAX);
    guess.cost_estimated = true;
    let granted = world.acquire(guess).map_err(|denied| denied.denial).unwrap();
    assert_eq!(granted.slot.charges[0].amount.as_units_floor(), 5_000);
}

/// SK03: ten in thirty days and five an hour on the same meter: two buckets, and their order does not matter.
#[test]
fn sk03_two_limits_on_one_meter() {
    let month = named("requests_month", windowed("requests", 10, Span::from_secs(30 * 86_400)));
    let hour = named("requests_hour", windowed("requests", 5, Span::from_secs(3_600)));
    for buckets in [vec![month.clone(), hour.clone()], vec![hour, month]] {
        let plan = group(buckets);
        let mut world = World::new(1);
        assert_eq!(at_once(&mut world, &plan, 5), 5);
        let mut sixth = world.ask(&plan);
        sixth.wait_until = world.now + Span::from_secs(7_200);
        let sixth = world.acquire(sixth).map_err(|denied| denied.denial).unwrap();
        assert!((at(3_600.0)..at(3_602.0)).contains(&sixth.slot.send_at));
        assert_eq!(&*world.granted.last().unwrap().slot.delays[0].cause.bucket, "requests_hour");
        world.run_for(Span::from_secs(2));
        assert_eq!(at_once(&mut world, &plan, 4), 4);
        let mut eleventh = world.ask(&plan);
        eleventh.wait_until = world.now + Span::from_secs(86_400);
        let denied = world.acquire(eleventh).err().expect("the month is used up");
        assert_eq!(denied.denial.reason, Reason::QuotaExhausted);
        assert!(denied.denial.detail.contains("requests_month"), "{}", denied.denial.detail);
    }
}
