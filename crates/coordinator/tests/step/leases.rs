//! Leases: renewal, expiry, settlement, release; nothing twice.

use paceline_coordinator::api::{AcquireRequest, NotApplied, ReportRequest};
use paceline_coordinator::scope::{Event, Reply};
use paceline_core::report::Outcome;
use paceline_core::retry::Verdict;
use paceline_core::units::Span;

use crate::support::{Look, World, answered, answered_as, ask, cost, limits, report, reported, target};

fn secs(secs: i64) -> Span {
    Span::from_secs(secs)
}

#[test]
fn renewing_says_nothing_of_the_call() {
    let mut world = World::new(limits("concurrency: 1"), 4);
    let request = AcquireRequest { run_time: Some(secs(5)), ..ask("A") };
    let lease = lease_of(&mut world, request.clone());
    for _ in 0..3 {
        world.pass(secs(4));
        let id = world.report(report(&lease, 0, Outcome::Running));
        let told = reported(world.reply(id)).clone();
        assert_eq!((told.not_applied, told.ttl, told.verdict), (None, secs(5), None), "as often as one likes");
    }
    // Nobody has said that it was sent: asked for again, its slot was missed.
    let again = world.ask(request.clone());
    let second = world.reply(again).grant().lease_id.clone();
    assert_ne!(second, lease);
    // Once the worker has reported, renewals take no number away from it.
    for (seq, expected) in [(1, None), (0, None), (0, None), (2, None), (2, Some(NotApplied::Repeated)), (0, None)] {
        let id = world.report(report(&second, seq, Outcome::Running));
        assert_eq!(reported(world.reply(id)).not_applied, expected, "{seq}");
    }
    let id = world.report(answered_as(&second, 3, 200));
    assert_eq!(reported(world.reply(id)).not_applied, None);
    let id = world.report(report(&second, 0, Outcome::Running));
    assert_eq!(reported(world.reply(id)).not_applied, Some(NotApplied::LeaseSettled), "what is over stays over");
}

/// A grant's lease.
fn lease_of(world: &mut World, request: AcquireRequest) -> String {
    let id = world.ask(request);
    world.reply(id).grant().lease_id.clone()
}

#[test]
fn an_expired_lease_frees_its_place_only_and_is_counted() {
    let mut world = World::new(limits("concurrency: 1, limits: {tokens: {limit: 1000, per: 1h}}"), 1);
    let request = AcquireRequest { run_time: Some(secs(5)), cost: cost([("tokens", 600)]), ..ask("A") };
    lease_of(&mut world, request.clone());
    let waits = world.ask(AcquireRequest { cost: cost([("tokens", 300)]), ..ask("B") });
    world.pass(secs(7));
    let held = world.ask(crate::support::back(
        &AcquireRequest { cost: cost([("tokens", 300)]), ..ask("B") },
        &world.reply(waits).queued().clone(),
        secs(60),
    ));
    world.reply(held).grant();
    assert_eq!(world.level("tokens"), 1_000 - 600 - 300 + 1, "the units were probably used (and seven seconds of refill)");
    let expired: u64 = world.events.iter().map(|event| if let Event::LeasesExpired(count) = event { *count } else { 0 }).sum();
    assert_eq!(expired, 1);
}

#[test]
fn each_sign_of_life_renews_a_lease_also_after_more_than_an_hour() {
    let mut world = World::new(limits("concurrency: 1, limits: {tokens: {limit: 1000000, per: 24h}}"), 2);
    let lease =
        lease_of(&mut world, AcquireRequest { cost: cost([("tokens", 500_000)]), run_time: Some(secs(1_800)), ..ask("A") });
    for seq in 1..=4 {
        world.pass(secs(1_700));
        let id = world.report(report(&lease, seq, Outcome::Running));
        assert_eq!(reported(world.reply(id)).not_applied, None);
        assert_eq!(reported(world.reply(id)).ttl, secs(1_800));
        let other = world.ask(AcquireRequest { hold: Span::ZERO, cost: cost([("tokens", 1)]), ..ask("B") });
        world.reply(other).queued();
    }
    let before = world.level("tokens");
    let id = world.report(ReportRequest { usage: cost([("tokens", 100_000)]), ..answered_as(&lease, 5, 200) });
    assert_eq!(reported(world.reply(id)).not_applied, None);
    assert_eq!(reported(world.reply(id)).verdict, Some(Verdict::Done));
    assert!(world.level("tokens") >= (before + 400_000).min(1_000_000), "what was not used comes back");
    let next = world.ask(AcquireRequest { cost: cost([("tokens", 1)]), ..ask("C") });
    world.reply(next).grant();
}

