//! From the ask to the moment of sending.

use std::time::Duration;

use paceline_client::{Ask, Reason};
use paceline_proto::v1::acquire_response::Outcome as Decision;
use paceline_proto::v1::release_request::What;
use paceline_proto::v1::{AcquireRequest, Queued};
use tokio::time::{Instant, advance, sleep, timeout};

use crate::peer::{Peer, Say, breathe, decided, denial, grant, proto, queued};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_early() {
    let peer = Peer::up();
    let limiter = peer.limiter();
    for micros in [0, 1, 999, 1_000, 1_001, 12_345, 999_999, 1_000_001, 65_000_001, 3_600_000_000] {
        let (wait, answered_after) = (Duration::from_micros(micros), Duration::from_millis(40));
        peer.on_acquire(Say { after: answered_after, answer: Ok(grant("lease", wait)) });
        let asked = Instant::now();
        let mut slot = limiter.acquire(Ask::new("openai")).await.unwrap();
        let took = asked.elapsed();
        assert!(took >= answered_after + wait, "sent {took:?} after the ask, wait {wait:?} after {answered_after:?}");
        assert!(took <= answered_after + wait + Duration::from_millis(2), "{took:?} for {wait:?}");
        assert_eq!(slot.waited(), took);
        slot.report(paceline_client::Report::response(200)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn one_who_wakes_too_late_asks_again_as_the_same_attempt() {
    let peer = Peer::up();
    peer.on_acquire(grant("missed", SECOND)).on_acquire(grant("used", Duration::ZERO));
    let frozen = tokio::spawn(async {
        sleep(SECOND / 2).await;
        advance(Duration::from_secs(90)).await; // the process stands still
    });
    let slot = peer.limiter().acquire(Ask::new("openai")).await.unwrap();
    frozen.await.unwrap();
    let [first, second] = peer.acquires().try_into().unwrap();
    assert_eq!(slot.lease_id(), "used");
    assert_eq!(first, second, "the key is the same, so the service knows that it was not sent");
    assert!(peer.releases().is_empty(), "asking again gives the first lease back");
}

#[tokio::test(start_paused = true)]
async fn a_place_in_line_is_kept_with_its_ticket() {
    let peer = Peer::up();
    peer.on_acquire(queued("place", SECOND * 7)).on_acquire(queued("place", SECOND * 2)).on_acquire(grant("lease", SECOND));
    let ask = Ask::new("openai").model("gpt-4o").cost("tokens", 900).deadline(SECOND * 30).label("feature", "chat");
    let began = Instant::now();
    let slot = peer.limiter().acquire(ask).await.unwrap();
    assert!(began.elapsed() >= SECOND * 10 && began.elapsed() < SECOND * 11);

    let [first, second, third] = peer.acquires().try_into().unwrap();
    assert!(first.ticket.is_empty() && first.attempt == 1 && first.deadline == Some(proto(SECOND * 30)));
    // Only the ticket is new, and the deadline is what is left of it.
    let left = |request: &AcquireRequest| Duration::try_from(request.deadline.unwrap()).unwrap();
    assert!(left(&second) <= SECOND * 23 && left(&second) > SECOND * 22, "{:?}", left(&second));
    assert!(left(&third) <= SECOND * 21 && left(&third) > SECOND * 20, "{:?}", left(&third));
    for later in [second, third] {
        assert_eq!(AcquireRequest { ticket: b"place".to_vec(), deadline: later.deadline, ..first.clone() }, later);
    }
    assert_eq!((slot.attempt(), slot.request_id()), (1, first.request_id.as_str()));
}

#[tokio::test(start_paused = true)]
async fn a_lost_place_is_replaced_by_the_new_one() {
    let peer = Peer::up();
    let lost = Queued { ticket: b"new".to_vec(), come_back_in: Some(proto(SECOND)), place_lost: true, ..Queued::default() };
    peer.on_acquire(queued("old", SECOND)).on_acquire(decided(Decision::Queued(lost))).on_acquire(grant("lease", SECOND));
    let slot = peer.limiter().acquire(Ask::new("openai")).await.unwrap();
    assert_eq!(slot.lease_id(), "lease");
    let tickets: Vec<Vec<u8>> = peer.acquires().into_iter().map(|request| request.ticket).collect();
    assert_eq!(tickets, [b"".to_vec(), b"old".to_vec(), b"new".to_vec()]);
}

#[tokio::test(start_paused = true)]
async fn a_denial_is_told_with_its_reason() {
    let peer = Peer::up();
    peer.on_acquire(denial(Reason::OverHonorCap));
    let error = peer.limiter().acquire(Ask::new("openai")).await.unwrap_err();
    let denied = error.denied().expect("a denial");
    assert_eq!((denied.reason, denied.detail.as_str(), denied.retry_after), (Reason::OverHonorCap, "by the script", None));
    breathe().await;
    assert!(peer.releases().is_empty() && peer.acquires().len() == 1, "a denial holds nothing and is not argued with");
}

#[tokio::test(start_paused = true)]
async fn one_who_stops_waiting_gives_the_place_back() {
    let cases = [
        (queued("place", SECOND * 20), What::Ticket(b"place".to_vec())),
        (grant("lease", SECOND * 20), What::LeaseId("lease".into())),
    ];
    for (answer, expected) in cases {
        let peer = Peer::up();
        peer.on_acquire(answer);
        let limiter = peer.limiter();
        timeout(SECOND, limiter.acquire(Ask::new("openai"))).await.unwrap_err();
        breathe().await;
        assert_eq!(peer.releases(), [expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_decision_is_an_error_that_says_so() {
    let peer = Peer::up();
    peer.on_acquire(paceline_proto::v1::AcquireResponse::default());
    let error = peer.limiter().acquire(Ask::new("openai")).await.unwrap_err();
    assert!(error.to_string().contains("no outcome"), "{error}");
}
