//! What a group knows of its calls: how many were retries, and whether billing refuses them.

use paceline_core::exhausted::{Exhausted, LONGEST_INTERVAL};
use paceline_core::tally::{Counts, Tally};
use paceline_core::units::{FleetTime, Span};
use prost::Message;

use super::bounds::{Checks, MOST_COUNTED};

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct StoredTally {
    #[prost(sint64, tag = "1")]
    since: i64,
    #[prost(message, optional, tag = "2")]
    current: Option<StoredCounts>,
    #[prost(message, optional, tag = "3")]
    before: Option<StoredCounts>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct StoredCounts {
    #[prost(uint64, tag = "1")]
    firsts: u64,
    #[prost(uint64, tag = "2")]
    retries: u64,
    #[prost(uint64, tag = "3")]
    fallbacks: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct StoredExhausted {
    #[prost(sint64, tag = "1")]
    since: i64,
    #[prost(sint64, tag = "2")]
    until: i64,
    #[prost(sint64, tag = "3")]
    interval: i64,
}

pub(super) fn write_tally(tally: &Tally) -> Option<StoredTally> {
    let Tally { since, current, before } = *tally;
    let counts = |counts: Counts| {
        let Counts { firsts, retries, fallbacks } = counts;
        (counts != Counts::default()).then_some(StoredCounts { firsts, retries, fallbacks })
    };
    (*tally != Tally::default()).then(|| StoredTally {
        since: since.as_micros(),
        current: counts(current),
        before: counts(before),
    })
}

/// A minute that begins in the future would never end: it begins now.
pub(super) fn read_tally(stored: Option<StoredTally>, now: FleetTime, checks: &mut Checks) -> Tally {
    let Some(stored) = stored else { return Tally::default() };
    let mut counts = |stored: Option<StoredCounts>| {
        let stored = stored.unwrap_or_default();
        Counts {
            firsts: checks.count(stored.firsts, MOST_COUNTED),
            retries: checks.count(stored.retries, MOST_COUNTED),
            fallbacks: checks.count(stored.fallbacks, MOST_COUNTED),
        }
    };
    let (current, before) = (counts(stored.current), counts(stored.before));
    Tally { since: checks.instant(stored.since).min(now), current, before }
}

pub(super) fn write_exhausted(exhausted: &Exhausted) -> StoredExhausted {
    let Exhausted { since, until, interval } = *exhausted;
    StoredExhausted { since: since.as_micros(), until: until.as_micros(), interval: interval.as_micros() }
}

/// Damage ends it: the next refusal says so again.
pub(super) fn read_exhausted(stored: Option<StoredExhausted>, checks: &mut Checks) -> Option<Exhausted> {
    let stored = stored?;
    let before = checks.found;
    let (since, until) = (checks.instant(stored.since), checks.instant(stored.until));
    let longest = Span::from_micros(stored.interval) <= LONGEST_INTERVAL;
    let interval = checks.length(stored.interval).filter(|_| checks.require(longest)).unwrap_or_default();
    (checks.found == before).then_some(Exhausted { since, until, interval })
}
