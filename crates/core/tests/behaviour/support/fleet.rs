//! A fleet in virtual time: workers that ask, send, report and ask for the next; and the yardstick of a scheduler that knows
//! the provider's meters exactly.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use paceline_core::amounts::Amounts;
use paceline_core::lease::CallFloor;
use paceline_core::plan::GroupPlan;
use paceline_core::queue::AskId;
use paceline_core::signal::{AnswerKind, Signal};
use paceline_core::units::{FleetTime, Span};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::provider::Provider;
use super::world::{START, World};

/// What a call costs: asked for, and in fact.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub reserved_tokens: u64,
    pub actual_tokens: u64,
}

/// A fleet and its work.
#[derive(Clone)]
pub struct Fleet {
    pub workers: usize,
    /// The longest a call takes, in ms; the shortest is a tenth of it.
    pub slowest_ms: i64,
    pub calls: Vec<Cost>,
    pub plan: Arc<GroupPlan>,
    pub provider: Provider,
    /// The longest way to the provider, in ms: how far calls overtake each other.
    pub longest_way_ms: i64,
    /// Whether the figures in an answer are those of the moment it leaves instead of those when the call came.
    pub tells_late: bool,
    pub seed: u64,
}

/// How it went.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// From the first ask to the last answer.
    pub makespan: Span,
    /// The same with perfect knowledge and the same latencies.
    pub minimum: Span,
    pub sent: u32,
    pub rejected: u32,
    pub denied: u32,
}

impl Outcome {
    pub fn ratio(&self) -> f64 {
        self.makespan.as_secs_f64() / self.minimum.as_secs_f64()
    }

    pub fn rejected_share(&self) -> f64 {
        f64::from(self.rejected) / f64::from(self.sent.max(1))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ask { call: usize, attempt: u32 },
    Arrive { call: usize, attempt: u32, id: AskId },
    Answer { call: usize, attempt: u32, id: AskId, seq: usize },
    Look,
}

impl Fleet {
    /// The way to the provider, 5 ms at least, and the whole time to the answer.
    fn latency(&self, call: usize, attempt: u32) -> (Span, Span) {
        let seed = self.seed;
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ ((call as u64) << 8) ^ u64::from(attempt));
        let there_ms = rng.random_range(5..self.longest_way_ms);
        (Span::from_millis(there_ms), Span::from_millis(there_ms + rng.random_range(self.slowest_ms / 10..self.slowest_ms)))
    }
}

impl Fleet {
    /// Runs it to the end, two virtual hours at most.
    pub fn run(&self) -> Outcome {
        let mut run = Run {
            fleet: self,
            world: World::new(self.seed),
            provider: self.provider.clone(),
            events: BinaryHeap::new(),
            calls: BTreeMap::new(),
            answers: Vec::new(),
            next_call: self.workers.min(self.calls.len()),
            looked_for: None,
            outcome: Outcome { makespan: Span::ZERO, minimum: self.minimum(), sent: 0, rejected: 0, denied: 0 },
        };
        for call in 0..run.next_call {
            run.events.push(Reverse((START, Event::Ask { call, attempt: 0 })));
        }
        run.finish();
        run.outcome
    }

    /// The least time: each call leaves the moment that a worker is free and every meter has room.
    fn minimum(&self) -> Span {
        let mut provider = self.provider.clone();
        let mut free: BinaryHeap<Reverse<FleetTime>> = (0..self.workers).map(|_| Reverse(START)).collect();
        let (mut now, mut end) = (START, START);
        for (call, cost) in self.calls.iter().enumerate() {
            let Some(Reverse(worker)) = free.pop() else { break };
            let (_, took) = self.latency(call, 0);
            let units = |meter: &str| units(*cost, meter);
            now = provider.fits_at(now.max(worker), &units);
            provider.arrive(now, &units);
            end = end.max(now + took);
            free.push(Reverse(now + took));
        }
        end - START
    }
}

fn units(cost: Cost, meter: &str) -> u64 {
    if meter == "requests" { 1 } else { cost.actual_tokens }
}

struct Run<'a> {
    fleet: &'a Fleet,
    world: World,
    provider: Provider,
    events: BinaryHeap<Reverse<(FleetTime, Event)>>,
    /// Which call and attempt an ask is.
    calls: BTreeMap<AskId, (usize, u32)>,
    answers: Vec<Option<Signal>>,
    next_call: usize,
    looked_for: Option<FleetTime>,
    outcome: Outcome,
}

