//! Tickets: who may come back with them, what they keep, and how a place ends.

use paceline_coordinator::api::{AcquireRequest, CallError};
use paceline_coordinator::scope::Input;
use paceline_core::denial::Reason;
use paceline_core::queue::MOST_WAITING_IN_GROUP;
use paceline_core::units::Span;

use crate::support::{Look, World, ask, back, error, limits, target};

const SLOW: &str = "limits: {requests: {limit: 6, per: 1m, burst: 1}}";

fn secs(secs: i64) -> Span {
    Span::from_secs(secs)
}

/// A call that was told to come back, in a world where nobody else is.
fn away(world: &mut World, name: &str) -> (AcquireRequest, paceline_coordinator::api::Queued) {
    let request = ask(name);
    let id = world.ask(AcquireRequest { hold: Span::ZERO, ..request.clone() });
    let queued = world.reply(id).queued().clone();
    (request, queued)
}

#[test]
fn a_ticket_keeps_its_place_on_any_replica() {
    let mut world = World::new(limits(SLOW), 1);
    world.ask(ask("A"));
    let (b, ticket) = away(&mut world, "B");
    world.pass(secs(1));
    let later = world.ask_at(1, AcquireRequest { hold: Span::ZERO, ..ask("C") }).unwrap();
    let c_ticket = world.reply(later).queued().clone();
    let c = world.ask_at(1, back(&ask("C"), &c_ticket, secs(60))).unwrap();
    world.pass(secs(1));
    let b = world.ask_at(1, back(&b, &ticket, secs(60))).unwrap();
    world.pass(secs(60));
    assert!(world.replied_at(b) < world.replied_at(c), "B came first, wherever it comes back");
    assert!(!world.reply(b).grant().place_lost);
    assert_eq!(paceline_core::delays::total(&world.reply(b).grant().delays), secs(10), "and its wait is told whole");
}

#[test]
fn tickets_of_others_and_forged_ones_are_mistakes() {
    let mut world = World::new(limits(SLOW), 2);
    world.ask(ask("A"));
    let (_, mut ticket) = away(&mut world, "B");
    for other in [ask("C"), AcquireRequest { attempt: 2, ..ask("B") }, AcquireRequest { tenant: "ads".into(), ..ask("B") }] {
        let refused = world.ask_at(0, back(&other, &ticket, secs(1))).unwrap_err();
        assert!(matches!(refused, CallError::Invalid { field: "ticket", problem } if problem.contains("another call")));
    }
    let last = ticket.ticket.len() - 1;
    ticket.ticket[last] ^= 1;
    let refused = world.ask_at(0, back(&ask("B"), &ticket, secs(1))).unwrap_err();
    assert!(matches!(refused, CallError::Invalid { field: "ticket", .. }));
    assert!(world.release_ticket(0, &ticket.ticket).is_err());
}

#[test]
fn a_ticket_signed_with_a_key_that_is_gone_has_lost_its_place() {
    let mut before = World::new(limits(SLOW), 3);
    before.ask(ask("A"));
    let (b, ticket) = away(&mut before, "B");
    let mut world = World::after_restart(limits(SLOW), 3);
    world.ask(ask("A"));
    let id = world.ask(back(&b, &ticket, Span::ZERO));
    assert!(world.reply(id).queued().place_lost);
    let free = world.ask(back(&AcquireRequest { target: target("other"), ..b }, &ticket, Span::ZERO));
    assert!(world.reply(free).grant().place_lost);
}

#[test]
fn a_place_is_given_back_once() {
    let mut world = World::new(limits(SLOW), 4);
    world.ask(ask("A"));
    let (_, ticket) = away(&mut world, "B");
    let (_, behind) = away(&mut world, "C");
    assert_eq!(behind.ahead, 1);
    for expected in [true, false] {
        let id = world.release_ticket(0, &ticket.ticket).unwrap();
        assert_eq!(*world.reply(id), paceline_coordinator::scope::Reply::Released(expected));
    }
    let (_, last) = away(&mut world, "D");
    assert_eq!(last.ahead, 1, "only C is before D now");
}

