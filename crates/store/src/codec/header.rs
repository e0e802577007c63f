//! The header of a stored value: what a store and a reader must know before they read the rest.

use crate::error::CodecError;
use crate::register::Version;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 32;
/// The schema of bodies that this release writes, and the newest that it reads.
pub const SCHEMA: u32 = 1;

/// The oldest schema that this release can still write.
const OLDEST_WRITTEN: u32 = 1;

/// The schema to write in a fleet whose members announce `lowest` at least: release N+1 writes N until all of them announce
/// N+1. `None`: nobody else is known of. One that announces less than this release can write is left behind: it refuses what
/// it cannot read, and touches nothing.
pub fn schema_to_write(lowest: Option<u32>) -> u32 {
    lowest.unwrap_or(SCHEMA).clamp(OLDEST_WRITTEN, SCHEMA)
}

/// The first [`HEADER_BYTES`] of a value, big endian, so that headers compare as bytes: the later one is the larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Header {
    /// Rises when a value was lost or rolled back and merged from what replicas remember.
    pub epoch: u64,
    /// The version of the register.
    pub version: Version,
    /// The replica that wrote it: with the version this tells a writer whose commit timed out whether it happened.
    pub writer: u64,
    /// The least schema that a reader must know to understand the body.
    pub min_reader: u32,
}

impl Header {
    /// A header of a value that every reader of [`SCHEMA`] understands.
    pub const fn new(epoch: u64, version: Version, writer: u64) -> Self {
        Self { epoch, version, writer, min_reader: SCHEMA }
    }

    /// The same of a value in this schema (see [`schema_to_write`]).
    pub const fn in_schema(self, schema: u32) -> Self {
        Self { min_reader: schema, ..self }
    }

    /// Reads the header of a value.
    ///
    /// # Errors
    /// [`CodecError::TooShort`]; nothing else is checked here.
    pub fn read(bytes: &[u8]) -> Result<Self, CodecError> {
        let too_short = || CodecError::TooShort { got: bytes.len(), needed: HEADER_BYTES };
        let (epoch, rest) = bytes.split_first_chunk().ok_or_else(too_short)?;
        let (version, rest) = rest.split_first_chunk().ok_or_else(too_short)?;
        let (writer, rest) = rest.split_first_chunk().ok_or_else(too_short)?;
        let (min_reader, rest) = rest.split_first_chunk().ok_or_else(too_short)?;
        let (_reserved, _body) = rest.split_first_chunk::<4>().ok_or_else(too_short)?;
        Ok(Self {
            epoch: u64::from_be_bytes(*epoch),
            version: Version(u64::from_be_bytes(*version)),
            writer: u64::from_be_bytes(*writer),
            min_reader: u32::from_be_bytes(*min_reader),
        })
    }

    /// Its bytes; the last four are reserved, written as zero and not read.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let fields = self
            .epoch
            .to_be_bytes()
            .into_iter()
            .chain(self.version.0.to_be_bytes())
            .chain(self.writer.to_be_bytes())
            .chain(self.min_reader.to_be_bytes());
        let mut bytes = [0; HEADER_BYTES];
        for (to, from) in bytes.iter_mut().zip(fields) {
            *to = from;
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_writes_what_all_of_it_can_read() {
        assert_eq!(schema_to_write(None), SCHEMA);
        assert_eq!(schema_to_write(Some(SCHEMA)), SCHEMA);
        assert_eq!(schema_to_write(Some(SCHEMA + 1)), SCHEMA, "a newer one reads ours");
        assert_eq!(schema_to_write(Some(0)), OLDEST_WRITTEN, "one that says nothing");
    }
}
