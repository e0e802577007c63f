//! Off, shadow and enforce: who is in which mode, and what a change of it does.

use std::sync::Arc;

use paceline_coordinator::api::AcquireRequest;
use paceline_coordinator::scope::{Event, Input};
use paceline_coordinator::settings::Settings;
use paceline_core::mode::Mode;
use paceline_core::retry::Verdict;
use paceline_core::units::Span;

use crate::support::{Look, World, answered, ask, cost, next, reported, settings, with_retry};

fn secs(secs: i64) -> Span {
    Span::from_secs(secs)
}

/// `acme/prod/m` with 60 requests a minute, full, in this mode; `tenants` as in the file.
fn in_mode(mode: &str, tenants: &str) -> Arc<dyn Settings> {
    settings(&format!(
        "mode: {mode}\ntenants: {{{tenants}}}\nproviders: {{acme: {{extends: generic, start_level: full, accounts: {{prod: \
         {{models: {{m: {{limits: {{requests: 60/min}}}}}}}}}}}}}}"
    ))
}

fn of_tenant(request_id: &str, tenant: &str) -> AcquireRequest {
    AcquireRequest { tenant: tenant.into(), hold: Span::ZERO, ..ask(request_id) }
}

/// A call's mode, by its answer; `None`: it waits.
fn mode_of(world: &mut World, request: AcquireRequest) -> Option<Mode> {
    let id = world.ask(request);
    match world.reply(id).answer() {
        paceline_coordinator::api::Answer::Granted(grant) => Some(grant.mode),
        _ => None,
    }
}

/// Off: as if nobody were there. Nothing is charged, nothing is written, nobody waits, nothing is learned.
#[test]
fn off_lets_everything_through_and_learns_nothing() {
    let mut world = World::new(in_mode("off", ""), 1);
    let mut lease = String::new();
    for n in 0..200 {
        let id = world.ask(ask(&format!("call-{n}")));
        let grant = world.reply(id).grant();
        assert_eq!((grant.mode, grant.wait, grant.shadow.is_none()), (Mode::Off, Span::ZERO, true));
        assert!(grant.reserved.is_empty() && grant.delays.is_empty());
        lease = grant.lease_id.clone();
    }
    let huge = world.ask(AcquireRequest { cost: cost([("requests", 1_000_000)]), ..ask("huge") });
    assert_eq!(world.reply(huge).grant().wait, Span::ZERO, "what can never fit is not our business");
    let id = world.report(answered(&lease, 429, &[("retry-after", "600")]));
    let answer = reported(world.reply(id));
    assert_eq!((answer.not_applied, answer.verdict, answer.honored), (None, Some(Verdict::Retry), Span::ZERO));
    assert_eq!(answer.signal.retry_after, Some(secs(600)), "it is read all the same");
    assert!(world.events.iter().any(|event| matches!(event, Event::Reported(_))), "and counted");
    assert!(world.stored_value(&crate::support::target("m")).buckets.is_empty(), "nothing was ever written");
    let again = world.report(answered(&lease, 200, &[]));
    assert!(reported(world.reply(again)).not_applied.is_some(), "a repeated report counts once");
}

/// The next attempt of a reported call is there at once, too: nobody waits because of us.
#[test]
fn off_and_shadow_grant_the_next_attempt_at_once() {
    for mode in ["off", "shadow"] {
        let mut world = World::new(in_mode(mode, ""), 1);
        let first = world.ask(ask("A"));
        let lease = world.reply(first).grant().lease_id.clone();
        // An interactive call would not wait for this.
        let id = world.report(with_retry(answered(&lease, 429, &[("retry-after", "7200")])));
        let answer = reported(world.reply(id));
        assert_eq!(answer.verdict, Some(Verdict::Retry), "{mode}: how long the provider wants is the worker's affair");
        assert_eq!(world.reply(id).grant().wait, Span::ZERO, "{mode}");
    }
}

