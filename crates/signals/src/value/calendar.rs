//! Days and months of a place: when they end, whatever its clocks do at night.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use paceline_core::units::FleetTime;

/// A place whose days and months end at its own midnight (IANA name); `None` when nobody knows such a place.
pub(crate) fn zone(name: &str) -> Option<TimeZone> {
    TimeZone::get(name).ok()
}

/// The first moment of the day after `now`.
pub(crate) fn next_day(now: FleetTime, zone: &TimeZone) -> Option<FleetTime> {
    start_of(here(now, zone)?.checked_add(1.day()).ok()?, zone)
}

/// The first moment of the month after `now`.
pub(crate) fn next_month(now: FleetTime, zone: &TimeZone) -> Option<FleetTime> {
    start_of(here(now, zone)?.first_of_month().checked_add(1.month()).ok()?, zone)
}

fn here(now: FleetTime, zone: &TimeZone) -> Option<Date> {
    Some(zone.to_datetime(Timestamp::from_microsecond(now.as_micros()).ok()?).date())
}

/// Where clocks jump over midnight, the day starts at the first moment there is.
fn start_of(date: Date, zone: &TimeZone) -> Option<FleetTime> {
    let start = zone.to_timestamp(date.to_datetime(Time::midnight())).ok()?;
    Some(FleetTime::from_micros(start.as_microsecond()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(text: &str) -> FleetTime {
        FleetTime::from_micros(text.parse::<Timestamp>().unwrap().as_microsecond())
    }

    #[test]
    fn days_end_at_the_midnight_of_the_place() {
        let pacific = zone("America/Los_Angeles").unwrap();
        for (now, end) in [
            ("2026-07-08T19:00:00Z", "2026-07-09T07:00:00Z"),
            ("2026-01-08T19:00:00Z", "2026-01-09T08:00:00Z"),
            ("2026-07-09T06:59:59.9Z", "2026-07-09T07:00:00Z"),
            ("2026-07-09T07:00:00Z", "2026-07-10T07:00:00Z"),
            // Clocks go forward on 8 March 2026 and back on 1 November: days of 23 and 25 hours.
            ("2026-03-08T09:00:00Z", "2026-03-09T07:00:00Z"),
            ("2026-11-01T08:30:00Z", "2026-11-02T08:00:00Z"),
        ] {
            assert_eq!(next_day(at(now), &pacific), Some(at(end)), "{now}");
        }
        assert_eq!(next_month(at("2026-12-31T23:00:00Z"), &pacific), Some(at("2027-01-01T08:00:00Z")));
        assert!(zone("Mars/Olympus_Mons").is_none());
    }
}
