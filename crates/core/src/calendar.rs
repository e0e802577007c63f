//! Days, weeks and months of a place: when they end, whatever its clocks do at night.
//!
//! Pure: the rules of time zones are those built into the program, never those of the machine it runs on, so that all replicas of
//! a release agree.

use std::fmt;
use std::sync::{Arc, LazyLock};

use jiff::civil::{Date, Time};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan};

use crate::units::{FleetTime, Span};

/// A stated end this near to a boundary is that boundary, rounded by somebody or read from another clock.
const SAME_BOUNDARY: Span = Span::from_secs(300);

static RULES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// A place whose days end at its own midnight.
#[derive(Clone, PartialEq, Eq)]
pub struct Zone {
    name: Arc<str>,
    rules: TimeZone,
}

impl Zone {
    /// The zone with this IANA name (any casing); `None` when nobody knows it.
    pub fn named(name: &str) -> Option<Self> {
        let rules = RULES.get(name).ok()?;
        let name = Arc::from(rules.iana_name().unwrap_or(name));
        Some(Self { name, rules })
    }

    /// Coordinated universal time.
    pub fn utc() -> Self {
        Self { name: Arc::from("UTC"), rules: TimeZone::UTC }
    }

    /// Its IANA name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The names of all zones, for suggestions.
    pub fn names() -> Vec<String> {
        RULES.available().map(|name| name.to_string()).collect()
    }

    fn date_at(&self, at: FleetTime) -> Option<Date> {
        Some(self.rules.to_datetime(Timestamp::from_microsecond(at.as_micros()).ok()?).date())
    }

    /// Where clocks jump over midnight, the day starts at the first moment there is.
    fn start_of(&self, date: Date) -> Option<FleetTime> {
        let start = self.rules.to_timestamp(date.to_datetime(Time::midnight())).ok()?;
        Some(FleetTime::from_micros(start.as_microsecond()))
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name)
    }
}

/// What ends with a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CalendarUnit {
    /// From midnight to midnight: 23 to 25 hours.
    Day,
    /// From Monday to Monday.
    Week,
    /// From the first to the first: 28 to 31 days.
    Month,
}

impl CalendarUnit {
    /// All of them, shortest first.
    pub const ALL: [Self; 3] = [Self::Day, Self::Week, Self::Month];

    /// Its usual length: 24 hours, seven days, thirty days. What is reckoned per length of time uses this.
    pub const fn nominal(self) -> Span {
        match self {
            Self::Day => Span::from_secs(86_400),
            Self::Week => Span::from_secs(7 * 86_400),
            Self::Month => Span::from_secs(30 * 86_400),
        }
    }

    /// The unit with this usual length.
    pub fn of_length(span: Span) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.nominal() == span)
    }

    /// As it is written in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }
}

/// Windows that end with a day, a week or a month of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// Which.
    pub unit: CalendarUnit,
    /// Of which place.
    pub zone: Zone,
}

/// Whether two ends this far apart are the same one.
pub(crate) fn is_same_boundary(apart: Span) -> bool {
    apart <= SAME_BOUNDARY && apart >= Span::ZERO - SAME_BOUNDARY
}

impl Calendar {
    /// The first boundary after `at`.
    pub fn end_after(&self, at: FleetTime) -> FleetTime {
        let end = || {
            let first = self.first_date(at)?;
            let next = match self.unit {
                CalendarUnit::Day => first.checked_add(1.day()),
                CalendarUnit::Week => first.checked_add(1.week()),
                CalendarUnit::Month => first.checked_add(1.month()),
            };
            self.zone.start_of(next.ok()?)
        };
        // Dates beyond the year 9999 have no calendar.
        end().filter(|end| *end > at).unwrap_or(at + self.unit.nominal())
    }

    /// The last boundary at or before `at`.
    pub fn start_at(&self, at: FleetTime) -> FleetTime {
        let start = || self.zone.start_of(self.first_date(at)?);
        start().filter(|start| *start <= at).unwrap_or(at - self.unit.nominal())
    }

