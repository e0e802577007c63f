//! What calls turn out to use and how long they run, as far as the next ones are treated differently for it; and stocks.

use paceline_coordinator::api::{AcquireRequest, NotApplied, ReportRequest};
use paceline_coordinator::scope::{Event, UnitsOf};
use paceline_core::report::Outcome;
use paceline_core::units::Span;

use crate::support::{Look, World, answered_as, ask, cost, limits, report, reported};

fn labelled(id: &str, feature: &str) -> AcquireRequest {
    AcquireRequest { labels: [("feature".to_owned(), feature.to_owned())].into(), ..ask(id) }
}

/// One call with this usage that runs for `secs`; what was reserved for it, and how long its lease was to live.
fn call(world: &mut World, request: AcquireRequest, tokens: u64, secs: i64) -> (Option<u64>, Span, Vec<String>) {
    let id = world.ask(request);
    let grant = world.reply(id).grant().clone();
    world.pass(grant.wait + Span::from_secs(secs));
    world.report(ReportRequest { usage: cost([("tokens", tokens)]), ..answered_as(&grant.lease_id, 1, 200) });
    (grant.reserved.get("tokens").copied(), grant.ttl, grant.estimated)
}

#[test]
fn what_is_not_stated_is_learned_by_model_and_label() {
    let mut world = World::new(limits("limits: {tokens: 1M/min}"), 1);
    let mut count = 0;
    let mut next = |world: &mut World, feature: &str, tokens: u64| {
        count += 1;
        call(world, labelled(&format!("call {count}"), feature), tokens, 1)
    };
    assert_eq!(next(&mut world, "chat", 300).0, Some(10_000), "nobody knows");
    for _ in 0..5 {
        next(&mut world, "chat", 300);
        next(&mut world, "digest", 40_000);
    }
    let (reserved, _, estimated) = next(&mut world, "chat", 300);
    assert_eq!((reserved, estimated), (Some(300), vec!["tokens".to_owned()]));
    assert_eq!(next(&mut world, "digest", 40_000).0, Some(40_000));
    assert_eq!(next(&mut world, "new", 300).0, Some(40_000), "nine of ten calls of the model");
    // A guess of the worker settles, and teaches nothing.
    let id = world.ask(labelled("guess", "chat"));
    let lease = world.reply(id).grant().lease_id.clone();
    let guess = ReportRequest { usage: cost([("tokens", 9_000)]), usage_estimated: true, ..answered_as(&lease, 1, 200) };
    world.report(guess);
    assert_eq!(next(&mut world, "chat", 300).0, Some(300));
}

#[test]
fn units_are_counted_and_so_is_what_nobody_reserved() {
    let mut world = World::new(limits("limits: {tokens: 1M/min}"), 2);
    call(&mut world, AcquireRequest { cost: cost([("tokens", 1_000)]), ..ask("A") }, 1_300, 1);
    call(&mut world, AcquireRequest { cost: cost([("tokens", 1_000)]), ..ask("B") }, 200, 1);
    let used: Vec<&UnitsOf> = world
        .events
        .iter()
        .filter_map(|event| if let Event::Used { units, is_retry: false, .. } = event { Some(units) } else { None })
        .flatten()
        .filter(|units| &*units.meter == "tokens")
        .collect();
    assert_eq!(used.iter().map(|units| (units.used, units.overrun)).collect::<Vec<_>>(), [(1_300, 300), (200, 0)]);
}

#[test]
fn leases_live_as_long_as_such_calls_run() {
    let mut world = World::new(limits("limits: {tokens: 1M/min}"), 3);
    for index in 0..20 {
        let (_, ttl, _) = call(&mut world, ask(&format!("call {index}")), 10, 20);
        assert_eq!(ttl, Span::from_secs(60), "a minute, while nobody knows");
    }
    assert_eq!(call(&mut world, ask("known"), 10, 20).1, Span::from_secs(40), "twice what 99 of 100 take");
    let own = AcquireRequest { run_time: Some(Span::from_secs(300)), ..ask("its own") };
    assert_eq!(call(&mut world, own, 10, 20).1, Span::from_secs(300));
    // One that outlives its lease is too late to settle, and yet the next ones are given more time.
    for index in 0..3 {
        let id = world.ask(ask(&format!("slow {index}")));
        let grant = world.reply(id).grant().clone();
        world.pass(grant.ttl + Span::from_secs(60));
        let late = world.report(answered_as(&grant.lease_id, 1, 200));
        assert!(reported(world.reply(late)).not_applied.is_some_and(|why| why == NotApplied::LeaseExpired) || index > 0);
    }
    assert!(call(&mut world, ask("after"), 10, 20).1 >= Span::from_secs(200));
}

#[test]
fn a_job_holds_its_stock_until_its_last_report() {
    let mut world = World::new(limits("limits: {requests: 600/min, enqueued_tokens: {limit: 2M, refill: held}}"), 4);
    let job = |id: &str, tokens: u64| AcquireRequest { cost: cost([("enqueued_tokens", tokens)]), ..ask(id) };
    let first = world.ask(job("A", 1_500_000));
    let grant = world.reply(first).grant().clone();
    assert_eq!(grant.ttl, Span::from_secs(1_800), "jobs run for long");
    assert_eq!(grant.reserved.get("enqueued_tokens"), Some(&1_500_000));
    world.report(ReportRequest { is_final: false, ..answered_as(&grant.lease_id, 1, 200) });
    for seq in 2..=50 {
        world.pass(Span::from_secs(1_700));
        let alive = world.report(report(&grant.lease_id, seq, Outcome::Running));
        assert_eq!(reported(world.reply(alive)).not_applied, None, "a day of signs of life");
    }
    let second = world.ask(AcquireRequest { max_wait: Some(Span::from_secs(7_200)), ..job("B", 600_000) });
    world.pass(Span::from_millis(500));
    assert!(world.replied(second).is_none());
    world.report(answered_as(&grant.lease_id, 51, 200));
    world.reply(second).grant();
    assert_eq!(world.level("enqueued_tokens"), 1_400_000);
}
