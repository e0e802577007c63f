//! HE04, WB04, LG02: many of the same, and a service that stood still.

use std::collections::BTreeSet;

use paceline_coordinator::api::{AcquireRequest, Answer};
use paceline_core::units::Span;
use paceline_store::Version;
use paceline_store::codec::{self, Header};

use super::{secs, sent_at_once};
use crate::support::{Look, START, World, answered, ask, labels, limits, target};

/// A hundred calls that differ in their request id only, and when each is sent after a refusal of 5 s.
fn sends(seed: u64) -> Vec<i64> {
    let mut world = World::new(limits("limits: {requests: 6000/min}"), seed);
    let first = world.ask(ask("first"));
    let lease = world.reply(first).grant().lease_id.clone();
    world.report(answered(&lease, 429, &[("retry-after", "5")]));
    world.pass(Span::from_millis(4_500));
    let same =
        |n: usize| AcquireRequest { identity: "worker-0".into(), labels: labels([("host", "node-a")]), ..ask(&n.to_string()) };
    let ids: Vec<u64> = (0..100).map(|n| world.ask(same(n))).collect();
    world.pass(Span::from_millis(900));
    let granted = ids.iter().filter_map(|id| world.replied(*id).map(|reply| (*id, reply)));
    granted.map(|(id, reply)| (world.replied_at(id) + reply.grant().wait - START).as_micros()).collect()
}

/// HE04: workers with the same identity and host: randomness belongs to the grant, so that no two leave at the same instant, and
/// another process draws other numbers (its seed comes from the system, here from the test).
#[test]
fn he04_the_same_identity_is_not_the_same_instant() {
    let (one, other) = (sends(1), sends(2));
    for sends in [&one, &other] {
        assert!(sends.len() >= 20, "{} are sent within half a second", sends.len());
        assert_eq!(sends.iter().collect::<BTreeSet<_>>().len(), sends.len(), "no two at once");
        assert!(sends.iter().all(|send| *send >= 5_000_000));
    }
    assert_ne!(one, other);
}

/// WB04: the service stands still for 30 s with a line, and goes on: one look catches up, nothing is sent beyond what may go back
/// to back, and it does not wake more often than before. (The process's own timers, one of them to be missed: `Delay`.)
#[test]
fn wb04_standing_still_is_caught_up_once() {
    let mut world = World::new(limits("limits: {requests: {limit: 600, per: 1m, burst: 5}}"), 4);
    let patient = |n: usize| AcquireRequest { max_wait: Some(secs(600)), ..ask(&n.to_string()) };
    let ids: Vec<u64> = (0..400).map(|n| world.ask(patient(n))).collect();
    let granted = |world: &World| {
        let replies = ids.iter().filter_map(|id| world.replied(*id));
        replies.filter(|reply| matches!(reply.answer(), Answer::Granted(_))).count()
    };
    // Five back to back, and the next within the horizon.
    assert_eq!(granted(&world), 6);
    // Nobody is woken meanwhile; what is held for a second is long overdue.
    world.now = START + secs(30);
    world.turn(0, &target("m"), Vec::new());
    let caught_up = granted(&world) - 6;
    assert!((1..=5 + 1).contains(&caught_up), "{caught_up} at once after 30 s");
    assert_eq!(world.answers.len(), 400, "one look answers everybody: a slot, or the ticket that was due");
    world.pass(secs(5));
    assert_eq!(world.answers.len(), 400, "and nobody is told anything twice");
}

/// LG02: a million tokens a minute in twenty thousand calls: the value stays as small as it was, whatever was granted from it.
#[test]
fn lg02_state_does_not_grow_with_traffic() {
    let mut world = World::new(limits("limits: {requests: 20000/min, tokens: 1000000/min}"), 5);
    let size = |world: &World| codec::encode(&Header::new(0, Version(1), 0), &world.stored_value(&target(""))).len();
    let mut ids = Vec::new();
    let mut largest = 0;
    for n in 0..6_000 {
        let request = AcquireRequest { cost: crate::support::cost([("requests", 1), ("tokens", 50)]), ..ask(&n.to_string()) };
        let id = world.ask(request);
        ids.push(id);
        let lease = match world.replied(id) {
            Some(reply) => reply.grant().lease_id.clone(),
            None => break,
        };
        world.report(answered(&lease, 200, &[]));
        world.pass(Span::from_millis(3));
        if n > 100 {
            largest = largest.max(size(&world));
        }
    }
    assert_eq!(sent_at_once(&world, &ids), 6_000);
    assert!(largest < 1_024, "{largest} bytes");
}
