//! Where nobody makes calls wait: the service only watches, is off, or is not asked at all.

use std::time::Duration;

use paceline_client::{Ask, Limiter, Mode, Report, Slot, Verdict};
use paceline_proto::v1::{AcquireResponse, ReportResponse, Signal};
use tokio::time::Instant;

use crate::peer::{Peer, breathe, grant, told};

const SECOND: Duration = Duration::from_secs(1);

/// A slot at once, in this mode.
fn at_once(lease: &str, mode: Mode) -> AcquireResponse {
    AcquireResponse { mode: mode.into(), ..grant(lease, Duration::ZERO) }
}

/// Again, and the provider said to wait so long.
fn again_after(seconds: i64) -> ReportResponse {
    let retry_after = Some(prost_types::Duration { seconds, nanos: 0 });
    ReportResponse { signal: Some(Signal { retry_after, ..Signal::default() }), ..told(Verdict::Retry) }
}

async fn second_time_lucky(slot: &mut Slot) -> (Report, u16) {
    let status = if slot.attempt() < 2 { 429 } else { 200 };
    (Report::response(status).header("Retry-After", "2"), status)
}

/// Nothing holds the next attempt back but the client itself, so it waits as the provider said, and asks afterwards.
#[tokio::test(start_paused = true)]
async fn where_calls_are_only_watched_the_client_waits_between_attempts_by_itself() {
    for mode in [Mode::Shadow, Mode::Off] {
        let peer = Peer::up();
        peer.on_acquire(at_once("one", mode)).on_acquire(at_once("two", mode));
        peer.on_report(again_after(2)).on_report(told(Verdict::Done));
        let began = Instant::now();
        let called = peer.limiter().call(Ask::new("openai"), second_time_lucky).await.unwrap();
        assert_eq!((called.value, called.attempts, called.is_done()), (200, 2, true));
        assert!(began.elapsed() >= SECOND * 2 && began.elapsed() < SECOND * 4, "{:?}", began.elapsed());
        let [_, second] = peer.acquires().try_into().unwrap();
        assert_eq!((second.attempt, second.previous_lease_id.as_str()), (2, "one"));
        assert!(peer.reports().iter().all(|report| report.retry.is_none()), "the next slot would be too early");
    }
}

/// Nobody sleeps for an hour because a service that only watches passed on what the provider said.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_what_an_sdk_would_not_wait_for() {
    let peer = Peer::up();
    peer.on_acquire(at_once("one", Mode::Shadow)).on_report(again_after(3_600));
    let called = peer.limiter().call(Ask::new("openai"), second_time_lucky).await.unwrap();
    assert_eq!((called.value, called.attempts), (429, 1));
    let peer = Peer::up();
    peer.on_acquire(at_once("one", Mode::Shadow)).on_report(again_after(20));
    let ask = Ask::new("openai").deadline(SECOND * 10);
    let called = peer.limiter().call(ask, second_time_lucky).await.unwrap();
    assert_eq!((called.value, called.attempts), (429, 1), "nor beyond its deadline");
}

/// With the client off nothing is asked and nothing is said; refused calls are sent again all the same.
#[tokio::test(start_paused = true)]
async fn a_client_that_is_off_asks_nobody() {
    let peer = Peer::up();
    let limiter: Limiter = peer.builder().off(true).build().unwrap();
    let began = Instant::now();
    let called = limiter.call(Ask::new("openai").model("gpt-4o"), second_time_lucky).await.unwrap();
    assert_eq!((called.value, called.attempts, called.is_done()), (200, 2, true));
    assert!(began.elapsed() >= SECOND * 2, "never before the provider says so");
    let slot = limiter.acquire(Ask::new("openai").model("gpt-4o")).await.unwrap();
    assert_eq!((slot.mode(), slot.target().model.as_str()), (Mode::Off, "gpt-4o"));
    assert!(!slot.release().await.unwrap());
    drop(limiter.acquire(Ask::new("openai")).await.unwrap());
    breathe().await;
    assert!(peer.heard().is_empty());
}
