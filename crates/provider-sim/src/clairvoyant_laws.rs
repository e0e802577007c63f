//! The yardstick against brute force that knows nothing of our meters: it tries every send time on a grid and checks the
//! definition of each limit.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use proptest::prelude::*;

use super::*;
use crate::dialect::Dialect;
use crate::latency::Latency;
use crate::limit::{Limit, LimitGroup, Metering, ModelPattern};
use crate::provider::Cost;

const GRID: Span = Span::from_secs(1);

fn config(limits: Vec<Limit>, latency_s: i64) -> ProviderConfig {
    let latency = Latency::constant(Span::from_secs(latency_s));
    ProviderConfig { latency, ..ProviderConfig::metering(Dialect::Bare, limits) }
}

/// A limit by its definition, in whole seconds; `sends` are (second, cost) in order, the last one new.
fn allows(limit: &Limit, sends: &[(i64, u64)]) -> bool {
    let per = limit.per.as_micros() / 1_000_000;
    let (last, _) = sends[sends.len() - 1];
    match limit.metering {
        Metering::FixedWindow { .. } => {
            let window = last.div_euclid(per);
            sends.iter().filter(|(at, _)| at.div_euclid(per) == window).map(|(_, cost)| cost).sum::<u64>() <= limit.units
        }
        _ => {
            let capacity = limit.burst.unwrap_or(limit.units);
            (0..sends.len()).all(|first| {
                let sum: u64 = sends[first..].iter().map(|(_, cost)| cost).sum();
                let earned = limit.units * u64::try_from(last - sends[first].0).unwrap();
                sum * u64::try_from(per).unwrap() <= capacity * u64::try_from(per).unwrap() + earned
            })
        }
    }
}

/// The least makespan over all non-decreasing send times on the grid.
fn brute(limits: &[Limit], costs: &[u64], workers: usize, latency: i64, sends: &mut Vec<(i64, u64)>, best: &mut i64) {
    let earliest = sends.last().map_or(0, |(at, _)| *at);
    let Some(cost) = costs.get(sends.len()) else {
        *best = (*best).min(earliest + latency);
        return;
    };
    for at in earliest..(*best - latency).max(earliest) {
        let busy = sends.iter().filter(|(sent, _)| sent + latency > at).count();
        sends.push((at, *cost));
        if busy < workers && limits.iter().all(|limit| allows(limit, sends)) {
            brute(limits, costs, workers, latency, sends, best);
        }
        sends.pop();
    }
}

