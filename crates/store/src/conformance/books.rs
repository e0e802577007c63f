//! The book of controls, which all users of a store share.

use std::sync::Arc;

use paceline_core::controls::{Book, ControlError, Kind, New, What, Whom};
use paceline_core::units::{FleetTime, Span};

use super::Harness;
use crate::book::{change_book, load_book};

/// Others may use the store's book at the same time: only controls of a provider of our own are looked at.
pub(super) async fn no_control_of_a_race_is_lost<H: Harness>(harness: &H) {
    const PEOPLE: usize = 6;
    let provider = format!("conformance-{:032x}", rand::random::<u128>());
    let said = (0..PEOPLE).map(|number| {
        let store = harness.store();
        let new = pause(&provider, number);
        tokio::spawn(async move { change_book(&*store, 7, |book, now| book.say(new.clone(), now)).await })
    });
    for said in said.collect::<Vec<_>>() {
        let (_, pending) = said.await.expect("no panic").expect("nothing speaks against it");
        assert!(pending.added.is_some());
    }
    let (version, book) = load_book(&*harness.store()).await.expect("load");
    let mut ids: Vec<u64> = ours(&book, &provider);
    assert_eq!(ids.len(), PEOPLE, "each is there");
    ids.dedup();
    assert_eq!(ids.len(), PEOPLE, "and has a number of its own");

    let everybody = Whom { provider: Arc::from(provider.as_str()), ..Whom::default() };
    let end = |book: &Book, now: FleetTime| Ok::<_, ControlError>(book.take_back(Kind::Pause, &everybody, None, now));
    let store = harness.store();
    let (ended_at, pending) = change_book(&*store, 7, end).await.expect("ended");
    assert_eq!(pending.ended.len(), PEOPLE);
    assert!(ended_at > version);
    let (same, pending) = change_book(&*store, 7, end).await.expect("nothing to end");
    assert!(pending.ended.is_empty());
    assert!(same >= ended_at);
    let (_, book) = load_book(&*harness.store()).await.expect("load");
    assert_eq!(ours(&book, &provider), Vec::<u64>::new());
}

fn pause(provider: &str, number: usize) -> New {
    New {
        what: What::Pause,
        whom: Whom { provider: Arc::from(provider), account: Arc::from(number.to_string()), ..Whom::default() },
        lasts: Span::from_secs(600),
        reason: Arc::from("a race"),
        who: Arc::from("the suite"),
    }
}

fn ours(book: &Book, provider: &str) -> Vec<u64> {
    book.controls().iter().filter(|control| *control.whom.provider == *provider).map(|control| control.id).collect()
}
