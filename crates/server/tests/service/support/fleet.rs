//! Several replicas over one store, each in a runtime of its own, so that one can be killed or frozen without the others.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use paceline_config::{Overrides, Scalar};
use paceline_proto::v1::acquire_response::Outcome;
use paceline_proto::v1::admin_client::AdminClient;
use paceline_proto::v1::rate_limiter_client::RateLimiterClient;
use paceline_proto::v1::{AcquireRequest, AcquireResponse, Grant};
use paceline_server::{Options, Server};
use paceline_store::{AnyStore, MemoryStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use super::{Folder, secs};

/// A replica.
pub(crate) struct Replica {
    pub(crate) grpc: SocketAddr,
    pub(crate) number: u32,
    http: SocketAddr,
    runtime: Option<Runtime>,
    stop: Option<oneshot::Sender<()>>,
    thaw: Option<Sender<()>>,
}

/// Several of them, in real time.
pub(crate) struct Fleet {
    pub(crate) store: AnyStore,
    pub(crate) replicas: Vec<Replica>,
    _folder: Folder,
}

impl Fleet {
    pub(crate) async fn start(count: usize, config: &str) -> Self {
        Self::patient(count, config, None).await
    }

    /// Replicas that wait so long for a call to arrive at another: on a busy machine more than they would by themselves.
    pub(crate) async fn patient(count: usize, config: &str, arrives_within: Option<Duration>) -> Self {
        let folder = Folder::new();
        folder.write("paceline.yaml", config);
        let store = AnyStore::Memory(Arc::new(MemoryStore::default()));
        let mut replicas = Vec::new();
        for _ in 0..count {
            replicas.push(Replica::start(&folder, store.clone(), arrives_within).await);
        }
        Self { store, replicas, _folder: folder }
    }

    pub(crate) async fn limiter(&self, replica: usize) -> RateLimiterClient<Channel> {
        self.replicas[replica].limiter().await
    }

    /// The sum of a metric over those that answer.
    pub(crate) async fn counted(&self, metric: &str) -> f64 {
        let mut sum = 0.0;
        for replica in self.replicas.iter().filter(|replica| replica.runtime.is_some() && replica.thaw.is_none()) {
            sum += replica.counted(metric).await;
        }
        sum
    }
}

impl Replica {
    async fn start(folder: &Folder, store: AnyStore, arrives_within: Option<Duration>) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let overrides = Overrides::default().flag(Scalar::Grpc, Some("127.0.0.1:0")).flag(Scalar::Http, Some("127.0.0.1:0"));
        let options = Options {
            config: Some(folder.path("paceline.yaml")),
            overrides,
            store: Some(store),
            arrives_within,
            ..Options::default()
        };
        let bound = runtime.spawn(async move { Server::bind(options).await.expect("the service starts") });
        let server = bound.await.expect("no panic");
        let (grpc, http, number) = (server.grpc_addr(), server.http_addr(), server.replica());
        let (stop, stopping) = oneshot::channel();
        runtime.spawn(server.run(async move {
            let _ = stopping.await;
        }));
        Self { grpc, number, http, runtime: Some(runtime), stop: Some(stop), thaw: None }
    }

    pub(crate) async fn limiter(&self) -> RateLimiterClient<Channel> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.grpc)).unwrap();
        RateLimiterClient::new(endpoint.connect().await.expect("it answers"))
    }

    pub(crate) async fn admin(&self) -> AdminClient<Channel> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.grpc)).unwrap();
        AdminClient::new(endpoint.connect().await.expect("it answers"))
    }

    /// It is gone from one moment to the next, with all its connections.
    pub(crate) fn kill(&mut self) {
        self.runtime.take().expect("it is killed once").shutdown_background();
    }

    /// It stands still: its connections stay open, and nobody answers.
    pub(crate) fn freeze(&mut self) {
        let (thaw, frozen): (Sender<()>, Receiver<()>) = channel();
        self.runtime.as_ref().expect("it runs").spawn(async move {
            let _ = frozen.recv(); // blocks the only worker there is
        });
        self.thaw = Some(thaw);
    }

    pub(crate) fn thaw(&mut self) {
        drop(self.thaw.take());
    }

    /// It is told to stop.
    pub(crate) fn drain(&mut self) {
        let _ = self.stop.take().expect("it is stopped once").send(());
    }

    /// The sum of a metric here.
    pub(crate) async fn counted_of(&self, metric: &str) -> f64 {
        self.counted(metric).await
    }

    /// Its status page.
    pub(crate) async fn page(&self) -> String {
        self.get("/").await
    }

    async fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.http).await.expect("HTTP answers");
        let request = format!("GET {path} HTTP/1.1\r\nHost: paceline\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).await.unwrap();
        page
    }

    async fn counted(&self, metric: &str) -> f64 {
        let page = self.get("/metrics").await;
        page.lines()
            .filter(|line| line.starts_with(metric))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.thaw();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// What a worker got in the end.
pub(crate) struct Slot {
    pub(crate) grant: Grant,
    /// When it may be sent.
    pub(crate) send_at: Instant,
    /// The longest time between two answers.
    pub(crate) longest_silence: Duration,
}

/// A worker that asks as the manual says: with its ticket, and at the next replica when one does not answer.
pub(crate) async fn worker(mut replicas: Vec<RateLimiterClient<Channel>>, mut ask: AcquireRequest) -> Slot {
    let (mut longest_silence, mut heard_at) = (Duration::ZERO, Instant::now());
    loop {
        ask.hold = Some(secs(5));
        let asked = tokio::time::timeout(Duration::from_secs(6), replicas[0].acquire(ask.clone())).await;
        longest_silence = longest_silence.max(heard_at.elapsed());
        heard_at = Instant::now();
        match asked {
            Ok(Ok(answer)) => match answer.into_inner() {
                AcquireResponse { outcome: Some(Outcome::Grant(grant)), .. } => {
                    let wait = grant.wait.unwrap();
                    let wait = Duration::new(wait.seconds.unsigned_abs(), wait.nanos.unsigned_abs());
                    return Slot { grant, send_at: Instant::now() + wait, longest_silence };
                }
                AcquireResponse { outcome: Some(Outcome::Queued(queued)), .. } => ask.ticket = queued.ticket,
                other => panic!("{other:?}"),
            },
            Ok(Err(error)) if matches!(error.code(), Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal) => {
                replicas.rotate_left(1);
            }
            Ok(Err(error)) => panic!("{error:?}"),
            Err(_) => replicas.rotate_left(1),
        }
    }
}
