//! What is wrong with a configuration, where, and what to do about it.

use std::fmt;

use serde_json::{Value, json};

use crate::redact;

/// How many problems of one file are kept; the rest are only counted.
const MOST_PROBLEMS: usize = 100;
/// How much of an offending line is shown.
const WIDEST_EXCERPT: usize = 160;

/// What stands for the file where flags and variables are wrong.
pub(crate) const FLAGS: &str = "flags and variables";

/// A place in the file: line and column from 1, the column in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pos {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for Pos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where in the file; `None` when it is not about a place (the file cannot be read, a flag, a variable).
    pub pos: Option<Pos>,
    /// The setting, as a dotted path from the top; empty for the file itself.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// The offending line with anything secret masked, once the text is known.
    excerpt: Option<String>,
}

impl Problem {
    /// A problem at a place of the file.
    pub(crate) fn at(pos: Pos, path: &str, message: impl Into<String>) -> Self {
        Self { pos: Some(pos), path: path.to_owned(), message: message.into(), help: None, excerpt: None }
    }

    /// A problem without a place.
    pub(crate) fn nowhere(path: &str, message: impl Into<String>) -> Self {
        Self { pos: None, path: path.to_owned(), message: message.into(), help: None, excerpt: None }
    }

    /// The same problem with advice.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same problem of a value that stands in no file.
    pub(crate) fn without_place(self) -> Self {
        Self { pos: None, ..self }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, file: &str) -> fmt::Result {
        writeln!(f, "error: {}", self.message)?;
        match (self.pos, self.path.as_str()) {
            (Some(pos), "") => writeln!(f, "  --> {file}:{pos}")?,
            (Some(pos), path) => writeln!(f, "  --> {file}:{pos} in {path}")?,
            (None, "") => writeln!(f, "  --> {file}")?,
            (None, path) => writeln!(f, "  --> {path}")?,
        }
        let gutter = self.pos.map_or(4, |pos| pos.line.to_string().len().max(4));
        if let (Some(pos), Some(excerpt)) = (self.pos, &self.excerpt) {
            let column = usize::try_from(pos.column).unwrap_or(1).max(1);
            writeln!(f, "{:>gutter$} | {excerpt}", pos.line)?;
            writeln!(f, "{:>gutter$} | {:>column$}", "", underline(excerpt, column))?;
        }
        match &self.help {
            Some(help) => writeln!(f, "{:>gutter$} = {help}", ""),
            None => Ok(()),
        }
    }

    fn to_json(&self, file: &str) -> Value {
        json!({
            "file": file,
            "line": self.pos.map(|pos| pos.line),
            "column": self.pos.map(|pos| pos.column),
            "path": self.path,
            "message": self.message,
            "help": self.help,
        })
    }
}

/// Carets under the word that begins at `column`; the first one is what the caller right-aligns to that column.
fn underline(line: &str, column: usize) -> Carets {
    let mut rest = line.chars().skip(column - 1);
    let length = match rest.next() {
        Some(quote @ ('"' | '\'')) => rest.position(|c| c == quote).map_or(1, |closing| closing + 2),
        Some('{' | '[') | None => 1,
        Some(_) => 1 + rest.take_while(|c| !c.is_whitespace() && !matches!(c, ',' | '}' | ']' | ':')).count(),
    };
    Carets { length }
}

/// Carets whose first one is aligned by the formatter's width.
struct Carets {
    length: usize,
}

impl fmt::Display for Carets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = f.width().unwrap_or(1);
        write!(f, "{:>column$}{}", "^", "^".repeat(self.length - 1))
    }
}

/// Everything that is wrong with one configuration, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The file's name, as given.
    pub file: String,
    /// What is wrong, in the order of the file; at least one, at most a hundred.
    pub problems: Vec<Problem>,
    /// How many more there are that were not kept.
    pub not_shown: usize,
}

impl ConfigErrors {
    /// Whether flags and variables are wrong, and not a file.
    pub fn are_of_flags(&self) -> bool {
        self.file == FLAGS
    }

    /// For programs: `{"file", "line", "column", "path", "message", "help"}` each.
    pub fn to_json(&self) -> Value {
        Value::Array(self.problems.iter().map(|problem| problem.to_json(&self.file)).collect())
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            problem.write(f, &self.file)?;
            writeln!(f)?;
        }
        let count = self.problems.len() + self.not_shown;
        let shown = if self.not_shown > 0 { format!(" ({} shown)", self.problems.len()) } else { String::new() };
        write!(f, "{count} {} in {}{shown}", if count == 1 { "problem" } else { "problems" }, self.file)
    }
}

impl std::error::Error for ConfigErrors {}

/// Collects problems while the rest of the file is still read.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    found: Vec<Problem>,
    not_shown: usize,
}

impl Problems {
    pub(crate) fn add(&mut self, problem: Problem) {
        if self.found.len() < MOST_PROBLEMS {
            self.found.push(problem);
        } else {
            self.not_shown += 1;
        }
    }

    /// Whether something is wrong with the setting at this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.found.iter().any(|problem| problem.path == path)
    }

    /// What was found, to be passed on.
    pub(crate) fn drain(self) -> impl Iterator<Item = Problem> {
        self.found.into_iter()
    }

    /// `value` when nothing is wrong, else everything that is, with the offending lines of `text`.
    pub(crate) fn into_result<T>(mut self, value: T, file: &str, text: &str) -> Result<T, ConfigErrors> {
        if self.found.is_empty() {
            return Ok(value);
        }
        self.found.sort_by_key(|problem| problem.pos);
        for problem in &mut self.found {
            problem.excerpt = problem.pos.and_then(|pos| excerpt(text, pos));
        }
        Err(ConfigErrors { file: file.to_owned(), problems: self.found, not_shown: self.not_shown })
    }
}

/// The line of `pos`, secrets masked and control characters replaced; `None` when the place lies too far right to be shown.
fn excerpt(text: &str, pos: Pos) -> Option<String> {
    let line = text.trim_start_matches('\u{feff}').lines().nth(usize::try_from(pos.line).ok()?.checked_sub(1)?)?;
    if usize::try_from(pos.column).ok()? > WIDEST_EXCERPT {
        return None;
    }
    let masked = redact::line(line);
    Some(masked.chars().take(WIDEST_EXCERPT).map(|c| if c.is_control() { ' ' } else { c }).collect())
}

/// The candidate that `given` most likely meant: at most a third of its letters differ, at least one may.
pub(crate) fn suggest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (given.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(given, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= most && !candidate.is_empty())
        .min()
        .map(|(_, candidate)| candidate)
}

/// A dotted path one step deeper; names that would read badly are quoted.
pub(crate) fn join(path: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let shown = redact::name(key);
    let step = if plain { shown } else { format!("\"{}\"", shown.escape_debug()) };
    if path.is_empty() { step } else { format!("{path}.{step}") }
}
