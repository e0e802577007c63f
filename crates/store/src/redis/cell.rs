//! A record as it lies in its hash: who is newer, until when it counts, and its bytes.

use std::cmp::Ordering;

use bytes::{Buf, Bytes};
use paceline_core::units::FleetTime;

use crate::register::Version;

/// Two numbers of eight bytes before the record.
const HEAD: usize = 16;

/// A record, and the version that it was written with: of two under one key the later one counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    written: u64,
    end: FleetTime,
    record: Bytes,
}

impl Cell {
    /// How many bytes [`Cell::pack`] makes of a record.
    pub(super) fn size_of(record: &[u8]) -> usize {
        HEAD + record.len()
    }

    /// The bytes of a record written with `version`, which counts until `end`.
    pub(super) fn pack(version: Version, end: FleetTime, record: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + record.len());
        bytes.extend_from_slice(&version.0.to_be_bytes());
        bytes.extend_from_slice(&end.as_micros().to_be_bytes());
        bytes.extend_from_slice(record);
        bytes
    }

    /// Reads what [`Cell::pack`] wrote; `None`: something else lies there.
    pub(super) fn read(mut bytes: Bytes) -> Option<Self> {
        (bytes.len() >= HEAD).then(|| Self {
            written: bytes.get_u64(),
            end: FleetTime::from_micros(bytes.get_i64()),
            record: bytes,
        })
    }

    /// The record, if it counts at `now`.
    pub(super) fn counts(self, now: FleetTime) -> Option<Bytes> {
        (self.end > now).then_some(self.record)
    }
}

impl PartialOrd for Cell {
    /// By what was written later.
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.written.cmp(&other.written))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_read_and_counts_until_its_end() {
        let end = FleetTime::from_secs(1_800_000_000);
        let cell = |version, end, record: &'static [u8]| Cell::read(Cell::pack(Version(version), end, record).into());
        let (old, new) = (cell(7, end, b"old"), cell(8, FleetTime::from_secs(5), b""));
        assert!(new > old, "a later one with an earlier end is the later one all the same");
        assert_eq!(old.clone().and_then(|cell| cell.counts(FleetTime::from_secs(4))), Some(Bytes::from_static(b"old")));
        assert_eq!(old.and_then(|cell| cell.counts(end)), None);
        assert_eq!(new.and_then(|cell| cell.counts(FleetTime::ZERO)), Some(Bytes::new()), "an empty record is a record");
        assert_eq!(Cell::read(Bytes::from_static(b"fifteen bytes..")), None);
    }
}
