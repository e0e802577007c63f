//! Callers that go without a word: whatever moment they choose, nothing of them stays behind, and who comes back soon finds its place.

use std::collections::{BTreeMap, BTreeSet};

use paceline_coordinator::api::{AcquireRequest, Answer};
use paceline_coordinator::scope::{Effects, Input, LostCommit, Reply, ReplyId, Scope};
use paceline_coordinator::{CallKey, Kept};
use paceline_core::queue::Lane;
use paceline_core::units::{FleetTime, Span};
use paceline_core::value::ScopeValue;
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::support::{Look, START, World, ask, back, limits, target};

const SLOW: &str = "limits: {requests: {limit: 6, per: 1m, burst: 1}}";

fn secs(secs: i64) -> Span {
    Span::from_secs(secs)
}

fn rng() -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(7)
}

/// How many are counted in line, those who are away with a ticket included.
fn counted(scope: &Scope) -> usize {
    scope.queue().lanes().map(|(_, lane)| Lane::depth(lane)).sum()
}

fn id_of(input: &Input) -> ReplyId {
    input.reply().expect("somebody waits for its answer")
}

#[test]
fn a_word_that_overtakes_its_ask_keeps_it_out_of_line() {
    // An ask is put off while a record of its key is about to be written; that its caller goes is not.
    let mut world = World::new(limits(SLOW), 1);
    let (mut scope, asks) = (world.new_scope(), world.input(ask("A")));
    scope.step(vec![Input::Leave(id_of(&asks))], START, &mut rng());
    let fx = scope.step(vec![asks], START, &mut rng());
    assert!(matches!(fx.replies.as_slice(), [(_, Reply::Answer(Err(_)))]) && !fx.changed, "{fx:?}");
    assert_eq!(counted(&scope), 0);
    // The next one that comes is not taken for it.
    let next = world.input(ask("B"));
    assert_eq!(scope.step(vec![next], START, &mut rng()).replies_on_commit.len(), 1);
}

#[test]
fn a_call_that_was_granted_as_its_caller_went_does_not_come_back_into_line() {
    for is_lost in [false, true] {
        let mut world = World::new(limits(SLOW), 2);
        let (mut scope, asks) = (world.new_scope(), world.input(ask("A")));
        let id = id_of(&asks);
        let before = scope.value().clone();
        let fx = scope.step(vec![asks], START, &mut rng());
        assert!(fx.changed, "its commit is on its way");
        scope.step(vec![Input::Leave(id)], START, &mut rng());
        if is_lost {
            let commit = LostCommit::new(scope.value().lineage.clone(), None);
            scope.land_alone(fx, commit, START);
        } else {
            assert!(scope.undo(fx, START).is_empty());
            scope.adopt(before, START);
        }
        assert_eq!(counted(&scope), 0, "lost: {is_lost}");
    }
}

#[test]
fn who_has_gone_counts_no_more_and_finds_its_place_for_a_moment() {
    for (away, is_back_in_time) in [(3, true), (6, false)] {
        let mut world = World::new(limits(SLOW), 3);
        world.ask(ask("first"));
        let patient = |name: &str| AcquireRequest { max_wait: Some(secs(600)), ..ask(name) };
        let gone = world.ask(patient("A"));
        world.leave(0, &target("m"), gone);
        let b = world.ask(AcquireRequest { hold: Span::ZERO, ..patient("B") });
        let queued = world.reply(b).queued().clone();
        assert_eq!(queued.ahead, 0, "nobody is before it");
        let b = world.ask(back(&patient("B"), &queued, secs(60)));
        world.pass(secs(away));
        let a = world.ask(AcquireRequest { hold: Span::ZERO, ..patient("A") });
        let ticket = world.reply(a).queued().clone();
        let a = world.ask(back(&patient("A"), &ticket, secs(60)));
        world.pass(secs(60));
        assert_eq!(world.replied_at(a) < world.replied_at(b), is_back_in_time, "away for {away} s");
        let waited = paceline_core::delays::total(&world.reply(a).grant().delays);
        let came = START + if is_back_in_time { Span::ZERO } else { secs(away) };
        assert_eq!(came + waited, world.replied_at(a) + world.reply(a).grant().wait, "its wait is told whole");
    }
}

#[test]
fn a_place_nobody_heard_of_counts_no_more_and_is_found_by_its_key() {
    let mut world = World::new(limits(SLOW), 4);
    world.ask(ask("first"));
    let short = |name: &str| AcquireRequest { hold: Span::ZERO, ..ask(name) };
    let unheard = world.ask(short("A"));
    let reply = world.reply(unheard).clone();
    let release = world.unheard(&reply).unwrap();
    let released = id_of(&release);
    world.turn(0, &target("m"), vec![release]);
    assert_eq!(*world.reply(released), Reply::Released(true));
    assert_eq!(counted(world.scope(0)), 0);
    let b = world.ask(short("B"));
    assert_eq!(world.reply(b).queued().ahead, 0);
    let again = world.ask(short("A"));
    assert_eq!(world.reply(again).queued().ahead, 0, "it came first");
    // That the first place was not heard of is told once more, late: the second one stays.
    let held = world.ask(back(&ask("A"), world.reply(again).queued(), secs(60)));
    let late = world.unheard(&reply).unwrap();
    world.turn(0, &target("m"), vec![late]);
    assert!(world.replied(held).is_none(), "it is not sent away");
    world.pass(secs(10));
    world.reply(held).grant();
    let late = world.unheard(&reply).unwrap();
    let told = id_of(&late);
    world.turn(0, &target("m"), vec![late]);
    assert_eq!(*world.reply(told), Reply::Released(false), "and the slot it got is not given back");
}