    /// The end of the window that follows one which ended at `end`. An end that somebody stated need not be a boundary of ours:
    /// one a little off is that boundary, so that no window is turned twice; one far off keeps its distance, because the provider
    /// knows better where its days end.
    pub fn end_following(&self, end: FleetTime) -> FleetTime {
        let (boundary, offset) = self.nearest(end);
        self.end_after(boundary) + offset
    }

    /// The start of the window that ends at `end`.
    pub fn start_before(&self, end: FleetTime) -> FleetTime {
        let (boundary, offset) = self.nearest(end);
        self.start_at(boundary - Span::from_micros(1)) + offset
    }

    /// The last of the ends that follow `end` which is not after `at`; `end` itself when that is later.
    pub fn last_end_at(&self, end: FleetTime, at: FleetTime) -> FleetTime {
        let (_, offset) = self.nearest(end);
        end.max(self.start_at(at - offset) + offset)
    }

    /// The part of the window that is left at `at` of one that ends at `end`, in thousandths: from 0 to 1000.
    pub fn left_at(&self, at: FleetTime, end: FleetTime) -> i64 {
        let length = (end - self.start_before(end)).as_micros().max(1);
        let left = i128::from(end.since(at).as_micros()) * 1_000 / i128::from(length);
        i64::try_from(left.min(1_000)).unwrap_or(1_000)
    }

    fn nearest(&self, end: FleetTime) -> (FleetTime, Span) {
        let (before, after) = (self.start_at(end), self.end_after(end));
        let boundary = if after - end < end - before { after } else { before };
        let offset = end - boundary;
        (boundary, if is_same_boundary(offset) { Span::ZERO } else { offset })
    }

