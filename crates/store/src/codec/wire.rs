//! The body of a stored value as protobuf messages. Tags never change their meaning; a new field gets a new tag, and readers
//! of before skip it. What an old reader must not misread raises `min_reader` in the header.
//!
//! Units: instants are microseconds since the Unix epoch, spans are microseconds, amounts are thousandths of a unit.

use bytes::Bytes;
use prost::Message;

use super::calls::{StoredExhausted, StoredTally};

/// Buckets and groups lie in fields of bytes, which are encoded as nested messages are: each is read by itself, and damage to
/// one leaves the others readable.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Scope {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(super) buckets: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(super) groups: Vec<Bytes>,
    #[prost(message, optional, tag = "3")]
    pub(super) floor: Option<Floor>,
    #[prost(message, optional, tag = "4")]
    pub(super) last_refusal: Option<Refusal>,
    #[prost(uint64, tag = "5")]
    pub(super) repaired: u64,
    #[prost(int64, tag = "6")]
    pub(super) lost_at: i64,
    #[prost(message, optional, tag = "80")]
    pub(super) exhausted: Option<StoredExhausted>,
    #[prost(bytes = "bytes", repeated, tag = "60")]
    pub(super) usage: Vec<Bytes>,
    #[prost(message, repeated, tag = "70")]
    pub(super) provisional: Vec<Provisional>,
    /// Whose commits it includes, the replica silent for longest first.
    #[prost(message, repeated, tag = "90")]
    pub(super) writers: Vec<Writer>,
    /// Which replica decides.
    #[prost(message, optional, tag = "91")]
    pub(super) leader: Option<Leader>,
    /// Whose configuration its limits come from.
    #[prost(message, optional, tag = "92")]
    pub(super) in_force: Option<InForce>,
    /// The limits that people have said for a while.
    #[prost(message, optional, tag = "93")]
    pub(super) limits: Option<Limits>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Limits {
    #[prost(int64, tag = "1")]
    pub(super) at: i64,
    #[prost(message, repeated, tag = "2")]
    pub(super) said: Vec<LimitSaid>,
}

/// Without `per` it counts what is in use at a time. `model` is a pattern, empty: any.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LimitSaid {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) bucket: Bytes,
    #[prost(uint64, tag = "2")]
    pub(super) units: u64,
    #[prost(int64, optional, tag = "3")]
    pub(super) per: Option<i64>,
    #[prost(bytes = "bytes", tag = "4")]
    pub(super) model: Bytes,
    #[prost(int64, tag = "5")]
    pub(super) ends: i64,
}

/// Hashes are 16 bytes, big endian; none: empty.
#[derive(Clone, PartialEq, Message)]
pub(super) struct InForce {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) hash: Bytes,
    #[prost(int64, tag = "2")]
    pub(super) since: i64,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) before: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Leader {
    #[prost(fixed32, tag = "1")]
    pub(super) replica: u32,
    #[prost(string, tag = "2")]
    pub(super) address: String,
    #[prost(int64, tag = "3")]
    pub(super) until: i64,
}

/// A wait that one call alone has heard of: under a group, a bucket (of which the plan's name is all that is set), else under
/// the account.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Provisional {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(super) group: Option<Bytes>,
    #[prost(message, optional, tag = "2")]
    pub(super) bucket: Option<Plan>,
    #[prost(sint64, tag = "3")]
    pub(super) told: i64,
    #[prost(uint64, tag = "4")]
    pub(super) mark: u64,
}

/// What calls of one kind turned out to use.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Usage {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) model: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) label: Bytes,
    #[prost(bool, tag = "3")]
    pub(super) is_media: bool,
    #[prost(sint64, tag = "4")]
    pub(super) seen_at: i64,
    #[prost(message, repeated, tag = "5")]
    pub(super) meters: Vec<UsageMeter>,
}

