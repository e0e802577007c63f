//! Runs as pictures.

use std::path::{Path, PathBuf};

use paceline_core::units::Span;
use paceline_fleet_sim::plot::{Format, MOST_RUNS, PlotError, plot};
use paceline_fleet_sim::scenario::Scenario;
use paceline_fleet_sim::{Recording, run_recorded};

use super::SimulateFailure;

/// Runs are taken down in so many bins where they end as soon as they can; plots average over more where they do not.
const BINS: i64 = 300;
const BIN: (Span, Span) = (Span::from_millis(100), Span::from_secs(60));

/// One run that is drawn: its name in the picture, its scenario and strategy.
pub(super) type Drawn<'a> = (String, &'a Scenario, &'a str);

/// Reads the name of a plot's file, so that a wrong one is told before anything runs.
pub(super) fn file(text: &str) -> Result<PathBuf, PlotError> {
    let path = PathBuf::from(text);
    Format::of(&path).map(|_| path)
}

/// Refuses more runs than fit into one picture, and a folder that is not there, before anything runs.
pub(super) fn check(path: &Path, runs: usize) -> Result<(), SimulateFailure> {
    if runs > MOST_RUNS {
        return Err(PlotError::TooManyRuns { runs }.into());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.map(std::fs::metadata) {
        Some(Err(source)) => Err(SimulateFailure::PlotFile { path: path.display().to_string(), source }),
        _ => Ok(()),
    }
}

/// Makes these runs once more with one seed, and draws them side by side.
pub(super) fn write(path: &Path, runs: &[Drawn<'_>], seed: u64) -> Result<(), SimulateFailure> {
    let format = Format::of(path)?;
    let one_scenario =
        runs.iter().all(|(_, scenario, _)| runs.first().is_some_and(|(_, first, _)| first.name == scenario.name));
    let mut recordings: Vec<Recording> = Vec::new();
    for (name, scenario, strategy) in runs {
        let bin = bin(scenario, seed)?;
        let (_, mut recording) = run_recorded(scenario, strategy, seed, bin)?;
        recording.strategy.clone_from(name);
        if one_scenario {
            recording.title = title(scenario);
        }
        recordings.push(recording);
    }
    let bytes = plot(format, &recordings)?;
    let written = std::fs::write(path, bytes);
    written.map_err(|source| SimulateFailure::PlotFile { path: path.display().to_string(), source })
}

/// Fine enough for the shortest time in which the calls could be over.
fn bin(scenario: &Scenario, seed: u64) -> Result<Span, SimulateFailure> {
    let least = paceline_fleet_sim::least_makespan(scenario, seed)?;
    let rounded = Span::from_micros(least.as_micros() / BINS / 100_000 * 100_000);
    Ok(rounded.clamp(BIN.0, BIN.1))
}

/// The scenario's sentence without its full stop, so that a picture explains itself.
fn title(scenario: &Scenario) -> String {
    match scenario.about.trim_end_matches('.') {
        "" => scenario.name.clone(),
        about => format!("{}: {about}", scenario.name),
    }
}
