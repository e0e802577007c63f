//! Many calls on one stream.

use std::collections::BTreeSet;

use paceline_core::units::Span;
use paceline_proto::v1::rate_limiter_client::RateLimiterClient;
use paceline_proto::v1::release_request::What;
use paceline_proto::v1::session_request::Call;
use paceline_proto::v1::session_response::Answer;
use paceline_proto::v1::{
    AcquireRequest, Forwarded, NotApplied, Outcome, ReleaseRequest, ReportRequest, RetryAsk, SessionRequest, Verdict,
};
use paceline_server::{Drained, bounds};
use tonic::Code;
use tonic::transport::Endpoint;

use crate::support::stream::{Stream, is_granted};
use crate::support::{Service, ask, granted, length, queued, report, secs, until};

fn code(error: &tonic_types::Status) -> Code {
    Code::from_i32(error.code)
}

#[tokio::test]
async fn a_call_that_waits_is_told_so_at_once_and_decided_later() {
    let service = Service::start().await;
    let mut stream = Stream::open(&service).await;
    stream.ask(7, ask("a", "slow")).await;
    granted(&stream.hear_of(7).await);
    stream.ask(7, ask("b", "slow")).await; // the id is free again
    stream.ask(8, ask("c", "slow")).await;
    assert_eq!(queued(&stream.hear_of(7).await).ahead, 0);
    let second = stream.hear_of(8).await;
    assert_eq!(queued(&second).ahead, 1);
    until("both wait", async || service.waiting().await == 2).await;

    service.advance(Span::from_secs(10));
    until("the first is decided", async || service.waiting().await == 1).await;
    let first = stream.hear_of(7).await;
    assert_eq!(length(granted(&first).wait.as_ref()), Span::ZERO);
    service.advance(Span::from_secs(10));
    until("the second is decided", async || service.waiting().await == 0).await;
    granted(&stream.hear_of(8).await);
}

#[tokio::test]
async fn a_thousand_calls_on_one_stream_are_answered_in_their_order() {
    const CALLS: u64 = 1_000;
    let service = Service::start().await;
    let mut stream = Stream::open(&service).await;
    stream.ask(0, ask("first", "slow")).await;
    granted(&stream.hear_of(0).await);
    let says = stream.says.clone();
    let asking = tokio::spawn(async move {
        for id in 1..=CALLS {
            let patient = AcquireRequest { max_wait: Some(secs(86_400)), ..ask(&format!("call{id}"), "slow") };
            let call = Some(Call::Acquire(patient));
            says.send(SessionRequest { correlation_id: id, call, ..SessionRequest::default() }).await.unwrap();
        }
    });
    let mut told = BTreeSet::new();
    for _ in 0..CALLS {
        let (id, Answer::Acquire(answer)) = stream.hear().await else { panic!("no error") };
        queued(&answer);
        told.insert(id);
    }
    asking.await.unwrap();
    assert_eq!(told, (1..=CALLS).collect(), "each is told that it waits");
    until("all wait", async || service.waiting().await == CALLS).await;
    for expected in 1..=20 {
        service.advance(Span::from_secs(10));
        until("one more is decided", async || service.waiting().await == CALLS - expected).await;
        granted(&stream.hear_of(expected).await);
    }
    // Whoever is gone leaves the line with all its calls.
    drop(stream);
    until("all have left", async || service.waiting().await == 0).await;
}

#[tokio::test]
async fn who_cancels_knows_whether_a_grant_follows() {
    let service = Service::start().await;
    let mut stream = Stream::open(&service).await;
    stream.ask(1, ask("a", "slow")).await;
    granted(&stream.hear_of(1).await);
    stream.cancel(1).await; // it has had its last answer: nothing is said
    stream.ask(2, ask("b", "slow")).await;
    queued(&stream.hear_of(2).await);
    stream.cancel(2).await;
    stream.cancel(2).await; // twice is no harm
    assert_eq!(code(&stream.hear_error(2).await), Code::Cancelled);
    until("it has left", async || service.waiting().await == 0).await;
    stream.cancel(99).await; // nobody
    // Asked and cancelled in one breath: one last answer, whichever it is, and nothing stays behind.
    for round in 0..50 {
        stream.ask(3, ask(&format!("hasty{round}"), "m")).await;
        stream.cancel(3).await;
        match stream.hear().await {
            (3, Answer::Acquire(answer)) if is_granted(&answer) => {
                let what = Some(What::LeaseId(granted(&answer).lease_id.clone()));
                stream.say(4, Call::Release(ReleaseRequest { what })).await;
                assert!(matches!(stream.hear().await, (4, Answer::Release(told)) if told.released));
            }
            (3, Answer::Error(error)) => assert_eq!(code(&error), Code::Cancelled),
            other => panic!("{other:?}"),
        }
    }
    until("nothing is left of them", async || service.scope().await.in_flight == 1).await;
}

