//! What headers mean, and what changes in them.

use paceline_core::plan::BucketPlan;
use paceline_core::signal::{AnswerKind, ResetMeans, Signal, Source};
use paceline_core::units::Span;

use super::{at_once, tells};
use crate::support::plans::{group, per_minute, unknown, windowed};
use crate::support::world::{START, World, at};

const MINUTE: Span = Span::from_secs(60);

/// HM05: 60 a minute, drained; the answer says 0 left and 60 s until full: the next ten go about a second apart, not all after a
/// minute. The same when it is a refusal whose only hint is that reset.
#[test]
fn hm05_time_until_full_is_no_time_to_wait() {
    for kind in [AnswerKind::Ok, AnswerKind::Throttled] {
        let plan = group(vec![per_minute("requests", 60)]);
        let mut world = World::new(1);
        assert_eq!(at_once(&mut world, &plan, 60), 60);
        let mut signal = tells("requests", 60, 0, Some((MINUTE, ResetMeans::Full)));
        if kind == AnswerKind::Throttled {
            (signal.kind, signal.retryable) = (kind, true);
            (signal.retry_after, signal.source) = (Some(MINUTE), Source::ResetHeader);
        }
        world.answer(60, &signal);
        world.push_many(&plan, 10);
        world.run_until(at(30.0));
        let mut sends: Vec<f64> = world.sends()[60..].iter().map(|send| send.as_secs_f64()).collect();
        sends.sort_by(f64::total_cmp);
        assert_eq!(sends.len(), 10, "{kind:?}");
        for (index, send) in sends.iter().enumerate() {
            let due = index as f64 + 1.0;
            assert!((due..due + 0.5).contains(send), "{kind:?}: number {index} at {send}");
        }
    }
}

/// HM10: B, sent later, is answered first with 2 left; then A's older answer says 40: it may lower, never raise.
#[test]
fn hm10_an_older_answer_never_raises() {
    let plan = group(vec![windowed("requests", 100, MINUTE)]);
    let mut world = World::new(1);
    at_once(&mut world, &plan, 1);
    world.now = at(5.0);
    at_once(&mut world, &plan, 1);
    world.now = at(6.0);
    let ends_in = |secs| Some((Span::from_secs(secs), ResetMeans::Window));
    world.report(2, Some(&tells("requests", 100, 2, ends_in(54))), Some(at(6.0)), None, true);
    assert_eq!(world.level("requests"), 2.0);
    world.now = at(9.0);
    world.report(1, Some(&tells("requests", 100, 40, ends_in(56))), Some(at(4.0)), None, true);
    assert_eq!(world.level("requests"), 2.0);
    assert_eq!(at_once(&mut world, &plan, 5), 2);
}

/// HM11: fifty granted and none arrived when an earlier call is told 99 left of a hundred: at most fifty more.
#[test]
fn hm11_what_was_granted_since_is_not_in_the_figure() {
    let plan = group(vec![windowed("requests", 100, MINUTE)]);
    let mut world = World::new(1);
    at_once(&mut world, &plan, 1);
    assert_eq!(at_once(&mut world, &plan, 50), 50);
    world.now = at(0.5);
    world.answer(1, &tells("requests", 100, 99, None));
    assert_eq!(at_once(&mut world, &plan, 60), 49);
}

/// LC03: a lower limit holds at once, with the level; a higher one after three agreeing answers of two calls, and above what a
/// person wrote only where that is allowed.
#[test]
fn lc03_cuts_at_once_and_rises_when_sure() {
    for (learn_above, reached) in [(false, 1_000), (true, 5_000)] {
        let plan = group(vec![BucketPlan { learn_above, ..per_minute("requests", 1_000) }]);
        let mut world = World::new(1);
        assert_eq!(at_once(&mut world, &plan, 100), 100);
        let limit = |world: &World| world.value.buckets[0].effective().limit;
        let done = world.answer(100, &tells("requests", 100, 95, None));
        assert_eq!((limit(&world), done.limits_changed), (Some(100), 1));
        assert!(world.level("requests") <= 95.0);
        for (id, expected) in [(99, 100), (98, 100), (97, reached)] {
            assert_eq!(limit(&world), Some(100));
            world.answer(id, &tells("requests", 5_000, 95, None));
            assert_eq!(limit(&world), Some(expected));
        }
        assert!(world.level("requests") <= 95.0, "a higher limit fills nothing");
    }
}

