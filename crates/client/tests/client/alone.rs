//! Nobody answers: calls go on at the client's own recent pace, and with the service as soon as it is back.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use paceline_client::{Ask, Error, Limiter, Mode, Path, Reason, Report, Slot, Verdict};
use paceline_proto::v1::{AcquireResponse, ReportResponse, Signal};
use tokio::time::{Instant, sleep};

use crate::peer::{Peer, breathe, grant, proto, told};

const SECOND: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(10);

/// A service that grants everything, and one of its clients.
fn service() -> (Peer, Limiter) {
    let peer = Peer::up();
    peer.always(grant("lease", Duration::ZERO));
    let limiter = peer.builder().patience(PATIENCE).build().unwrap();
    (peer, limiter)
}

fn ask() -> Ask {
    Ask::new("openai").model("gpt-4o").max_wait(SECOND * 3_600)
}

/// Sends so many calls a second for so long, each told of.
async fn work(limiter: &Limiter, per_second: u32, seconds: u32) {
    for _ in 0..per_second * seconds {
        limiter.acquire(ask()).await.unwrap().report(Report::response(200)).await.unwrap();
        sleep(SECOND / per_second).await;
    }
}

/// Goes through the time until the client gives the service up.
async fn lose(peer: &Peer, limiter: &Limiter) -> Slot {
    peer.stop();
    let began = Instant::now();
    let slot = limiter.acquire(ask()).await.unwrap();
    assert!(began.elapsed() >= PATIENCE, "{:?}", began.elapsed());
    slot
}

#[tokio::test(start_paused = true)]
async fn calls_go_on_at_the_recent_pace_halved_each_minute_for_five() {
    let (peer, limiter) = service();
    work(&limiter, 4, 120).await;
    drop(lose(&peer, &limiter).await);
    let (began, mut by_minute) = (Instant::now(), [0; 5]);
    loop {
        let slot = limiter.acquire(ask()).await.unwrap();
        let minute = usize::try_from(began.elapsed().as_secs() / 60).unwrap();
        match slot.path() {
            Path::Local => by_minute[minute] += 1,
            path => {
                assert_eq!((path, slot.mode(), began.elapsed().as_secs() / 10), (Path::Bypass, Mode::Off, 30));
                break;
            }
        }
    }
    for (count, expected) in by_minute.into_iter().zip([240, 120, 60, 30, 15]) {
        assert!(count <= expected + 1 && count * 10 >= expected * 9, "{by_minute:?}");
    }
    // From here on as an SDK does: at once.
    let now = Instant::now();
    for _ in 0..50 {
        assert_eq!(limiter.acquire(ask()).await.unwrap().path(), Path::Bypass);
    }
    assert!(now.elapsed() < SECOND);
    let stats = limiter.stats();
    assert_eq!((stats.served, stats.local, stats.bypass), (480, by_minute.iter().sum::<u64>() + 1, 51));
    assert!(stats.is_away);
}

#[tokio::test(start_paused = true)]
async fn who_is_back_is_used_at_once_also_by_those_who_wait_and_is_not_told_what_it_did_not_grant() {
    let (peer, limiter) = service();
    work(&limiter, 1, 60).await;
    let mut local = lose(&peer, &limiter).await;
    local.sent();
    let dropped = limiter.acquire(ask()).await.unwrap();
    assert_eq!((local.path(), dropped.path(), local.lease_id()), (Path::Local, Path::Local, ""));
    let waiting: Vec<_> = (0..60)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.acquire(ask()).await.unwrap() })
        })
        .collect();
    sleep(SECOND * 5).await;
    let before = (peer.acquires().len(), peer.reports().len());
    peer.start();
    sleep(SECOND * 3).await;
    let mut served = 0;
    for slot in waiting {
        assert!(slot.is_finished(), "nobody goes on waiting for the pace of before");
        let slot = slot.await.unwrap();
        served += usize::from(slot.path() == Path::Served);
        slot.release().await.unwrap();
    }
    assert!(served >= 50, "{served}");
    assert_eq!(local.report(Report::response(200)).await.unwrap().verdict, Verdict::Done);
    drop(dropped);
    breathe().await;
    assert_eq!((peer.acquires().len() - before.0, peer.reports().len()), (served, before.1));
    assert!(!limiter.stats().is_away);
    assert_eq!(limiter.acquire(ask()).await.unwrap().path(), Path::Served);
}

