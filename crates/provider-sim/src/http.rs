//! The mock provider behind a real socket: the only place here that reads a clock. Thin: bytes in, a [`Call`]; the pure
//! [`Provider`] decides; wait as long as it says; bytes out.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, DefaultBodyLimit, Query, State};
use axum::http::{HeaderMap, Response, StatusCode, Uri, header};
use axum::routing::{get, post};
use paceline_core::units::{FleetTime, Span};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

use crate::error::SimError;
use crate::ledger::{Counts, Ledger};
use crate::provider::{Answer, Call, Provider, ProviderConfig};
use crate::request::read_call;
use crate::severable::{Line, SeverableListener};

/// The largest request body; prompts may carry images.
const MOST_BODY_BYTES: usize = 32 * 1024 * 1024;
/// Connections not yet accepted.
const CONNECTS_WAITING: u32 = 4_096;
/// How long answers under way may take to leave after a shutdown.
const DRAIN: Duration = Duration::from_secs(2);

/// A provider, what it saw, and its clock; clones share them.
#[derive(Clone)]
pub struct MockProvider {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    state: Mutex<Inner>,
    stopping: watch::Sender<bool>,
}

struct Inner {
    provider: Provider,
    ledger: Ledger,
    in_flight: u64,
    peak_in_flight: u64,
}

impl Inner {
    fn new(config: ProviderConfig, start: FleetTime) -> Result<Self, SimError> {
        Ok(Self { provider: Provider::starting_at(config, start)?, ledger: Ledger::default(), in_flight: 0, peak_in_flight: 0 })
    }
}

/// Wall-clock time at the start, and monotonic time from there: never goes back.
struct Clock {
    started: Instant,
    started_at: FleetTime,
}

impl Clock {
    fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), started_at: FleetTime::ZERO + Span::from(since_epoch) }
    }

    fn now(&self) -> FleetTime {
        self.started_at + Span::from(self.started.elapsed())
    }
}

impl MockProvider {
    /// A provider that nobody has called yet; its outages and changes count from now.
    pub fn new(config: ProviderConfig) -> Result<Self, SimError> {
        let clock = Clock::start();
        let state = Mutex::new(Inner::new(config, clock.started_at)?);
        Ok(Self { shared: Arc::new(Shared { clock, state, stopping: watch::Sender::new(false) }) })
    }

    /// Its present time: what its meters and headers go by.
    pub fn now(&self) -> FleetTime {
        self.shared.clock.now()
    }

    /// Counts of all calls since the start or the last reset.
    pub fn counts(&self) -> Counts {
        self.lock().ledger.total()
    }

    /// A copy of everything it saw.
    pub fn ledger(&self) -> Ledger {
        self.lock().ledger.clone()
    }

    /// A copy of the provider with its meters as they are; see [`Provider::clairvoyant_makespan`].
    pub fn provider(&self) -> Provider {
        self.lock().provider.clone()
    }

    /// What `GET /mock/stats` answers.
    pub fn stats(&self) -> Value {
        let mut state = self.lock();
        let levels = state.provider.levels(self.now());
        let mut json = state.ledger.to_json(&levels);
        if let Some(fields) = json.as_object_mut() {
            fields.insert("in_flight".into(), state.in_flight.into());
            fields.insert("peak_in_flight".into(), state.peak_in_flight.into());
        }
        json
    }

    /// Full meters, no counts; the first calls are to come again, and outages and changes count from now. Calls in flight are still answered.
    pub fn reset(&self) {
        let mut state = self.lock();
        let config = state.provider.config().clone();
        // The configuration was valid when it came, so this cannot fail; if it could, the old state would stay.
        if let Ok(fresh) = Inner::new(config, self.now()) {
            let in_flight = state.in_flight;
            *state = Inner { in_flight, peak_in_flight: in_flight, ..fresh };
        }
    }

