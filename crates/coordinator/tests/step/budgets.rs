//! The retry budget, work that comes too late to be of use, and billing refusals.

use paceline_coordinator::api::{AcquireRequest, ReportRequest};
use paceline_core::denial::Reason;
use paceline_core::retry::Verdict;
use paceline_core::units::Span;

use crate::support::{Look, World, answered, ask, limits, next, reported, settings, target, with_retry};

fn secs(secs: i64) -> Span {
    Span::from_secs(secs)
}

/// Grants so many first attempts, one a tenth of a second; their leases.
fn firsts(world: &mut World, count: usize) -> Vec<String> {
    (0..count)
        .map(|call| {
            world.pass(Span::from_millis(100));
            let id = world.ask(ask(&format!("F{call}")));
            world.pass(Span::from_millis(100));
            world.reply(id).grant().lease_id.clone()
        })
        .collect()
}

/// An answer that gives the call a wait of its own and tells nothing of the buckets, so that it stands in nobody's way.
fn failed(lease: &str) -> ReportRequest {
    answered(lease, 500, &[])
}

/// Reports all as failed, asking for a retry each; how many retries were let through, and the refusals' reasons.
fn retry_all(world: &mut World, leases: &[String]) -> (usize, Vec<Reason>) {
    let ids: Vec<_> = leases.iter().map(|lease| world.report(with_retry(failed(lease)))).collect();
    world.pass(secs(3));
    let mut through = 0;
    let mut denied = Vec::new();
    for id in ids {
        match reported(world.reply(id)).next.as_ref().expect("an answer") {
            paceline_coordinator::api::Answer::Denied(refused) => denied.push(refused.denial.reason),
            _ => through += 1,
        }
    }
    (through, denied)
}

#[test]
fn retries_are_a_fifth_of_the_firsts() {
    let mut world = World::new(limits("limits: {requests: 6000/min}"), 1);
    let leases = firsts(&mut world, 150);
    let (through, denied) = retry_all(&mut world, &leases);
    assert_eq!((through, denied.len()), (30, 120), "20 % of 150");
    assert!(denied.iter().all(|reason| *reason == Reason::RetryBudget));
}

#[test]
fn a_quiet_fleet_may_retry_three_times_in_ten_seconds_or_a_tenth_of_its_limit() {
    let mut world = World::new(limits("limits: {requests: 6000/min}"), 2);
    let leases = firsts(&mut world, 30);
    assert_eq!(retry_all(&mut world, &leases).0, 18, "3 in 10 s are 18 in a minute, more than 20 % of 30");
    let mut world = World::new(limits("limits: {requests: 60/min}"), 2);
    let leases = firsts(&mut world, 20);
    assert_eq!(retry_all(&mut world, &leases).0, 6, "a tenth of 60");
}

#[test]
fn the_refusal_says_when_and_why_and_then_it_works() {
    let mut world = World::new(limits("limits: {requests: 60/min}"), 3);
    let leases = firsts(&mut world, 10);
    let ids: Vec<_> = leases.iter().map(|lease| world.report(failed(lease))).collect();
    assert!(ids.iter().all(|id| reported(world.reply(*id)).verdict == Some(Verdict::Retry)));
    let asks: Vec<AcquireRequest> = (0..10).map(|call| next(&ask(&format!("F{call}")), &leases[call])).collect();
    for request in &asks[..6] {
        world.ask(request.clone());
    }
    world.pass(secs(5));
    let refused = world.ask(asks[6].clone());
    let denial = world.reply(refused).denied().denial.clone();
    assert_eq!(denial.reason, Reason::RetryBudget);
    assert!(denial.detail.starts_with("6 retries within the last minute beside 10 first attempts of m, and 6 are allowed"));
    let retry_after = denial.retry_after.expect("a time");
    assert!(retry_after > secs(30) && retry_after <= secs(90), "{retry_after}");
    world.pass(retry_after);
    let again = world.ask(asks[6].clone());
    world.pass(secs(1));
    world.reply(again).grant();
}

