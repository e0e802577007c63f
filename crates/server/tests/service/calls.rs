//! What workers do all day: ask, send, report, ask again.

use paceline_core::units::Span;
use paceline_proto::v1::acquire_response::Outcome as Answer;
use paceline_proto::v1::release_request::What;
use paceline_proto::v1::{
    AcquireRequest, Header, Mode, Outcome, Reason, ReleaseRequest, ReportRequest, RetryAsk, Source, Verdict,
};
use tonic::Code;

use crate::support::{Service, ask, granted, length, queued, report, secs};

fn tokens(request_id: &str, tokens: u64) -> AcquireRequest {
    AcquireRequest { cost: [("tokens".to_owned(), tokens)].into(), ..ask(request_id, "m") }
}

#[tokio::test]
async fn ask_send_report_and_the_unused_units_come_back() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let answer = limiter.acquire(tokens("a", 1_000)).await.unwrap().into_inner();
    assert_eq!(answer.mode(), Mode::Enforce);
    let grant = granted(&answer);
    assert_eq!((grant.reserved["requests"], grant.reserved["tokens"]), (1, 1_000));
    assert_eq!(length(grant.wait.as_ref()), Span::ZERO);
    assert_eq!(grant.target.as_ref().unwrap().model, "m");

    let used = ReportRequest { usage: [("tokens".to_owned(), 400)].into(), ..report(&grant.lease_id, 200) };
    let told = limiter.report(used).await.unwrap().into_inner();
    assert!(told.applied && told.ttl.is_none() && told.next.is_none());
    assert_eq!(told.verdict(), Verdict::Done);
    let again = limiter.acquire(tokens("b", 600)).await.unwrap().into_inner();
    assert_eq!(length(granted(&again).wait.as_ref()), Span::ZERO);
}

#[tokio::test]
async fn what_the_provider_says_to_one_call_holds_for_the_next() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let first = limiter.acquire(ask("a", "m")).await.unwrap().into_inner();
    let refused = ReportRequest {
        headers: vec![Header { name: "rEtRy-AfTeR".into(), value: "60".into() }],
        ..report(&granted(&first).lease_id, 429)
    };
    let told = limiter.report(refused).await.unwrap().into_inner();
    assert!(told.applied);
    assert_eq!(told.verdict(), Verdict::Retry);
    let signal = told.signal.as_ref().unwrap();
    assert_eq!(signal.source(), Source::RetryAfterSeconds);
    assert_eq!(length(signal.retry_after.as_ref()), Span::from_secs(60));
    assert_eq!(length(signal.honored.as_ref()), Span::from_secs(60));
    assert!(told.detail.contains("retry-after"), "{}", told.detail);

    // Another worker, another connection: it is told to come back.
    let mut other = service.limiter().await;
    let answer = other.acquire(ask("b", "m")).await.unwrap().into_inner();
    let binding: Vec<Source> = answer.delays.iter().filter(|delay| delay.binding).map(|delay| delay.source()).collect();
    assert_eq!(binding, [Source::RetryAfterSeconds]);
    let ticket = queued(&answer).ticket.clone();
    let later = AcquireRequest { ticket, ..ask("b", "m") };
    service.advance(Span::from_secs(59));
    queued(&other.acquire(later.clone()).await.unwrap().into_inner());

    // A slot is firm no earlier than a moment before it, and never before the provider's minute is over.
    let mut now = Span::from_secs(59);
    let mut ticket = later;
    let sent_at = loop {
        match other.acquire(ticket.clone()).await.unwrap().into_inner() {
            answer if matches!(answer.outcome, Some(Answer::Grant(_))) => {
                let wait = length(granted(&answer).wait.as_ref());
                let parts = answer.delays.iter().map(|delay| length(delay.duration.as_ref())).fold(Span::ZERO, |a, b| a + b);
                assert_eq!(parts, now + wait, "the parts are the whole wait: {:?}", answer.delays);
                break now + wait;
            }
            answer => ticket.ticket = queued(&answer).ticket.clone(),
        }
        service.advance(Span::from_millis(100));
        now += Span::from_millis(100);
    };
    assert!(sent_at >= Span::from_secs(60), "{sent_at}");
}

#[tokio::test]
async fn the_same_key_is_the_same_lease_and_another_cost_is_another_call() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let first = limiter.acquire(tokens("a", 100)).await.unwrap().into_inner();
    let scope = service.scope().await;
    let again = service.limiter().await.acquire(tokens("a", 100)).await.unwrap().into_inner();
    assert_eq!(granted(&first).lease_id, granted(&again).lease_id);
    assert_eq!(service.scope().await, scope, "charged once");
    let other = limiter.acquire(tokens("a", 101)).await.unwrap_err();
    assert_eq!(other.code(), Code::AlreadyExists);
    assert!(other.message().contains("another request_id"), "{}", other.message());
    limiter.report(report(&granted(&first).lease_id, 200)).await.unwrap();
    let settled = limiter.acquire(tokens("a", 100)).await.unwrap_err();
    assert_eq!(settled.code(), Code::AlreadyExists);
}

