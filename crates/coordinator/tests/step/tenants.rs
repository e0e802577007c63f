//! Tenants: how urgent they may be, and how they share a limit.

use paceline_coordinator::api::AcquireRequest;
use paceline_coordinator::scope::{Input, Reply};
use paceline_core::denial::Reason;
use paceline_core::plan::Class;
use paceline_core::units::Span;

use crate::support::{Look, World, ask, back, settings, target};

/// One call a second, of which the first is there.
const SHARED: &str = "
tenants: {ads: {weight: 3}, web: {weight: 1}, guest: {max_priority: batch}}
providers:
  acme: {extends: generic, start_level: full, accounts: {prod: {models: {m: {limits: {requests: {limit: 60, per: 1m, burst: 1}}}}}}}
";

fn of(tenant: &str, name: &str) -> AcquireRequest {
    AcquireRequest { tenant: tenant.to_owned(), hold: Span::from_secs(60), ..ask(name) }
}

#[test]
fn a_tenant_is_no_more_urgent_than_it_may_be() {
    let mut world = World::new(settings(SHARED), 1);
    world.ask(of("ads", "first"));
    let request = |tenant, name| AcquireRequest { class: Class::Interactive, ..of(tenant, name) };
    world.ask(request("guest", "a"));
    world.ask(request("ads", "b"));
    let lanes: Vec<(Class, String)> =
        world.scope(0).queue().lanes().map(|(key, _)| (key.class, key.tenant.to_string())).collect();
    assert_eq!(lanes, [(Class::Interactive, "ads".to_owned()), (Class::Batch, "guest".to_owned())]);
    // And a denial says so: without `max_wait`, a batch call would wait for an hour.
    let late = world.ask(AcquireRequest { max_wait: Some(Span::ZERO), ..request("guest", "c") });
    let denied = world.reply(late).denied();
    assert_eq!(denied.denial.reason, Reason::Deadline);
    let detail = &denied.denial.detail;
    assert!(
        detail.ends_with("; asked for as interactive, treated as batch: tenants.guest.max_priority allows no more"),
        "{detail}"
    );
}

#[test]
fn who_names_no_tenant_is_the_default_one() {
    let mut world = World::new(settings(SHARED), 2);
    world.ask(of("ads", "first"));
    world.ask(of("", "a"));
    world.ask(of("default", "b"));
    world.ask(of("web", "c"));
    let view = world.tell(0, &target("m"), Input::Inspect);
    let Reply::View(view) = world.reply(view) else { panic!("a view") };
    let mut lanes: Vec<(&str, u64)> = view.lanes.iter().map(|lane| (lane.tenant.as_str(), lane.depth)).collect();
    lanes.sort_unstable();
    assert_eq!(lanes, [("default", 2), ("web", 1)]);
}

/// Twelve of `web` came first; `ads` weighs three times as much.
#[test]
fn tenants_share_by_weight() {
    let mut world = World::new(settings(SHARED), 3);
    world.ask(of("web", "first"));
    let mut asked = Vec::new();
    for (tenant, number) in (0..24).map(|number| (if number < 12 { "web" } else { "ads" }, number)) {
        let request = of(tenant, &format!("{tenant}-{number}"));
        let first = world.ask(AcquireRequest { hold: Span::ZERO, ..request.clone() });
        let ticket = world.reply(first).queued().clone();
        asked.push((tenant, world.ask(back(&request, &ticket, Span::from_secs(60)))));
    }
    world.pass(Span::from_secs(9));
    let answered = |tenant: &str| {
        asked.iter().filter(|(name, id)| *name == tenant && world.answers.iter().any(|answer| answer.id == *id)).count()
    };
    let (web, ads) = (answered("web"), answered("ads"));
    assert!((8..=9).contains(&(web + ads)), "{web} and {ads}");
    assert!((2..=3).contains(&web), "{web} of web, {ads} of ads");
}
