//! Long waits on one call's word, and waits that a later success contradicts.

use paceline_core::denial::Reason;
use paceline_core::signal::{AnswerKind, Signal, Source};
use paceline_core::units::Span;

use crate::support::plans::{group, per_minute};
use crate::support::script::refused_for;
use crate::support::world::{World, at};

const HOUR: Span = Span::from_secs(3_600);
const DAY: Span = Span::from_secs(86_400);

/// A call that waits for days if it must.
fn patient(world: &mut World, plan: &std::sync::Arc<paceline_core::plan::GroupPlan>) -> paceline_core::queue::Ask {
    let wait_until = world.now + DAY.scaled(31.0);
    paceline_core::queue::Ask { wait_until, honor_cap: DAY.scaled(31.0), ..world.ask(plan) }
}

/// One call is told "in a day". An hour later one call tries; the others wait for it, not for the day.
#[test]
fn a_day_on_one_calls_word_is_tried_every_hour() {
    let plan = group(vec![per_minute("requests", 60)]);
    let mut world = World::new(1);
    let first = world.ask(&plan);
    let first = world.acquire(first).ok().unwrap();
    world.answer(first.ask.id, &refused_for(DAY));
    for _ in 0..5 {
        let ask = patient(&mut world, &plan);
        world.push(ask);
    }
    world.run_until(at(3_590.0));
    assert_eq!(world.granted.len(), 1, "an hour is believed of anybody");
    world.run_until(at(3_700.0));
    assert_eq!(world.granted.len(), 2, "one probe, and no more");
    // Nothing comes of it: the prober crashed. The next hour has the next.
    world.run_until(at(7_100.0));
    assert_eq!(world.granted.len(), 2);
    world.run_until(at(7_400.0));
    assert_eq!(world.granted.len(), 3);
    // This one goes through: the wait was the first call's, and everybody goes on.
    let probe = world.granted[2].ask.id;
    assert_eq!(world.answer(probe, &Signal::default()).floors_ended, 1);
    world.run_for(Span::from_secs(60));
    assert_eq!(world.granted.len(), 6);
    assert!(world.value.provisional.is_empty());
}

/// Two calls are told the same: that is the provider's word, and it is kept to the end.
#[test]
fn a_second_call_confirms_it() {
    let plan = group(vec![per_minute("requests", 60)]);
    let mut world = World::new(2);
    world.push_many(&plan, 2);
    world.decide();
    world.answer(1, &refused_for(DAY));
    assert_eq!(world.value.provisional.len(), 1);
    world.answer(2, &refused_for(DAY));
    assert!(world.value.provisional.is_empty());
    let ask = patient(&mut world, &plan);
    world.push(ask);
    world.run_until(at(86_000.0));
    assert_eq!(world.granted.len(), 2, "nobody tries meanwhile");
    world.run_until(at(86_500.0));
    assert_eq!(world.granted.len(), 3);
    // Those who wait less are told at once.
    world.answer(3, &refused_for(HOUR));
    let impatient = world.ask(&plan);
    let denied = world.acquire(paceline_core::queue::Ask { honor_cap: Span::from_secs(60), ..impatient }).err().unwrap();
    assert_eq!(denied.denial.reason, Reason::OverHonorCap);
}

/// The probe is told the day again, by a lease of its own: confirmed.
#[test]
fn the_probe_confirms_or_corrects() {
    for (told_again, opens) in [(DAY, 3_600.0 + 86_400.0), (Span::from_secs(20), 3_620.0)] {
        let plan = group(vec![per_minute("requests", 60)]);
        let mut world = World::new(3);
        let first = world.ask(&plan);
        let first = world.acquire(first).ok().unwrap();
        world.answer(first.ask.id, &refused_for(DAY));
        let probe = patient(&mut world, &plan);
        let probe = world.acquire(probe).ok().unwrap();
        assert!(probe.slot.send_at >= at(3_600.0) && probe.slot.send_at < at(3_610.0));
        world.now = probe.slot.send_at;
        world.answer(probe.ask.id, &refused_for(told_again));
        assert!(world.value.provisional.is_empty());
        let next = patient(&mut world, &plan);
        let next = world.acquire(next).ok().unwrap();
        assert!(next.slot.send_at >= at(opens), "{:?}", next.slot.send_at - at(0.0));
        assert!(next.slot.send_at < at(opens + 20.0), "{:?}", next.slot.send_at - at(0.0));
    }
}

/// Up to an hour one call is believed at once, and a success of a call that was under way when the floor was set says nothing.
#[test]
fn only_a_success_granted_after_the_refusal_contradicts_it() {
    let plan = group(vec![per_minute("requests", 60)]);
    let mut world = World::new(4);
    world.push_many(&plan, 3);
    world.decide();
    world.now = at(1.0);
    world.answer(1, &refused_for(HOUR));
    assert!(world.value.provisional.is_empty());
    world.now = at(2.0);
    assert_eq!(world.answer(2, &Signal::default()).floors_ended, 0, "it was sent before");
    // Another replica, which had not heard of it, has granted one meanwhile.
    let mut late = world.open.get(&3).unwrap().clone();
    late.granted_at = at(1.5);
    world.open.insert(3, late);
    let done = world.answer(3, &Signal { kind: AnswerKind::Ok, ..Signal::default() });
    assert_eq!(done.floors_ended, 1);
    assert!(world.value.groups[0].floor.is_none());
}

/// A slot at the floor's end is firm a moment before it; an answer to it that comes early opens nothing for the others.
#[test]
fn a_slot_at_the_end_of_a_floor_does_not_end_it() {
    let plan = group(vec![per_minute("requests", 60)]);
    let mut world = World::new(4);
    world.push_many(&plan, 2);
    world.decide();
    world.now = at(1.0);
    world.answer(1, &refused_for(Span::from_secs(10)));
    let mut firm = world.open.get(&2).unwrap().clone();
    (firm.granted_at, firm.send_at) = (at(10.9), at(11.0));
    world.open.insert(2, firm);
    world.now = at(10.95);
    assert_eq!(world.answer(2, &Signal { kind: AnswerKind::Ok, ..Signal::default() }).floors_ended, 0);
    assert_eq!(world.value.groups[0].floor.map(|floor| floor.until), Some(at(11.0)));
}

/// A backoff of ours is no word of the provider's, however long, and needs no confirmation.
#[test]
fn guesses_are_not_confirmed() {
    let plan = group(vec![per_minute("requests", 60)]);
    let mut world = World::new(5);
    let first = world.ask(&plan);
    let first = world.acquire(first).ok().unwrap();
    let bare = Signal { kind: AnswerKind::Throttled, retryable: true, ..Signal::default() };
    world.answer(first.ask.id, &bare);
    assert!(world.value.provisional.is_empty());
    assert!(world.value.groups[0].floor.is_some_and(|floor| floor.source == Source::Backoff));
}
