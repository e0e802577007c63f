//! What a target takes from those that are worse off: when it is near its own limit, a tenth of its rate at most, so that the
//! trouble of one provider does not become the trouble of the next.

use crate::tally::COUNTED_OVER;
use crate::units::{FleetTime, Milli};
use crate::value::{Binding, ScopeValue};

/// A bucket with less than a fifth of its capacity left is near its limit.
const NEAR: i64 = 5;
/// A target near its limit gives a tenth of its rate.
const SHARE: i64 = 10;

/// Whether the target has room for another call that comes as a fallback; `waiting`: those that are in line already.
pub fn has_room(value: &ScopeValue, binding: &Binding, waiting: u64, now: FleetTime) -> bool {
    if !is_near_its_limit(value, binding, now) {
        return true;
    }
    let Some(group) = value.groups.get(binding.group) else { return true };
    let recent = group.tally.recent(now);
    let rate = crate::retry_budget::limit_per_minute(value, binding).unwrap_or(recent.firsts + recent.retries);
    let tenth = Milli::from_milli(rate.as_milli() / SHARE).max(Milli::from_units(1));
    recent.fallbacks + Milli::from_units(waiting.saturating_add(1)) <= tenth
}

/// Whether a bucket of the target is nearly empty: what its level will not give back within the time that is counted over.
fn is_near_its_limit(value: &ScopeValue, binding: &Binding, now: FleetTime) -> bool {
    value.rated(&binding.buckets).any(|bucket| {
        let (Some(level), Some(capacity)) = (bucket.level_at(now), bucket.capacity()) else { return false };
        // A long window is only near its end when the next minute's share is not there either.
        let soon = bucket.rate().map_or(Milli::ZERO, |rate| rate.gained_in(COUNTED_OVER)).min(capacity);
        level < Milli::from_milli(soon.as_milli() / NEAR)
    })
}
