//! Numbers as people write them: `50k`, `1.5M`, `90s`, `1h30m`, `20%`, `500/min`.
//!
//! Every function here is total: any text gives a value or says what is wrong with it and what to write instead.

use paceline_core::calendar::CalendarUnit;
use paceline_core::plan::Portion;
use paceline_core::units::{LONGEST_FLOOR, Span};

/// The largest amount that is calculated with: 10^15 units.
pub(crate) const LARGEST_AMOUNT: u64 = 1_000_000_000_000_000;

/// What is wrong with a text, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    pub(crate) message: String,
    pub(crate) help: String,
}

fn bad(message: impl Into<String>, help: impl Into<String>) -> Bad {
    Bad { message: message.into(), help: help.into() }
}

/// A part of the whole in millionths: 50 % is 500,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(u32);

impl Share {
    /// All of it.
    pub const WHOLE: Self = Self(1_000_000);
    /// None of it.
    pub const NONE: Self = Self(0);

    /// Millionths.
    pub const fn as_millionths(self) -> u32 {
        self.0
    }

    /// In millionths, at most the whole.
    pub(crate) fn of_ppm(ppm: u32) -> Self {
        Self(ppm.min(Self::WHOLE.0))
    }

    /// The same as the core has it.
    pub(crate) const fn portion(self) -> Portion {
        Portion::from_millionths(self.0)
    }

    /// What the core has, as it is written.
    pub(crate) const fn of_portion(portion: Portion) -> Self {
        Self(portion.as_millionths())
    }

    /// So much of `amount`, rounded down, at least one unit.
    pub(crate) fn of(self, amount: u64) -> u64 {
        let part = u128::from(amount) * u128::from(self.0) / 1_000_000;
        u64::try_from(part).unwrap_or(u64::MAX).max(1)
    }
}

impl std::fmt::Display for Share {
    /// `50%`, `33.3%`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}%", f64::from(self.0) / 1e4)
    }
}

/// A count of units: `500`, `10_000`, `50k`, `1.5M`, `2G`. Always whole, at most 10^15.
pub(crate) fn amount(text: &str) -> Result<u64, Bad> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let zeros = match suffix.trim_start() {
        "" => 0,
        "k" | "K" => 3,
        "M" => 6,
        "G" | "B" => 9,
        "m" => return Err(bad(format!("`{text}`: `m` is a minute, not a million"), format!("write {number}M for millions"))),
        "%" => return Err(bad(format!("`{text}`: a share where an amount is due"), "write an amount such as 20k")),
        _ if suffix.starts_with('-') || text.starts_with('-') => {
            return Err(bad(format!("`{text}` is negative"), "an amount is at least 1"));
        }
        _ if suffix.contains('/') => {
            return Err(bad(
                format!("`{text}`: an amount per time where a plain amount is due"),
                format!("write {number}; the window is said by `per`"),
            ));
        }
        _ if suffix.starts_with(',') => {
            return Err(bad(format!("`{text}` has a comma in it"), "write 10_000, 10000 or 10k"));
        }
        _ => return Err(bad(format!("`{text}` is not an amount"), "write a whole number such as 500, 50k or 1.5M")),
    };
    let scaled = decimal(number, zeros).map_err(|problem| match problem {
        Decimal::NotANumber => bad(format!("`{text}` is not an amount"), "write a whole number such as 500, 50k or 1.5M"),
        Decimal::Fraction => bad(format!("`{text}` is not a whole number of units"), "write a whole number such as 500"),
        Decimal::TooLarge => bad(format!("`{text}` is too large"), "the largest amount is 10^15"),
    })?;
    if scaled > LARGEST_AMOUNT {
        return Err(bad(format!("`{text}` is too large"), "the largest amount is 10^15"));
    }
    Ok(scaled)
}

/// A length of time: `90s`, `1.5h`, `1h30m`, `3 h 20 min`; a bare number is an error that names units.
pub(crate) fn span(text: &str) -> Result<Span, Bad> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(bad("a length of time is missing", "write 90s, 15min or 2h"));
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (micros, tail) = span_part(text, rest)?;
        total = total.saturating_add(micros);
        rest = tail.trim_start();
    }
    let span = Span::from_micros(i64::try_from(total).unwrap_or(i64::MAX));
    if span > LONGEST_FLOOR {
        return Err(bad(format!("`{text}` is too long"), "the longest time is 31 days"));
    }
    Ok(span)
}

