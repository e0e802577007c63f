//! The provider of a run, a mock behind a real socket, and the HTTP client that calls it.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use paceline_core::units::{FleetTime, Span};
use paceline_provider_sim::{MockProvider, listen, serve};
use tokio::sync::oneshot;

use super::DemoError;
use super::plan::{MODEL, Plan, PlanError};

/// The address that a system gives a free port on.
const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A provider that runs until it is dropped.
pub(super) struct Provider {
    mock: MockProvider,
    address: SocketAddr,
    /// What was counted before the fleet started.
    before: Counts,
    _stop: oneshot::Sender<()>,
}

/// What a provider saw of a fleet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) sends: u64,
    pub(super) refused: u64,
}

impl Provider {
    /// Starts one, and uses up what is not to be left of its limits.
    pub(super) async fn start(plan: &Plan) -> Result<Self, DemoError> {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let config = plan.provider_at(FleetTime::ZERO + Span::from(since_epoch));
        let mock = MockProvider::new(config).map_err(PlanError::from)?;
        let listener = listen(ANY_PORT).map_err(DemoError::Listen)?;
        let address = listener.local_addr().map_err(DemoError::Listen)?;
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(serve(listener, mock.clone(), async move {
            // Completes when the provider is dropped; nothing is ever sent.
            let _ = stopped.await;
        }));
        let mut provider = Self { mock, address, before: Counts::default(), _stop: stop };
        provider.use_up(plan).await?;
        Ok(provider)
    }

    /// What it saw of the fleet so far.
    pub(super) fn counts(&self) -> Counts {
        let total = self.mock.counts();
        Counts { sends: total.sends - self.before.sends, refused: total.rejected - self.before.refused }
    }

    /// The same provider, for its meters.
    pub(super) fn mock(&self) -> &MockProvider {
        &self.mock
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The least time in which a fleet that knows its meters exactly could finish all calls from now on.
    pub(super) fn clairvoyant(&self, plan: &Plan) -> Result<Duration, DemoError> {
        let makespan = self.mock.provider().clairvoyant_makespan(self.mock.now(), &plan.due(), plan.workers);
        Ok(makespan.map_err(PlanError::from)?.to_duration())
    }

    /// One call of somebody else who was there before the fleet.
    async fn use_up(&mut self, plan: &Plan) -> Result<(), DemoError> {
        let used = plan.used_before();
        let mut headers = HeaderMap::new();
        for limit in plan.limits() {
            let name = format!("x-mock-cost-{}", limit.meter.replace('_', "-"));
            let name = HeaderName::try_from(name).map_err(|error| DemoError::Call(error.to_string()))?;
            headers.insert(name, HeaderValue::from(used.of(&limit.meter)));
        }
        let caller = Caller::new(self.address)?;
        caller.send(0, headers).await?;
        let counts = self.mock.counts();
        self.before = Counts { sends: counts.sends, refused: counts.rejected };
        Ok(())
    }
}

/// Calls a provider over connections that all its clones share.
#[derive(Clone)]
pub(super) struct Caller {
    client: Client<HttpConnector, Full<Bytes>>,
    uri: Uri,
}

/// What the provider answered.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Caller {
    /// For the provider at this address.
    pub(super) fn new(address: SocketAddr) -> Result<Self, DemoError> {
        let uri = Uri::try_from(format!("http://{address}/v1/chat/completions"));
        let uri = uri.map_err(|error| DemoError::Call(error.to_string()))?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Ok(Self { client: Client::builder(TokioExecutor::new()).build(connector), uri })
    }

    /// One chat completion of so many tokens.
    pub(super) async fn call(&self, tokens: u64) -> Result<Answered, DemoError> {
        self.send(tokens, HeaderMap::new()).await
    }

    async fn send(&self, tokens: u64, headers: HeaderMap) -> Result<Answered, DemoError> {
        let failed = |error: &(dyn std::error::Error + 'static)| DemoError::Call(whole(error));
        let body = serde_json::json!({"model": MODEL, "mock_cost": {"tokens": tokens}}).to_string();
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let response = self.client.request(request).await.map_err(|error| failed(&error))?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(|error| failed(&error))?.to_bytes();
        Ok(Answered { status: head.status, headers: head.headers, body })
    }
}

/// An error with what caused it.
fn whole(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