#[tokio::test]
async fn the_next_attempt_follows_its_report_on_the_stream() {
    let service = Service::start().await;
    let mut stream = Stream::open(&service).await;
    stream.ask(1, ask("a", "slow")).await;
    let first = stream.hear_of(1).await;
    let retry = Some(RetryAsk { wanted: true, ..RetryAsk::default() });
    let failed = ReportRequest { outcome: Outcome::ConnectionFailed.into(), retry, ..report(&granted(&first).lease_id, 0) };
    stream.report(2, failed).await;
    let told = stream.hear_of_report(2).await;
    assert!(told.applied);
    assert_eq!(told.verdict(), Verdict::Retry);
    let ticket = queued(told.next.as_ref().unwrap()).ticket.clone();
    assert!(!ticket.is_empty());
    until("it waits", async || service.waiting().await == 1).await;
    service.advance(Span::from_secs(60));
    until("it is decided", async || service.waiting().await == 0).await;
    let next = stream.hear_of(2).await;
    assert!(!granted(&next).place_lost);
    // It is the second attempt, and its place is used up.
    let again = AcquireRequest { attempt: 2, previous_lease_id: granted(&first).lease_id.clone(), ..ask("a", "slow") };
    stream.ask(3, again).await;
    assert_eq!(granted(&stream.hear_of(3).await).lease_id, granted(&next).lease_id);
}

#[tokio::test]
async fn what_is_wrong_with_one_call_ends_nothing_else() {
    let service = Service::start().await;
    let mut stream = Stream::open(&service).await;
    stream.ask(1, ask("first", "slow")).await;
    granted(&stream.hear_of(1).await);
    stream.ask(2, ask("waits", "slow")).await;
    queued(&stream.hear_of(2).await);
    until("it waits", async || service.waiting().await == 1).await;

    stream.ask(3, AcquireRequest { target: None, ..ask("b", "slow") }).await;
    let error = stream.hear_error(3).await;
    assert_eq!(code(&error), Code::InvalidArgument);
    assert!(error.message.contains("target") && !error.details.is_empty(), "{error:?}");
    stream.ask(3, ask("c", "nobody")).await; // the id of a refused call is free
    granted(&stream.hear_of(3).await);
    stream.report(4, report("forged", 200)).await;
    assert_eq!(code(&stream.hear_error(4).await), Code::InvalidArgument);
    stream.say(5, Call::Release(ReleaseRequest { what: None })).await;
    assert_eq!(code(&stream.hear_error(5).await), Code::InvalidArgument);
    // An id that is in use: the message is refused, the call goes on.
    stream.ask(2, ask("d", "m")).await;
    let error = stream.hear_error(2).await;
    assert!(error.message.contains("correlation_id"), "{error:?}");
    // Nobody says on whose behalf it calls.
    let forwarded = Some(Forwarded { identity: "somebody-else".into(), unheard: false });
    let call = Some(Call::Acquire(ask("e", "m")));
    stream.says.send(SessionRequest { correlation_id: 6, call, forwarded, ..SessionRequest::default() }).await.unwrap();
    let error = stream.hear_error(6).await;
    assert!(code(&error) == Code::InvalidArgument && error.message.contains("forwarded"), "{error:?}");

    service.advance(Span::from_secs(10));
    until("it is decided", async || service.waiting().await == 0).await;
    granted(&stream.hear_of(2).await);
    // A message without a call cannot be answered: the protocol is broken.
    stream.says.send(SessionRequest { correlation_id: 9, ..SessionRequest::default() }).await.unwrap();
    let end = stream.next().await.unwrap_err();
    assert_eq!(end.code(), Code::InvalidArgument);
    assert!(end.message().contains("correlation_id 9"), "{}", end.message());
}