/// One number with its unit from the beginning of `rest`, in microseconds, and what follows.
fn span_part<'t>(whole: &str, rest: &'t str) -> Result<(u64, &'t str), Bad> {
    let end = rest.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_'))).unwrap_or(rest.len());
    let (number, after) = rest.split_at(end);
    let after = after.trim_start();
    let unit_end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
    let (unit, tail) = after.split_at(unit_end);
    if number.is_empty() {
        let negative = rest.starts_with('-');
        let message = if negative { format!("`{whole}` is negative") } else { format!("`{whole}` is not a length of time") };
        return Err(bad(message, "write a number and a unit: 250ms, 90s, 15min, 2h, 1day"));
    }
    if unit.is_empty() {
        return Err(bad(
            format!("`{whole}` has no unit: {number} of what?"),
            format!("write {number}s, {number}min or {number}h"),
        ));
    }
    let micros = unit_micros(unit).ok_or_else(|| unknown_unit(whole, unit))?;
    let thousandths = decimal_rounded_up(number).ok_or_else(|| {
        bad(format!("`{whole}` is not a length of time"), "write a number and a unit: 250ms, 90s, 15min, 2h, 1day")
    })?;
    Ok((u64::try_from(thousandths.saturating_mul(u128::from(micros)).div_ceil(1_000_000)).unwrap_or(u64::MAX), tail))
}

/// A window: a length of time, or a unit alone (`min` is one minute).
pub(crate) fn window(text: &str) -> Result<Span, Bad> {
    let text = text.trim();
    let span = match unit_micros(text) {
        Some(micros) => Span::from_micros(i64::try_from(micros).unwrap_or(i64::MAX)),
        None if text.chars().all(char::is_alphabetic) && !text.is_empty() => return Err(unknown_unit(text, text)),
        None => span(text)?,
    };
    if span < Span::from_millis(1) {
        return Err(bad(format!("`{text}` is too short for a window"), "the shortest window is 1ms"));
    }
    Ok(span)
}

/// The calendar's unit, if a window is written as one: `day`, `1day`, `week`, `month`. `24h` is a length of time and no day.
pub(crate) fn calendar_unit(window: &str) -> Option<CalendarUnit> {
    let text = window.trim();
    let unit = text.strip_prefix('1').map_or(text, str::trim_start);
    Some(match unit {
        "d" | "day" | "days" => CalendarUnit::Day,
        "w" | "week" | "weeks" => CalendarUnit::Week,
        "month" | "months" => CalendarUnit::Month,
        _ => return None,
    })
}

/// An amount per window: `500/min`, `3/10s`, `1M/day`.
pub(crate) fn rate(text: &str) -> Result<(u64, Span), Bad> {
    let Some((units, per)) = text.split_once('/') else {
        let number = amount(text)?;
        return Err(bad(
            format!("`{text}` has no window: {number} per what?"),
            format!("write {text}/s, {text}/min, {text}/h or {text}/day", text = text.trim()),
        ));
    };
    Ok((amount(units)?, window(per)?))
}

/// A part of the whole: `50%`, `33.3%`. A bare number is an error that says how to write it.
pub(crate) fn share(text: &str) -> Result<Share, Bad> {
    let text = text.trim();
    let Some(number) = text.strip_suffix('%') else {
        let percent = match text.parse::<f64>() {
            Ok(part) if part > 0.0 && part <= 1.0 && text.contains('.') => part * 100.0,
            Ok(number) if (0.0..=100.0).contains(&number) => number,
            _ => 50.0,
        };
        return Err(bad(format!("`{text}` has no unit"), format!("a share is written in percent: {percent}%")));
    };
    let ppm = decimal(number.trim(), 4).ok().and_then(|ppm| u32::try_from(ppm).ok());
    match ppm {
        Some(ppm) if ppm <= Share::WHOLE.0 => Ok(Share(ppm)),
        _ => Err(bad(format!("`{text}` is not a share"), "write 0% to 100%, at most four decimals")),
    }
}

/// The unit's length; `None` for an unknown one. A month is 30 days, as in the catalogue.
fn unit_micros(unit: &str) -> Option<u64> {
    const SECOND: u64 = 1_000_000;
    Some(match unit {
        "ms" | "msec" | "millisecond" | "milliseconds" => 1_000,
        "s" | "sec" | "secs" | "second" | "seconds" => SECOND,
        "m" | "min" | "mins" | "minute" | "minutes" => 60 * SECOND,
        "h" | "hr" | "hour" | "hours" => 3_600 * SECOND,
        "d" | "day" | "days" => 86_400 * SECOND,
        "w" | "week" | "weeks" => 7 * 86_400 * SECOND,
        "month" | "months" => 30 * 86_400 * SECOND,
        _ => return None,
    })
}

