//! The laws that hold in every life of a scope, by id (docs/ARCHITECTURE.md): random limits, costs, bursts, classes, groups that
//! share a bucket, arrivals, releases, settlements and refusals, in virtual time.

use std::collections::BTreeMap;

use paceline_core::bucket::BucketState;
use paceline_core::delays;
use paceline_core::lease::Serial;
use paceline_core::plan::{Class, StartLevel};
use paceline_core::units::{FleetTime, Span};
use proptest::prelude::*;

use crate::support::provider::Meter;
use crate::support::script::{Checked, Kind, Life, scripts};
use crate::support::world::World;

/// What one bucket went through, in the order in which it counts.
enum Event {
    Sent(u64),
    /// How much, and when the last slot is sent that was firm by then.
    GivenBack(i64, FleetTime),
}

/// Sends and settlements of one bucket: by time, then in the order of decision.
fn events_of(life: &Life, bucket: &BucketState, of_burst: bool) -> Vec<(FleetTime, usize, Event)> {
    let sent = life.world.granted.iter().enumerate().flat_map(|(index, granted)| {
        let charges = granted.slot.charges.iter().filter(|charge| charge.bucket == bucket.plan.id);
        charges.map(move |charge| (granted.slot.send_at, 2 * index + 1, Event::Sent(charge.amount.as_milli() as u64)))
    });
    let given_back = life.given_back.iter().filter(|given_back| given_back.bucket == bucket.plan.id);
    let given_back = given_back.map(|it| {
        (it.at, 2 * it.after_grants, Event::GivenBack(if of_burst { it.to_burst } else { it.amount }, it.firm_until))
    });
    let mut events: Vec<_> = sent.chain(given_back).collect();
    events.sort_by_key(|(at, order, _)| (*at, *order));
    events
}

/// An exact bucket in thousandths, as full at the first look as we believe: one second of refill or the first call, or all.
fn exact(life: &Life, bucket: &BucketState, capacity: u64) -> Meter {
    let limit = bucket.plan.limit.unwrap() * 1_000;
    let per = bucket.plan.per.unwrap();
    let first = life.asked.iter().find(|ask| ask.plan.buckets.iter().any(|plan| plan.id == bucket.plan.id));
    let first = first.expect("somebody asked");
    let cost = first.cost.of(&bucket.plan.meter).unwrap() * 1_000;
    let second = limit * 1_000_000 / u64::try_from(per.as_micros()).unwrap();
    let whole = bucket.plan.capacity.or(bucket.plan.limit).unwrap() * 1_000;
    let level = match bucket.plan.start {
        StartLevel::Full => whole,
        StartLevel::Cautious => second.max(cost).min(whole),
    };
    Meter::bucket("exact", limit, per, capacity, i128::from(level.min(capacity)), first.asked_at)
}

/// Before each send there is room for it in a bucket of this capacity, or the bucket is whole. One thing may lie in between: what comes back to a bucket that brims over before the slots that
/// are firm have been sent is lost at the provider, and counted here, because here they have made room for it already.
fn never_overdrawn(life: &Life, bucket: &BucketState, capacity: u64, is_burst: bool) -> Checked {
    let mut exact = exact(life, bucket, capacity);
    let mut slack = 0.0;
    let mut overruns = Vec::new();
    for (at, order, event) in events_of(life, bucket, is_burst) {
        match event {
            Event::GivenBack(change, firm_until) if change >= 0 => {
                let refilled = exact.limit as f64 * (firm_until.since(at).as_secs_f64() / exact.per.as_secs_f64());
                let spilled = exact.units_left(at) + slack + change as f64 + refilled - capacity as f64;
                slack += spilled.max(0.0).min(firm_at(life, bucket, order / 2, at) as f64);
                exact.give(at, change as u64);
            }
            Event::GivenBack(change, _) => {
                exact.take(at, change.unsigned_abs());
                overruns.push((order, change.unsigned_abs() as f64));
            }
            Event::Sent(cost) => {
                let left = exact.units_left(at);
                let needed = cost.min(capacity) as f64;
                // A slot that was firm by then knew nothing of an overrun.
                let later: f64 = overruns.iter().filter(|(then, _)| *then > order).map(|(_, units)| units).sum();
                prop_assert!(
                    left > needed - 1.0 - slack - later,
                    "{left} thousandths left for {needed} at {at:?}: {:?}",
                    bucket.plan
                );
                exact.take(at, cost);
            }
        }
    }
    Ok(())
}

