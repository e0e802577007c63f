//! A granted lease as bytes: what its token carries and what its record keeps are the same, so it is written once.

use bytes::Bytes;
use paceline_core::lease::{Lease, Serial};
use paceline_core::mode::Mode;
use paceline_core::units::FleetTime;
use prost::Message;

use crate::wire::{self, LeaseWire};

/// A lease, encoded, beside what is looked at without reading it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LeaseBody {
    bytes: Bytes,
    /// Which grant it is.
    pub(crate) serial: Serial,
    /// Until when its slot may be used.
    pub(crate) use_by: FleetTime,
    pub(crate) mode: Mode,
    /// Attempts that may have been paid for before this one.
    pub(crate) paid_before: u32,
}

impl LeaseBody {
    /// Writes a lease.
    pub(crate) fn of(lease: &LeaseWire) -> Self {
        Self::new(lease, lease.encode_to_vec().into())
    }

    /// Reads a lease; `None`: these bytes are none.
    pub(crate) fn read(bytes: Bytes) -> Option<Self> {
        let lease = LeaseWire::decode(&*bytes).ok()?;
        Some(Self::new(&lease, bytes))
    }

    fn new(lease: &LeaseWire, bytes: Bytes) -> Self {
        Self {
            bytes,
            serial: wire::serial_of(lease),
            use_by: FleetTime::from_micros(lease.use_by),
            mode: wire::mode_of(lease),
            paid_before: lease.paid_attempts,
        }
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The whole of it.
    pub(crate) fn wire(&self) -> LeaseWire {
        // They were read or written as a lease before.
        LeaseWire::decode(&*self.bytes).unwrap_or_default()
    }

    /// The part of it that the core acts on.
    pub(crate) fn lease(&self) -> Lease {
        wire::lease_of(&self.wire())
    }
}
