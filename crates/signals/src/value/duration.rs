//! Lengths of time written with units: Go's `6m0s`, protobuf's `57.24s`, prose's `33 seconds`, and clock form `1.00:30:02`.

use paceline_core::units::Span;

use super::number::Number;

/// Reads a whole text as one or more numbers with units: `17ms`, `1h2m3.5s`, `7h12m`, `2.12 days`, `1 minute 30 seconds`.
/// A number without a unit is not a duration.
pub(crate) fn parse(text: &str) -> Option<Span> {
    let (span, rest) = leading(text)?;
    rest.is_empty().then_some(span)
}

/// Reads a duration at the start of a text and returns what follows it. Parts may be joined by blanks, commas and `and`.
pub(crate) fn leading(text: &str) -> Option<(Span, &str)> {
    if let Some(iso) = text.strip_prefix(['P', 'p']) {
        return iso_8601(iso);
    }
    let mut rest = text;
    let mut sum: Option<Span> = None;
    // Compound durations have at most days, hours, minutes, seconds and fractions; more parts than that is not a duration.
    for _ in 0..7 {
        let Some((part, after)) = one_part(rest) else { break };
        sum = Some(sum.unwrap_or(Span::ZERO).saturating_add(part));
        rest = after;
        if rest.is_empty() {
            break;
        }
        let next = rest.trim_start_matches([' ', ',']);
        let next = next.strip_prefix("and ").map_or(next, str::trim_start);
        if one_part(next).is_none() {
            break;
        }
        rest = next;
    }
    sum.map(|span| (span, rest))
}

/// `T1M30S`, `1DT2H`, after the `P`: days, hours, minutes, seconds. Months have no length.
fn iso_8601(text: &str) -> Option<(Span, &str)> {
    let mut rest = text;
    let mut sum: Option<Span> = None;
    let mut units: &[(char, u64)] = &[('w', 7 * DAY), ('d', DAY)];
    for _ in 0..5 {
        if let Some(time) = rest.strip_prefix(['T', 't']) {
            (rest, units) = (time, &[('h', HOUR), ('m', MINUTE), ('s', SECOND)]);
        }
        let number_end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let (number, after) = rest.split_at_checked(number_end)?;
        let Some(number) = Number::parse(number) else { break };
        let unit = after.chars().next()?.to_ascii_lowercase();
        let (_, micros) = units.iter().find(|(name, _)| *name == unit)?;
        sum = Some(sum.unwrap_or(Span::ZERO).saturating_add(number.as_span(*micros)));
        rest = after.get(1..)?;
    }
    sum.map(|span| (span, rest))
}

