//! Puts the service together, runs it, and lets everybody go at the end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use paceline_config::Overrides;
use paceline_coordinator::trace::Trace;
use paceline_coordinator::{Coordinator, Options as CoordinatorOptions};
use paceline_core::units::FleetTime;
use paceline_proto::FILE_DESCRIPTOR_SET;
use paceline_proto::v1::admin_server::AdminServer;
use paceline_proto::v1::rate_limiter_server::RateLimiterServer;
use paceline_store::AnyStore;
use paceline_telemetry::{Options as TelemetryOptions, Telemetry};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::error::ServeError;
use crate::grpc::bounds::MOST_MESSAGE_BYTES;
use crate::grpc::{AdminService, Desk, Limiter, Traces};
use crate::life::{Life, Phase};
use crate::otlp::Otlp;
use crate::overview::Overview;
use crate::peers::{ARRIVES_WITHIN, Peers};
use crate::reached::Sharing;
use crate::recording::{Finish, Record, Recording};
use crate::reload::{InForce, Reloader, load};
use crate::{listener, reached, store, upkeep, web};

/// How long callers get to take their answers when the service stops.
pub const DRAIN_WITHIN: Duration = Duration::from_secs(10);

/// How long the store gets to take this replica out of those that are counted.
const RETIRE_WITHIN: Duration = Duration::from_millis(500);

/// How long the store gets to take what was counted last.
const WRITE_WITHIN: Duration = Duration::from_millis(500);

/// How long the store gets to tell, at the start, what people have said.
const CONTROLS_WITHIN: Duration = Duration::from_secs(1);
/// How long a collector gets to take what there is at the end.
const PUSH_WITHIN: Duration = Duration::from_secs(2);

/// The services of the contract, as health names them; the empty name is the whole of it.
const SERVICES: [&str; 3] = ["", "paceline.v1.RateLimiter", "paceline.v1.Admin"];

/// What a service is made of.
#[derive(Debug, Default)]
pub struct Options {
    /// The configuration file, if there is one; it is reloaded when it changes.
    pub config: Option<PathBuf>,
    /// Flags and variables, laid over the file each time it is read.
    pub overrides: Overrides,
    /// Where the state lives; `None`: where the configuration says.
    pub store: Option<AnyStore>,
    /// Where to record what became of each call; `None`: nowhere.
    pub record: Option<Record>,
    /// Where metrics and traces are pushed to; the default: nowhere.
    pub otlp: Otlp,
    /// How long a call that is sent on to another replica may take to arrive; `None`: [`ARRIVES_WITHIN`].
    pub arrives_within: Option<Duration>,
}

/// A service whose addresses are bound; [`Server::run`] serves on them.
pub struct Server {
    grpc: TcpListener,
    http: TcpListener,
    grpc_addr: SocketAddr,
    http_addr: SocketAddr,
    store: AnyStore,
    coordinator: Coordinator<AnyStore>,
    overview: Overview<AnyStore>,
    telemetry: Telemetry,
    in_force: Arc<ArcSwap<InForce>>,
    reloader: Reloader<AnyStore>,
    life: Arc<Life>,
    health: HealthReporter,
    routes: Routes,
    recording: Option<Finish>,
    draining: watch::Sender<bool>,
    traces: Traces,
}

/// How a service ended that was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Everybody got an answer and is gone.
    Completely,
    /// Some connections were still open after [`DRAIN_WITHIN`].
    InTime,
}

