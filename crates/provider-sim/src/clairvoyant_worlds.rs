//! The yardstick where more happens than calls: outages, limits that change, another consumer, output settled at the end.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use proptest::prelude::*;

use super::*;
use crate::change::{LimitChange, NewLimits};
use crate::charging::{Charging, TOKENS};
use crate::dialect::Dialect;
use crate::latency::{Latency, mixed};
use crate::limit::{Limit, Metering};
use crate::other::OtherConsumer;
use crate::outage::Outage;
use crate::provider::{Cost, Outcome};

const START: FleetTime = FleetTime::from_secs(1_800_000_000);
const MINUTE: Span = Span::from_secs(60);

fn secs(secs: i64) -> Span {
    Span::from_secs(secs)
}

/// The fleet of the design: 6,000 calls, 500 workers, 1,200 requests a minute from a full bucket.
fn design(change: impl FnOnce(&mut ProviderConfig)) -> Span {
    let mut config = ProviderConfig::metering(Dialect::OpenAi, vec![Limit::new("requests", 1_200, MINUTE)]);
    change(&mut config);
    clairvoyant_makespan(&config, START, &vec![Call::new("m", Cost::one()); 6_000], 500).unwrap()
}

#[test]
fn the_worlds_of_the_design() {
    let change = |text: &str| vec![text.parse::<LimitChange>().unwrap()];
    // In the first minute 2,400 go; 3,600 are left at 10 or 40 a second.
    assert_eq!(design(|config| config.changes = change("60s=50%")), secs(60 + 360));
    assert_eq!(design(|config| config.changes = change("60s=2400/min")), secs(60 + 90));
    // The bucket refills while nobody can call, and holds all of it: nothing is lost.
    assert_eq!(design(|config| config.outages = vec![Outage::new(secs(30), secs(30))]), secs(240));
    // The last call before it leaves at 4.95 s, a minute later the bucket is full, and the rest of the outage spills over.
    let spilt = Span::from_millis(95_000 - 64_950);
    assert_eq!(design(|config| config.outages = vec![Outage::new(secs(5), secs(90))]), secs(240) + spilt);
    // 1,200 at once, then 70 % of 20 a second; the other consumer's visit before the last call decides the fraction.
    let shared = design(|config| config.other = Some(OtherConsumer::steady(30))).as_secs_f64();
    assert!((shared - 4_800.0 / 14.0).abs() < 0.2, "{shared}");
    let shared = design(|config| config.other = Some(OtherConsumer::steady(90))).as_secs_f64();
    assert!((shared - 4_800.0 / 2.0).abs() < 1.0, "{shared}");
    // 840 in each window: 7 whole windows are not quite enough.
    let windows = design(|config| {
        config.groups[0].limits[0].metering = Metering::FixedWindow { phase: Span::ZERO };
        config.other = Some(OtherConsumer::steady(30));
    });
    assert_eq!(windows, secs(420));
}

#[test]
fn a_call_too_large_for_now_waits_for_a_larger_limit() {
    let limits = vec![Limit::new("requests", 2, MINUTE)];
    let mut config = ProviderConfig::metering(Dialect::Bare, limits);
    config.changes = vec!["90s=5/min".parse().unwrap()];
    let calls = [Call::new("m", Cost::one().with("requests", 3))];
    // Two are there at 90 s, the third comes at five a minute.
    assert_eq!(clairvoyant_makespan(&config, START, &calls, 1), Ok(secs(90 + 12)));
    let calls = [Call::new("m", Cost::one().with("requests", 6))];
    let error = clairvoyant_makespan(&config, START, &calls, 1).unwrap_err();
    assert!(matches!(error, SimError::NeverFits { index: 0, cost: 6, most: 5, .. }), "{error}");
}

#[test]
fn output_is_reserved_or_charged_at_the_end() {
    let latency = Latency::constant(secs(10));
    let with = |charging, calls: usize, workers| {
        let limits = vec![Limit::new(TOKENS, 1_000, MINUTE)];
        let config = ProviderConfig { charging, latency, ..ProviderConfig::metering(Dialect::OpenAi, limits) };
        let stated = Cost::one().with("output_tokens", 500).with(TOKENS, 500);
        let used = Some(Cost::one().with("output_tokens", 100).with(TOKENS, 100));
        let calls = vec![Call { used, ..Call::new("m", stated) }; calls];
        clairvoyant_makespan(&config, START, &calls, workers).unwrap()
    };
    // Two fit at once, a third half a minute later.
    assert_eq!(with(Charging::OnArrival, 3, 9), secs(30 + 10));
    // The third fits when the first two have ended: 800 come back.
    assert_eq!(with(Charging::Reserved, 3, 9), secs(10 + 10));
    // All go at once, and the debt is the next one's.
    assert_eq!(with(Charging::AtEnd, 9, 9), secs(10));
    // Twenty at once owe 2,000 at their end: a minute later it is paid and the last one goes.
    assert_eq!(with(Charging::AtEnd, 21, 20), secs(10 + 60 + 10));
}