#[test]
fn the_budget_is_shared_by_replicas_and_outlives_them() {
    let mut world = World::new(limits("limits: {requests: 60/min}"), 4);
    let leases = firsts(&mut world, 10);
    for lease in &leases {
        world.report(failed(lease));
    }
    world.pass(secs(5));
    for (call, lease) in leases.iter().enumerate().take(6) {
        let id = world.ask(next(&ask(&format!("F{call}")), lease));
        world.pass(secs(1));
        world.reply(id).grant();
    }
    world.put_away(0);
    let id = world.ask_at(1, next(&ask("F6"), &leases[6])).unwrap();
    assert_eq!(world.reply(id).reason(), Reason::RetryBudget);
}

#[test]
fn first_attempts_and_those_with_a_place_are_never_over_the_budget() {
    let settings = settings(
        "retries: {share: 0%, at_least: 1/10min}\n\
         providers: {acme: {extends: generic, start_level: full, accounts: {prod: {models: {m: {limits: {requests: 60/min}}}}}}}",
    );
    let mut world = World::new(settings, 5);
    let leases = firsts(&mut world, 3);
    // One retry has to wait for its own floor: it goes away with a ticket, within the budget.
    let id = world.report(with_retry(answered(&leases[0], 503, &[("retry-after", "20")])));
    world.pass(secs(2));
    let queued = world.reply(id).queued().clone();
    world.pass(secs(17));
    let request = next(&ask("F0"), &leases[0]);
    let back = world.ask(crate::support::back(&request, &queued, secs(10)));
    world.pass(secs(10));
    world.reply(back).grant();
    let id = world.ask(next(&ask("F1"), &leases[1]));
    assert_eq!(world.reply(id).reason(), Reason::RetryBudget, "that one used it up");
    let id = world.ask(ask("new"));
    world.pass(secs(1));
    world.reply(id).grant();
}

#[test]
fn when_several_reasons_hold_the_first_is_named() {
    let mut world = World::new(limits("limits: {requests: 60/min}"), 6);
    let leases = firsts(&mut world, 10);
    retry_all(&mut world, &leases[..6]);
    let request = next(&ask("F7"), &leases[7]);
    let too_late = world.ask(AcquireRequest { deadline: Some(Span::ZERO), ..request.clone() });
    assert_eq!(world.reply(too_late).reason(), Reason::Deadline);
    let too_large = world.ask(AcquireRequest { cost: crate::support::cost([("requests", 61)]), ..request.clone() });
    assert_eq!(world.reply(too_large).reason(), Reason::CostExceedsCapacity);
    let too_often = world.ask(AcquireRequest { attempt: 6, ..request });
    assert_eq!(world.reply(too_often).reason(), Reason::AttemptsExhausted);
}

/// Ten calls of twenty seconds each.
fn slow_calls(world: &mut World) {
    for call in 0..10 {
        let id = world.ask(ask(&format!("slow{call}")));
        world.pass(secs(1));
        let lease = world.reply(id).grant().lease_id.clone();
        world.pass(secs(19));
        world.report(answered(&lease, 200, &[]));
    }
}

#[test]
fn a_call_that_would_end_after_its_deadline_is_not_sent() {
    let mut world = World::new(limits("limits: {requests: 60/min}"), 7);
    slow_calls(&mut world);
    let before = world.level("requests");
    let doomed = world.ask(AcquireRequest { deadline: Some(secs(12)), ..ask("A") });
    let denial = &world.reply(doomed).denied().denial;
    assert_eq!(denial.reason, Reason::Deadline);
    assert_eq!(
        denial.detail,
        "even sent at once it would end too late: such calls typically run 20 s, and the deadline ends in 12 s"
    );
    assert_eq!(world.level("requests"), before, "nothing is charged");
    let in_time = world.ask(AcquireRequest { deadline: Some(secs(25)), ..ask("B") });
    world.pass(secs(1));
    world.reply(in_time).grant();
}

#[test]
fn one_that_becomes_too_late_while_it_waits_is_let_go_then() {
    let mut world = World::new(limits("limits: {requests: {limit: 6, per: 1m, burst: 1}}"), 8);
    slow_calls(&mut world);
    world.ask(ask("first"));
    let ahead = world.ask(ask("ahead"));
    let request = AcquireRequest { deadline: Some(secs(35)), hold: Span::ZERO, ..ask("A") };
    let queued = world.ask(request.clone());
    let left = AcquireRequest { deadline: Some(secs(35)), ..request };
    let held = world.ask(crate::support::back(&left, &world.reply(queued).queued().clone(), secs(60)));
    world.pass(secs(1));
    world.ask(crate::support::back(&ask("ahead"), &world.reply(ahead).queued().clone(), secs(60)));
    let start = world.now;
    world.pass(secs(40));
    let denial = &world.reply(held).denied().denial;
    assert_eq!(denial.reason, Reason::Deadline);
    assert!(denial.detail.contains("such calls typically run"), "{}", denial.detail);
    assert!(world.replied_at(held) - start <= secs(16), "long before the deadline itself");
}