/// What the first `decided` grants are still to send after `at`, in thousandths.
fn firm_at(life: &Life, bucket: &BucketState, decided: usize, at: FleetTime) -> i64 {
    let firm = life.world.granted[..decided].iter().filter(|granted| granted.slot.send_at > at);
    let charges = firm.flat_map(|granted| granted.slot.charges.iter().filter(|charge| charge.bucket == bucket.plan.id));
    charges.map(|charge| charge.amount.as_milli()).sum()
}

/// Per window of our own phase: at most the limit, sent within it, and windows do not overlap.
fn never_over_window(life: &Life, bucket: &BucketState) -> Checked {
    let per = bucket.plan.per.unwrap();
    let mut windows: BTreeMap<FleetTime, i64> = BTreeMap::new();
    for granted in &life.world.granted {
        for charge in granted.slot.charges.iter().filter(|charge| charge.bucket == bucket.plan.id) {
            let (send, end) = (granted.slot.send_at, charge.window_end);
            prop_assert!(send < end, "sent at {send:?}, charged to the window that ends {end:?}");
            let before = windows.range(..end).next_back().map(|(end, _)| *end);
            prop_assert!(before.is_none_or(|before| before <= send), "sent at {send:?}, before its window");
            *windows.entry(end).or_default() += charge.amount.as_milli();
        }
    }
    let ends: Vec<FleetTime> = windows.keys().copied().collect();
    prop_assert!(ends.windows(2).all(|pair| pair[1] - pair[0] >= per), "windows overlap: {ends:?}");
    // What came back within a window may be granted again in it.
    for given_back in life.given_back.iter().filter(|given_back| given_back.bucket == bucket.plan.id) {
        if let Some(sum) = windows.get_mut(&given_back.window_end) {
            *sum -= given_back.amount.max(0);
        }
    }
    let limit = bucket.plan.limit.unwrap() as i64 * 1_000;
    for (end, sum) in windows {
        prop_assert!(sum <= limit, "{:?}: {sum} thousandths in the window that ends {end:?}", bucket.plan);
    }
    Ok(())
}

/// At each send at most the limit is in flight, those included that were given back or ended later.
fn never_over_concurrency(life: &Life) -> Checked {
    let held: Vec<_> = life.world.value.buckets.iter().filter(|bucket| bucket.is_held()).collect();
    for (bucket, granted) in held.iter().flat_map(|bucket| life.world.granted.iter().map(move |granted| (bucket, granted))) {
        let at = granted.slot.send_at;
        let in_flight = life.world.granted.iter().filter(|other| {
            let ended = life.ended.get(&other.ask.id).copied().unwrap_or(other.slot.hold_until).min(other.slot.hold_until);
            other.slot.charges.iter().any(|charge| charge.bucket == bucket.plan.id) && other.slot.send_at <= at && ended > at
        });
        prop_assert!(in_flight.count() as u64 <= bucket.plan.limit.unwrap(), "too many in flight at {at:?}");
    }
    Ok(())
}

/// I-7 and I-8, after each pass.
struct Orderly {
    granted: usize,
    denied: usize,
}

