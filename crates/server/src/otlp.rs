//! Where metrics and traces are pushed to over OTLP, from OpenTelemetry's own variables; nowhere unless they say so.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::{ExporterBuildError, MetricExporter, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider, SpanData};
use paceline_telemetry::{Options as TelemetryOptions, Push, Telemetry};

use crate::error::ServeError;

/// Where to push, and what. The default: nowhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Otlp {
    /// The collector of metrics, `http://host:4317`.
    pub metrics: Option<String>,
    /// The collector of traces.
    pub traces: Option<String>,
    /// How often metrics and spans are pushed; `None`: every minute and every five seconds, or as the variables OTEL_METRIC_EXPORT_INTERVAL
    /// and OTEL_BSP_SCHEDULE_DELAY say.
    pub every: Option<Duration>,
    /// Which calls have a span.
    pub sampling: Sampling,
    /// Whether OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES name the service; else it is `paceline`.
    pub is_named: bool,
}

/// Which calls have a span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Whether the worker decides where it says anything.
    pub follows_parent: bool,
    /// The part of the other calls, 0 to 1.
    pub part: f64,
}

impl Default for Sampling {
    /// Those that the worker traces, and no others: a fleet asks thousands of times a second.
    fn default() -> Self {
        Self { follows_parent: true, part: 0.0 }
    }
}

/// A variable that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}={value}: {problem}")]
pub struct OtlpError {
    variable: &'static str,
    value: String,
    problem: &'static str,
}

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const METRICS_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const PROTOCOLS: [&str; 3] =
    ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"];
const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";

