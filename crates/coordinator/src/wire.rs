//! Protobuf bodies of tokens and records: core types as bytes and back. Hand-written messages, no build step.

use std::sync::Arc;

use paceline_core::delays::{Cause, DelayPart};
use paceline_core::denial::{Denial, Reason};
use paceline_core::lease::{CallFloor, Charge, History, Lease, Repeat, Serial};
use paceline_core::mode::Mode;
use paceline_core::plan::{BucketId, Class, Owner};
use paceline_core::retry::Verdict;
use paceline_core::signal::Source;
use paceline_core::units::{FleetTime, Milli, Span};

use crate::api::{Target, Watched};

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SerialWire {
    #[prost(sint64, tag = "1")]
    pub(crate) at: i64,
    #[prost(uint32, tag = "2")]
    pub(crate) replica: u32,
    #[prost(uint64, tag = "3")]
    pub(crate) sequence: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ChargeWire {
    /// 0 group, 1 shared, 2 account.
    #[prost(uint32, tag = "1")]
    owner: u32,
    #[prost(string, tag = "2")]
    owner_name: String,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(int64, tag = "4")]
    amount: i64,
    #[prost(int64, tag = "5")]
    mark: i64,
    #[prost(int64, tag = "6")]
    window_end: i64,
    #[prost(bool, tag = "7")]
    held: bool,
    #[prost(int64, tag = "40")]
    early: i64,
}

/// A lease with what is needed to ask for its next attempt.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LeaseWire {
    #[prost(message, optional, tag = "1")]
    pub(crate) serial: Option<SerialWire>,
    #[prost(message, optional, tag = "2")]
    pub(crate) stamp: Option<SerialWire>,
    #[prost(string, tag = "3")]
    pub(crate) provider: String,
    #[prost(string, tag = "4")]
    pub(crate) account: String,
    #[prost(string, tag = "5")]
    pub(crate) model: String,
    #[prost(string, tag = "6")]
    pub(crate) group: String,
    #[prost(uint64, tag = "7")]
    pub(crate) group_mark: u64,
    #[prost(message, repeated, tag = "8")]
    pub(crate) charges: Vec<ChargeWire>,
    #[prost(uint32, tag = "9")]
    pub(crate) class: u32,
    #[prost(uint32, tag = "10")]
    pub(crate) attempt: u32,
    #[prost(int64, tag = "11")]
    pub(crate) asked_at: i64,
    #[prost(int64, tag = "12")]
    pub(crate) granted_at: i64,
    #[prost(int64, tag = "13")]
    pub(crate) send_at: i64,
    #[prost(int64, tag = "14")]
    pub(crate) use_by: i64,
    #[prost(int64, tag = "15")]
    pub(crate) ttl: i64,
    #[prost(int64, tag = "16")]
    pub(crate) hold_until: i64,
    #[prost(int64, optional, tag = "17")]
    pub(crate) deadline: Option<i64>,
    #[prost(uint32, tag = "18")]
    pub(crate) repeat: u32,
    #[prost(int64, tag = "19")]
    pub(crate) waited: i64,
    #[prost(uint32, tag = "20")]
    pub(crate) paid_attempts: u32,
    #[prost(bytes = "vec", tag = "21")]
    pub(crate) key: Vec<u8>,
    #[prost(string, tag = "22")]
    pub(crate) request_id: String,
    #[prost(string, tag = "23")]
    pub(crate) tenant: String,
    #[prost(btree_map = "string, uint64", tag = "24")]
    pub(crate) cost: std::collections::BTreeMap<String, u64>,
    #[prost(bool, tag = "25")]
    pub(crate) cost_estimated: bool,
    #[prost(int64, tag = "26")]
    pub(crate) max_wait: i64,
    #[prost(btree_map = "string, string", tag = "27")]
    pub(crate) labels: std::collections::BTreeMap<String, String>,
    #[prost(string, tag = "28")]
    pub(crate) parent: String,
    #[prost(string, tag = "29")]
    pub(crate) identity: String,
    /// 0 enforce, 1 shadow, 2 off.
    #[prost(uint32, tag = "70")]
    pub(crate) mode: u32,
    /// Whether enforce would have made the call wait, or denied it.
    #[prost(bool, tag = "71")]
    pub(crate) held_back: bool,
    /// The families of the enclosing calls, nearest first.
    #[prost(bytes = "vec", repeated, tag = "80")]
    pub(crate) above: Vec<Vec<u8>>,
    /// Providers at which earlier attempts may have run.
    #[prost(string, repeated, tag = "81")]
    pub(crate) ran_at: Vec<String>,
    /// All targets in order of preference, where there are several.
    #[prost(message, repeated, tag = "82")]
    pub(crate) candidates: Vec<TargetWire>,
}

