//! I-5 and I-6: those who wait lose no more than margin and pacing, and nobody bunches after a floor.

use paceline_core::plan::{BucketPlan, Class};
use paceline_core::signal::Source;
use paceline_core::units::{FleetTime, Span};
use proptest::prelude::*;

use crate::support::plans::{continuous, group};
use crate::support::provider::Meter;
use crate::support::script::refused_for;
use crate::support::world::{START, World};

/// The time constant of the drain: 2/15 of the window, at most 8 s.
fn tau(per: Span) -> Span {
    Span::from_micros((per.as_micros() * 2 / 15).min(8_000_000))
}

/// When a call of `cost` would go if capacity were all that counts: the margin of 0.15 s of refill included.
fn ideal(exact: &mut Meter, now: FleetTime, cost: u64, capacity: u64) -> FleetTime {
    let margin = (exact.limit as f64 * 0.15 / exact.per.as_secs_f64()).ceil() as u64;
    exact.fits_at(now, (cost + margin).min(capacity))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// I-5: behind each other in one lane, each call goes at most tau and a horizon after its capacity is there; all together
    /// lose that once, not each time.
    #[test]
    fn i5_no_capacity_lies_idle_while_somebody_waits(
        limit in 1_u64..500, secs in 1_i64..120, percent in 50_u64..300, drained in 0_u64..100,
        costs in proptest::collection::vec(0_u64..1_000, 2..40), seed in any::<u64>(),
    ) {
        let per = Span::from_secs(secs);
        let capacity = (limit * percent / 100).max(1);
        let plan = group(vec![BucketPlan { capacity: Some(capacity), ..continuous("tokens", limit, per) }]);
        let mut world = World::new(seed);
        let mut exact = Meter::bucket("exact", limit * 1_000, per, capacity * 1_000, i128::from(capacity) * 1_000, START);
        let costs = std::iter::once(capacity * drained / 100).chain(costs.iter().map(|cost| cost * capacity / 1_000));
        let costs: Vec<u64> = costs.map(|cost| cost.max(1)).collect();
        for cost in &costs {
            let mut ask = world.ask(&plan);
            ask.cost.set("tokens", *cost);
            ask.wait_until = START + Span::from_secs(100_000_000);
            world.push(ask);
        }
        world.run_dry();
        prop_assert_eq!(world.granted.len(), costs.len());
        let slack = tau(per) + Class::Normal.horizon() + Class::Normal.horizon();
        let mut perfect = exact.clone();
        let (mut before, mut clock) = (START, START);
        for (granted, cost) in world.granted.iter().zip(&costs) {
            let send = granted.slot.send_at;
            let due = ideal(&mut exact, before, cost * 1_000, capacity * 1_000).max(before);
            prop_assert!(send <= due + slack, "sent {} after its capacity was there", send - due);
            before = before.max(send);
            exact.take(before, cost * 1_000);
            clock = ideal(&mut perfect, clock, cost * 1_000, capacity * 1_000);
            perfect.take(clock, cost * 1_000);
        }
        prop_assert!(before <= clock + slack + tau(per), "all together lost {}", before - clock);
        for granted in &world.granted {
            for part in &granted.slot.delays {
                prop_assert!(
                    matches!(part.cause.source, Source::Bucket | Source::Pacing | Source::Jitter),
                    "nobody else is here to wait for: {part:?}"
                );
            }
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, failure_persistence: None, ..ProptestConfig::default() })]

    /// I-6: after a floor with a thousand waiting, any stretch of k spacings holds what is paced into it, and at most one more.
    #[test]
    fn i6_nobody_bunches_after_a_floor(limit in 20_u64..2_000, wait in 1_i64..60, seed in any::<u64>(), k in 1_i64..50) {
        let per = Span::from_secs(60);
        let plan = group(vec![continuous("requests", limit, per)]);
        let mut world = World::new(seed);
        world.push_many(&plan, usize::try_from(limit).unwrap() + 1_000);
        world.decide();
        prop_assert_eq!(world.granted.len() as u64, limit, "a full bucket lets through what it holds");
        world.run_for(Span::from_millis(500));
        let (id, decided) = (*world.open.keys().next().unwrap(), world.granted.len());
        world.answer(id, &refused_for(Span::from_secs(wait)));
        let floor = world.now + Span::from_secs(wait);
        world.run_until(floor + Span::from_secs(20));
        let mut sends: Vec<FleetTime> = world.granted[decided..].iter().map(|granted| granted.slot.send_at).collect();
        sends.sort();
        prop_assert!(!sends.is_empty() && sends[0] >= floor);
        // What has refilled by then, drained over tau, on top of the refill.
        let level = limit as f64 * wait as f64 / 60.0;
        let rate = limit as f64 / 60.0 + level / tau(per).as_secs_f64();
        let stretch = Span::from_secs_f64(k as f64 / rate).unwrap();
        for (index, first) in sends.iter().enumerate() {
            let held = sends[index..].partition_point(|send| *send < *first + stretch);
            prop_assert!(held as i64 <= k + 1, "{held} sends within {stretch}, which is {k} spacings");
        }
    }
}
