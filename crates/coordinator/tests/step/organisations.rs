//! One account name for two organisations: two quotas that nobody can tell apart.

use paceline_coordinator::scope::{Event, Input, Reply};
use paceline_core::units::Span;

use crate::support::{Look, World, answered, ask, settings, target};

#[test]
fn two_organisations_under_one_account_are_told_once() {
    let config = "providers: {acme: {extends: openai, start_level: full, accounts: {prod: {limits: {requests: 6000/min}}}}}";
    let mut world = World::new(settings(config), 1);
    let mut names = ["acme-research", "acme-research", "acme-products", "acme-research", "acme-products"].into_iter();
    for n in 0..5 {
        let id = world.ask(ask(&format!("call-{n}")));
        let lease = world.reply(id).grant().lease_id.clone();
        world.report(answered(&lease, 200, &[("OpenAI-Organization", names.next().unwrap())]));
    }
    let mixed: Vec<&Event> = world.events.iter().filter(|event| matches!(event, Event::AccountMixed { .. })).collect();
    let [Event::AccountMixed { organisations }] = mixed.as_slice() else { panic!("{mixed:?}") };
    assert_eq!(organisations, &["acme-res...arch", "acme-pro...ucts"]);
    let shown = world.tell(0, &target(""), Input::Inspect);
    let Reply::View(view) = world.reply(shown) else { panic!("a view") };
    assert_eq!(view.organisations.len(), 2);
    world.pass(Span::from_secs(24 * 3_600));
    assert_eq!(world.scope(0).organisations(world.now), 0, "what nobody has named for a day is forgotten");
}
