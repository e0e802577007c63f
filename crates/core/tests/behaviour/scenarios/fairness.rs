//! Who gets how much: within one class, and between classes. (More of this in `lanes.rs`.)

use std::collections::BTreeMap;

use paceline_core::plan::Class;
use paceline_core::units::Span;

use crate::support::crowd::{Crowd, Demand, Market};
use crate::support::plans::{group, per_minute};
use crate::support::world::{START, World, at};

/// FA01: a hundred workers, 300 a minute, each wants one call at a time for five minutes: nobody gets half as much again as
/// another, and nobody waits twice as long as most.
#[test]
fn fa01_one_at_a_time_is_in_turn() {
    let plan = group(vec![per_minute("requests", 300)]);
    let mut world = World::new(1);
    let mut worker_of = BTreeMap::new();
    let (mut grants, mut seen) = (vec![0_u32; 100], 0);
    for worker in 0..100 {
        let ask = world.ask(&plan);
        worker_of.insert(world.push(ask), worker);
    }
    while world.now < at(300.0) {
        world.run_for(Span::from_millis(100));
        for index in seen..world.granted.len() {
            let worker = worker_of[&world.granted[index].ask.id];
            grants[worker] += 1;
            let ask = world.ask(&plan);
            worker_of.insert(world.push(ask), worker);
        }
        seen = world.granted.len();
    }
    let (least, most) = (grants.iter().min().unwrap(), grants.iter().max().unwrap());
    assert!(f64::from(*most) <= 1.5 * f64::from(*least), "{least} to {most} calls");
    let waits: Vec<f64> =
        world.granted.iter().map(|granted| (granted.slot.send_at - granted.ask.asked_at).as_secs_f64()).collect();
    let mean = waits.iter().sum::<f64>() / waits.len() as f64;
    let longest = waits.iter().copied().fold(0.0, f64::max);
    assert!(longest <= 2.0 * mean, "{longest} s, {mean} s on average");
}

/// FA02: 10,000 tokens a minute, fifty workers that take 100 each without a pause, and one call of 8,000: it claims the bucket
/// when it is its turn, and is sent within two windows.
#[test]
fn fa02_a_large_call_gets_its_turn() {
    let plan = group(vec![per_minute("tokens", 10_000)]);
    let mut world = World::new(2);
    let call = |world: &mut World, tokens: u64| {
        let mut ask = world.ask(&plan);
        ask.cost.set("tokens", tokens);
        world.push(ask)
    };
    let mut large = None;
    while world.now < at(240.0) {
        for _ in world.queue.len()..50 {
            call(&mut world, 100);
        }
        if world.now >= at(60.0) && large.is_none() {
            large = Some(call(&mut world, 8_000));
        }
        world.run_for(Span::from_millis(250));
    }
    let sent = world.granted.iter().find(|granted| Some(granted.ask.id) == large).map(|granted| granted.slot.send_at - START);
    let sent = sent.expect("it is sent");
    assert!(sent <= Span::from_secs(60 + 120), "at {sent}");
    let small = world.granted.iter().filter(|granted| granted.slot.send_at > at(180.0)).count();
    assert!(small >= 90, "and the small ones go on: {small} in the last minute");
}

/// FA03: the bucket is empty, A asks for 9,500 tokens of 10,000 a minute (57 s), then B for 10 with high priority: B goes within
/// seconds, A is not moved for long, and the total stays within the limit.
#[test]
fn fa03_a_small_urgent_call_passes_a_large_one() {
    let plan = group(vec![per_minute("tokens", 10_000)]);
    let mut world = World::new(3);
    let call = |world: &mut World, class: Class, tokens: u64| {
        let mut ask = world.ask(&plan);
        ask.class = class;
        ask.cost.set("tokens", tokens);
        world.push(ask)
    };
    call(&mut world, Class::Normal, 10_000);
    world.run_for(Span::from_millis(100));
    let large = call(&mut world, Class::Normal, 9_500);
    world.run_for(Span::from_secs(1));
    let urgent = call(&mut world, Class::Interactive, 10);
    world.run_for(Span::from_secs(70));
    let sent = |id| world.granted.iter().find(|granted| granted.ask.id == id).expect("granted").slot.send_at;
    assert!(sent(urgent) <= at(3.0), "the urgent one at {}", sent(urgent) - START);
    assert!(sent(large) <= at(60.0), "the large one at {}", sent(large) - START);
    assert!(sent(large) >= at(56.0), "and never sooner than its units are there: {}", sent(large) - START);
    assert!(world.level("tokens") >= 0.0, "the total stays within the limit");
}

/// FA04: high priority asks for 150 % of the limit without end, low for 10 %: low gets its guarantee. Then both ask for all of
/// it: the urgent one gets clearly more, within its share.
#[test]
fn fa04_urgent_work_without_end_leaves_a_guarantee() {
    let plan = group(vec![per_minute("requests", 1_200)]);
    let crowds = vec![
        Crowd::new(&plan, Class::Normal, "x", Demand::PerSecond(30.0)),
        Crowd::new(&plan, Class::Batch, "x", Demand::PerSecond(2.0)),
    ];
    let mut market = Market::new(4, crowds);
    market.run(Span::from_secs(60));
    let from = market.world.now;
    market.run(Span::from_secs(600));
    let calls = market.calls(from);
    assert!(calls[1] >= 0.049 * (calls[0] + calls[1]), "low gets its 5 %: {calls:?}");
    assert!(calls[0] + calls[1] >= 11_900.0, "and nothing is lost: {calls:?}");
    market.demand(0, Demand::Keeps(100));
    market.demand(1, Demand::Keeps(100));
    let from = market.world.now;
    market.run(Span::from_secs(120));
    let calls = market.calls(from);
    assert!(calls[0] > 3.0 * calls[1], "the urgent one gets clearly more: {calls:?}");
    assert!(calls[1] >= 0.049 * (calls[0] + calls[1]), "{calls:?}");
}
