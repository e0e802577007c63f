//! What a slot's guard says, and when: reports, renewals, and what follows when it is dropped.

use std::time::Duration;

use paceline_client::{Ask, NotApplied, Outcome, Report, Slot, Verdict};
use paceline_proto::v1::acquire_response::Outcome as Decision;
use paceline_proto::v1::release_request::What;
use paceline_proto::v1::{Grant, ReportResponse};
use tokio::time::{Instant, sleep, timeout};

use crate::peer::{Heard, Peer, Say, TTL, USE_WITHIN, breathe, decided, grant, not_applied, proto, told};

const SECOND: Duration = Duration::from_secs(1);

async fn slot(peer: &Peer) -> Slot {
    peer.on_acquire(grant("lease", Duration::ZERO));
    peer.limiter().acquire(Ask::new("openai")).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn dropped_before_sending_a_slot_is_given_back() {
    let peer = Peer::up();
    drop(slot(&peer).await);
    breathe().await;
    assert_eq!(peer.releases(), [What::LeaseId("lease".into())]);
    assert!(peer.reports().is_empty());
}

#[tokio::test(start_paused = true)]
async fn dropped_after_sending_it_is_abandoned() {
    let peer = Peer::up();
    let mut slot = slot(&peer).await;
    slot.sent();
    drop(slot);
    breathe().await;
    let [report] = peer.reports().try_into().unwrap();
    assert_eq!((report.outcome(), report.r#final, report.seq), (Outcome::Abandoned, true, 1));
    assert!(peer.releases().is_empty(), "it may have run: nothing is given back");
}

#[tokio::test(start_paused = true)]
async fn kept_too_long_without_a_word_it_counts_as_sent() {
    let peer = Peer::up();
    let slot = slot(&peer).await;
    assert!(!slot.is_late());
    sleep(USE_WITHIN + SECOND).await;
    assert!(slot.is_late());
    drop(slot);
    breathe().await;
    assert_eq!(peer.reports().last().map(|report| report.outcome()), Some(Outcome::Abandoned));
}

#[tokio::test(start_paused = true)]
async fn dropped_from_a_thread_without_a_runtime_it_still_speaks() {
    let peer = Peer::up();
    let slot = slot(&peer).await;
    std::thread::spawn(move || drop(slot)).join().unwrap();
    breathe().await;
    assert_eq!(peer.releases(), [What::LeaseId("lease".into())]);
}

#[tokio::test(start_paused = true)]
async fn given_back_on_purpose_it_says_so_once() {
    let peer = Peer::up();
    assert!(slot(&peer).await.release().await.unwrap());
    breathe().await;
    assert_eq!(peer.heard().len(), 2, "one ask, one release: {:?}", peer.heard());
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_reported_at_its_first_byte_and_at_its_end() {
    let peer = Peer::up();
    peer.on_report(told(Verdict::Unspecified));
    let mut slot = slot(&peer).await;
    slot.sent();
    let first = Report::response(200).header("X-RateLimit-Remaining-Requests", "59").more_follows();
    assert_eq!(slot.report(first).await.unwrap().verdict, Verdict::Unspecified);
    let last = slot.report(Report::response(200).usage("tokens", 812)).await.unwrap();
    assert_eq!((last.verdict, last.not_applied), (Verdict::Done, None));
    drop(slot);
    breathe().await;

    let [first, last] = peer.reports().try_into().unwrap();
    assert_eq!((first.seq, first.r#final, first.headers.len()), (1, false, 1));
    assert_eq!((last.seq, last.r#final, last.usage["tokens"]), (2, true, 812));
    assert!(peer.releases().is_empty(), "settled: the drop has nothing to add");
}

#[tokio::test(start_paused = true)]
async fn what_the_service_says_of_a_report_is_handed_on() {
    let peer = Peer::up();
    let said = ReportResponse { detail: "started again".into(), ..not_applied(NotApplied::LeaseUnknown) };
    peer.on_report(said);
    let reported = slot(&peer).await.report(Report::response(200)).await.unwrap();
    assert_eq!((reported.not_applied, reported.detail.as_str()), (Some(NotApplied::LeaseUnknown), "started again"));
}

#[tokio::test(start_paused = true)]
async fn a_long_call_is_kept_alive_until_its_guard_is_gone() {
    let peer = Peer::up();
    let mut slot = slot(&peer).await;
    slot.sent();
    sleep(SECOND * 600).await;
    slot.report(Report::response(200)).await.unwrap();
    let ended = Instant::now();
    sleep(SECOND * 600).await;

    let reports = peer.heard_when().into_iter().filter_map(|(at, heard)| match heard {
        Heard::Report(report) => Some((at, report)),
        _ => None,
    });
    let reports: Vec<_> = reports.collect();
    let (last, renewals) = reports.split_last().unwrap();
    assert_eq!((last.0, last.1.outcome()), (ended, Outcome::Response), "nothing follows the last report");
    assert!((600 / 36..=600 / 24 + 1).contains(&(renewals.len() as u64)), "about twice in a ttl: {}", renewals.len());
    assert!(renewals.iter().all(|(_, report)| report.outcome() == Outcome::Running && !report.r#final));
    assert!(reports.windows(2).all(|two| two[1].0 - two[0].0 < TTL), "never longer than the ttl without a word");
    assert!(reports.iter().map(|(_, report)| report.seq).eq(1..=reports.len() as u32), "numbers rise");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_follows_the_ttl_that_the_service_names() {
    let peer = Peer::up();
    let short =
        Grant { lease_id: "lease".into(), use_within: Some(proto(USE_WITHIN)), ttl: Some(proto(SECOND)), ..Grant::default() };
    peer.on_acquire(decided(Decision::Grant(short)));
    let slot = peer.limiter().acquire(Ask::new("openai")).await.unwrap();
    sleep(SECOND * 60).await;
    // The first comes within the second of the grant; its answer gives a minute.
    let renewals = peer.reports().len();
    assert!((2..=4).contains(&renewals), "{renewals}");
    drop(slot);
}

#[tokio::test(start_paused = true)]
async fn no_renewal_overtakes_a_report() {
    let peer = Peer::up();
    peer.on_report(Say { after: SECOND * 2, answer: Ok(told(Verdict::Unspecified)) });
    let short =
        Grant { lease_id: "lease".into(), use_within: Some(proto(USE_WITHIN)), ttl: Some(proto(SECOND)), ..Grant::default() };
    peer.on_acquire(decided(Decision::Grant(short)));
    let mut slot = peer.limiter().acquire(Ask::new("openai")).await.unwrap();
    let began = Instant::now();
    slot.report(Report::response(200).more_follows()).await.unwrap();
    assert_eq!(began.elapsed(), SECOND * 2);
    assert_eq!(peer.reports().len(), 1, "the report under way renews the lease itself");
    slot.report(Report::response(200)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_report_that_was_cut_short_is_sent_all_the_same() {
    let peer = Peer::up();
    peer.on_report(Say { after: SECOND * 4, answer: Ok(told(Verdict::Done)) });
    let mut slot = slot(&peer).await;
    let report = Report::response(200).usage("tokens", 7);
    timeout(SECOND, slot.report(report)).await.unwrap_err();
    drop(slot);
    breathe().await;
    let [cut, again] = peer.reports().try_into().unwrap();
    assert_eq!((again.outcome(), &again.usage), (Outcome::Response, &cut.usage), "it is not abandoned: the answer is known");
    assert!(again.seq > cut.seq);
}