#[tokio::test(start_paused = true)]
async fn what_the_provider_said_last_is_kept_to() {
    let (peer, limiter) = service();
    work(&limiter, 4, 30).await;
    let honored = Signal { honored: Some(proto(SECOND * 90)), ..Signal::default() };
    peer.on_report(ReportResponse { signal: Some(honored), ..told(Verdict::GiveUp) });
    let mut slot = limiter.acquire(ask()).await.unwrap();
    slot.report(Report::response(429).header("retry-after", "90")).await.unwrap();
    let told = Instant::now();
    peer.stop();
    let slot = limiter.acquire(ask()).await.unwrap();
    assert_eq!(slot.path(), Path::Local);
    assert!(told.elapsed() >= SECOND * 90 && told.elapsed() < SECOND * 92, "{:?}", told.elapsed());
    // And what it says while nobody is there to hear it.
    let mut slot = slot;
    slot.report(Report::response(429).header("retry-after", "20")).await.unwrap();
    let told = Instant::now();
    assert_eq!(limiter.acquire(ask()).await.unwrap().path(), Path::Local);
    assert!(told.elapsed() >= SECOND * 20, "{:?}", told.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_refused_while_nobody_answers_is_sent_again_as_an_sdk_would() {
    let (peer, limiter) = service();
    work(&limiter, 4, 30).await;
    let gone = peer.clone();
    let send = async move |slot: &mut Slot| {
        gone.stop();
        let status = if slot.attempt() < 3 { 429 } else { 200 };
        (Report::response(status).header("retry-after", "2"), slot.path())
    };
    let called = limiter.call(ask(), send).await.unwrap();
    assert_eq!((called.value, called.attempts, called.is_done()), (Path::Local, 3, true));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_wait_for_its_turn_is_denied_and_says_why() {
    let (peer, limiter) = service();
    work(&limiter, 1, 1).await;
    drop(lose(&peer, &limiter).await);
    for ask in [ask().deadline(SECOND * 2), ask().max_wait(SECOND * 2)] {
        let error = limiter.acquire(ask).await.unwrap_err();
        let denied = error.denied().expect("a denial");
        assert_eq!(denied.reason, Reason::Deadline);
        assert!(denied.detail.contains("recent share") && denied.retry_after.unwrap() > SECOND * 2, "{denied}");
    }
    assert_eq!(limiter.stats().denied, 2);
}

#[tokio::test(start_paused = true)]
async fn where_the_service_only_watches_its_absence_holds_nobody_up() {
    for mode in [Mode::Shadow, Mode::Off] {
        let (peer, limiter) = service();
        peer.always(AcquireResponse { mode: mode.into(), ..grant("lease", Duration::ZERO) });
        work(&limiter, 4, 10).await;
        peer.stop();
        for (nth, most) in [(0, SECOND * 2), (1, SECOND * 2)] {
            let began = Instant::now();
            assert_eq!(limiter.acquire(ask()).await.unwrap().path(), Path::Bypass);
            assert!(began.elapsed() <= most, "{nth}: {:?}", began.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_wants_errors_gets_them() {
    let peer = Peer::default();
    let limiter = peer.builder().patience(PATIENCE).go_on_without_service(false).build().unwrap();
    assert!(matches!(limiter.acquire(ask()).await, Err(Error::Unreachable { .. })));
    let began = Instant::now();
    assert!(matches!(limiter.acquire(ask()).await, Err(Error::Unreachable { .. })));
    assert!(began.elapsed() < SECOND, "patience is lost once, not by every call: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn it_is_said_once_a_minute() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(log.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let (peer, limiter) = service();
    work(&limiter, 4, 60).await;
    drop(lose(&peer, &limiter).await);
    let began = Instant::now();
    while began.elapsed() < SECOND * 420 {
        drop(limiter.acquire(ask()).await.unwrap());
        sleep(SECOND / 4).await;
    }
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let said: Vec<&str> = text.lines().filter(|line| line.contains("no Paceline service answers")).collect();
    assert!((7..=8).contains(&said.len()), "{text}");
    assert!(said[0].contains("recent share") && said[0].contains("scripted"), "{text}");
    assert!(said.last().unwrap().contains("unpaced"), "{text}");
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