#[tokio::test]
async fn the_next_attempt_comes_with_the_report() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let first = limiter.acquire(ask("a", "m")).await.unwrap().into_inner();
    let retry = Some(RetryAsk { wanted: true, ..RetryAsk::default() });
    let failed =
        ReportRequest { outcome: Outcome::ConnectionFailed.into(), status: 0, retry, ..report(&granted(&first).lease_id, 0) };
    // Never sent: the next attempt may go after a short backoff, and the ask is held no longer than a second of fleet time.
    let held = tokio::spawn(async move { limiter.report(failed).await });
    while !held.is_finished() {
        service.advance(Span::from_millis(200));
        service.scope().await;
    }
    let told = held.await.unwrap().unwrap().into_inner();
    assert_eq!(told.verdict(), Verdict::Retry);
    let next = told.next.expect("an answer to the ask");
    assert!(matches!(next.outcome, Some(Answer::Grant(_) | Answer::Queued(_))), "{next:?}");
}

#[tokio::test]
async fn a_call_that_can_never_fit_is_denied_whatever_its_number() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    granted(&limiter.acquire(ask("first", "m")).await.unwrap().into_inner());
    let before = service.scope().await;
    for units in [1_001, 1 << 31, 1 << 63, u64::MAX] {
        let answer = limiter.acquire(tokens(&format!("a{units}"), units)).await.unwrap().into_inner();
        let Some(Answer::Denial(denial)) = &answer.outcome else { panic!("{answer:?}") };
        assert_eq!(denial.reason(), Reason::CostExceedsCapacity);
        assert!(denial.retry_after.is_none() && denial.detail.contains("tokens"), "{denial:?}");
    }
    assert_eq!(service.scope().await, before, "nothing was charged");
}

#[tokio::test]
async fn a_deadline_that_cannot_be_kept_is_denied_at_once() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    granted(&limiter.acquire(ask("a", "slow")).await.unwrap().into_inner());
    let hurried = AcquireRequest { deadline: Some(secs(3)), hold: None, ..ask("b", "slow") };
    let answer = limiter.acquire(hurried).await.unwrap().into_inner();
    let Some(Answer::Denial(denial)) = &answer.outcome else { panic!("{answer:?}") };
    assert_eq!(denial.reason(), Reason::Deadline);
    assert!(denial.detail.contains("deadline"), "{}", denial.detail);
    assert!(denial.retry_after.is_some());
}

#[tokio::test]
async fn giving_back_is_idempotent() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let grant = granted(&limiter.acquire(ask("a", "slow")).await.unwrap().into_inner()).clone();
    let ticket = queued(&limiter.acquire(ask("b", "slow")).await.unwrap().into_inner()).ticket.clone();
    for what in [What::Ticket(ticket), What::LeaseId(grant.lease_id)] {
        for expected in [true, false] {
            let released = limiter.release(ReleaseRequest { what: Some(what.clone()) }).await.unwrap().into_inner().released;
            assert_eq!(released, expected, "{what:?}");
        }
    }
    assert_eq!(service.scope().await.in_flight, 0);
    assert_eq!(length(granted(&limiter.acquire(ask("c", "slow")).await.unwrap().into_inner()).wait.as_ref()), Span::ZERO);
}

#[tokio::test]
async fn headers_that_nothing_reads_are_listed_with_a_sample() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let first = limiter.acquire(ask("one", "m")).await.unwrap().into_inner();
    let header = |name: &str, value: &str| Header { name: name.into(), value: value.into() };
    let headers = vec![header("X-House-Quota-Left", "7/60"), header("x-house-rate-limit-key", "sk-abcdefghijklmnop1234")];
    let answered = ReportRequest { headers, ..report(&granted(&first).lease_id, 200) };
    limiter.report(answered).await.unwrap();
    let scope = service.scope().await;
    let listed: Vec<(&str, u64)> = scope.unread.iter().map(|header| (header.name.as_str(), header.count)).collect();
    assert_eq!(listed, [("x-house-quota-left", 1), ("x-house-rate-limit-key", 1)]);
    assert_eq!(scope.unread[0].sample, "7/60");
    assert!(!scope.unread[1].sample.contains("abcdef"), "{:?}", scope.unread[1]);
}

#[tokio::test]
async fn a_wait_of_zero_is_told_as_what_it_is() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    for (value, says) in [("0", "(retry-after) is over already"), ("", "the provider did not say")] {
        let first = limiter.acquire(ask(&format!("a{value}"), "m")).await.unwrap().into_inner();
        let headers = Some(Header { name: "retry-after".into(), value: value.into() });
        let headers = headers.filter(|header| !header.value.is_empty()).into_iter().collect();
        let refused = ReportRequest { headers, ..report(&granted(&first).lease_id, 429) };
        let told = limiter.report(refused).await.unwrap().into_inner();
        assert!(told.detail.contains("our guess") && told.detail.contains(says), "{value:?}: {}", told.detail);
        service.advance(Span::from_secs(30));
    }
}
