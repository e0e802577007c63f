//! A service in this process with a clock of its own, its clients, and the messages they send.

mod files;
pub(crate) mod fleet;
mod messages;
pub(crate) mod stream;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use paceline_config::{Overrides, Scalar};
use paceline_core::units::{FleetTime, Span};
use paceline_proto::v1::admin_client::AdminClient;
use paceline_proto::v1::rate_limiter_client::RateLimiterClient;
use paceline_proto::v1::{GetScopeRequest, GetScopeResponse};
use paceline_server::{Drained, Options, Otlp, Reloader, ServeError, Server};
use paceline_store::{AnyStore, MemoryStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

pub(crate) use files::Folder;
pub(crate) use messages::{ask, granted, length, queued, report, secs};

/// `m` has room; `slow` lets one call through in ten seconds.
pub(crate) const CONFIG: &str = "
providers:
  acme:
    extends: generic
    accounts:
      prod:
        models:
          m: {limits: {requests: 60/min, tokens: 1000/min}, start_level: full}
          slow: {limits: {requests: {limit: 6, per: 1m, burst: 1}}, start_level: full}
";

/// A running service.
pub(crate) struct Service {
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) folder: Folder,
    pub(crate) reloader: Reloader<AnyStore>,
    pub(crate) store: Arc<MemoryStore>,
    /// Its number.
    pub(crate) replica: u32,
    clock: Arc<AtomicI64>,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<Result<Drained, ServeError>>,
}

impl Service {
    /// A service with [`CONFIG`].
    pub(crate) async fn start() -> Self {
        Self::start_with(CONFIG).await
    }

    /// A service with a configuration of the test's own.
    pub(crate) async fn start_with(config: &str) -> Self {
        let folder = Folder::new();
        folder.write("paceline.yaml", config);
        Self::start_in(folder, "127.0.0.1:0").await
    }

    /// A service with the file of a folder, listening for gRPC at an address.
    pub(crate) async fn start_in(folder: Folder, grpc: &str) -> Self {
        let clock = Arc::new(AtomicI64::new(1_800_000_000_000_000));
        let ticks = clock.clone();
        let store = MemoryStore::with_clock(Arc::new(move || FleetTime::from_micros(ticks.load(Ordering::SeqCst))));
        Self::start_on(Arc::new(store), clock, folder, grpc).await
    }

    /// Another replica, which shares the state of this one.
    pub(crate) async fn beside(&self, config: &str) -> Self {
        let folder = Folder::new();
        folder.write("paceline.yaml", config);
        Self::start_on(self.store.clone(), self.clock.clone(), folder, "127.0.0.1:0").await
    }

    /// A service that pushes metrics and traces, in real time.
    pub(crate) async fn pushing(otlp: Otlp) -> Self {
        let folder = Folder::new();
        let quick = "quick: {limits: {requests: {limit: 300, per: 1m, burst: 1}}, start_level: full}";
        folder.write("paceline.yaml", &format!("{CONFIG}          {quick}\n"));
        let clock = Arc::new(AtomicI64::new(1_800_000_000_000_000));
        let (ticks, began) = (clock.clone(), Instant::now());
        let now = move || FleetTime::from_micros(ticks.load(Ordering::SeqCst)) + Span::from(began.elapsed());
        Self::start_told(Arc::new(MemoryStore::with_clock(Arc::new(now))), clock, folder, "127.0.0.1:0", otlp).await
    }

    async fn start_on(store: Arc<MemoryStore>, clock: Arc<AtomicI64>, folder: Folder, grpc: &str) -> Self {
        Self::start_told(store, clock, folder, grpc, Otlp::default()).await
    }

    async fn start_told(store: Arc<MemoryStore>, clock: Arc<AtomicI64>, folder: Folder, grpc: &str, otlp: Otlp) -> Self {
        let overrides = Overrides::default().flag(Scalar::Grpc, Some(grpc)).flag(Scalar::Http, Some("127.0.0.1:0"));
        let options = Options {
            config: Some(folder.path("paceline.yaml")),
            overrides,
            store: Some(AnyStore::Memory(store.clone())),
            record: None,
            arrives_within: None,
            otlp,
        };
        let server = Server::bind(options).await.expect("the service starts");
        let (grpc, http, reloader) = (server.grpc_addr(), server.http_addr(), server.reloader());
        let replica = server.replica();
        let (stop, stopping) = oneshot::channel();
        let running = tokio::spawn(server.run(async move {
            let _ = stopping.await;
        }));
        Self { grpc, http, folder, reloader, store, replica, clock, stop: Some(stop), running }
    }

    /// Moves fleet time.
    pub(crate) fn advance(&self, by: Span) {
        self.clock.fetch_add(by.as_micros(), Ordering::SeqCst);
    }

    /// A connection of its own.
    pub(crate) async fn channel(&self) -> Channel {
        let addr = SocketAddr::from(([127, 0, 0, 1], self.grpc.port()));
        Endpoint::from_shared(format!("http://{addr}")).unwrap().connect().await.expect("it answers")
    }

    pub(crate) async fn limiter(&self) -> RateLimiterClient<Channel> {
        RateLimiterClient::new(self.channel().await)
    }

    pub(crate) async fn admin(&self) -> AdminClient<Channel> {
        AdminClient::new(self.channel().await)
    }

    /// What the account `acme/prod` looks like.
    pub(crate) async fn scope(&self) -> GetScopeResponse {
        let asked = GetScopeRequest { provider: "acme".into(), account: "prod".into() };
        self.admin().await.get_scope(asked).await.expect("somebody has used it").into_inner()
    }

    /// How many calls wait.
    pub(crate) async fn waiting(&self) -> u64 {
        self.scope().await.lanes.iter().map(|lane| lane.depth).sum()
    }

    /// How many reports with an outcome were taken, as its metrics say.
    pub(crate) async fn written(&self, outcome: &str) -> u64 {
        let (_, _, page) = self.get("/metrics").await;
        let label = format!("outcome=\"{outcome}\"");
        let counts = page.lines().filter(|line| line.starts_with("paceline_report") && line.contains(&label));
        counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Tells it to stop.
    pub(crate) fn stop(&mut self) {
        self.stop.take().expect("it is stopped once").send(()).expect("it runs");
    }

    /// How it ended.
    pub(crate) async fn ended(self) -> Drained {
        self.running.await.expect("no panic").expect("no listener failed")
    }

    /// Status, headers and body of an HTTP page.
    pub(crate) async fn get(&self, path: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.http).await.expect("HTTP answers");
        let ask = format!("GET {path} HTTP/1.1\r\nHost: paceline\r\nConnection: close\r\n\r\n");
        stream.write_all(ask.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_lowercase(), body.to_owned())
    }
}

/// Waits until something holds; a condition that never does fails after half a minute.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let patience = tokio::time::timeout(Duration::from_secs(30), async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    patience.await.unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

/// The fields that an INVALID_ARGUMENT names, with what is wrong.
pub(crate) fn fields(status: &Status) -> BTreeMap<String, String> {
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let violations = status.get_details_bad_request().expect("google.rpc.BadRequest").field_violations;
    violations.into_iter().map(|violation| (violation.field, violation.description)).collect()
}