#[test]
fn whoever_is_held_on_a_place_that_is_given_back_is_let_go() {
    let mut world = World::new(limits(SLOW), 5);
    world.ask(ask("A"));
    let (b, ticket) = away(&mut world, "B");
    let held = world.ask(back(&b, &ticket, secs(60)));
    let id = world.release_ticket(0, &ticket.ticket).unwrap();
    assert_eq!(*world.reply(id), paceline_coordinator::scope::Reply::Released(true));
    world.reply(held).queued();
    let (_, behind) = away(&mut world, "C");
    assert_eq!(behind.ahead, 0);
}

#[test]
fn a_place_that_was_granted_meanwhile_gives_the_reservation_back() {
    let mut world = World::new(limits("concurrency: 1"), 6);
    let asked = world.ask(ask("A"));
    let lease = world.reply(asked).grant().lease_id.clone();
    let (b, ticket) = away(&mut world, "B");
    let held = world.ask(back(&b, &ticket, secs(60)));
    world.release_lease(0, &lease).unwrap();
    world.reply(held).grant();
    // The grant got lost on its way; the worker knows its ticket only.
    let id = world.release_ticket(0, &ticket.ticket).unwrap();
    assert_eq!(*world.reply(id), paceline_coordinator::scope::Reply::Released(true));
    let next = world.ask(ask("C"));
    world.reply(next).grant();
}

#[test]
fn who_leaves_without_a_word_is_forgotten() {
    let mut world = World::new(limits(SLOW), 7);
    world.ask(ask("A"));
    let gone = world.ask(ask("B"));
    let (_, behind) = away(&mut world, "C");
    assert_eq!(behind.ahead, 1);
    world.leave(0, &target("m"), gone);
    let (_, last) = away(&mut world, "D");
    assert_eq!(last.ahead, 1);
    world.pass(secs(600));
    assert!(world.replied(gone).is_none());
}

#[test]
fn draining_hands_out_tickets_and_goes_on_granting() {
    let mut world = World::new(limits(SLOW), 8);
    let asked = world.ask(ask("A"));
    let lease = world.reply(asked).grant().lease_id.clone();
    let held: Vec<u64> = ["B", "C", "D"].map(|name| world.ask(ask(name))).to_vec();
    world.tell_all(0, || Input::Drain);
    for (ahead, id) in (0..).zip(held) {
        let queued = world.reply(id).queued();
        assert_eq!((queued.ahead, queued.come_back_in), (ahead, Span::ZERO), "another replica takes them at once");
    }
    let late = world.ask(ask("E"));
    world.reply(late).queued();
    world.release_lease(0, &lease).unwrap();
    let free = world.ask(ask("F"));
    world.reply(free).grant();
}

#[test]
fn the_ten_thousand_and_first_is_refused() {
    let mut world = World::new(limits("limits: {requests: {limit: 1, per: 1h}}"), 9);
    let request = |n: usize| AcquireRequest { max_wait: Some(secs(1_000_000_000)), ..ask(&n.to_string()) };
    world.ask(request(0));
    let inputs = |n: usize| request(n);
    for n in 1..=MOST_WAITING_IN_GROUP {
        world.ask(inputs(n));
    }
    assert_eq!(world.scope(0).queue().len(), MOST_WAITING_IN_GROUP);
    let id = world.ask(request(MOST_WAITING_IN_GROUP + 1));
    assert_eq!(world.reply(id).reason(), Reason::QueueFull);
    assert_eq!(world.reply(id).denied().denial.retry_after, Some(secs(1)));
    let elsewhere = world.ask(AcquireRequest { target: target("other"), ..ask("elsewhere") });
    world.reply(elsewhere).grant();
    // A second ask of one that waits is not one more.
    let again = world.ask(request(1));
    assert!(world.replied(again).is_none());
}

#[test]
fn a_lease_is_not_given_back_by_the_ticket_of_another_place() {
    let mut world = World::new(limits(SLOW), 10);
    world.ask(ask("A"));
    let (b, first) = away(&mut world, "B");
    world.release_ticket(0, &first.ticket).unwrap();
    let id = world.ask(AcquireRequest { hold: Span::ZERO, ..b.clone() });
    let second = world.reply(id).queued().clone();
    let held = world.ask(back(&b, &second, secs(60)));
    world.pass(secs(10));
    world.reply(held).grant();
    let id = world.release_ticket(0, &first.ticket).unwrap();
    assert_eq!(*world.reply(id), paceline_coordinator::scope::Reply::Released(false));
    let again = world.ask(AcquireRequest { cost: crate::support::cost([("requests", 2)]), ..b });
    error(world.reply(again));
}
