//! The HTTP listener: metrics, health, the configuration in force and a page for people.

mod fleet;
mod page;

use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::Router;
use axum::extract::{ConnectInfo, State as Shared};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use paceline_store::Store;
use paceline_telemetry::{CONTENT_TYPE, Telemetry};
use tokio::net::TcpListener;

use crate::error::ServeError;
use crate::life::{Life, Phase};
use crate::overview::Overview;
use crate::reload::InForce;

/// What the pages show.
pub(crate) struct State<S> {
    pub(crate) overview: Overview<S>,
    pub(crate) telemetry: Telemetry,
    pub(crate) in_force: Arc<ArcSwap<InForce>>,
    pub(crate) life: Arc<Life>,
}

impl<S> Clone for State<S> {
    fn clone(&self) -> Self {
        Self {
            overview: self.overview.clone(),
            telemetry: self.telemetry.clone(),
            in_force: self.in_force.clone(),
            life: self.life.clone(),
        }
    }
}

/// Nothing on our pages may run or load anything, whatever a name in them says.
const SAFE: [(HeaderName, &str); 3] = [
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Every page there is.
pub(crate) fn router<S: Store>(state: State<S>) -> Router {
    Router::new()
        .route("/", get(status_page))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/debug/config", get(debug_config))
        .fallback(nothing_here)
        .with_state(state)
}

/// Serves them until it is aborted.
pub(crate) async fn serve(listener: TcpListener, router: Router) -> Result<(), ServeError> {
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await.map_err(|error| ServeError::Stopped { what: "HTTP", why: error.to_string() })
}

async fn status_page<S: Store>(Shared(state): Shared<State<S>>) -> Response {
    let (list, scopes) = state.overview.all(page::MOST_SCOPES).await;
    let in_force = state.in_force.load();
    let page = page::render(&page::Facts {
        version: env!("CARGO_PKG_VERSION"),
        phase: state.life.phase(),
        up_for: state.life.up_for(),
        config_file: in_force.config().file(),
        config_hash: in_force.hash(),
        list: &list,
        scopes: &scopes,
    });
    (SAFE, Html(page)).into_response()
}

async fn metrics<S: Store>(Shared(state): Shared<State<S>>) -> Response {
    // Thousands of series take a while to write; callers must not wait for it.
    match tokio::task::spawn_blocking(move || state.telemetry.render()).await {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Ok(Err(error)) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// Alive: the loop turns. Says nothing about the store, since restarting us would not bring it back.
async fn healthz<S: Store>(Shared(state): Shared<State<S>>) -> Response {
    let (ago, is_alive) = state.life.heartbeat();
    if is_alive {
        text(StatusCode::OK, "ok")
    } else {
        text(StatusCode::SERVICE_UNAVAILABLE, &format!("the loop last turned {} s ago", ago.as_secs()))
    }
}

async fn readyz<S: Store>(Shared(state): Shared<State<S>>) -> Response {
    match state.life.phase() {
        Phase::Ready => text(StatusCode::OK, "ready"),
        Phase::Starting => text(StatusCode::SERVICE_UNAVAILABLE, "starting"),
        Phase::Draining => text(StatusCode::SERVICE_UNAVAILABLE, "draining"),
    }
}

/// The configuration in force, for whoever is on this machine (a forwarded port is, too).
async fn debug_config<S: Store>(ConnectInfo(peer): ConnectInfo<SocketAddr>, Shared(state): Shared<State<S>>) -> Response {
    if !peer.ip().to_canonical().is_loopback() {
        return text(
            StatusCode::FORBIDDEN,
            "the configuration is shown on this machine only; forward a port and ask 127.0.0.1",
        );
    }
    let in_force = state.in_force.load();
    let yaml = format!(
        "# in force for {} s; hash {}\n{}",
        in_force.age().as_secs(),
        in_force.hash(),
        in_force.config().effective_yaml()
    );
    (SAFE, [(header::CONTENT_TYPE, "application/yaml; charset=utf-8")], yaml).into_response()
}

async fn nothing_here() -> Response {
    text(StatusCode::NOT_FOUND, "there is /, /metrics, /healthz, /readyz and /debug/config; gRPC is on the other port")
}

fn text(status: StatusCode, what: &str) -> Response {
    (status, SAFE, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{what}\n")).into_response()
}
