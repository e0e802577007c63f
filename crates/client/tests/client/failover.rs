//! A service that is away, comes back, answers strangely or has replicas.

use std::time::Duration;

use paceline_client::{Ask, Error, Limiter, Outcome, Report};
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt as _};

use crate::peer::{Peer, Say, breathe, grant, told};

const SECOND: Duration = Duration::from_secs(1);
const NEVER: Duration = Duration::from_secs(86_400);

/// Starts the service after a while.
fn start_after(peer: &Peer, delay: Duration) {
    let peer = peer.clone();
    tokio::spawn(async move {
        sleep(delay).await;
        peer.start();
    });
}

#[tokio::test(start_paused = true)]
async fn a_service_that_comes_up_late_is_waited_for() {
    let peer = Peer::default();
    peer.on_acquire(grant("lease", Duration::ZERO));
    start_after(&peer, SECOND * 5);
    let began = Instant::now();
    let slot = peer.limiter().acquire(Ask::new("openai")).await.unwrap();
    assert_eq!(slot.lease_id(), "lease");
    assert!(began.elapsed() < SECOND * 8, "found within a pause: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn patience_ends_with_an_error_that_names_the_addresses() {
    let peer = Peer::default();
    let limiter =
        peer.builder().channel("second", peer.channel()).patience(SECOND * 12).go_on_without_service(false).build().unwrap();
    let began = Instant::now();
    let error = limiter.acquire(Ask::new("openai")).await.unwrap_err();
    assert!(began.elapsed() >= SECOND * 12 && began.elapsed() < SECOND * 13, "{:?}", began.elapsed());
    let text = error.to_string();
    assert!(text.contains("scripted, second") && text.contains("paceline serve"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_shorter_than_patience() {
    let peer = Peer::default();
    let began = Instant::now();
    let error = peer.limiter().acquire(Ask::new("openai").deadline(SECOND * 3)).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(began.elapsed() < SECOND * 4, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_restart_while_an_ask_is_held_costs_one_more_ask() {
    let peer = Peer::up();
    peer.on_acquire(Say { after: NEVER, answer: Ok(grant("never", Duration::ZERO)) }).on_acquire(grant("lease", SECOND));
    let stopping = peer.clone();
    tokio::spawn(async move {
        sleep(SECOND / 2).await;
        stopping.stop();
        start_after(&stopping, SECOND);
    });
    let slot = peer.limiter().acquire(Ask::new("openai")).await.unwrap();
    let [first, second] = peer.acquires().try_into().unwrap();
    assert_eq!((slot.lease_id(), &first), ("lease", &second), "the same key: a lost answer is found again");
}

#[tokio::test(start_paused = true)]
async fn a_report_outlives_a_restart_and_says_how_old_it_is() {
    let peer = Peer::up();
    peer.on_acquire(grant("lease", Duration::ZERO));
    let mut slot = peer.limiter().acquire(Ask::new("openai")).await.unwrap();
    slot.sent();
    peer.stop();
    start_after(&peer, SECOND * 4);
    slot.report(Report::response(429).header("retry-after", "20")).await.unwrap();
    let [report] = peer.reports().try_into().unwrap();
    let age = Duration::try_from(report.age.unwrap()).unwrap();
    assert!(age >= SECOND * 4 && age < SECOND * 7, "the floor counts from the response, not from the report: {age:?}");
    assert_eq!(report.seq, 1);
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_reported_is_said_after_the_drop_and_stays_true() {
    let peer = Peer::up();
    peer.on_acquire(grant("lease", Duration::ZERO));
    let mut slot = peer.builder().patience(SECOND * 5).build().unwrap().acquire(Ask::new("openai")).await.unwrap();
    peer.stop();
    start_after(&peer, SECOND * 7);
    assert!(matches!(slot.report(Report::response(200).usage("tokens", 5)).await, Err(Error::Unreachable { .. })));
    drop(slot);
    sleep(SECOND * 5).await;
    let [report] = peer.reports().try_into().unwrap();
    assert_eq!((report.outcome(), report.usage["tokens"]), (Outcome::Response, 5));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_finds_nobody_is_tried_again_before_the_lease_ends() {
    let peer = Peer::up();
    peer.on_acquire(grant("lease", Duration::ZERO));
    let slot = peer.limiter().acquire(Ask::new("openai")).await.unwrap();
    peer.stop();
    start_after(&peer, SECOND * 40); // after the first renewal, before the end of the minute
    sleep(SECOND * 60).await;
    assert!(!peer.reports().is_empty());
    drop(slot);
}

#[tokio::test(start_paused = true)]
async fn the_next_replica_is_asked_at_once() {
    let (down, up) = (Peer::default(), Peer::up());
    // Whichever it begins with: the one that is up must be found without a pause, and kept.
    for _ in 0..20 {
        let limiter = Limiter::builder().channel("down", down.channel()).channel("up", up.channel()).build().unwrap();
        for _ in 0..3 {
            up.on_acquire(grant("lease", Duration::ZERO));
            let began = Instant::now();
            let slot = limiter.acquire(Ask::new("openai")).await.unwrap();
            assert!(began.elapsed() < Duration::from_millis(10), "{:?}", began.elapsed());
            slot.release().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_drains_sends_the_caller_to_another() {
    let (draining, up) = (Peer::up(), Peer::up());
    draining.on_acquire(Status::unavailable("draining"));
    up.on_acquire(grant("lease", Duration::ZERO));
    let limiter = Limiter::builder().channel("draining", draining.channel()).channel("up", up.channel()).build().unwrap();
    assert_eq!(limiter.acquire(Ask::new("openai")).await.unwrap().lease_id(), "lease");
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_never_answers_is_left_after_the_hold() {
    let (mute, up) = (Peer::up(), Peer::up());
    mute.on_acquire(Say { after: NEVER, answer: Ok(grant("never", Duration::ZERO)) });
    up.on_acquire(grant("lease", Duration::ZERO));
    let builder = Limiter::builder().channel("mute", mute.channel()).channel("up", up.channel());
    let limiter = builder.hold(SECOND * 2).build().unwrap();
    let began = Instant::now();
    assert_eq!(limiter.acquire(Ask::new("openai")).await.unwrap().lease_id(), "lease");
    assert!(began.elapsed() <= SECOND * 8, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_protects_itself_is_left_alone_for_as_long_as_it_says() {
    let peer = Peer::up();
    let details = ErrorDetails::with_retry_info(Some(SECOND * 3));
    let busy = Status::with_error_details(Code::ResourceExhausted, "100,000 calls are held", details);
    peer.on_acquire(busy).on_acquire(grant("lease", Duration::ZERO));
    let began = Instant::now();
    peer.limiter().acquire(Ask::new("openai")).await.unwrap().release().await.unwrap();
    assert!(began.elapsed() >= SECOND * 3 && began.elapsed() < SECOND * 4, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_is_not_sent_again() {
    let violation = FieldViolation::new("cost.requests", "must be 1 or more");
    let details = ErrorDetails::with_bad_request(vec![violation]);
    let invalid = Status::with_error_details(Code::InvalidArgument, "1 field is wrong", details);
    let unknown = Status::not_found("no provider `opnai`; did you mean `openai`?");
    for (status, says) in [(invalid, "cost.requests: must be 1 or more"), (unknown, "did you mean `openai`?")] {
        let peer = Peer::up();
        peer.on_acquire(status);
        let error = peer.limiter().acquire(Ask::new("opnai")).await.unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        breathe().await;
        assert_eq!(peer.heard().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_is_repeated_under_the_same_number_when_its_answer_is_lost() {
    let peer = Peer::up();
    peer.on_report(Status::unavailable("draining")).on_report(told(paceline_client::Verdict::Done));
    peer.on_acquire(grant("lease", Duration::ZERO));
    let mut slot = peer.limiter().acquire(Ask::new("openai")).await.unwrap();
    slot.report(Report::response(200)).await.unwrap();
    assert_eq!(peer.reports().iter().map(|report| report.seq).collect::<Vec<_>>(), [1, 1]);
}
