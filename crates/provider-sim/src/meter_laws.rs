//! Laws of the meters, in virtual time.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use proptest::prelude::*;

use super::*;

const T0: FleetTime = FleetTime::from_secs(1_800_000_000);

fn units(units: u64) -> Milli {
    Milli::from_units(units)
}

/// Sends greedily at the times given by gaps, taking what fits; returns what was accepted when.
fn accepted(meter: &mut Meter, tries: &[(i64, u64)]) -> Vec<(FleetTime, u64)> {
    let mut now = T0;
    let mut accepted = Vec::new();
    for (gap, cost) in tries {
        now = now + Span::from_micros(*gap);
        if meter.wait(now, units(*cost)) == Some(Span::ZERO) {
            meter.take(now, units(*cost));
            accepted.push((now, *cost));
        }
    }
    accepted
}

fn arb_bucket() -> impl Strategy<Value = Limit> {
    (1_u64..200, 1_i64..90_000, prop::option::of(1_u64..300))
        .prop_map(|(units, millis, burst)| Limit { burst, ..Limit::new("requests", units, Span::from_millis(millis)) })
}

fn arb_tries() -> impl Strategy<Value = Vec<(i64, u64)>> {
    let gap = prop_oneof![Just(0_i64), 1_i64..1_000, 1_000_i64..5_000_000];
    prop::collection::vec((gap, 1_u64..12), 1..120)
}

proptest! {
    /// In any window: accepted <= capacity + refill x w, checked between every two accepted calls.
    #[test]
    fn a_token_bucket_never_gives_more_than_it_earned(limit in arb_bucket(), tries in arb_tries()) {
        let got = accepted(&mut Meter::new(&limit), &tries);
        for first in 0..got.len() {
            let mut sum = 0_i128;
            for (at, cost) in &got[first..] {
                sum += i128::from(*cost) * i128::from(limit.per.as_micros());
                let earned = i128::from(limit.units) * i128::from((*at - got[first].0).as_micros());
                let capacity = i128::from(limit.burst.unwrap_or(limit.units)) * i128::from(limit.per.as_micros());
                prop_assert!(sum <= capacity + earned);
            }
        }
    }

    /// The other side: what it says fits after a wait, does, and a microsecond earlier does not.
    #[test]
    fn a_wait_is_exact(limit in arb_bucket(), fixed in any::<bool>(), tries in arb_tries(), cost in 1_u64..12) {
        let limit = if fixed {
            Limit { burst: None, ..limit }.metered(Metering::FixedWindow { phase: Span::from_millis(333) })
        } else {
            limit
        };
        let mut meter = Meter::new(&limit);
        let now = accepted(&mut meter, &tries).last().map_or(T0, |(at, _)| *at);
        match meter.wait(now, units(cost)) {
            None => prop_assert!(cost > limit.burst.unwrap_or(limit.units)),
            Some(wait) => {
                prop_assert_eq!(meter.wait(now + wait, units(cost)), Some(Span::ZERO));
                if wait > Span::ZERO {
                    let before = now + wait - Span::from_micros(1);
                    prop_assert_eq!(meter.wait(before, units(cost)), Some(Span::from_micros(1)));
                }
            }
        }
    }

    /// A fixed window never gives more than its limit, and all of it again in the next.
    #[test]
    fn a_fixed_window_gives_its_limit_per_window(
        most in 1_u64..50, millis in 1_i64..60_000, phase in 0_i64..100_000, tries in arb_tries()
    ) {
        let (per, phase) = (Span::from_millis(millis), Span::from_millis(phase));
        let limit = Limit::new("requests", most, per).metered(Metering::FixedWindow { phase });
        let mut meter = Meter::new(&limit);
        let got = accepted(&mut meter, &tries);
        let mut sums = std::collections::BTreeMap::<i64, u64>::new();
        for (at, cost) in &got {
            *sums.entry((at.as_micros() - phase.as_micros()).div_euclid(per.as_micros())).or_default() += cost;
        }
        prop_assert!(sums.values().all(|sum| *sum <= most));
        let last = got.last().map_or(T0, |(at, _)| *at);
        let reading = meter.reading(last);
        prop_assert!(reading.reset_in > Span::ZERO && reading.reset_in <= per);
        prop_assert_eq!(meter.reading(last + reading.reset_in).remaining, most);
        let just_before = last + reading.reset_in - Span::from_micros(1);
        prop_assert_eq!(meter.reading(just_before).remaining, reading.remaining);
    }

    /// The figures agree with the meter: `remaining` fits and one more does not; at `reset` it is full, and not before.
    #[test]
    fn a_reading_is_true(limit in arb_bucket(), tries in arb_tries(), later in 0_i64..10_000_000) {
        let mut meter = Meter::new(&limit);
        let now = accepted(&mut meter, &tries).last().map_or(T0, |(at, _)| *at) + Span::from_micros(later);
        let reading = meter.reading(now);
        let capacity = limit.burst.unwrap_or(limit.units);
        prop_assert_eq!(meter.wait(now, units(reading.remaining)), Some(Span::ZERO));
        prop_assert_ne!(meter.wait(now, units(reading.remaining + 1)), Some(Span::ZERO));
        prop_assert_eq!(meter.reading(now + reading.reset_in).remaining, capacity);
        prop_assert_eq!(meter.reading(now + reading.reset_in).reset_in, Span::ZERO);
        if reading.reset_in > Span::ZERO {
            prop_assert_eq!(meter.reading(now + reading.reset_in - Span::from_micros(1)).reset_in, Span::from_micros(1));
        }
    }

    /// Enforced per second: no more than a second's share and what a second earns, whatever the minute still holds.
    #[test]
    fn an_enforced_interval_binds(per_second in 1_u64..40, tries in arb_tries()) {
        let limit = Limit::new("requests", per_second * 60, Span::from_secs(60)).metered(Metering::PER_SECOND);
        let tries: Vec<_> = tries.into_iter().map(|(gap, _)| (gap, 1)).collect();
        let got = accepted(&mut Meter::new(&limit), &tries);
        for (index, (start, _)) in got.iter().enumerate() {
            let within = got[index..].iter().filter(|(at, _)| *at - *start < Span::from_secs(1)).count();
            prop_assert!(within as u64 <= 2 * per_second);
        }
    }

    /// Charging refused calls never makes a debt, never helps, and a full meter's worth of time mends it.
    #[test]
    fn waste_is_bounded(limit in arb_bucket(), fixed in any::<bool>(), tries in arb_tries(), waste in 1_u64..500) {
        let limit = if fixed {
            Limit { burst: None, ..limit }.metered(Metering::FixedWindow { phase: Span::ZERO })
        } else {
            limit
        };
        let mut meter = Meter::new(&limit);
        let now = accepted(&mut meter, &tries).last().map_or(T0, |(at, _)| *at);
        let before = meter.reading(now);
        meter.waste(now, units(waste));
        let after = meter.reading(now);
        prop_assert_eq!(after.remaining, before.remaining.saturating_sub(waste));
        prop_assert!(after.reset_in >= before.reset_in);
        prop_assert!(meter.wait(now, units(1)).unwrap() <= after.reset_in);
    }

    /// A clock that goes back earns nothing and loses nothing.
    #[test]
    fn time_going_back_changes_nothing(limit in arb_bucket(), fixed in any::<bool>(), back in 0_i64..10_000_000_000) {
        let limit = if fixed {
            Limit { burst: None, ..limit }.metered(Metering::FixedWindow { phase: Span::ZERO })
        } else {
            limit
        };
        let mut meter = Meter::new(&limit);
        meter.take(T0, units(1));
        let before = meter.reading(T0);
        meter.take(T0 - Span::from_micros(back), Milli::ZERO);
        prop_assert_eq!(meter.reading(T0 - Span::from_micros(back)).remaining, before.remaining);
        prop_assert_eq!(meter.reading(T0), before);
    }
}

