//! What a run came to: figures over all calls, whether they are good, and the line that programs read.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::tally::Counted;

/// The most that a run may take, as a multiple of what a scheduler needs that knows the provider's meters exactly.
const MOST_TIMES: f64 = 1.08;
/// The largest share of calls that the provider may refuse.
const MOST_REFUSED: f64 = 0.005;
/// How often an SDK sends a call unless told otherwise: once, and two retries (openai-python 3.57, anthropic 2.14).
const SDK_SENDS: u32 = 3;

/// How a fleet goes about its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// It asks Paceline.
    Paceline,
    /// Everybody tries alone, as today's SDKs do.
    Alone,
}

impl Strategy {
    /// Its name in JSON.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Paceline => "paceline",
            Self::Alone => "alone",
        }
    }

    /// Its name for people.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Paceline => "with Paceline",
            Self::Alone => "alone",
        }
    }
}

/// One finished call; times are from the start of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) worker: usize,
    /// When the worker wanted to send it.
    pub(super) wanted: Duration,
    /// When it sent the attempt that went through.
    pub(super) sent: Duration,
    /// When that was answered.
    pub(super) answered: Duration,
    /// How often it was sent.
    pub(super) sends: u32,
}

/// A run that has come to its end.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) strategy: Strategy,
    pub(super) seed: u64,
    pub(super) workers: usize,
    /// What the provider saw.
    pub(super) sends: u64,
    /// What it refused.
    pub(super) refused: u64,
    /// What a scheduler needs that knows the meters exactly.
    pub(super) clairvoyant: Duration,
    /// What its workers counted.
    pub(super) by_workers: Counted,
}

/// The figures of a run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) strategy: Strategy,
    pub(super) seed: u64,
    pub(super) calls: usize,
    pub(super) sends: u64,
    pub(super) refused: u64,
    /// From the start to the last answer, in seconds.
    pub(super) makespan_s: f64,
    /// The least that any scheduler could need, in seconds.
    pub(super) clairvoyant_s: f64,
    /// From wanting to send to sending what went through: half of the calls waited no longer, in seconds.
    pub(super) wait_p50_s: f64,
    /// 99 of 100 waited no longer, in seconds.
    pub(super) wait_p99_s: f64,
    /// How evenly workers got on, 1: all the same (Jain, Chiu and Hawe, DEC-TR-301, 1984).
    pub(super) jain: f64,
    /// Share of calls that an SDK would have given up, with the retries it makes unless told otherwise.
    pub(super) lost_share: f64,
    /// Time spent waiting, summed over the fleet, by source.
    pub(super) delays: BTreeMap<&'static str, Duration>,
    /// Time spent in calls that the provider refused, summed over the fleet: no delay by a source, and lost all the same.
    pub(super) in_refused: Duration,
}

impl Outcome {
    /// Sums up a run.
    pub(super) fn new(run: Run) -> Self {
        let Counted { done, delays, refused: in_refused } = run.by_workers;
        let calls = done.len();
        Self {
            strategy: run.strategy,
            seed: run.seed,
            calls,
            sends: run.sends,
            refused: run.refused,
            makespan_s: done.iter().map(|done| done.answered).max().unwrap_or_default().as_secs_f64(),
            clairvoyant_s: run.clairvoyant.as_secs_f64(),
            wait_p50_s: wait_s(&done, 0.5),
            wait_p99_s: wait_s(&done, 0.99),
            jain: jain(&rates(&done, run.workers)),
            lost_share: share(done.iter().filter(|done| done.sends > SDK_SENDS).count() as f64, calls as f64),
            delays,
            in_refused,
        }
    }

    /// How many times as long it took as the least any scheduler could need.
    pub(super) fn times(&self) -> f64 {
        share(self.makespan_s, self.clairvoyant_s)
    }

    /// Share of sent calls that the provider refused.
    pub(super) fn refused_share(&self) -> f64 {
        share(self.refused as f64, self.sends as f64)
    }

    /// Calls sent per call that was wanted.
    pub(super) fn sends_per_call(&self) -> f64 {
        share(self.sends as f64, self.calls as f64)
    }

    /// Whether it was near the best possible and hardly refused.
    pub(super) fn is_good(&self) -> bool {
        self.calls > 0 && self.times() <= MOST_TIMES && self.refused_share() <= MOST_REFUSED
    }

    /// The line that programs read; the simulator writes the same.
    pub(super) fn to_json(&self) -> Value {
        let delays: serde_json::Map<String, Value> =
            self.delays.iter().map(|(source, length)| ((*source).to_owned(), rounded(length.as_secs_f64()))).collect();
        json!({
            "scenario": "demo",
            "strategy": self.strategy.name(),
            "seed": self.seed,
            "makespan_s": rounded(self.makespan_s),
            "clairvoyant_s": rounded(self.clairvoyant_s),
            "rejected_share": rounded(self.refused_share()),
            "calls_per_job": rounded(self.sends_per_call()),
            "wait_p50_s": rounded(self.wait_p50_s),
            "wait_p99_s": rounded(self.wait_p99_s),
            "jain": rounded(self.jain),
            "pass": self.is_good(),
            "delay_s_by_source": delays,
        })
    }
}