#[test]
fn a_slot_nobody_heard_of_goes_to_the_next_and_its_call_is_the_next_after_that() {
    let mut world = World::new(limits("concurrency: 1"), 5);
    let lost = world.ask(ask("A"));
    let reply = world.reply(lost).clone();
    let waiting = ["B", "C"].map(|name| world.ask(AcquireRequest { max_wait: Some(secs(600)), ..ask(name) }));
    let release = world.unheard(&reply).unwrap();
    world.turn(0, &target("m"), vec![release]);
    let first = world.reply(waiting[0]).grant().lease_id.clone();
    // It comes back, and stands before C.
    let again = world.ask(ask("A"));
    world.release_lease(0, &first).unwrap();
    let second = world.reply(again).grant().lease_id.clone();
    assert!(world.replied(waiting[1]).is_none());
    // Told again, it is in use: another word that it was not heard of changes nothing.
    let told_again = world.ask(ask("A"));
    assert_eq!(world.reply(told_again).grant().lease_id, second);
    let reply = world.reply(again).clone();
    let late = world.unheard(&reply).unwrap();
    world.turn(0, &target("m"), vec![late]);
    assert!(world.replied(waiting[1]).is_none());
}

#[test]
fn a_place_that_was_given_back_by_word_is_not_kept() {
    let mut world = World::new(limits(SLOW), 6);
    world.ask(ask("first"));
    let a = world.ask(AcquireRequest { hold: Span::ZERO, ..ask("A") });
    let ticket = world.reply(a).queued().clone();
    let held = world.ask(back(&ask("A"), &ticket, secs(60)));
    let b = world.ask(AcquireRequest { hold: Span::ZERO, ..ask("B") });
    assert_eq!(world.reply(b).queued().ahead, 1);
    world.leave(0, &target("m"), held);
    world.release_ticket(0, &ticket.ticket).unwrap();
    let again = world.ask(AcquireRequest { hold: Span::ZERO, ..ask("A") });
    assert_eq!(world.reply(again).queued().ahead, 1, "B is before it now");
}

/// What happens to callers and to the commits of their scope.
#[derive(Clone, Debug)]
enum Op {
    /// A call asks.
    Ask { call: usize, hold_ms: i64 },
    /// Its caller goes; its word may overtake the ask.
    Go { call: usize, overtakes: bool },
    /// What came in is decided.
    Step,
    /// The oldest commit is done, or refused together with those behind it.
    Land { is_refused: bool },
    /// Time passes.
    Pass { millis: i64 },
    /// A caller that has a slot is done with it.
    Done { call: usize },
}

const CALLS: usize = 6;

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..CALLS, prop_oneof![Just(0_i64), 0_i64..3_000]).prop_map(|(call, hold_ms)| Op::Ask { call, hold_ms }),
        4 => (0..CALLS, any::<bool>()).prop_map(|(call, overtakes)| Op::Go { call, overtakes }),
        6 => Just(Op::Step),
        4 => prop_oneof![3 => Just(false), 2 => Just(true)].prop_map(|is_refused| Op::Land { is_refused }),
        2 => (0_i64..2_000).prop_map(|millis| Op::Pass { millis }),
        2 => (0..CALLS).prop_map(|call| Op::Done { call }),
    ]
}

/// The loop around a step, as far as it matters here: inputs on their way, commits in the air, callers that listen or have gone.
struct Loop {
    world: World,
    scope: Scope,
    rng: ChaCha8Rng,
    now: FleetTime,
    inbox: Vec<Input>,
    air: Vec<(Effects, ScopeValue)>,
    /// What is stored.
    stored: ScopeValue,
    records: BTreeMap<CallKey, Kept>,
    /// Who listens for which answer.
    listening: BTreeMap<ReplyId, usize>,
    /// Slots that were heard of and are in use, by their call.
    slots: BTreeMap<usize, BTreeSet<String>>,
}

