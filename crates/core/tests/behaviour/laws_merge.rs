//! Laws of putting a lost value together again: whatever two replicas remember, the merged value lets nothing through that one
//! of them would hold up, and it does not matter who adds what, how often, or in which order.

use paceline_core::bucket::BucketState;
use paceline_core::floor::Floor;
use paceline_core::merge::{begin_again, merge};
use paceline_core::pacing::guard;
use paceline_core::units::{FleetTime, Milli, Span};
use paceline_core::value::{GroupState, ScopeValue};
use proptest::prelude::*;

use crate::support::script::{Kind, Script, scripts};
use crate::support::world::World;

/// Two values of the same limits, and the later of their times: two moments of one life, or of two lives.
fn two_values() -> impl Strategy<Value = (ScopeValue, ScopeValue, FleetTime)> {
    let kind = prop_oneof![Just(Kind::Continuous), Just(Kind::Windowed)];
    kind.prop_flat_map(|kind| (scripts(kind, true), scripts(kind, true), any::<[u16; 2]>(), any::<bool>())).prop_map(
        |(one, other, moments, same_life)| {
            let other = if same_life { one.clone() } else { Script { plans: one.plans.clone(), ..other } };
            let ((a, a_at), (b, b_at)) = (moment(&one, moments[0]), moment(&other, moments[1]));
            (a, b, a_at.max(b_at))
        },
    )
}

/// The value after one of the passes of a life; some are put together again there, as after a loss.
fn moment(script: &Script, number: u16) -> (ScopeValue, FleetTime) {
    let mut passes = Vec::new();
    let mut note = |world: &World| {
        passes.push((world.value.clone(), world.now));
        Ok(())
    };
    script.live(&mut note).unwrap();
    let (mut value, at) = passes[usize::from(number) % passes.len()].clone();
    value.lineage.wrote(u32::from(number % 3));
    if number.is_multiple_of(5) {
        begin_again(&mut value, at);
    }
    (value, at)
}

/// In an order that does not depend on who came first.
fn sorted(mut value: ScopeValue) -> ScopeValue {
    value.buckets.sort_by_key(|bucket| (bucket.plan.id.label().to_string(), format!("{:?}", bucket.plan.id.owner)));
    value.groups.sort_by_key(|group| group.key.clone());
    let mut kinds = value.usage.kinds().to_vec();
    kinds.sort_by_key(|kind| (kind.model.clone(), kind.label.clone(), kind.form));
    value.usage = paceline_core::usage::UsageBook::from_kinds(kinds);
    let mut writers = value.lineage.writers().to_vec();
    writers.sort_by_key(|writer| writer.replica);
    value.lineage = paceline_core::lineage::Lineage::from_writers(writers);
    value
}

/// Equal; what is not is shown alone.
fn same(a: &ScopeValue, b: &ScopeValue) -> Result<(), TestCaseError> {
    for (a, b) in a.buckets.iter().zip(&b.buckets) {
        prop_assert_eq!(a, b);
    }
    for (a, b) in a.groups.iter().zip(&b.groups) {
        prop_assert_eq!(a, b);
    }
    prop_assert!(a == b, "beside the buckets and groups");
    Ok(())
}

fn bucket_in<'a>(value: &'a ScopeValue, like: &BucketState) -> Option<&'a BucketState> {
    value.position(&like.plan.id).map(|index| &value.buckets[index])
}

fn group_in<'a>(value: &'a ScopeValue, like: &GroupState) -> Option<&'a GroupState> {
    value.groups.iter().find(|group| group.key == like.key)
}

fn until(floor: Option<Floor>) -> FleetTime {
    floor.map_or(FleetTime::ZERO, |floor| floor.until)
}

/// Whether what is known is of a window that was over when the merged one began.
fn is_over(known: &BucketState, merged: &BucketState) -> bool {
    let begins = match merged.window_end {
        FleetTime::ZERO => merged.level.as_of,
        end => end - merged.effective().per,
    };
    known.window_end != FleetTime::ZERO && known.window_end <= begins
}

