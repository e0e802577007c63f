//! Changes under way: refused commits, a reload, a scope that is put away.

use paceline_coordinator::api::{AcquireRequest, ReportRequest, RetryAsk};
use paceline_coordinator::scope::Input;
use paceline_core::delays;
use paceline_core::denial::Reason;
use paceline_core::retry::Verdict;
use paceline_core::units::Span;

use crate::support::{Look, START, World, answered, ask, back, cost, limits, reported, with_retry};

const SLOW: &str = "limits: {requests: {limit: 6, per: 1m, burst: 1}}";

fn secs(secs: i64) -> Span {
    Span::from_secs(secs)
}

#[test]
fn a_grant_whose_commit_is_refused_is_decided_anew() {
    let mut world = World::new(limits(SLOW), 1);
    world.refuse = 3;
    let id = world.ask(ask("A"));
    assert_eq!(world.reply(id).grant().wait, Span::ZERO);
    let waits = world.ask(ask("B"));
    world.pass(secs(1));
    let held = world.ask(back(&ask("B"), &world.reply(waits).queued().clone(), secs(60)));
    world.refuse = 2;
    world.pass(secs(20));
    let grant = world.reply(held).grant();
    assert_eq!(delays::total(&grant.delays), secs(10), "{:?}", grant.delays);
    assert_eq!(grant.delays.len(), 1, "it waited for its bucket and for nothing else: {:?}", grant.delays);
    assert_eq!(world.scope(0).in_flight_by_class(world.now), [0, 2, 0], "two calls run, however often that was decided");
}

#[test]
fn another_replicas_grant_in_between_takes_the_unit() {
    let mut world = World::new(limits(SLOW), 2);
    // Both have read the scope before either writes.
    for replica in [0, 1] {
        let id = world.ask_at(replica, AcquireRequest { deadline: Some(Span::ZERO), ..ask("look") }).unwrap();
        world.reply(id).denied();
    }
    let first = world.ask_at(0, ask("A")).unwrap();
    let second = world.ask_at(1, ask("B")).unwrap();
    world.reply(first).grant();
    assert!(world.replied(second).is_none(), "it waits for the next one");
    world.pass(secs(1));
    let held = world.ask_at(1, back(&ask("B"), &world.reply(second).queued().clone(), secs(60))).unwrap();
    world.pass(secs(60));
    assert_eq!(delays::total(&world.reply(held).grant().delays), secs(10));
}

#[test]
fn a_report_whose_commit_is_refused_counts_once_and_asks_once() {
    let mut world = World::new(limits("limits: {requests: {limit: 100, per: 1h, burst: 2}}"), 3);
    let asked = world.ask(ask("A"));
    let lease = world.reply(asked).grant().lease_id.clone();
    world.refuse = 4;
    let id = world.report(with_retry(answered(&lease, 429, &[("retry-after", "5")])));
    assert!(world.replied(id).is_none(), "its next attempt waits");
    assert_eq!(world.scope(0).queue().len(), 1);
    world.pass(secs(1));
    let answer = reported(world.reply(id));
    assert_eq!((answer.not_applied, answer.verdict), (None, Some(Verdict::Retry)));
    answer.next.as_ref().expect("an answer").queued();
    let again = world.report(with_retry(answered(&lease, 429, &[("retry-after", "5")])));
    assert!(reported(world.reply(again)).not_applied.is_some());
}

#[test]
fn a_retry_denied_in_the_same_step_waits_for_the_reports_commit() {
    let mut world = World::new(limits("limits: {requests: {limit: 100, per: 1h, burst: 2}}"), 4);
    let asked = world.ask(ask("A"));
    let lease = world.reply(asked).grant().lease_id.clone();
    world.refuse = 2;
    let retry = RetryAsk { cost: cost([("requests", 1_000)]), ..RetryAsk::default() };
    let id = world.report(ReportRequest { retry: Some(retry), ..answered(&lease, 429, &[("retry-after", "5")]) });
    let answer = reported(world.reply(id));
    assert_eq!((answer.not_applied, answer.verdict), (None, Some(Verdict::Retry)));
    let next = answer.next.as_ref().expect("an answer");
    assert_eq!(next.reason(), Reason::CostExceedsCapacity);
    assert_eq!(world.scope(0).queue().len(), 0);
}

#[test]
fn a_release_whose_commit_is_refused_frees_its_place() {
    let mut world = World::new(limits("concurrency: 1"), 5);
    let asked = world.ask(ask("A"));
    let lease = world.reply(asked).grant().lease_id.clone();
    world.refuse = 1;
    world.release_lease(0, &lease).unwrap();
    let next = world.ask(ask("B"));
    world.reply(next).grant();
}

#[test]
fn a_missed_slot_asked_for_while_commits_are_refused_is_one_slot() {
    let mut world = World::new(limits(SLOW), 6);
    let asked = world.ask(ask("A"));
    let lease = world.reply(asked).grant().lease_id.clone();
    world.pass(secs(3));
    world.refuse = 3;
    let again = world.ask(ask("A"));
    assert_ne!(world.reply(again).grant().lease_id, lease);
    assert_eq!(world.scope(0).in_flight_by_class(world.now), [0, 1, 0]);
    let next = world.ask(AcquireRequest { hold: Span::ZERO, ..ask("B") });
    assert_eq!(world.reply(next).queued().estimated_wait, secs(10));
}