/// Where a call may be sent.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TargetWire {
    #[prost(string, tag = "1")]
    pub(crate) provider: String,
    #[prost(string, tag = "2")]
    pub(crate) account: String,
    #[prost(string, tag = "3")]
    pub(crate) model: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PartWire {
    #[prost(uint32, tag = "1")]
    source: u32,
    #[prost(string, tag = "2")]
    bucket: String,
    #[prost(int64, tag = "3")]
    length: i64,
}

/// A place in line.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TicketWire {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    pub(crate) stamp: Option<SerialWire>,
    #[prost(int64, tag = "3")]
    pub(crate) asked_at: i64,
    #[prost(int64, tag = "4")]
    pub(crate) left_at: i64,
    #[prost(message, repeated, tag = "5")]
    pub(crate) parts: Vec<PartWire>,
    #[prost(message, optional, tag = "6")]
    pub(crate) waiting_for: Option<PartWire>,
    #[prost(int64, optional, tag = "7")]
    pub(crate) call_floor: Option<i64>,
    #[prost(uint32, tag = "8")]
    pub(crate) call_floor_source: u32,
    #[prost(int64, tag = "9")]
    pub(crate) waited: i64,
    #[prost(uint32, tag = "10")]
    pub(crate) paid_attempts: u32,
    #[prost(string, tag = "11")]
    pub(crate) provider: String,
    #[prost(string, tag = "12")]
    pub(crate) account: String,
    /// Providers at which earlier attempts may have run.
    #[prost(string, repeated, tag = "80")]
    pub(crate) ran_at: Vec<String>,
    #[prost(string, tag = "81")]
    pub(crate) model: String,
    /// Given before the call was in any line: it names the place and the time of the first ask, and nothing else.
    #[prost(bool, tag = "90")]
    pub(crate) is_first: bool,
}

/// The state of a lease, by idempotency key.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RecordWire {
    /// A [`LeaseWire`], as its token carries it.
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(crate) lease: Option<bytes::Bytes>,
    #[prost(bool, tag = "2")]
    pub(crate) is_over: bool,
    #[prost(uint32, tag = "3")]
    pub(crate) seq: u32,
    #[prost(bool, tag = "4")]
    pub(crate) answered: bool,
    #[prost(int64, tag = "5")]
    pub(crate) hold_until: i64,
    #[prost(int64, tag = "6")]
    pub(crate) ends_at: i64,
    #[prost(int64, optional, tag = "7")]
    pub(crate) call_floor: Option<i64>,
    #[prost(uint32, tag = "8")]
    pub(crate) call_floor_source: u32,
    #[prost(uint32, tag = "9")]
    pub(crate) paid_attempts: u32,
    #[prost(uint32, tag = "10")]
    pub(crate) verdict: u32,
    #[prost(bool, tag = "11")]
    pub(crate) was_released: bool,
    #[prost(uint32, tag = "90")]
    pub(crate) told_again: u32,
    #[prost(bytes = "vec", tag = "12")]
    pub(crate) ask_print: Vec<u8>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) delays: Vec<PartWire>,
    #[prost(bool, tag = "14")]
    pub(crate) has_begun: bool,
    #[prost(message, optional, tag = "70")]
    pub(crate) shadow: Option<ShadowWire>,
    /// Then it is no attempt's record but a family's.
    #[prost(message, optional, tag = "80")]
    pub(crate) family: Option<FamilyWire>,
}

/// What the calls made for an enclosing one have come to.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FamilyWire {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(crate) above: Vec<Vec<u8>>,
    #[prost(uint32, tag = "2")]
    pub(crate) inherited: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) failures: u32,
    #[prost(int64, tag = "4")]
    pub(crate) changed_at: i64,
}

