//! What one run looked like over time, in bins of equal length: what plots are drawn from.

use paceline_core::signal::Source;
use paceline_core::units::Span;

/// How many sources of delay there are.
pub const SOURCES: usize = Source::ALL.len();

/// One run of one strategy over time. All series begin with the run; bin `i` covers `i * bin` until `(i + 1) * bin`.
/// They have the same length, the last bin being the one in which the last call ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// The scenario's name and what else the run was about, for the title of a plot.
    pub title: String,
    /// The strategy's name; `paceline` is ours.
    pub strategy: String,
    /// The seed of the run.
    pub seed: u64,
    /// The length of a bin.
    pub bin: Span,
    /// Calls sent to the provider in each bin, whatever became of them.
    pub sends: Vec<u32>,
    /// Those of them that the provider refused or failed.
    pub rejections: Vec<u32>,
    /// What the provider's scarcest meter held at the end of each bin, in whole units; below zero when it is in debt.
    pub level: Vec<f64>,
    /// Which meter that is: `requests`, `tokens`, ...
    pub level_meter: String,
    /// The most that meter can hold, in whole units, when the run began.
    pub level_capacity: f64,
    /// How many callers waited because of each source, averaged over the bin; by the source's number ([`Source::ALL`]). A worker
    /// that waits on its own account (a strategy without us) counts under the source that made it wait.
    pub waiting_by_source: Vec<[f64; SOURCES]>,
}

impl Recording {
    /// An empty recording.
    pub fn new(title: &str, strategy: &str, seed: u64, bin: Span) -> Self {
        Self { title: title.to_owned(), strategy: strategy.to_owned(), seed, bin, ..Self::default() }
    }

    /// How many bins there are.
    pub fn bins(&self) -> usize {
        self.sends.len()
    }

    /// The length of the run, in whole bins.
    pub fn length(&self) -> Span {
        Span::from_micros(self.bin.as_micros().saturating_mul(i64::try_from(self.bins()).unwrap_or(i64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lasts_as_long_as_its_bins() {
        let mut recording = Recording::new("window", "paceline", 1, Span::from_millis(500));
        recording.sends = vec![3, 0, 1];
        assert_eq!(recording.length(), Span::from_millis(1_500));
    }
}
