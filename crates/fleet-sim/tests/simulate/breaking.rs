//! Whatever breaks, every call is made once and nobody waits for ever.

use paceline_core::units::Span;
use paceline_fleet_sim::{OURS, Outcome, run};

use crate::small;

fn ours(added: &str) -> Outcome {
    let outcome = run(&small(added), OURS, 5).unwrap();
    assert!(outcome.makespan < Span::from_secs(400), "{}", outcome.to_json());
    outcome
}

#[test]
fn a_quiet_run_makes_every_call_once() {
    let run = ours("");
    assert_eq!((run.finished, run.given_up, run.rejected), (200, 0, 0), "{}", run.to_json());
    assert!(run.delays.iter().any(|delay| *delay > Span::ZERO), "somebody waited, and somebody says why");
}

#[test]
fn replicas_that_write_one_value_grant_no_more_than_one_would() {
    let run = ours("service: {replicas: 3, store: 2ms}\n");
    assert_eq!((run.finished, run.given_up, run.rejected), (200, 0, 0), "{}", run.to_json());
}

#[test]
fn callers_of_a_lost_replica_turn_to_another_one() {
    let run = ours("service: {replicas: 3, store: 2ms}\nevents: [{at: 10s, replica_lost: 1}, {at: 40s, replica_back: 1}]\n");
    assert_eq!((run.finished, run.given_up, run.rejected), (200, 0, 0), "{}", run.to_json());
}

#[test]
fn a_store_that_is_away_delays_and_loses_nothing() {
    let run = ours("service: {replicas: 2, store: 2ms}\nevents: [{at: 10s, store_away: 3s}]\n");
    assert_eq!((run.finished, run.given_up), (200, 0), "{}", run.to_json());
}

#[test]
fn answers_of_the_store_that_get_lost_never_over_grant() {
    let run = ours("service: {replicas: 2, store: 2ms, store_loss: 3%}\n");
    assert_eq!((run.finished, run.given_up, run.rejected), (200, 0, 0), "{}", run.to_json());
}

#[test]
fn calls_of_workers_that_die_are_made_by_others() {
    let run = ours("events: [{at: 5s, workers_crash: 50%}]\n");
    assert_eq!((run.finished, run.given_up), (200, 0), "{}", run.to_json());
    assert!(run.sends >= 200);
}

#[test]
fn who_leaves_or_oversleeps_holds_nobody_up() {
    let text = "provider: {limits: {requests: 120/min}, latency: 300ms}\n\
                fleet: {workers: 40, calls: 200, leave: 20%, oversleeps: {share: 10%, by: 6s}}\n";
    let scenario = paceline_fleet_sim::scenario::read("late", "late.yaml", text).unwrap();
    let run = run(&scenario, OURS, 5).unwrap();
    assert_eq!(run.given_up, 0, "{}", run.to_json());
    assert!(run.finished < 200 && run.finished > 100, "some left: {}", run.to_json());
    assert_eq!(run.rejected, 0, "nobody sends late: {}", run.to_json());
}
