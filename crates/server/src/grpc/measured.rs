//! How long each RPC takes and how it ends, whatever it is: seen from outside, where calls come in.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::Instant;

use paceline_proto::FILE_DESCRIPTOR_SET;
use paceline_telemetry::{Status, Telemetry};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::codegen::{Body, Bytes};
use tower::{Layer, Service};

/// The method of calls to what there is not.
const UNKNOWN: &str = "_OTHER";
/// How a call ends whose caller went away (gRPC's `CANCELLED`).
const CANCELLED: u32 = 1;
/// How a call ends that ends without a status (gRPC's `UNKNOWN`).
const NO_STATUS: u32 = 2;

/// Measures every call of the services below.
#[derive(Clone, Debug)]
pub(crate) struct Measured(Telemetry);

impl Measured {
    pub(crate) fn new(telemetry: Telemetry) -> Self {
        Self(telemetry)
    }
}

impl<S> Layer<S> for Measured {
    type Service = Measuring<S>;

    fn layer(&self, inner: S) -> Measuring<S> {
        Measuring { inner, telemetry: self.0.clone() }
    }
}

/// A service whose calls are measured.
#[derive(Clone, Debug)]
pub(crate) struct Measuring<S> {
    inner: S,
    telemetry: Telemetry,
}

impl<S, I, O> Service<Request<I>> for Measuring<S>
where
    S: Service<Request<I>, Response = Response<O>>,
    S::Future: Send + 'static,
{
    type Response = Response<Counted<O>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<I>) -> Self::Future {
        let mut call = Call {
            telemetry: self.telemetry.clone(),
            method: method_of(request.uri().path()),
            began: Instant::now(),
            status: None,
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            // Errors have their status in front; the rest follows behind the body.
            call.status = status_in(answer.headers());
            Ok(answer.map(|inner| Counted { inner, call }))
        })
    }
}

/// One call; it is recorded when it is gone.
#[derive(Debug)]
struct Call {
    telemetry: Telemetry,
    method: &'static str,
    began: Instant,
    status: Option<u32>,
}

impl Drop for Call {
    fn drop(&mut self) {
        let status = Status::Grpc(self.status.unwrap_or(CANCELLED)).label();
        self.telemetry.rpc_ended(self.method, status, self.began.elapsed().as_secs_f64());
    }
}

/// An answer whose end is waited for.
#[derive(Debug)]
pub(crate) struct Counted<B> {
    inner: B,
    call: Call,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Counted<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, B::Error>>> {
        let frame = Pin::new(&mut self.inner).poll_frame(context);
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(trailers) = frame.trailers_ref() {
                    self.call.status = status_in(trailers);
                }
            }
            Poll::Ready(Some(Err(_)) | None) => {
                self.call.status.get_or_insert(NO_STATUS);
            }
            Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.inner.size_hint()
    }
}

fn status_in(headers: &HeaderMap) -> Option<u32> {
    headers.get("grpc-status")?.to_str().ok()?.parse().ok()
}

/// The name of a method that there is.
fn method_of(path: &str) -> &'static str {
    static KNOWN: OnceLock<HashSet<String>> = OnceLock::new();
    let known = KNOWN.get_or_init(known);
    path.strip_prefix('/').and_then(|path| known.get(path)).map_or(UNKNOWN, String::as_str)
}

fn known() -> HashSet<String> {
    let described = [
        FILE_DESCRIPTOR_SET,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let mut known = HashSet::new();
    for file in described.into_iter().filter_map(|set| FileDescriptorSet::decode(set).ok()).flat_map(|set| set.file) {
        for service in &file.service {
            let full = |method: &str| format!("{}.{}/{method}", file.package(), service.name());
            known.extend(service.method.iter().map(|method| full(method.name())));
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_methods_that_there_are_get_a_name() {
        for (path, method) in [
            ("/paceline.v1.RateLimiter/Acquire", "paceline.v1.RateLimiter/Acquire"),
            ("/paceline.v1.Admin/GetScope", "paceline.v1.Admin/GetScope"),
            ("/grpc.health.v1.Health/Check", "grpc.health.v1.Health/Check"),
            ("/paceline.v1.RateLimiter/Steal", UNKNOWN),
            ("paceline.v1.RateLimiter/Acquire", UNKNOWN),
            ("", UNKNOWN),
        ] {
            assert_eq!(method_of(path), method, "{path}");
        }
    }
}