/// Jain's index of fairness: 1 when all are the same, 1/n when one has everything; 1 for nobody.
fn jain(values: &[f64]) -> f64 {
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), value| (sum + value, squares + value * value));
    if squares > 0.0 { sum * sum / (values.len() as f64 * squares) } else { 1.0 }
}

/// Calls a second of each worker, from the start to its last answer.
fn rates(done: &[Done], workers: usize) -> Vec<f64> {
    let mut each = vec![(0_u32, Duration::ZERO); workers];
    for done in done {
        if let Some((calls, last)) = each.get_mut(done.worker) {
            *calls += 1;
            *last = done.answered.max(*last);
        }
    }
    each.into_iter().map(|(calls, last)| share(f64::from(calls), last.as_secs_f64())).collect()
}

/// What no more than this part of the calls exceeded while they waited, in seconds, to three digits.
fn wait_s(done: &[Done], quantile: f64) -> f64 {
    const HOUR_US: u64 = 3_600_000_000;
    // The bounds are constants that the crate accepts.
    let Ok(mut waits) = Histogram::<u64>::new_with_bounds(1, HOUR_US, 3) else { return f64::NAN };
    for done in done {
        let wait = done.sent.saturating_sub(done.wanted).as_micros();
        waits.saturating_record(u64::try_from(wait).unwrap_or(HOUR_US).max(1));
    }
    waits.value_at_quantile(quantile) as f64 / 1e6
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Four decimals are more than these figures are worth.
fn rounded(value: f64) -> Value {
    json!((value * 1e4).round() / 1e4)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn done(worker: usize, wanted_ms: u64, sent_ms: u64, answered_ms: u64, sends: u32) -> Done {
        let ms = Duration::from_millis;
        Done { worker, wanted: ms(wanted_ms), sent: ms(sent_ms), answered: ms(answered_ms), sends }
    }

    pub(in crate::commands::demo) fn outcome(strategy: Strategy, refused: u64, done: Vec<Done>) -> Outcome {
        let delays = BTreeMap::from([("bucket", Duration::from_millis(1_500)), ("pacing", Duration::from_micros(12_340))]);
        Outcome::new(Run {
            strategy,
            seed: 7,
            workers: 2,
            sends: refused + done.len() as u64,
            refused,
            clairvoyant: Duration::from_millis(2_000),
            by_workers: Counted { done, delays, refused: Duration::from_millis(100 * refused) },
        })
    }

    fn four() -> Vec<Done> {
        vec![done(0, 0, 0, 300, 1), done(1, 0, 500, 800, 1), done(0, 300, 1_300, 1_600, 2), done(1, 800, 1_700, 2_100, 5)]
    }

    #[test]
    fn figures_are_those_of_the_calls() {
        let outcome = outcome(Strategy::Alone, 4, four());
        assert_eq!((outcome.calls, outcome.sends, outcome.refused), (4, 8, 4));
        assert!((outcome.makespan_s - 2.1).abs() < 1e-9 && (outcome.times() - 1.05).abs() < 1e-9);
        assert!((outcome.refused_share() - 0.5).abs() < 1e-9 && (outcome.sends_per_call() - 2.0).abs() < 1e-9);
        assert!((outcome.wait_p50_s - 0.5).abs() < 0.001, "{}", outcome.wait_p50_s);
        assert!((outcome.wait_p99_s - 1.0).abs() < 0.001, "{}", outcome.wait_p99_s);
        assert!((outcome.lost_share - 0.25).abs() < 1e-9, "one call was sent more than three times");
        assert!(outcome.jain > 0.97 && outcome.jain < 1.0, "{}", outcome.jain);
    }

    #[test]
    fn good_is_near_the_best_possible_and_hardly_refused() {
        assert!(outcome(Strategy::Paceline, 0, four()).is_good());
        assert!(!outcome(Strategy::Paceline, 1, four()).is_good(), "a fifth was refused");
        let mut late = four();
        late.push(done(0, 1_600, 1_900, 2_200, 1));
        assert!(!outcome(Strategy::Paceline, 0, late).is_good(), "1.1 times the best possible");
        assert!(!outcome(Strategy::Paceline, 0, Vec::new()).is_good(), "nothing was done");
    }

    #[test]
    fn fairness_is_jains_index() {
        for (values, expected) in
            [(&[1.0, 1.0, 1.0, 1.0][..], 1.0), (&[1.0, 0.0, 0.0, 0.0], 0.25), (&[], 1.0), (&[0.0], 1.0), (&[1.0, 3.0], 0.8)]
        {
            assert!((jain(values) - expected).abs() < 1e-9, "{values:?}");
        }
    }

    #[test]
    fn the_line_for_programs_has_exactly_these_fields() {
        let line = outcome(Strategy::Paceline, 0, four()).to_json().to_string();
        assert_eq!(
            line,
            r#"{"scenario":"demo","strategy":"paceline","seed":7,"makespan_s":2.1,"clairvoyant_s":2.0,"rejected_share":0.0,"#
                .to_owned()
                + r#""calls_per_job":1.0,"wait_p50_s":0.5002,"wait_p99_s":1.0004,"jain":0.9821,"pass":true,"#
                + r#""delay_s_by_source":{"bucket":1.5,"pacing":0.0123}}"#
        );
    }
}
