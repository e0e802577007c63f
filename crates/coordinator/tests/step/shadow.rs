//! Calls that are only watched: nobody waits or fails, what was sent is charged, and what would have been is told.

use std::sync::Arc;

use paceline_coordinator::api::{AcquireRequest, Watched};
use paceline_coordinator::scope::Event;
use paceline_coordinator::settings::Settings;
use paceline_core::delays;
use paceline_core::denial::Reason;
use paceline_core::mode::Mode;
use paceline_core::plan::Class;
use paceline_core::units::Span;

use crate::support::{Look, World, answered, ask, cost, settings};

fn secs(secs: i64) -> Span {
    Span::from_secs(secs)
}

/// `acme/prod/m` with these limits, full, everybody watched unless `tenants` says otherwise.
fn watched(limits: &str) -> Arc<dyn Settings> {
    settings(&format!(
        "mode: shadow\nproviders: {{acme: {{extends: generic, start_level: full, accounts: {{prod: {{models: {{m: \
         {{{limits}}}}}}}}}}}}}"
    ))
}

/// Asks, is let through, and hears what would have been.
fn would(world: &mut World, request: AcquireRequest) -> Watched {
    let id = world.ask(request);
    let grant = world.reply(id).grant();
    assert_eq!((grant.mode, grant.wait), (Mode::Shadow, Span::ZERO), "nobody waits because of us");
    assert_eq!(world.replied_at(id), world.now);
    let watched = grant.shadow.as_deref().expect("it says what would have been").clone();
    assert_eq!(delays::total(&watched.delays), watched.wait, "I-7 holds for what would have been, too");
    watched
}

fn lease_of(world: &mut World, request: AcquireRequest) -> String {
    let id = world.ask(request);
    world.reply(id).grant().lease_id.clone()
}

fn close(wait: Span, expected: Span) -> bool {
    (wait - expected).as_micros().abs() <= 300_000
}

/// Sixty a minute, a hundred and twenty at once: sixty would have gone at once, the others one a second.
#[test]
fn a_line_is_told_although_nobody_stands_in_it() {
    let mut world = World::new(watched("limits: {requests: 60/min}"), 1);
    for n in 0..60 {
        assert_eq!(would(&mut world, ask(&format!("first-{n}"))).wait, Span::ZERO);
    }
    for n in 1..=60 {
        let watched = would(&mut world, ask(&format!("then-{n}")));
        assert!(close(watched.wait, secs(n)), "{n}: {:?}", watched.wait);
        assert_eq!(&*watched.delays[0].cause.bucket, "requests");
    }
    world.pass(secs(30));
    let watched = would(&mut world, ask("later"));
    assert!(close(watched.wait, secs(31)), "thirty have gone meanwhile: {:?}", watched.wait);
    world.pass(secs(120));
    assert_eq!(would(&mut world, ask("much later")).wait, Span::ZERO, "the line is over");
    let counted = |which: fn(&Event) -> bool| world.events.iter().filter(|event| which(event)).count();
    assert_eq!(counted(|event| matches!(event, Event::Watched { .. })), 122);
    assert_eq!(counted(|event| matches!(event, Event::Watched { wait, .. } if *wait > Span::ZERO)), 61);
}

/// Twice the limit for ten minutes: the line grows up to what calls wait for, and half of them would be denied.
#[test]
fn under_a_lasting_overload_half_would_be_denied() {
    let mut world = World::new(watched("limits: {requests: 60/min}, max_wait: 30s"), 1);
    let (mut sent, mut denied) = (0, 0);
    for n in 0..1_200 {
        let watched = would(&mut world, ask(&format!("call-{n}")));
        assert!(watched.wait <= secs(30));
        if n >= 600 {
            sent += 1;
            denied += i32::from(watched.denial.is_some());
        }
        assert!(watched.denial.is_none_or(|denial| denial.reason == Reason::Deadline));
        world.pass(Span::from_millis(500));
    }
    assert!((sent * 2 / 5..sent * 3 / 5).contains(&denied), "{denied} of {sent}");
}

/// A person would not have waited behind what hours are fine for.
#[test]
fn the_urgent_would_have_gone_first() {
    let mut world = World::new(watched("limits: {requests: 60/min}"), 1);
    for n in 0..300 {
        would(&mut world, AcquireRequest { class: Class::Batch, ..ask(&format!("batch-{n}")) });
    }
    let urgent = would(&mut world, AcquireRequest { class: Class::Interactive, ..ask("urgent") });
    assert!(urgent.denial.is_none() && urgent.wait <= secs(2), "{urgent:?}");
    let patient = would(&mut world, AcquireRequest { class: Class::Batch, ..ask("patient") });
    assert!(close(patient.wait, secs(242)), "{patient:?}");
}

