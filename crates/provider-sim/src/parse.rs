//! Amounts, lengths of time and limits as people write them on a command line.

use std::str::FromStr;

use paceline_core::units::Span;

use crate::error::SimError;
use crate::limit::{Limit, LimitGroup, MOST_UNITS, ModelPattern, REQUESTS};

/// Reads `200ms`, `1.5s`, `2min`, `1h`, `1day`; the unit is required.
pub fn parse_span(text: &str) -> Result<Span, SimError> {
    let bad = |problem| SimError::BadSpan { text: text.to_owned(), problem };
    let (number, unit) = split_number(text.trim());
    let number: f64 = number.parse().map_err(|_| bad("it does not start with a number"))?;
    if number < 0.0 {
        return Err(bad("it must not be negative"));
    }
    match unit {
        "" if number == 0.0 => Ok(Span::ZERO),
        "" => Err(bad("the unit is missing")),
        unit => window_unit(unit).map(|unit| times(number, unit)).ok_or_else(|| bad("no such unit")),
    }
}

/// Reads `1200`, `50k`, `1.5M`, `2G`: whole units, at least one.
pub fn parse_amount(text: &str) -> Result<u64, SimError> {
    let bad = |problem| SimError::BadAmount { text: text.to_owned(), problem };
    let (number, suffix) = split_number(text.trim());
    let number: f64 = number.parse().map_err(|_| bad("it does not start with a number"))?;
    let factor = match suffix {
        "" => 1.0,
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        "g" | "G" | "B" => 1e9,
        _ => return Err(bad("no such suffix")),
    };
    let units = number * factor;
    if !(1.0..=MOST_UNITS as f64).contains(&units) {
        return Err(bad("it must be between 1 and 10^15"));
    }
    if (units - units.round()).abs() > 1e-6 {
        return Err(bad("it is not a whole number of units"));
    }
    Ok(units.round() as u64)
}

/// Reads `30%` or `12.5%`, above 0 and at most 100,000 %, in millionths.
pub fn parse_percent(text: &str) -> Result<u64, SimError> {
    let bad = |problem| SimError::BadPercent { text: text.to_owned(), problem };
    let number = text.trim().strip_suffix('%').ok_or_else(|| bad("the % behind it is missing"))?;
    let percent: f64 = number.trim().parse().map_err(|_| bad("before the % stands no number"))?;
    let ppm = percent * 10_000.0;
    if (1.0..=1e9).contains(&ppm) { Ok(ppm.round() as u64) } else { Err(bad("it must be above 0 and at most 100,000 %")) }
}

/// Reads one group of limits: `[MODELS:]LIMIT[,LIMIT]...` with `LIMIT` = `[METER=]UNITS/WINDOW`, followed by `burst=UNITS` where
/// less (or more) than the whole limit may go at once. `each` is false in what it returns.
pub fn parse_limits(text: &str) -> Result<LimitGroup, SimError> {
    let bad = |problem: &str| SimError::BadLimit { text: text.to_owned(), problem: problem.to_owned() };
    let head = text.find(['=', '/']).and_then(|end| text.get(..end)).unwrap_or(text);
    let (models, rest) = match head.rfind(':') {
        Some(colon) => (text.get(..colon).unwrap_or_default(), text.get(colon + 1..).unwrap_or_default()),
        None => ("*", text),
    };
    if models.is_empty() {
        return Err(bad("the models before the colon are missing"));
    }
    let mut limits: Vec<Limit> = Vec::new();
    for part in rest.split(',').map(str::trim) {
        match part.strip_prefix("burst=") {
            None => limits.push(parse_limit(part)?),
            Some(burst) => {
                let last = limits.last_mut().ok_or_else(|| bad("burst= follows the limit that it belongs to"))?;
                last.burst = Some(parse_amount(burst)?);
            }
        }
    }
    limits.iter().try_for_each(Limit::validate)?;
    Ok(LimitGroup { models: ModelPattern::new(models), each: false, limits })
}

impl FromStr for LimitGroup {
    type Err = SimError;
    fn from_str(text: &str) -> Result<Self, SimError> {
        parse_limits(text)
    }
}

fn parse_limit(text: &str) -> Result<Limit, SimError> {
    let bad = |problem: String| SimError::BadLimit { text: text.to_owned(), problem };
    let (meter, rate) = text.split_once('=').unwrap_or((REQUESTS, text));
    let (meter, rate) = (meter.trim(), rate.trim());
    if !meter.starts_with(|c: char| c.is_ascii_lowercase())
        || !meter.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    {
        return Err(bad(format!("`{meter}` is no meter name; use a-z, digits and _")));
    }
    let (units, window) = rate.split_once('/').ok_or_else(|| bad("the window is missing".to_owned()))?;
    let units = parse_amount(units).map_err(|error| bad(error.to_string()))?;
    let window = window.trim();
    let (count, unit) = split_number(window);
    let count = if count.is_empty() { Ok(1.0) } else { count.parse::<f64>() };
    let count = count.ok().filter(|count| *count > 0.0);
    let per = count.zip(window_unit(unit)).map(|(count, unit)| times(count, unit));
    let per = per.ok_or_else(|| bad(format!("`{window}` is no window; use s, min, h, day or such as 10s")))?;
    Ok(Limit::new(meter, units, per))
}

