//! Remote calls as OpenTelemetry's semantic conventions for RPC want them counted (1.45, stable).

use opentelemetry::KeyValue;
use opentelemetry::metrics::BoundHistogram;

use crate::series::{Bounded, OTHER, label};
use crate::telemetry::Telemetry;

/// Upper bounds in seconds. The conventions begin at 5 ms, within which nearly all of our answers lie.
pub(crate) const BOUNDS_SECONDS: [f64; 14] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0];
/// Pairs of a method and a status with series of their own.
pub(crate) const MAX_RPCS: usize = 64;

/// One histogram for each method and status, bound when it is first needed.
pub(crate) type Rpcs = Bounded<(&'static str, &'static str), BoundHistogram<f64>>;

impl Telemetry {
    /// Records a remote call that ended. `method` is one that there is (`paceline.v1.RateLimiter/Acquire`) or `_OTHER`; `status` the
    /// name of a gRPC status (`OK`).
    pub fn rpc_ended(&self, method: &'static str, status: &'static str, seconds: f64) {
        let histogram = &self.instruments().rpc_duration;
        let labels = |method: &str, status: &str| -> [KeyValue; 3] {
            [KeyValue::new("rpc.system.name", "grpc"), label("rpc.method", method), label("rpc.response.status_code", status)]
        };
        let make = || ((method, status), histogram.bind(&labels(method, status)));
        if self.rpcs().with(&(method, status), make, |series| series.record(seconds)).is_none() {
            histogram.record(seconds, &labels(OTHER, OTHER));
        }
    }
}
