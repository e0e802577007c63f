//! A span for a call that is traced: whose it is, how it was answered, and where its time went. Costs nothing where nobody traces.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::trace::{
    Span as _, SpanContext, SpanId, SpanKind, Status as Outcome, TraceContextExt as _, TraceFlags, TraceId, TraceState,
    Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};
use paceline_proto::v1;
use paceline_proto::v1::acquire_response::Outcome as Answer;
use paceline_proto::v1::session_request::Call;
use paceline_proto::v1::session_response::Answer as SessionAnswer;
use rand::RngExt as _;
use tonic::Status;
use tonic::metadata::MetadataMap;

use crate::otlp::Sampling;

/// The span that a call continues (W3C Trace Context).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parent {
    trace: TraceId,
    span: SpanId,
    is_sampled: bool,
}

impl Parent {
    /// `00-TRACE-SPAN-FLAGS`, or a later version that begins like it; anything else is none.
    pub(crate) fn read(traceparent: &str) -> Option<Self> {
        let mut parts = traceparent.split('-');
        let [version, trace, span, flags] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
        let is_hex = |text: &str, length: usize| text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_known = is_hex(version, 2) && version != "ff" && (version != "00" || parts.next().is_none());
        if !is_known || !is_hex(trace, 32) || !is_hex(span, 16) || !is_hex(flags, 2) {
            return None;
        }
        let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
        let is_sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        (trace != TraceId::INVALID && span != SpanId::INVALID).then_some(Self { trace, span, is_sampled })
    }

    fn context(self) -> SpanContext {
        let flags = if self.is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
        SpanContext::new(self.trace, self.span, flags, true, TraceState::default())
    }
}

/// Makes spans; cheap to clone. Without a collector it makes none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traces(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    tracer: SdkTracer,
    provider: SdkTracerProvider,
    sampling: Sampling,
}

impl Traces {
    pub(crate) fn new(provider: Option<SdkTracerProvider>, sampling: Sampling) -> Self {
        Self(provider.map(|provider| Arc::new(Inner { tracer: provider.tracer("paceline"), provider, sampling })))
    }

    /// What the metadata of an RPC say of its caller's span; nothing where nobody traces.
    pub(crate) fn parent(&self, metadata: &MetadataMap) -> Option<Parent> {
        self.0.as_ref()?;
        Parent::read(metadata.get("traceparent")?.to_str().ok()?)
    }

    /// Pushes what there is, for at most so long. It blocks.
    pub(crate) fn finish(&self, within: Duration) {
        if let Some(inner) = &self.0 {
            // Whoever cannot be told has been told of already.
            let _ = inner.provider.shutdown_with_timeout(within);
        }
    }

    /// A span of an RPC.
    pub(crate) fn rpc(&self, method: &'static str, parent: Option<Parent>) -> Option<CallSpan> {
        self.begin(method, parent, |_| {})
    }

    /// A span of an ask.
    pub(crate) fn acquire(&self, method: &'static str, parent: Option<Parent>, ask: &v1::AcquireRequest) -> Option<CallSpan> {
        self.begin(method, parent, |span| span.describe(ask))
    }

    /// A span of a call on a stream.
    pub(crate) fn call(&self, parent: Option<Parent>, call: &Call) -> Option<CallSpan> {
        match call {
            Call::Acquire(ask) => self.acquire("paceline.v1.RateLimiter/Session acquire", parent, ask),
            Call::Report(_) => self.rpc("paceline.v1.RateLimiter/Session report", parent),
            Call::Release(_) => self.rpc("paceline.v1.RateLimiter/Session release", parent),
            Call::Cancel(_) => None,
        }
    }

    fn begin(&self, method: &'static str, parent: Option<Parent>, describe: impl FnOnce(&mut CallSpan)) -> Option<CallSpan> {
        let inner = self.0.as_ref()?;
        let is_wanted = match parent.filter(|_| inner.sampling.follows_parent) {
            Some(parent) => parent.is_sampled,
            None => inner.sampling.part > 0.0 && rand::rng().random_bool(inner.sampling.part),
        };
        if !is_wanted {
            return None;
        }
        let context = parent.map_or_else(Context::new, |parent| Context::new().with_remote_span_context(parent.context()));
        let (rpc, is_own) = method.split_once(' ').map_or((method, true), |(rpc, _)| (rpc, false));
        let attributes = vec![KeyValue::new("rpc.system.name", "grpc"), KeyValue::new("rpc.method", rpc)];
        // A part of a stream or a batch is no RPC of its own.
        let kind = if is_own { SpanKind::Server } else { SpanKind::Internal };
        let builder = inner.tracer.span_builder(method).with_kind(kind).with_attributes(attributes);
        let mut span = CallSpan(Box::new(builder.start_with_context(&inner.tracer, &context)));
        describe(&mut span);
        Some(span)
    }
}

/// The span of a call that is under way. Dropped without an answer, it says that its caller went away.
#[derive(Debug)]
pub(crate) struct CallSpan(Box<Span>);

impl CallSpan {
    /// What continues this span.
    pub(crate) fn as_parent(&self) -> Parent {
        let context = self.0.span_context();
        Parent { trace: context.trace_id(), span: context.span_id(), is_sampled: context.is_sampled() }
    }

