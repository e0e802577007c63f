//! What a refusal's figures say about the buckets of its call: which of ours is empty, which is short, which has room.

use crate::bucket::BucketState;
use crate::learn;
use crate::lease::Lease;
use crate::plan::Owner;
use crate::report::Answered;
use crate::signal::{ObservedBucket, ObservedOwner};
use crate::units::Milli;
use crate::value::{Binding, ScopeValue};

/// Which of our buckets an observed one is about: of the same meter and owner, and not the namesake of another observed one.
pub(crate) fn matching(
    value: &ScopeValue,
    binding: &Binding,
    observed: &ObservedBucket,
    all: &[ObservedBucket],
) -> Option<usize> {
    let candidates = || {
        binding.buckets.iter().copied().filter(|index| {
            value.buckets.get(*index).is_some_and(|bucket| {
                let account = matches!(bucket.plan.id.owner, Owner::Account);
                let name = &*bucket.plan.id.name;
                *bucket.plan.meter == *observed.meter
                    && account == (observed.owner == ObservedOwner::Account)
                    && (name == observed.name || !all.iter().any(|other| other.name == name && other.owner == observed.owner))
            })
        })
    };
    let exact = candidates().find(|index| {
        value.buckets.get(*index).is_some_and(|bucket| {
            observed.window.is_none()
                && observed.limit.is_some()
                && bucket.effective().limit == observed.limit
                && learn::fits(bucket, observed)
        })
    });
    exact.or_else(|| candidates().find(|index| value.buckets.get(*index).is_some_and(|bucket| learn::fits(bucket, observed))))
}

/// What the answer shows.
pub(crate) enum Evidence<'a> {
    /// These buckets are empty.
    Empty(Vec<(usize, &'a ObservedBucket)>),
    /// A bucket holds less than the call costs.
    Short,
    /// Every bucket of the call was named, and has room for it.
    Room,
    /// Not every bucket of the call was named, and those that were have room.
    RoomWhereTold,
    /// It names none.
    Unknown,
}

impl Evidence<'_> {
    /// Whether a bucket that the answer is silent about may be the one that is empty.
    pub(crate) const fn leaves_open(&self) -> bool {
        matches!(self, Self::RoomWhereTold | Self::Unknown)
    }

    /// Whether there was room as far as the answer tells, and still the call was refused: the buckets count over a shorter time
    /// than they say.
    pub(crate) const fn contradicts_level(&self) -> bool {
        matches!(self, Self::Room | Self::RoomWhereTold)
    }
}

/// Reads it out of the answer's buckets.
pub(crate) fn evidence<'a>(value: &ScopeValue, answered: &Answered<'a>) -> Evidence<'a> {
    let (binding, lease, signal) = (answered.binding, answered.lease, answered.signal);
    let mut empty = Vec::new();
    let mut named = 0;
    let mut short = false;
    for observed in &signal.buckets {
        let (Some(index), Some(remaining)) = (matching(value, binding, observed, &signal.buckets), observed.remaining) else {
            continue;
        };
        named += 1;
        let cost = value.buckets.get(index).and_then(|bucket| charge_of(lease, bucket)).map_or(1, |cost| cost.as_units_floor());
        if remaining == 0 {
            empty.push((index, observed));
        }
        short |= remaining < cost;
    }
    let rated =
        binding.buckets.iter().filter(|index| value.buckets.get(**index).is_some_and(|bucket| !bucket.is_held())).count();
    match (empty.is_empty(), short, named >= rated && rated > 0) {
        (false, _, _) => Evidence::Empty(empty),
        (true, true, _) => Evidence::Short,
        (true, false, true) => Evidence::Room,
        _ if named > 0 => Evidence::RoomWhereTold,
        _ => Evidence::Unknown,
    }
}

/// What the lease took from a bucket.
pub(crate) fn charge_of(lease: &Lease, bucket: &BucketState) -> Option<Milli> {
    lease.charges.iter().find(|charge| charge.bucket == bucket.plan.id).map(|charge| charge.amount)
}