#[test]
fn calls_that_come_one_by_one_are_not_sent_before() {
    let limits = vec![Limit::new("requests", 60, MINUTE)];
    let provider = Provider::starting_at(ProviderConfig::metering(Dialect::Bare, limits), START).unwrap();
    let takes = |secs_taken| Call { takes: Some(secs(secs_taken)), ..call_of(30) };
    let (short, long) = (takes(5), takes(20));
    let due = |from, call| Due { from: secs(from), call };
    // 30 are left at 10 s, 10 after the call at 20 s; the third has to wait for 20 more.
    let calls = [due(10, &short), due(20, &long), due(20, &short)];
    assert_eq!(provider.clairvoyant_makespan_of(START, &calls, 3), Ok(secs(40 + 5)));
    assert_eq!(provider.clairvoyant_makespan_of(START, &calls, 1), Ok(secs(40 + 5)));
    // A worker that is busy for long keeps the next call waiting.
    let calls = [due(0, &long), due(1, &short)];
    assert_eq!(provider.clairvoyant_makespan_of(START, &calls, 1), Ok(secs(25)));
    assert_eq!(provider.clairvoyant_makespan_of(START, &calls, 2), Ok(secs(20)));
}

fn call_of(requests: u64) -> Call {
    Call::new("m", Cost::one().with("requests", requests))
}

/// A provider in whole seconds, so that the best send times lie on a grid of seconds; see [`lies_on_the_grid`].
fn arb_world() -> impl Strategy<Value = ProviderConfig> {
    let limit = (1_i64..5, 3_u64..6, any::<bool>()).prop_map(|(per, most, fixed)| {
        let limit = Limit::new("requests", u64::try_from(per).unwrap(), secs(per));
        if fixed {
            Limit { units: most, ..limit }.metered(Metering::FixedWindow { phase: Span::ZERO })
        } else {
            Limit { burst: Some(most), ..limit }
        }
    });
    let outage = (0_i64..8, 1_i64..6, any::<bool>())
        .prop_map(|(from, length, charged)| Outage { charged, ..Outage::new(secs(from), secs(length)) });
    let change = (0_i64..8, prop::sample::select(vec![1_000_000, 2_000_000, 3_000_000]))
        .prop_map(|(at, ppm)| LimitChange { at: secs(at), to: NewLimits::Scaled { ppm } });
    (prop::collection::vec(limit, 1..3), prop::collection::vec(outage, 0..3), prop::collection::vec(change, 0..3), 1_i64..4)
        .prop_map(|(limits, outages, changes, latency)| ProviderConfig {
            outages,
            changes,
            latency: Latency::constant(secs(latency)),
            ..ProviderConfig::metering(Dialect::Bare, limits)
        })
}

/// Whether the best times do: a bucket that refills two or three a second has room between the seconds.
fn lies_on_the_grid(config: &ProviderConfig) -> bool {
    let windows = config.groups[0].limits.iter().all(|limit| matches!(limit.metering, Metering::FixedWindow { .. }));
    windows || config.changes.is_empty()
}