/// What would have become of a call that is only watched.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ShadowWire {
    #[prost(int64, tag = "1")]
    wait: i64,
    /// As the verdict that gives a call up for this reason; 0: not denied.
    #[prost(uint32, tag = "2")]
    reason: u32,
    #[prost(int64, optional, tag = "3")]
    retry_after: Option<i64>,
    #[prost(string, tag = "4")]
    detail: String,
    #[prost(message, repeated, tag = "5")]
    parts: Vec<PartWire>,
}

impl From<&Watched> for ShadowWire {
    fn from(watched: &Watched) -> Self {
        let denial = watched.denial.as_ref();
        Self {
            wait: watched.wait.as_micros(),
            reason: denial.map_or(0, |denial| verdict_number(Verdict::GiveUp(denial.reason))),
            retry_after: denial.and_then(|denial| denial.retry_after).map(Span::as_micros),
            detail: denial.map(|denial| denial.detail.clone()).unwrap_or_default(),
            parts: watched.delays.iter().map(PartWire::from).collect(),
        }
    }
}

impl From<ShadowWire> for Watched {
    fn from(wire: ShadowWire) -> Self {
        let denial = match verdict_of(wire.reason) {
            Some(Verdict::GiveUp(reason)) => {
                Some(Denial { reason, retry_after: wire.retry_after.map(Span::from_micros), detail: wire.detail })
            }
            _ => None,
        };
        let delays = wire.parts.into_iter().map(DelayPart::from).collect();
        Self { wait: Span::from_micros(wire.wait), denial, delays }
    }
}

/// The number of a mode; enforce is none, as in leases of releases before there were others.
pub(crate) const fn mode_number(mode: Mode) -> u32 {
    match mode {
        Mode::Enforce => 0,
        Mode::Shadow => 1,
        Mode::Off => 2,
    }
}

/// The mode of a lease; unknown numbers (of a later version) count as enforce.
pub(crate) const fn mode_of(lease: &LeaseWire) -> Mode {
    match lease.mode {
        1 => Mode::Shadow,
        2 => Mode::Off,
        _ => Mode::Enforce,
    }
}

impl From<&Target> for TargetWire {
    fn from(target: &Target) -> Self {
        Self { provider: target.provider.clone(), account: target.account.clone(), model: target.model.clone() }
    }
}

impl From<&TargetWire> for Target {
    fn from(wire: &TargetWire) -> Self {
        Self { provider: wire.provider.clone(), account: wire.account.clone(), model: wire.model.clone() }
    }
}

impl From<Serial> for SerialWire {
    fn from(serial: Serial) -> Self {
        Self { at: serial.at.as_micros(), replica: serial.replica, sequence: serial.sequence }
    }
}

impl From<SerialWire> for Serial {
    fn from(wire: SerialWire) -> Self {
        Self { at: FleetTime::from_micros(wire.at), replica: wire.replica, sequence: wire.sequence }
    }
}

impl From<&Charge> for ChargeWire {
    fn from(charge: &Charge) -> Self {
        let (owner, owner_name) = match &charge.bucket.owner {
            Owner::Group(name) => (0, name.to_string()),
            Owner::Shared(name) => (1, name.to_string()),
            Owner::Account => (2, String::new()),
        };
        Self {
            owner,
            owner_name,
            name: charge.bucket.name.to_string(),
            amount: charge.amount.as_milli(),
            mark: charge.mark,
            window_end: charge.window_end.as_micros(),
            held: charge.held,
            early: charge.early,
        }
    }
}

impl From<ChargeWire> for Charge {
    fn from(wire: ChargeWire) -> Self {
        let owner = match wire.owner {
            0 => Owner::Group(Arc::from(wire.owner_name)),
            1 => Owner::Shared(Arc::from(wire.owner_name)),
            _ => Owner::Account,
        };
        Self {
            bucket: BucketId { owner, name: Arc::from(wire.name) },
            amount: Milli::from_milli(wire.amount),
            mark: wire.mark,
            window_end: FleetTime::from_micros(wire.window_end),
            held: wire.held,
            early: wire.early,
        }
    }
}

