//! Limits, shares and numbers as people write and read them.

use paceline_provider_sim::{Limit, SimError, parse_limits};

/// A part of a whole, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share(pub(super) f64);

/// Reads `2400/min`, `40/s`, `2400/min,burst=100` as a limit of this meter.
pub(super) fn parse_rate(meter: &str, text: &str) -> Result<Limit, SimError> {
    let bad = |problem: &str| SimError::BadLimit { text: text.to_owned(), problem: problem.to_owned() };
    let text = text.trim();
    let rate = text.strip_prefix(meter).and_then(|rest| rest.strip_prefix('=')).unwrap_or(text);
    let mut limits = parse_limits(&format!("{meter}={rate}"))?.limits;
    match (limits.pop(), limits.is_empty()) {
        (Some(limit), true) if &*limit.meter == meter => Ok(limit),
        _ => Err(bad("one limit only")),
    }
}

/// Reads `5%`.
pub(super) fn parse_share(text: &str) -> Result<Share, String> {
    let number = text.trim().strip_suffix('%').ok_or_else(|| format!("`{text}` has no unit; write it as 5%"))?;
    let percent: f64 = number.trim().parse().map_err(|_| format!("`{text}` is not a number with %, such as 5%"))?;
    if (0.0..=100.0).contains(&percent) { Ok(Share(percent / 100.0)) } else { Err("it must be from 0% to 100%".to_owned()) }
}

/// `2,400 requests/min`.
pub(super) fn rate_text(limit: &Limit) -> String {
    let per = match limit.per.as_micros() {
        1_000_000 => "s".to_owned(),
        60_000_000 => "min".to_owned(),
        3_600_000_000 => "h".to_owned(),
        86_400_000_000 => "day".to_owned(),
        _ => limit.per.to_string(),
    };
    format!("{} {}/{per}", grouped(limit.units), limit.meter)
}

/// `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use paceline_core::units::Span;

    use super::*;

    #[test]
    fn rates_and_shares() {
        assert_eq!(parse_rate("requests", "requests=40/s").unwrap(), Limit::new("requests", 40, Span::from_secs(1)));
        assert_eq!(parse_rate("tokens", "3M/min").unwrap().units, 3_000_000);
        assert_eq!(parse_rate("requests", "2400/min,burst=100").unwrap().burst, Some(100));
        for (text, problem) in [
            ("2400", "the window is missing"),
            ("tokens=5/min", "not an amount"),
            ("5/min,tokens=5/min", "one limit only"),
            ("5/min,6/s", "one limit only"),
            ("0/min", "between 1 and"),
        ] {
            let error = parse_rate("requests", text).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
        assert_eq!(parse_share("12.5%"), Ok(Share(0.125)));
        for bad in ["5", "x%", "101%", "-1%", ""] {
            assert!(parse_share(bad).is_err(), "{bad}");
        }
        assert_eq!([grouped(0), grouped(999), grouped(1_000), grouped(1_234_567)], ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn rates_are_read_and_written_alike() {
        for text in ["2,400 requests/min", "40 requests/s", "7 requests/day", "400 requests/10 s"] {
            let (units, per) = text.split_once(" requests/").unwrap();
            let limit = parse_rate("requests", &format!("{}/{}", units.replace(',', ""), per.replace(' ', ""))).unwrap();
            assert_eq!(rate_text(&limit), text);
        }
    }
}
