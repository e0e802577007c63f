//! What can be wrong with a simulation.

use paceline_config::ConfigErrors;

/// Why a simulation cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// No scenario has this name.
    #[error("there is no scenario `{name}`{}; `paceline simulate --list` names them all, and a path to a file of your own works too", did_you_mean(.suggestion))]
    UnknownScenario {
        /// As given.
        name: String,
        /// What it may have meant.
        suggestion: Option<String>,
    },
    /// No strategy has this name.
    #[error("there is no strategy `{name}`{}; `paceline simulate --list` names them all", did_you_mean(.suggestion))]
    UnknownStrategy {
        /// As given.
        name: String,
        /// What it may have meant.
        suggestion: Option<String>,
    },
    /// A scenario file cannot be read as one.
    #[error("{file}: {problem}")]
    File {
        /// Its name.
        file: String,
        /// What is wrong, with the place.
        problem: String,
    },
    /// A scenario asks for what cannot be.
    #[error("scenario `{name}`: {problem}")]
    Scenario {
        /// Its name.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// The service's configuration in it is wrong.
    #[error("the service's configuration in scenario `{name}` is wrong\n{problems}")]
    Config {
        /// The scenario's name.
        name: String,
        /// What is wrong with it.
        problems: ConfigErrors,
    },
}

fn did_you_mean(suggestion: &Option<String>) -> String {
    suggestion.as_ref().map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

/// The candidate that `given` most likely meant.
pub(crate) fn suggest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let most = (given.chars().count() / 3).max(1);
    let near = candidates.into_iter().map(|candidate| (strsim::damerau_levenshtein(given, candidate), candidate));
    near.filter(|(distance, _)| *distance <= most).min().map(|(_, candidate)| candidate.to_owned())
}