/// A histogram: the number of each range, how often (in sixty-fourths), and the largest size seen in it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct UsageMeter {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) meter: Bytes,
    #[prost(uint32, repeated, tag = "2")]
    pub(super) ranges: Vec<u32>,
    #[prost(uint32, repeated, tag = "3")]
    pub(super) counts: Vec<u32>,
    #[prost(uint64, repeated, tag = "4")]
    pub(super) most: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Writer {
    #[prost(fixed32, tag = "1")]
    pub(super) replica: u32,
    #[prost(uint64, tag = "2")]
    pub(super) commits: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Bucket {
    #[prost(message, optional, tag = "1")]
    pub(super) plan: Option<Plan>,
    #[prost(message, optional, tag = "2")]
    pub(super) learned: Option<Learned>,
    #[prost(message, optional, tag = "3")]
    pub(super) level: Option<Level>,
    #[prost(message, optional, tag = "4")]
    pub(super) burst: Option<Level>,
    #[prost(sint64, tag = "5")]
    pub(super) window_end: i64,
    #[prost(sint64, tag = "6")]
    pub(super) opens_at: i64,
    #[prost(sint64, tag = "7")]
    pub(super) fired: i64,
    #[prost(bool, tag = "8")]
    pub(super) spreading: bool,
    #[prost(sint64, tag = "9")]
    pub(super) fired_at_turn: i64,
    #[prost(sint64, tag = "10")]
    pub(super) paced_until: i64,
    #[prost(message, optional, tag = "11")]
    pub(super) observed: Option<Observed>,
    #[prost(sint64, tag = "12")]
    pub(super) typical: i64,
    #[prost(bool, tag = "13")]
    pub(super) started: bool,
    #[prost(message, optional, tag = "14")]
    pub(super) floor: Option<Floor>,
    #[prost(message, repeated, tag = "15")]
    pub(super) holds: Vec<Slot>,
    #[prost(sint64, tag = "16")]
    pub(super) typical_reserved: i64,
    #[prost(message, optional, tag = "17")]
    pub(super) calm: Option<Calm>,
    #[prost(sint64, tag = "40")]
    pub(super) proven: i64,
    #[prost(message, optional, tag = "41")]
    pub(super) trail: Option<Trail>,
    #[prost(message, optional, tag = "42")]
    pub(super) drain: Option<Drain>,
    #[prost(message, optional, tag = "43")]
    pub(super) ceiling: Option<Ceiling>,
    #[prost(sint64, optional, tag = "44")]
    pub(super) lowest: Option<i64>,
    #[prost(message, optional, tag = "45")]
    pub(super) proof: Option<Backing>,
    #[prost(message, optional, tag = "50")]
    pub(super) interactive: Option<ClassTurn>,
    #[prost(message, optional, tag = "51")]
    pub(super) normal: Option<ClassTurn>,
    #[prost(message, optional, tag = "52")]
    pub(super) batch: Option<ClassTurn>,
}

/// What a class has coming in a bucket.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct ClassTurn {
    #[prost(sint64, tag = "1")]
    pub(super) waits_until: i64,
    #[prost(sint64, tag = "2")]
    pub(super) owed: i64,
    #[prost(sint64, tag = "3")]
    pub(super) over: i64,
    /// Nanoseconds of service.
    #[prost(int64, tag = "4")]
    pub(super) clock: i64,
}

/// What the lanes of one class in a group have had, in nanoseconds of service.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CrewTurn {
    #[prost(int64, tag = "1")]
    pub(super) turn: i64,
    #[prost(int64, tag = "2")]
    pub(super) clock: i64,
    #[prost(message, repeated, tag = "3")]
    pub(super) lanes: Vec<LaneTurn>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct LaneTurn {
    #[prost(fixed64, tag = "1")]
    pub(super) lane: u64,
    #[prost(int64, tag = "2")]
    pub(super) turn: i64,
    #[prost(int64, tag = "3")]
    pub(super) at: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Plan {
    /// One of the `OWNER_` numbers.
    #[prost(uint32, tag = "1")]
    pub(super) owner_kind: u32,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) owner: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) name: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    pub(super) meter: Bytes,
    #[prost(uint64, optional, tag = "5")]
    pub(super) limit: Option<u64>,
    #[prost(sint64, optional, tag = "6")]
    pub(super) per: Option<i64>,
    #[prost(uint64, optional, tag = "7")]
    pub(super) capacity: Option<u64>,
    #[prost(uint64, optional, tag = "8")]
    pub(super) burst: Option<u64>,
    /// One of the `REFILL_` numbers.
    #[prost(uint32, tag = "9")]
    pub(super) refill: u32,
    /// One of the `START_` numbers.
    #[prost(uint32, tag = "10")]
    pub(super) start: u32,
    #[prost(bool, tag = "11")]
    pub(super) learn_above: bool,
    /// Which part of the limit is ours, in millionths: at most (absent: all of it), and at least.
    #[prost(uint32, optional, tag = "40")]
    pub(super) our_most: Option<u32>,
    #[prost(uint32, tag = "41")]
    pub(super) our_least: u32,
    /// One of the `CALENDAR_` numbers.
    #[prost(uint32, tag = "60")]
    pub(super) calendar: u32,
    /// The IANA name of the calendar's zone.
    #[prost(bytes = "bytes", tag = "61")]
    pub(super) zone: Bytes,
}