fn unknown_unit(whole: &str, unit: &str) -> Bad {
    let help = match unit {
        "M" | "MIN" | "Min" => "did you mean `min`?",
        "H" | "S" | "D" => "units are written small: s, min, h, day, week, month, ms",
        "mo" | "mon" => "did you mean `month`?",
        "year" | "y" | "years" => "the longest window is a month",
        _ => "units are s, min, h, day, week, month and ms",
    };
    let message = if whole == unit { format!("unknown unit `{unit}`") } else { format!("`{whole}`: unknown unit `{unit}`") };
    bad(message, help)
}

/// A span as it may be written, exactly: in the largest unit that divides it.
pub(crate) fn exact(span: Span) -> String {
    let micros = span.as_micros().unsigned_abs();
    let units = [("day", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1_000)];
    match units.into_iter().find(|(_, length)| micros != 0 && micros.is_multiple_of(*length)) {
        Some((unit, length)) => format!("{}{unit}", micros / length),
        None if micros == 0 => "0s".to_owned(),
        None => format!("{}.{:03}ms", micros / 1_000, micros % 1_000),
    }
}

/// The same for a window that no calendar ends: in hours, as days are a calendar's.
pub(crate) fn exact_length(span: Span) -> String {
    let micros = span.as_micros().unsigned_abs();
    let is_days = micros != 0 && micros.is_multiple_of(86_400_000_000);
    if is_days { format!("{}h", micros / 3_600_000_000) } else { exact(span) }
}

/// What a window adds to a bucket's name when it is neither the minute nor the only one of its meter.
pub(crate) fn window_suffix(per: Span) -> String {
    const UNITS: [(u64, &str); 7] = [
        (30 * 86_400_000_000, "month"),
        (7 * 86_400_000_000, "week"),
        (86_400_000_000, "day"),
        (3_600_000_000, "hour"),
        (60_000_000, "min"),
        (1_000_000, "second"),
        (1_000, "ms"),
    ];
    let micros = per.as_micros().unsigned_abs();
    for (length, name) in UNITS {
        match micros.checked_div(length) {
            Some(0) | None => {}
            Some(_) if !micros.is_multiple_of(length) => {}
            Some(1) => return format!("_{name}"),
            Some(count) => {
                let short = if name == "second" { "s" } else { name };
                return format!("_{count}{short}");
            }
        }
    }
    format!("_{micros}us")
}

/// Why a decimal number cannot be scaled.
enum Decimal {
    NotANumber,
    Fraction,
    TooLarge,
}

/// `text` (digits, `_`, at most one point) times 10^`zeros`, exactly.
fn decimal(text: &str, zeros: u32) -> Result<u64, Decimal> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.chars().all(|c| c.is_ascii_digit() || c == '_');
    if !digits(whole) || !digits(fraction) || !text.chars().any(|c| c.is_ascii_digit()) || text.starts_with('_') {
        return Err(Decimal::NotANumber);
    }
    let fraction = fraction.replace('_', "");
    let fraction = fraction.trim_end_matches('0');
    let decimals = u32::try_from(fraction.len()).map_err(|_| Decimal::TooLarge)?;
    if decimals > zeros {
        return Err(Decimal::Fraction);
    }
    let joined = format!("{}{fraction}", whole.replace('_', ""));
    let number: u64 = if joined.is_empty() { 0 } else { joined.parse().map_err(|_| Decimal::TooLarge)? };
    10_u64.checked_pow(zeros - decimals).and_then(|scale| number.checked_mul(scale)).ok_or(Decimal::TooLarge)
}