    fn first_date(&self, at: FleetTime) -> Option<Date> {
        let date = self.zone.date_at(at)?;
        match self.unit {
            CalendarUnit::Day => Some(date),
            CalendarUnit::Week => {
                let back = date.weekday().to_monday_zero_offset();
                date.checked_sub(i64::from(back).days()).ok()
            }
            CalendarUnit::Month => Some(date.first_of_month()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn at(text: &str) -> FleetTime {
        FleetTime::from_micros(text.parse::<Timestamp>().unwrap().as_microsecond())
    }

    fn calendar(unit: CalendarUnit, zone: &str) -> Calendar {
        Calendar { unit, zone: Zone::named(zone).unwrap() }
    }

    #[test]
    fn days_end_at_the_midnight_of_the_place() {
        let pacific = calendar(CalendarUnit::Day, "America/Los_Angeles");
        for (now, end) in [
            ("2026-07-08T19:00:00Z", "2026-07-09T07:00:00Z"),
            ("2026-01-08T19:00:00Z", "2026-01-09T08:00:00Z"),
            ("2026-07-09T06:59:59.9Z", "2026-07-09T07:00:00Z"),
            ("2026-07-09T07:00:00Z", "2026-07-10T07:00:00Z"),
            // Clocks go forward on 8 March 2026 and back on 1 November: days of 23 and 25 hours.
            ("2026-03-08T08:00:00Z", "2026-03-09T07:00:00Z"),
            ("2026-11-01T07:00:00Z", "2026-11-02T08:00:00Z"),
        ] {
            assert_eq!(pacific.end_after(at(now)), at(end), "{now}");
        }
        assert!(Zone::named("Mars/Olympus_Mons").is_none());
    }

    #[test]
    fn where_clocks_jump_over_midnight_the_day_starts_with_its_first_moment() {
        let havana = calendar(CalendarUnit::Day, "America/Havana");
        // On 8 March 2026 midnight does not exist there: 23:59:59 is followed by 01:00.
        assert_eq!(havana.end_after(at("2026-03-07T20:00:00Z")), at("2026-03-08T05:00:00Z"));
        assert_eq!(havana.end_after(at("2026-03-08T05:00:00Z")), at("2026-03-09T04:00:00Z"));
    }

    #[test]
    fn weeks_begin_on_monday_and_months_on_the_first() {
        let week = calendar(CalendarUnit::Week, "UTC");
        assert_eq!(week.end_after(at("2026-11-29T23:00:00Z")), at("2026-11-30T00:00:00Z"));
        assert_eq!(week.end_after(at("2026-11-30T00:00:00Z")), at("2026-12-07T00:00:00Z"));
        let month = calendar(CalendarUnit::Month, "America/Los_Angeles");
        assert_eq!(month.end_after(at("2026-12-31T23:00:00Z")), at("2027-01-01T08:00:00Z"));
        let month = calendar(CalendarUnit::Month, "UTC");
        for (start, days) in [("2026-02-01T00:00:00Z", 28), ("2028-02-01T00:00:00Z", 29), ("2026-04-01T00:00:00Z", 30)] {
            assert_eq!(month.end_after(at(start)), at(start) + Span::from_secs(days * 86_400), "{start}");
        }
    }

    #[test]
    fn an_end_a_little_off_is_that_boundary_and_one_far_off_keeps_its_distance() {
        let day = calendar(CalendarUnit::Day, "UTC");
        let midnight = at("2026-11-30T00:00:00Z");
        let next = at("2026-12-01T00:00:00Z");
        for off in [-2, 2, -200, 200] {
            let told = midnight + Span::from_secs(off);
            assert_eq!(day.end_following(told), next, "{off}");
            assert_eq!(day.last_end_at(told, midnight + Span::from_secs(300)), midnight.max(told), "{off}");
        }
        let told = at("2026-11-30T08:00:00Z");
        assert_eq!(day.end_following(told), at("2026-12-01T08:00:00Z"));
        assert_eq!(day.start_before(told), at("2026-11-29T08:00:00Z"));
        assert_eq!(day.last_end_at(told, at("2026-12-05T07:59:59Z")), at("2026-12-04T08:00:00Z"));
        assert_eq!(day.last_end_at(told, at("2026-12-05T08:00:00Z")), at("2026-12-05T08:00:00Z"));
    }

    const ZONES: [&str; 8] = [
        "UTC",
        "America/Los_Angeles",
        "Europe/Berlin",
        "America/Havana",
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
        "Africa/Cairo",
        "Pacific/Chatham",
    ];

    proptest! {
        /// Windows follow each other without gaps or overlaps, in any place, at any time, with legal lengths.
        #[test]
        fn windows_tile_time(secs in 0_i64..4_000_000_000, zone in select(ZONES.to_vec()), unit in select(CalendarUnit::ALL.to_vec())) {
            let calendar = calendar(unit, zone);
            let now = FleetTime::from_secs(secs);
            let (start, end) = (calendar.start_at(now), calendar.end_after(now));
            prop_assert!(start <= now && now < end);
            prop_assert_eq!(calendar.start_at(end), end);
            prop_assert_eq!(calendar.start_at(end - Span::from_micros(1)), start);
            prop_assert_eq!(calendar.end_after(start), end);
            prop_assert_eq!(calendar.start_before(end), start);
            prop_assert_eq!(calendar.end_following(start), end);
            let hours = (end - start).as_secs_f64() / 3_600.0;
            let days = match unit { CalendarUnit::Day => 1.0..=1.0, CalendarUnit::Week => 7.0..=7.0, CalendarUnit::Month => 28.0..=31.0 };
            prop_assert!((days.start() * 24.0 - 1.0..=days.end() * 24.0 + 1.0).contains(&hours), "{} h", hours);
        }

        /// Whatever end somebody states, the next one comes later, and about a window later.
        #[test]
        fn a_stated_end_never_makes_a_short_window(secs in 0_i64..4_000_000_000, zone in select(ZONES.to_vec()), unit in select(CalendarUnit::ALL.to_vec())) {
            let calendar = calendar(unit, zone);
            let told = FleetTime::from_secs(secs);
            let length = (calendar.end_following(told) - told).as_secs_f64() / unit.nominal().as_secs_f64();
            prop_assert!((0.9..1.1).contains(&length), "{}", length);
        }

        #[test]
        fn no_instant_is_too_odd(micros in any::<i64>(), unit in select(CalendarUnit::ALL.to_vec())) {
            let calendar = calendar(unit, "America/Los_Angeles");
            let at = FleetTime::from_micros(micros);
            let _ = (calendar.end_after(at), calendar.start_at(at), calendar.end_following(at), calendar.start_before(at));
        }
    }
}
