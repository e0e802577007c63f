//! What becomes of a reservation, and of one's place when the configuration is read again.

use std::sync::Arc;

use paceline_core::amounts::Amounts;
use paceline_core::denial::Reason;
use paceline_core::plan::GroupPlan;
use paceline_core::report::{Outcome, Report};
use paceline_core::signal::Signal;
use paceline_core::units::{FleetTime, Span};

use super::at_once;
use crate::support::plans::{concurrency, group, per_minute, windowed};
use crate::support::world::{START, World, at};

fn acquire(world: &mut World, plan: &Arc<GroupPlan>, tokens: u64) -> (u64, FleetTime) {
    let mut ask = world.ask(plan);
    ask.cost.set("tokens", tokens);
    let granted = world.acquire(ask).map_err(|denied| denied.denial).unwrap();
    (granted.ask.id, granted.slot.send_at)
}

/// RL03: 900 of 1,000 in one window, 900 in the next, then the first is cancelled: it belongs to a window that is over, so the
/// next 900 wait for the one after.
#[test]
fn rl03_a_refund_belongs_to_its_window() {
    let plan = group(vec![windowed("tokens", 1_000, Span::from_secs(60))]);
    let mut world = World::new(1);
    acquire(&mut world, &plan, 1);
    world.now = at(55.0);
    let (first, _) = acquire(&mut world, &plan, 900);
    world.now = at(61.0);
    let (_, second) = acquire(&mut world, &plan, 900);
    assert_eq!(second, at(61.0));
    world.now = at(65.0);
    world.release(first);
    let (_, third) = acquire(&mut world, &plan, 900);
    assert!(third >= at(120.0), "sent at {}", third - START);
}

/// RL06: five reservations of 100 to 500, settled with 10 each in the opposite order: 50 in all.
#[test]
fn rl06_settled_by_lease_not_by_order() {
    let plan = group(vec![per_minute("tokens", 10_000)]);
    let mut world = World::new(1);
    let leases: Vec<u64> = (1..=5).map(|hundred| acquire(&mut world, &plan, hundred * 100).0).collect();
    assert_eq!(world.level("tokens"), 8_500.0);
    for id in leases.into_iter().rev() {
        let used = Amounts::from_pairs([("tokens", 10)]);
        world.report(id, Some(&Signal::default()), None, Some(&used), true);
    }
    assert_eq!(world.level("tokens"), 9_950.0);
}

/// RL07: nothing used, reported late and twice: the level never exceeds the capacity, and the second report moves nothing.
/// (A usage below zero cannot be said here; the contract's adapter refuses it.)
#[test]
fn rl07_late_and_repeated_settlements() {
    let plan = group(vec![per_minute("tokens", 100), concurrency(2)]);
    let mut world = World::new(1);
    let (id, _) = acquire(&mut world, &plan, 5);
    let lease = world.open[&id].clone();
    world.now = at(3_600.0);
    world.value.expire(world.now);
    let nothing = Amounts::from_pairs([("tokens", 0)]);
    world.report(id, Some(&Signal::default()), None, Some(&nothing), true);
    assert_eq!(world.level("tokens"), 100.0);
    assert_eq!(world.level("concurrency"), 2.0);
    let before = world.value.clone();
    let again = Report {
        outcome: Outcome::Response,
        signal: None,
        answered_at: world.now,
        usage: Some(&nothing),
        is_final: true,
        is_open: false,
    };
    world.apply(&lease, &again);
    assert_eq!(world.value, before);
}

/// RL07: usage beyond the reservation is a debt, and it is paid before the next call.
#[test]
fn rl07_an_overrun_is_paid() {
    let plan = group(vec![per_minute("tokens", 600)]);
    let mut world = World::new(1);
    let (id, _) = acquire(&mut world, &plan, 100);
    let used = Amounts::from_pairs([("tokens", 900)]);
    world.report(id, Some(&Signal::default()), None, Some(&used), true);
    assert_eq!(world.level("tokens"), -300.0);
    let (_, sent) = acquire(&mut world, &plan, 100);
    assert!((at(40.0)..at(40.5)).contains(&sent), "400 units at ten a second: {}", sent - START);
}

/// RL09: a caller whose deadline ends before the least possible wait is refused at once, told when it could work, and nothing is
/// charged. (A deadline of zero never reaches the core: it is refused where deadlines are read.)
#[test]
fn rl09_too_late_whatever_others_do() {
    let plan = group(vec![per_minute("requests", 12)]);
    let mut world = World::new(1);
    assert_eq!(at_once(&mut world, &plan, 12), 12);
    for until_deadline in [true, false] {
        let mut ask = world.ask(&plan);
        ask.wait_until = world.now + Span::from_millis(100);
        ask.until_deadline = until_deadline;
        let before = world.value.buckets.clone();
        let asked_at = world.now;
        let denied = world.acquire(ask).err().expect("five seconds are too long");
        assert_eq!((denied.denial.reason, denied.at), (Reason::Deadline, asked_at));
        assert!(denied.denial.retry_after.is_some_and(|wait| wait >= Span::from_millis(4_900)));
        assert!(denied.denial.detail.contains(if until_deadline { "the deadline" } else { "max_wait" }));
        assert_eq!(world.value.buckets, before);
    }
}

/// LC02: the same configuration read again a hundred times under load: the grants are those of a run without it, also when every
/// waiting call is put in line again with it.
#[test]
fn lc02_reading_the_same_configuration_again_changes_nothing() {
    let run = |reloads: bool| {
        let plan = || group(vec![per_minute("requests", 300), per_minute("tokens", 60_000)]);
        let mut current = plan();
        let mut world = World::new(7);
        for step in 0..100 {
            let mut ask = world.ask(&current);
            ask.cost.set("tokens", 150 + 13 * step);
            world.push(ask);
            world.push_many(&current, 8);
            world.run_for(Span::from_millis(370));
            if reloads {
                current = plan();
                let waiting: Vec<u64> =
                    world.queue.lanes().flat_map(|(_, lane)| lane.waiting.values().map(|call| call.ask.id)).collect();
                for id in waiting {
                    let (waiting, prior) = world.queue.remove(id, world.now).unwrap();
                    let mut ask = waiting.ask;
                    (ask.plan, ask.prior, ask.entered_at) = (current.clone(), prior, world.now);
                    world.push(ask);
                }
            }
        }
        world.run_dry();
        (world.granted.iter().map(|granted| (granted.ask.id, granted.slot.send_at)).collect::<Vec<_>>(), world.value.buckets)
    };
    let (plain, reloaded) = (run(false), run(true));
    assert_eq!(plain.0.len(), 900);
    assert!(plain.0 == reloaded.0, "grants differ");
    assert!(plain.1 == reloaded.1, "levels differ");
}