#[test]
fn a_retry_that_cannot_come_in_time_is_given_up_in_the_report() {
    let mut world = World::new(limits("limits: {requests: {limit: 2, per: 1m, capacity: 1}}"), 9);
    let request = AcquireRequest { max_wait: Some(secs(10)), ..ask("A") };
    let id = world.ask(request);
    world.pass(secs(1));
    let lease = world.reply(id).grant().lease_id.clone();
    // The bucket is empty for half a minute, though the provider names no wait.
    let id = world.report(answered(&lease, 500, &[]));
    assert_eq!(reported(world.reply(id)).verdict, Some(Verdict::GiveUp(Reason::Deadline)));
}

/// What a provider says when the money is used up.
fn billing(lease: &str) -> ReportRequest {
    let body = br#"{"error": {"type": "insufficient_quota", "code": "insufficient_quota", "message": "no credit"}}"#;
    ReportRequest { body: body.to_vec(), ..answered(lease, 429, &[]) }
}

fn openai(models: &str) -> World {
    let yaml =
        format!("providers: {{acme: {{extends: openai, start_level: full, accounts: {{prod: {{models: {{{models}}}}}}}}}}}");
    World::new(settings(&yaml), 10)
}

fn granted(world: &mut World, request: AcquireRequest) -> String {
    let id = world.ask(request);
    world.pass(secs(1));
    world.reply(id).grant().lease_id.clone()
}

#[test]
fn a_billing_refusal_stops_the_group_and_one_call_an_interval_looks_again() {
    let mut world = openai("m: {limits: {requests: 600/min}}, n: {limits: {requests: 600/min}}");
    let lease = granted(&mut world, ask("A"));
    let waiting = granted(&mut world, ask("B"));
    let id = world.report(billing(&lease));
    assert_eq!(reported(world.reply(id)).verdict, Some(Verdict::GiveUp(Reason::QuotaExhausted)));
    let id = world.ask(ask("C"));
    let denial = world.reply(id).denied().denial.clone();
    assert_eq!((denial.reason, denial.retry_after), (Reason::QuotaExhausted, Some(secs(60))));
    assert!(denial.detail.contains("no wait cures"), "{}", denial.detail);
    // The other one was sent before: it tells nothing new. Another model is not touched.
    world.report(billing(&waiting));
    granted(&mut world, AcquireRequest { target: target("n"), ..ask("D") });
    // After the interval one call is let through, and no other beside it.
    world.pass(secs(59));
    let probe = world.ask(ask("E"));
    let other = world.ask(ask("F"));
    world.pass(Span::from_millis(10));
    let lease = world.reply(probe).grant().lease_id.clone();
    assert_eq!(world.reply(other).reason(), Reason::QuotaExhausted);
    // Refused again: twice as long.
    world.report(billing(&lease));
    let id = world.ask(ask("G"));
    assert_eq!(world.reply(id).denied().denial.retry_after, Some(secs(120)));
    // Paid: the next probe ends it for all.
    world.pass(secs(120));
    let lease = granted(&mut world, ask("H"));
    world.report(answered(&lease, 200, &[]));
    granted(&mut world, ask("I"));
    granted(&mut world, ask("J"));
}

#[test]
fn a_second_group_refused_for_billing_means_the_account_also_on_another_replica() {
    let mut world = openai("\"*\": {each: true, limits: {requests: 600/min}}");
    let one = granted(&mut world, ask("A"));
    let two = granted(&mut world, AcquireRequest { target: target("n"), ..ask("B") });
    world.report(billing(&one));
    world.report(billing(&two));
    let id = world.ask_at(1, AcquireRequest { target: target("o"), ..ask("C") }).unwrap();
    let denial = &world.reply(id).denied().denial;
    assert_eq!(denial.reason, Reason::QuotaExhausted);
    assert!(denial.detail.contains("the account"), "{}", denial.detail);
    // Those who wait are told at once instead of at the end of their patience.
    assert!(denial.retry_after.is_some());
}