impl Run<'_> {
    fn finish(&mut self) {
        while let Some(Reverse((time, event))) = self.events.pop() {
            assert!(time < START + Span::from_secs(7_200), "stalled: {:?}, {} wait", self.outcome, self.world.queue.len());
            self.world.now = time;
            self.handle(event);
            while self.events.peek().is_some_and(|Reverse((next, _))| *next == time) {
                if let Some(Reverse((_, event))) = self.events.pop() {
                    self.handle(event);
                }
            }
            self.decide();
        }
        assert!(self.world.queue.is_empty(), "{} still wait", self.world.queue.len());
        if std::env::var("DBG").is_ok() {
            let mut by: BTreeMap<String, f64> = BTreeMap::new();
            for granted in &self.world.granted {
                for part in &granted.slot.delays {
                    *by.entry(format!("{:?} {}", part.cause.source, part.cause.bucket)).or_default() +=
                        part.length.as_secs_f64();
                }
            }
            println!("{by:?}");
            for bucket in &self.world.value.buckets {
                println!("{:?} {:?} proven {:?} {:?}", bucket.plan.id.name, bucket.effective(), bucket.proven, bucket.learned);
            }
            let mut bins = BTreeMap::new();
            for granted in &self.world.granted {
                *bins.entry((granted.slot.send_at - START).as_micros() / 1_000_000).or_insert(0) += 1;
            }
            println!("{:?}", bins.iter().take(40).collect::<Vec<_>>());
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Ask { call, attempt } => self.ask(call, attempt, None),
            Event::Arrive { call, attempt, id } => {
                let cost = self.fleet.calls[call];
                let signal = self.provider.arrive(self.world.now, &|meter| units(cost, meter));
                let (there, took) = self.fleet.latency(call, attempt);
                self.outcome.sent += 1;
                // The answer leaves when the work is done; refusals at once.
                let back = if signal.kind == AnswerKind::Ok { took - there } else { there };
                let seq = self.answers.len();
                self.answers.push(Some(signal));
                self.events.push(Reverse((self.world.now + back, Event::Answer { call, attempt, id, seq })));
            }
            Event::Answer { call, attempt, id, seq } => {
                let mut signal = self.answers[seq].take().expect("one answer");
                if self.fleet.tells_late && !signal.buckets.is_empty() {
                    signal.buckets = self.provider.readings(self.world.now);
                }
                let actual = Amounts::from_pairs([("requests", 1), ("tokens", self.fleet.calls[call].actual_tokens)]);
                let ok = signal.kind == AnswerKind::Ok;
                let usage = ok.then_some(&actual);
                let done = self.world.report(id, Some(&signal), Some(self.world.now), usage, true);
                if ok {
                    self.outcome.makespan = self.outcome.makespan.max(self.world.now - START);
                    self.take_next();
                } else {
                    self.outcome.rejected += 1;
                    self.ask(call, attempt + 1, done.call_floor);
                }
            }
            Event::Look => {}
        }
    }

    fn take_next(&mut self) {
        if self.next_call < self.fleet.calls.len() {
            self.ask(self.next_call, 0, None);
            self.next_call += 1;
        }
    }

    fn ask(&mut self, call: usize, attempt: u32, not_before: Option<CallFloor>) {
        let mut ask = self.world.ask(&self.fleet.plan);
        ask.cost.set("tokens", self.fleet.calls[call].reserved_tokens);
        ask.not_before = not_before;
        let id = self.world.push(ask);
        self.calls.insert(id, (call, attempt));
    }

    fn decide(&mut self) {
        let (granted, denied) = (self.world.granted.len(), self.world.denied.len());
        self.world.decide();
        self.outcome.denied += u32::try_from(self.world.denied.len() - denied).expect("few");
        for grant in &self.world.granted[granted..] {
            let (call, attempt) = self.calls[&grant.ask.id];
            let (there, _) = self.fleet.latency(call, attempt);
            self.events.push(Reverse((grant.slot.send_at + there, Event::Arrive { call, attempt, id: grant.ask.id })));
        }
        let look = self.world.look.filter(|look| self.looked_for.is_none_or(|at| at <= self.world.now || *look < at));
        if let Some(look) = look {
            self.looked_for = Some(look);
            self.events.push(Reverse((look, Event::Look)));
        }
    }
}
