//! Published limits, as `500/min` or `1500/day`.

use std::fmt;

use paceline_core::units::Span;
use serde::Deserialize;

/// So many units per window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Limit {
    /// Units per window.
    pub units: u64,
    /// The window.
    pub per: Window,
}

/// The length of a window. Days and longer are calendar windows where the provider says in which zone they end; a month is
/// written as 30 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Window(Span);

impl Window {
    /// One second.
    pub const SECOND: Self = Self(Span::from_secs(1));
    /// One minute.
    pub const MINUTE: Self = Self(Span::from_secs(60));
    /// One hour.
    pub const HOUR: Self = Self(Span::from_secs(3_600));
    /// One day.
    pub const DAY: Self = Self(Span::from_secs(86_400));
    /// 30 days.
    pub const MONTH: Self = Self(Span::from_secs(30 * 86_400));

    /// As a span.
    pub const fn span(self) -> Span {
        self.0
    }

    /// What a bucket's name ends in: nothing for the minute, which is the usual window, and for lengths without a name.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::SECOND => "_second",
            Self::HOUR => "_hour",
            Self::DAY => "_day",
            Self::MONTH => "_month",
            _ => "",
        }
    }
}

impl TryFrom<String> for Window {
    type Error = String;

    /// Reads `minute`, `60s`, `5h`, `10 min`.
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
        let (count, unit) = trimmed.split_at_checked(digits).unwrap_or(("", trimmed));
        let unit_secs = match unit.trim() {
            "s" | "sec" | "second" | "seconds" => 1,
            "m" | "min" | "minute" | "minutes" => 60,
            "h" | "hour" | "hours" => 3_600,
            "d" | "day" | "days" => 86_400,
            "week" | "weeks" => 7 * 86_400,
            "month" | "months" => 30 * 86_400,
            _ => return Err(format!("`{text}` is no length of time; write it as 10s, 1min, 5h, 1day or 1month")),
        };
        let count: i64 = if count.is_empty() { 1 } else { count.parse().map_err(|_| format!("`{text}` is too long"))? };
        let window = Span::from_secs(count.saturating_mul(unit_secs));
        if window <= Span::ZERO { Err(format!("`{text}` is no window: it is empty")) } else { Ok(Self(window)) }
    }
}

impl TryFrom<String> for Limit {
    type Error = String;

    /// Reads `500/min`, `30k/min`, `1.5M/day`.
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let (units, per) = text.split_once('/').ok_or_else(|| format!("`{text}` is no limit; write it as 500/min"))?;
        let (number, factor) = match units.trim().strip_suffix(['k', 'M']) {
            Some(number) if units.trim().ends_with('k') => (number, 1_000.0),
            Some(number) => (number, 1_000_000.0),
            None => (units.trim(), 1.0),
        };
        let wrong = || format!("`{units}` in `{text}` is no number of units; write it as 500, 30k or 1.5M");
        let scaled = number.parse::<f64>().map_err(|_| wrong())? * factor;
        if !(1.0..=1e15).contains(&scaled) || scaled.fract() != 0.0 {
            return Err(wrong());
        }
        // In range and whole, as just checked.
        Ok(Self { units: scaled as u64, per: Window::try_from(per.to_owned())? })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {}", self.units, self.per.span())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_read_as_people_write_them() {
        for (text, expected) in [
            ("500/min", Some((500, 60))),
            ("30k/min", Some((30_000, 60))),
            ("1.5M/day", Some((1_500_000, 86_400))),
            ("100/10s", Some((100, 10))),
            ("5000/h", Some((5_000, 3_600))),
            ("500", None),
            ("0/min", None),
            ("0.5/min", None),
            ("5/0s", None),
            ("5/fortnight", None),
            ("-5/min", None),
        ] {
            let read =
                Limit::try_from(text.to_owned()).ok().map(|limit| (limit.units, limit.per.span().as_micros() / 1_000_000));
            assert_eq!(read, expected, "{text}");
        }
    }
}
