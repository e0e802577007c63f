//! How long things live in a store: as long as anything in them matters, and never for ever.

use paceline_core::units::{FleetTime, Span};
use paceline_core::value::ScopeValue;

/// Values outlive the latest instant inside them by this much, so that a late report still meets what it is about.
pub const MARGIN: Span = Span::from_secs(3_600);
/// Nothing lives shorter than this: some stores count in whole milliseconds, and take zero for "delete".
pub const SHORTEST_LIFE: Span = Span::from_secs(1);
/// Nothing lives longer than this: the longest floor, 31 days, and room to spare.
pub const LONGEST_LIFE: Span = Span::from_secs(40 * 86_400);

/// Until when a value must be kept: the latest instant inside it and [`MARGIN`], within [`bounded`].
pub fn keep_until(value: &ScopeValue, now: FleetTime) -> FleetTime {
    bounded(value.matters_until(now) + MARGIN, now)
}

/// `until`, but at least [`SHORTEST_LIFE`] and at most [`LONGEST_LIFE`] from now. Every store applies it to what it is told.
pub fn bounded(until: FleetTime, now: FleetTime) -> FleetTime {
    until.clamp(now + SHORTEST_LIFE, now + LONGEST_LIFE)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use paceline_core::bucket::BucketState;
    use paceline_core::floor::{self, Floor};
    use paceline_core::level::Level;
    use paceline_core::plan::{BucketId, BucketPlan, OurPart, Owner, Refill, StartLevel};
    use paceline_core::signal::Source;
    use paceline_core::units::Milli;

    use super::*;

    const NOW: FleetTime = FleetTime::from_secs(1_800_000_000);

    /// A bucket of 1,000 requests that refills within `per` and has `level` left.
    fn bucket(per: Span, level: Milli) -> BucketState {
        let mut bucket = BucketState::new(BucketPlan {
            id: BucketId { owner: Owner::Account, name: Arc::from("requests") },
            meter: Arc::from("requests"),
            limit: Some(1_000),
            per: Some(per),
            capacity: None,
            burst: None,
            refill: Some(Refill::Continuous),
            calendar: None,
            start: StartLevel::Cautious,
            learn_above: false,
            ours: OurPart::default(),
        });
        bucket.started = true;
        bucket.level = Level::new(level, NOW);
        bucket
    }

    #[test]
    fn an_empty_scope_is_kept_for_the_margin() {
        assert_eq!(keep_until(&ScopeValue::default(), NOW), NOW + MARGIN);
    }

    #[test]
    fn lives_follow_the_time_to_full_within_bounds() {
        // NU08: a bucket that is full at once, in 0.4 ms, in 1500.5 ms, in 10^15 ms.
        let full = Milli::from_units(1_000);
        for (per_micros, level, expected) in [
            (60_000_000, full, NOW + MARGIN),
            (400, Milli::ZERO, NOW + Span::from_micros(400) + MARGIN),
            (1_500_500, Milli::ZERO, NOW + Span::from_micros(1_500_500) + MARGIN),
            (1_000_000_000_000_000_000, Milli::ZERO, NOW + LONGEST_LIFE),
        ] {
            let value = ScopeValue { buckets: vec![bucket(Span::from_micros(per_micros), level)], ..ScopeValue::default() };
            assert_eq!(keep_until(&value, NOW), expected, "per {per_micros} us");
        }
    }

    #[test]
    fn a_floor_outlives_the_buckets() {
        // SE05: full again in 60 s, held for 900 s.
        let mut value = ScopeValue { buckets: vec![bucket(Span::from_secs(60), Milli::ZERO)], ..ScopeValue::default() };
        floor::raise(&mut value.floor, Floor::new(NOW, Span::from_secs(900), Source::RetryAfterSeconds));
        assert_eq!(keep_until(&value, NOW), NOW + Span::from_secs(900) + MARGIN);
    }

    #[test]
    fn nothing_lives_for_ever_or_not_at_all() {
        for (until, expected) in [
            (FleetTime::MAX, NOW + LONGEST_LIFE),
            (FleetTime::ZERO, NOW + SHORTEST_LIFE),
            (NOW, NOW + SHORTEST_LIFE),
            (NOW + Span::from_secs(5), NOW + Span::from_secs(5)),
        ] {
            assert_eq!(bounded(until, NOW), expected);
        }
        assert_eq!(bounded(FleetTime::MAX, FleetTime::MAX), FleetTime::MAX, "clamping never panics at the end of time");
    }
}