impl Server {
    /// Reads the configuration, binds both addresses and puts everything together. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration; a store that will never do; an address that cannot be listened on.
    pub async fn bind(options: Options) -> Result<Self, ServeError> {
        let config = load(options.config.as_deref(), &options.overrides)?;
        if options.store.is_none() {
            store::look(&config).await?;
        }
        let listen = config.listen().clone();
        let grpc = listener::bind("gRPC", "--grpc", listen.grpc)?;
        let http = listener::bind("HTTP", "--http", listen.http)?;
        let (grpc_addr, http_addr) = (listener::local_addr(&grpc, "gRPC")?, listener::local_addr(&http, "HTTP")?);

        let version = TelemetryOptions { version: env!("CARGO_PKG_VERSION"), ..TelemetryOptions::default() };
        let instance = listen.advertise.as_deref().map_or_else(|| grpc_addr.to_string(), str::to_owned);
        let telemetry = options.otlp.telemetry(version, &instance)?;
        let traces = Traces::new(options.otlp.tracer_provider(&instance)?, options.otlp.sampling);
        telemetry.observe_runtime(upkeep::runtime(&tokio::runtime::Handle::current()));
        let in_force = InForce::new(config, FleetTime::ZERO, false);
        telemetry.set_config_hash(in_force.hash());
        let was_given = options.store.is_some();
        let store = match options.store {
            Some(store) => store,
            None => store::open(in_force.config().store(), &telemetry)?,
        };
        let sharing = sharing(&store, was_given);
        let address = reached::address(&listen, grpc_addr, sharing);
        if let Some(warning) = reached::warning(in_force.config(), address.as_deref(), sharing) {
            tracing::warn!("{warning}");
        }
        let (trace, recording) = match options.record.as_ref().map(Recording::start).transpose()? {
            Some((recording, finish)) => (Some(Arc::new(recording) as Arc<dyn Trace>), Some(finish)),
            None => (None, None),
        };
        let coordinator = Coordinator::new(CoordinatorOptions {
            store: store.clone(),
            settings: in_force.configured(),
            telemetry: telemetry.clone(),
            trace,
            address,
        })
        .await?;
        // Fleet time is known once the store has answered.
        let in_force = in_force.read_at(coordinator.now());
        coordinator.reconfigure(in_force.configured()).await;
        let in_force = Arc::new(ArcSwap::from_pointee(in_force));
        // What people have said holds from the first call on; a store that is away is asked again soon.
        let _ = timeout(CONTROLS_WITHIN, coordinator.follow_controls()).await;
        let reloader =
            Reloader::new(options.config, options.overrides, in_force.clone(), coordinator.clone(), telemetry.clone());
        let health = HealthReporter::new();
        for service in SERVICES {
            health.set_service_status(service, ServingStatus::NotServing).await;
        }
        let (draining, is_draining) = watch::channel(false);
        let arrives_within = options.arrives_within.unwrap_or(ARRIVES_WITHIN);
        let peers = Arc::new(Peers::new(coordinator.clone(), telemetry.clone(), arrives_within));
        let overview = Overview::new(coordinator.clone(), peers.clone(), store.describe());
        let desk = Desk::new(coordinator.clone(), peers, is_draining, traces.clone());
        let is_open = grpc_addr.ip().to_canonical().is_loopback();
        let admin = AdminService::new(coordinator.clone(), overview.clone(), in_force.clone(), is_open);
        let routes = routes(desk, admin, &health)?;
        let life = Arc::new(Life::new()); // last: its first beat is now
        let of_life = Arc::downgrade(&life);
        telemetry.observe_ready(move || of_life.upgrade().is_some_and(|life| life.phase() == Phase::Ready));
        Ok(Self {
            grpc,
            http,
            grpc_addr,
            http_addr,
            store,
            coordinator,
            overview,
            telemetry,
            in_force,
            reloader,
            life,
            health,
            routes,
            recording,
            draining,
            traces,
        })
    }

    /// The number of this replica in its fleet; one that starts again has another.
    pub fn replica(&self) -> u32 {
        self.coordinator.replica()
    }

    /// Where gRPC is served.
    pub fn grpc_addr(&self) -> SocketAddr {
        self.grpc_addr
    }

    /// Where HTTP is served.
    pub fn http_addr(&self) -> SocketAddr {
        self.http_addr
    }

    /// Where the state lives, without secrets.
    pub fn store(&self) -> String {
        self.store.describe()
    }

    /// Reloads the configuration on demand.
    pub fn reloader(&self) -> Reloader<AnyStore> {
        self.reloader.clone()
    }

    /// Serves until `stop` completes; then every held call gets a ticket, nothing new is accepted, and after at most
    /// [`DRAIN_WITHIN`] it returns. Dropping the future ends everything at once.
    ///
    /// # Errors
    /// A listener stopped by itself.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<Drained, ServeError> {
        let mut upkeep = JoinSet::new();
        upkeep.spawn(upkeep::beat(self.life.clone()));
        match &self.store {
            AnyStore::Memory(store) => {
                upkeep.spawn(upkeep::sweep(store.clone()));
                // Ready before anybody can ask: who was told our addresses need not come twice.
                become_ready(self.life.clone(), self.health.clone()).await;
            }
            AnyStore::Redis(_) => {
                let (store, life, health) = (self.store.clone(), self.life.clone(), self.health.clone());
                upkeep.spawn(async move {
                    store::first_contact(&store).await;
                    become_ready(life, health).await;
                });
            }
        }
        upkeep.spawn(upkeep::refresh_keys(self.coordinator.clone()));
        upkeep.spawn(upkeep::follow_controls(self.coordinator.clone()));
        upkeep.spawn(upkeep::write_history(self.coordinator.clone()));
        upkeep.spawn(upkeep::write_journal(self.coordinator.clone()));
        upkeep.spawn(self.reloader.clone().watch());
        let heart = upkeep.spawn(upkeep::heartbeat(self.coordinator.clone(), self.in_force.clone()));

        let (stop_sender, stopping) = watch::channel(false);
        let mut grpc = JoinSet::new();
        listener::serve_grpc(self.grpc, &self.routes, &self.telemetry, &stopping, &mut grpc);
        let web = web::router(web::State {
            overview: self.overview.clone(),
            telemetry: self.telemetry.clone(),
            in_force: self.in_force.clone(),
            life: self.life.clone(),
        });
        let mut http = JoinSet::new();
        http.spawn(web::serve(self.http, web));

