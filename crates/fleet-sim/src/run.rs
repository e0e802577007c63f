//! One run: a scenario, a strategy, a seed; and what came of it.

use paceline_core::plan::Class;
use paceline_core::signal::Source;
use paceline_core::units::Span;
use paceline_provider_sim::{Due, Provider};
use serde_json::{Map, Value, json};

use crate::beside::Lead;
use crate::engine::jobs::{Job, jobs};
use crate::engine::{Film, Run, START, Tally, provider_config, quantile};
use crate::error::SimulateError;
use crate::recording::{Recording, SOURCES};
use crate::scenario::Scenario;
use crate::service::Service;
use crate::strategies::{Alone, OURS};

/// What came of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The scenario.
    pub scenario: String,
    /// The strategy.
    pub strategy: String,
    /// The seed.
    pub seed: u64,
    /// From the start to the last answer.
    pub makespan: Span,
    /// The same of a scheduler that knows the provider's meters exactly.
    pub clairvoyant: Span,
    /// Calls sent.
    pub sends: u64,
    /// Those that the provider refused or failed.
    pub rejected: u64,
    /// Calls that got their answer.
    pub finished: u64,
    /// Calls that were given up, or were not over when the run ended.
    pub given_up: u64,
    /// Median wait, time at the provider left out.
    pub wait_p50: Span,
    /// 99th percentile.
    pub wait_p99: Span,
    /// 99th percentile of interactive calls.
    pub interactive_wait_p99: Span,
    /// Jain's index.
    pub jain: f64,
    /// Batch's part while others waited too.
    pub batch_share: f64,
    /// The part of what the provider's other consumer wanted that it did not get.
    pub taken_from_other: f64,
    /// Waiting by source, in the order of [`Source::ALL`].
    pub delays: [Span; SOURCES],
    /// What the scenario expects and the run missed, in words; of ours also who finished sooner for nothing.
    pub missed: Vec<String>,
    /// Of the others: whether it goes by limits that nobody told ours.
    pub was_told_more: bool,
    /// Of the others: that it was done well before ours, once [`crate::compare`] has looked.
    pub lead: Option<Lead>,
}

/// Runs `strategy` on `scenario`.
///
/// # Errors
/// An unknown strategy; a scenario that asks for what cannot be.
pub fn run(scenario: &Scenario, strategy: &str, seed: u64) -> Result<Outcome, SimulateError> {
    simulate(scenario, strategy, seed, None).map(|(outcome, _)| outcome)
}

/// The same, taken down in bins of this length.
///
/// # Errors
/// As [`run`].
pub fn run_recorded(scenario: &Scenario, strategy: &str, seed: u64, bin: Span) -> Result<(Outcome, Recording), SimulateError> {
    let (outcome, recording) = simulate(scenario, strategy, seed, Some(bin.max(Span::from_millis(1))))?;
    Ok((outcome, recording.unwrap_or_default()))
}

fn simulate(
    scenario: &Scenario,
    strategy: &str,
    seed: u64,
    bin: Option<Span>,
) -> Result<(Outcome, Option<Recording>), SimulateError> {
    let strategy = crate::strategies::known(strategy)?;
    let jobs = jobs(scenario, seed);
    let impossible = |error: paceline_provider_sim::SimError| SimulateError::Scenario {
        name: scenario.name.clone(),
        problem: error.to_string(),
    };
    let clairvoyant = clairvoyant(scenario, &jobs, seed).map_err(impossible)?;
    let mut run = Run::new(scenario, &jobs, seed).map_err(impossible)?;
    run.film = bin.map(|bin| Film::new(scenario, &jobs, strategy, seed, bin, START));
    if strategy == OURS {
        run.go(&mut Service::new(scenario, seed)?);
    } else if let Some(mut fleet) = Alone::new(strategy, scenario) {
        run.go(&mut fleet);
    }
    let end = run.tally.last_answer;
    let taken = run.taken_from_other();
    let outcome = Outcome::of(scenario, strategy, seed, clairvoyant, &run.tally, taken);
    Ok((outcome, run.film.map(|film| film.develop(end))))
}

/// The least time in which the calls of a run could be over; from the start to the last answer.
///
/// # Errors
/// As [`run`].
pub fn least_makespan(scenario: &Scenario, seed: u64) -> Result<Span, SimulateError> {
    clairvoyant(scenario, &jobs(scenario, seed), seed)
        .map_err(|error| SimulateError::Scenario { name: scenario.name.clone(), problem: error.to_string() })
}

