//! Quotas of a calendar's day: when they turn, how often, and what a header has to say about it.

use std::sync::Arc;

use paceline_core::calendar::{Calendar, CalendarUnit, Zone};
use paceline_core::denial::Reason;
use paceline_core::plan::{BucketPlan, GroupPlan};
use paceline_core::queue::Queue;
use paceline_core::signal::{AnswerKind, ObservedBucket, ResetMeans, Signal, Source};
use paceline_core::units::{FleetTime, Span};

use super::at_once;
use crate::support::plans::{cautious, group, named, per_minute, windowed};
use crate::support::script::refused_for;
use crate::support::world::World;

const DAY: Span = Span::from_secs(86_400);
const HOUR: i64 = 3_600;

/// 8 March 2026, 00:00 in Los Angeles: the day has 23 hours.
const SPRING: FleetTime = FleetTime::from_secs(1_772_956_800);
/// 1 November 2026, 00:00 in Los Angeles: the day has 25 hours.
const AUTUMN: FleetTime = FleetTime::from_secs(1_793_516_400);

fn daily(limit: u64) -> BucketPlan {
    let zone = Zone::named("America/Los_Angeles").expect("a zone");
    BucketPlan { calendar: Some(Calendar { unit: CalendarUnit::Day, zone }), ..windowed("requests", limit, DAY) }
}

fn world_at(now: FleetTime) -> World {
    let mut world = World::new(1);
    world.now = now;
    world
}

fn hours(hours: i64) -> Span {
    Span::from_secs(hours * HOUR)
}

/// A day's figure: `remaining` of `limit`, and the day ends in `reset`.
fn day_left(limit: u64, remaining: u64, reset: Span) -> Signal {
    let bucket = ObservedBucket {
        name: "requests".to_owned(),
        meter: "requests".to_owned(),
        limit: Some(limit),
        remaining: Some(remaining),
        reset_in: Some(reset),
        reset_means: ResetMeans::Window,
        window: Some(DAY),
        ..ObservedBucket::default()
    };
    Signal { buckets: vec![bucket], ..Signal::default() }
}

/// How many of `asked` may go now, which changes the quota; then everybody who waits leaves.
fn go(world: &mut World, plan: &Arc<GroupPlan>, asked: usize) -> usize {
    let gone = at_once(world, plan, asked);
    world.queue = Queue::default();
    gone
}

/// SE12 with the provider's days: spent before midnight, there once after it, whether the day has 23, 24 or 25 hours.
#[test]
fn se12_a_calendar_day_turns_once() {
    for (midnight, length) in [(SPRING, 23), (AUTUMN, 25), (SPRING + hours(23), 24)] {
        let plan = group(vec![daily(100)]);
        let mut world = world_at(midnight - Span::from_secs(60));
        assert_eq!(go(&mut world, &plan, 101), 100);
        world.now = midnight - Span::from_micros(1);
        assert_eq!(go(&mut world, &plan, 1), 0, "not a moment before");
        world.now = midnight + Span::from_secs(1);
        assert_eq!(go(&mut world, &plan, 1), 1);
        assert_eq!(go(&mut world, &plan, 100), 99);
        for hour in 1..length {
            world.now = midnight + hours(hour);
            assert_eq!(go(&mut world, &plan, 1), 0, "hour {hour} of {length}");
        }
        world.now = midnight + hours(length) + Span::from_secs(1);
        assert_eq!(go(&mut world, &plan, 101), 100, "a day of {length} hours");
    }
}

/// Days nobody asked in are no days to catch up on, and the phase stays.
#[test]
fn a_quiet_month_changes_nothing() {
    let plan = group(vec![daily(10)]);
    let mut world = world_at(SPRING + hours(5));
    assert_eq!(go(&mut world, &plan, 11), 10);
    world.now = SPRING + hours(23 + 30 * 24 + 23);
    assert_eq!(go(&mut world, &plan, 11), 10);
    world.now = SPRING + hours(23 + 31 * 24) + Span::from_secs(1);
    assert_eq!(go(&mut world, &plan, 11), 10, "an hour later the next day begins");
}

/// A header that says the day ends a little sooner or later than we think does not make two days of one.
#[test]
fn a_header_with_another_clock_turns_nothing_twice() {
    for off in [-90, -2, 0, 2, 90] {
        let off = Span::from_secs(off);
        let plan = group(vec![daily(100)]);
        let mut world = world_at(SPRING - hours(2));
        assert_eq!(go(&mut world, &plan, 1), 1);
        world.now = SPRING - hours(1);
        world.answer(1, &day_left(100, 50, hours(1) + off));
        assert_eq!(go(&mut world, &plan, 51), 50, "{off}");
        let mut total = 0;
        let late = world.granted.last().expect("granted").ask.id;
        // Asked every second around both ends, with a report in between whose reset is the end just passed.
        for second in -100..=100 {
            world.now = SPRING + Span::from_secs(second);
            total += go(&mut world, &plan, 200);
            if second == 1 {
                world.answer(late, &day_left(100, 0, off));
            }
        }
        assert_eq!(total, 100, "{off}: one day's quota");
        world.now = SPRING + hours(22);
        assert_eq!(go(&mut world, &plan, 1), 0);
        world.now = SPRING + hours(23) + Span::from_secs(100);
        assert_eq!(go(&mut world, &plan, 200), 100);
    }
}

