//! The same key again: never a second place, never a second charge.

use paceline_coordinator::api::CallError;
use paceline_coordinator::scope::Scope;
use paceline_core::delays;
use paceline_core::units::Span;
use paceline_core::value::ScopeValue;

use crate::support::{Look, World, answered, ask, back, cost, error, limits, report};
use paceline_coordinator::api::AcquireRequest;
use paceline_core::report::Outcome;

/// One call every ten seconds, none back to back.
const SLOW: &str = "limits: {requests: {limit: 6, per: 1m, burst: 1}}";

fn secs(secs: i64) -> Span {
    Span::from_secs(secs)
}

#[test]
fn a_second_ask_replaces_the_one_that_waits_and_takes_over_its_place() {
    let mut world = World::new(limits(SLOW), 1);
    world.ask(ask("A"));
    let first = world.ask(ask("B"));
    let other = world.ask(ask("C"));
    world.pass(Span::from_millis(500));
    let second = world.ask(ask("B"));
    assert_eq!(world.reply(first).queued().ahead, 0, "the first is let go with a ticket at once");
    world.pass(secs(1));
    assert_eq!(world.reply(other).queued().ahead, 1, "C is behind B still");
    let queued = world.reply(second).queued().clone();
    assert_eq!(queued.ahead, 0);
    assert_eq!(delays::total(&queued.delays), Span::from_millis(1_500), "the wait goes on");
    let held = world.ask(back(&ask("B"), &queued, secs(60)));
    world.pass(secs(60));
    assert_eq!(delays::total(&world.reply(held).grant().delays), secs(10));
}

#[test]
fn a_granted_key_gives_the_same_lease_with_its_wait_counted_down_and_charges_once() {
    let mut world = World::new(limits(SLOW), 2);
    world.ask(ask("A"));
    let asked = world.ask(ask("B"));
    world.pass(secs(1));
    let held = world.ask(back(&ask("B"), &world.reply(asked).queued().clone(), secs(60)));
    world.pass(Span::from_millis(8_950));
    let grant = world.reply(held).grant().clone();
    let charged = world.stored_value(&grant.target);
    let again = world.ask(ask("B"));
    let repeated = world.reply(again).grant();
    assert_eq!(repeated.lease_id, grant.lease_id);
    assert_eq!((grant.wait, repeated.wait), (Span::from_millis(100), Span::from_millis(50)));
    assert_eq!(repeated.delays, grant.delays);
    // Nothing but the commit that notes that it was told again.
    let now = world.stored_value(&grant.target);
    assert_eq!(ScopeValue { lineage: charged.lineage.clone(), ..now }, charged);
}

#[test]
fn a_missed_slot_is_released_and_asked_for_anew_in_the_old_place() {
    let mut world = World::new(limits("concurrency: 1, limits: {tokens: 1000/min}"), 3);
    let request = AcquireRequest { cost: cost([("tokens", 1_000)]), ..ask("A") };
    let asked = world.ask(request.clone());
    let missed = world.reply(asked).grant().lease_id.clone();
    let behind = world.ask(ask("B"));
    world.pass(secs(2));
    let still = world.ask(request.clone());
    assert_eq!(world.reply(still).grant().lease_id, missed, "it can be used for two seconds");
    world.pass(Span::from_millis(1));
    let anew = world.ask(request.clone());
    let lease = world.reply(anew).grant().lease_id.clone();
    assert_ne!(lease, missed, "all tokens and the place came back, and nobody was let past");
    assert!(world.replied(behind).is_some_and(|reply| !reply.queued().ticket.is_empty()));
    let late = world.report(answered(&missed, 200, &[]));
    assert!(crate::support::reported(world.reply(late)).not_applied.is_some(), "the old lease is over");
}

#[test]
fn a_missed_slot_asked_for_with_its_ticket_counts_its_wait_once() {
    let mut world = World::new(limits(SLOW), 4);
    world.ask(ask("A"));
    let request = AcquireRequest { max_wait: Some(secs(21)), ..ask("B") };
    let asked = world.ask(request.clone());
    world.pass(secs(1));
    let ticket = world.reply(asked).queued().clone();
    world.ask(back(&request, &ticket, secs(60)));
    world.pass(secs(12)); // sent at 10 s at the latest usable at 12 s
    let behind = world.ask(ask("C")); // what came back meanwhile is C's
    world.pass(Span::from_millis(500));
    let again = world.ask(back(&request, &ticket, secs(60)));
    world.pass(secs(60));
    assert_eq!(world.reply(again).grant().wait, Span::ZERO);
    assert!(delays::total(&world.reply(again).grant().delays) <= secs(1), "{:?}", world.reply(again).grant().delays);
    assert!(world.replied(behind).is_some());
}

#[test]
fn a_lease_that_ended_by_itself_is_not_refunded_when_its_key_comes_again() {
    let mut world = World::new(limits("limits: {tokens: {limit: 100, per: 1h}}"), 5);
    let request =
        AcquireRequest { cost: cost([("tokens", 60)]), run_time: Some(secs(5)), max_wait: Some(secs(3_600)), ..ask("A") };
    let asked = world.ask(request.clone());
    world.reply(asked).grant();
    world.pass(secs(30));
    let held = world.ask(AcquireRequest { hold: Span::ZERO, ..request });
    let queued = world.reply(held).queued();
    assert!(queued.estimated_wait > secs(600), "40 are left, 60 are needed: {}", queued.estimated_wait);
    assert_eq!(world.level("tokens"), 40);
}