/// Splits `1.5min` into `1.5` and `min`.
fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(text.len());
    let (number, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    (number, rest.trim())
}

/// To the nearest microsecond; saturates.
fn times(number: f64, unit: Span) -> Span {
    // `as` saturates from float to integer, and the number parsed is never NaN.
    Span::from_micros((number * unit.as_micros() as f64).round() as i64)
}

fn window_unit(unit: &str) -> Option<Span> {
    Some(match unit {
        "us" => Span::from_micros(1),
        "ms" => Span::from_millis(1),
        "s" | "sec" | "second" | "seconds" => Span::from_secs(1),
        "m" | "min" | "minute" | "minutes" => Span::from_secs(60),
        "h" | "hour" | "hours" => Span::from_secs(3_600),
        "d" | "day" | "days" => Span::from_secs(86_400),
        _ => return None,
    })
}

/// The word among `all`, or an error that lists them and guesses what was meant.
pub(crate) fn choose<T: Copy>(text: &str, what: &'static str, all: &[(&'static str, T)]) -> Result<T, SimError> {
    let wanted = text.trim().to_ascii_lowercase().replace('_', "-");
    if let Some((_, choice)) = all.iter().find(|(name, _)| *name == wanted) {
        return Ok(*choice);
    }
    let near = all.iter().find(|(name, _)| !wanted.is_empty() && (name.starts_with(&wanted) || wanted.starts_with(name)));
    Err(SimError::UnknownWord {
        text: text.to_owned(),
        what,
        choices: all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
        hint: near.map(|(name, _)| format!(" (did you mean {name}?)")).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn spans() {
        for (text, micros) in [
            ("0", 0),
            ("200ms", 200_000),
            ("1.5s", 1_500_000),
            ("2 min", 120_000_000),
            ("1h", 3_600_000_000),
            ("7us", 7),
            ("9ms", 9_000),
            ("9ms", 9_000),
        ] {
            assert_eq!(parse_span(text), Ok(Span::from_micros(micros)), "{text}");
        }
        for (text, problem) in [
            ("", "does not start with a number"),
            ("ms", "does not start with a number"),
            ("200", "the unit is missing"),
            ("3 parsecs", "no such unit"),
            ("-1s", "must not be negative"),
            ("1.2.3s", "does not start with a number"),
        ] {
            assert!(parse_span(text).unwrap_err().to_string().contains(problem), "{text}");
        }
    }

    #[test]
    fn amounts() {
        for (text, units) in [("1", 1), ("1200", 1_200), ("50k", 50_000), ("1.5M", 1_500_000), ("2G", 2_000_000_000)] {
            assert_eq!(parse_amount(text), Ok(units), "{text}");
        }
        for (text, problem) in [
            ("", "start with a number"),
            ("many", "start with a number"),
            ("0", "between 1 and"),
            ("-3", "between 1 and"),
            ("1e99", "no such suffix"),
            ("1.5", "whole number"),
            ("5x", "no such suffix"),
            ("9999999G", "between 1 and"),
        ] {
            assert!(parse_amount(text).unwrap_err().to_string().contains(problem), "{text}");
        }
    }

    #[test]
    fn limits() {
        let minute = Span::from_secs(60);
        let plain = parse_limits("1200/min").unwrap();
        assert_eq!(plain, LimitGroup::shared(vec![Limit::new("requests", 1_200, minute)]));
        let both = parse_limits("requests=1200/min,burst=40,tokens=1.5M/min").unwrap();
        let requests = Limit { burst: Some(40), ..Limit::new("requests", 1_200, minute) };
        assert_eq!(both.limits, vec![requests, Limit::new("tokens", 1_500_000, minute)]);
        let some = parse_limits("ft:gpt-4o*:100/10s").unwrap();
        assert_eq!(some.models.as_str(), "ft:gpt-4o*");
        assert_eq!(some.limits, vec![Limit::new("requests", 100, Span::from_secs(10))]);
        assert_eq!(parse_limits("m:tokens=5/day").unwrap().models.as_str(), "m");
    }

    #[test]
    fn bad_limits_say_what_to_write() {
        for (text, problem) in [
            ("", "the window is missing"),
            ("1200", "the window is missing"),
            ("requests=1200/fortnight", "`fortnight` is no window"),
            ("requests=lots/min", "not an amount"),
            ("Requests=1/min", "no meter name"),
            ("=1/min", "no meter name"),
            (":1/min", "before the colon"),
            ("burst=5", "follows the limit"),
            ("1/min,burst=none", "not an amount"),
            ("1/0s", "`0s` is no window"),
            ("1/-5s", "`-5s` is no window"),
            ("1/1us", "between 1 ms and 31 days"),
            ("1/60day", "between 1 ms and 31 days"),
        ] {
            let error = parse_limits(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