/// Calls are sent in the order they come, and none before it comes.
fn clairvoyant(scenario: &Scenario, jobs: &[Job], seed: u64) -> Result<Span, paceline_provider_sim::SimError> {
    let mut calls: Vec<Due<'_>> = jobs.iter().map(|job| Due { from: job.comes, call: &job.call }).collect();
    calls.sort_by_key(|due| due.from);
    let provider = Provider::starting_at(provider_config(scenario, seed), START)?;
    provider.clairvoyant_makespan_of(START, &calls, scenario.workers())
}

impl Outcome {
    fn of(scenario: &Scenario, strategy: &str, seed: u64, clairvoyant: Span, tally: &Tally, taken_from_other: f64) -> Self {
        let waits = tally.waits(None);
        let mut outcome = Self {
            scenario: scenario.name.clone(),
            strategy: strategy.to_owned(),
            seed,
            makespan: tally.last_answer - START,
            clairvoyant,
            sends: tally.sends,
            rejected: tally.rejected,
            finished: tally.finished,
            given_up: tally.given_up,
            wait_p50: quantile(&waits, 0.5),
            wait_p99: quantile(&waits, 0.99),
            interactive_wait_p99: quantile(&tally.waits(Some(Class::Interactive)), 0.99),
            jain: tally.jain(scenario),
            batch_share: tally.batch_share(scenario),
            taken_from_other,
            delays: tally.delays,
            missed: Vec::new(),
            was_told_more: crate::strategies::knows_limits(strategy) && !scenario.service.knows_limits,
            lead: None,
        };
        outcome.missed = scenario.expect.missed_by(&outcome);
        outcome
    }

    /// Makespan over the clairvoyant's.
    pub fn makespan_ratio(&self) -> f64 {
        let best = self.clairvoyant.as_secs_f64();
        if best > 0.0 { self.makespan.as_secs_f64() / best } else { 1.0 }
    }

    /// Rejected calls of all that were sent.
    pub fn rejected_share(&self) -> f64 {
        if self.sends > 0 { self.rejected as f64 / self.sends as f64 } else { 0.0 }
    }

    /// Calls sent per call finished.
    pub fn calls_per_job(&self) -> f64 {
        if self.finished > 0 { self.sends as f64 / self.finished as f64 } else { 0.0 }
    }

    /// Calls given up of all.
    pub fn given_up_share(&self) -> f64 {
        let all = self.finished + self.given_up;
        if all > 0 { self.given_up as f64 / all as f64 } else { 0.0 }
    }

    /// Whether it met what its scenario expects.
    pub fn pass(&self) -> bool {
        self.missed.is_empty()
    }

    /// For programs: one object, keys in a fixed order.
    pub fn to_json(&self) -> Value {
        let sources = Source::ALL.iter().zip(self.delays).filter(|(_, length)| *length > Span::ZERO);
        let delays: Map<String, Value> =
            sources.map(|(source, length)| (source.name().to_owned(), json!(rounded(length.as_secs_f64(), 3)))).collect();
        json!({
            "scenario": self.scenario,
            "strategy": self.strategy,
            "seed": self.seed,
            "makespan_s": rounded(self.makespan.as_secs_f64(), 3),
            "clairvoyant_s": rounded(self.clairvoyant.as_secs_f64(), 3),
            "rejected_share": rounded(self.rejected_share(), 6),
            "calls_per_job": rounded(self.calls_per_job(), 4),
            "wait_p50_s": rounded(self.wait_p50.as_secs_f64(), 3),
            "wait_p99_s": rounded(self.wait_p99.as_secs_f64(), 3),
            "jain": rounded(self.jain, 4),
            "pass": self.pass(),
            "delay_s_by_source": delays,
            "finished": self.finished,
            "given_up": self.given_up,
            "interactive_wait_p99_s": rounded(self.interactive_wait_p99.as_secs_f64(), 3),
            "taken_from_other": rounded(self.taken_from_other, 4),
            "missed": self.missed,
            "sooner": self.lead.as_ref().map(|lead| lead.sentence(&self.strategy)),
        })
    }
}

fn rounded(number: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (number * scale).round() / scale
}