/// A window's quota comes all at once: who does not fit into this one would wait for the next, or for the one after.
#[test]
fn windows_are_waited_for_whole() {
    let mut world = World::new(watched("limits: {requests: {limit: 10, per: 1m, refill: window}}, max_wait: 10min"), 1);
    let waits: Vec<Span> = (0..35).map(|n| would(&mut world, ask(&format!("call-{n}"))).wait).collect();
    assert!(waits[..10].iter().all(|wait| *wait == Span::ZERO), "{waits:?}");
    for (window, calls) in [(1, &waits[10..20]), (2, &waits[20..30]), (3, &waits[30..])] {
        assert!(calls.iter().all(|wait| *wait >= secs(60 * window) && *wait <= secs(60 * window + 2)), "{window}: {calls:?}");
    }
}

/// What enforce would have refused outright is let through and told.
#[test]
fn denials_are_told_and_not_given() {
    let mut world = World::new(watched("limits: {requests: 60/min, tokens: 1k/min}"), 1);
    let reason = |watched: Watched| watched.denial.map(|denial| denial.reason);
    let huge = AcquireRequest { cost: cost([("tokens", 5_000)]), ..ask("huge") };
    assert_eq!(reason(would(&mut world, huge)), Some(Reason::CostExceedsCapacity));
    assert_eq!(reason(would(&mut world, AcquireRequest { attempt: 40, ..ask("often") })), Some(Reason::AttemptsExhausted));
    assert_eq!(reason(would(&mut world, AcquireRequest { deadline: Some(Span::ZERO), ..ask("over") })), Some(Reason::Deadline));
    // A name used twice would be an error; nobody fails because of us.
    world.ask(ask("twice"));
    let id = world.ask(AcquireRequest { cost: cost([("tokens", 9)]), ..ask("twice") });
    assert_eq!(world.reply(id).grant().wait, Span::ZERO);
    let told = |event: &Event| matches!(event, Event::Watched { denied: Some("already_exists"), .. });
    assert!(world.events.iter().any(told));
}

/// A refusal that enforce would have prevented is counted, changes the floor for those who are made to wait, and nothing for
/// those who are only asked what would have been: in that world it would not have happened.
#[test]
fn a_refusal_that_need_not_have_been_is_prevented() {
    let mut world = World::new(watched("limits: {requests: 60/min}"), 1);
    let mut leases = Vec::new();
    for n in 0..70 {
        leases.push(lease_of(&mut world, ask(&format!("call-{n}"))));
    }
    let refused: Vec<String> = leases.split_off(60);
    world.pass(Span::from_millis(500));
    for lease in &leases {
        world.report(answered(lease, 200, &[]));
    }
    for lease in &refused {
        world.report(answered(lease, 429, &[("retry-after", "40")]));
    }
    let prevented = world.events.iter().filter(|event| matches!(event, Event::Prevented { .. })).count();
    assert_eq!(prevented, 10);
    let value = world.stored_value(&crate::support::target("m"));
    assert!(value.groups[0].floor.is_some_and(|floor| floor.holds_at(world.now + secs(30))), "it is the provider's word");
    let watched = would(&mut world, ask("next"));
    assert!(close(watched.wait, Span::from_millis(10_500)), "behind the ten, and nobody waits for their refusals: {watched:?}");
    // The same answer to a call that enforce would have sent as well is no prevented one.
    let mut world = World::new(watched_alone(), 1);
    let lease = lease_of(&mut world, ask("alone"));
    world.report(answered(&lease, 429, &[("retry-after", "40")]));
    assert!(!world.events.iter().any(|event| matches!(event, Event::Prevented { .. })));
    let watched = would(&mut world, ask("next"));
    assert!(close(watched.wait, secs(40)), "{watched:?}");
}

fn watched_alone() -> Arc<dyn Settings> {
    watched("limits: {requests: 60/min}")
}

