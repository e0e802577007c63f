//! NU01, CK02, CK05: numbers that must come back as they went, and clocks that do not go evenly.

use std::sync::Arc;

use paceline_coordinator::api::{AcquireRequest, Answer};
use paceline_core::units::{FleetTime, Span};
use paceline_store::Version;
use paceline_store::codec::{self, Header};

use super::{secs, sent_at_once};
use crate::support::{Look, START, World, ask, limits, target};

/// NU01: each microsecond of a millisecond is stored and read back as itself, also far above 2^53 thousandths. (No script
/// handles numbers: values are bytes of integers, whichever store holds them.)
#[test]
fn nu01_every_microsecond_comes_back() {
    let mut world = World::new(limits("limits: {requests: 60/min}"), 1);
    let id = world.ask(ask("A"));
    world.reply(id).grant();
    let mut value = world.stored_value(&target(""));
    let header = Header::new(u64::MAX, Version((1 << 53) + 1), (1 << 53) + 1);
    for micros in 0..1_000 {
        value.last_refusal = Some((Arc::from("m"), START + Span::from_micros(micros)));
        value.groups[0].granted = (1 << 53) + 1 + micros.unsigned_abs();
        let read = codec::decode(&codec::encode(&header, &value), START).unwrap();
        assert_eq!((read.value, read.header, read.repaired), (value.clone(), header, 0));
    }
}

/// CK05: seconds and microseconds make one number, and it rises across the edge of a second.
#[test]
fn ck05_microseconds_are_numbers() {
    let mut last = FleetTime::from_secs(0);
    for second in [1_799_999_999, 1_800_000_000] {
        for micros in [0, 9, 99, 999, 1_000, 99_999, 999_999] {
            let now = FleetTime::from_secs(second) + Span::from_micros(micros);
            assert_eq!(now, FleetTime::from_micros(second * 1_000_000 + micros));
            assert!(now > last);
            last = now;
        }
    }
}

/// CK02, the part of it that the core answers: fleet time that falls back by a minute makes no unit out of nothing, loses none and
/// freezes nobody longer than it fell; time that leaps an hour fills a bucket once. (That steps of a store's clock are seen, and
/// every stored instant moved with a confirmed one, comes with the store that has such a clock.)
#[test]
fn ck02_steps_of_the_clock() {
    let mut world = World::new(limits("limits: {requests: {limit: 60, per: 1m}}"), 2);
    let call = |name: String| AcquireRequest { hold: Span::ZERO, ..ask(&name) };
    let burst = |world: &mut World, name: &str| {
        let ids: Vec<u64> = (0..100).map(|n| world.ask(call(format!("{name} {n}")))).collect();
        let sent = sent_at_once(world, &ids);
        for id in &ids {
            if let Answer::Queued(queued) = world.reply(*id).answer() {
                let ticket = queued.ticket.clone();
                world.release_ticket(0, &ticket).unwrap();
            }
        }
        sent
    };
    assert_eq!(burst(&mut world, "full"), 60);
    world.now = START - secs(60);
    assert_eq!(burst(&mut world, "a minute earlier"), 0);
    world.now = START;
    assert_eq!(burst(&mut world, "as before"), 0);
    world.now = START + secs(10);
    let sent = burst(&mut world, "ten seconds of refill");
    assert!((9..=10).contains(&sent), "{sent}");
    world.now = START + secs(3_600);
    assert_eq!(burst(&mut world, "an hour later"), 60, "one full bucket");
    // A step that is undone: what was granted meanwhile is not granted again.
    world.now = START + secs(11);
    assert_eq!(burst(&mut world, "back again"), 0);
    // And a value loaded from the store lies a window and ten seconds ahead at most, whatever the clock did.
    world.put_away(0);
    assert_eq!(burst(&mut world, "loaded"), 0);
    world.now = START + secs(11 + 71);
    let sent = burst(&mut world, "after a window");
    assert!((1..=60).contains(&sent), "{sent}");
}
