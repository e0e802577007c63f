//! A lease: a granted, unsettled reservation, and the story of the call it belongs to. It travels as a signed token, so any
//! replica can settle it without a look-up.

use std::sync::Arc;

use crate::plan::{BucketId, CONCURRENCY, Class};
use crate::signal::Source;
use crate::units::{FleetTime, Milli, Span};

/// Whether sending a call twice does harm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repeat {
    /// As the catalogue says for the endpoint; for LLM calls twice costs only money.
    #[default]
    Unspecified,
    /// Twice costs only money.
    Safe,
    /// Only with the provider's idempotency key, the same on each attempt.
    Keyed,
    /// Never.
    Never,
}

/// What was taken from one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// From which.
    pub bucket: BucketId,
    /// How much.
    pub amount: Milli,
    /// The bucket's `fired` right after.
    pub mark: i64,
    /// The bucket's `fired` so long before that all of it had arrived when this call was sent.
    pub early: i64,
    /// The end of the window it was taken from ([`FleetTime::ZERO`] where there are no windows).
    pub window_end: FleetTime,
    /// Whether units are held until the call ends (concurrency).
    pub held: bool,
}

/// A floor under one call alone: the provider refused this call although its buckets show room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallFloor {
    /// Not before this.
    pub until: FleetTime,
    /// Who said so.
    pub source: Source,
}

/// What earlier attempts of a call have used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Time waited in earlier attempts.
    pub waited: Span,
    /// Attempts that may have run, and so may have been paid for.
    pub paid_attempts: u32,
}

/// A granted slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Unique in the scope: fleet time of the grant, replica, sequence.
    pub serial: Serial,
    /// Its place in line when it was asked for: kept when the slot was missed and is asked for again.
    pub stamp: Serial,
    /// The group it was charged to.
    pub group: Arc<str>,
    /// The group's `granted` right after.
    pub group_mark: u64,
    /// What it reserved.
    pub charges: Vec<Charge>,
    /// The class it was granted in.
    pub class: Class,
    /// The attempt, from 1.
    pub attempt: u32,
    /// When this attempt was first asked for: its place in line.
    pub asked_at: FleetTime,
    /// When it was granted.
    pub granted_at: FleetTime,
    /// When it is to be sent.
    pub send_at: FleetTime,
    /// Later than this it must not be sent.
    pub use_by: FleetTime,
    /// How long it lives without a report.
    pub ttl: Span,
    /// The expiry slot its held units are in.
    pub hold_until: FleetTime,
    /// The latest instant at which anyone cares.
    pub deadline: Option<FleetTime>,
    /// Whether it may be sent twice.
    pub repeat: Repeat,
    /// Earlier attempts.
    pub history: History,
}

/// Identifies a lease or a place in line within a scope; ordered by age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial {
    /// Fleet time.
    pub at: FleetTime,
    /// Which replica.
    pub replica: u32,
    /// Counts up within the replica.
    pub sequence: u64,
}

impl Lease {
    /// The time from the attempt's first ask to its send time.
    pub fn waited(&self) -> Span {
        self.send_at.since(self.asked_at)
    }

    /// Whether it holds units of a stock, other than its place among the calls in flight.
    pub fn puts_into_stock(&self) -> bool {
        self.charges.iter().any(|charge| charge.held && charge.amount > Milli::ZERO && &*charge.bucket.name != CONCURRENCY)
    }

    /// When it ends if nobody reports.
    pub fn expires_at(&self) -> FleetTime {
        self.send_at + self.ttl
    }
}