/// What a fleet is told: each call's answer, in order.
fn told(reload: bool) -> Vec<String> {
    let settings = limits("limits: {requests: {limit: 60, per: 1m, burst: 5}, tokens: 6000/min}");
    let mut world = World::new(settings.clone(), 7);
    let mut waiting = Vec::new();
    for n in 0..60 {
        let request = AcquireRequest { cost: cost([("tokens", 50 + n % 7 * 20)]), ..ask(&n.to_string()) };
        let id = world.ask(AcquireRequest { hold: Span::ZERO, ..request.clone() });
        if let paceline_coordinator::api::Answer::Queued(queued) = world.reply(id).answer().clone() {
            waiting.push(world.ask(back(&request, &queued, secs(200))));
        }
        world.pass(Span::from_millis(137));
        if reload {
            world.tell_all(0, || Input::Settings(settings.clone()));
        }
    }
    for _ in 0..100 {
        world.pass(secs(1));
        if reload {
            world.tell_all(0, || Input::Settings(settings.clone()));
        }
    }
    waiting.iter().map(|id| format!("{} {:?}", world.replied_at(*id) - START, world.reply(*id).grant().wait)).collect()
}

#[test]
fn reloading_the_same_configuration_changes_nothing() {
    // LC02, at the limit, with a line.
    assert_eq!(told(false), told(true));
}

#[test]
fn a_reload_keeps_places_and_never_refills() {
    let mut world = World::new(limits(SLOW), 8);
    world.ask(ask("A"));
    let first = world.ask(AcquireRequest { hold: Span::ZERO, ..ask("B") });
    let first = world.ask(back(&ask("B"), &world.reply(first).queued().clone(), secs(100)));
    world.pass(secs(1));
    let second = world.ask(AcquireRequest { hold: Span::ZERO, ..ask("C") });
    let second = world.ask(back(&ask("C"), &world.reply(second).queued().clone(), secs(100)));
    // Twelve a minute from now on: the next unit is half there, the rest of it takes 2.5 s.
    world.pass(secs(4));
    let faster = limits("limits: {requests: {limit: 12, per: 1m, burst: 1}}");
    world.settings = faster.clone();
    world.tell_all(0, || Input::Settings(faster.clone()));
    assert!(world.replied(first).is_none(), "nothing is there yet");
    world.pass(secs(60));
    let sent = |id| delays::total(&world.reply(id).grant().delays);
    assert_eq!(sent(first), Span::from_millis(7_500));
    assert_eq!(sent(second), Span::from_millis(11_500), "asked a second later, sent five seconds later");
}

#[test]
fn a_lower_limit_holds_for_those_who_wait() {
    let mut world = World::new(limits("limits: {tokens: 1000/min}"), 9);
    let request = |name, tokens| AcquireRequest { cost: cost([("tokens", tokens)]), ..ask(name) };
    world.ask(request("A", 1_000));
    let large = world.ask(request("B", 800));
    let small = world.ask(request("C", 100));
    let lower = limits("limits: {tokens: 500/min}");
    world.settings = lower.clone();
    world.tell_all(0, || Input::Settings(lower.clone()));
    assert_eq!(world.reply(large).reason(), Reason::CostExceedsCapacity);
    assert!(world.replied(small).is_none());
}

#[test]
fn a_scope_that_was_put_away_comes_back_with_its_state() {
    // SE05: the bucket is full again in a minute, the floor lasts fifteen.
    let mut world = World::new(limits("limits: {requests: 60/min}"), 10);
    let asked = world.ask(ask("A"));
    let lease = world.reply(asked).grant().lease_id.clone();
    world.report(answered(&lease, 429, &[("retry-after", "900")]));
    world.pass(secs(120));
    world.put_away(0);
    let request = AcquireRequest { class: paceline_core::plan::Class::Batch, hold: Span::ZERO, ..ask("B") };
    let id = world.ask(request);
    let queued = world.reply(id).queued();
    assert!(queued.estimated_wait >= secs(780), "{}", queued.estimated_wait);
    let late = world.report(answered(&lease, 429, &[]));
    assert!(reported(world.reply(late)).not_applied.is_some(), "and the lease is settled");
}

#[test]
fn without_a_store_holds_end_and_callers_leave() {
    let settings = limits(SLOW);
    let mut world = World::new(settings.clone(), 11);
    world.ask(ask("A"));
    let (stays, goes) = (world.ask(ask("B")), world.ask(ask("C")));
    let scope = world.scope_mut(0);
    let fx = scope.step_without_store(vec![Input::Leave(goes), Input::Settings(settings)], "it is away", START + secs(1));
    assert_eq!(fx.replies.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [stays]);
    assert!(fx.replies_on_commit.is_empty() && !fx.changed);
    assert!(scope.queue().is_empty());
    let fx = scope.step_without_store(vec![Input::Inspect(99)], "it is away", START + secs(1));
    assert_eq!(fx.replies.len(), 1, "one can still look");
}
