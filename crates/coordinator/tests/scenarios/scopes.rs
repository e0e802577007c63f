//! SK: which calls share buckets, and which never do.

use paceline_coordinator::api::{AcquireRequest, CallError, Target};
use paceline_core::units::Span;

use super::{secs, sent_at_once};
use crate::support::{World, ask, settings, target};

const ONE_ACCOUNT: &str = "providers: {acme: {extends: generic, start_level: full, accounts: {prod: {\
                           limits: {requests: {limit: 100, per: 1h}}, models: {\"m*\": {limits: {requests: {limit: 100, per: 1h}}}}}}}}";

/// SK01: a model and its dated name in one group, a hundred calls under each: a hundred in total. A model that nobody named is
/// bound by what the account allows and never starts with a full bucket of its own.
#[test]
fn sk01_names_of_one_model_share_its_bucket() {
    let mut world = World::new(settings(ONE_ACCOUNT), 1);
    let mut ids = Vec::new();
    for n in 0..100 {
        for model in ["m", "m-2026-01-01"] {
            let request = AcquireRequest { target: target(model), hold: Span::ZERO, ..ask(&format!("{model} {n}")) };
            ids.push(world.ask(AcquireRequest { max_wait: Some(secs(36_000)), ..request }));
        }
    }
    assert_eq!(sent_at_once(&world, &ids), 100);
    let stranger = AcquireRequest { target: target("nobody-named-it"), hold: Span::ZERO, ..ask("stranger") };
    let id = world.ask(AcquireRequest { max_wait: Some(secs(36_000)), ..stranger });
    assert_eq!(sent_at_once(&world, &[id]), 0, "the account's requests are used up");
}

/// SK05: an account that is not there, is empty, or is another's by a slip of the keyboard: refused with what to write, and
/// nobody's bucket is touched. `default` is an account only where it is written.
#[test]
fn sk05_no_account_is_shared_silently() {
    let mut world = World::new(settings(ONE_ACCOUNT), 2);
    for (account, word) in [("", "prod"), ("prd", "prod"), ("Prod", "prod"), ("default", "unknown_accounts")] {
        let target = Target { account: account.into(), ..target("m") };
        let refused = world.ask_at(0, AcquireRequest { target, ..ask("A") }).unwrap_err();
        let CallError::Invalid { field, problem } = &refused else { panic!("{account}: {refused:?}") };
        assert_eq!(*field, "target.account");
        assert!(problem.contains(word), "{problem}");
    }
    assert!(world.stored_value(&target("")).buckets.is_empty());
    let named = settings("providers: {acme: {extends: generic, accounts: {default: {}}}}");
    let mut world = World::new(named, 3);
    let target = Target { account: String::new(), ..target("m") };
    world.ask(AcquireRequest { target, ..ask("A") });
}
