//! Decimal numbers, read exactly: a wait of 0.823 s is 823 ms, never 824 because of a binary fraction.

use paceline_core::units::Span;

/// A decimal number as sent: sign, whole part (saturating) and millionths (rounded up).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    /// Whether a minus sign stood in front.
    pub(crate) negative: bool,
    /// The part before the point; [`u64::MAX`] when it is larger.
    pub(crate) whole: u64,
    /// The part after the point in millionths, rounded up, below 1,000,000.
    pub(crate) millionths: u32,
}

const MILLION: u64 = 1_000_000;

impl Number {
    /// Reads `1*DIGIT ["." 1*DIGIT] ["e" [sign] 1*DIGIT]`, with an optional minus sign, and nothing else: no plus sign, no blank,
    /// no thousands separator, no bare point, no digits outside ASCII. An exponent that overflows is unusable.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        // What nearly every header holds: a few digits.
        if text.len() < 19 && all_digits(text) {
            let whole = text.bytes().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
            return Some(Self { negative: false, whole, millionths: 0 });
        }
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (digits, None),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (mantissa, None),
        };
        if !all_digits(whole) || fraction.is_some_and(|fraction| !all_digits(fraction)) {
            return None;
        }
        match exponent {
            None => Some(Self::from_digits(negative, whole, fraction.unwrap_or(""))),
            Some(exponent) => Self::from_scientific(negative, digits, exponent),
        }
    }

    fn from_digits(negative: bool, whole: &str, fraction: &str) -> Self {
        let whole = whole.bytes().fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
        let mut millionths = 0_u64;
        for position in 0..6 {
            millionths = millionths * 10 + fraction.as_bytes().get(position).map_or(0, |digit| u64::from(digit - b'0'));
        }
        if fraction.bytes().skip(6).any(|digit| digit != b'0') {
            millionths += 1;
        }
        Self::carried(negative, whole, millionths)
    }

    fn from_scientific(negative: bool, digits: &str, exponent: &str) -> Option<Self> {
        let exponent_digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if !all_digits(exponent_digits) {
            return None;
        }
        let value: f64 = digits.parse().ok()?;
        if !value.is_finite() {
            return None;
        }
        // `as` saturates; the fraction is below one.
        Some(Self::carried(negative, value as u64, (value.fract() * 1e6).ceil() as u64))
    }

    fn carried(negative: bool, whole: u64, millionths: u64) -> Self {
        let whole = whole.saturating_add(millionths / MILLION);
        Self { negative, whole, millionths: u32::try_from(millionths % MILLION).unwrap_or(0) }
    }

    /// Whether the number is zero, with or without a sign.
    pub(crate) fn is_zero(self) -> bool {
        self.whole == 0 && self.millionths == 0
    }

    /// In millionths, with its sign.
    pub(crate) fn as_millionths(self) -> i128 {
        let millionths = i128::from(self.whole) * i128::from(MILLION) + i128::from(self.millionths);
        if self.negative { -millionths } else { millionths }
    }

    /// As a count: rounded down (towards less) and saturating.
    pub(crate) fn as_count(self) -> i64 {
        let whole = i64::try_from(self.whole).unwrap_or(i64::MAX);
        match (self.negative, self.millionths) {
            (false, _) => whole,
            (true, 0) => -whole,
            (true, _) => (-whole).saturating_sub(1),
        }
    }

    /// The absolute value as a span, one unit being so many microseconds; rounded up; saturates.
    pub(crate) fn as_span(self, unit_micros: u64) -> Span {
        let whole = u128::from(self.whole) * u128::from(unit_micros);
        let part = (u128::from(self.millionths) * u128::from(unit_micros)).div_ceil(u128::from(MILLION));
        Span::from_micros(i64::try_from(whole + part).unwrap_or(i64::MAX))
    }
}

fn all_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn secs(text: &str) -> Option<i64> {
        Number::parse(text).filter(|number| !number.negative).map(|number| number.as_span(MILLION).as_micros())
    }

    #[test]
    fn only_whole_numbers_are_numbers() {
        for (text, micros) in [
            ("0", Some(0)),
            ("0030", Some(30_000_000)),
            ("2.0", Some(2_000_000)),
            ("56.5", Some(56_500_000)),
            ("0.823", Some(823_000)),
            ("292.052427053", Some(292_052_428)),
            ("0.9999999", Some(1_000_000)),
            ("1e3", Some(1_000_000_000)),
            ("99999999999999999999999", Some(i64::MAX)),
            ("1e300", Some(i64::MAX)),
            ("1e400", None),
            ("1.", None),
            (".5", None),
            ("+5", None),
            ("-5", None),
            ("", None),
            ("NaN", None),
            ("Infinity", None),
            ("\"30\"", None),
            ("６０", None),
            ("2026-01-01", None),
            ("1 ", None),
            ("0x10", None),
        ] {
            assert_eq!(secs(text), micros, "{text}");
        }
    }

    #[test]
    fn counts_round_down() {
        for (text, count) in [("57.9", 57), ("0.0", 0), ("-412", -412), ("-0.5", -1), ("18446744073709551616", i64::MAX)] {
            assert_eq!(Number::parse(text).unwrap().as_count(), count, "{text}");
        }
    }
}
