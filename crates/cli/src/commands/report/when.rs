//! Since when: so long ago, or an instant; and for how many hours.

use jiff::Timestamp;
use jiff::civil::Date;
use paceline_core::history::KEPT_HOURS;
use paceline_core::units::Span;
use paceline_provider_sim::parse_span;

/// How far back a report looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Since {
    /// So long ago.
    Ago(Span),
    /// From an instant on.
    At(Timestamp),
}

impl std::str::FromStr for Since {
    type Err = String;

    /// Reads `24h`, `90min`, `7day`, `2026-03-01T08:00:00Z`, or `2026-03-01`, which is when that day begins in UTC.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('T') || text.contains(':') {
            let at = text.parse().map_err(|error| {
                format!("`{text}` is no instant ({error}); write it as RFC 3339, such as 2026-03-01T08:00:00Z")
            })?;
            return Ok(Self::At(at));
        }
        if let Some(day) = Some(text).filter(|text| text.contains('-')).and_then(|text| text.parse::<Date>().ok()) {
            let begins = format!("{day}T00:00:00Z").parse().map_err(|error| format!("`{text}` is no day ({error})"))?;
            return Ok(Self::At(begins));
        }
        if text.matches('-').count() == 2 && text.chars().all(|letter| letter.is_ascii_digit() || letter == '-') {
            return Err(format!("`{text}` is no day; write year, month and day, such as 2026-03-01"));
        }
        let ago = parse_span(text).map_err(|error| {
            format!("{error}; write how long ago, such as 24h or 7day, or an instant such as 2026-03-01T08:00:00Z")
        })?;
        if ago > Span::from_secs(i64::from(KEPT_HOURS) * 3_600) {
            return Err(format!("`{text}` is longer than hours are kept, which is 31 days"));
        }
        Ok(Self::Ago(ago))
    }
}

impl Since {
    /// How long ago that is at `now`; what is kept no more is left out.
    ///
    /// # Errors
    /// It is still to come.
    pub(crate) fn ago(self, now: Timestamp) -> Result<Span, String> {
        match self {
            Self::Ago(ago) => Ok(ago),
            Self::At(at) => {
                let micros = now.as_microsecond() - at.as_microsecond();
                if micros < 0 {
                    return Err(format!("--since {at} is still to come"));
                }
                Ok(Span::from_micros(micros).min(Span::from_secs(i64::from(KEPT_HOURS) * 3_600)))
            }
        }
    }
}

/// Reads a number of hours: `24`, `24h`, `7day`.
pub(super) fn hours(text: &str) -> Result<u32, String> {
    let bad = |why: &str| format!("`{text}` is no number of hours{why}; write one from 0 on, such as 24, or 7day");
    if let Ok(hours) = text.parse::<u32>() {
        return Ok(hours);
    }
    let length = parse_span(text).map_err(|_| bad(""))?;
    let (hour, micros) = (3_600_000_000, length.as_micros());
    if micros % hour != 0 {
        return Err(bad(", which are whole"));
    }
    u32::try_from(micros / hour).map_err(|_| bad(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_instants_are_read() {
        let now: Timestamp = "2026-03-02T08:00:00Z".parse().unwrap();
        let ago = |text: &str| text.parse::<Since>().and_then(|since| since.ago(now)).map(|ago| ago.as_micros() / 1_000_000);
        assert_eq!(ago("24h"), Ok(86_400));
        assert_eq!(ago("90min"), Ok(5_400));
        assert_eq!(ago("2026-03-02T07:59:00Z"), Ok(60));
        assert_eq!(ago("2026-03-01"), Ok(32 * 3_600), "as that day begins in UTC");
        assert_eq!(ago("2026-03-02T10:59:00+03:00"), Ok(60));
        assert_eq!(ago("2020-01-01T00:00:00Z"), Ok(31 * 86_400), "as long as hours are kept");
        for (text, words) in [
            ("24", "the unit is missing"),
            ("yesterday", "such as 24h"),
            ("40day", "31 days"),
            ("-1h", "must not be negative"),
            ("2026-03-02T09:00:00Z", "still to come"),
            ("2026-13-02T09:00:00Z", "RFC 3339"),
        ] {
            let error = ago(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn hours_may_carry_their_unit() {
        for (text, expected) in [("24", 24), ("24h", 24), ("0", 0), ("7day", 168)] {
            assert_eq!(hours(text), Ok(expected), "{text}");
        }
        for bad in ["-1", "90min", "h", "-1h", ""] {
            let error = hours(bad).unwrap_err();
            assert!(error.contains("such as 24, or 7day"), "{bad}: {error}");
        }
    }
}
