//! Runs brought to one step of time, so that what is drawn side by side was averaged over the same time.

use paceline_core::units::Span;

use crate::recording::{Recording, SOURCES};

/// The most steps of the longest run: about one for every two pixels.
const MOST_STEPS: f64 = 160.0;

/// One run, step by step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Series {
    /// The length of a step, in seconds.
    pub(super) step_s: f64,
    /// Calls sent, per second.
    pub(super) sent: Vec<f64>,
    /// Of them rejected or failed.
    pub(super) rejected: Vec<f64>,
    /// What the provider's meter held, on average.
    pub(super) level: Vec<f64>,
    /// Callers waiting, by source, on average.
    pub(super) waiting: Vec<[f64; SOURCES]>,
}

/// All runs, with the same step but for what their own bins make impossible.
pub(super) fn of_all(runs: &[Recording]) -> Vec<Series> {
    let longest = runs.iter().map(Recording::length).max().unwrap_or(Span::ZERO);
    let step_s = longest.as_secs_f64() / MOST_STEPS;
    runs.iter().map(|run| of(run, step_s)).collect()
}

fn of(run: &Recording, step_s: f64) -> Series {
    let bin_s = run.bin.as_secs_f64();
    if run.bins() == 0 || bin_s <= 0.0 {
        return Series::default();
    }
    // Whole bins, at least one; `as` saturates.
    let bins = (step_s / bin_s).ceil().max(1.0) as usize;
    let per_second = |counts: &[u32]| {
        let mean = |step: &[u32]| step.iter().map(|count| f64::from(*count)).sum::<f64>() / (step.len() as f64 * bin_s);
        counts.chunks(bins).map(mean).collect()
    };
    Series {
        step_s: bins as f64 * bin_s,
        sent: per_second(&run.sends),
        rejected: per_second(&run.rejections),
        level: run.level.chunks(bins).map(|step| mean(step.iter().copied())).collect(),
        waiting: run.waiting_by_source.chunks(bins).map(mean_by_source).collect(),
    }
}

fn mean_by_source(step: &[[f64; SOURCES]]) -> [f64; SOURCES] {
    std::array::from_fn(|source| mean(step.iter().map(|waiting| waiting.get(source).copied().unwrap_or(0.0))))
}

/// Values that are no numbers count as zero.
fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.map(|value| if value.is_finite() { value } else { 0.0 }).sum::<f64>() / count
}
