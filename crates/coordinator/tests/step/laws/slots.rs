//! Slots of a random history, and buckets kept beside that must bear them.

use std::collections::BTreeMap;

use paceline_coordinator::api::Grant;
use paceline_core::units::{FleetTime, Span};
use proptest::prelude::*;

use crate::support::START;

/// How long a call may run without a report.
pub(crate) const RUN_TIME: Span = Span::from_secs(20);
/// Limit and capacity of what the provider counts, in thousandths: requests, requests back to back, tokens.
const REQUESTS: (i64, i64) = (120_000, 120_000);
const BACK_TO_BACK: (i64, i64) = (120_000, 8_000);
const TOKENS: (i64, i64) = (6_000_000, 6_000_000);

/// Request and attempt.
pub(crate) type Key = (String, u32);

/// What a slot took and what came back of it.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) key: Key,
    pub(crate) send_at: FleetTime,
    pub(crate) tokens: u64,
    /// When it ends by itself.
    pub(crate) ends_at: FleetTime,
    pub(crate) was_reported: bool,
    pub(crate) is_over: bool,
    pub(crate) is_unsure: bool,
    /// When, how many requests, how many tokens.
    pub(crate) back: Option<Back>,
    /// The order of events.
    pub(crate) turn: usize,
}

/// What came back of a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Back {
    pub(crate) at: FleetTime,
    pub(crate) turn: usize,
    pub(crate) requests: u64,
    pub(crate) tokens: u64,
}

impl Slot {
    pub(crate) fn new(key: Key, grant: &Grant, at: FleetTime, turn: usize) -> Self {
        let send_at = at + grant.wait;
        let tokens = grant.reserved["tokens"];
        Self {
            key,
            send_at,
            tokens,
            ends_at: send_at + RUN_TIME,
            was_reported: false,
            is_over: false,
            is_unsure: false,
            back: None,
            turn,
        }
    }
}

/// I-1 and I-4: buckets kept beside, full at the start, bear everything that was taken, with what came back, once.
pub(crate) fn bear(slots: &BTreeMap<String, Slot>) -> Result<(), TestCaseError> {
    let requests = |slot: &Slot| (1, slot.back.map_or(0, |back| back.requests));
    meter(slots, "requests", REQUESTS, requests)?;
    meter(slots, "requests back to back", BACK_TO_BACK, requests)?;
    meter(slots, "tokens", TOKENS, |slot| (slot.tokens, slot.back.map_or(0, |back| back.tokens)))
}

fn meter(
    slots: &BTreeMap<String, Slot>,
    name: &str,
    (limit, capacity): (i64, i64),
    units: impl Fn(&Slot) -> (u64, u64),
) -> Result<(), TestCaseError> {
    let mut moves: Vec<(FleetTime, usize, i128)> = Vec::new();
    for slot in slots.values() {
        let (taken, back) = units(slot);
        match slot.back.filter(|found| found.at >= slot.send_at) {
            Some(found) => {
                moves.push((slot.send_at, slot.turn, -i128::from(taken)));
                moves.push((found.at, found.turn, i128::from(back)));
            }
            // What comes back before it was to be sent was never taken.
            None => moves.push((slot.send_at, slot.turn, i128::from(back) - i128::from(taken))),
        }
    }
    moves.sort_unstable();
    // In thousandths of a unit times microseconds of the minute, so that nothing is rounded.
    let minute = 60_000_000_i128;
    let full = i128::from(capacity) * minute;
    let (mut level, mut at) = (full, START);
    for (then, _, units) in moves {
        level = (level + i128::from((then - at).as_micros()) * i128::from(limit)).min(full);
        level = (level + units * 1_000 * minute).min(full);
        at = then;
        prop_assert!(level >= -minute, "{name} are overdrawn by {} at {:?}", -level / minute, then - START);
    }
    Ok(())
}
