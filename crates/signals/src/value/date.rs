//! Dates: the three HTTP-dates (RFC 9110, section 5.6.7) and the near misses that servers send, and RFC 3339.

use jiff::civil;
use jiff::tz::Offset;
use paceline_core::units::{FleetTime, Span};

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Reads an HTTP-date in any of its three forms, and what is still unambiguous beside them: any casing, `UTC` or a numeric
/// offset instead of `GMT`, a two-digit year in the modern layout, second 60, JavaScript's `Date` text.
/// `near` decides the century of a two-digit year: never more than 50 years after it (RFC 9110, section 5.6.7).
pub(crate) fn http_date(text: &str, near: FleetTime) -> Option<FleetTime> {
    // The longest sensible date, JavaScript's with a zone's name, is well below this.
    if text.len() > 80 || !text.is_ascii() {
        return None;
    }
    imf_fixdate(text.as_bytes()).or_else(|| by_words(text, near))
}

/// `Fri, 06 Feb 2026 12:00:00 GMT`: what nearly every server sends with nearly every answer, hence without taking it apart.
fn imf_fixdate(text: &[u8]) -> Option<FleetTime> {
    let (name, rest) = text.split_at_checked(5)?;
    let is_spaced = |at: usize, expected: u8| rest.get(at) == Some(&expected);
    let is_shaped =
        name.ends_with(b", ") && is_spaced(2, b' ') && is_spaced(6, b' ') && is_spaced(11, b' ') && is_spaced(14, b':');
    if !(is_shaped && is_spaced(17, b':') && rest.get(20..) == Some(b" GMT")) {
        return None;
    }
    let number = |from: usize, to: usize| {
        let digits = rest.get(from..to)?;
        let add =
            |sum: Option<i16>, byte: &u8| byte.is_ascii_digit().then(|| sum.map(|sum| sum * 10 + i16::from(byte - b'0')))?;
        digits.iter().fold(Some(0), add)
    };
    let small = |from: usize, to: usize| i8::try_from(number(from, to)?).ok();
    let month =
        MONTHS.iter().position(|month| rest.get(3..6).is_some_and(|text| text.eq_ignore_ascii_case(month.as_bytes())))?;
    let date = civil::Date::new(number(7, 11)?, i8::try_from(month + 1).ok()?, small(0, 2)?).ok()?;
    // A leap second is left to the thorough way.
    let time = civil::Time::new(small(12, 14)?, small(15, 17)?, small(18, 20)?, 0).ok()?;
    let utc = Offset::UTC.to_timestamp(date.to_datetime(time)).ok()?;
    Some(FleetTime::from_micros(utc.as_microsecond()))
}

fn by_words(text: &str, near: FleetTime) -> Option<FleetTime> {
    let lower = text.to_ascii_lowercase();
    let without_comment = lower.split_once('(').map_or(lower.as_str(), |(date, _)| date);
    let mut parts = Parts::default();
    for (index, word) in without_comment.split([' ', ',', '\t']).filter(|word| !word.is_empty()).enumerate() {
        parts.take(index, word)?;
    }
    parts.instant(near)
}

/// Reads an RFC 3339 date-time (section 5.6), which must have an offset; `t` and `z` in any casing; seconds may be missing.
pub(crate) fn rfc3339(text: &str) -> Option<FleetTime> {
    if text.len() > 64 || !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let timestamp: jiff::Timestamp = text.parse().ok()?;
    Some(FleetTime::from_micros(timestamp.as_microsecond()))
}

/// The parts of a date in whatever order they come.
#[derive(Default)]
struct Parts<'a> {
    day: Option<i8>,
    month: Option<i8>,
    year: Option<(i16, bool)>,
    time: Option<&'a str>,
    offset: Option<Span>,
}

impl<'a> Parts<'a> {
    /// Takes one word; `None` when it has no place in a date.
    fn take(&mut self, index: usize, word: &'a str) -> Option<()> {
        if word.contains(':') && self.time.is_none() {
            self.time = Some(word);
        } else if let Some(month) = month(word) {
            set(&mut self.month, month)?;
        } else if index == 0 && DAYS.iter().any(|day| word.starts_with(day)) && word.bytes().all(|b| b.is_ascii_alphabetic()) {
            // The name of the day says nothing that the date does not.
        } else if self.time.is_some() && self.offset.is_none() && zone(word).is_some() {
            self.offset = zone(word);
        } else if let Some((day, month_and_year)) = word.split_once('-') {
            let (name, year) = month_and_year.split_once('-')?;
            self.number(day)?;
            set(&mut self.month, month(name)?)?;
            self.number(year)?;
        } else {
            self.number(word)?;
        }
        Some(())
    }

    /// A day of the month first, a year after it.
    fn number(&mut self, word: &str) -> Option<()> {
        if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        match (word.len(), self.day) {
            (1 | 2, None) => set(&mut self.day, word.parse().ok()?),
            (2, Some(_)) => set(&mut self.year, (word.parse().ok()?, true)),
            (4, _) => set(&mut self.year, (word.parse().ok()?, false)),
            _ => None,
        }
    }

