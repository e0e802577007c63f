//! Deadlines, `max_wait`, `hold`, and costs that are not stated.

use paceline_coordinator::api::AcquireRequest;
use paceline_core::denial::Reason;
use paceline_core::plan::Class;
use paceline_core::units::Span;

use crate::support::{Look, World, ask, back, cost, limits};

const SLOW: &str = "limits: {requests: {limit: 6, per: 1m, burst: 1}}";

fn secs(secs: i64) -> Span {
    Span::from_secs(secs)
}

#[test]
fn what_cannot_be_in_time_is_refused_at_once_and_costs_nothing() {
    // RL09: deadline 0, deadline shorter than the wait.
    let mut world = World::new(limits(SLOW), 1);
    let first = world.ask(ask("A"));
    let before = world.stored_value(&world.reply(first).grant().target.clone());
    for (deadline, max_wait, word) in [
        (Some(Span::ZERO), None, "deadline"),
        (Some(Span::from_millis(100)), None, "deadline"),
        (None, Some(Span::from_millis(100)), "max_wait"),
        (Some(secs(5)), Some(secs(4)), "max_wait"),
    ] {
        let id = world.ask(AcquireRequest { deadline, max_wait, ..ask("B") });
        assert_eq!(world.reply(id).reason(), Reason::Deadline);
        assert!(world.reply(id).denied().denial.detail.contains(word), "{}", world.reply(id).denied().denial.detail);
        assert_eq!(world.scope(0).queue().len(), 0);
    }
    assert_eq!(world.stored_value(&crate::support::target("m")), before);
    // The hint: what another deadline would have had to be.
    let id = world.ask(AcquireRequest { deadline: Some(secs(5)), ..ask("C") });
    assert_eq!(world.reply(id).denied().denial.retry_after, Some(secs(10)));
}

#[test]
fn a_deadline_of_zero_is_refused_even_when_a_slot_is_free() {
    let mut world = World::new(limits(SLOW), 2);
    let id = world.ask(AcquireRequest { deadline: Some(Span::ZERO), ..ask("A") });
    assert_eq!(world.reply(id).reason(), Reason::Deadline);
}

#[test]
fn a_wait_that_gets_too_long_ends_when_that_is_known() {
    let mut world = World::new(limits(SLOW), 3);
    world.ask(ask("A"));
    // Alone it would be in time; behind B it is not, and is told at its bound.
    let ahead = world.ask(AcquireRequest { hold: Span::ZERO, ..ask("B") });
    world.ask(back(&ask("B"), &world.reply(ahead).queued().clone(), secs(60)));
    let request = AcquireRequest { max_wait: Some(secs(15)), ..ask("C") };
    let behind = world.ask(AcquireRequest { hold: Span::ZERO, ..request.clone() });
    let held = world.ask(back(&request, &world.reply(behind).queued().clone(), secs(60)));
    world.pass(secs(60));
    assert_eq!(world.reply(held).reason(), Reason::Deadline);
    assert!(world.replied_at(held) - crate::support::START <= secs(15) + Span::from_millis(1));
    assert_eq!(
        paceline_core::delays::total(&world.reply(held).denied().delays),
        world.replied_at(held) - crate::support::START
    );
}

#[test]
fn an_ask_without_a_ticket_is_held_a_second_one_with_a_ticket_as_long_as_it_likes() {
    let mut world = World::new(limits("limits: {requests: {limit: 1, per: 1h}}"), 4);
    let request = AcquireRequest { class: Class::Batch, max_wait: Some(secs(10_000)), ..ask("B") };
    world.ask(ask("A"));
    for (hold, held_for) in [(secs(30), secs(1)), (Span::from_millis(300), Span::from_millis(300)), (Span::ZERO, Span::ZERO)] {
        let start = world.now;
        let id = world.ask(AcquireRequest { request_id: format!("{hold}"), hold, ..request.clone() });
        world.pass(secs(60));
        assert_eq!(world.replied_at(id) - start, held_for);
        let with_ticket = AcquireRequest { request_id: format!("{hold}"), ..request.clone() };
        let start = world.now;
        let again = world.ask(back(&with_ticket, &world.reply(id).queued().clone(), hold));
        world.pass(secs(60));
        assert_eq!(world.replied_at(again) - start, hold);
    }
}

#[test]
fn classes_bound_what_is_not_bounded() {
    // The bucket is empty for 30 s.
    for (class, is_refused) in [(Class::Interactive, true), (Class::Normal, false), (Class::Batch, false)] {
        let mut world = World::new(limits("limits: {requests: {limit: 2, per: 1m, burst: 1}}"), 5);
        world.ask(ask("A"));
        let id = world.ask(AcquireRequest { class, hold: Span::ZERO, ..ask("B") });
        if is_refused {
            assert_eq!(world.reply(id).reason(), Reason::Deadline);
        } else {
            world.reply(id).queued();
        }
    }
}

#[test]
fn a_cost_that_is_not_stated_is_guessed_never_nothing_and_never_everything() {
    // TE05, ten at once.
    let mut world = World::new(limits("limits: {tokens: 1000/min}"), 6);
    for n in 0..10 {
        let id = world.ask(ask(&n.to_string()));
        let grant = world.reply(id).grant();
        assert!((1..=500).contains(&grant.reserved["tokens"]), "{:?}", grant.reserved);
        assert_eq!(grant.estimated, ["tokens"]);
    }
    // What calls turn out to cost is what the next one is thought to cost.
    let mut world = World::new(limits("limits: {tokens: 1000/min}"), 7);
    for n in 0..40 {
        let id = world.ask(AcquireRequest { hold: secs(1), ..ask(&format!("learn {n}")) });
        let lease = world.reply(id).grant().lease_id.clone();
        world.report(paceline_coordinator::api::ReportRequest {
            usage: cost([("tokens", 77)]),
            ..crate::support::answered(&lease, 200, &[])
        });
        world.pass(secs(10));
    }
    let id = world.ask(ask("next"));
    assert!((70..=77).contains(&world.reply(id).grant().reserved["tokens"]), "{:?}", world.reply(id).grant().reserved);
}