/// LC03 and I-1: headers that tell of twice the limit a person wrote raise neither it nor what is let through in a minute.
#[test]
fn lc03_a_limit_that_a_person_wrote_is_kept() {
    let plan = group(vec![per_minute("requests", 60)]);
    let mut world = World::new(1);
    world.push_many(&plan, 400);
    world.decide();
    for second in 1..=120 {
        for id in world.open.keys().copied().collect::<Vec<_>>() {
            world.answer(id, &tells("requests", 120, 110, Some((Span::from_secs(5), ResetMeans::Full))));
        }
        world.run_until(at(f64::from(second)));
    }
    let within = |from: f64, to: f64| {
        let sent = world.granted.iter().filter(|granted| (at(from)..at(to)).contains(&granted.slot.send_at));
        sent.count()
    };
    assert!(within(0.0, 60.0) <= 120, "a full bucket and a minute of refill: {}", within(0.0, 60.0));
    assert!(within(60.0, 120.0) <= 61, "a minute of refill: {}", within(60.0, 120.0));
}

/// LC03: the same call telling it three times is one witness.
#[test]
fn lc03_one_call_is_one_witness() {
    let plan = group(vec![BucketPlan { learn_above: true, ..per_minute("requests", 100) }]);
    let mut world = World::new(1);
    at_once(&mut world, &plan, 2);
    for _ in 0..5 {
        world.report(1, Some(&tells("requests", 500, 98, None)), None, None, false);
        assert_eq!(world.value.buckets[0].effective().limit, Some(100));
    }
    world.report(2, Some(&tells("requests", 500, 98, None)), None, None, false);
    assert_eq!(world.value.buckets[0].effective().limit, Some(500));
}

/// LC04: answers that name 50 and 5,000 in turn: the lower one holds throughout, and each contradiction is counted.
#[test]
fn lc04_a_limit_that_flaps() {
    for bucket in [unknown("requests"), per_minute("requests", 5_000)] {
        let plan = group(vec![bucket]);
        let mut world = World::new(1);
        let mut flaps = 0;
        for turn in 0..300 {
            world.push_many(&plan, 10);
            world.run_until(START + Span::from_secs(turn));
            let Some(id) = world.open.keys().next().copied() else { continue };
            let limit = if turn % 2 == 0 { 50 } else { 5_000 };
            let mut signal = tells("requests", limit, 0, None);
            signal.buckets[0].remaining = None;
            flaps += world.answer(id, &signal).flaps;
            assert_eq!(world.value.buckets[0].effective().limit, Some(50), "turn {turn}");
        }
        assert!(flaps >= 100, "{flaps} contradictions were seen");
        // 50 a minute, with the fifty that were there and the first answers' worth of calls.
        let minute =
            |from: f64| world.granted.iter().filter(move |granted| (at(from)..at(from + 60.0)).contains(&granted.slot.send_at));
        for from in [60.0, 120.0, 180.0, 230.0] {
            let granted = minute(from).count();
            assert!((45..=55).contains(&granted), "{granted} in the minute from {from}");
        }
    }
}

/// CK04: a reset that is past. A refusal with it backs off all the same, never by less than nothing; on a success it means that the
/// window has turned: not known, and not zero.
#[test]
fn ck04_a_reset_in_the_past() {
    let plan = group(vec![windowed("requests", 100, MINUTE)]);
    let mut world = World::new(1);
    at_once(&mut world, &plan, 20);
    world.now = at(1.0);
    let past = tells("requests", 100, 0, Some((Span::ZERO, ResetMeans::Window)));
    let done = world.answer(20, &past);
    assert_eq!(done.honored, Span::ZERO);
    assert_eq!(world.level("requests"), 80.0);
    assert_eq!(at_once(&mut world, &plan, 1), 1);
    for id in 1..=10 {
        let refused = Signal { kind: AnswerKind::Throttled, retryable: true, ..past.clone() };
        let done = world.answer(id, &refused);
        assert_eq!(done.source, Source::Backoff);
        assert!(done.honored >= Span::from_millis(250), "{}", done.honored);
        assert!(done.call_floor.is_some_and(|floor| floor.until > world.now));
    }
}