#[test]
fn a_key_means_one_call() {
    let mut world = World::new(limits("limits: {requests: {limit: 60, per: 1m, burst: 1}}"), 6);
    let granted = world.ask(ask("A"));
    let lease = world.reply(granted).grant().lease_id.clone();
    let waits = world.ask(ask("B"));
    for name in ["A", "B"] {
        let id = world.ask(AcquireRequest { cost: cost([("requests", 2)]), ..ask(name) });
        assert!(matches!(error(world.reply(id)), CallError::AlreadyExists(why) if why.contains("another cost")));
    }
    assert!(world.replied(waits).is_none(), "the mistake does not touch the call that waits");
    // Who asks, for whom, and which attempt are parts of the key.
    for other in [
        AcquireRequest { identity: "someone".into(), ..ask("A") },
        AcquireRequest { tenant: "ads".into(), ..ask("A") },
        AcquireRequest { attempt: 2, ..ask("A") },
    ] {
        let id = world.ask(AcquireRequest { hold: Span::ZERO, ..other });
        world.reply(id).queued();
    }
    world.report(report(&lease, 1, Outcome::Running));
    let id = world.ask(ask("A"));
    assert!(matches!(error(world.reply(id)), CallError::AlreadyExists(why) if why.contains("running")));
    world.report(crate::support::answered_as(&lease, 2, 200));
    let id = world.ask(ask("A"));
    assert!(matches!(error(world.reply(id)), CallError::AlreadyExists(why) if why.contains("attempt 2")));
}

#[test]
fn a_key_that_was_given_back_can_be_asked_for_again() {
    let mut world = World::new(limits(SLOW), 7);
    let first = world.ask(ask("A"));
    let lease = world.reply(first).grant().lease_id.clone();
    world.release_lease(0, &lease).unwrap();
    let second = world.ask(ask("A"));
    let lease = world.reply(second).grant().lease_id.clone();
    world.release_lease(0, &lease).unwrap();
    let between = world.ask(ask("B"));
    world.reply(between).grant();
    // It is granted in a later step than it was asked for in, on a replica that has not seen it.
    world.put_away(0);
    let waits = world.ask(ask("A"));
    world.pass(secs(1));
    let held = world.ask(back(&ask("A"), &world.reply(waits).queued().clone(), secs(60)));
    world.pass(secs(60));
    world.reply(held).grant();
}

#[test]
fn a_granted_key_is_the_same_lease_on_every_replica() {
    let mut world = World::new(limits("limits: {requests: 60/min}"), 8);
    let here = world.ask_at(0, ask("A")).unwrap();
    let there = world.ask_at(1, ask("A")).unwrap();
    assert_eq!(world.reply(here).grant().lease_id, world.reply(there).grant().lease_id);
}

#[test]
fn a_key_granted_elsewhere_while_it_waits_here_gets_that_lease() {
    let mut world = World::new(limits("concurrency: 1"), 9);
    let asked = world.ask_at(0, ask("A")).unwrap();
    let lease = world.reply(asked).grant().lease_id.clone();
    let here = world.ask_at(0, ask("B")).unwrap();
    let there = world.ask_at(1, ask("B")).unwrap();
    world.release_lease(1, &lease).unwrap();
    let lease = world.reply(there).grant().lease_id.clone();
    world.pass(secs(2));
    assert!(world.replied(here).is_some(), "a ticket, as nobody told this replica");
    let again = world.ask_at(0, back(&ask("B"), &world.reply(here).queued().clone(), secs(60))).unwrap();
    assert_eq!(world.reply(again).grant().lease_id, lease);
}

#[test]
fn two_replicas_that_grant_a_key_at_once_grant_it_once() {
    let mut world = World::new(limits("concurrency: 3, limits: {requests: 600/min}"), 10);
    let first = world.ask(ask("A"));
    let lease = world.reply(first).grant().lease_id.clone();
    world.report(answered(&lease, 429, &[("retry-after", "1")]));
    // There is room for it on both when the floor ends.
    let here = world.ask_at(0, ask("B")).unwrap();
    let there = world.ask_at(1, ask("B")).unwrap();
    world.pass(secs(1));
    let leases = [here, there].map(|id| world.reply(id).grant().lease_id.clone());
    assert_eq!(leases[0], leases[1], "one is granted by its replica, the other meets the record");
    assert_eq!(world.level("concurrency"), 2);
}

/// Whether the grant of a fresh call must find no record of its key.
fn looks_for_strangers(scope: &mut Scope, world: &mut World, name: &str) -> bool {
    let input = world.input(ask(name));
    let fx = scope.step(vec![input], world.now, &mut rand::rng());
    fx.records.iter().any(|change| change.must_be_new)
}

#[test]
fn a_replica_looks_for_what_others_granted_until_all_of_that_is_over() {
    let mut world = World::new(limits("limits: {requests: 1M/s}"), 9);
    let mut scope = world.new_scope();
    assert!(looks_for_strangers(&mut scope, &mut world, "nothing is known yet"));
    scope.begins_without_records();
    assert!(!looks_for_strangers(&mut scope, &mut world, "there are none"));
    let value = scope.value().clone();
    scope.adopt(value, world.now);
    assert!(looks_for_strangers(&mut scope, &mut world, "another one wrote"));
    world.now = world.now + secs(3_599);
    assert!(looks_for_strangers(&mut scope, &mut world, "its longest records are there still"));
    world.now = world.now + secs(1);
    assert!(!looks_for_strangers(&mut scope, &mut world, "they are not"));
}
