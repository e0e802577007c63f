//! Workers that write on a Session and never read from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use paceline_proto::v1::acquire_response::Outcome;
use paceline_proto::v1::rate_limiter_client::RateLimiterClient;
use paceline_proto::v1::session_request::Call;
use paceline_proto::v1::{AcquireRequest, SessionRequest, SessionResponse, Target};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Streaming};

use crate::process::{Folder, Serving};

/// Nothing holds anybody up.
const CONFIG: &str = "
providers:
  acme:
    extends: generic
    accounts:
      prod:
        models:
          m: {limits: {requests: 1G/s}, start_level: full}
";
/// What one may cost the service, in MiB, beside the leases it got: 10,000 calls under way, 256 answers, and what lies unread in
/// buffers of the transport.
const MOST_MIB: u64 = 128;
/// So many calls are made by one who reads, to compare with.
const READ: u64 = 30_000;

fn ask(request_id: &str, model: &str) -> AcquireRequest {
    AcquireRequest {
        request_id: request_id.into(),
        target: Some(Target { provider: "acme".into(), account: "prod".into(), model: model.into() }),
        // No lease ends by itself while this runs.
        run_time: Some(prost_types::Duration { seconds: 1_800, nanos: 0 }),
        ..AcquireRequest::default()
    }
}

/// One that is deaf: how much it could write, and what it would hear.
struct Deaf {
    written: Arc<AtomicU64>,
    hears: Streaming<SessionResponse>,
}

impl Deaf {
    /// It asks for as many slots as it can.
    async fn open(name: &'static str, most: u64, mut limiter: RateLimiterClient<Channel>) -> Self {
        let (says, said) = mpsc::channel(1);
        let hears = limiter.session(ReceiverStream::new(said)).await.unwrap().into_inner();
        let written: Arc<AtomicU64> = Arc::default();
        let counts = written.clone();
        tokio::spawn(async move {
            for id in 0..most {
                let call = Some(Call::Acquire(ask(&format!("{name} {id}"), "m")));
                if says.send(SessionRequest { correlation_id: id, call, ..SessionRequest::default() }).await.is_err() {
                    return;
                }
                counts.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { written, hears }
    }

    /// Waits until nothing more is taken from it; how much was.
    async fn is_full(&self) -> u64 {
        let mut written = 0;
        loop {
            sleep(Duration::from_secs(1)).await;
            let by_now = self.written.load(Ordering::Relaxed);
            if by_now == written && by_now > 1_000 {
                return written;
            }
            written = by_now;
        }
    }
}

async fn limiter(serving: &Serving) -> RateLimiterClient<Channel> {
    RateLimiterClient::new(Endpoint::from_shared(format!("http://{}", serving.grpc)).unwrap().connect().await.unwrap())
}

/// Asks as others do, and reads: the longest that one of them took.
async fn others(limiter: &mut RateLimiterClient<Channel>, round: &str, calls: usize) -> Duration {
    let mut longest = Duration::ZERO;
    for number in 0..calls {
        let asked = Instant::now();
        let answer = limiter.acquire(ask(&format!("other {round} {number}"), "m")).await.unwrap().into_inner();
        assert!(matches!(answer.outcome, Some(Outcome::Grant(_))), "{answer:?}");
        longest = longest.max(asked.elapsed());
    }
    longest
}

/// It is not read from after a bounded number of answers, and sent away after half a minute; nobody else notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_never_reads_costs_a_bounded_part_and_harms_nobody() {
    let folder = Folder::new("deaf");
    let config = folder.write("paceline.yaml", CONFIG);
    let mut serving = Serving::start(&["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--config", &config], &[]);
    let log = serving.log();
    let mut reads = limiter(&serving).await;
    let idle = serving.memory_mib("VmHWM");
    let mut hears = Deaf::open("hears", READ, limiter(&serving).await).await;
    for _ in 0..READ {
        hears.hears.message().await.unwrap().expect("an answer to each");
    }
    drop(hears);
    let before = serving.memory_mib("VmHWM");

    let mut deaf = Deaf::open("deaf", u64::MAX, limiter(&serving).await).await;
    let written = deaf.is_full().await;
    let longest = others(&mut reads, "meanwhile", 2_000).await;
    assert!(longest < Duration::from_secs(2), "one of the others waited for {longest:?}");
    let is_sent_away = |line: &String| line.contains("its answers are not read");
    let said = tokio::task::block_in_place(|| {
        std::iter::from_fn(|| log.recv_timeout(Duration::from_secs(90)).ok()).find(is_sent_away)
    });
    assert!(said.is_some(), "it is not sent away");
    let peak = serving.memory_mib("VmHWM");
    println!("written {written}; {idle} MiB, {before} MiB, {peak} MiB at most; the longest of the others {longest:?}");
    let by_leases = before.saturating_sub(idle) * written / READ;
    assert!(
        peak.saturating_sub(before) <= by_leases + MOST_MIB,
        "{idle} MiB at first, {before} MiB before, {peak} MiB at most"
    );
    // What lies in our own buffers, what was taken, and what lies unread at the other end.
    assert!(written < 60_000, "{written} calls were taken from one that reads nothing");
    let end = loop {
        match tokio::time::timeout(Duration::from_secs(20), deaf.hears.message()).await.expect("it ends") {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it says why it ends"),
            Err(end) => break end,
        }
    };
    assert_eq!(end.code(), Code::ResourceExhausted, "{end:?}");
    assert!(end.message().contains("read while you write"), "{end:?}");
    others(&mut reads, "last", 100).await;
}