impl Orderly {
    fn check(&mut self, world: &World) -> Checked {
        let mut last: BTreeMap<(Class, &str), Serial> = BTreeMap::new();
        for granted in &world.granted[self.granted..] {
            let waited = granted.slot.send_at - granted.ask.asked_at;
            prop_assert_eq!(delays::total(&granted.slot.delays), waited, "I-7: {:?}", granted.slot.delays);
            let lane = (granted.ask.class, &*granted.ask.plan.key);
            if let Some(before) = last.insert(lane, granted.ask.stamp) {
                prop_assert!(before < granted.ask.stamp, "I-8: {before:?} was granted before {:?}", granted.ask.stamp);
            }
        }
        for denied in &world.denied[self.denied..] {
            prop_assert_eq!(delays::total(&denied.delays), denied.at - denied.ask.asked_at, "I-7: {:?}", denied.delays);
        }
        for (key, lane) in world.queue.lanes() {
            if let (Some(head), Some(last)) = (lane.head(), last.get(&(key.class, &*key.group))) {
                prop_assert!(*last < head.ask.stamp, "I-8: {last:?} was granted, and {:?} waits", head.ask.stamp);
            }
        }
        (self.granted, self.denied) = (world.granted.len(), world.denied.len());
        Ok(())
    }
}

/// How far ahead of its decision a slot may lie: the class's horizon and as much jitter; alone after a floor, 5 s of jitter.
fn furthest_slot(class: Class, after_floor: bool) -> Span {
    class.horizon() + if after_floor { Span::from_secs(5) } else { class.horizon() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// I-1, I-7, I-8 with buckets that refill evenly.
    #[test]
    fn i1_granted_never_exceeds_capacity_and_refill(script in scripts(Kind::Continuous, false)) {
        let mut orderly = Orderly { granted: 0, denied: 0 };
        let life = script.live(|world| orderly.check(world))?;
        never_over_concurrency(&life)?;
        for bucket in life.world.value.buckets.iter().filter(|bucket| !bucket.is_held()) {
            let capacity = bucket.plan.capacity.or(bucket.plan.limit).unwrap();
            never_overdrawn(&life, bucket, capacity * 1_000, false)?;
            if let Some(burst) = bucket.plan.burst.filter(|burst| *burst < capacity) {
                never_overdrawn(&life, bucket, burst * 1_000, true)?;
            }
        }
        for granted in &life.world.granted {
            prop_assert!(granted.slot.send_at - granted.at <= furthest_slot(granted.ask.class, false));
        }
    }

    /// I-1, I-7, I-8 with windows.
    #[test]
    fn i1_granted_never_exceeds_the_limit_of_a_window(script in scripts(Kind::Windowed, false)) {
        let mut orderly = Orderly { granted: 0, denied: 0 };
        let life = script.live(|world| orderly.check(world))?;
        never_over_concurrency(&life)?;
        for bucket in life.world.value.buckets.iter().filter(|bucket| !bucket.is_held()) {
            never_over_window(&life, bucket)?;
        }
    }

    /// I-2, and I-1, I-7, I-8 with refusals in between (which only ever take units away).
    #[test]
    fn i2_nothing_is_granted_before_a_committed_floor(script in scripts(Kind::Continuous, true)) {
        let mut orderly = Orderly { granted: 0, denied: 0 };
        let life = script.live(|world| orderly.check(world))?;
        for (before, group, until) in &life.floors {
            for granted in life.world.granted[*before..].iter().filter(|granted| granted.ask.plan.key == *group) {
                prop_assert!(granted.slot.send_at >= *until, "sent at {:?}, floor until {until:?}", granted.slot.send_at);
            }
        }
        for granted in &life.world.granted {
            prop_assert!(granted.slot.send_at - granted.at <= furthest_slot(granted.ask.class, true));
        }
        for bucket in life.world.value.buckets.iter().filter(|bucket| !bucket.is_held()) {
            never_overdrawn(&life, bucket, bucket.plan.capacity.or(bucket.plan.limit).unwrap() * 1_000, false)?;
        }
    }
}
