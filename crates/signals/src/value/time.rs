//! Times: what a header that speaks of waiting or of a reset may hold, by form.

use paceline_core::units::{FleetTime, Span};
use serde::Deserialize;

use super::number::Number;
use super::{date, duration, protobuf};

/// How a time is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TimeForm {
    /// A number of seconds from now, fractions allowed.
    Seconds,
    /// A number of milliseconds from now.
    Milliseconds,
    /// Minutes from now.
    Minutes,
    /// A number with units: `6m0s`, `17ms`, `57.24s`, `33 seconds`.
    Duration,
    /// Seconds, milliseconds, microseconds or nanoseconds since the Unix epoch, told apart by the number of digits.
    Epoch,
    /// [`TimeForm::Seconds`] below 10^9, [`TimeForm::Epoch`] from there on.
    SecondsOrEpoch,
    /// RFC 3339 with an offset.
    Rfc3339,
    /// HTTP-date, any of the three forms and near misses.
    HttpDate,
    /// `google.rpc.RetryInfo`, in base64 or as bytes.
    RetryInfo,
    /// `google.rpc.Status` with a `RetryInfo` among its details, in base64 or as bytes.
    StatusDetails,
}

impl TimeForm {
    /// Reads a value that need not be text; `None` for the forms that are.
    pub(crate) fn parse_bytes(self, value: &[u8]) -> Option<Span> {
        match self {
            Self::RetryInfo => protobuf::retry_info(value),
            Self::StatusDetails => protobuf::status_details(value),
            _ => None,
        }
    }
}

/// A time as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// So long after the answer. Negative when the text was.
    In(Span),
    /// At an instant of the server's clock.
    At(FleetTime),
}

/// Numbers from here on are instants: 10^9 seconds are 31 years of waiting, or September 2001.
const FIRST_EPOCH: u64 = 1_000_000_000;

/// The forms that a value's looks tell apart.
pub(crate) const BY_LOOKS: &[TimeForm] = &[TimeForm::SecondsOrEpoch, TimeForm::Duration, TimeForm::Rfc3339, TimeForm::HttpDate];

/// Reads a trimmed text in the first of the forms that fits, and says which.
pub(crate) fn parse(text: &str, forms: &[TimeForm], near: FleetTime) -> Option<(When, TimeForm)> {
    forms.iter().find_map(|form| parse_one(text, *form, near).map(|when| (when, *form)))
}

fn parse_one(text: &str, form: TimeForm, near: FleetTime) -> Option<When> {
    match form {
        TimeForm::Seconds => Number::parse(text).map(|number| When::In(signed(number, 1_000_000))),
        TimeForm::Milliseconds => Number::parse(text).map(|number| When::In(signed(number, 1_000))),
        TimeForm::Minutes => Number::parse(text).map(|number| When::In(signed(number, 60_000_000))),
        TimeForm::Duration => duration::parse(text).map(When::In),
        TimeForm::Epoch => Number::parse(text).and_then(epoch),
        TimeForm::SecondsOrEpoch => {
            let number = Number::parse(text)?;
            epoch(number).or_else(|| (number.whole < FIRST_EPOCH).then(|| When::In(signed(number, 1_000_000))))
        }
        TimeForm::Rfc3339 => date::rfc3339(text).map(When::At),
        TimeForm::HttpDate => date::http_date(text, near).map(When::At),
        TimeForm::RetryInfo | TimeForm::StatusDetails => form.parse_bytes(text.as_bytes()).map(When::In),
    }
}

fn signed(number: Number, unit_micros: u64) -> Span {
    let span = number.as_span(unit_micros);
    if number.negative { -span } else { span }
}

/// 10 or 11 digits are seconds, 12 to 14 milliseconds, 15 to 17 microseconds, more are nanoseconds: the ranges of real dates
/// lie far apart.
fn epoch(number: Number) -> Option<When> {
    if number.negative || number.whole < FIRST_EPOCH {
        return None;
    }
    let since_epoch = match number.whole.ilog10() {
        ..11 => number.as_span(1_000_000),
        11..14 => number.as_span(1_000),
        14..17 => number.as_span(1),
        _ => Span::from_micros(i64::try_from(number.whole.div_ceil(1_000)).unwrap_or(i64::MAX)),
    };
    Some(When::At(FleetTime::ZERO + since_epoch))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: FleetTime = FleetTime::from_secs(1_786_527_630);
    const ALL: &[TimeForm] = &[TimeForm::SecondsOrEpoch, TimeForm::Duration, TimeForm::Rfc3339, TimeForm::HttpDate];

    #[test]
    fn one_name_many_units() {
        let micros = |text: &str| {
            parse(text, ALL, NEAR).map(|(when, _)| match when {
                When::In(span) => span.as_micros(),
                When::At(at) => (at - NEAR).as_micros(),
            })
        };
        for (text, expected) in [
            ("60", Some(60_000_000)),
            ("2163603", Some(2_163_603_000_000)),
            ("1786527660", Some(30_000_000)),
            ("1786527660.5", Some(30_500_000)),
            ("1786527660500", Some(30_500_000)),
            ("1786527660500000", Some(30_500_000)),
            ("1786527660500000001", Some(30_500_001)),
            ("-3", Some(-3_000_000)),
            ("6m0s", Some(360_000_000)),
            ("2026-08-12T09:41:00Z", Some(30_000_000)),
            ("Wed, 12 Aug 2026 09:41:00 GMT", Some(30_000_000)),
            ("", None),
            ("soon", None),
        ] {
            assert_eq!(micros(text), expected, "{text}");
        }
    }
}