impl From<&DelayPart> for PartWire {
    fn from(part: &DelayPart) -> Self {
        Self {
            source: u32::from(part.cause.source as u8),
            bucket: part.cause.bucket.to_string(),
            length: part.length.as_micros(),
        }
    }
}

impl From<PartWire> for DelayPart {
    fn from(wire: PartWire) -> Self {
        let cause = Cause { source: source_of(wire.source), bucket: Arc::from(wire.bucket) };
        Self { cause, length: Span::from_micros(wire.length) }
    }
}

/// The source with this number; unknown numbers (of a later version) read as none.
pub(crate) fn source_of(number: u32) -> Source {
    u8::try_from(number).ok().and_then(Source::from_u8).unwrap_or_default()
}

pub(crate) fn call_floor_of(until: Option<i64>, source: u32) -> Option<CallFloor> {
    until.map(|until| CallFloor { until: FleetTime::from_micros(until), source: source_of(source) })
}

/// Which grant it is.
pub(crate) fn serial_of(lease: &LeaseWire) -> Serial {
    lease.serial.clone().map(Serial::from).unwrap_or_default()
}

/// The part of a lease that the core acts on.
pub(crate) fn lease_of(wire: &LeaseWire) -> Lease {
    Lease {
        serial: serial_of(wire),
        stamp: wire.stamp.clone().map(Serial::from).unwrap_or_default(),
        group: Arc::from(wire.group.as_str()),
        group_mark: wire.group_mark,
        charges: wire.charges.iter().cloned().map(Charge::from).collect(),
        class: Class::ALL.get(usize::try_from(wire.class).unwrap_or(1)).copied().unwrap_or_default(),
        attempt: wire.attempt,
        asked_at: FleetTime::from_micros(wire.asked_at),
        granted_at: FleetTime::from_micros(wire.granted_at),
        send_at: FleetTime::from_micros(wire.send_at),
        use_by: FleetTime::from_micros(wire.use_by),
        ttl: Span::from_micros(wire.ttl),
        hold_until: FleetTime::from_micros(wire.hold_until),
        deadline: wire.deadline.map(FleetTime::from_micros),
        repeat: repeat_of(wire.repeat),
        history: History { waited: Span::from_micros(wire.waited), paid_attempts: wire.paid_attempts },
    }
}

/// The number of a repeat rule.
pub(crate) const fn repeat_number(repeat: Repeat) -> u32 {
    match repeat {
        Repeat::Unspecified => 0,
        Repeat::Safe => 1,
        Repeat::Keyed => 2,
        Repeat::Never => 3,
    }
}

/// The repeat rule with this number; unknown numbers forbid, which is the safe side.
pub(crate) const fn repeat_of(number: u32) -> Repeat {
    match number {
        0 => Repeat::Unspecified,
        1 => Repeat::Safe,
        2 => Repeat::Keyed,
        _ => Repeat::Never,
    }
}

const REASONS: [Reason; 11] = [
    Reason::NotRetryable,
    Reason::AttemptsExhausted,
    Reason::CrossProvider,
    Reason::CostExceedsCapacity,
    Reason::Paused,
    Reason::StoreUnavailable,
    Reason::QuotaExhausted,
    Reason::OverHonorCap,
    Reason::Deadline,
    Reason::RetryBudget,
    Reason::QueueFull,
];

/// Reasons are stored as verdicts from here on.
const GIVE_UP: u32 = 16;

/// The stored number of a verdict; 0 is none.
pub(crate) fn verdict_number(verdict: Verdict) -> u32 {
    match verdict {
        Verdict::Done => 1,
        Verdict::Retry => 2,
        Verdict::FailOver => 3,
        Verdict::GiveUp(reason) => {
            REASONS.iter().zip(GIVE_UP..).find(|(known, _)| **known == reason).map_or(GIVE_UP, |(_, number)| number)
        }
    }
}

/// The verdict with this number; unknown numbers (of a later version) are none.
pub(crate) fn verdict_of(number: u32) -> Option<Verdict> {
    match number {
        1 => Some(Verdict::Done),
        2 => Some(Verdict::Retry),
        3 => Some(Verdict::FailOver),
        _ => {
            let index = usize::try_from(number.checked_sub(GIVE_UP)?).ok()?;
            REASONS.get(index).copied().map(Verdict::GiveUp)
        }
    }
}