/// `text` in millionths, rounded up; further decimals than six are dropped. `None` when it is not a number.
fn decimal_rounded_up(text: &str) -> Option<u128> {
    let kept = match text.split_once('.') {
        Some((whole, fraction)) if fraction.len() > 6 => format!("{whole}.{}", fraction.get(..6)?),
        _ => text.to_owned(),
    };
    match decimal(&kept, 6) {
        Ok(number) => Some(u128::from(number)),
        Err(Decimal::TooLarge) => Some(u128::from(u64::MAX)),
        Err(Decimal::NotANumber | Decimal::Fraction) => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_read() {
        for (text, units) in [
            ("500", 500),
            ("10_000", 10_000),
            ("50k", 50_000),
            ("1.5M", 1_500_000),
            ("2 k", 2_000),
            ("0.5k", 500),
            ("1.500k", 1_500),
            ("2G", 2_000_000_000),
            ("0", 0),
        ] {
            assert_eq!(amount(text), Ok(units), "{text}");
        }
        for text in ["", "k", "1.5", "1.2345k", "-3", "10,000", "1e6", "5m", "50%", "5/min", "99999999999999999999", "2000000G"]
        {
            assert!(amount(text).is_err(), "{text}");
        }
    }

    #[test]
    fn spans_and_windows_are_read() {
        for (text, millis) in [
            ("250ms", 250),
            ("90s", 90_000),
            ("1m", 60_000),
            ("15min", 900_000),
            ("1.5h", 5_400_000),
            ("1h30m", 5_400_000),
            ("3 h 20 min", 12_000_000),
            ("2 days", 172_800_000),
            ("1week", 604_800_000),
            ("0s", 0),
        ] {
            assert_eq!(span(text), Ok(Span::from_millis(millis)), "{text}");
        }
        for text in ["", "60", "1.h.", "s", "5 parsecs", "1h30", "-1s", "32 days", "99999999999999999999h", "1M", "month"] {
            assert!(span(text).is_err(), "{text}");
        }
        assert_eq!(window("min"), Ok(Span::from_secs(60)));
        assert_eq!(window("10s"), Ok(Span::from_secs(10)));
        assert_eq!(window("month"), Ok(Span::from_secs(30 * 86_400)));
        for (text, unit) in [
            ("day", Some(CalendarUnit::Day)),
            ("1day", Some(CalendarUnit::Day)),
            (" 1 d ", Some(CalendarUnit::Day)),
            ("week", Some(CalendarUnit::Week)),
            ("1month", Some(CalendarUnit::Month)),
            ("24h", None),
            ("2days", None),
            ("11d", None),
            ("min", None),
        ] {
            assert_eq!(calendar_unit(text), unit, "{text}");
            assert_eq!(unit.map(|unit| Ok(unit.nominal())), unit.map(|_| window(text)), "{text}");
        }
        assert!(window("0s").is_err());
    }

    #[test]
    fn a_span_reads_back_what_it_prints() {
        for secs in [1, 90, 120, 5_400, 90_000, 604_800, 31 * 86_400] {
            let given = Span::from_secs(secs);
            assert_eq!(span(&given.to_string()), Ok(given));
        }
    }

    #[test]
    fn shares_are_read() {
        assert_eq!(share("50%").map(|half| half.of(1_001)), Ok(500));
        assert_eq!(share("33.3%").map(|third| third.of(1_000)), Ok(333));
        assert_eq!(share("1%").map(|small| small.of(3)), Ok(1), "a share of something is never nothing");
        assert_eq!(share("0.5").unwrap_err().help, "a share is written in percent: 50%");
        assert_eq!(share("50").unwrap_err().help, "a share is written in percent: 50%");
        for text in ["101%", "-1%", "%", "a%", "1.23456%"] {
            assert!(share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_rate_without_a_window_names_one() {
        assert_eq!(rate("3/10s"), Ok((3, Span::from_secs(10))));
        assert_eq!(rate("1M/min"), Ok((1_000_000, Span::from_secs(60))));
        assert_eq!(rate("500").unwrap_err().message, "`500` has no window: 500 per what?");
        for text in ["/min", "5/", "5/0s", "5/min/h", "x/min"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn windows_have_suffixes() {
        for (secs, suffix) in [
            (1, "_second"),
            (10, "_10s"),
            (300, "_5min"),
            (3_600, "_hour"),
            (7_200, "_2hour"),
            (86_400, "_day"),
            (604_800, "_week"),
            (30 * 86_400, "_month"),
        ] {
            assert_eq!(window_suffix(Span::from_secs(secs)), suffix);
        }
        assert_eq!(window_suffix(Span::from_millis(250)), "_250ms");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = (amount(&text), span(&text), window(&text), rate(&text), share(&text));
        }

        #[test]
        fn numbers_and_units_never_panic(text in "[-0-9._kMGhms%/ ]{0,24}") {
            let _ = (amount(&text), span(&text), window(&text), rate(&text), share(&text));
        }

        #[test]
        fn what_is_written_exactly_reads_back(micros in 0..LONGEST_FLOOR.as_micros()) {
            let given = Span::from_micros(micros);
            prop_assert_eq!(span(&exact(given)), Ok(given));
            prop_assert_eq!(span(&exact_length(given)), Ok(given));
            prop_assert_eq!(calendar_unit(&exact_length(given)), None);
        }

        #[test]
        fn whole_amounts_read_back(units in 0..=LARGEST_AMOUNT) {
            prop_assert_eq!(amount(&units.to_string()), Ok(units));
        }
    }
}