impl Otlp {
    /// Reads the variables of the OpenTelemetry specification; headers and time-outs of the exporters are read by them.
    ///
    /// # Errors
    /// An address, protocol or sampler that there is not; nothing is wrong while no address is set.
    pub fn from_variables(variables: impl IntoIterator<Item = (String, String)>) -> Result<Self, OtlpError> {
        let variables: std::collections::HashMap<String, String> = variables.into_iter().collect();
        // An empty variable is as good as none (specification, "Parsing empty value").
        let get = |name: &str| variables.get(name).map(|value| value.trim()).filter(|value| !value.is_empty());
        let is = |name: &str, value: &str| get(name).is_some_and(|set| set.eq_ignore_ascii_case(value));
        if is("OTEL_SDK_DISABLED", "true") {
            return Ok(Self::default());
        }
        let endpoint = |own: &'static str, exporter: &str| -> Result<Option<String>, OtlpError> {
            let (variable, value) = match (get(own), get(ENDPOINT)) {
                _ if is(exporter, "none") => return Ok(None),
                (Some(value), _) => (own, value),
                (None, Some(value)) => (ENDPOINT, value),
                (None, None) => return Ok(None),
            };
            let wrong = |problem| OtlpError { variable, value: without_secrets(value), problem };
            if value.starts_with("https://") {
                return Err(wrong(
                    "TLS to a collector is not spoken; put one beside the service and write its address, http://127.0.0.1:4317",
                ));
            }
            let is_address = value.strip_prefix("http://").is_some_and(|rest| !rest.is_empty());
            is_address
                .then(|| Some(value.to_owned()))
                .ok_or_else(|| wrong("write http://HOST:4317, the collector's gRPC address"))
        };
        let this = Self {
            metrics: endpoint(METRICS_ENDPOINT, "OTEL_METRICS_EXPORTER")?,
            traces: endpoint(TRACES_ENDPOINT, "OTEL_TRACES_EXPORTER")?,
            every: None,
            sampling: sampling(get(SAMPLER), get(SAMPLER_ARG))?,
            is_named: get("OTEL_SERVICE_NAME").is_some()
                || get("OTEL_RESOURCE_ATTRIBUTES")
                    .is_some_and(|text| text.split(',').any(|part| part.trim().starts_with("service.name="))),
        };
        let is_off = this.metrics.is_none() && this.traces.is_none();
        for variable in PROTOCOLS {
            if let Some(value) = get(variable).filter(|value| !is_off && *value != "grpc") {
                let problem = "only grpc is spoken; collectors take it on port 4317";
                return Err(OtlpError { variable, value: value.to_owned(), problem });
            }
        }
        Ok(this)
    }

    /// The telemetry of a service at this address, pushed where it is to be.
    pub(crate) fn telemetry(&self, options: TelemetryOptions, instance: &str) -> Result<Telemetry, ServeError> {
        let Some(endpoint) = &self.metrics else { return Ok(Telemetry::new(options)?) };
        let exporter = MetricExporter::builder().with_tonic().with_endpoint(endpoint).build();
        let exporter = Told::new("metrics", endpoint, exporter.map_err(|error| not_built(endpoint, &error))?);
        tracing::info!(endpoint = without_secrets(endpoint), "metrics are pushed over OTLP");
        Ok(Telemetry::pushing(options, Push { exporter, every: self.every, resource: self.resource(instance) })?)
    }

    /// What takes the spans of a service at this address; `None`: nobody.
    pub(crate) fn tracer_provider(&self, instance: &str) -> Result<Option<SdkTracerProvider>, ServeError> {
        let Some(endpoint) = &self.traces else { return Ok(None) };
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(endpoint).build();
        let exporter = Told::new("traces", endpoint, exporter.map_err(|error| not_built(endpoint, &error))?);
        tracing::info!(endpoint = without_secrets(endpoint), sampling = ?self.sampling, "traces are pushed over OTLP");
        let provider = SdkTracerProvider::builder()
            // Who is sampled is decided before there is a span.
            .with_sampler(opentelemetry_sdk::trace::Sampler::AlwaysOn)
            .with_resource(self.resource(instance));
        let provider = match self.every {
            Some(every) => {
                let config = BatchConfigBuilder::default().with_scheduled_delay(every).build();
                provider.with_span_processor(BatchSpanProcessor::builder(exporter).with_batch_config(config).build())
            }
            None => provider.with_batch_exporter(exporter),
        };
        Ok(Some(provider.build()))
    }

    fn resource(&self, instance: &str) -> Resource {
        // With what the variables say.
        let resource = Resource::builder().with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", instance.to_owned()),
        ]);
        if self.is_named { resource.build() } else { resource.with_service_name("paceline").build() }
    }
}

fn not_built(endpoint: &str, error: &ExporterBuildError) -> ServeError {
    ServeError::Otlp { endpoint: without_secrets(endpoint), problem: error.to_string() }
}

/// An address without what may stand before its host.
fn without_secrets(endpoint: &str) -> String {
    match endpoint.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, host)| host)),
        None => endpoint.to_owned(),
    }
}

fn sampling(sampler: Option<&str>, part: Option<&str>) -> Result<Sampling, OtlpError> {
    let ratio = || -> Result<f64, OtlpError> {
        let Some(text) = part else { return Ok(1.0) };
        let wrong =
            || OtlpError { variable: SAMPLER_ARG, value: text.to_owned(), problem: "write a part of all calls, from 0 to 1" };
        text.parse().ok().filter(|part| (0.0..=1.0).contains(part)).ok_or_else(wrong)
    };
    let Some(sampler) = sampler else { return Ok(Sampling::default()) };
    let (follows_parent, root) = match sampler.strip_prefix("parentbased_") {
        Some(root) => (true, root),
        None => (false, sampler),
    };
    let part = match root {
        "always_on" => 1.0,
        "always_off" => 0.0,
        "traceidratio" => ratio()?,
        _ => {
            let problem = "write parentbased_traceidratio (with OTEL_TRACES_SAMPLER_ARG), parentbased_always_on, \
                           parentbased_always_off, or one of them without `parentbased_`";
            return Err(OtlpError { variable: SAMPLER, value: sampler.to_owned(), problem });
        }
    };
    Ok(Sampling { follows_parent, part })
}