#[tokio::test]
async fn too_many_waiting_calls_are_refused_each_on_its_own() {
    let service = Service::start().await;
    let mut stream = Stream::open(&service).await;
    stream.ask(0, ask("first", "slow")).await;
    granted(&stream.hear_of(0).await);
    let most = bounds::MOST_SESSION_CALLS as u64;
    let says = stream.says.clone();
    let asking = tokio::spawn(async move {
        for id in 1..=most + 1 {
            let call = Some(Call::Acquire(ask(&format!("call{id}"), "slow")));
            says.send(SessionRequest { correlation_id: id, call, ..SessionRequest::default() }).await.unwrap();
        }
    });
    let mut waiting = BTreeSet::new();
    let refused = loop {
        match stream.hear().await {
            (id, Answer::Acquire(answer)) => {
                queued(&answer);
                assert!(waiting.insert(id));
            }
            (id, Answer::Error(error)) => break (id, error),
            other => panic!("{other:?}"),
        }
    };
    asking.await.unwrap();
    assert_eq!((refused.0, code(&refused.1)), (most + 1, Code::ResourceExhausted));
    assert!(refused.1.details.iter().any(|detail| detail.type_url.ends_with("RetryInfo")), "{:?}", refused.1);
    // One that leaves makes room for another.
    stream.cancel(1).await;
    loop {
        match stream.hear().await {
            (1, Answer::Error(error)) => break assert_eq!(code(&error), Code::Cancelled),
            (_, Answer::Acquire(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    stream.ask(most + 2, ask("last", "slow")).await;
    loop {
        match stream.hear().await {
            (id, Answer::Acquire(_)) if id == most + 2 => break,
            (_, Answer::Acquire(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_second_ask_with_the_same_key_takes_the_place() {
    let service = Service::start().await;
    let mut stream = Stream::open(&service).await;
    stream.ask(1, ask("a", "slow")).await;
    granted(&stream.hear_of(1).await);
    stream.ask(2, ask("b", "slow")).await;
    queued(&stream.hear_of(2).await);
    until("it waits", async || service.waiting().await == 1).await;
    let mut other = Stream::open(&service).await;
    other.ask(5, ask("b", "slow")).await;
    queued(&other.hear_of(5).await);
    // The first hears a second Queued, which is its last word; it does not take the place back by itself.
    queued(&stream.hear_of(2).await);
    service.advance(Span::from_secs(10));
    until("it is decided", async || service.waiting().await == 0).await;
    granted(&other.hear_of(5).await);
    stream.ask(2, ask("c", "m")).await;
    granted(&stream.hear_of(2).await);
}

#[tokio::test]
async fn leases_live_as_long_as_their_stream() {
    let service = Service::start().await;
    let mut stream = Stream::open(&service).await;
    // A ttl of two minutes in fleet time, which moves as this test says; the renewals come by the machine's clock.
    let hurried = |id: &str| AcquireRequest { run_time: Some(prost_types::Duration { seconds: 1, nanos: 0 }), ..ask(id, "m") };
    stream.ask(1, hurried("a")).await;
    let lease_id = granted(&stream.hear_of(1).await).lease_id.clone();
    // Each renewal reaches 1 s further, so it lives through 3 s of fleet time in steps of half a second.
    for _ in 0..6 {
        let before = service.written("running").await;
        until("it was renewed", async || service.written("running").await > before).await;
        service.advance(Span::from_millis(500));
    }
    // What the worker says itself counts as ever, from 1.
    let running = ReportRequest { outcome: Outcome::Running.into(), r#final: false, ..report(&lease_id, 0) };
    stream.report(2, running).await;
    let told = stream.hear_of_report(2).await;
    assert!(told.applied && told.ttl.is_some(), "{told:?}");
    // One of its calls waits: when that has left the line, the stream is gone with all it did.
    stream.ask(3, ask("b", "slow")).await;
    granted(&stream.hear_of(3).await);
    stream.ask(4, ask("c", "slow")).await;
    queued(&stream.hear_of(4).await);
    until("it waits", async || service.waiting().await == 1).await;
    drop(stream);
    until("the stream is gone", async || service.waiting().await == 0).await;
    // Nobody renews any more: it ends by its ttl.
    service.advance(Span::from_secs(2));
    let late = ReportRequest { seq: 2, ..report(&lease_id, 200) };
    let told = service.limiter().await.report(late).await.unwrap().into_inner();
    assert_eq!((told.applied, told.not_applied()), (false, NotApplied::LeaseExpired));
}

#[tokio::test]
async fn when_the_service_leaves_all_get_their_tickets_and_the_stream_ends() {
    let mut service = Service::start().await;
    let mut stream = Stream::open(&service).await;
    stream.ask(0, ask("first", "slow")).await;
    granted(&stream.hear_of(0).await);
    for id in 1..=50 {
        stream.ask(id, ask(&format!("call{id}"), "slow")).await;
        queued(&stream.hear_of(id).await);
    }
    until("all wait", async || service.waiting().await == 50).await;
    service.stop();
    let mut told = BTreeSet::new();
    let end = loop {
        match stream.next().await {
            Ok(Some(answer)) => {
                let Some(Answer::Acquire(ticket)) = &answer.answer else { panic!("{answer:?}") };
                assert!(!queued(ticket).ticket.is_empty());
                assert!(told.insert(answer.correlation_id), "one last word each");
            }
            Ok(None) => panic!("it says why it ends"),
            Err(end) => break end,
        }
    };
    assert_eq!(told, (1..=50).collect());
    assert_eq!(end.code(), Code::Unavailable);
    assert!(end.message().contains("another"), "{}", end.message());
    drop(stream);
    assert_eq!(service.ended().await, Drained::Completely, "nobody keeps it from ending");
}

#[tokio::test]
async fn a_stream_that_was_said_to_the_end_is_answered_to_the_end() {
    let service = Service::start().await;
    let stream = Stream::open(&service).await;
    stream.ask(1, ask("a", "slow")).await;
    stream.ask(2, ask("b", "slow")).await;
    let Stream { says, hears } = stream;
    drop(says);
    let mut stream = Stream { says: tokio::sync::mpsc::channel(1).0, hears };
    let mut told = [stream.hear().await.0, stream.hear().await.0];
    told.sort_unstable();
    assert_eq!(told, [1, 2], "a grant, and that the other one waits");
    until("it waits", async || service.waiting().await == 1).await;
    service.advance(Span::from_secs(10));
    until("it is decided", async || service.waiting().await == 0).await;
    granted(&stream.hear_of(2).await);
    assert!(stream.next().await.unwrap().is_none(), "and then it ends well");
}

/// Answers wait for room, those of calls that wait and those of calls that are decided; as soon as the caller reads, all of them come.
#[tokio::test]
async fn a_caller_that_reads_late_hears_everything() {
    const WAITING: u64 = 4_000;
    let service = Service::start().await;
    // What it does not read fills the buffers of the service, and not its own.
    let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap().initial_stream_window_size(4_096);
    let mut stream = Stream::over(RateLimiterClient::new(endpoint.connect().await.unwrap())).await;
    stream.ask(0, ask("first", "slow")).await;
    granted(&stream.hear_of(0).await);
    for id in 1..=WAITING {
        let patient = AcquireRequest { max_wait: Some(secs(86_400)), ..ask(&format!("call{id}"), "slow") };
        stream.ask(id, patient).await;
    }
    until("all wait", async || service.waiting().await == WAITING).await;
    stream.ask(WAITING + 1, ask("decided", "m")).await;
    until("it is decided", async || service.scope().await.in_flight == 2).await;
    let mut told = BTreeSet::new();
    for _ in 0..=WAITING {
        let (id, Answer::Acquire(answer)) = stream.hear().await else { panic!("no error") };
        assert_eq!(is_granted(&answer), id == WAITING + 1);
        told.insert(id);
    }
    assert_eq!(told, (1..=WAITING + 1).collect());
}
