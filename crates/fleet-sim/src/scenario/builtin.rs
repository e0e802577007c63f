//! The scenarios in the binary.

use std::path::Path;

use super::{Scenario, read};
use crate::error::{SimulateError, suggest};

/// The scenarios of the suite: name and file.
pub const SUITE: &[(&str, &str)] = &[
    ("named-bucket", include_str!("../../scenarios/named-bucket.yaml")),
    ("window", include_str!("../../scenarios/window.yaml")),
    ("no-headers", include_str!("../../scenarios/no-headers.yaml")),
    ("unknown-limit", include_str!("../../scenarios/unknown-limit.yaml")),
    ("no-headers-unknown", include_str!("../../scenarios/no-headers-unknown.yaml")),
    ("no-headers-window", include_str!("../../scenarios/no-headers-window.yaml")),
    ("no-headers-second", include_str!("../../scenarios/no-headers-second.yaml")),
    ("foreign", include_str!("../../scenarios/foreign.yaml")),
    ("foreign-no-headers", include_str!("../../scenarios/foreign-no-headers.yaml")),
    ("foreign-window", include_str!("../../scenarios/foreign-window.yaml")),
    ("limit-halves", include_str!("../../scenarios/limit-halves.yaml")),
    ("limit-doubles", include_str!("../../scenarios/limit-doubles.yaml")),
    ("per-second", include_str!("../../scenarios/per-second.yaml")),
    ("outage-retry-after", include_str!("../../scenarios/outage-retry-after.yaml")),
    ("outage-no-header", include_str!("../../scenarios/outage-no-header.yaml")),
    ("cautious-start", include_str!("../../scenarios/cautious-start.yaml")),
    ("wrong-estimates", include_str!("../../scenarios/wrong-estimates.yaml")),
    ("workers-crash", include_str!("../../scenarios/workers-crash.yaml")),
    ("leavers", include_str!("../../scenarios/leavers.yaml")),
    ("late-wakers", include_str!("../../scenarios/late-wakers.yaml")),
    ("two-groups", include_str!("../../scenarios/two-groups.yaml")),
    ("second-fleet-10", include_str!("../../scenarios/second-fleet-10.yaml")),
    ("second-fleet-50", include_str!("../../scenarios/second-fleet-50.yaml")),
    ("second-fleet-90", include_str!("../../scenarios/second-fleet-90.yaml")),
    ("second-fleet-share", include_str!("../../scenarios/second-fleet-share.yaml")),
    ("replica-lost", include_str!("../../scenarios/replica-lost.yaml")),
    ("mixed-sizes", include_str!("../../scenarios/mixed-sizes.yaml")),
    ("priorities", include_str!("../../scenarios/priorities.yaml")),
    ("guarantee", include_str!("../../scenarios/guarantee.yaml")),
    ("tenant-weights", include_str!("../../scenarios/tenant-weights.yaml")),
    ("tenants", include_str!("../../scenarios/tenants.yaml")),
];

/// Which scenarios to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All of the suite.
    Suite,
    /// These: names, or paths to files.
    Named(Vec<String>),
}

/// The scenario of the suite with this name.
///
/// # Errors
/// There is none.
pub fn builtin(name: &str) -> Result<Scenario, SimulateError> {
    let Written { name, file, text } = built_in(name)?;
    read(&name, &file, &text)
}

fn built_in(name: &str) -> Result<Written, SimulateError> {
    match SUITE.iter().find(|(known, _)| *known == name) {
        Some((name, text)) => Ok(Written { name: (*name).to_owned(), file: format!("{name}.yaml"), text: (*text).to_owned() }),
        None => Err(SimulateError::UnknownScenario {
            name: name.to_owned(),
            suggestion: suggest(name, SUITE.iter().map(|(known, _)| *known)),
        }),
    }
}

/// The selected scenarios. `load` reads a file: this crate does no I/O.
///
/// # Errors
/// An unknown name, a file that cannot be read, what is wrong in it.
pub fn select(
    selection: &Selection,
    mut load: impl FnMut(&Path) -> std::io::Result<String>,
) -> Result<Vec<Scenario>, SimulateError> {
    match selection {
        Selection::Suite => SUITE.iter().map(|(name, text)| read(name, &format!("{name}.yaml"), text)).collect(),
        Selection::Named(names) => names.iter().map(|name| one(name, &mut load)).collect(),
    }
}

/// A scenario before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its name in tables.
    pub name: String,
    /// Its file's name in messages.
    pub file: String,
    /// The file.
    pub text: String,
}

/// The file of the scenario with this name or path.
///
/// # Errors
/// An unknown name, a file that cannot be read.
pub fn written(name: &str, mut load: impl FnMut(&Path) -> std::io::Result<String>) -> Result<Written, SimulateError> {
    let path = Path::new(name);
    let is_path = name.contains(['/', '\\']) || path.extension().is_some();
    if !is_path {
        return built_in(name);
    }
    let text = load(path)
        .map_err(|error| SimulateError::File { file: name.to_owned(), problem: format!("cannot be read: {error}") })?;
    let stem = path.file_stem().map_or_else(|| name.to_owned(), |stem| stem.to_string_lossy().into_owned());
    Ok(Written { name: stem, file: name.to_owned(), text })
}

fn one(name: &str, load: &mut impl FnMut(&Path) -> std::io::Result<String>) -> Result<Scenario, SimulateError> {
    let Written { name, file, text } = written(name, load)?;
    read(&name, &file, &text)
}