/// Reads a clock form at the start of a text: `MM:SS` is not one (it could be hours), `HH:MM:SS` and `D.HH:MM:SS` are.
pub(crate) fn leading_clock(text: &str) -> Option<(Span, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(text.len());
    let (clock, rest) = text.split_at_checked(end)?;
    let clock = clock.trim_end_matches('.');
    let mut parts = clock.split(':');
    let (first, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let (days, hours) = first.split_once('.').unwrap_or(("0", first));
    let mut sum = Span::ZERO;
    for (text, unit_micros) in [(days, DAY), (hours, HOUR), (minutes, MINUTE), (seconds, SECOND)] {
        let number = Number::parse(text).filter(|number| !number.negative)?;
        sum = sum.saturating_add(number.as_span(unit_micros));
    }
    Some((sum, rest))
}

/// Microseconds per unit; `None` for a word that is no unit of time.
fn unit_micros(word: &str) -> Option<u64> {
    const UNITS: [(u64, &[&str]); 7] = [
        (1, &["us", "µs", "μs"]),
        (MILLISECOND, &["ms", "msec", "msecs", "millis", "millisecond", "milliseconds"]),
        (SECOND, &["s", "sec", "secs", "second", "seconds"]),
        (MINUTE, &["m", "min", "mins", "minute", "minutes"]),
        (HOUR, &["h", "hr", "hrs", "hour", "hours"]),
        (DAY, &["d", "day", "days"]),
        (7 * DAY, &["w", "week", "weeks"]),
    ];
    UNITS.iter().find(|(_, words)| words.iter().any(|known| known.eq_ignore_ascii_case(word))).map(|(micros, _)| *micros)
}

const MILLISECOND: u64 = 1_000;
const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

fn one_part(text: &str) -> Option<(Span, &str)> {
    let (number, rest) = leading_number(text)?;
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    let unit_end = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at_checked(unit_end)?;
    let rest = rest.strip_prefix("(s)").unwrap_or(rest);
    if unit == "ns" {
        return Some((Span::from_micros(number.as_span(1).as_micros().saturating_add(999) / 1_000), rest));
    }
    Some((number.as_span(unit_micros(unit)?), rest))
}

/// A number, with or without commas between its thousands.
fn leading_number(text: &str) -> Option<(Number, &str)> {
    let end = |is_part: fn(char) -> bool| text.find(|c: char| !is_part(c)).unwrap_or(text.len());
    let (number, rest) = text.split_at_checked(end(|c| c.is_ascii_digit() || c == '.'))?;
    if rest.starts_with(',') {
        let (grouped, rest) = text.split_at_checked(end(|c| c.is_ascii_digit() || c == ',' || c == '.'))?;
        if let Some(number) = without_separators(grouped) {
            return Some((number, rest));
        }
    }
    Some((Number::parse(number)?, rest))
}

/// `86,400.5`: one to three digits, then groups of three.
fn without_separators(text: &str) -> Option<Number> {
    let whole = text.split('.').next()?;
    let mut groups = whole.split(',');
    let is_grouped = (1..=3).contains(&groups.next()?.len()) && whole.contains(',') && groups.all(|group| group.len() == 3);
    is_grouped.then(|| Number::parse(&text.replace(',', ""))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_with_units() {
        for (text, millis) in [
            ("17ms", Some(17.0)),
            ("1s", Some(1_000.0)),
            ("6m0s", Some(360_000.0)),
            ("1m", Some(60_000.0)),
            ("2m59.56s", Some(179_560.0)),
            ("23h47m36.648s", Some(85_656_648.0)),
            ("7h12m", Some(25_920_000.0)),
            ("57.238747106s", Some(57_238.748)),
            ("853µs", Some(0.853)),
            ("500ns", Some(0.001)),
            ("0s", Some(0.0)),
            ("2.12 days", Some(183_168_000.0)),
            ("1 minute 30 seconds", Some(90_000.0)),
            ("33 seconds", Some(33_000.0)),
            ("1 hour and 5 minutes", Some(3_900_000.0)),
            ("1 hour, 5 minutes", Some(3_900_000.0)),
            ("2 minute(s)", Some(120_000.0)),
            ("86,400 seconds", Some(86_400_000.0)),
            ("8,64 seconds", None),
            ("PT1M30.5S", Some(90_500.0)),
            ("P1DT2H", Some(93_600_000.0)),
            ("P1M", None),
            ("P", None),
            ("pizza", None),
            ("60", None),
            ("", None),
            ("s", None),
            ("-1s", None),
            ("1s later", None),
            ("1parsec", None),
            ("1s1", None),
            ("1.s", None),
        ] {
            let read = parse(text).map(|span| span.as_micros() as f64 / 1e3);
            assert_eq!(read, millis, "{text}");
        }
    }

    #[test]
    fn clock_forms() {
        for (text, secs) in [
            ("00:30:02.", Some(1_802)),
            ("1.00:30:02", Some(88_202)),
            ("00:30:02 and", Some(1_802)),
            ("30:02", None),
            ("1:2:3:4", None),
            ("", None),
        ] {
            assert_eq!(leading_clock(text).map(|(span, _)| span.as_micros() / 1_000_000), secs, "{text}");
        }
    }
}
