//! What calls are charged that do not say what they cost.

use std::sync::Arc;

use paceline_core::amounts::Amounts;
use paceline_core::plan::{BucketPlan, GroupPlan};
use paceline_core::queue::AskId;
use paceline_core::signal::Signal;
use paceline_core::units::Span;
use paceline_core::usage::CallKind;

use crate::support::plans::{group, per_minute};
use crate::support::provider::Meter;
use crate::support::world::{START, World, at};

fn plan() -> Arc<GroupPlan> {
    group(vec![per_minute("requests", 100_000), per_minute("tokens", 1_000_000)])
}

/// Asks for a slot at once; the call's id and what it was charged in tokens.
fn charged(world: &mut World, plan: &Arc<GroupPlan>, label: &str, cost: &[(&str, u64)]) -> (AskId, u64) {
    let mut ask = world.ask(plan);
    ask.kind = CallKind::new("m", label);
    cost.iter().for_each(|(meter, units)| ask.cost.set(meter, *units));
    let granted = world.acquire(ask).map_err(|denied| denied.denial).expect("there is room");
    let charge = granted.slot.charges.iter().find(|charge| &*charge.bucket.name == "tokens").expect("counted");
    (granted.ask.id, charge.amount.as_units_floor())
}

fn used(world: &mut World, id: AskId, usage: &[(&str, u64)]) {
    let usage = Amounts::from_pairs(usage.iter().copied());
    world.report(id, Some(&Signal::default()), None, Some(&usage), true);
}

/// TE05: what nine of ten such calls do not exceed: of this label, once it is known, of the model before, and a hundredth of what
/// fits while nobody knows; never nothing, never more than half.
#[test]
fn te05_unstated_costs_are_what_such_calls_use() {
    let (plan, mut world) = (plan(), World::new(1));
    assert_eq!(charged(&mut world, &plan, "", &[]).1, 10_000);
    for call in 0..40 {
        let (id, _) = charged(&mut world, &plan, "chat", &[("tokens", 900)]);
        used(&mut world, id, &[("tokens", if call % 10 == 9 { 2_000 } else { 700 })]);
    }
    assert_eq!(charged(&mut world, &plan, "chat", &[]).1, 700, "nine of ten");
    for _ in 0..5 {
        let (id, _) = charged(&mut world, &plan, "digest", &[]);
        used(&mut world, id, &[("input_tokens", 50_000), ("output_tokens", 1_000)]);
    }
    assert_eq!(charged(&mut world, &plan, "digest", &[]).1, 51_000, "its own");
    assert_eq!(charged(&mut world, &plan, "chat", &[]).1, 700);
    let mut ask = world.ask(&plan);
    ask.kind = CallKind::new("m", "chat");
    let granted = world.acquire(ask).map_err(|denied| denied.denial).unwrap();
    assert_eq!(&*granted.slot.estimated[0].0, "tokens", "and the answer says so");
    let small = group(vec![BucketPlan { capacity: Some(10_000), ..per_minute("tokens", 1_000_000) }]);
    assert_eq!(charged(&mut world, &small, "digest", &[]).1, 5_000, "half of what fits");
    used_often(&mut world, &plan, "nothing", 0);
    assert_eq!(charged(&mut world, &plan, "nothing", &[]).1, 1);
}

fn used_often(world: &mut World, plan: &Arc<GroupPlan>, label: &str, tokens: u64) {
    for _ in 0..5 {
        let (id, _) = charged(world, plan, label, &[("tokens", tokens)]);
        used(world, id, &[("tokens", tokens)]);
    }
}

/// A call that states its input only is charged for its output too, as soon as it is known what such calls answer.
#[test]
fn what_is_half_stated_is_charged_in_full() {
    let (plan, mut world) = (plan(), World::new(2));
    let (first, units) = charged(&mut world, &plan, "", &[("input_tokens", 300)]);
    assert_eq!(units, 300, "nobody knows what it answers");
    used(&mut world, first, &[("input_tokens", 300), ("output_tokens", 450)]);
    assert_eq!(charged(&mut world, &plan, "", &[("input_tokens", 1_000)]).1, 1_450);
    assert_eq!(charged(&mut world, &plan, "", &[("output_tokens", 1_000)]).1, 1_300, "and the other way round");
    assert_eq!(charged(&mut world, &plan, "", &[("input_tokens", 1_000), ("output_tokens", 5)]).1, 1_005);
}