    fn arrive(&self, call: &Call) -> (Answer, Instant, InFlight) {
        let mut state = self.lock();
        // Under the lock, so that calls reach the meters in the order of their times.
        let (arrived, now) = (Instant::now(), self.now());
        let answer = state.provider.arrive(now, call);
        state.ledger.record(now, call, &answer);
        state.in_flight += 1;
        state.peak_in_flight = state.peak_in_flight.max(state.in_flight);
        drop(state);
        (answer, arrived, InFlight(self.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic elsewhere leaves counts at worst one call behind.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a call as in flight until it is answered or its caller has gone.
struct InFlight(MockProvider);

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
    }
}

/// Listens with room for a whole fleet that connects at once: with the usual queue some of a thousand callers are overlooked
/// and try again a second later.
pub fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // As `TcpListener::bind` does: a port just left can be taken again. On Windows it would mean that two may have it.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(CONNECTS_WAITING)
}

/// Serves until `shutdown` completes; then calls under way are answered at once, and connections have two seconds to end.
pub async fn serve(
    listener: TcpListener,
    mock: MockProvider,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let app = Router::new()
        .route("/mock/stats", get(stats))
        .route("/mock/reset", post(reset))
        .route("/mock/{*rest}", axum::routing::any(unknown))
        .fallback(call)
        .layer(DefaultBodyLimit::max(MOST_BODY_BYTES))
        .with_state(mock.clone());
    let stopping = mock.shared.stopping.clone();
    let mut stopped = stopping.subscribe();
    let app = app.into_make_service_with_connect_info::<Line>();
    let server = axum::serve(SeverableListener::new(listener), app).with_graceful_shutdown(async move {
        shutdown.await;
        stopping.send_replace(true);
    });
    let drained = async {
        // The sender lives as long as `mock`, which we hold.
        let _ = stopped.wait_for(|stopping| *stopping).await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        ended = server => ended,
        () = drained => Ok(()),
    }
}

async fn call(
    State(mock): State<MockProvider>,
    ConnectInfo(line): ConnectInfo<Line>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let call = match read_call(uri.path(), &headers, &body) {
        Ok(call) => call,
        Err(problem) => return json_response(StatusCode::BAD_REQUEST, &json!({"error": {"message": problem}})),
    };
    let (answer, arrived, in_flight) = mock.arrive(&call);
    let mut stopping = mock.shared.stopping.subscribe();
    tokio::select! {
        () = tokio::time::sleep_until((arrived + answer.latency.to_duration()).into()) => {}
        _ = stopping.wait_for(|stopping| *stopping) => {}
    }
    drop(in_flight);
    if answer.is_reset() {
        line.sever();
        return Response::default();
    }
    to_response(answer)
}

fn to_response(answer: Answer) -> Response<Body> {
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    // Status and headers were validated with the configuration; should one slip through, the caller learns which.
    response.body(Body::from(answer.body)).unwrap_or_else(|error| {
        json_response(StatusCode::INTERNAL_SERVER_ERROR, &json!({"error": {"message": error.to_string()}}))
    })
}

async fn stats(State(mock): State<MockProvider>, Query(query): Query<HashMap<String, String>>) -> Response<Body> {
    let mut json = mock.stats();
    let asks = |what: &str| query.get(what).is_some_and(|value| !matches!(value.as_str(), "0" | "false"));
    if let Some(fields) = json.as_object_mut() {
        let state = mock.lock();
        if asks("bins") {
            fields.insert("accepted_per_100ms".into(), state.ledger.bins_json());
        }
        if asks("arrivals") {
            fields.insert("arrivals".into(), state.ledger.arrivals_json());
        }
    }
    json_response(StatusCode::OK, &json)
}

async fn reset(State(mock): State<MockProvider>) -> Response<Body> {
    mock.reset();
    json_response(StatusCode::OK, &json!({"reset": true}))
}

async fn unknown() -> Response<Body> {
    let message = "no such page; there are GET /mock/stats (?bins=1, ?arrivals=1) and POST /mock/reset";
    json_response(StatusCode::NOT_FOUND, &json!({"error": {"message": message}}))
}

fn json_response(status: StatusCode, json: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(json.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