pub(super) const CALENDAR_NONE: u32 = 0;
pub(super) const CALENDAR_DAY: u32 = 1;
pub(super) const CALENDAR_WEEK: u32 = 2;
pub(super) const CALENDAR_MONTH: u32 = 3;

pub(super) const OWNER_GROUP: u32 = 1;
pub(super) const OWNER_SHARED: u32 = 2;
pub(super) const OWNER_ACCOUNT: u32 = 3;

pub(super) const REFILL_UNKNOWN: u32 = 0;
pub(super) const REFILL_CONTINUOUS: u32 = 1;
pub(super) const REFILL_WINDOW: u32 = 2;
pub(super) const REFILL_HELD: u32 = 3;

pub(super) const START_CAUTIOUS: u32 = 0;
pub(super) const START_FULL: u32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Learned {
    #[prost(uint64, optional, tag = "1")]
    pub(super) limit: Option<u64>,
    #[prost(sint64, optional, tag = "2")]
    pub(super) per: Option<i64>,
    #[prost(bool, optional, tag = "3")]
    pub(super) windowed: Option<bool>,
    #[prost(uint64, tag = "4")]
    pub(super) candidate: u64,
    #[prost(uint32, tag = "5")]
    pub(super) agreeing: u32,
    #[prost(sint64, tag = "6")]
    pub(super) candidate_mark: i64,
    #[prost(uint64, optional, tag = "7")]
    pub(super) brim: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub(super) anchor: Option<Anchor>,
    #[prost(bool, tag = "40")]
    pub(super) ends_move: bool,
    #[prost(message, optional, tag = "41")]
    pub(super) named_end: Option<NamedEnd>,
    #[prost(bool, tag = "42")]
    pub(super) ends_stand: bool,
    #[prost(message, optional, tag = "43")]
    pub(super) backing: Option<Backing>,
    #[prost(sint64, optional, tag = "44")]
    pub(super) far_mark: Option<i64>,
}