/// `held` opens no sooner than `known` does for any call, whenever one looks.
fn opens_no_sooner(held: &BucketState, known: &BucketState, now: FleetTime) -> Result<(), TestCaseError> {
    let costs = [1, 5, 150, 2_000].map(Milli::from_units);
    let times = [0, 1, 700, 5_000, 31_000, 100_000].map(|millis| now + Span::from_millis(millis));
    for (time, cost) in times.into_iter().flat_map(|time| costs.map(|cost| (time, cost))) {
        // A call larger than what may go together waits for all of that, and less of it is there sooner.
        if cost > held.proven && held.proven < known.proven {
            continue;
        }
        for waited in [false, true] {
            let (ours, theirs) = (held.opens(cost, time, waited).at, known.opens(cost, time, waited).at);
            // Their windows may begin and end at other times: then only those that both are in are compared.
            let another_phase = held.window_end != known.window_end;
            let known_is_over = known.window_end != FleetTime::ZERO && time >= known.window_end;
            if another_phase && (known_is_over || ours >= held.window_end) {
                continue;
            }
            // Spread windows know no guard after a boundary, and not that a slot is promised in one that is to come.
            let spread = if held.spreading { guard(held.effective().per) } else { Span::ZERO };
            // What a paced call leaves is counted in whole thousandths, of which a slower rate rounds off more.
            let rounded = held.rate().filter(|_| waited).map_or(Span::ZERO, |rate| rate.time_for(Milli::from_milli(1)));
            let slack = spread + rounded;
            let is_to_come = held.spreading && known.opens_at > time;
            prop_assert!(
                is_to_come || ours + slack >= theirs,
                "{cost:?} at {time:?}, waited {waited}: {ours:?}\n{held:?}\nand not\n{theirs:?}\n{known:?}"
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn adding_a_memory_twice_is_adding_it_once((a, b, _) in two_values()) {
        let merged = merge(&a, &b);
        same(&merge(&merged, &b), &merged)?;
        same(&merge(&a, &merged), &merged)?;
        same(&merge(&a, &a), &a)?;
    }

    #[test]
    fn it_does_not_matter_whose_memory_comes_first((a, b, _) in two_values()) {
        same(&sorted(merge(&a, &b)), &sorted(merge(&b, &a)))?;
    }

    #[test]
    fn nothing_gets_through_that_one_of_them_would_hold_up((a, b, now) in two_values()) {
        let merged = merge(&a, &b);
        for value in [&a, &b] {
            for known in &value.buckets {
                let both = bucket_in(&merged, known).expect("no bucket is lost");
                if !is_over(known, both) {
                    opens_no_sooner(both, known, now)?;
                }
            }
        }
    }

    #[test]
    fn what_was_counted_and_told_stays((a, b, _) in two_values()) {
        let merged = merge(&a, &b);
        prop_assert!(merged.lineage.includes(&a.lineage) && merged.lineage.includes(&b.lineage));
        for value in [&a, &b] {
            prop_assert!(until(merged.floor) >= until(value.floor));
            for known in &value.buckets {
                let both = bucket_in(&merged, known).unwrap();
                prop_assert!(both.fired >= known.fired && until(both.floor) >= until(known.floor));
            }
            for known in &value.groups {
                let both = group_in(&merged, known).unwrap();
                prop_assert!(both.granted >= known.granted && until(both.floor) >= until(known.floor));
            }
        }
    }

    #[test]
    fn beginning_again_only_holds_up((a, b, now) in two_values()) {
        for value in [a.clone(), merge(&a, &b)] {
            let mut begun = value.clone();
            begin_again(&mut begun, now);
            for known in &value.buckets {
                let state = bucket_in(&begun, known).unwrap();
                opens_no_sooner(state, known, now)?;
                let Some(rate) = state.rate().filter(|_| known.started) else { continue };
                let most = rate.gained_in(Span::from_secs(1)).max(Milli::from_units(1)).max(state.typical);
                prop_assert!(state.level_at(now).unwrap() <= most, "{state:?}");
            }
            let once = begun.clone();
            begin_again(&mut begun, now);
            same(&begun, &once)?;
        }
    }
}