#[test]
fn a_level_never_drifts() {
    // A third of a unit per microsecond-and-a-bit: any rounding would show after a million steps.
    let limit = Limit::new("requests", 7, Span::from_micros(3_000));
    let mut stepped = Meter::new(&limit);
    let mut jumped = stepped.clone();
    stepped.take(T0, units(7));
    jumped.take(T0, units(7));
    for step in 0..1_000 {
        stepped.take(T0 + Span::from_micros(step), Milli::ZERO);
    }
    let end = T0 + Span::from_micros(1_000);
    assert_eq!(stepped.wait(end, units(7)), jumped.wait(end, units(7)));
    assert_eq!(jumped.wait(end, units(7)), Some(Span::from_micros(2_000)));
}

#[test]
fn the_largest_limits_do_not_overflow() {
    let limit = Limit::new("tokens", crate::limit::MOST_UNITS, crate::limit::WINDOWS.1);
    let mut meter = Meter::new(&limit);
    meter.take(FleetTime::MAX, Milli::MAX);
    assert_eq!(meter.reading(FleetTime::MAX).remaining, 0);
    assert_eq!(meter.reading(FleetTime::MAX).reset_in, crate::limit::WINDOWS.1);
    meter.take(FleetTime::MAX, Milli::MAX);
    assert_eq!(meter.wait(FleetTime::MAX, Milli::from_units(1)).map(|wait| wait > Span::ZERO), Some(true));
    let window = limit.metered(Metering::FixedWindow { phase: Span::MAX });
    assert_eq!(Meter::new(&window).wait(FleetTime::MAX, Milli::MAX), Some(Span::ZERO));
}

#[test]
fn a_call_larger_than_an_intervals_share_passes_whole_and_is_paid_for() {
    let limit = Limit::new("tokens", 6_000, Span::from_secs(60)).metered(Metering::PER_SECOND);
    let mut meter = Meter::new(&limit);
    assert_eq!(meter.wait(T0, units(250)), Some(Span::ZERO));
    meter.take(T0, units(250));
    assert_eq!(meter.reading(T0).remaining, 5_750);
    assert_eq!(meter.wait(T0, units(1)), Some(Span::from_millis(1_510)));
    assert_eq!(meter.wait(T0, units(6_001)), None);
}
