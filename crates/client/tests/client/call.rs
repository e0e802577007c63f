//! Whole calls: several attempts, one bound, and no answer lost.

use std::time::Duration;

use paceline_client::{Ask, End, Error, NotApplied, Outcome, Reason, Report, Signal, Slot, Verdict};
use paceline_proto::v1::{AcquireResponse, AnswerKind, ReportResponse};
use tokio::time::{Instant, sleep, timeout};

use crate::peer::{Peer, Say, breathe, denial, grant, not_applied, queued, told};

const SECOND: Duration = Duration::from_secs(1);

fn retry_with(next: AcquireResponse) -> ReportResponse {
    ReportResponse { next: Some(next), ..told(Verdict::Retry) }
}

/// One attempt at a provider that refuses all but the third.
async fn third_time_lucky(slot: &mut Slot) -> (Report, u16) {
    sleep(Duration::from_millis(100)).await;
    let status = if slot.attempt() < 3 { 429 } else { 200 };
    (Report::response(status), status)
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_is_sent_again_when_the_service_says_so() {
    let peer = Peer::up();
    peer.on_acquire(grant("one", Duration::ZERO));
    peer.on_report(retry_with(grant("two", SECOND * 2))).on_report(retry_with(grant("three", SECOND * 4)));
    let began = Instant::now();
    let called = peer.limiter().call(Ask::new("openai"), third_time_lucky).await.unwrap();
    assert_eq!((called.value, called.attempts, called.is_done()), (200, 3, true));
    assert!(began.elapsed() >= SECOND * 6, "never before its time: {:?}", began.elapsed());
    assert!(began.elapsed() < SECOND * 7);

    let reports = peer.reports();
    let said: Vec<(&str, u32)> = reports.iter().map(|report| (report.lease_id.as_str(), report.status)).collect();
    assert_eq!(said, [("one", 429), ("two", 429), ("three", 200)]);
    assert!(reports.iter().all(|report| report.retry.as_ref().is_some_and(|retry| retry.wanted)));
    breathe().await;
    assert_eq!(peer.heard().len(), 4, "the next slot comes with the report");
}

#[tokio::test(start_paused = true)]
async fn a_next_slot_that_has_to_wait_or_does_not_come_is_asked_for() {
    let peer = Peer::up();
    peer.on_acquire(grant("one", Duration::ZERO));
    peer.on_report(retry_with(queued("place", SECOND))).on_report(told(Verdict::Retry));
    peer.on_acquire(grant("two", Duration::ZERO)).on_acquire(grant("three", Duration::ZERO));
    let ask = Ask::new("openai").cost("tokens", 9).request_id("call-1");
    let called = peer.limiter().call(ask, third_time_lucky).await.unwrap();
    assert_eq!((called.value, called.attempts), (200, 3));

    let [_, second, third] = peer.acquires().try_into().unwrap();
    let key = |attempt| ("call-1", attempt);
    assert_eq!((second.request_id.as_str(), second.attempt), key(2));
    assert_eq!((second.ticket.as_slice(), second.previous_lease_id.as_str()), (b"place".as_slice(), "one"));
    assert_eq!((third.request_id.as_str(), third.attempt), key(3));
    assert_eq!((third.ticket.as_slice(), third.previous_lease_id.as_str()), (b"".as_slice(), "two"));
    assert_eq!(third.cost["tokens"], 9);
}

#[tokio::test(start_paused = true)]
async fn the_last_word_of_the_provider_is_kept_when_the_call_is_over() {
    let gave_up = ReportResponse { reason: Reason::NotRetryable.into(), ..told(Verdict::GiveUp) };
    for (said, expected) in [(gave_up, Reason::NotRetryable), (retry_with(denial(Reason::Deadline)), Reason::Deadline)] {
        let peer = Peer::up();
        peer.on_acquire(grant("one", Duration::ZERO)).on_report(said);
        let called = peer.limiter().call(Ask::new("openai"), third_time_lucky).await.unwrap();
        assert_eq!((called.value, called.attempts, called.is_done()), (429, 1, false));
        let reason = match called.end {
            End::Reported(reported) => reported.reason,
            End::Denied(denied) => denied.reason,
            End::Unreported(error) => panic!("{error}"),
        };
        assert_eq!(reason, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_not_lost_because_it_could_not_be_reported() {
    let peer = Peer::up();
    peer.on_acquire(grant("one", Duration::ZERO));
    let gone = peer.clone();
    let send = async move |_slot: &mut Slot| {
        gone.stop();
        (Report::response(200), "an answer that was paid for")
    };
    let called = peer.limiter().call(Ask::new("openai"), send).await.unwrap();
    assert_eq!(called.value, "an answer that was paid for");
    assert!(matches!(called.end, End::Unreported(Error::Unreachable { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_lost_the_lease_is_asked_again_for_what_was_refused() {
    let peer = Peer::up();
    let refused = Signal { kind: AnswerKind::Throttled.into(), retryable: true, ..Signal::default() };
    let lost = ReportResponse { signal: Some(refused), ..not_applied(NotApplied::LeaseUnknown) };
    peer.on_acquire(grant("one", Duration::ZERO)).on_acquire(grant("two", SECOND)).on_report(lost);
    peer.on_report(told(Verdict::Done));
    let called = peer.limiter().call(Ask::new("openai"), third_time_lucky).await.unwrap();
    assert_eq!(called.attempts, 2);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_cancels_what_is_at_the_provider_and_reports_a_time_out() {
    let peer = Peer::up();
    peer.on_acquire(grant("one", SECOND));
    let began = Instant::now();
    let send = async |_slot: &mut Slot| {
        sleep(SECOND * 3_600).await;
        (Report::response(200), ())
    };
    let error = peer.limiter().call(Ask::new("openai").deadline(SECOND * 5), send).await.unwrap_err();
    assert!(matches!(error, Error::DeadlineOver { attempt: 1, .. }), "{error}");
    assert!(began.elapsed() >= SECOND * 5 && began.elapsed() < SECOND * 6, "{:?}", began.elapsed());
    breathe().await;
    assert_eq!(peer.reports().iter().map(|report| report.outcome()).collect::<Vec<_>>(), [Outcome::Timeout]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_abandoned() {
    let peer = Peer::up();
    peer.on_acquire(grant("one", Duration::ZERO));
    let limiter = peer.limiter();
    let send = async |_slot: &mut Slot| {
        sleep(SECOND * 3_600).await;
        (Report::response(200), ())
    };
    timeout(SECOND, limiter.call(Ask::new("openai"), send)).await.unwrap_err();
    breathe().await;
    assert_eq!(peer.reports().iter().map(|report| report.outcome()).collect::<Vec<_>>(), [Outcome::Abandoned]);
}

#[tokio::test(start_paused = true)]
async fn many_calls_run_as_tasks_on_one_limiter() {
    let peer = Peer::up();
    let limiter = peer.limiter();
    for _ in 0..50 {
        peer.on_acquire(Say { after: Duration::from_millis(5), answer: Ok(grant("lease", Duration::ZERO)) });
    }
    let calls = (0..50_u16).map(|number| {
        let limiter = limiter.clone();
        let send = async move |_slot: &mut Slot| (Report::response(200), number);
        tokio::spawn(async move { limiter.call(Ask::new("openai"), send).await.unwrap().value })
    });
    let mut came_back = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        came_back.push(call.await.unwrap());
    }
    assert_eq!(came_back, (0..50).collect::<Vec<_>>());
}
