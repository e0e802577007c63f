//! What people on call say: it ends at its time by itself, and the store need not be there for that.

use std::sync::Arc;

use paceline_coordinator::api::{AcquireRequest, Answer};
use paceline_core::controls::{ControlError, Kind, New, What, Whom};
use paceline_core::denial::Reason;
use paceline_core::signal::Source;
use paceline_core::units::Span;
use paceline_store::{ChangeError, Store};

use crate::stores::{Failing, held};
use crate::support::{Look, ask, limits};
use crate::{Service, secs, service, sleep, store};

fn pause(lasts: Span) -> New {
    let whom = Whom { provider: Arc::from("acme"), ..Whom::default() };
    New { what: What::Pause, whom, lasts, reason: Arc::from("it hurts"), who: Arc::from("ada") }
}

async fn say<S: Store>(service: &Service<S>, new: New) -> Result<(), ChangeError<ControlError>> {
    service.coordinator.change_controls(|book, now| book.say(new.clone(), now)).await.map(drop)
}

fn paused(answer: &Answer) -> Span {
    let parts = answer.grant().delays.iter().filter(|part| part.cause.source == Source::Paused);
    parts.fold(Span::ZERO, |sum, part| sum + part.length)
}

#[tokio::test(start_paused = true)]
async fn who_waits_goes_on_when_a_pause_ends_by_itself_and_knows_why_it_waited() {
    let service = Arc::new(service(Failing::new(), limits("limits: {requests: 600/min}")).await);
    say(&service, pause(secs(10))).await.unwrap();
    let waiting = held(&service, "A", secs(30)).await;
    let answer = waiting.await.unwrap();
    assert_eq!(paused(&answer), secs(10), "{:?}", answer.grant().delays);
    let hasty = AcquireRequest { max_wait: Some(secs(5)), ..ask("B") };
    say(&service, pause(secs(10))).await.unwrap();
    let Answer::Denied(denied) = service.ask(hasty).await else { panic!("it cannot wait so long") };
    assert_eq!((denied.denial.reason, denied.denial.retry_after), (Reason::Paused, Some(secs(10))));
}

#[tokio::test(start_paused = true)]
async fn a_pause_said_at_one_replica_ends_at_another() {
    let store = store();
    let (here, there) = (
        service(store.clone(), limits("limits: {requests: 600/min}")).await,
        service(store.clone(), limits("limits: {requests: 600/min}")).await,
    );
    say(&here, pause(secs(60))).await.unwrap();
    there.coordinator.follow_controls().await.unwrap();
    let asked = AcquireRequest { hold: Span::ZERO, ..ask("A") };
    assert_eq!(there.ask(asked.clone()).await.queued().binding.source, Source::Paused);
    let end = |book: &paceline_core::controls::Book, now| Ok(book.take_back(Kind::Pause, &Whom::default(), None, now));
    assert_eq!(there.coordinator.change_controls(end).await.unwrap().ended.len(), 1);
    here.coordinator.follow_controls().await.unwrap();
    here.grant(AcquireRequest { request_id: "B".into(), ..asked }).await;
}

#[tokio::test(start_paused = true)]
async fn without_the_store_what_was_said_holds_until_its_end() {
    let failing = Failing::new();
    let service = Arc::new(service(failing.clone(), limits("limits: {requests: 600/min}")).await);
    say(&service, pause(secs(20))).await.unwrap();
    let waiting = held(&service, "A", secs(60)).await;
    failing.fail(true);
    assert!(service.coordinator.follow_controls().await.is_err());
    let refused = say(&service, pause(secs(600))).await;
    assert!(matches!(refused, Err(ChangeError::Store(_))), "nobody else could be told: {refused:?}");
    sleep(secs(10)).await;
    assert!(!waiting.is_finished(), "it holds");
    let answer = waiting.await.unwrap();
    assert!(paused(&answer) >= secs(19), "{:?}", answer.grant().delays);

    // Something new holds here alone, and no longer than the store is away.
    let here = service.coordinator.change_controls_here(|book, now| book.say(pause(secs(60)), now)).await;
    assert!(here.is_ok_and(|pending| pending.added.is_some()));
    let asked = |name| AcquireRequest { hold: Span::ZERO, ..ask(name) };
    assert_eq!(service.ask(asked("B")).await.queued().binding.source, Source::Paused);
    failing.fail(false);
    service.coordinator.follow_controls().await.unwrap();
    assert_eq!(service.coordinator.controls().active(service.coordinator.now()).count(), 0);
    sleep(secs(2)).await;
    service.grant(asked("C")).await;
}
