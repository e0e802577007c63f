//! RL: every way in which a reservation ends.

use paceline_coordinator::api::{AcquireRequest, Answer};
use paceline_coordinator::scope::Event;
use paceline_core::report::Outcome;
use paceline_core::units::Span;

use super::{secs, sent_at_once};
use crate::support::{Look, World, answered, ask, back, limits, report, target};

fn expired(world: &World) -> u64 {
    world.events.iter().map(|event| if let Event::LeasesExpired(count) = event { *count } else { 0 }).sum()
}

/// RL01: ten in flight at most, a hundred calls that end in every way there is: the worker goes away while it waits, says nothing
/// after it was granted, reports a 504, gives the slot back, or reports that it was abandoned. In the end all ten places are free.
#[test]
fn rl01_every_way_out_frees_the_place() {
    let mut world = World::new(limits("concurrency: 10, limits: {requests: 100000/min}"), 1);
    let mut silent = 0;
    for round in 0..10 {
        let call = |n: usize| AcquireRequest { run_time: Some(secs(5)), ..ask(&format!("{round}-{n}")) };
        let ids: Vec<u64> = (0..10).map(|n| world.ask(call(n))).collect();
        let waits = world.ask(call(10));
        assert_eq!(sent_at_once(&world, &ids), 10, "round {round}");
        assert!(world.replied(waits).is_none());
        world.leave(0, &target("m"), waits);
        for (n, id) in ids.into_iter().enumerate() {
            let lease = world.reply(id).grant().lease_id.clone();
            match n % 5 {
                0 => silent += 1,
                1 => drop(world.report(answered(&lease, 504, &[]))),
                2 => drop(world.release_lease(0, &lease).unwrap()),
                3 => drop(world.report(report(&lease, 1, Outcome::Abandoned))),
                _ => drop(world.report(answered(&lease, 200, &[]))),
            }
        }
        world.pass(secs(30));
    }
    let ids: Vec<u64> = (0..10).map(|n| world.ask(ask(&format!("last-{n}")))).collect();
    assert_eq!(sent_at_once(&world, &ids), 10);
    assert_eq!(expired(&world), silent, "each that said nothing is counted, and nobody else");
    assert!(world.is_quiet(0), "nobody waits for somebody who left");
}

/// RL12, the service's part: a hundred slots whose workers stand still for 90 s. Who asks again under the same key is given a new
/// slot in the order of the limit, and the first one is not charged twice; who sent anyhow is counted from its report. (That the
/// client asks again when it wakes too late is a test of the client.)
#[test]
fn rl12_slots_that_were_slept_through() {
    let mut world = World::new(limits("limits: {requests: {limit: 600, per: 1m, burst: 10}}"), 2);
    let patient = |n: usize| AcquireRequest { max_wait: Some(secs(600)), ..ask(&n.to_string()) };
    let tickets: Vec<u64> = (0..100).map(|n| world.ask(patient(n))).collect();
    world.pass(secs(1));
    let holds: Vec<u64> = tickets
        .iter()
        .enumerate()
        .map(|(n, id)| match world.reply(*id).answer() {
            Answer::Queued(queued) => {
                let queued = queued.clone();
                world.ask(back(&patient(n), &queued, secs(60)))
            }
            _ => *id,
        })
        .collect();
    world.pass(secs(15));
    let leases: Vec<String> = holds.iter().map(|id| world.reply(*id).grant().lease_id.clone()).collect();
    world.pass(secs(90));
    // They all wake up and ask again; ten of them send their first slot all the same.
    let again: Vec<u64> = (0..100).map(|n| world.ask(patient(n))).collect();
    assert_eq!(sent_at_once(&world, &again), 10, "what may go back to back, and no more");
    let late = |world: &World| world.events.iter().filter(|event| matches!(event, Event::LateUse { .. })).count();
    assert_eq!(late(&world), 100, "every slot was missed");
    let given_up = leases.iter().zip(&again).filter(|(_, id)| world.replied(**id).is_none()).map(|(lease, _)| lease);
    let given_up: Vec<String> = given_up.take(10).cloned().collect();
    for lease in &given_up {
        world.report(answered(lease, 200, &[]));
    }
    assert_eq!((given_up.len(), late(&world)), (10, 110), "and ten were used all the same");
    world.pass(Span::from_millis(900));
    let granted = again.iter().filter_map(|id| world.replied(*id)).filter(|reply| matches!(reply.answer(), Answer::Granted(_)));
    let granted = granted.count();
    assert!((15..=21).contains(&granted), "ten, and ten a second after that: {granted}");
    assert!(world.level("requests") <= 600 - 10, "what was slept through came back once, and the new slots are charged");
}
