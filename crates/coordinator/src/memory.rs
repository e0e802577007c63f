//! What a replica remembers of a scope, and what it does when the store holds less than that.
//!
//! Servers lose what they held: they are flushed, or a copy that lags behind takes over. A replica whose memory names a commit
//! that the stored value does not include merges the two ([`paceline_core::merge`]) and writes the result back.

use bytes::Bytes;
use paceline_core::lineage::Lineage;
use paceline_core::merge::{begin_again, merge};
use paceline_core::units::FleetTime;
use paceline_core::value::ScopeValue;
use paceline_store::codec::{self, Decoded};
use paceline_store::keep_until;
use paceline_telemetry::StateLoss;

/// The last value that this replica read, or wrote for sure.
#[derive(Clone, Debug)]
pub struct Memory {
    bytes: Bytes,
    epoch: u64,
    lineage: Lineage,
    until: FleetTime,
}

impl Memory {
    /// Remembers what was written.
    pub fn written(bytes: Bytes, epoch: u64, lineage: Lineage, until: FleetTime) -> Self {
        Self { bytes, epoch, lineage, until }
    }

    /// What it remembers.
    pub fn value(&self, now: FleetTime) -> Option<ScopeValue> {
        codec::decode(&self.bytes, now).ok().map(|decoded| decoded.value)
    }

    /// Whether it matters at `now` what is remembered: nothing holds anybody up any more when all of it has come to its end.
    pub fn matters(&self, now: FleetTime) -> bool {
        self.until > now
    }

    /// Remembers a value, of which `bytes` are what the store holds, at `now`.
    pub fn of(bytes: Bytes, epoch: u64, value: &ScopeValue, now: FleetTime) -> Self {
        Self { bytes, epoch, lineage: value.lineage.clone(), until: keep_until(value, now) }
    }
}

/// What is stored of a scope.
#[derive(Clone, Debug)]
pub enum Stored {
    /// Nothing: never used, at its end, or lost.
    Nothing,
    /// A value.
    Value(Box<Decoded>),
    /// Bytes that cannot be read.
    Damaged,
}

/// A value to go on with.
#[derive(Clone, Debug)]
pub struct TakenOver {
    /// The value.
    pub value: ScopeValue,
    /// Its epoch: one more each time somebody found that a value was lost.
    pub epoch: u64,
    /// What had become of the stored value; `None`: nothing was lost.
    pub loss: Option<StateLoss>,
}

/// The value to go on with at `now`. Nothing that is remembered or stored lets through more than both allow; the first replica
/// that finds a loss also begins cautiously, for those who remember more.
pub fn take_over(memory: Option<&Memory>, stored: Stored, now: FleetTime) -> TakenOver {
    let (value, epoch, is_damaged, is_there) = match stored {
        Stored::Nothing => (ScopeValue::default(), 0, false, false),
        Stored::Value(decoded) => (decoded.value, decoded.header.epoch, false, true),
        // Never a full bucket out of garbage: every bucket starts anew, unseen and cautious.
        Stored::Damaged => (ScopeValue::after_loss(now), 0, true, false),
    };
    // A value that came to its end was not lost: nothing in it mattered any more.
    let missed = memory.filter(|memory| memory.matters(now) && !value.lineage.includes(&memory.lineage));
    let Some((memory, remembered)) = missed.and_then(|memory| Some((memory, codec::decode(&memory.bytes, now).ok()?))) else {
        return TakenOver { value, epoch, loss: is_damaged.then_some(StateLoss::Lost) };
    };
    let mut value = merge(&value, &remembered.value);
    if is_there && epoch > memory.epoch {
        return TakenOver { value, epoch, loss: Some(StateLoss::Joined) };
    }
    begin_again(&mut value, now);
    let loss = if is_there { StateLoss::RolledBack } else { StateLoss::Lost };
    TakenOver { value, epoch: epoch.max(memory.epoch) + 1, loss: Some(loss) }
}