/// Limits that refill a unit a second, so that the best send times lie on the grid.
fn arb_limit() -> impl Strategy<Value = Limit> {
    (1_i64..6, 3_u64..6, any::<bool>()).prop_map(|(per, most, fixed)| {
        let limit = Limit::new("requests", u64::try_from(per).unwrap(), Span::from_secs(per));
        if fixed {
            Limit { units: most, ..limit }.metered(Metering::FixedWindow { phase: Span::ZERO })
        } else {
            Limit { burst: Some(most), ..limit }
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn equals_brute_force(
        limits in prop::collection::vec(arb_limit(), 1..3),
        costs in prop::collection::vec(1_u64..4, 1..6),
        workers in 1_usize..4,
        latency in 1_i64..4,
    ) {
        let calls: Vec<Call> = costs.iter().map(|cost| Call::new("m", Cost::one().with("requests", *cost))).collect();
        let ours = clairvoyant_makespan(&config(limits.clone(), latency), FleetTime::ZERO, &calls, workers).unwrap();
        let mut best = 60;
        brute(&limits, &costs, workers, latency, &mut Vec::new(), &mut best);
        prop_assert!(best < 60, "the brute force found no schedule");
        prop_assert_eq!(ours, Span::from_micros(best * GRID.as_micros()));
    }

    /// With one bucket and workers to spare, the order of the calls does not matter: the sum must be earned.
    #[test]
    fn one_bucket_is_a_formula(costs in prop::collection::vec(1_u64..50, 1..40), per_second in 1_u64..20) {
        let capacity = 50;
        let limit = Limit { burst: Some(capacity), ..Limit::new("tokens", per_second, Span::from_secs(1)) };
        let calls: Vec<Call> = costs.iter().map(|cost| Call::new("m", Cost::one().with("tokens", *cost))).collect();
        let ours = clairvoyant_makespan(&config(vec![limit], 0), FleetTime::ZERO, &calls, calls.len()).unwrap();
        let short = i64::try_from(costs.iter().sum::<u64>()).unwrap() - i64::try_from(capacity).unwrap();
        let exact = short.max(0) as f64 / per_second as f64;
        // Each wait is rounded up to a microsecond; a bucket keeps what that earns too much.
        prop_assert!((ours.as_secs_f64() - exact).abs() < 2e-6, "{} {}", ours, exact);
    }

    /// More workers, a larger limit or no latency never make it slower.
    #[test]
    fn is_monotone(count in 1_usize..60, workers in 1_usize..20, units in 1_u64..100, seed in any::<u64>()) {
        let calls = vec![Call::new("m", Cost::one()); count];
        let latency = Latency { usual: Span::from_millis(900), jitter: Span::from_millis(800), refused: Span::ZERO };
        let with = |units, workers, latency| {
            let limits = vec![Limit::new("requests", units, Span::from_secs(10))];
            let config = ProviderConfig { latency, seed, ..ProviderConfig::metering(Dialect::Bare, limits) };
            clairvoyant_makespan(&config, FleetTime::ZERO, &calls, workers).unwrap()
        };
        let base = with(units, workers, latency);
        prop_assert!(with(units, workers + 1, latency) <= base);
        prop_assert!(with(units + 1, workers, latency) <= base);
        prop_assert!(with(units, workers, Latency::default()) <= base);
        prop_assert_eq!(with(units, workers, latency), base);
    }
}

#[test]
fn a_model_that_must_wait_does_not_hold_up_another() {
    let group = |model: &str, units| LimitGroup {
        models: ModelPattern::new(model),
        each: false,
        limits: vec![Limit::new("requests", units, Span::from_secs(60))],
    };
    let config = ProviderConfig { groups: vec![group("slow", 1), group("fast", 100)], ..ProviderConfig::default() };
    let mut calls = vec![Call::new("slow", Cost::one()); 2];
    calls.extend(vec![Call::new("fast", Cost::one()); 150]);
    // Two slow calls need a minute, fifty of the fast ones half a minute meanwhile.
    assert_eq!(clairvoyant_makespan(&config, FleetTime::ZERO, &calls, 3), Ok(Span::from_secs(60)));
}

#[test]
fn what_cannot_be_finished_is_said() {
    let config = config(vec![Limit::new("tokens", 10, Span::from_secs(1))], 0);
    let calls = [Call::new("m", Cost::one()), Call::new("m", Cost::one().with("tokens", 11))];
    let error = clairvoyant_makespan(&config, FleetTime::ZERO, &calls, 1).unwrap_err();
    assert_eq!(error, SimError::NeverFits { index: 1, meter: "tokens".into(), cost: 11, most: 10 });
    assert_eq!(clairvoyant_makespan(&config, FleetTime::ZERO, &calls, 0), Err(SimError::NoWorkers));
    assert_eq!(clairvoyant_makespan(&config, FleetTime::ZERO, &[], 1), Ok(Span::ZERO));
}

#[test]
fn the_fleet_of_the_design() {
    // 6,000 calls, 500 workers, 1,200 requests a minute from a full bucket: 4,800 must be earned at 20 a second.
    let limits = vec![Limit::new("requests", 1_200, Span::from_secs(60))];
    let config = ProviderConfig::metering(Dialect::OpenAi, limits);
    let calls = vec![Call::new("m", Cost::one()); 6_000];
    assert_eq!(clairvoyant_makespan(&config, FleetTime::ZERO, &calls, 500), Ok(Span::from_secs(240)));
}