/// The part of the calls that a percentage says, the same for every attempt of a call, and for a larger part the same and more.
#[test]
fn a_percentage_takes_calls_in_by_their_name() {
    let split = |enforce: u32| in_mode(&format!("{{enforce: {enforce}%, shadow: {}%}}", 100 - enforce), "");
    let modes_at = |enforce: u32| -> Vec<Option<Mode>> {
        let mut world = World::new(split(enforce), 1);
        (0..1_000)
            .map(|n| {
                let request = AcquireRequest { hold: Span::ZERO, ..ask(&format!("call-{n}")) };
                let mode = mode_of(&mut world, request);
                world.pass(secs(2));
                mode
            })
            .collect()
    };
    let (some, more) = (modes_at(20), modes_at(50));
    let enforced = |modes: &[Option<Mode>]| modes.iter().filter(|mode| **mode != Some(Mode::Shadow)).count();
    assert!((150..250).contains(&enforced(&some)), "{}", enforced(&some));
    assert!((430..570).contains(&enforced(&more)), "{}", enforced(&more));
    for (before, after) in some.iter().zip(&more) {
        assert!(*before == Some(Mode::Shadow) || *after != Some(Mode::Shadow), "who is enforced stays so in a roll-out");
    }

    let mut world = World::new(split(20), 2);
    for n in 0..50 {
        let first = ask(&format!("call-{n}"));
        let id = world.ask(first.clone());
        let grant = world.reply(id).grant().clone();
        let refused = world.report(answered(&grant.lease_id, 500, &[]));
        assert_eq!(reported(world.reply(refused)).verdict, Some(Verdict::Retry));
        world.pass(secs(60));
        let id = world.ask(next(&first, &grant.lease_id));
        assert_eq!(world.reply(id).grant().mode, grant.mode, "each attempt of a call is in its mode");
        world.pass(secs(60));
    }
}

/// A tenant's calls are in the mode that interferes less, of the tenant's and the target's.
#[test]
fn of_two_rules_the_lesser_holds() {
    let tenants = "ads: {mode: enforce}, web: {mode: \"off\"}, \"*\": {mode: shadow}, default: {mode: shadow}";
    for (mode, ads, web, other) in [
        ("enforce", Mode::Enforce, Mode::Off, Mode::Shadow),
        ("shadow", Mode::Shadow, Mode::Off, Mode::Shadow),
        ("off", Mode::Off, Mode::Off, Mode::Off),
    ] {
        let mut world = World::new(in_mode(mode, tenants), 1);
        for (n, (tenant, expected)) in [("ads", ads), ("web", web), ("else", other), ("", other)].into_iter().enumerate() {
            let id = world.ask(of_tenant(&format!("call-{n}"), tenant));
            assert_eq!(world.reply(id).grant().mode, expected, "{mode}, tenant {tenant:?}");
        }
    }
}

/// Rolling back lets go at once whoever waits; rolling out holds the next ask.
#[test]
fn a_reload_changes_the_mode_at_once() {
    for mode in ["off", "shadow"] {
        let mut world = World::new(in_mode("enforce", ""), 1);
        for n in 0..60 {
            world.ask(ask(&format!("call-{n}")));
        }
        let waits: Vec<_> = (0..5).map(|n| world.ask(ask(&format!("waits-{n}")))).collect();
        assert!(waits.iter().all(|id| world.replied(*id).is_none()));
        world.settings = in_mode(mode, "");
        let changed = world.settings.clone();
        world.refuse = 2;
        world.tell_all(0, || Input::Settings(changed.clone()));
        for id in &waits {
            let grant = world.reply(*id).grant();
            assert_eq!((grant.wait, grant.mode.name()), (Span::ZERO, mode));
            assert_eq!(world.replied_at(*id), world.now, "at once");
        }
        assert!(world.is_quiet(0));
        let in_flight: u64 = world.scope(0).in_flight_by_class(world.now).iter().sum();
        assert_eq!(in_flight, if mode == "off" { 60 } else { 65 }, "each counts once, however often it was decided");

        world.settings = in_mode("enforce", "");
        let changed = world.settings.clone();
        world.tell_all(0, || Input::Settings(changed.clone()));
        let id = world.ask(ask("after"));
        assert!(world.replied(id).is_none(), "{mode}: and from the next ask on it holds again");
    }
}

/// What those take who are only watched is gone for those who are made to wait.
#[test]
fn the_enforced_keep_clear_of_what_the_watched_take() {
    let mut world = World::new(in_mode("enforce", "web: {mode: shadow}"), 1);
    for n in 0..60 {
        let id = world.ask(of_tenant(&format!("web-{n}"), "web"));
        assert_eq!(world.reply(id).grant().mode, Mode::Shadow);
    }
    let id = world.ask(ask("mine"));
    assert!(world.replied(id).is_none(), "the minute's sixty are gone");
    world.pass(Span::from_millis(1_300));
    assert_eq!(world.reply(id).queued().ahead, 0);
    // With `off` they are not counted, and only the provider's answers tell.
    let mut world = World::new(in_mode("enforce", "web: {mode: \"off\"}"), 1);
    for n in 0..60 {
        world.ask(of_tenant(&format!("web-{n}"), "web"));
    }
    let id = world.ask(ask("mine"));
    assert_eq!(world.reply(id).grant().wait, Span::ZERO);
}