    fn set(&mut self, key: &'static str, value: impl Into<opentelemetry::Value>) {
        self.0.set_attribute(KeyValue::new(key, value));
    }

    fn describe(&mut self, ask: &v1::AcquireRequest) {
        if let Some(v1::Target { provider, account, model }) = &ask.target {
            self.set("paceline.provider", provider.clone());
            self.set("paceline.account", account.clone());
            self.set("paceline.model", model.clone());
        }
        self.set("paceline.request_id", ask.request_id.clone());
        self.set("paceline.attempt", i64::from(ask.attempt));
        self.set("paceline.priority", word(ask.priority().as_str_name(), "PRIORITY_"));
        self.set("paceline.tenant", ask.tenant.clone());
    }

    /// Ends with the answer to an ask.
    pub(crate) fn acquired(mut self, answer: Result<&v1::AcquireResponse, &Status>) {
        if let Ok(answer) = answer {
            self.tell(answer);
        }
        self.end(answer.err());
    }

    /// Ends with the answer to a report.
    pub(crate) fn reported(mut self, answer: Result<&v1::ReportResponse, &Status>) {
        if let Ok(answer) = answer {
            self.set("paceline.verdict", word(answer.verdict().as_str_name(), "VERDICT_"));
            if let Some(next) = &answer.next {
                self.tell(next);
            }
        }
        self.end(answer.err());
    }

    /// Ends with the answer to a call on a stream.
    pub(crate) fn answered(mut self, answer: Result<&SessionAnswer, &Status>) {
        match answer {
            Ok(SessionAnswer::Acquire(answer)) => self.acquired(Ok(answer)),
            Ok(SessionAnswer::Report(answer)) => self.reported(Ok(answer)),
            Ok(_) => self.end(None),
            Err(error) => {
                self.set("paceline.outcome", "error");
                self.end(Some(error));
            }
        }
    }

    /// Ends, well or with an error.
    pub(crate) fn end(mut self, error: Option<&Status>) {
        let code = error.map_or(0, |error| u32::try_from(error.code() as i32).unwrap_or(2));
        self.set("rpc.response.status_code", paceline_telemetry::Status::Grpc(code).label());
        if let Some(error) = error {
            // Its message may repeat what the caller sent.
            self.0.set_status(Outcome::error(format!("{:?}", error.code())));
        }
        let context = self.0.span_context();
        tracing::debug!(trace_id = %context.trace_id(), span_id = %context.span_id(), "a traced call was answered");
        self.0.end();
    }

    fn tell(&mut self, answer: &v1::AcquireResponse) {
        let mut by_source = BTreeMap::new();
        for delay in &answer.delays {
            let seconds = delay.duration.as_ref().map_or(0.0, |length| length.seconds as f64 + f64::from(length.nanos) / 1e9);
            // Several buckets, or what would be free next, may have the same source.
            *by_source.entry(word(delay.source().as_str_name(), "SOURCE_")).or_insert(0.0) += seconds;
            if delay.binding && !delay.bucket.is_empty() {
                self.set("paceline.bucket", delay.bucket.clone());
            }
        }
        self.set("paceline.wait", by_source.values().sum::<f64>());
        for (source, seconds) in by_source.into_iter().filter(|(_, seconds)| *seconds > 0.0) {
            self.0.set_attribute(KeyValue::new(format!("paceline.delay.{source}"), seconds));
        }
        self.set("paceline.mode", word(answer.mode().as_str_name(), "MODE_"));
        self.set("paceline.degraded", answer.degraded);
        match &answer.outcome {
            Some(Answer::Grant(_)) => self.set("paceline.outcome", "granted"),
            Some(Answer::Queued(queued)) => {
                self.set("paceline.outcome", "queued");
                self.set("paceline.ahead", i64::try_from(queued.ahead).unwrap_or(i64::MAX));
            }
            Some(Answer::Denial(denial)) => {
                self.set("paceline.outcome", "denied");
                self.set("paceline.reason", word(denial.reason().as_str_name(), "REASON_"));
            }
            None => {}
        }
    }
}

/// A name of an enum as it stands in metrics.
fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_workers_say_of_their_span_is_read_as_the_specification_wants() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "1020304050607080");
        let sampled = |text: &str| Parent::read(text).map(|parent| parent.is_sampled);
        assert_eq!(sampled(&format!("00-{trace}-{span}-01")), Some(true));
        assert_eq!(sampled(&format!("00-{trace}-{span}-00")), Some(false));
        assert_eq!(sampled(&format!("01-{trace}-{span}-03-more")), Some(true), "a later version");
        for wrong in [
            String::new(),
            format!("00-{trace}-{span}"),
            format!("00-{trace}-{span}-01-more"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{trace}-{span}-0x"),
            format!("00-{}-{span}-01", "é".repeat(16)),
        ] {
            assert_eq!(sampled(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn who_does_not_trace_makes_nothing() {
        let traces = Traces::default();
        let parent = Parent::read("00-4bf92f3577b34da6a3ce929d0e0e4736-1020304050607080-01");
        assert!(traces.rpc("paceline.v1.RateLimiter/Acquire", parent).is_none());
    }
}