/// Images and sound have tokens by the ten thousand. They are learned apart: text is never charged for what media used, and text
/// that names no images has none.
#[test]
fn media_are_never_counted_as_text() {
    let plan = group(vec![per_minute("tokens", 1_000_000), per_minute("images", 100)]);
    let mut world = World::new(3);
    let (text, _) = charged(&mut world, &plan, "", &[]);
    used(&mut world, text, &[("tokens", 400)]);
    assert_eq!(world.level("images"), 100.0, "none were used, and the one that was reserved came back");
    for _ in 0..20 {
        let (seen, _) = charged(&mut world, &plan, "", &[("images", 2)]);
        used(&mut world, seen, &[("tokens", 30_000), ("images", 2)]);
    }
    let before = world.level("images");
    assert_eq!(charged(&mut world, &plan, "", &[]).1, 400);
    assert_eq!(world.level("images"), before);
    assert_eq!(charged(&mut world, &plan, "", &[("images", 1)]).1, 30_000);
    // A call that turns out to have had media teaches nothing about text either.
    let (hidden, _) = charged(&mut world, &plan, "", &[]);
    used(&mut world, hidden, &[("tokens", 90_000), ("audio_seconds", 30)]);
    assert_eq!(charged(&mut world, &plan, "", &[]).1, 400);
}

/// TE03: a provider that reserves the whole output on arrival: so do we, and what was not used comes back with each report. Fifty
/// workers with answers of a fortieth of what they reserve are never charged beyond the bucket, and it recovers.
#[test]
fn te03_what_was_reserved_comes_back_with_each_report() {
    let plan = group(vec![per_minute("tokens", 400_000)]);
    let mut world = World::new(4);
    for _ in 0..5 {
        let ids: Vec<AskId> = (0..50).map(|_| charged(&mut world, &plan, "", &[("tokens", 4_096)]).0).collect();
        assert!(world.level("tokens") >= 0.0);
        world.run_for(Span::from_secs(20));
        ids.into_iter().for_each(|id| used(&mut world, id, &[("tokens", 100)]));
    }
    assert_eq!(world.level("tokens"), 400_000.0);
}

/// TE03 under a lasting load: fifty workers want to have 205,000 tokens reserved at a provider whose bucket holds 100,000, takes them
/// all on arrival and gives back what a call did not use when it ends, 20 s later. Nothing is refused, and what comes back is used at
/// once.
#[test]
fn te03_a_provider_that_reserves_refuses_nothing() {
    const RESERVED: u64 = 4_096;
    const USED: u64 = 100;
    let plan = group(vec![per_minute("tokens", 100_000)]);
    let (mut world, mut provider) = (World::new(5), Meter::full("tokens", 100_000, Span::from_secs(60), START));
    let (mut running, mut seen, mut ended, mut sent) = (Vec::new(), 0, 0_u64, Vec::new());
    while world.now < at(300.0) {
        for _ in world.queue.len() + sent.len() + running.len()..50 {
            let mut ask = world.ask(&plan);
            ask.cost.set("tokens", RESERVED);
            world.push(ask);
        }
        world.run_for(Span::from_millis(20));
        sent.extend(world.granted[seen..].iter().map(|granted| (granted.slot.send_at, granted.ask.id)));
        seen = world.granted.len();
        let now = world.now;
        for (_, id) in sent.extract_if(.., |(send_at, _)| *send_at <= now) {
            assert!(provider.fits_at(now, RESERVED) <= now, "refused {}", now - START);
            provider.take(now, RESERVED);
            running.push((now + Span::from_secs(20), id));
        }
        for (_, id) in running.extract_if(.., |(ends, _)| *ends <= now) {
            provider.give(now, RESERVED - USED);
            used(&mut world, id, &[("tokens", USED)]);
            ended += 1;
        }
    }
    // Each 20 s what the bucket holds, plus what refills meanwhile, is out: some 32 calls of 4,096; 667 of them end within five minutes.
    assert!(ended >= 650, "{ended} calls in five minutes");
}
