//! What is kept about a granted key until its lease's end and a minute more: which lease it got, and what became of it.

use std::sync::Arc;

use paceline_core::delays::DelayPart;
use paceline_core::denial::Reason;
use paceline_core::lease::CallFloor;
use paceline_core::retry::Verdict;
use paceline_core::units::{FleetTime, Span};
use prost::Message;
use sha2::{Digest, Sha256};

use crate::api::Watched;
use crate::family::Family;
use crate::lease_body::LeaseBody;
use crate::wire::{self, PartWire, RecordWire, ShadowWire};

/// How long a record outlives its lease.
pub(crate) const KEPT_AFTER_END: Span = Span::from_secs(60);

/// Names a record: a hash of (identity, tenant, request_id, attempt); the scope is the store's other key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey(pub [u8; 16]);

impl CallKey {
    /// The key of one attempt of a call.
    pub fn new(identity: &str, tenant: &str, request_id: &str, attempt: u32) -> Self {
        let identity = if identity.is_empty() { "anonymous" } else { identity };
        Self(digest(&[identity.as_bytes(), tenant.as_bytes(), request_id.as_bytes(), &attempt.to_be_bytes()]))
    }

    /// From stored bytes; `None` when they are not 16.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

/// A hash of length-prefixed parts: different parts never run together.
pub(crate) fn digest(parts: &[&[u8]]) -> [u8; 16] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    let mut cut = [0; 16];
    for (to, from) in cut.iter_mut().zip(hash.finalize()) {
        *to = from;
    }
    cut
}

/// What the store keeps under a key beside the value.
#[derive(Clone, Debug, PartialEq)]
pub enum Kept {
    /// An attempt of a call.
    Call(Arc<Record>),
    /// The calls made for an enclosing one.
    Family(Family),
}

impl Kept {
    /// Until when it is kept.
    pub fn keep_until(&self) -> FleetTime {
        match self {
            Self::Call(record) => record.keep_until(),
            Self::Family(family) => family.keep_until(),
        }
    }

    /// As stored.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Call(record) => record.encode(),
            Self::Family(family) => RecordWire { family: Some(family.into()), ..RecordWire::default() }.encode_to_vec(),
        }
    }
}

impl From<Record> for Kept {
    fn from(record: Record) -> Self {
        Self::Call(Arc::new(record))
    }
}

impl From<Arc<Record>> for Kept {
    fn from(record: Arc<Record>) -> Self {
        Self::Call(record)
    }
}

/// The record of one granted attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub(crate) lease: LeaseBody,
    /// What was asked (target and cost), to tell a repetition from a different call under the same name.
    pub(crate) print: [u8; 16],
    /// Settled, released or given up.
    pub(crate) is_over: bool,
    /// It ended because nobody used it: the key may be asked for again.
    pub(crate) was_released: bool,
    /// How often its slot was told after the first time: nobody knows which of them was heard.
    pub(crate) told_again: u32,
    /// The highest `seq` reported.
    pub(crate) seq: u32,
    /// Whether anything was reported: it was sent.
    pub(crate) answered: bool,
    /// Whether an answer that went through has begun: a stream past its first byte.
    pub(crate) has_begun: bool,
    /// The expiry slot of its held units.
    pub(crate) hold_until: FleetTime,
    /// When it ends without a further report.
    pub(crate) ends_at: FleetTime,
    /// A floor under the call's next attempt.
    pub(crate) call_floor: Option<CallFloor>,
    /// Attempts that may have been paid for, this one included.
    pub(crate) paid_attempts: u32,
    /// What the final report was told.
    pub(crate) verdict: Option<Verdict>,
    /// How its wait came about.
    pub(crate) delays: Vec<DelayPart>,
    /// Of a call that is only watched: what would have been.
    pub(crate) shadow: Option<Box<Watched>>,
}

impl Record {
    /// Until when it is kept.
    pub fn keep_until(&self) -> FleetTime {
        self.ends_at + KEPT_AFTER_END
    }

    /// Whether it took a place in the line that would be: one that would have been denied took none.
    pub(crate) fn has_place(&self) -> bool {
        self.shadow.as_ref().is_none_or(|would| would.denial.is_none())
    }

    /// Why no further attempt is allowed, whatever bounds it comes with: what the provider said of the request itself.
    pub(crate) fn gave_up(&self) -> Option<Reason> {
        match self.verdict {
            Some(Verdict::GiveUp(reason @ (Reason::NotRetryable | Reason::AttemptsExhausted | Reason::QuotaExhausted))) => {
                Some(reason)
            }
            _ => None,
        }
    }

    /// As stored.
    pub fn encode(&self) -> Vec<u8> {
        RecordWire {
            lease: Some(self.lease.bytes().clone()),
            is_over: self.is_over,
            seq: self.seq,
            answered: self.answered,
            has_begun: self.has_begun,
            hold_until: self.hold_until.as_micros(),
            ends_at: self.ends_at.as_micros(),
            call_floor: self.call_floor.map(|floor| floor.until.as_micros()),
            call_floor_source: self.call_floor.map_or(0, |floor| u32::from(floor.source as u8)),
            paid_attempts: self.paid_attempts,
            verdict: self.verdict.map_or(0, wire::verdict_number),
            was_released: self.was_released,
            told_again: self.told_again,
            ask_print: self.print.to_vec(),
            delays: self.delays.iter().map(PartWire::from).collect(),
            shadow: self.shadow.as_deref().map(ShadowWire::from),
            family: None,
        }
        .encode_to_vec()
    }

    /// From the store; `None` when the bytes are not a record.
    pub fn decode(bytes: &[u8]) -> Option<Kept> {
        let mut stored = RecordWire::decode(bytes).ok()?;
        match stored.family.take() {
            Some(family) => Some(Kept::Family(family.into())),
            None => Self::of_wire(stored).map(Kept::from),
        }
    }

    fn of_wire(stored: RecordWire) -> Option<Self> {
        Some(Self {
            lease: LeaseBody::read(stored.lease?)?,
            print: stored.ask_print.as_slice().try_into().ok()?,
            is_over: stored.is_over,
            was_released: stored.was_released,
            told_again: stored.told_again,
            seq: stored.seq,
            answered: stored.answered,
            has_begun: stored.has_begun,
            hold_until: FleetTime::from_micros(stored.hold_until),
            ends_at: FleetTime::from_micros(stored.ends_at),
            call_floor: wire::call_floor_of(stored.call_floor, stored.call_floor_source),
            paid_attempts: stored.paid_attempts,
            verdict: wire::verdict_of(stored.verdict),
            delays: stored.delays.into_iter().map(DelayPart::from).collect(),
            shadow: stored.shadow.map(|shadow| Box::new(Watched::from(shadow))),
        })
    }
}
