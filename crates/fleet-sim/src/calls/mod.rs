//! Calls of the past, from a CSV file or a recording: when each came, for which model and tenant, what it cost, how long it took.
//!
//! `table` cuts a CSV into fields and knows where each stood; `columns` finds out what each column holds; here each line
//! becomes a [`PastCall`]. Whatever is wrong is told with line and column, and nothing is taken by half. `trace` reads
//! recordings of the service.

mod columns;
mod table;
mod trace;

use std::sync::Arc;

use paceline_core::plan::Class;
use paceline_core::units::Span;

use columns::{Column, Holds};
use table::{Field, Table};
pub use trace::read_trace;

/// The most calls of one file.
pub const MOST_CALLS: usize = 1_000_000;
/// The model of calls whose model no column tells.
const NO_MODEL: &str = "model";
/// The largest cost, in units.
const MOST_UNITS: u64 = 1_000_000_000_000_000;
/// The longest a call may have taken, and the longest time between the first and the last.
const LONGEST: Span = Span::from_secs(31 * 86_400);

/// One call of the past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastCall {
    /// When it came, from the first one on.
    pub at: Span,
    /// For which model.
    pub model: Arc<str>,
    /// How urgent.
    pub class: Class,
    /// For whom; empty: nobody said.
    pub tenant: String,
    /// What it cost, in units per meter, those that the file tells.
    pub cost: Vec<(String, u64)>,
    /// What its caller said beforehand, where that is known; `None`: it knew what the call would cost.
    pub stated: Option<Vec<(String, u64)>>,
    /// How long it took, where the file tells.
    pub duration: Option<Span>,
}

/// All calls of a file, in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastCalls {
    /// The calls.
    pub calls: Vec<PastCall>,
    /// Columns that nothing was read from.
    pub ignored: Vec<String>,
}

/// What is wrong with a file of calls.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallsError {
    /// A field that cannot be read.
    #[error("{file}, line {line}, column {column} ({name}): `{text}` is {problem}")]
    Field {
        /// The file.
        file: String,
        /// From 1, the header included.
        line: usize,
        /// From 1.
        column: usize,
        /// The column's name.
        name: String,
        /// What stands there.
        text: String,
        /// What is wrong and what to write.
        problem: String,
    },
    /// A line that does not fit the header.
    #[error("{file}, line {line}: {problem}")]
    Line {
        /// The file.
        file: String,
        /// From 1, the header included.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// The file as a whole.
    #[error("{file}: {problem}")]
    File {
        /// The file.
        file: String,
        /// What is wrong and what to do.
        problem: String,
    },
}

/// Reads a CSV of past calls; `file` is what it is called in messages.
///
/// The first line names the columns, in any order and case: `time` (seconds, a length such as `1.5s`, or an RFC 3339 instant;
/// `time_ms` for milliseconds), and as far as known `model`, `class`, `tenant`, `duration`, `requests`, `tokens`,
/// `input_tokens`, `output_tokens`, and `cost_METER` for any other meter.
///
/// # Errors
/// The first field that cannot be read, with its line and column.
pub fn read(file: &str, text: &str) -> Result<PastCalls, CallsError> {
    let table = Table::cut(file, text)?;
    let columns = columns::of(&table);
    let whole = |problem: String| CallsError::File { file: file.to_owned(), problem };
    if !columns.iter().any(|column| matches!(column.holds, Holds::Time(_))) {
        let names = columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(whole(format!("no column says when calls came; name one `time`. There are: {names}")));
    }
    if let Some((name, twice)) = columns::told_twice(&columns) {
        return Err(whole(format!("the columns `{name}` and `{twice}` mean the same; leave one out")));
    }
    if table.rows.is_empty() {
        return Err(whole("there is a header and no call below it".to_owned()));
    }
    if table.rows.len() > MOST_CALLS {
        return Err(whole(format!("more than {MOST_CALLS} calls; cut the file into pieces")));
    }
    let mut calls = Vec::with_capacity(table.rows.len());
    for row in &table.rows {
        calls.push(call(&table, &columns, row)?);
    }
    Ok(PastCalls { calls: from_the_first_on(calls).map_err(whole)?, ignored: columns::ignored(&columns) })
}

/// One line, with its instant in microseconds as written.
fn call(table: &Table<'_>, columns: &[Column], row: &[Field]) -> Result<(i128, PastCall), CallsError> {
    let mut at = 0;
    let mut call = PastCall {
        at: Span::ZERO,
        model: NO_MODEL.into(),
        class: Class::default(),
        tenant: String::new(),
        cost: Vec::new(),
        stated: None,
        duration: None,
    };
    for (column, field) in columns.iter().zip(row) {
        let text = field.text.trim();
        let bad = |problem: &str| table.bad(&column.name, field, problem);
        let is_missing = text.is_empty();
        match &column.holds {
            Holds::Time(unit) => at = columns::instant(text, *unit).map_err(|problem| bad(&problem))?,
            Holds::Nothing => {}
            _ if is_missing => {}
            Holds::Model => call.model = text.into(),
            Holds::Tenant => text.clone_into(&mut call.tenant),
            Holds::Class => {
                let class = columns::class(text);
                call.class = class.ok_or_else(|| bad("no class; write interactive, normal or batch"))?;
            }
            Holds::Duration(unit) => {
                let length = columns::length(text, *unit).map_err(|problem| bad(&problem))?;
                if !(Span::ZERO..=LONGEST).contains(&length) {
                    return Err(bad("no duration between 0 and 31 days"));
                }
                call.duration = Some(length);
            }
            Holds::Cost(meter) => {
                let units = columns::units(text).filter(|units| *units <= MOST_UNITS);
                let units = units.ok_or_else(|| bad("no cost; write a whole number of units from 0 to 10^15"))?;
                call.cost.push((meter.clone(), units));
            }
        }
    }
    add_total(&mut call.cost);
    Ok((at, call))
}

/// Input and output add up to `tokens` where the file does not tell that.
fn add_total(cost: &mut Vec<(String, u64)>) {
    let of = |meter: &str| cost.iter().find(|(known, _)| known == meter).map(|(_, units)| *units);
    if of("tokens").is_some() {
        return;
    }
    if let (input, output) = (of("input_tokens"), of("output_tokens"))
        && input.or(output).is_some()
    {
        let total = input.unwrap_or(0).saturating_add(output.unwrap_or(0));
        cost.push(("tokens".to_owned(), total));
    }
}

/// In order of time, counted from the first.
fn from_the_first_on(mut calls: Vec<(i128, PastCall)>) -> Result<Vec<PastCall>, String> {
    calls.sort_by_key(|(at, _)| *at);
    let first = calls.first().map_or(0, |(at, _)| *at);
    let offset = |at: i128| i64::try_from(at - first).ok().map(Span::from_micros).filter(|span| *span <= LONGEST);
    let too_long = || {
        "more than 31 days lie between its first and its last call; are times in another unit? `time` is in seconds, `time_ms` in milliseconds"
            .to_owned()
    };
    calls.into_iter().map(|(at, call)| Ok(PastCall { at: offset(at).ok_or_else(too_long)?, ..call })).collect()
}

#[cfg(test)]
mod tests;
