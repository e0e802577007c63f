//! What a reader is given: one answer of a provider, as the worker reported it.

use paceline_core::units::{FleetTime, Span};

/// The start of a body that is looked at, in bytes; the rest is ignored.
pub const BODY_BYTES_READ: usize = 8 * 1024;

/// One answer of a provider.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answer<'a> {
    /// HTTP status; 0 when there was none (plain gRPC).
    pub status: u16,
    /// gRPC status; when absent, a `grpc-status` among the headers counts.
    pub grpc_status: Option<u32>,
    /// Headers and trailers: names in any casing, repeats kept, values as sent.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// The start of the body; at most [`BODY_BYTES_READ`] are looked at.
    pub body: &'a [u8],
    /// Now, by the clock of whoever reads. Only used when the answer has no `Date`.
    pub received_at: Option<FleetTime>,
    /// How long before `received_at` the answer arrived at the worker.
    pub age: Span,
}

impl Answer<'_> {
    /// The moment the answer arrived at the worker, as far as the reader's clock knows.
    pub(crate) fn arrived_at(&self) -> Option<FleetTime> {
        self.received_at.map(|now| now - self.age)
    }
}
