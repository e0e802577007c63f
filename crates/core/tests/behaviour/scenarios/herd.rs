//! What a crowd does: after a wait, after idleness, after a refusal.

use paceline_core::denial::Reason;
use paceline_core::plan::BucketPlan;
use paceline_core::signal::{AnswerKind, Signal};
use paceline_core::units::{FleetTime, Span};

use super::at_once;
use crate::support::plans::{cautious, group, per_minute};
use crate::support::script::refused_for;
use crate::support::world::{START, World, at};

/// The most sends within any stretch of this length.
fn most_within(sends: &[Span], stretch: Span) -> usize {
    let mut sends = sends.to_vec();
    sends.sort();
    let held = |first: usize| sends[first..].partition_point(|send| *send < sends[first] + stretch);
    (0..sends.len()).map(held).max().unwrap_or(0)
}

/// HE01: Retry-After 590 and callers that wait 600 s at most: nobody before 590 s, nothing piles up at 600 s, and who does not fit
/// is told so with a hint.
#[test]
fn he01_nothing_piles_up_at_the_longest_wait() {
    let plan = group(vec![per_minute("requests", 60)]);
    let mut world = World::new(1);
    assert_eq!(at_once(&mut world, &plan, 1), 1);
    world.answer(1, &refused_for(Span::from_secs(590)));
    for _ in 0..200 {
        let mut ask = world.ask(&plan);
        ask.wait_until = START + Span::from_secs(600);
        world.push(ask);
    }
    world.run_until(at(700.0));
    let sends = world.sends().split_off(1);
    assert!(sends.iter().all(|send| (Span::from_secs(590)..=Span::from_secs(600)).contains(send)));
    // A minute's worth is there at 590 s and is drained over eight seconds: 8.5 a second at first.
    assert!(most_within(&sends, Span::from_secs(1)) <= 10);
    assert!(sends.iter().filter(|send| **send > Span::from_millis(599_900)).count() <= 1);
    assert_eq!(sends.len() + world.denied.len(), 200);
    assert!(!world.denied.is_empty());
    for denied in &world.denied {
        assert_eq!(denied.denial.reason, Reason::Deadline);
        assert!(denied.denial.retry_after.is_some());
    }
}

/// HE05: 60 a minute enforced per second, 60 calls after ten idle minutes: with `burst: 1` one in every second and one more.
#[test]
fn he05_a_configured_burst_bounds_every_second() {
    for burst in [1, 3] {
        let plan = group(vec![BucketPlan { burst: Some(burst), ..per_minute("requests", 60) }]);
        let mut world = World::new(burst);
        at_once(&mut world, &plan, 1);
        world.run_for(Span::from_secs(600));
        world.push_many(&plan, 60);
        world.run_for(Span::from_secs(120));
        let sends = world.sends().split_off(1);
        assert_eq!(sends.len(), 60);
        assert!(most_within(&sends, Span::from_secs(1)) <= 1 + burst as usize, "{:?}", sends);
    }
}

/// HE06: ten thousand in line, a refusal at 10 s: what is still sent before 40 s was firm then, a horizon and jitter of it.
#[test]
fn he06_a_refusal_stops_all_but_the_firm_slots() {
    let plan = group(vec![BucketPlan { capacity: Some(200), ..per_minute("requests", 10_000) }]);
    let mut world = World::new(3);
    world.push_many(&plan, 10_000);
    world.run_until(at(10.0));
    let (id, decided) = (*world.open.keys().next().unwrap(), world.granted.len());
    world.answer(id, &refused_for(Span::from_secs(30)));
    world.run_until(at(45.0));
    let late = |granted: &&crate::support::world::Granted| granted.slot.send_at > at(10.0) && granted.slot.send_at < at(40.0);
    assert!(world.granted[decided..].iter().filter(late).count() == 0);
    let firm = world.granted[..decided].iter().filter(late).count();
    assert!(firm as f64 <= 0.2 * 10_000.0 / 60.0 + 1.0, "{firm} were firm");
}