#[test]
fn reports_that_change_nothing_say_why() {
    let settings = || limits("limits: {requests: {limit: 10, per: 1h}, tokens: {limit: 10000, per: 1h}}");
    let mut world = World::new(settings(), 3);
    let asked = |name: &str| AcquireRequest { cost: cost([("tokens", 1_000)]), run_time: Some(secs(10)), ..ask(name) };
    let settled = lease_of(&mut world, asked("settled"));
    let released = lease_of(&mut world, asked("released"));
    let expired = lease_of(&mut world, asked("expired"));
    let used = |lease: &str, seq| ReportRequest { usage: cost([("tokens", 1)]), ..answered_as(lease, seq, 200) };
    world.report(used(&settled, 1));
    world.release_lease(0, &released).unwrap();
    world.pass(secs(60));
    let before = (world.level("requests"), world.level("tokens"));
    for (lease, seq, why) in [
        (&settled, 1, NotApplied::Repeated),
        (&settled, 2, NotApplied::LeaseSettled),
        (&released, 1, NotApplied::LeaseSettled),
        (&expired, 1, NotApplied::LeaseExpired),
    ] {
        let id = world.report(used(lease, seq));
        let answer = reported(world.reply(id));
        assert_eq!(answer.not_applied, Some(why));
        assert_eq!(answer.ttl, Span::ZERO);
        assert_eq!((world.level("requests"), world.level("tokens")), before, "{why:?}");
    }
    assert_eq!(world.events.iter().filter(|event| matches!(event, Event::LateUse { .. })).count(), 1, "the released one");
    let mut later = World::after_restart(settings(), 3);
    let id = later.report(used(&settled, 3));
    assert_eq!(reported(later.reply(id)).not_applied, Some(NotApplied::LeaseUnknown));
    assert_eq!(later.stored_value(&target("m")), Default::default(), "nothing is learned from what may be forged");
}

#[test]
fn a_late_report_teaches_for_an_hour() {
    for (late, teaches) in [(secs(3_000), true), (secs(4_000), false)] {
        let mut world = World::new(limits("limits: {requests: 60/min}"), 4);
        let lease = lease_of(&mut world, AcquireRequest { run_time: Some(secs(5)), ..ask("A") });
        world.pass(late);
        let id = world.report(answered(&lease, 429, &[("retry-after", "30")]));
        assert_eq!(
            reported(world.reply(id)).not_applied,
            Some(NotApplied::LeaseExpired).filter(|_| teaches).or(
                // Its record is gone by then, and with it what it was.
                Some(NotApplied::LeaseExpired)
            )
        );
        assert_eq!(reported(world.reply(id)).signal.retry_after, Some(secs(30)), "it is read all the same");
        assert_eq!(reported(world.reply(id)).honored > Span::ZERO, teaches);
    }
}

#[test]
fn a_repeated_final_report_gets_the_verdict_of_the_first() {
    let mut world = World::new(limits("limits: {requests: 60/min}"), 5);
    let lease = lease_of(&mut world, AcquireRequest { deadline: Some(secs(20)), ..ask("A") });
    let refused = answered(&lease, 429, &[("retry-after", "3")]);
    let first = world.report(refused.clone());
    assert_eq!(reported(world.reply(first)).verdict, Some(Verdict::Retry));
    world.pass(secs(25)); // now it would be too late
    for seq in [1, 2] {
        let again = world.report(ReportRequest { seq, ..refused.clone() });
        assert_eq!(reported(world.reply(again)).verdict, Some(Verdict::Retry));
    }
    // Also on a replica that has only the record.
    let there = world.report_at(1, refused).unwrap();
    assert_eq!(reported(world.reply(there)).not_applied, Some(NotApplied::Repeated));
    assert_eq!(reported(world.reply(there)).verdict, Some(Verdict::Retry));
}

