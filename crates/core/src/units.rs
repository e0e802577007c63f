//! Numbers with units: fleet time, spans and amounts. Everything stored is an integer (I-11).

use std::fmt;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};
use std::time::Duration;

/// The longest instant or span we keep from a provider: 31 days.
pub const LONGEST_FLOOR: Span = Span::from_secs(31 * 86_400);

/// A signed length of time in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(i64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span there is (about 292,000 years); used for "never".
    pub const MAX: Self = Self(i64::MAX);

    /// A span of so many microseconds.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// A span of so many milliseconds; saturates.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// A span of so many seconds; saturates.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// A span of so many seconds, rounded up to a whole microsecond. `None` for NaN, infinite and negative values;
    /// values too large saturate.
    pub fn from_secs_f64(secs: f64) -> Option<Self> {
        if !secs.is_finite() || secs < 0.0 {
            return None;
        }
        // `as` saturates from float to integer, which is what we want of 1e300.
        Some(Self((secs * 1e6).ceil() as i64))
    }

    /// Whole microseconds.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole milliseconds, rounded up (a wait is never rounded down).
    pub const fn as_millis_ceil(self) -> i64 {
        let whole = self.0.div_euclid(1_000);
        if self.0.rem_euclid(1_000) == 0 { whole } else { whole.saturating_add(1) }
    }

    /// Seconds, for people and metrics.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The larger of this and zero.
    pub fn at_least_zero(self) -> Self {
        self.max(Self::ZERO)
    }

    /// As a standard duration; negative spans become zero.
    pub fn to_duration(self) -> Duration {
        Duration::from_micros(u64::try_from(self.0).unwrap_or(0))
    }

    /// Adds, saturating.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Multiplies by a fraction; saturates; rounds towards zero.
    pub fn scaled(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor) as i64)
    }
}

impl From<Duration> for Span {
    /// Saturates at [`Span::MAX`].
    fn from(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Span {
    /// Writes `0 s`, `12 ms`, `1.5 s`, `2 min 5 s`, `3 h 20 min`, `2 days 1 h`: at most two units, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0 {
            write!(f, "-")?;
        }
        let micros = rounded(self.0.unsigned_abs());
        let (secs, mins, hours, days) =
            (micros / 1_000_000, micros / 60_000_000, micros / 3_600_000_000, micros / 86_400_000_000);
        match (days, hours, mins, micros) {
            (0, 0, 0, 0) => write!(f, "0 s"),
            (0, 0, 0, us) if us < 1_000 => write!(f, "{us} us"),
            (0, 0, 0, us) if us < 1_000_000 => write!(f, "{} ms", us / 1_000),
            (0, 0, 0, us) => {
                let tenths = (us % 1_000_000) / 100_000;
                if tenths == 0 { write!(f, "{secs} s") } else { write!(f, "{secs}.{tenths} s") }
            }
            (0, 0, m, _) => two(f, m, "min", secs % 60, "s"),
            (0, h, m, _) => two(f, h, "h", m % 60, "min"),
            (d, h, _, _) => two(f, d, if d == 1 { "day" } else { "days" }, h % 24, "h"),
        }
    }
}

/// To the nearest of the smaller unit that is written: a wait of 1.9996 s is 2 s to people.
const fn rounded(micros: u64) -> u64 {
    let step = match micros {
        0..1_000 => 1,
        1_000..999_500 => 1_000,
        999_500..59_950_000 => 100_000,
        59_950_000..3_599_500_000 => 1_000_000,
        3_599_500_000..86_370_000_000 => 60_000_000,
        _ => 3_600_000_000,
    };
    micros.saturating_add(step / 2) / step * step
}

fn two(f: &mut fmt::Formatter<'_>, big: u64, big_unit: &str, small: u64, small_unit: &str) -> fmt::Result {
    if small == 0 { write!(f, "{big} {big_unit}") } else { write!(f, "{big} {big_unit} {small} {small_unit}") }
}

/// An instant of the fleet's common clock: microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FleetTime(i64);

impl FleetTime {
    /// The epoch itself; also "never yet".
    pub const ZERO: Self = Self(0);
    /// Later than everything; "never".
    pub const MAX: Self = Self(i64::MAX);

    /// So many microseconds after the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// So many whole seconds after the Unix epoch.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The time from `earlier` to here, zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0).max(0))
    }
}

impl Add<Span> for FleetTime {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for FleetTime {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Sub for FleetTime {
    type Output = Span;
    fn sub(self, other: Self) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Span {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Neg for Span {
    type Output = Self;
    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Span {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

/// An amount of a meter in thousandths of a unit (requests, tokens, ...). May be negative: a bucket in debt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Milli(i64);

impl Milli {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The largest amount we calculate with: 10^15 units. Larger costs are treated as this much.
    pub const MAX: Self = Self(1_000_000_000_000_000_000);

    /// Whole units, at most [`Milli::MAX`].
    pub fn from_units(units: u64) -> Self {
        Self(i64::try_from(units).unwrap_or(i64::MAX).saturating_mul(1_000).min(Self::MAX.0))
    }

    /// So many thousandths, for constants.
    pub const fn from_thousandths(milli: i32) -> Self {
        Self(milli as i64)
    }

    /// Thousandths as they are, clamped to `+-`[`Milli::MAX`].
    pub fn from_milli(milli: i64) -> Self {
        Self(milli.clamp(-Self::MAX.0, Self::MAX.0))
    }

    /// Thousandths.
    pub const fn as_milli(self) -> i64 {
        self.0
    }

    /// Units, rounded down; zero when negative.
    pub fn as_units_floor(self) -> u64 {
        u64::try_from(self.0.div_euclid(1_000)).unwrap_or(0)
    }

    /// Units, for people and metrics.
    pub fn as_units_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The larger of this and nothing.
    pub fn at_least_zero(self) -> Self {
        self.max(Self::ZERO)
    }
}

impl Add for Milli {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::from_milli(self.0.saturating_add(other.0))
    }
}

impl Sub for Milli {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self::from_milli(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for Milli {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Milli {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_well() {
        for (micros, text) in [
            (0, "0 s"),
            (12, "12 us"),
            (12_000, "12 ms"),
            (1_500_000, "1.5 s"),
            (1_999_600, "2 s"),
            (59_999_000, "1 min"),
            (31 * 86_400_000_000 - 1_000, "31 days"),
            (125_000_000, "2 min 5 s"),
            (12_000_000_000, "3 h 20 min"),
            (2 * 86_400_000_000 + 3_600_000_000, "2 days 1 h"),
            (-2_000_000, "-2 s"),
        ] {
            assert_eq!(Span::from_micros(micros).to_string(), text);
        }
    }

    #[test]
    fn floats_that_are_no_length_of_time_are_refused() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.1] {
            assert_eq!(Span::from_secs_f64(bad), None);
        }
        assert_eq!(Span::from_secs_f64(1e300), Some(Span::MAX));
        assert_eq!(Span::from_secs_f64(0.000_000_1), Some(Span::from_micros(1)));
    }

    #[test]
    fn amounts_saturate() {
        assert_eq!(Milli::from_units(u64::MAX), Milli::MAX);
        assert_eq!(Milli::MAX + Milli::MAX, Milli::MAX);
    }
}
