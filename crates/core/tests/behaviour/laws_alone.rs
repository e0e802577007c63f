//! Laws of deciding without the store: all parts together are no more than the whole, and what comes back is never more than
//! what the store knows.

use paceline_core::alone::Alone;
use paceline_core::bucket::BucketState;
use paceline_core::floor::{self, Floor};
use paceline_core::signal::Source;
use paceline_core::units::{FleetTime, Milli, Span};
use paceline_core::value::ScopeValue;
use proptest::prelude::*;

use crate::support::script::{Kind, Script, scripts};
use crate::support::world::World;

const OTHER: u32 = 99;

/// A value of some life, and when.
fn values() -> impl Strategy<Value = (ScopeValue, FleetTime)> {
    let kind = prop_oneof![Just(Kind::Continuous), Just(Kind::Windowed)];
    kind.prop_flat_map(|kind| (scripts(kind, true), any::<u16>())).prop_map(|(script, number)| moment(&script, number))
}

fn moment(script: &Script, number: u16) -> (ScopeValue, FleetTime) {
    let mut passes = Vec::new();
    let mut note = |world: &World| {
        passes.push((world.value.clone(), world.now));
        Ok(())
    };
    script.live(&mut note).unwrap();
    let (mut value, at) = passes[usize::from(number) % passes.len()].clone();
    value.lineage.wrote(1);
    (value, at)
}

fn levels<'a>(
    of: &'a ScopeValue,
    and: &'a ScopeValue,
    now: FleetTime,
) -> impl Iterator<Item = (&'a BucketState, &'a BucketState, Milli, Milli)> {
    of.buckets.iter().filter_map(move |bucket| {
        let other = and.buckets.iter().find(|other| other.plan.id == bucket.plan.id)?;
        Some((bucket, other, bucket.level_at(now)?, other.level_at(now)?))
    })
}

proptest! {
    /// The parts of all replicas together are no more than there is, but for the one unit that each has at least.
    #[test]
    fn parts_are_no_more_than_the_whole((value, now) in values(), among in 2_u32..9) {
        let mut part = value.clone();
        Alone::begin(&mut part, value.clone(), among, now);
        let many = i64::from(among);
        for (ours, all, level, whole) in levels(&part, &value, now) {
            let least = Milli::from_units(1).as_milli() * many;
            // Each is told in whole thousandths, of a level that has parts of one.
            let most = whole.as_milli().max(0).max(least) + many;
            prop_assert!(level.as_milli() * many <= most, "{level:?} of {whole:?}");
            if let (Some(ours), Some(all)) = (ours.rate(), all.rate()) {
                prop_assert!(ours.limit.as_milli() * many <= all.limit.as_milli().max(many));
            }
        }
    }

    /// Nobody wrote meanwhile: no level is above what the store knows, floors and calls in flight are as they were, and the limit
    /// is whole again.
    #[test]
    fn what_comes_back_is_no_full_bucket((value, now) in values(), among in 1_u32..9, away in 1_i64..600) {
        let mut local = value.clone();
        let alone = Alone::begin(&mut local, value.clone(), among, now);
        let back = now + Span::from_secs(away);
        let ended = alone.end(&value, now, &local, back);
        for (bucket, stored, level, known) in levels(&ended, &value, back) {
            if bucket.spreading && stored.window_end > back {
                let used = |state: &BucketState| state.fired - state.fired_at_turn;
                prop_assert!(used(bucket) >= used(stored), "what is gone of a window is gone");
            } else {
                prop_assert!(level <= known, "{level:?}, the store knows {known:?}");
            }
            prop_assert_eq!(bucket.plan.ours, stored.plan.ours);
            prop_assert_eq!(&bucket.holds, &stored.holds);
            if among > 1 && let Some(rate) = bucket.rate() {
                // Windows are spread until their end; their level may be what is left of them.
                let cautious = rate.gained_in(Span::from_secs(1)).max(Milli::from_units(1)).max(bucket.typical);
                prop_assert!(level <= cautious.max(Milli::from_units(1)) || bucket.spreading, "{level:?} {rate:?}");
            }
        }
        for (group, stored) in ended.groups.iter().zip(&value.groups) {
            prop_assert_eq!(&group.flights, &stored.flights);
        }
    }

    /// Others went on: the store is right but for what was granted here, and what was heard here counts too.
    #[test]
    fn a_replica_that_was_cut_off_owes_what_it_granted((value, now) in values(), granted in 0_u64..500) {
        let mut local = value.clone();
        let alone = Alone::begin(&mut local, value.clone(), 3, now);
        let back = now + Span::from_secs(30);
        for bucket in &mut local.buckets {
            bucket.fired = bucket.fired.saturating_add(Milli::from_units(granted).as_milli());
        }
        let told = Floor::new(back, Span::from_secs(60), Source::RetryAfterSeconds);
        floor::raise(&mut local.floor, told);
        let mut stored = value.clone();
        stored.lineage.wrote(OTHER);
        let ended = alone.end(&stored, back - Span::from_secs(1), &local, back);
        prop_assert!(ended.floor.is_some_and(|floor| floor.until >= told.until));
        for (bucket, theirs, level, known) in levels(&ended, &stored, back) {
            // Of a window that is over nobody owes anything.
            if bucket.is_held() || (theirs.window_end != FleetTime::ZERO && theirs.window_end <= back) {
                continue;
            }
            let Some(rate) = theirs.rate() else { continue };
            let owed = known - Milli::from_units(granted);
            let most = owed.max(Milli::ZERO - rate.capacity).max(Milli::from_milli(-rate.capacity.as_milli()));
            prop_assert!(level <= most.max(owed), "{level:?}, {known:?} less {granted}");
            prop_assert!(level >= owed.min(Milli::ZERO - rate.capacity), "{level:?}, {known:?} less {granted}");
            prop_assert_eq!(bucket.fired, theirs.fired.saturating_add(Milli::from_units(granted).as_milli()));
        }
    }
}