/// Where a header places the end of the day elsewhere, the header is right, and the days after keep its phase.
#[test]
fn the_providers_own_end_of_day_wins() {
    let plan = group(vec![daily(100)]);
    let mut world = world_at(SPRING + hours(6));
    assert_eq!(go(&mut world, &plan, 1), 1);
    world.answer(1, &day_left(100, 7, hours(2)));
    assert_eq!(go(&mut world, &plan, 100), 7);
    world.now = SPRING + hours(8) + Span::from_secs(1);
    assert_eq!(go(&mut world, &plan, 200), 100, "eight in the morning, as told");
    world.now = SPRING + hours(30);
    assert_eq!(go(&mut world, &plan, 1), 0, "our midnight is over, its is not");
    world.now = SPRING + hours(32) + Span::from_secs(1);
    assert_eq!(go(&mut world, &plan, 200), 100);
}

/// QC03, its second half: the day's quota is used up, and the refusal names it: nobody waits for minutes, everybody is told that the
/// quota is gone and when it comes back; after the provider's midnight it is there.
#[test]
fn qc03_a_days_quota_is_held_to_the_providers_midnight() {
    let day = named("requests_day", daily(1_500));
    let plan = group(vec![per_minute("requests", 15), day]);
    let mut world = world_at(SPRING + hours(15));
    assert_eq!(go(&mut world, &plan, 1), 1);
    let used_up = ObservedBucket {
        name: "requests_day".to_owned(),
        meter: "requests".to_owned(),
        limit: Some(1_500),
        remaining: Some(0),
        reset_in: Some(hours(8)),
        reset_means: ResetMeans::Window,
        window: Some(DAY),
        ..ObservedBucket::default()
    };
    let refusal = Signal {
        kind: AnswerKind::Throttled,
        retry_after: Some(hours(8)),
        source: Source::ErrorBody,
        buckets: vec![used_up],
        ..Signal::default()
    };
    world.answer(1, &refusal);
    world.now = world.now + Span::from_secs(60);
    let ask = world.ask(&plan);
    let denied = world.acquire(ask).err().expect("the quota is used up");
    assert!(matches!(denied.denial.reason, Reason::QuotaExhausted | Reason::OverHonorCap), "{:?}", denied.denial);
    assert!(denied.denial.retry_after.is_some_and(|wait| wait > hours(7)));
    world.now = SPRING + hours(23) + Span::from_secs(1);
    assert_eq!(go(&mut world, &plan, 20), 15, "the minute's bucket binds again");
}

/// A cautious first day holds what is probably left of it and is handed out at once, not as one call a minute.
#[test]
fn a_first_day_is_not_spread_over_the_day() {
    let plan = group(vec![cautious(daily(2_300))]);
    let mut world = world_at(SPRING + hours(13));
    assert!((990..=1_000).contains(&go(&mut world, &plan, 2_000)), "10 of 23 hours are left");
    world.run_for(hours(1));
    let more = go(&mut world, &plan, 500);
    assert!((94..=98).contains(&more), "from there evenly, 2,300 in 24 hours, as long as there is some: {more}");
    let quick = group(vec![windowed("requests", 1_500, DAY)]);
    let mut world = world_at(SPRING + hours(1));
    world.push_many(&quick, 1_500);
    world.run_for(Span::from_secs(10));
    assert_eq!(world.granted.len(), 1_500, "calls in line are spread over eight seconds at most");
}

/// Another zone in the configuration moves the end of the day; a reload refills nothing.
#[test]
fn a_reload_to_another_zone_refills_nothing() {
    let plan = group(vec![daily(100)]);
    let mut world = world_at(SPRING + hours(1));
    assert_eq!(go(&mut world, &plan, 101), 100);
    let utc = Calendar { unit: CalendarUnit::Day, zone: Zone::utc() };
    let moved = group(vec![BucketPlan { calendar: Some(utc), ..daily(100) }]);
    world.now = world.now + Span::from_secs(60);
    assert_eq!(go(&mut world, &moved, 1), 0);
    // 00:00 UTC of the ninth.
    world.now = FleetTime::from_secs(1_773_014_400) + Span::from_secs(1);
    assert_eq!(go(&mut world, &moved, 101), 100);
}

/// A refusal that does not say which quota it was, and asks for half a minute, is not about the day: neither is the day's quota
/// gone, nor does it come back in half a minute.
#[test]
fn a_refusal_of_the_minute_leaves_the_day_alone() {
    for day in [daily(1_000), cautious(daily(1_000))] {
        let plan = group(vec![per_minute("requests", 60), named("requests_day", day)]);
        let mut world = world_at(SPRING + hours(10));
        assert_eq!(go(&mut world, &plan, 1), 1);
        let before = world.level("requests_day");
        world.answer(1, &refused_for(Span::from_secs(34)));
        assert_eq!(world.level("requests_day"), before);
        world.now = world.now + Span::from_secs(90);
        assert_eq!(go(&mut world, &plan, 30), 30);
        assert!(world.level("requests_day") <= before - 28.0, "no new day began meanwhile");
    }
}

/// A day that has ended before another zone was configured has ended: its quota is not lost with its midnight.
#[test]
fn a_reload_after_midnight_loses_no_day() {
    let plan = group(vec![daily(100)]);
    let mut world = world_at(SPRING - hours(1));
    assert_eq!(go(&mut world, &plan, 100), 100);
    let utc = Calendar { unit: CalendarUnit::Day, zone: Zone::utc() };
    let moved = group(vec![BucketPlan { calendar: Some(utc), ..daily(100) }]);
    world.now = SPRING + hours(1);
    assert_eq!(go(&mut world, &moved, 101), 100);
}
