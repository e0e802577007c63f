//! Replicas that have read different files, or none: the same limits hold for all of them.

use std::sync::Arc;

use paceline_config::Config;
use paceline_coordinator::Configured;
use paceline_coordinator::api::{AcquireRequest, Answer, Target};
use paceline_coordinator::scope::Input;
use paceline_coordinator::settings::Settings;
use paceline_core::units::{FleetTime, Span};

use crate::support::{Look, START, World, ask};

fn secs(secs: i64) -> Span {
    Span::from_secs(secs)
}

fn target() -> Target {
    Target { provider: "openai".into(), account: "default".into(), model: "gpt-4o".into() }
}

fn call(name: &str) -> AcquireRequest {
    AcquireRequest { target: target(), hold: Span::ZERO, ..ask(name) }
}

/// A file with this limit of the account.
fn file(limit: &str) -> Config {
    Config::parse(&format!("providers: {{openai: {{start_level: full, limits: {{{limit}}}}}}}"), "file.yaml").unwrap()
}

fn read(config: Config, at: FleetTime, is_reload: bool) -> Arc<dyn Settings> {
    Arc::new(Configured::new(config).loaded_at(at, is_reload))
}

/// The limit of the account's requests, as stored.
fn limit(world: &World) -> Option<u64> {
    let value = world.stored_value(&target());
    value.buckets.iter().find(|state| state.plan.id.label() == "account/requests").and_then(|state| state.plan.limit)
}

/// How many of a saturating crowd's calls are sent in 20 s by a replica that takes the lead from one that has the file.
fn sent_under(other: Arc<dyn Settings>) -> usize {
    let mut world = World::new(read(file("requests: 60/min"), START, false), 21);
    let first = world.ask(call("first"));
    world.reply(first).grant();
    let in_force = world.stored_value(&target()).in_force;
    world.settings = other;
    world.put_away(0);
    world.pass(secs(10));
    let mut sent = 0;
    for n in 0..2_000 {
        let id = world.ask_at(1, call(&n.to_string())).unwrap();
        sent += usize::from(matches!(world.reply(id).answer(), Answer::Granted(_)));
        world.pass(Span::from_millis(10));
    }
    assert_eq!(world.stored_value(&target()).in_force, in_force, "what is in force stays");
    assert_eq!(limit(&world), Some(60));
    sent
}

#[test]
fn a_replica_without_the_file_keeps_to_the_limits_of_those_that_have_it() {
    // Started later than anybody, in the fleet's time; the rollout is long over.
    let none = read(Config::default(), START + secs(900), false);
    let older = read(file("tokens: 900000/min"), START - secs(60), false);
    for (what, other) in [("it has no file", none), ("its file lacks the limit", older)] {
        let sent = sent_under(other);
        assert!((70..=80).contains(&sent), "{what}: 60 at once and one a second, {sent}");
    }
}

#[test]
fn a_file_takes_the_place_of_none() {
    let mut world = World::new(read(Config::default(), START, false), 22);
    let first = world.ask(call("first"));
    world.reply(first).grant();
    assert_eq!(limit(&world), None);
    // Read before the other one began: nobody wrote that.
    world.settings = read(file("requests: 60/min"), START - secs(60), false);
    let id = world.ask_at(1, call("A")).unwrap();
    world.reply(id).grant();
    assert_eq!(limit(&world), Some(60));
}

/// What the documents say of a rollout: a newer file alone changes no limit, its replica has to decide.
#[test]
fn a_newer_file_holds_from_its_replicas_next_decision_on() {
    let (older, newer) = (read(file("requests: 60/min"), START, false), read(file("requests: 30/min"), START + secs(5), true));
    let mut world = World::new(older.clone(), 23);
    for replica in [1, 0] {
        let id = world.ask_at(replica, call(&replica.to_string())).unwrap();
        world.reply(id).grant();
    }
    world.pass(secs(10));
    world.tell_all(1, || Input::Settings(newer.clone()));
    assert_eq!(limit(&world), Some(60), "it has decided about nothing yet");
    let id = world.ask_at(0, call("A")).unwrap();
    world.reply(id).grant();
    assert_eq!(limit(&world), Some(60), "nor does the one that leads know what is in it");
    world.settings = newer;
    let id = world.ask_at(1, call("B")).unwrap();
    world.reply(id).grant();
    assert_eq!(limit(&world), Some(30));
    world.settings = older;
    let id = world.ask_at(0, call("C")).unwrap();
    world.reply(id).grant();
    assert_eq!(limit(&world), Some(30), "and then it holds wherever calls are decided");
}
