//! What is wrong with a provider's file, as a configuration's problems are told: what, where, and what to write instead.

use std::fmt;

use serde_saphyr::{Error, Location};

/// How much of an offending line is shown.
const WIDEST_EXCERPT: usize = 160;
/// More values than this are not a file about a provider: aliases (`*name`) may expand to any number.
const MOST_EXPANDED: usize = 50_000;

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Line and column from 1; `None`: it is about no place.
    pub place: Option<(u64, u64)>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// The line itself.
    line: Option<String>,
}

/// Reads a file into `T`.
///
/// # Errors
/// The first mistake in it.
pub(super) fn read<T: serde::de::DeserializeOwned>(yaml: &str) -> Result<T, Mistake> {
    let mut limits = serde_saphyr::options::AliasLimits::default();
    limits.max_total_replayed_events = MOST_EXPANDED;
    let options = serde_saphyr::options! { alias_limits: limits, with_snippet: false, };
    serde_saphyr::from_str_with_options(yaml, options).map_err(|error| Mistake::of(&error, yaml))
}

impl Mistake {
    fn of(error: &Error, yaml: &str) -> Self {
        let (message, help) = told(error.without_snippet());
        let place = error.location().filter(|place| *place != Location::UNKNOWN).map(|place| (place.line(), place.column()));
        let place = place.map(|found| key_place(error.without_snippet(), yaml).unwrap_or(found));
        let line = place.and_then(|(line, _)| yaml.lines().nth(usize::try_from(line).ok()?.checked_sub(1)?));
        Self { place, message, help, line: line.map(|line| line.chars().take(WIDEST_EXCERPT).collect()) }
    }

    /// The mistake as a person reads it, in a file of this name.
    pub fn in_file<'m>(&'m self, file: &'m str) -> impl fmt::Display + 'm {
        InFile { mistake: self, file }
    }
}

struct InFile<'m> {
    mistake: &'m Mistake,
    file: &'m str,
}

impl fmt::Display for InFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mistake { place, message, help, line } = self.mistake;
        write!(f, "error: {message}\n  --> {}", self.file)?;
        if let Some((row, column)) = place {
            write!(f, ":{row}:{column}")?;
            if let Some(line) = line {
                let indent = usize::try_from(*column).unwrap_or(1).max(1);
                write!(f, "\n{row:>4} | {line}\n     | {:>indent$}", "^")?;
            }
        }
        match help {
            Some(help) => write!(f, "\n     = {help}"),
            None => Ok(()),
        }
    }
}

fn told(error: &Error) -> (String, Option<String>) {
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            (format!("unknown key `{}`", printable(field)), Some(instead(field, expected)))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            (format!("`{}` is none of the words that may stand here", printable(variant)), Some(instead(variant, expected)))
        }
        Error::SerdeMissingField { field, .. } => (
            format!("`{field}` is missing here"),
            Some(format!("add `{field}:`; docs/adding-a-provider.md says what it means")),
        ),
        Error::SerdeInvalidType { unexpected, expected, .. } | Error::SerdeInvalidValue { unexpected, expected, .. } => {
            (format!("{} does not fit here", printable(unexpected)), Some(format!("write {expected}")))
        }
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().map_or_else(|| "a key".to_owned(), |key| format!("`{}`", printable(key)));
            (format!("{key} is written twice"), Some("keep one of them".to_owned()))
        }
        other => {
            let said = other.to_string();
            // Told by its words: the parser wraps it where it happens within a list.
            if said.starts_with("alias replay") {
                let message = format!("its aliases (`*name`) expand to more than {MOST_EXPANDED} values");
                return (message, Some("write the values out; a file about a provider needs few anchors".to_owned()));
            }
            // The place is shown apart; the parser's own mention of it would only repeat it.
            (said.split(" at line ").next().unwrap_or(&said).to_owned(), None)
        }
    }
}

/// The key itself, where the parser only knows the map it stands in: the first line from there that begins with it.
fn key_place(error: &Error, yaml: &str) -> Option<(u64, u64)> {
    let Error::SerdeUnknownField { field, location, .. } = error else { return None };
    let from = usize::try_from(location.line()).ok()?.checked_sub(1)?;
    let begins = |line: &str| {
        let at = line.find(field.as_str())?;
        let is_key = line.get(at + field.len()..)?.trim_start_matches(['"', '\'']).trim_start().starts_with(':');
        let is_first = line.get(..at)?.chars().next_back().is_none_or(|before| !before.is_alphanumeric() && before != '_');
        (is_key && is_first).then(|| line.get(..at).map_or(0, |before| before.chars().count()))
    };
    let (row, column) = yaml.lines().enumerate().skip(from).find_map(|(row, line)| Some((row, begins(line)?)))?;
    Some((u64::try_from(row).ok()? + 1, u64::try_from(column).ok()? + 1))
}

/// What was most likely meant, or all there is.
fn instead(given: &str, known: &[&str]) -> String {
    let most = (given.chars().count() / 3).max(1);
    let near = known.iter().map(|word| (strsim::damerau_levenshtein(given, word), *word)).min();
    match near.filter(|(distance, _)| *distance <= most) {
        Some((_, word)) => format!("did you mean `{word}`?"),
        None if known.is_empty() => "remove it; nothing is known here".to_owned(),
        None => format!("known here: {}", known.join(", ")),
    }
}

fn printable(text: &str) -> String {
    text.chars().take(WIDEST_EXCERPT).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::facts::ProviderFacts;
    use super::*;

    fn said(yaml: &str) -> String {
        read::<ProviderFacts>(yaml).map(|_| ()).unwrap_err().in_file("acme.yaml").to_string()
    }

    #[test]
    fn a_misspelt_key_is_shown_with_what_was_meant() {
        assert_eq!(
            said("version: 1\ntitel: Acme\n"),
            "error: unknown key `titel`\n  --> acme.yaml:2:1\n   2 | titel: Acme\n     | ^\n     = did you mean `title`?"
        );
        let deep = said("title: Acme\nmeters:\n  requests:\n    refil: window\n");
        assert!(deep.starts_with("error: unknown key `refil`\n  --> acme.yaml:4:5\n"), "{deep}");
        assert!(deep.ends_with("= did you mean `refill`?"), "{deep}");
        let far = said("brightness: 3\n");
        assert!(far.contains("known here: ") && far.contains("meters"), "{far}");
    }

    #[test]
    fn a_value_that_does_not_fit_says_what_would() {
        let list = said("title: [Acme]\n");
        assert!(list.contains("acme.yaml:1:") && list.contains(" | title: [Acme]"), "{list}");
        let word = said("meters:\n  requests: {refill: sometimes}\n");
        assert!(word.contains("`sometimes` is none of the words that may stand here\n  --> acme.yaml:2:"), "{word}");
        assert!(word.contains("window"), "{word}");
        let number = said("version: soon\n");
        assert!(number.contains("acme.yaml:1:10"), "{number}");
        assert!(said("a: [").contains("--> acme.yaml:"));
    }

    #[test]
    fn aliases_that_never_end_are_refused() {
        let mut yaml = "also_called:\n- &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..9 {
            yaml.push_str(&format!("- &a{n} [{}]\n", vec![format!("*a{}", n - 1); 10].join(", ")));
        }
        let told = read::<serde_json::Value>(&yaml).unwrap_err().in_file("acme.yaml").to_string();
        assert!(told.starts_with("error: its aliases (`*name`) expand to more than 50000 values"), "{told}");
    }
}
