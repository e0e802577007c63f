//! A store that loses what it held, or comes back with an older value: replicas go on with what they remember.

use paceline_coordinator::api::AcquireRequest;
use paceline_coordinator::memory::{Memory, Stored, take_over};
use paceline_core::denial::Reason;
use paceline_core::units::Span;
use paceline_core::value::ScopeValue;
use paceline_store::Version;
use paceline_store::codec::{self, Decoded, Header};
use paceline_telemetry::StateLoss;

use crate::support::{Look, START, World, answered, ask, limits, target};

const LIMITS: &str = "limits: {requests: 600/min}";

fn secs(secs: i64) -> Span {
    Span::from_secs(secs)
}

/// So many calls at a replica that are let through now.
fn sent(world: &mut World, replica: usize, calls: usize, name: &str) -> usize {
    let granted = (0..calls).filter(|n| {
        let request = AcquireRequest { deadline: Some(Span::from_millis(1)), ..ask(&format!("{name}-{n}")) };
        let id = world.ask_at(replica, request).unwrap();
        matches!(world.reply(id).answer(), paceline_coordinator::api::Answer::Granted(_))
    });
    granted.count()
}

/// A refusal at a replica: nothing for ten minutes. Returns the lease of a call that still runs.
fn refused(world: &mut World, replica: usize, name: &str) -> String {
    let [running, refused] = ["running", "refused"].map(|what| {
        let id = world.ask_at(replica, ask(&format!("{name} {what}"))).unwrap();
        world.reply(id).grant().lease_id.clone()
    });
    world.report_at(replica, answered(&refused, 429, &[("retry-after", "600")])).unwrap();
    running
}

/// The call ends. A replica finds out what became of the store when it writes to it.
fn ended(world: &mut World, replica: usize, lease: &str) {
    world.report_at(replica, answered(lease, 200, &[])).unwrap();
}

fn waits_out_the_refusal(world: &mut World, replica: usize, name: &str) {
    let request = AcquireRequest { deadline: Some(secs(30)), ..ask(name) };
    let id = world.ask_at(replica, request).unwrap();
    let denied = world.reply(id).denied();
    assert_eq!(denied.denial.reason, Reason::OverHonorCap, "{denied:?}");
}

#[test]
fn what_is_lost_is_what_it_was_but_never_full() {
    let mut world = World::new(limits(LIMITS), 1);
    assert_eq!(sent(&mut world, 0, 3, "before"), 3);
    world.lose();
    // 597 were left, and nobody knows what others took of them: one second of refill is handed out.
    let burst = sent(&mut world, 0, 50, "after");
    assert_eq!(burst, 10, "a cautious start");
    let fired = world.stored_value(&target("")).buckets[0].fired;
    assert_eq!(fired, 13_000, "what was granted before is counted on");
}

#[test]
fn a_level_that_was_lower_stays_lower() {
    let mut world = World::new(limits(LIMITS), 2);
    assert_eq!(sent(&mut world, 0, 700, "before"), 600);
    world.lose();
    assert_eq!(sent(&mut world, 0, 20, "after"), 0, "nothing was left, so nothing is left");
    world.pass(secs(3));
    assert_eq!(sent(&mut world, 0, 50, "later"), 10, "it finds out when it writes, and others may have sent since");
}

#[test]
fn a_refusal_outlives_the_store() {
    let mut world = World::new(limits(LIMITS), 3);
    let running = refused(&mut world, 0, "A");
    world.lose();
    ended(&mut world, 0, &running);
    world.put_away(0);
    waits_out_the_refusal(&mut world, 0, "B");
}

#[test]
fn a_replica_that_knows_nothing_begins_anew_and_others_add_what_they_know() {
    let mut world = World::new(limits(LIMITS), 4);
    let running = refused(&mut world, 0, "A");
    world.lose();
    // The second replica has never seen this scope: to it, it is new.
    let fresh = sent(&mut world, 1, 5, "fresh");
    assert_eq!(fresh, 5);
    ended(&mut world, 0, &running);
    waits_out_the_refusal(&mut world, 1, "B");
}