/// An exporter that says once that it cannot push, and once that it can again.
#[derive(Debug)]
struct Told<E> {
    what: &'static str,
    endpoint: String,
    inner: E,
    is_away: AtomicBool,
}

impl<E> Told<E> {
    fn new(what: &'static str, endpoint: &str, inner: E) -> Self {
        Self { what, endpoint: without_secrets(endpoint), inner, is_away: AtomicBool::new(false) }
    }

    fn tell(&self, result: OTelSdkResult) -> OTelSdkResult {
        let (what, endpoint) = (self.what, &self.endpoint);
        match (&result, self.is_away.swap(result.is_err(), Ordering::Relaxed)) {
            (Err(error), false) => tracing::warn!(
                endpoint, %error,
                "{what} cannot be pushed; callers do not wait for that, and it is tried again and told when it works"
            ),
            (Ok(()), true) => tracing::info!(endpoint, "{what} are pushed again"),
            _ => {}
        }
        result
    }
}

impl PushMetricExporter for Told<MetricExporter> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.tell(self.inner.export(metrics).await)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        PushMetricExporter::temporality(&self.inner)
    }
}

impl opentelemetry_sdk::trace::SpanExporter for Told<SpanExporter> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.tell(self.inner.export(batch).await)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Otlp, OtlpError> {
        Otlp::from_variables(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn nothing_is_pushed_unless_an_address_is_set() {
        let off = Otlp::default();
        assert_eq!(read(&[]), Ok(off.clone()));
        assert_eq!(
            read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", ""), ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")]),
            Ok(off.clone())
        );
        assert_eq!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"), ("OTEL_SDK_DISABLED", "true")]), Ok(off));
    }

    #[test]
    fn one_address_is_for_both_and_each_may_have_its_own() {
        let of = |variables: &[(&str, &str)]| read(variables).map(|otlp| (otlp.metrics, otlp.traces));
        let (all, own) = (Some("http://c:4317".to_owned()), Some("http://t:4317".to_owned()));
        let both = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317");
        assert_eq!(of(&[both]), Ok((all.clone(), all.clone())));
        assert_eq!(of(&[both, ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:4317")]), Ok((all.clone(), own.clone())));
        assert_eq!(of(&[both, ("OTEL_TRACES_EXPORTER", "none")]), Ok((all, None)));
        assert_eq!(of(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:4317")]), Ok((None, own)));
        assert!(read(&[both, ("OTEL_RESOURCE_ATTRIBUTES", "a=b, service.name=limits")]).is_ok_and(|otlp| otlp.is_named));
    }

    #[test]
    fn the_worker_decides_what_is_traced_unless_somebody_says_otherwise() {
        let of = |variables: &[(&str, &str)]| read(variables).map(|otlp| (otlp.sampling.follows_parent, otlp.sampling.part));
        assert_eq!(of(&[]), Ok((true, 0.0)));
        let ratio = ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio");
        assert_eq!(of(&[ratio, ("OTEL_TRACES_SAMPLER_ARG", "0.01")]), Ok((true, 0.01)));
        assert_eq!(of(&[("OTEL_TRACES_SAMPLER", "always_on")]), Ok((false, 1.0)));
        for wrong in [&[("OTEL_TRACES_SAMPLER", "sometimes")][..], &[ratio, ("OTEL_TRACES_SAMPLER_ARG", "5 %")]] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_not_spoken_is_said_and_no_secret_with_it() {
        for (endpoint, advice) in
            [("collector:4317", "write http://"), ("https://me:secret@c:4317", "TLS"), ("http://", "write")]
        {
            let said = read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)]).map_err(|error| error.to_string());
            assert!(said.as_ref().is_err_and(|said| said.contains(advice) && !said.contains("secret")), "{said:?}");
        }
        let both = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")];
        assert!(read(&both).is_err_and(|error| error.to_string().contains("4317")));
    }
}
