//! Metrics and traces pushed over OTLP to a small collector.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{MetricsService, MetricsServiceServer};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::trace::v1::Span;
use paceline_proto::v1::session_response::Answer;
use paceline_proto::v1::{AcquireBatchRequest, AcquireRequest, Header, ReportRequest};
use paceline_server::{Otlp, Sampling};
use tokio::net::TcpListener;
use tonic::{Request, Response, Status};

use crate::support::stream::Stream;
use crate::support::{Service, ask, granted, report, until};

/// What it was sent.
#[derive(Clone, Default)]
struct Collector {
    metrics: Arc<Mutex<Vec<ExportMetricsServiceRequest>>>,
    traces: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
}

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.metrics.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.traces.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn text(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &KeyValue| match value.value.clone().and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|attribute| (attribute.key.clone(), text(attribute))).collect()
}

impl Collector {
    async fn start() -> (Self, SocketAddr) {
        let collector = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let server = tonic::transport::Server::builder()
            .add_service(MetricsServiceServer::new(collector.clone()))
            .add_service(TraceServiceServer::new(collector.clone()));
        tokio::spawn(server.serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener)));
        (collector, addr)
    }

    /// The last value of the counter with these attributes.
    fn counter(&self, name: &str, attributes: &[(&str, &str)]) -> Option<f64> {
        use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
        let requests = self.metrics.lock().unwrap();
        let metrics = requests.iter().flat_map(|request| &request.resource_metrics).flat_map(|of| &of.scope_metrics);
        let sums =
            metrics.flat_map(|of| &of.metrics).filter(|metric| metric.name == name).filter_map(|metric| match &metric.data {
                Some(Data::Sum(sum)) => Some(&sum.data_points),
                _ => None,
            });
        let has = |labels: &BTreeMap<String, String>| {
            attributes.iter().all(|(key, value)| labels.get(*key).map(String::as_str) == Some(value))
        };
        let mut points = sums.flatten().filter(|point| has(&text(&point.attributes)));
        points.next_back().and_then(|point| match point.value? {
            Value::AsDouble(value) => Some(value),
            Value::AsInt(value) => Some(value as f64),
        })
    }

    fn resource(&self) -> BTreeMap<String, String> {
        let requests = self.metrics.lock().unwrap();
        let resource = requests.iter().flat_map(|request| &request.resource_metrics).find_map(|of| of.resource.as_ref());
        resource.map(|resource| text(&resource.attributes)).unwrap_or_default()
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.traces.lock().unwrap();
        let scopes = requests.iter().flat_map(|request| &request.resource_spans).flat_map(|of| &of.scope_spans);
        scopes.flat_map(|of| of.spans.clone()).collect()
    }

    /// The span with a name, once it has come.
    async fn span(&self, name: &str) -> (Span, BTreeMap<String, String>) {
        until("the span comes", async || self.spans().iter().any(|span| span.name == name)).await;
        let span = self.spans().into_iter().find(|span| span.name == name).unwrap();
        let attributes = text(&span.attributes);
        (span, attributes)
    }
}

const EVERY: Option<Duration> = Some(Duration::from_millis(50));
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "1020304050607080";