#[test]
fn a_repeated_sign_of_life_tells_how_long_the_lease_lives() {
    let mut world = World::new(limits("concurrency: 1"), 6);
    let lease = lease_of(&mut world, ask("A"));
    world.report(report(&lease, 1, Outcome::Running));
    world.pass(secs(10));
    let id = world.report(report(&lease, 1, Outcome::Running));
    assert_eq!(reported(world.reply(id)).not_applied, Some(NotApplied::Repeated));
    assert_eq!(reported(world.reply(id)).ttl, secs(50));
}

#[test]
fn usage_settles_in_both_directions_by_lease_whatever_the_order() {
    // RL06: five calls, reported in reverse order.
    let mut world = World::new(limits("limits: {tokens: {limit: 2000, per: 24h}}"), 7);
    let leases: Vec<String> = (1..=5_u32)
        .map(|n| lease_of(&mut world, AcquireRequest { cost: cost([("tokens", 100 * u64::from(n))]), ..ask(&n.to_string()) }))
        .collect();
    assert_eq!(world.level("tokens"), 500);
    for lease in leases.iter().rev() {
        world.report(ReportRequest { usage: cost([("tokens", 10)]), ..answered(lease, 200, &[]) });
    }
    assert_eq!(world.level("tokens"), 1_950);
    let lease = lease_of(&mut world, AcquireRequest { cost: cost([("tokens", 100)]), ..ask("more") });
    world.report(ReportRequest { usage: cost([("tokens", 150)]), ..answered(&lease, 200, &[]) });
    assert_eq!(world.level("tokens"), 1_800);
}

#[test]
fn a_release_refunds_once() {
    let mut world = World::new(limits("concurrency: 2, limits: {tokens: {limit: 1000, per: 24h}}"), 8);
    let lease = lease_of(&mut world, AcquireRequest { cost: cost([("tokens", 600)]), ..ask("A") });
    for expected in [true, false] {
        let id = world.release_lease(0, &lease).unwrap();
        assert_eq!(*world.reply(id), Reply::Released(expected));
        assert_eq!((world.level("tokens"), world.level("concurrency")), (1_000, 2));
    }
    let there = world.release_lease(1, &lease).unwrap();
    assert_eq!(*world.reply(there), Reply::Released(false));
}

#[test]
fn releasing_what_was_sent_frees_its_place_and_no_units() {
    let mut world = World::new(limits("concurrency: 2, limits: {tokens: {limit: 1000, per: 24h}}"), 9);
    let lease = lease_of(&mut world, AcquireRequest { cost: cost([("tokens", 600)]), ..ask("A") });
    world.report(report(&lease, 1, Outcome::Running));
    let id = world.release_lease(0, &lease).unwrap();
    assert_eq!(*world.reply(id), Reply::Released(true));
    assert_eq!((world.level("tokens"), world.level("concurrency")), (400, 2));
    let again = world.ask(AcquireRequest { cost: cost([("tokens", 600)]), ..ask("A") });
    crate::support::error(world.reply(again));
}

#[test]
fn what_was_never_sent_comes_back_and_what_may_have_run_does_not() {
    for (outcome, tokens) in [(Outcome::ConnectionFailed, 1_000), (Outcome::Timeout, 400), (Outcome::Abandoned, 400)] {
        let mut world = World::new(limits("concurrency: 1, limits: {tokens: {limit: 1000, per: 24h}}"), 10);
        let lease = lease_of(&mut world, AcquireRequest { cost: cost([("tokens", 600)]), ..ask("A") });
        let id = world.report(report(&lease, 1, outcome));
        assert_eq!(reported(world.reply(id)).not_applied, None);
        assert_eq!((world.level("tokens"), world.level("concurrency")), (tokens, 1), "{outcome:?}");
    }
}
