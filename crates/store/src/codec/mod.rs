//! Scope values as bytes: a header of fixed width, then a protobuf body.
//!
//! Bytes come from outside: other releases wrote them, other hands may have. Unknown fields are skipped. A field out of its
//! bounds costs its own bucket or group what was known, not the others: see [`decode`]. Nothing here panics on any bytes.

mod bounds;
mod calls;
mod header;
mod in_force;
mod limits;
mod pace;
mod read;
#[cfg(test)]
mod strategies;
#[cfg(test)]
mod tests;
mod usage;
mod wire;
mod write;

use bytes::Bytes;
use paceline_core::units::FleetTime;
use paceline_core::value::ScopeValue;
use prost::Message;

pub use self::header::{HEADER_BYTES, Header, SCHEMA, schema_to_write};
use crate::error::CodecError;

/// A value read from a store, fit to be decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Who wrote it, and as what.
    pub header: Header,
    /// The value, with every field in its bounds.
    pub value: ScopeValue,
    /// How many fields this reading found out of bounds and reset; they are in `value.repaired` already.
    pub repaired: u64,
}

/// The bytes of a value.
pub fn encode(header: &Header, value: &ScopeValue) -> Bytes {
    let body = write::scope(value);
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.encoded_len());
    bytes.extend(header.to_bytes());
    body.encode_raw(&mut bytes);
    bytes.into()
}

/// The value in these bytes, read at fleet time `now`.
///
/// A bucket with a field out of bounds starts again cautiously, as one that nobody has observed: its level is forgotten; its
/// limits, its floor, its units in use and its count of units granted stay where they are sound. A bucket or group that cannot
/// be told apart from others is dropped. Instants further ahead than anything legal are pulled back ([`ScopeValue::repair`]).
///
/// # Errors
/// Bytes that are no value at all. The caller starts the scope cautiously: never with full buckets (I-10).
pub fn decode(bytes: &Bytes, now: FleetTime) -> Result<Decoded, CodecError> {
    let header = Header::read(bytes)?;
    if header.min_reader > SCHEMA {
        return Err(CodecError::TooNew { needed: header.min_reader, known: SCHEMA });
    }
    let body = wire::Scope::decode(bytes.slice(HEADER_BYTES..))?;
    let (mut value, found) = read::scope(body, now);
    let repaired = found + value.repair(now);
    Ok(Decoded { header, value, repaired })
}