/// A thousand waiting, one is told to come back in ten seconds: nothing before, nothing bunches after, and no stall.
#[test]
fn a_thousand_waiting_and_one_refusal() {
    let plan = group(vec![per_minute("requests", 600)]);
    let mut world = World::new(4);
    assert_eq!(at_once(&mut world, &plan, 1_600), 600);
    world.run_until(at(2.0));
    let (id, decided) = (*world.open.keys().next().unwrap(), world.granted.len());
    world.answer(id, &refused_for(Span::from_secs(10)));
    world.run_until(at(200.0));
    let sends: Vec<Span> = world.granted[decided..].iter().map(|granted| granted.slot.send_at - START).collect();
    assert_eq!(world.granted.len(), 1_600);
    let floor = Span::from_secs(12);
    assert!(sends.iter().all(|send| *send >= floor));
    assert!(sends.iter().min().unwrap() < &(floor + Span::from_millis(200)), "no stall");
    // Ten seconds' worth has refilled; over eight seconds that makes 12.5 on top of 10 a second.
    assert!(most_within(&sends, Span::from_secs(1)) <= 24);
    assert!(most_within(&sends, Span::from_millis(100)) <= 4);
    // All that refilled is used: the last goes when the last unit is there, margin and horizon aside.
    assert!(*sends.iter().max().unwrap() <= Span::from_millis(100_500), "{}", sends.iter().max().unwrap());
}

/// LG03: a thousand asks within one millisecond for a limit of a hundred: exactly a hundred, and nothing stays behind.
#[test]
fn lg03_a_thousand_asks_in_a_millisecond() {
    let plan = group(vec![per_minute("requests", 100)]);
    let mut world = World::new(5);
    let mut granted = 0;
    for _ in 0..1_000 {
        world.now = world.now + Span::from_micros(1);
        granted += at_once(&mut world, &plan, 1);
    }
    assert_eq!(granted, 100);
    world.run_dry();
    assert_eq!(world.granted.len(), 1_000);
    world.now = world.now + Span::from_secs(3_600);
    world.value.expire(world.now);
    assert_eq!(world.value.groups[0].flights.slots().len(), 0, "calls in flight are forgotten when their leases are over");
    assert_eq!(world.value.matters_until(world.now), world.now, "nothing in the value matters an hour later");
}

/// QC06: a provider that refuses for ever and says nothing: the service owns the spacing, eight attempts in the first minute.
#[test]
fn qc06_attempts_at_a_wall_grow_apart() {
    for seed in 0..20 {
        let plan = group(vec![per_minute("requests", 600)]);
        let mut world = World::new(seed);
        let mut not_before = None;
        let mut sends: Vec<FleetTime> = Vec::new();
        while world.now < at(60.0) {
            let mut ask = world.ask(&plan);
            ask.not_before = not_before;
            let granted = world.acquire(ask).map_err(|denied| denied.denial).unwrap();
            world.now = world.now.max(granted.slot.send_at);
            sends.push(world.now);
            let refused = Signal { kind: AnswerKind::Throttled, retryable: true, ..Signal::default() };
            not_before = world.answer(granted.ask.id, &refused).call_floor;
        }
        let within = sends.iter().filter(|send| **send < at(60.0)).count();
        assert!(within <= 8, "{within} attempts in the first minute");
    }
}

/// WB03: 1,200 a minute, 32 tasks of ten units each without a pause, from a state that nobody has seen: the first minute stays
/// within the limit and the second of it that a cautious bucket starts with. (The scenario has the limit alone; a provider whose
/// bucket is full holds that second's worth, too.)
#[test]
fn wb03_the_first_minute_of_an_empty_state() {
    let plan = group(vec![cautious(per_minute("requests", 1_200))]);
    let mut world = World::new(6);
    for _ in 0..60 * 4 {
        let busy = world.queue.len();
        for _ in busy..32 {
            let mut ask = world.ask(&plan);
            ask.cost.set("requests", 10);
            world.push(ask);
        }
        world.run_for(Span::from_millis(250));
    }
    let sent = world.sends().iter().filter(|send| **send < Span::from_secs(60)).count() * 10;
    assert!((1_150..=1_220).contains(&sent), "{sent} units in the first minute");
    assert!(
        world.sends().iter().filter(|send| **send < Span::from_secs(1)).count() <= 4,
        "two calls at first, and one each 500 ms"
    );
}

/// QC03, its first half: a refusal by the minute's quota holds for its delay. Its second half, the day's
/// quota, is in `calendars.rs`.
#[test]
fn qc03_a_minutes_quota_is_a_wait() {
    let plan = group(vec![per_minute("requests", 60)]);
    let mut world = World::new(7);
    assert_eq!(at_once(&mut world, &plan, 1), 1);
    world.answer(1, &refused_for(Span::from_secs(36)));
    world.push_many(&plan, 3);
    world.run_until(at(40.0));
    let sends = world.sends().split_off(1);
    assert_eq!(sends.len(), 3);
    assert!(sends.iter().all(|send| (Span::from_secs(36)..Span::from_secs(38)).contains(send)), "{sends:?}");
}