    fn instant(&self, near: FleetTime) -> Option<FleetTime> {
        let (year, is_short) = self.year?;
        let year = if is_short { full_year(year, near)? } else { year };
        let (time, leap) = clock(self.time?)?;
        let date = civil::Date::new(year, self.month?, self.day?).ok()?;
        let utc = Offset::UTC.to_timestamp(date.to_datetime(time)).ok()?;
        Some(FleetTime::from_micros(utc.as_microsecond()) + leap - self.offset.unwrap_or(Span::ZERO))
    }
}

fn set<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.is_none().then(|| *place = Some(value))
}

fn month(word: &str) -> Option<i8> {
    let index = MONTHS.iter().position(|name| word.starts_with(name) && word.bytes().all(|b| b.is_ascii_alphabetic()))?;
    i8::try_from(index + 1).ok()
}

fn full_year(short: i16, near: FleetTime) -> Option<i16> {
    let near = jiff::Timestamp::from_microsecond(near.as_micros()).ok()?;
    let this_year = Offset::UTC.to_datetime(near).year();
    let same_century = this_year - this_year % 100 + short;
    Some(if same_century > this_year + 50 { same_century - 100 } else { same_century })
}

/// `HH:MM:SS`; second 60 is the first of the next minute.
fn clock(text: &str) -> Option<(civil::Time, Span)> {
    let mut parts = text.split(':');
    let mut next = || parts.next().filter(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit()));
    let (hour, minute, second) = (next()?.parse().ok()?, next()?.parse().ok()?, next()?.parse().ok()?);
    let (second, leap) = if second == 60 { (59, Span::from_secs(1)) } else { (second, Span::ZERO) };
    if parts.next().is_some() {
        return None;
    }
    Some((civil::Time::new(hour, minute, second, 0).ok()?, leap))
}

/// `gmt`, `utc`, `ut`, `z`, `+0200`, `gmt+0200`, `+02:00`.
fn zone(word: &str) -> Option<Span> {
    let offset = ["gmt", "utc", "ut", "z"].iter().find_map(|name| word.strip_prefix(name)).unwrap_or(word);
    if offset.is_empty() {
        return Some(Span::ZERO);
    }
    let (sign, digits) = match offset.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let digits = digits.replace(':', "");
    if digits.len() != 4 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes) = digits.split_at_checked(2)?;
    let minutes = hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?;
    Some(Span::from_secs(sign * minutes * 60))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, UNIX_EPOCH};

    /// Fri, 06 Feb 2026 12:00:00 GMT.
    const NOON: FleetTime = FleetTime::from_secs(1_770_379_200);

    fn after_noon(text: &str) -> Option<i64> {
        http_date(text, NOON).map(|at| (at - NOON).as_micros() / 1_000_000)
    }

    #[test]
    fn http_dates_and_near_misses() {
        for (text, secs) in [
            ("Fri, 06 Feb 2026 12:02:00 GMT", Some(120)),
            ("Friday, 06-Feb-26 12:01:30 GMT", Some(90)),
            ("Fri Feb  6 12:00:05 2026", Some(5)),
            ("Thu Feb 12 12:00:00 2026", Some(6 * 86_400)),
            ("Saturday, 06-Feb-49 12:00:00 GMT", Some(725_846_400)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777 - 1_770_379_200)),
            ("fri, 06 feb 2026 12:00:20 gmt", Some(20)),
            ("Fri, 06 Feb 2026 12:00:20 UTC", Some(20)),
            ("Fri, 06 Feb 2026 14:00:20 +0200", Some(20)),
            ("Fri, 06 Feb 26 12:00:40 GMT", Some(40)),
            ("Fri Feb 06 2026 13:00:07 GMT+0100 (Central European Standard Time)", Some(7)),
            ("Sat, 31 Dec 2016 23:59:60 GMT", Some(1_483_228_800 - 1_770_379_200)),
            ("Fri, 31 Feb 2026 12:00:00 GMT", None),
            ("Fri, 06 Feb 2026 25:00:00 GMT", None),
            ("Fri, 06 Feb 2026", None),
            ("Fri, 06 Feb 2026 12:00:00 GMT later", None),
            ("later", None),
            ("12:00:00", None),
            ("1.", None),
            ("été", None),
            ("", None),
        ] {
            assert_eq!(after_noon(text), secs, "{text}");
        }
    }

    #[test]
    fn rfc3339_needs_an_offset() {
        for (text, micros) in [
            ("2026-02-06T12:00:00Z", Some(0)),
            ("2026-02-06T14:00:00.5+02:00", Some(500_000)),
            ("2026-02-06t12:00:01z", Some(1_000_000)),
            ("2026-02-06T12:00Z", Some(0)),
            ("2026-02-06T12:00:00", None),
            ("2026-02-30T12:00:00Z", None),
            ("5", None),
        ] {
            assert_eq!(rfc3339(text).map(|at| (at - NOON).as_micros()), micros, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_others_write_is_read(secs in 0_u64..4_000_000_000) {
            let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(secs));
            prop_assert_eq!(http_date(&text, NOON), Some(FleetTime::from_secs(secs.cast_signed())));
        }
    }
}
