//! What columns hold, by their names; and how what stands in them is read.

use paceline_core::plan::Class;
use paceline_core::units::Span;

use super::table::Table;

/// What bare numbers of a column of times count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Millis,
    Micros,
}

/// What a column holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    Time(Unit),
    Duration(Unit),
    Model,
    Class,
    Tenant,
    /// Units of this meter.
    Cost(String),
    /// Nothing of ours.
    Nothing,
}

/// A column with its name as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) holds: Holds,
}

pub(super) fn of(table: &Table<'_>) -> Vec<Column> {
    let column = |name: &str| Column { name: name.trim().to_owned(), holds: holds(name) };
    table.header.iter().map(|field| column(&field.text)).collect()
}

/// Two columns for the same, if there are any.
pub(super) fn told_twice(columns: &[Column]) -> Option<(&str, &str)> {
    let kind = |holds: &Holds| match holds {
        Holds::Time(_) => Holds::Time(Unit::Seconds),
        Holds::Duration(_) => Holds::Duration(Unit::Seconds),
        other => other.clone(),
    };
    columns.iter().enumerate().find_map(|(index, column)| {
        let same = |other: &&Column| other.holds != Holds::Nothing && kind(&other.holds) == kind(&column.holds);
        columns.iter().skip(index + 1).find(same).map(|other| (column.name.as_str(), other.name.as_str()))
    })
}

pub(super) fn ignored(columns: &[Column]) -> Vec<String> {
    let nothing = columns.iter().filter(|column| column.holds == Holds::Nothing);
    nothing.map(|column| column.name.clone()).filter(|name| !name.is_empty()).collect()
}

/// Names in the usual spellings of logs and of providers' usage objects.
fn holds(name: &str) -> Holds {
    let name = name.trim().to_lowercase().replace(['-', ' ', '.'], "_");
    let (base, unit) = match name.rsplit_once('_') {
        Some((base, "s" | "sec" | "secs" | "seconds")) => (base, Unit::Seconds),
        Some((base, "ms" | "millis" | "milliseconds")) => (base, Unit::Millis),
        Some((base, "us" | "micros" | "microseconds")) => (base, Unit::Micros),
        _ => (name.as_str(), Unit::Seconds),
    };
    match base {
        "time" | "at" | "t" | "ts" | "timestamp" | "offset" | "start" | "started" | "started_at" | "start_time"
        | "time_offset" => {
            return Holds::Time(unit);
        }
        "duration" | "latency" | "took" | "elapsed" => return Holds::Duration(unit),
        _ => {}
    }
    match name.as_str() {
        "model" => Holds::Model,
        "class" | "priority" => Holds::Class,
        "tenant" | "team" | "customer" => Holds::Tenant,
        "requests" | "tokens" | "input_tokens" | "output_tokens" => Holds::Cost(name),
        "total_tokens" => Holds::Cost("tokens".to_owned()),
        "prompt_tokens" => Holds::Cost("input_tokens".to_owned()),
        "completion_tokens" => Holds::Cost("output_tokens".to_owned()),
        _ => match name.strip_prefix("cost_") {
            Some(meter) if !meter.is_empty() => Holds::Cost(meter.to_owned()),
            _ => Holds::Nothing,
        },
    }
}

/// An instant in microseconds: from wherever numbers are counted, or from the Unix epoch.
pub(super) fn instant(text: &str, unit: Unit) -> Result<i128, String> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(i128::from(time.as_microsecond()));
    }
    length(text, unit).map(|span| i128::from(span.as_micros())).map_err(|_| {
        "no time; write seconds, a length such as 1.5s or 200ms, or an instant such as 2026-11-29T12:00:00Z".to_owned()
    })
}

/// A number in the column's unit, or a length with its own.
pub(super) fn length(text: &str, unit: Unit) -> Result<Span, String> {
    let per_unit = match unit {
        Unit::Seconds => 1e6,
        Unit::Millis => 1e3,
        Unit::Micros => 1.0,
    };
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => {
            let micros = (number * per_unit).round();
            // Beyond this, `as` would bend the number.
            if micros.abs() < 9e18 {
                Ok(Span::from_micros(micros as i64))
            } else {
                Err("no length that we can count".to_owned())
            }
        }
        _ => paceline_provider_sim::parse_span(text)
            .map_err(|_| "no length; write a number, or such as 1.5s or 200ms".to_owned()),
    }
}

/// Whole units; `1200.0` is what some programs write for them.
pub(super) fn units(text: &str) -> Option<u64> {
    text.strip_suffix(".0").unwrap_or(text).parse().ok()
}

/// Our names, and what people call them elsewhere.
pub(super) fn class(text: &str) -> Option<Class> {
    match text.to_lowercase().as_str() {
        "interactive" | "high" => Some(Class::Interactive),
        "normal" | "default" | "medium" => Some(Class::Normal),
        "batch" | "low" => Some(Class::Batch),
        _ => None,
    }
}