/// What speaks for a learned value.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Backing {
    #[prost(sint64, tag = "1")]
    pub(super) at: i64,
    #[prost(uint32, tag = "2")]
    pub(super) reports: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct NamedEnd {
    #[prost(sint64, tag = "1")]
    pub(super) mark: i64,
    #[prost(uint64, tag = "2")]
    pub(super) remaining: u64,
    #[prost(sint64, tag = "3")]
    pub(super) reset_in: i64,
    #[prost(sint64, tag = "4")]
    pub(super) earliest: i64,
    #[prost(sint64, tag = "5")]
    pub(super) latest: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Trail {
    #[prost(sint64, tag = "1")]
    pub(super) at: i64,
    #[prost(sint64, tag = "2")]
    pub(super) fired: i64,
    #[prost(sint64, tag = "3")]
    pub(super) before: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Drain {
    #[prost(sint64, tag = "1")]
    pub(super) per_minute: i64,
    #[prost(message, optional, tag = "2")]
    pub(super) base: Option<DrainBase>,
    #[prost(message, optional, tag = "40")]
    pub(super) backing: Option<Backing>,
    #[prost(sint64, tag = "41")]
    pub(super) last: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct DrainBase {
    #[prost(sint64, tag = "1")]
    pub(super) mark: i64,
    #[prost(sint64, tag = "2")]
    pub(super) remaining: i64,
    #[prost(sint64, tag = "3")]
    pub(super) at: i64,
    #[prost(sint64, tag = "4")]
    pub(super) took: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Ceiling {
    #[prost(sint64, tag = "1")]
    pub(super) allowed: i64,
    #[prost(sint64, tag = "2")]
    pub(super) measured: i64,
    #[prost(sint64, tag = "3")]
    pub(super) anchor_at: i64,
    #[prost(sint64, tag = "4")]
    pub(super) anchor_mark: i64,
    #[prost(sint64, tag = "5")]
    pub(super) refused: i64,
    #[prost(sint64, tag = "6")]
    pub(super) cut_mark: i64,
    #[prost(sint64, tag = "7")]
    pub(super) began_at: i64,
    #[prost(sint64, tag = "8")]
    pub(super) began_fired: i64,
    #[prost(sint64, tag = "9")]
    pub(super) hold_until: i64,
    #[prost(sint64, tag = "10")]
    pub(super) hold: i64,
    #[prost(bool, tag = "11")]
    pub(super) is_silent: bool,
    #[prost(uint32, tag = "12")]
    pub(super) climbs: u32,
    #[prost(sint64, tag = "13")]
    pub(super) stretch_at: i64,
    #[prost(sint64, tag = "14")]
    pub(super) stretch_passed: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Breaker {
    #[prost(uint32, tag = "1")]
    pub(super) failures: u32,
    #[prost(uint32, tag = "2")]
    pub(super) leases: u32,
    #[prost(uint64, tag = "3")]
    pub(super) last_mark: u64,
    #[prost(sint64, tag = "4")]
    pub(super) opened_at: i64,
    #[prost(sint64, tag = "5")]
    pub(super) gap: i64,
    #[prost(sint64, tag = "6")]
    pub(super) probing_until: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Anchor {
    #[prost(uint64, tag = "1")]
    pub(super) remaining: u64,
    #[prost(sint64, tag = "2")]
    pub(super) until_full: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Calm {
    #[prost(sint64, tag = "1")]
    pub(super) until: i64,
    #[prost(sint64, tag = "2")]
    pub(super) length: i64,
    #[prost(sint64, tag = "3")]
    pub(super) mark: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Level {
    #[prost(sint64, tag = "1")]
    pub(super) amount: i64,
    #[prost(sint64, tag = "2")]
    pub(super) as_of: i64,
    #[prost(sint64, tag = "3")]
    pub(super) carry: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Observed {
    #[prost(sint64, tag = "1")]
    pub(super) mark: i64,
    #[prost(sint64, tag = "2")]
    pub(super) remaining: i64,
    #[prost(sint64, tag = "3")]
    pub(super) at: i64,
    #[prost(uint32, tag = "40")]
    pub(super) reports: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Floor {
    #[prost(sint64, tag = "1")]
    pub(super) until: i64,
    #[prost(sint64, tag = "2")]
    pub(super) since: i64,
    /// The number of a `paceline_core::signal::Source`.
    #[prost(uint32, tag = "3")]
    pub(super) source: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Slot {
    #[prost(sint64, tag = "1")]
    pub(super) ends: i64,
    #[prost(sint64, tag = "2")]
    pub(super) amount: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Group {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bool, tag = "2")]
    pub(super) is_each: bool,
    #[prost(message, optional, tag = "3")]
    pub(super) floor: Option<Floor>,
    #[prost(uint64, tag = "4")]
    pub(super) granted: u64,
    #[prost(uint32, tag = "5")]
    pub(super) refusals: u32,
    #[prost(uint64, tag = "6")]
    pub(super) cut_mark: u64,
    #[prost(message, repeated, tag = "7")]
    pub(super) flights: Vec<Slot>,
    #[prost(sint64, tag = "8")]
    pub(super) ramp: i64,
    #[prost(uint64, tag = "9")]
    pub(super) ramp_cut_mark: u64,
    #[prost(bool, tag = "10")]
    pub(super) ramp_met_refusal: bool,
    #[prost(bool, tag = "11")]
    pub(super) is_starting: bool,
    #[prost(message, optional, tag = "40")]
    pub(super) breaker: Option<Breaker>,
    #[prost(message, optional, tag = "80")]
    pub(super) tally: Option<StoredTally>,
    #[prost(message, optional, tag = "82")]
    pub(super) exhausted: Option<StoredExhausted>,
    #[prost(message, optional, tag = "50")]
    pub(super) interactive: Option<CrewTurn>,
    #[prost(message, optional, tag = "51")]
    pub(super) normal: Option<CrewTurn>,
    #[prost(message, optional, tag = "52")]
    pub(super) batch: Option<CrewTurn>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Refusal {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) group: Bytes,
    #[prost(sint64, tag = "2")]
    pub(super) at: i64,
}