#[test]
fn an_older_value_that_was_written_over_is_found_out() {
    let mut world = World::new(limits(LIMITS), 5);
    assert_eq!(sent(&mut world, 1, 1, "known to both"), 1);
    assert_eq!(sent(&mut world, 0, 1, "known to both"), 1);
    let before = world.stored_value(&target("")).buckets[0].fired;
    let running = refused(&mut world, 0, "A");
    world.roll_back(3);
    assert_eq!(world.stored_value(&target("")).buckets[0].fired, before, "the refusal and its calls are gone");
    // The second replica goes on with the older value: it does not know of more, and its version gets higher than the lost.
    assert_eq!(sent(&mut world, 1, 5, "on the older one"), 5);
    ended(&mut world, 0, &running);
    waits_out_the_refusal(&mut world, 1, "B");
    assert!(world.stored_value(&target("")).buckets[0].fired >= before + 5_000);
}

#[test]
fn what_was_merged_is_written_even_when_nothing_else_changes() {
    let mut world = World::new(limits(LIMITS), 6);
    assert_eq!(sent(&mut world, 0, 3, "before"), 3);
    world.lose();
    refused(&mut world, 1, "A");
    // Denied at once: by itself that would write nothing.
    waits_out_the_refusal(&mut world, 0, "B");
    assert_eq!(world.stored_value(&target("")).buckets[0].fired, 3_000, "the higher count of both");
    world.put_away(0);
    waits_out_the_refusal(&mut world, 0, "C");
}

#[test]
fn a_value_that_came_to_its_end_was_not_lost() {
    let mut world = World::new(limits(LIMITS), 7);
    assert_eq!(sent(&mut world, 0, 100, "before"), 100);
    let value = world.stored_value(&target(""));
    let memory = memory_of(&value, 0);
    let hour = START + secs(3_600);
    assert_eq!(take_over(Some(&memory), Stored::Nothing, hour).loss, Some(StateLoss::Lost));
    let after = take_over(Some(&memory), Stored::Nothing, hour + secs(120));
    assert_eq!((after.loss, after.value), (None, ScopeValue::default()));
}

#[test]
fn a_loss_is_found_once_and_joined_by_those_who_know_more() {
    let mut value = ScopeValue::default();
    value.lineage.wrote(1);
    let first = memory_of(&value, 0);
    value.lineage.wrote(2);
    let second = memory_of(&value, 0);
    let found = take_over(Some(&first), Stored::Nothing, START);
    assert_eq!((found.loss, found.epoch, found.value.lost_at), (Some(StateLoss::Lost), 1, START));
    let joined = take_over(Some(&second), stored(&found.value, found.epoch), START + secs(5));
    assert_eq!((joined.loss, joined.epoch, joined.value.lost_at), (Some(StateLoss::Joined), 1, START));
    let again = take_over(Some(&first), stored(&joined.value, joined.epoch), START + secs(6));
    assert_eq!((again.loss, &again.value), (None, &joined.value), "it is in there");
    let damaged = take_over(Some(&second), Stored::Damaged, START + secs(7));
    assert_eq!((damaged.loss, damaged.epoch), (Some(StateLoss::Lost), 1));
    assert!(damaged.value.lineage.includes(&value.lineage));
    let unknown = take_over(None, Stored::Damaged, START);
    assert_eq!((unknown.loss, unknown.value), (Some(StateLoss::Lost), ScopeValue::after_loss(START)));
}

fn memory_of(value: &ScopeValue, epoch: u64) -> Memory {
    Memory::of(codec::encode(&Header::new(epoch, Version(1), 0), value), epoch, value, START)
}

fn stored(value: &ScopeValue, epoch: u64) -> Stored {
    let header = Header::new(epoch, Version(1), 0);
    Stored::Value(Box::new(Decoded { header, value: value.clone(), repaired: 0 }))
}