        tokio::select! {
            () = stop => {}
            ended = grpc.join_next() => return Err(ended_early("gRPC", ended)),
            ended = http.join_next() => return Err(ended_early("HTTP", ended)),
        }

        tracing::info!("stopping: callers that wait get tickets, no connection is accepted any more");
        self.life.enter(Phase::Draining);
        announce(&self.health, ServingStatus::NotServing).await;
        // Streams stop reading before their calls are let go, so that a second Queued is known for what it is.
        let _ = self.draining.send(true);
        self.coordinator.drain().await;
        heart.abort();
        // The others count without it sooner or later; who stops does not wait for a store that is away.
        let _ = timeout(RETIRE_WITHIN, self.coordinator.retire()).await;
        // Nobody waits for the receiver here; the tasks do.
        let _ = stop_sender.send(true);
        end_watches(self.health).await;
        let all_gone = timeout(DRAIN_WITHIN, async { while grpc.join_next().await.is_some() {} }).await;
        // Those who were there last reported last.
        let _ = timeout(WRITE_WITHIN, self.coordinator.write_history()).await;
        let _ = timeout(WRITE_WITHIN, self.coordinator.write_journal()).await;
        if let Some(recording) = self.recording {
            // It ends by itself should the runtime stop first.
            let _ = tokio::task::spawn_blocking(|| recording.finish()).await;
        }
        push_the_rest(self.telemetry.clone(), self.traces.clone()).await;
        // HTTP answered until now, so that the last minutes can be scraped.
        Ok(if all_gone.is_ok() { Drained::Completely } else { Drained::InTime })
    }
}

/// Hands a collector what it has not got yet. The exporters block for as long as they like, so they do that in threads that nobody
/// waits for when the time is over.
async fn push_the_rest(telemetry: Telemetry, traces: Traces) {
    let (done, both_done) = mpsc::channel::<()>(1);
    let also_done = done.clone();
    std::thread::spawn(move || {
        telemetry.finish(PUSH_WITHIN);
        drop(done);
    });
    std::thread::spawn(move || {
        traces.finish(PUSH_WITHIN);
        drop(also_done);
    });
    let mut both_done = both_done;
    // It ends when both have let go of their ends.
    let _ = timeout(PUSH_WITHIN, both_done.recv()).await;
}

fn routes<S: paceline_store::Store>(
    desk: Desk<S>,
    admin: AdminService<S>,
    health: &HealthReporter,
) -> Result<Routes, ServeError> {
    let limiter = RateLimiterServer::new(Limiter::new(desk)).max_decoding_message_size(MOST_MESSAGE_BYTES);
    let admin = AdminServer::new(admin).max_decoding_message_size(MOST_MESSAGE_BYTES);
    let health = tonic_health::server::HealthService::from_health_reporter(health.clone());
    // Both versions describe everything, also each other, and the details of errors.
    let described = [
        FILE_DESCRIPTOR_SET,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        tonic_types::pb::FILE_DESCRIPTOR_SET,
    ];
    let describe = || {
        let builder = tonic_reflection::server::Builder::configure().include_reflection_service(false);
        described.into_iter().fold(builder, tonic_reflection::server::Builder::register_encoded_file_descriptor_set)
    };
    Ok(Routes::new(limiter)
        .add_service(admin)
        .add_service(tonic_health::pb::health_server::HealthServer::new(health))
        .add_service(describe().build_v1()?)
        .add_service(describe().build_v1alpha()?))
}

/// Whether others use the store too.
fn sharing(store: &AnyStore, was_given: bool) -> Sharing {
    match (store.is_in_memory(), was_given) {
        (false, _) => Sharing::Shared,
        (true, true) => Sharing::MaybeShared,
        (true, false) => Sharing::Own,
    }
}

/// Tells everybody that calls are taken, unless the service is on its way out already.
async fn become_ready(life: Arc<Life>, health: HealthReporter) {
    if life.begin() {
        announce(&health, ServingStatus::Serving).await;
    }
    if life.phase() == Phase::Draining {
        announce(&health, ServingStatus::NotServing).await;
    }
}

async fn announce(health: &HealthReporter, status: ServingStatus) {
    for service in SERVICES {
        health.set_service_status(service, status).await;
    }
}

/// Ends the streams of those who watch the health: they would keep their connections open to the end.
async fn end_watches(mut health: HealthReporter) {
    for service in SERVICES {
        health.clear_service_status(service).await;
        health.set_service_status(service, ServingStatus::NotServing).await;
    }
}

fn ended_early(what: &'static str, ended: Option<Result<Result<(), ServeError>, tokio::task::JoinError>>) -> ServeError {
    match ended {
        Some(Ok(Err(error))) => error,
        Some(Err(panicked)) => ServeError::Stopped { what, why: panicked.to_string() },
        Some(Ok(Ok(()))) | None => ServeError::Stopped { what, why: "nobody asked it to".to_owned() },
    }
}
