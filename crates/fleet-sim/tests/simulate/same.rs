//! The same scenario, strategy and seed give the same run.

use paceline_core::units::Span;
use paceline_fleet_sim::{OURS, Plan, run, run_all, run_recorded, strategies};

use crate::small;

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let scenario = small("service: {replicas: 3, store: 2ms, store_loss: 1%}\nevents: [{at: 20s, workers_crash: 20%}]\n");
    for (strategy, _) in strategies() {
        let once = run(&scenario, strategy, 7).unwrap();
        let again = run(&scenario, strategy, 7).unwrap();
        assert_eq!(once.to_json().to_string(), again.to_json().to_string(), "{strategy}");
        let other = run(&scenario, strategy, 8).unwrap();
        assert_ne!(once.to_json().to_string(), other.to_json().to_string(), "{strategy}: the seed decides something");
    }
}

#[test]
fn results_come_in_the_order_of_plans_on_any_number_of_threads() {
    let scenario = small("");
    let names: Vec<&str> = strategies().iter().map(|(name, _)| *name).collect();
    let plans: Vec<Plan<'_>> = (1..3)
        .flat_map(|seed| names.iter().map(move |strategy| (seed, *strategy)))
        .map(|(seed, strategy)| Plan { scenario: &scenario, strategy, seed })
        .collect();
    let mut told = Vec::new();
    let one = run_all(&plans, 1, |ended, of| told.push((ended, of))).unwrap();
    let four = run_all(&plans, 4, |_, _| {}).unwrap();
    assert_eq!(one, four);
    assert_eq!(told, (1..=plans.len()).map(|ended| (ended, plans.len())).collect::<Vec<_>>());
    let order: Vec<(&str, u64)> = one.iter().map(|outcome| (outcome.strategy.as_str(), outcome.seed)).collect();
    assert_eq!(order, plans.iter().map(|plan| (plan.strategy, plan.seed)).collect::<Vec<_>>());
}

#[test]
fn a_recording_adds_up_to_its_run_and_does_not_change_it() {
    let scenario = small("");
    for strategy in [OURS, "header-jitter"] {
        let plain = run(&scenario, strategy, 3).unwrap();
        let (outcome, film) = run_recorded(&scenario, strategy, 3, Span::from_millis(500)).unwrap();
        assert_eq!(plain, outcome);
        assert_eq!(film.sends.iter().map(|sends| u64::from(*sends)).sum::<u64>(), outcome.sends);
        assert_eq!(film.rejections.iter().map(|sends| u64::from(*sends)).sum::<u64>(), outcome.rejected);
        assert!(film.length() >= outcome.makespan && film.level.len() == film.bins());
        // What is left of the last wait when the run ends is not on film.
        for (number, delay) in outcome.delays.iter().enumerate() {
            let shown: f64 = film.waiting_by_source.iter().map(|bin| bin[number]).sum::<f64>() * film.bin.as_secs_f64();
            assert!((shown - delay.as_secs_f64()).abs() < 0.01, "{strategy} {number}: {shown} of {delay}");
        }
    }
}

#[test]
fn the_clairvoyant_is_a_bound_that_nobody_passes_who_makes_all_calls() {
    let scenario = small("");
    for (strategy, _) in strategies() {
        let outcome = run(&scenario, strategy, 1).unwrap();
        if outcome.given_up == 0 {
            assert!(outcome.makespan >= outcome.clairvoyant, "{strategy}: {} < {}", outcome.makespan, outcome.clairvoyant);
            assert_eq!(outcome.finished, 200, "{strategy}");
        }
    }
}