/// Watched calls go on hammering a provider that refuses; that is not taken for news, again and again.
#[test]
fn needless_refusals_are_no_further_cuts() {
    let mut world = World::new(watched("limits: {requests: 60/min}"), 1);
    for n in 0..200 {
        let lease = lease_of(&mut world, ask(&format!("call-{n}")));
        world.pass(Span::from_millis(100));
        world.report(answered(&lease, if n < 65 { 200 } else { 429 }, &[]));
    }
    let value = world.stored_value(&crate::support::target("m"));
    // Of more than a hundred, only one counts that enforce would have sent as well.
    assert!((1..=2).contains(&value.groups[0].refusals), "{} in a row", value.groups[0].refusals);
}

/// What was sent is charged, settled by what it really used, and a lost reply is answered with the same lease.
#[test]
fn the_state_is_charged_with_what_was_really_sent() {
    let mut world = World::new(watched("limits: {requests: 60/min, tokens: 6k/min}"), 1);
    let request = AcquireRequest { cost: cost([("tokens", 1_000)]), ..ask("A") };
    let first = world.ask(request.clone());
    let lease = world.reply(first).grant().lease_id.clone();
    assert_eq!((world.level("tokens"), world.level("requests")), (5_000, 59));
    let again = world.ask(request);
    assert_eq!(world.reply(again).grant(), world.reply(first).grant(), "the same key is the same lease, and one charge");
    assert_eq!(world.level("tokens"), 5_000);
    let mut settled = answered(&lease, 200, &[]);
    settled.usage = cost([("tokens", 400)]);
    world.report(settled);
    assert_eq!(world.level("tokens"), 5_600);
    // However much goes through, the debt stays one that a minute pays.
    for n in 0..50 {
        world.ask(AcquireRequest { cost: cost([("tokens", 1_000)]), ..ask(&format!("more-{n}")) });
    }
    let value = world.stored_value(&crate::support::target("m"));
    let tokens = value.buckets.iter().find(|bucket| &*bucket.plan.meter == "tokens").unwrap();
    assert_eq!(tokens.level_at(world.now).unwrap().as_milli(), -6_000_000);
}

/// With the store away those who are not made to wait do not wait for it either.
#[test]
fn without_a_store_nobody_fails() {
    let mut world = World::new(watched("limits: {requests: 60/min}"), 1);
    let lease = lease_of(&mut world, ask("before"));
    let asked = world.input(ask("during"));
    let told = world.report_input(answered(&lease, 429, &[("retry-after", "9")]));
    let now = world.now;
    let fx = world.scope_mut(0).step_without_store(vec![asked, told], "gone", now);
    let [(_, grant), (_, answer)] = fx.replies.as_slice() else { panic!("{:?}", fx.replies) };
    assert_eq!((grant.grant().mode, grant.grant().wait), (Mode::Shadow, Span::ZERO));
    assert_eq!(crate::support::reported(answer).signal.retry_after, Some(secs(9)));
}

/// Enforced, a call would have waited once and been sent once. That it is refused and sent again many times while it is only watched is no
/// further wait, spends no retry budget and uses up no attempts.
#[test]
fn attempts_that_need_not_have_been_are_no_retries() {
    let mut world = World::new(watched("limits: {requests: 60/min}, max_wait: 10min, attempts: 3"), 1);
    for n in 0..60 {
        would(&mut world, ask(&format!("first-{n}")));
    }
    let mut leases: Vec<String> = (0..30).map(|n| lease_of(&mut world, ask(&format!("call-{n}")))).collect();
    for attempt in 2..=7 {
        for lease in &leases {
            world.report(answered(lease, 429, &[("retry-after", "1")]));
        }
        world.pass(Span::from_millis(50));
        let again = |n: usize, lease: &String| AcquireRequest {
            attempt,
            previous_lease_id: Some(lease.clone()),
            ..ask(&format!("call-{n}"))
        };
        let asks: Vec<AcquireRequest> = leases.iter().enumerate().map(|(n, lease)| again(n, lease)).collect();
        leases = asks.into_iter().map(|ask| lease_of(&mut world, ask)).collect();
    }
    let watched: Vec<(Span, Option<&str>)> = world
        .events
        .iter()
        .filter_map(|event| if let Event::Watched { wait, denied, .. } = event { Some((*wait, *denied)) } else { None })
        .collect();
    assert_eq!(watched.len(), 60 + 30 * 7);
    assert!(watched.iter().all(|(_, denied)| denied.is_none()), "{watched:?}");
    assert_eq!(watched.iter().filter(|(wait, _)| *wait > Span::ZERO).count(), 30, "each call once");
}
