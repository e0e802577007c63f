//! What is counted while a run goes on.

use paceline_core::plan::Class;
use paceline_core::signal::Source;
use paceline_core::units::{FleetTime, Span};

use super::jobs::Job;
use crate::recording::SOURCES;
use crate::scenario::Scenario;

/// What full buckets hold goes to whoever comes first; shares are counted from then on.
const BURST_IS_OVER: Span = Span::from_secs(10);

/// Counts of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) sends: u64,
    pub(crate) rejected: u64,
    pub(crate) finished: u64,
    pub(crate) given_up: u64,
    pub(crate) last_answer: FleetTime,
    from: FleetTime,
    pub(crate) delays: [Span; SOURCES],
    /// Per class: the waits of its finished calls.
    waits: [Vec<Span>; 3],
    /// What was served: when, to which part, of what weight.
    served: Vec<(FleetTime, usize, f64)>,
    /// Until when each part had calls that nobody had begun.
    backlog_until: Vec<FleetTime>,
    /// Finished calls per worker.
    per_worker: Vec<u32>,
}

impl Tally {
    pub(crate) fn new(scenario: &Scenario, start: FleetTime) -> Self {
        Self {
            from: start,
            last_answer: start,
            backlog_until: vec![start; scenario.fleet.len()],
            per_worker: vec![0; scenario.workers()],
            ..Self::default()
        }
    }

    pub(crate) fn delay(&mut self, source: Source, length: Span) {
        if let Some(total) = Source::ALL.iter().position(|known| *known == source).and_then(|at| self.delays.get_mut(at)) {
            *total += length.at_least_zero();
        }
    }

    pub(crate) fn begun(&mut self, part: usize, now: FleetTime) {
        if let Some(until) = self.backlog_until.get_mut(part) {
            *until = now;
        }
    }

    pub(crate) fn accepted(&mut self, job: &Job, now: FleetTime) {
        self.served.push((now, job.part, job.weight));
    }

    pub(crate) fn finished(&mut self, worker: usize, class: Class, wait: Span, now: FleetTime) {
        self.finished += 1;
        self.last_answer = self.last_answer.max(now);
        if let Some(waits) = self.waits.get_mut(class.index()) {
            waits.push(wait);
        }
        if let Some(count) = self.per_worker.get_mut(worker) {
            *count += 1;
        }
    }

    pub(crate) fn given_up(&mut self, now: FleetTime) {
        self.given_up += 1;
        self.last_answer = self.last_answer.max(now);
    }

    /// The waits of a class, or of all, in order of length.
    pub(crate) fn waits(&self, class: Option<Class>) -> Vec<Span> {
        let mut waits: Vec<Span> = match class {
            Some(class) => self.waits.get(class.index()).cloned().unwrap_or_default(),
            None => self.waits.iter().flatten().copied().collect(),
        };
        waits.sort_unstable();
        waits
    }

    /// Jain's fairness index (Jain, Chiu and Hawe, 1984): 1 when all got the same for their weight. Among tenants, counted
    /// from when the first burst is over until the first of them has nothing left to begin; with fewer than two tenants, among workers.
    pub(crate) fn jain(&self, scenario: &Scenario) -> f64 {
        let rivals: Vec<usize> = scenario
            .fleet
            .iter()
            .enumerate()
            .filter(|(_, part)| !part.tenant.is_empty() && part.every.is_none())
            .map(|(index, _)| index)
            .collect();
        if rivals.len() < 2 {
            return jain(self.per_worker.iter().map(|count| f64::from(*count)));
        }
        let until = self.contested_until(&rivals);
        let mut got: Vec<(&str, f64, f64)> = Vec::new();
        for index in rivals {
            let Some(part) = scenario.fleet.get(index) else { continue };
            let served = self.served_to(&[index], until);
            match got.iter_mut().find(|(tenant, _, _)| *tenant == part.tenant) {
                Some((_, sum, _)) => *sum += served,
                None => got.push((&part.tenant, served, f64::from(part.weight))),
            }
        }
        jain(got.into_iter().map(|(_, served, weight)| served / weight))
    }

    /// How many of the calls that were served while every part had something to begin were batch, to within one call: the next
    /// one was under way when counting ended.
    pub(crate) fn batch_share(&self, scenario: &Scenario) -> f64 {
        let all: Vec<usize> = (0..scenario.fleet.len()).collect();
        let of_batch = |index: &usize| scenario.fleet.get(*index).is_some_and(|part| part.class == Class::Batch);
        let batch: Vec<usize> = all.iter().copied().filter(of_batch).collect();
        let until = self.contested_until(&all);
        let calls = |parts: &[usize]| self.served_in(parts, until).count();
        let total = calls(&all).max(1);
        ((calls(&batch) + 1) as f64 / total as f64).min(1.0)
    }

    fn contested_until(&self, parts: &[usize]) -> FleetTime {
        parts.iter().filter_map(|part| self.backlog_until.get(*part)).min().copied().unwrap_or(FleetTime::MAX)
    }

    fn served_to(&self, parts: &[usize], until: FleetTime) -> f64 {
        self.served_in(parts, until).sum()
    }

    /// The weights of the calls that were served.
    fn served_in(&self, parts: &[usize], until: FleetTime) -> impl Iterator<Item = f64> {
        let counts = move |at: FleetTime| at >= self.from + BURST_IS_OVER && at <= until;
        let served = self.served.iter().filter(move |(at, part, _)| counts(*at) && parts.contains(part));
        served.map(|(_, _, weight)| *weight)
    }
}

/// The value that a share of the sorted values does not exceed (nearest rank).
pub(crate) fn quantile(sorted: &[Span], share: f64) -> Span {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.max(1) - 1).or_else(|| sorted.last()).copied().unwrap_or(Span::ZERO)
}

fn jain(values: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        count += 1.0;
        sum += value;
        squares += value * value;
    }
    if squares > 0.0 { sum * sum / (count * squares) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_is_one_for_equals_and_one_over_n_for_a_winner() {
        assert_eq!(jain([3.0, 3.0, 3.0].into_iter()), 1.0);
        assert_eq!(jain([1.0, 0.0, 0.0, 0.0].into_iter()), 0.25);
        assert_eq!(jain([0.0; 3].into_iter()), 1.0, "nobody got anything: nobody was wronged");
    }

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let waits: Vec<Span> = (1..=200).map(Span::from_secs).collect();
        assert_eq!(quantile(&waits, 0.5), Span::from_secs(100));
        assert_eq!(quantile(&waits, 0.99), Span::from_secs(198));
        assert_eq!(quantile(&[], 0.5), Span::ZERO);
        assert_eq!(quantile(&waits, 1.0), Span::from_secs(200));
    }
}
