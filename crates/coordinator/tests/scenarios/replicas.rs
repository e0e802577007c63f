//! HM08, AT02, AT03, PR04: several replicas over one store, decided by compare-and-swap. (Redis as the store, and replicas that
//! die between two steps, come with it. There is nothing between charging one bucket and the next: a scope is one value.)

use paceline_coordinator::api::{AcquireRequest, Answer};
use paceline_core::units::Span;

use super::{secs, sent_at_once};
use crate::support::{Look, World, answered, ask, limits, settings, target};

/// HM08: a hundred left and 50 s to the reset, ten workers in a loop on two replicas: together they send no more than those.
#[test]
fn hm08_the_fleet_spends_what_is_left_once() {
    let mut world = World::new(limits("limits: {requests: {limit: 200, per: 60s, refill: window}}"), 1);
    let first = world.ask(ask("first"));
    let lease = world.reply(first).grant().lease_id.clone();
    let left = [("x-ratelimit-limit", "200"), ("x-ratelimit-remaining", "100"), ("x-ratelimit-reset", "50")];
    world.report(answered(&lease, 200, &left));
    let (began, mut sent, mut workers) = (world.now, 0, vec![None; 10]);
    let mut calls = 0;
    while world.now < began + Span::from_millis(49_900) {
        for (worker, slot) in workers.iter_mut().enumerate() {
            let replica = worker % 2;
            if let Some(id) = *slot {
                let Some(reply) = world.replied(id) else { continue };
                *slot = None;
                if let Answer::Granted(grant) = reply.answer() {
                    sent += usize::from(world.replied_at(id) + grant.wait < began + secs(50));
                    let done = answered(&grant.lease_id.clone(), 200, &[]);
                    world.report_at(replica, done).unwrap();
                }
            }
            calls += 1;
            let request = AcquireRequest { max_wait: Some(secs(600)), ..ask(&format!("call {calls}")) };
            *slot = Some(world.ask_at(replica, request).unwrap());
        }
        world.pass(Span::from_millis(100));
    }
    assert!((95..=100).contains(&sent), "{sent} of the hundred that were left");
}

/// AT02: a limit of the account and one of each model: one call, charged in both or in neither, whichever replica decides, also
/// while commits are refused.
#[test]
fn at02_all_buckets_or_none() {
    let yaml = "providers: {acme: {extends: generic, start_level: full, accounts: {prod: {\
                limits: {requests: {limit: 100, per: 1h}}, \
                models: {a: {limits: {tokens: {limit: 1000, per: 1h}}}, b: {limits: {tokens: {limit: 1000, per: 1h}}}}}}}}";
    let mut world = World::new(settings(yaml), 2);
    let mut ids = Vec::new();
    for n in 0..200_usize {
        if n % 7 == 0 {
            world.refuse = 2;
        }
        let request = AcquireRequest {
            target: target(if n % 3 == 0 { "a" } else { "b" }),
            cost: crate::support::cost([("requests", 1), ("tokens", 10)]),
            hold: Span::ZERO,
            max_wait: Some(secs(36_000)),
            ..ask(&n.to_string())
        };
        ids.push(world.ask_at(n % 2, request).unwrap());
    }
    // 67 calls of a, 133 of b: until the account's hundred are gone.
    assert_eq!(sent_at_once(&world, &ids), 100);
    let value = world.stored_value(&target(""));
    let taken = |meter: &str| -> u64 {
        let limited = value.buckets.iter().filter(|bucket| &*bucket.plan.meter == meter && bucket.plan.limit.is_some());
        limited.map(|bucket| bucket.plan.limit.unwrap() - bucket.level_at(world.now).unwrap().as_units_floor()).sum()
    };
    assert_eq!((taken("requests"), taken("tokens")), (100, 1_000), "no token for a call that the account had no room for");
}

/// AT03: capacity one, 64 asks at once on two replicas: exactly one slot in each of many rounds.
#[test]
fn at03_one_slot_is_one_slot() {
    let mut world = World::new(limits("limits: {requests: {limit: 1, per: 1m}}"), 3);
    for round in 0..50 {
        let ids: Vec<u64> = (0..64_usize)
            .map(|n| {
                world.refuse = u32::from(n % 5 == 0);
                world.ask_at(n % 2, AcquireRequest { hold: Span::ZERO, ..ask(&format!("{round}-{n}")) }).unwrap()
            })
            .collect();
        assert_eq!(sent_at_once(&world, &ids), 1, "round {round}");
        // Tickets that nobody comes back with are forgotten.
        world.pass(secs(180));
    }
}

/// PR04: three replicas that are asked a thousand times a second together, 2,000 a minute: whatever a turn decides about is committed
/// as one, and no replica has a share of its own, so nothing goes beyond the limit.
#[test]
fn pr04_replicas_under_load_do_not_overshoot() {
    let mut world = World::new(limits("limits: {requests: 2000/min}"), 4);
    let began = world.now;
    for n in 0..5_000_usize {
        world.refuse = u32::from(n % 11 == 0);
        let request = AcquireRequest { max_wait: Some(Span::ZERO), hold: Span::ZERO, ..ask(&n.to_string()) };
        world.ask_at(n % 3, request).unwrap();
        world.pass(Span::from_millis(1));
    }
    let granted = world.answers.iter().filter(|answered| matches!(answered.reply.answer(), Answer::Granted(_))).count();
    // A full bucket and what refills in five seconds.
    let most = 2_000 + usize::try_from((world.now - began).as_micros() * 2_000 / 60_000_000).unwrap();
    assert!((most - 5..=most).contains(&granted), "{granted} of {most}");
}
