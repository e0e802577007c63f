//! Workers that write on a Session and never read from it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
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

/// Nothing holds `m` up; one call in an hour goes through `slow`.
const CONFIG: &str = "
providers:
  acme:
    extends: generic
    accounts:
      prod:
        models:
          m: {limits: {requests: 1G/s}, start_level: full}
          slow: {limits: {requests: {limit: 1, per: 1h}}, start_level: full}
";
/// So many of them.
const DEAF: usize = 8;
/// What all of them together may cost the service, in MiB: 256 answers each, and what lies in buffers of the transport.
const MOST_MIB: u64 = 48;

fn ask(request_id: &str, model: &str) -> AcquireRequest {
    AcquireRequest {
        request_id: request_id.into(),
        target: Some(Target { provider: "acme".into(), account: "prod".into(), model: model.into() }),
        ..AcquireRequest::default()
    }
}

/// One that is deaf, how much it could write, and what it would hear.
struct Deaf {
    written: Arc<AtomicU64>,
    hears: Streaming<SessionResponse>,
}

impl Deaf {
    /// It asks for a slot that it will wait for, and from then on for as many as it can.
    async fn open(number: usize, mut limiter: RateLimiterClient<Channel>) -> Self {
        let (says, said) = mpsc::channel(1);
        let hears = limiter.session(ReceiverStream::new(said)).await.unwrap().into_inner();
        let written: Arc<AtomicU64> = Arc::default();
        let counts = written.clone();
        tokio::spawn(async move {
            for id in 0_u64.. {
                let model = if id < 2 { "slow" } else { "m" };
                let call = Some(Call::Acquire(ask(&format!("deaf {number} {id}"), model)));
                if says.send(SessionRequest { correlation_id: id, call, forwarded: None }).await.is_err() {
                    return;
                }
                counts.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { written, hears }
    }
}

async fn limiter(serving: &Serving) -> RateLimiterClient<Channel> {
    RateLimiterClient::new(Endpoint::from_shared(format!("http://{}", serving.grpc)).unwrap().connect().await.unwrap())
}

/// How many calls wait.
fn waiting(serving: &Serving) -> f64 {
    let mut stream = TcpStream::connect(&serving.http).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: paceline\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let depths = page.lines().filter(|line| line.starts_with("paceline_queue_depth{"));
    depths.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

async fn until(what: &str, within: Duration, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + within;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        sleep(Duration::from_millis(20)).await;
    }
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

/// They are not read from after a bounded number of answers, and sent away after half a minute; nobody else notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_never_read_cost_little_and_harm_nobody() {
    let folder = Folder::new("deaf");
    let config = folder.write("paceline.yaml", CONFIG);
    let serving = Serving::start(&["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--config", &config], &[]);
    let mut reads = limiter(&serving).await;
    others(&mut reads, "first", 2_000).await;
    let before = serving.memory_mib("VmRSS");

    let mut deaf = Vec::new();
    for number in 0..DEAF {
        deaf.push(Deaf::open(number, limiter(&serving).await).await);
    }
    // One of them has the slot of this hour.
    let most = u32::try_from(2 * DEAF - 1).unwrap();
    until("they wait", Duration::from_secs(20), || waiting(&serving) >= f64::from(most)).await;
    let longest = others(&mut reads, "meanwhile", 2_000).await;
    assert!(longest < Duration::from_secs(2), "one of the others waited for {longest:?}");
    let written: Vec<u64> = deaf.iter().map(|one| one.written.load(Ordering::Relaxed)).collect();
    until("they are sent away", Duration::from_secs(60), || waiting(&serving) < 1.0).await;
    let peak = serving.memory_mib("VmHWM");
    println!("written {written:?}; {before} MiB before, {peak} MiB at most; the longest of the others {longest:?}");
    assert!(peak.saturating_sub(before) <= MOST_MIB, "{before} MiB before, {peak} MiB at most");
    for one in &mut deaf {
        let told = one.written.load(Ordering::Relaxed);
        assert!(told < 10_000, "{told} calls were taken from one that reads nothing");
        let end = loop {
            match tokio::time::timeout(Duration::from_secs(20), one.hears.message()).await.expect("it ends") {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it says why it ends"),
                Err(end) => break end,
            }
        };
        assert_eq!(end.code(), Code::ResourceExhausted, "{end:?}");
        assert!(end.message().contains("read while you write"), "{end:?}");
    }
    others(&mut reads, "last", 100).await;
}
