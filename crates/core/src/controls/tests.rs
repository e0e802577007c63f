//! Laws of the book.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::plan::Class;

const START: FleetTime = FleetTime::from_secs(1_800_000_000);

fn at(secs: i64) -> FleetTime {
    START + Span::from_secs(secs)
}

fn whom(provider: &str, model: &str, tenant: &str, class: Option<Class>) -> Whom {
    Whom { provider: Arc::from(provider), model: Arc::from(model), tenant: Arc::from(tenant), class, ..Whom::default() }
}

fn new(what: What, whom: Whom, secs: i64) -> New {
    New { what, whom, lasts: Span::from_secs(secs), reason: Arc::from("it hurts"), who: Arc::from("ada@desk") }
}

fn limit(bucket: &str, units: u64) -> What {
    What::Limit(OverLimit { bucket: Arc::from(bucket), units, per: Some(Span::from_secs(60)) })
}

fn book(said: Vec<New>) -> Book {
    said.into_iter().fold(Book::default(), |book, new| book.say(new, START).unwrap().book)
}

fn called(tenant: &'static str, class: Class) -> Called<'static> {
    Called { model: "gpt-4o", tenant, class }
}

#[test]
fn a_pause_holds_up_whom_it_names_and_ends() {
    let batch = whom("openai", "", "", Some(Class::Batch));
    let book = book(vec![new(What::Pause, batch, 60), new(What::Pause, whom("", "", "ads", None), 90)]);
    let of = |now| OfScope::of(&book, "openai", "prod", now);
    let until = |of: &OfScope, tenant, class| of.pause(&called(tenant, class)).map(|pause| pause.until);
    assert_eq!(until(&of(START), "shop", Class::Batch), Some(at(60)));
    assert_eq!(until(&of(START), "shop", Class::Interactive), None, "chats go on");
    assert_eq!(until(&of(START), "ads", Class::Batch), Some(at(90)), "pauses add up");
    assert_eq!(until(&of(at(60)), "shop", Class::Batch), None, "it ends by itself");
    let told = of(START).pause(&called("shop", Class::Batch)).unwrap().told;
    assert_eq!(&*told, r#"pause 1 (openai/*, batch) by ada@desk: "it hurts""#);
    let mut kept = of(START);
    assert_eq!(kept.next_end(), Some(at(60)));
    assert!(!kept.expire(at(59)) && kept.expire(at(60)) && kept.next_end() == Some(at(90)));
    assert_eq!(OfScope::of(&book, "cohere", "prod", START).next_end(), Some(at(90)), "others are not touched by the first");
}

#[test]
fn of_modes_the_one_that_interferes_least_holds() {
    let everybody = || whom("openai", "", "", None);
    let said = vec![
        new(What::Mode(Mode::Enforce), everybody(), 60),
        new(What::Mode(Mode::Shadow), whom("openai", "gpt-*", "", None), 60),
        new(What::Mode(Mode::Off), whom("openai", "", "ads", None), 60),
    ];
    let of = OfScope::of(&book(said), "openai", "prod", START);
    let (off, shadow, enforce) = (Modes::all(Mode::Off), Modes::all(Mode::Shadow), Modes::all(Mode::Enforce));
    assert_eq!(of.modes(&called("shop", Class::Normal), off, enforce), shadow, "in place of what is planned");
    assert_eq!(of.modes(&called("shop", Class::Normal), off, off), off, "a tenant's own mode is the most");
    assert_eq!(of.modes(&called("ads", Class::Normal), enforce, enforce), off);
    let o1 = Called { model: "o1", ..called("shop", Class::Normal) };
    assert_eq!(of.modes(&o1, shadow, enforce), enforce);
    assert_eq!((of.modes_of_all(None, off), of.modes_of_all(Some("gpt-4o"), off)), (enforce, shadow), "as people are shown it");
    let named =
        OfScope::of(&book(vec![new(What::Mode(Mode::Enforce), whom("", "", "ads", None), 60)]), "openai", "prod", START);
    assert_eq!(named.modes(&called("ads", Class::Normal), off, off), enforce, "who names the tenant means it");
}

#[test]
fn what_is_said_again_takes_the_place_of_what_was_said() {
    let book =
        book(vec![new(What::Pause, whom("openai", "", "", None), 60), new(limit("requests", 5), whom("", "", "", None), 60)]);
    let again = book.say(new(What::Pause, whom("openai", "", "", None), 600), at(1)).unwrap();
    assert_eq!(again.ended.iter().map(|control| control.id).collect::<Vec<_>>(), [1]);
    assert_eq!(again.added.as_ref().map(|control| (control.id, control.ends)), Some((3, at(601))));
    assert_eq!(again.book.limits_at(), book.limits_at(), "limits are the same");
    let other = again.book.say(new(limit("tokens", 5), whom("", "", "", None), 60), START).unwrap();
    assert_eq!(other.ended, [], "another bucket's limit is another thing");
    assert!(other.book.limits_at() > book.limits_at(), "also when the clock stands still");
}

#[test]
fn what_cannot_be_said_says_why() {
    let sound = || new(What::Pause, Whom::default(), 60);
    let book = Book::default();
    for (new, expected) in [
        (New { lasts: Span::ZERO, ..sound() }, ControlError::Length(Span::ZERO)),
        (New { lasts: LONGEST + Span::from_secs(1), ..sound() }, ControlError::Length(LONGEST + Span::from_secs(1))),
        (New { reason: Arc::from(" "), ..sound() }, ControlError::Reason),
        (New { reason: Arc::from("a\nb"), ..sound() }, ControlError::Reason),
        (New { who: Arc::from("x".repeat(101)), ..sound() }, ControlError::Who),
        (New { what: limit("requests", 0), ..sound() }, ControlError::Limit),
        (New { what: limit("requests", 1), whom: whom("", "", "ads", None), ..sound() }, ControlError::LimitOfSome),
    ] {
        assert_eq!(book.say(new, START), Err(expected));
    }
    let numbered = |n: usize| New { whom: whom(&n.to_string(), "", "", None), ..sound() };
    let full = (0..MOST_CONTROLS).fold(book, |book, n| book.say(numbered(n), START).unwrap().book);
    assert_eq!(full.say(numbered(MOST_CONTROLS), START), Err(ControlError::Full));
    assert!(full.say(numbered(0), START).is_ok(), "what takes the place of another one has room");
    assert!(full.say(numbered(MOST_CONTROLS), at(60)).is_ok(), "what is over makes room");
}

fn any_new() -> impl Strategy<Value = New> {
    let what = prop_oneof![
        prop::sample::select(Mode::ALL.to_vec()).prop_map(What::Mode),
        Just(What::Pause),
        (1_u64..100).prop_map(|units| limit("requests", units)),
    ];
    (what, "[ab*]{0,2}", "[ab*]{0,2}", 1_i64..1_000)
        .prop_map(|(what, provider, model, secs)| new(what, whom(&provider, &model, "", None), secs))
}

proptest! {
    /// However it came about: numbers rise, nothing that is over is in force, and of the same thing one holds.
    #[test]
    fn books_stay_sound(said in prop::collection::vec((any_new(), 0_i64..500), 0..30)) {
        let (mut book, mut now) = (Book::default(), START);
        for (new, later) in said {
            now = now + Span::from_secs(later);
            let before = book.clone();
            let pending = book.say(new.clone(), now).unwrap();
            book = pending.book;
            let added = pending.added.unwrap();
            prop_assert!(added.id > before.last_id() && book.limits_at() >= before.limits_at());
            prop_assert!(book.active(now).all(|control| control.ends > now));
            let same = book.active(now).filter(|one| one.whom == new.whom && one.what.is_about_the_same(&new.what)).count();
            prop_assert_eq!(same, 1);
            prop_assert!(book.matters_until() > added.ends);
        }
    }

    /// Taking everything back leaves nothing of that kind, and the others as they were.
    #[test]
    fn what_is_taken_back_is_gone(said in prop::collection::vec(any_new(), 0..20), kind in 0_usize..3) {
        let kind = Kind::ALL[kind];
        let before = book(said);
        let pending = before.take_back(kind, &Whom::default(), None, START);
        let of = |controls: &[Control], wanted: bool| controls.iter().filter(|one| (one.what.kind() == kind) == wanted).cloned().collect::<Vec<_>>();
        prop_assert_eq!(of(pending.book.controls(), true), []);
        prop_assert_eq!(of(pending.book.controls(), false), of(before.controls(), false));
        prop_assert_eq!(&pending.ended, &of(before.controls(), true));
        prop_assert_eq!(pending.book.limits_at() > before.limits_at(), kind == Kind::Limit && !pending.ended.is_empty());
    }
}
