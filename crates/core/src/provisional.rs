//! Long waits that one call alone has heard of, and waits that a later success contradicts.
//!
//! A provider that says "in a day" to one call may mean that call, that key, or nothing at all (a proxy's default, a clock that
//! is wrong). Believing it for everybody would stop a fleet for a day on one line of text; ignoring it would break the word of
//! the provider. So a wait of more than an hour that came on one lease ends after an hour for one call, the *probe*: when that
//! is told the same, everybody waits for the whole of it; when it goes through, the wait is over.

use std::sync::Arc;

use crate::floor::Floor;
use crate::lease::Lease;
use crate::plan::BucketId;
use crate::report::Answered;
use crate::units::{FleetTime, LONGEST_FLOOR, Span};
use crate::value::{Binding, ScopeValue};

/// Up to here a wait is believed from a single call; longer ones are tried this often until a second call confirms them.
pub const BELIEVED_AT_ONCE: Span = Span::from_secs(3_600);
/// The most that are kept; the ones that end first are forgotten first, and count as confirmed.
pub const MOST_PROVISIONAL: usize = 64;

/// What a floor is under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The whole account.
    Account,
    /// One group.
    Group(Arc<str>),
    /// One bucket.
    Bucket(BucketId),
}

/// A floor that is shorter than the provider said, because one call alone has heard of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provisional {
    /// What it is under.
    pub place: Place,
    /// Until when the provider said.
    pub told: FleetTime,
    /// The mark of the lease that was told.
    pub mark: u64,
}

/// Looks at the floors that a refusal has just set: long ones that nobody else has heard of are shortened to the next probe, and
/// those that another lease has heard of before are left as they are. A probe that is told a short wait ends a long one.
pub(crate) fn review(value: &mut ScopeValue, answered: &Answered<'_>) {
    let Answered { binding, lease, signal, answered_at, now } = *answered;
    let told_now = signal.retry_after.map(|told| answered_at + told.min(LONGEST_FLOOR));
    value.provisional.retain(|known| known.told > now);
    for place in places(value, binding) {
        let heard_by = value.provisional.iter().find(|known| known.place == place).map(|known| known.mark);
        let has_room = heard_by.is_some() || value.provisional.len() < MOST_PROVISIONAL;
        let Some(floor) = floor_at(value, &place) else { continue };
        if is_long(floor, now) {
            let told = floor.until;
            let is_confirmed = heard_by.is_some_and(|mark| mark != lease.group_mark);
            if !is_confirmed && has_room {
                floor.until = now + BELIEVED_AT_ONCE;
            }
            value.provisional.retain(|known| known.place != place);
            if !is_confirmed && has_room {
                value.provisional.push(Provisional { place, told, mark: lease.group_mark });
            }
        } else if let Some(until) = told_now.filter(|until| heard_by.is_some() && *until < floor.until)
            && floor.since < lease.granted_at
        {
            *floor = Floor { until, since: now, source: signal.source };
            value.provisional.retain(|known| known.place != place);
        }
    }
}

/// A call is sent at `send_at`: where that is a probe, everybody else waits for another hour.
pub(crate) fn probe(value: &mut ScopeValue, binding: &Binding, send_at: FleetTime) {
    if value.provisional.is_empty() {
        return;
    }
    for place in places(value, binding) {
        let Some(told) = value.provisional.iter().find(|known| known.place == place).map(|known| known.told) else { continue };
        if let Some(floor) = floor_at(value, &place).filter(|floor| floor.until <= send_at && told > send_at) {
            floor.until = told.min(send_at + BELIEVED_AT_ONCE);
        }
    }
}

/// A call of `lease` went through. Every floor it was under that had been set before it was granted is contradicted: what the
/// provider said then was meant for the refused call alone. A slot at the floor's end, firm a moment before, was not under it.
/// Returns how many floors ended.
pub(crate) fn contradict(value: &mut ScopeValue, binding: &Binding, lease: &Lease, now: FleetTime) -> u32 {
    let mut ended = 0;
    for place in places(value, binding) {
        if floor_at(value, &place)
            .is_some_and(|floor| floor.since < lease.granted_at && lease.send_at < floor.until && floor.holds_at(now))
        {
            if let Some(slot) = slot_at(value, &place) {
                *slot = None;
            }
            value.provisional.retain(|known| known.place != place);
            ended += 1;
        }
    }
    ended
}

/// Set just now, by the provider's word, for longer than is believed at once.
fn is_long(floor: &Floor, now: FleetTime) -> bool {
    floor.since == now && floor.source.is_providers_word() && floor.until.since(now) > BELIEVED_AT_ONCE
}

fn places(value: &ScopeValue, binding: &Binding) -> Vec<Place> {
    let group = value.groups.get(binding.group).map(|group| Place::Group(group.key.clone()));
    let buckets = binding.buckets.iter().filter_map(|index| value.buckets.get(*index));
    let buckets = buckets.map(|bucket| Place::Bucket(bucket.plan.id.clone()));
    [Place::Account].into_iter().chain(group).chain(buckets).collect()
}

/// The floor under a place, if there is one.
fn floor_at<'v>(value: &'v mut ScopeValue, place: &Place) -> Option<&'v mut Floor> {
    slot_at(value, place)?.as_mut()
}

fn slot_at<'v>(value: &'v mut ScopeValue, place: &Place) -> Option<&'v mut Option<Floor>> {
    match place {
        Place::Account => Some(&mut value.floor),
        Place::Group(key) => value.groups.iter_mut().find(|group| group.key == *key).map(|group| &mut group.floor),
        Place::Bucket(id) => value.buckets.iter_mut().find(|bucket| bucket.plan.id == *id).map(|bucket| &mut bucket.floor),
    }
}