/// The least makespan over all non-decreasing send times on the grid that are all accepted.
fn brute(provider: &Provider, calls: &[Call], workers: usize, sends: &mut Vec<i64>, best: &mut i64) {
    let latency = provider.config().latency.usual.as_micros() / 1_000_000;
    let earliest = sends.last().copied().unwrap_or(0);
    let Some(call) = calls.get(sends.len()) else {
        *best = (*best).min(earliest + latency);
        return;
    };
    for at in earliest..(*best - latency).max(earliest) {
        let busy = sends.iter().filter(|sent| *sent + latency > at).count();
        let mut after = provider.clone();
        if busy < workers && after.arrive(START + secs(at), call).outcome == Outcome::Accepted {
            sends.push(at);
            brute(&after, calls, workers, sends, best);
            sends.pop();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn equals_brute_force_through_outages_and_changes(
        config in arb_world(), costs in prop::collection::vec(1_u64..4, 1..5), workers in 1_usize..4,
    ) {
        let calls: Vec<Call> = costs.iter().map(|cost| Call::new("m", Cost::one().with("requests", *cost))).collect();
        let ours = clairvoyant_makespan(&config, START, &calls, workers).unwrap();
        let exact = lies_on_the_grid(&config);
        let mut best = 40;
        brute(&Provider::starting_at(config, START).unwrap(), &calls, workers, &mut Vec::new(), &mut best);
        prop_assert!(best < 40, "the brute force found no schedule");
        prop_assert!(ours <= secs(best), "{ours} later than {best} s");
        prop_assert!(!exact || ours == secs(best), "{ours} instead of {best} s");
    }

    /// With a worker for each call, holding calls back gains nothing where limits stay as they are, however output is charged.
    #[test]
    fn equals_brute_force_with_output_settled_at_the_end(
        config in arb_world(),
        at_end in any::<bool>(),
        costs in prop::collection::vec((1_u64..4, 0_u64..4), 1..5),
    ) {
        let charging = if at_end { Charging::AtEnd } else { Charging::Reserved };
        let tokens = |limit: &Limit| Limit { meter: TOKENS.into(), ..limit.clone() };
        let mut config = ProviderConfig { charging, ..config };
        let limits = config.groups[0].limits.iter().map(tokens).collect();
        config.groups[0].limits = limits;
        let of = |units| Cost::one().with("output_tokens", units).with(TOKENS, units);
        let calls: Vec<Call> = costs
            .iter()
            .map(|(stated, used)| Call { used: Some(of(*used.min(stated))), ..Call::new("m", of(*stated)) })
            .collect();
        let ours = clairvoyant_makespan(&config, START, &calls, calls.len()).unwrap();
        let exact = lies_on_the_grid(&config);
        let mut best = 40;
        brute(&Provider::starting_at(config, START).unwrap(), &calls, calls.len(), &mut Vec::new(), &mut best);
        prop_assert!(best < 40, "the brute force found no schedule");
        // Where a bucket grows, what comes back late may find room that it did not find before: holding a call back gains that.
        let gain = if exact || at_end { Span::ZERO } else { secs(1) };
        prop_assert!(ours <= secs(best) + gain, "{ours} later than {best} s");
        prop_assert!(!exact || ours == secs(best), "{ours} instead of {best} s");
    }

    /// Fleets that try, fail and try again at any times: none is faster, unless it took from the other consumer.
    #[test]
    fn no_fleet_is_faster_unless_it_takes_from_another(
        config in arb_world(),
        other in prop::option::of((5_u64..95, 50_i64..4_000)),
        phase in 0_i64..5_000,
        count in 1_usize..60,
        workers in 1_usize..12,
        jitter in 0_i64..900,
        seed in any::<u64>(),
        hasty in any::<bool>(),
    ) {
        let latency = Latency { jitter: Span::from_millis(jitter), ..config.latency };
        let other = other.map(|(percent, millis)| OtherConsumer {
            share_ppm: percent * 10_000,
            every: Span::from_millis(millis),
        });
        let mut config = ProviderConfig { latency, other, seed, ..config };
        for limit in &mut config.groups[0].limits {
            if let Metering::FixedWindow { phase: at } = &mut limit.metering {
                *at = Span::from_millis(phase);
            }
        }
        // In a window another consumer catches up on what it did not get: that it got all in the end says nothing of when.
        let may_have_waited = config.other.is_some()
            && config.groups[0].limits.iter().any(|limit| matches!(limit.metering, Metering::FixedWindow { .. }));
        let calls = vec![Call::new("m", Cost::one()); count];
        let least = clairvoyant_makespan(&config, START, &calls, workers).unwrap();
        let mut provider = Provider::starting_at(config, START).unwrap();
        let mut tries: BinaryHeap<Reverse<(FleetTime, usize)>> = (0..workers).map(|worker| Reverse((START, worker))).collect();
        let (mut left, mut end, mut draws) = (count, START, 0_u64);
        while left > 0 {
            let Some(Reverse((now, worker))) = tries.pop() else { break };
            let answer = provider.arrive(now, &calls[0]);
            draws += 1;
            let again = if answer.outcome == Outcome::Accepted {
                left -= 1;
                end = end.max(now + answer.latency);
                answer.latency
            } else {
                let most = if hasty { 20_000 } else { 2_000_000 };
                Span::from_micros(i64::try_from(mixed(seed ^ 1, draws) % most).unwrap() + 1)
            };
            tries.push(Reverse((now + again, worker)));
        }
        let drained: Vec<_> = provider.levels(end).into_iter().map(|level| level.drained).collect();
        let took = may_have_waited || drained.iter().any(|drained| drained.got < drained.wanted);
        prop_assert!(took || end - START >= least, "{} sooner than {}: {:?}", end - START, least, drained);
    }

    /// Trouble never makes it faster.
    #[test]
    fn trouble_never_helps(
        config in arb_world(), count in 1_usize..60, workers in 1_usize..12, percent in 1_u32..95, seed in any::<u64>(),
    ) {
        let calls = vec![Call::new("m", Cost::one()); count];
        let config = ProviderConfig { seed, ..config };
        let makespan = |config: &ProviderConfig| clairvoyant_makespan(config, START, &calls, workers).unwrap();
        let base = makespan(&config);
        let up = ProviderConfig { outages: Vec::new(), ..config.clone() };
        let shared = ProviderConfig { other: Some(OtherConsumer::steady(percent)), ..config.clone() };
        prop_assert!(makespan(&up) <= base);
        prop_assert!(makespan(&shared) >= base);
        prop_assert_eq!(makespan(&config), base);
    }
}