fn traced<T>(message: T, flags: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("traceparent", format!("00-{TRACE}-{PARENT}-{flags}").parse().unwrap());
    request
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_pushed_under_the_names_that_are_scraped() {
    let (collector, addr) = Collector::start().await;
    let service = Service::pushing(Otlp { metrics: Some(format!("http://{addr}")), every: EVERY, ..Otlp::default() }).await;
    service.limiter().await.acquire(ask("a", "m")).await.unwrap();
    let asked = [("provider", "acme"), ("account", "prod"), ("model", "m"), ("outcome", "granted")];
    until("the call is told", async || collector.counter("paceline_acquires", &asked) == Some(1.0)).await;
    // The collector makes of unit and kind what the page has: `paceline_acquires_total`, `paceline_delay_seconds_total`.
    let page = service.get("/metrics").await.2;
    assert!(page.contains("paceline_acquires_total{account=\"prod\""), "{page}");
    let resource = collector.resource();
    assert_eq!(resource.get("service.name").map(String::as_str), Some("paceline"), "{resource:?}");
    assert_eq!(resource.get("service.instance.id"), Some(&service.grpc.to_string()), "{resource:?}");
    assert_eq!(resource.get("service.version").map(String::as_str), Some(env!("CARGO_PKG_VERSION")));
    assert!(collector.spans().is_empty(), "nobody asked for traces");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_costs_callers_nothing() {
    let away = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let endpoint = Some(format!("http://{away}"));
    let sampling = Sampling { follows_parent: true, part: 1.0 };
    let otlp = Otlp { metrics: endpoint.clone(), traces: endpoint, every: EVERY, sampling, ..Otlp::default() };
    let mut service = Service::pushing(otlp).await;
    let mut limiter = service.limiter().await;
    let began = Instant::now();
    for n in 0..50 {
        granted(&limiter.acquire(ask(&n.to_string(), "m")).await.unwrap().into_inner());
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let began = Instant::now();
    drop(limiter);
    service.stop();
    service.ended().await;
    assert!(began.elapsed() < Duration::from_secs(8), "nor does it hold up the end: {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_traces_its_call_sees_where_its_time_went() {
    let (collector, addr) = Collector::start().await;
    let service = Service::pushing(Otlp { traces: Some(format!("http://{addr}")), every: EVERY, ..Otlp::default() }).await;
    let mut limiter = service.limiter().await;
    // Who does not sample, and who says nothing, is not traced.
    limiter.acquire(traced(ask("unsampled", "m"), "00")).await.unwrap();
    limiter.acquire(ask("silent", "m")).await.unwrap();
    let grant = limiter.acquire(traced(ask("seen", "m"), "01")).await.unwrap().into_inner();
    let (span, attributes) = collector.span("paceline.v1.RateLimiter/Acquire").await;
    assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.to_owned(), PARENT.to_owned()));
    for (key, value) in [
        ("rpc.system.name", "grpc"),
        ("rpc.method", "paceline.v1.RateLimiter/Acquire"),
        ("rpc.response.status_code", "OK"),
        ("paceline.provider", "acme"),
        ("paceline.account", "prod"),
        ("paceline.model", "m"),
        ("paceline.request_id", "seen"),
        ("paceline.outcome", "granted"),
    ] {
        assert_eq!(attributes.get(key).map(String::as_str), Some(value), "{attributes:?}");
    }
    // One that had to wait says for what.
    limiter.acquire(ask("before", "quick")).await.unwrap();
    let hold = Some(prost_types::Duration { seconds: 20, nanos: 0 });
    limiter.acquire(traced(AcquireRequest { hold, ..ask("patient", "quick") }, "01")).await.unwrap();
    let of = |request_id: &str| {
        let spans = collector.spans();
        spans.iter().map(|span| text(&span.attributes)).find(|of| of["paceline.request_id"] == request_id)
    };
    until("the wait is told", async || of("patient").is_some()).await;
    let patient = of("patient").unwrap();
    let waits = patient.iter().filter(|(key, _)| key.starts_with("paceline.delay."));
    let seconds: f64 = waits.map(|(_, seconds)| seconds.parse::<f64>().unwrap()).sum();
    assert!(seconds > 0.1 && patient["paceline.bucket"] == "requests", "{patient:?}");
    limiter.acquire(ask("first", "slow")).await.unwrap();
    let denied = AcquireRequest { max_wait: Some(prost_types::Duration { seconds: 1, nanos: 0 }), ..ask("hurried", "slow") };
    limiter.acquire(traced(denied, "01")).await.unwrap();
    until("the denial is told", async || of("hurried").is_some()).await;
    let hurried = of("hurried").unwrap();
    assert_eq!(
        (hurried["paceline.outcome"].as_str(), hurried["paceline.reason"].as_str()),
        ("denied", "deadline"),
        "{hurried:?}"
    );

    let headers = vec![Header { name: "Authorization".into(), value: "Bearer planted-secret".into() }];
    let told = ReportRequest { headers, body: b"planted-secret".to_vec(), ..report(&granted(&grant).lease_id, 429) };
    limiter.report(traced(told, "01")).await.unwrap();
    let (_, reported) = collector.span("paceline.v1.RateLimiter/Report").await;
    assert_eq!(reported["paceline.verdict"], "retry");
    let lease_id = &granted(&grant).lease_id;
    let everything = format!("{:?}", collector.traces.lock().unwrap());
    assert!(!everything.contains("planted-secret") && !everything.contains(lease_id), "{everything}");
    assert!(collector.spans().iter().all(|span| hex(&span.trace_id) == TRACE), "nobody else was traced");
}

#[tokio::test(flavor = "multi_thread")]
async fn items_of_a_batch_and_calls_on_a_stream_have_spans_of_their_own() {
    let (collector, addr) = Collector::start().await;
    let sampling = Sampling { follows_parent: true, part: 1.0 };
    let service =
        Service::pushing(Otlp { traces: Some(format!("http://{addr}")), sampling, every: EVERY, ..Otlp::default() }).await;
    let batch = AcquireBatchRequest { items: vec![ask("one", "m"), ask("two", "m")], ..AcquireBatchRequest::default() };
    service.limiter().await.acquire_batch(traced(batch, "01")).await.unwrap();
    let (batch, _) = collector.span("paceline.v1.RateLimiter/AcquireBatch").await;
    let item = "paceline.v1.RateLimiter/AcquireBatch item";
    until("both items come", async || collector.spans().iter().filter(|span| span.name == item).count() == 2).await;
    for span in collector.spans().iter().filter(|span| span.name == item) {
        assert_eq!((&span.parent_span_id, &span.trace_id), (&batch.span_id, &batch.trace_id));
    }

    let mut stream = Stream::open(&service).await;
    stream.ask(1, ask("on a stream", "m")).await;
    assert!(matches!(stream.hear().await, (1, Answer::Acquire(_))));
    let (span, attributes) = collector.span("paceline.v1.RateLimiter/Session acquire").await;
    assert_eq!(attributes["paceline.request_id"], "on a stream");
    assert_ne!(span.trace_id, batch.trace_id, "a trace of its own");
}
