//! Who gets how much, within one class. (Guarantees between classes and shares of tenants come with lanes.)

use std::collections::BTreeMap;

use paceline_core::units::Span;

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