impl Loop {
    fn new(seed: u64) -> Self {
        let world = World::new(limits("concurrency: 2, limits: {requests: 600/min}"), seed);
        let mut scope = world.new_scope();
        scope.adopt(ScopeValue::default(), START);
        Self {
            scope,
            world,
            rng: ChaCha8Rng::seed_from_u64(seed),
            now: START,
            inbox: Vec::new(),
            air: Vec::new(),
            stored: ScopeValue::default(),
            records: BTreeMap::new(),
            listening: BTreeMap::new(),
            slots: BTreeMap::new(),
        }
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Ask { call, hold_ms } => {
                let hold = Span::from_millis(hold_ms);
                let request = AcquireRequest { hold, run_time: Some(secs(1_800)), ..ask(&format!("call{call}")) };
                let input = self.world.input(request);
                self.listening.insert(id_of(&input), call);
                self.inbox.push(input);
            }
            Op::Go { call, overtakes } => {
                let listening = self.listening.iter().find(|(_, of)| **of == call).map(|(id, _)| *id);
                let Some(id) = listening else { return };
                self.listening.remove(&id);
                let at = if overtakes { 0 } else { self.inbox.len() };
                self.inbox.insert(at, Input::Leave(id));
            }
            Op::Step => self.step(),
            Op::Land { is_refused: false } if !self.air.is_empty() => {
                let (fx, value) = self.air.remove(0);
                self.stored = value;
                self.land(fx);
            }
            Op::Land { is_refused: true } if !self.air.is_empty() => {
                let mut again: Vec<Vec<Input>> =
                    std::mem::take(&mut self.air).into_iter().rev().map(|(fx, _)| self.scope.undo(fx, self.now)).collect();
                again.reverse();
                self.scope.adopt(self.stored.clone(), self.now);
                self.inbox.splice(0..0, again.into_iter().flatten());
            }
            Op::Land { .. } => {}
            Op::Pass { millis } => self.now = self.now + Span::from_millis(millis),
            Op::Done { call } => {
                for lease in self.slots.remove(&call).unwrap_or_default() {
                    let input = self.world.report_input(crate::support::answered(&lease, 200, &[]));
                    self.inbox.push(input);
                }
            }
        }
    }

    fn step(&mut self) {
        // What needs a record that is about to be written waits for it.
        let keys: BTreeSet<CallKey> = self.air.iter().flat_map(|(fx, _)| fx.records.iter().map(|change| change.key)).collect();
        let (later, inputs): (Vec<_>, Vec<_>) = std::mem::take(&mut self.inbox)
            .into_iter()
            .partition(|input| self.scope.keys_of(input).iter().any(|key| keys.contains(key)));
        self.inbox = later;
        for key in inputs.iter().flat_map(|input| self.scope.missing_records(input)).collect::<Vec<_>>() {
            match self.records.get(&key) {
                Some(record) => self.scope.know_record(key, record.clone()),
                None => self.scope.know_absent(key),
            }
        }
        let mut fx = self.scope.step(inputs, self.now, &mut self.rng);
        let firm = std::mem::take(&mut fx.replies);
        self.tell(firm);
        if fx.changed {
            self.air.push((fx, self.scope.value().clone()));
        } else {
            self.tell(fx.replies_on_commit);
        }
    }

    fn land(&mut self, fx: Effects) {
        self.records.extend(fx.records.iter().map(|change| (change.key, change.record.clone())));
        self.tell(fx.replies_on_commit);
    }

    fn tell(&mut self, replies: Vec<(ReplyId, Reply)>) {
        for (id, reply) in replies {
            let Some(call) = self.listening.remove(&id) else {
                self.scope.was_not_heard(id);
                let unheard = self.world.unheard(&reply);
                self.inbox.extend(unheard);
                continue;
            };
            if let Reply::Answer(Ok(Answer::Granted(grant))) = reply {
                self.slots.entry(call).or_default().insert(grant.lease_id);
            }
        }
    }

    fn in_flight(&self) -> u64 {
        self.stored.groups.iter().map(|group| group.flights.in_use(self.now).as_units_floor()).sum()
    }

    /// All callers go, and everything lands.
    fn finish(&mut self) {
        (0..CALLS).for_each(|call| {
            while self.listening.values().any(|of| *of == call) {
                self.run(Op::Go { call, overtakes: false });
            }
        });
        for _ in 0..40 {
            self.step();
            while !self.air.is_empty() {
                self.run(Op::Land { is_refused: false });
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, max_shrink_iters: 4_000, ..ProptestConfig::default() })]

    /// When all callers have gone, nobody is counted in line, and no slot is taken but those that somebody heard of.
    #[test]
    fn whenever_they_go_nothing_stays_behind(seed in any::<u64>(), ops in proptest::collection::vec(op(), 1..80)) {
        let mut all = Loop::new(seed);
        ops.into_iter().for_each(|op| all.run(op));
        all.finish();
        prop_assert!(all.scope.queue().is_empty(), "they wait in line although nobody listens");
        prop_assert!(all.in_flight() <= all.slots.len() as u64, "{} are in flight, {:?} were heard of", all.in_flight(), all.slots);
        (0..CALLS).for_each(|call| all.run(Op::Done { call }));
        all.finish();
        prop_assert_eq!(all.in_flight(), 0);
        // Those who were told a place and did not come back are counted for a while, and no longer.
        all.now = all.now + secs(60);
        all.finish();
        prop_assert_eq!(counted(&all.scope), 0);
    }
}
