//! Where nobody makes calls wait: the service only watches, is off, or is not asked at all.

use std::time::Duration;

use paceline_client::{Ask, Limiter, Mode, Outcome, Report, Slot, Verdict};
use paceline_proto::v1::release_request::What;
use paceline_proto::v1::{AcquireResponse, ReportResponse, Signal};
use tokio::time::{Instant, sleep};

use crate::peer::{Peer, Say, breathe, grant, queued, told};

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

/// A limiter that only watches.
fn watching(peer: &Peer) -> Limiter {
    peer.builder().mode(Mode::Shadow).build().unwrap()
}

/// The call goes at once, whatever the service says and however long it takes to; what became of it is told all the same.
#[tokio::test(start_paused = true)]
async fn a_worker_that_watches_asks_beside_its_calls() {
    let peer = Peer::up();
    let late = Say { after: SECOND, answer: Ok(grant("one", SECOND * 30)) };
    peer.on_acquire(late);
    let limiter = watching(&peer);
    let began = Instant::now();
    let ask = Ask::new("openai").cost("tokens", 7);
    let called =
        limiter.call(ask, async |slot: &mut Slot| (Report::response(200).usage("tokens", 5), slot.mode())).await.unwrap();
    assert_eq!((called.value, called.is_done(), began.elapsed()), (Mode::Shadow, true, Duration::ZERO));
    sleep(SECOND * 2).await;
    let [report] = peer.reports().try_into().unwrap();
    assert_eq!((report.lease_id.as_str(), report.status, report.usage["tokens"], report.r#final), ("one", 200, 5, true));
    assert_eq!(report.age.unwrap().seconds, 1, "it was that old when it could be told");
    assert_eq!(peer.acquires()[0].cost["tokens"], 7);
    assert!(peer.releases().is_empty());
}

/// Refused calls wait as the provider says, by the worker's own account, and each attempt is asked for.
#[tokio::test(start_paused = true)]
async fn its_attempts_are_watched_too() {
    let peer = Peer::up();
    peer.on_acquire(grant("one", Duration::ZERO)).on_acquire(grant("two", Duration::ZERO));
    let began = Instant::now();
    let called = watching(&peer).call(Ask::new("openai"), second_time_lucky).await.unwrap();
    assert_eq!((called.value, called.attempts), (200, 2));
    assert!(began.elapsed() >= SECOND * 2 && began.elapsed() < SECOND * 4, "{:?}", began.elapsed());
    sleep(SECOND).await;
    let [first, second] = peer.acquires().try_into().unwrap();
    assert_eq!((first.attempt, second.attempt, second.previous_lease_id.as_str()), (1, 2, "one"));
    assert_eq!(peer.reports().iter().map(|report| report.status).collect::<Vec<_>>(), [429, 200]);
}

/// A service that enforces lets it wait in line; the call is over before its turn, and the place is given back.
#[tokio::test(start_paused = true)]
async fn a_place_in_line_is_left_when_the_call_is_over() {
    let peer = Peer::up();
    peer.on_acquire(queued("place", SECOND * 5));
    let mut slot = watching(&peer).acquire(Ask::new("openai")).await.unwrap();
    slot.sent();
    sleep(SECOND).await;
    slot.report(Report::response(200)).await.unwrap();
    drop(slot);
    breathe().await;
    assert_eq!(peer.releases(), [What::Ticket(b"place".to_vec())]);
    assert!(peer.reports().is_empty());
}

/// As everywhere: what was not sent is given back, what was and is not reported was abandoned.
#[tokio::test(start_paused = true)]
async fn what_it_drops_is_told_too() {
    let peer = Peer::up();
    peer.always(grant("lease", Duration::ZERO));
    let limiter = watching(&peer);
    drop(limiter.acquire(Ask::new("openai")).await.unwrap());
    sleep(SECOND).await;
    assert_eq!(peer.releases(), [What::LeaseId("lease".into())]);
    let mut slot = limiter.acquire(Ask::new("openai")).await.unwrap();
    slot.sent();
    drop(slot);
    sleep(SECOND).await;
    assert_eq!(peer.reports()[0].outcome(), Outcome::Abandoned);
}

/// Nobody there: no call waits, none fails, and after the first few nobody is even asked.
#[tokio::test(start_paused = true)]
async fn a_service_that_is_away_is_unnoticed() {
    let peer = Peer::default();
    let limiter = watching(&peer);
    let began = Instant::now();
    for _ in 0..500 {
        let called = limiter.call(Ask::new("openai"), async |_slot: &mut Slot| (Report::response(200), ())).await.unwrap();
        assert!(called.is_done());
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    sleep(SECOND * 10).await;
    let knocks = peer.knocks();
    for _ in 0..500 {
        drop(limiter.acquire(Ask::new("openai")).await.unwrap());
    }
    breathe().await;
    assert!(peer.knocks() - knocks < 5, "{} of 500", peer.knocks() - knocks);
    peer.always(grant("lease", Duration::ZERO));
    peer.start();
    sleep(SECOND * 5).await;
    drop(limiter.acquire(Ask::new("openai")).await.unwrap());
    sleep(SECOND).await;
    assert_eq!(peer.acquires().len(), 1, "it is back, and asked again");
}
