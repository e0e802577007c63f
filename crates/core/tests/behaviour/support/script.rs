//! Random lives of a scope: limits, arrivals, releases, settlements and refusals, as values that proptest can shrink.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use paceline_core::amounts::Amounts;
use paceline_core::bucket::BucketState;
use paceline_core::level::{Level, Rate};
use paceline_core::plan::{BucketId, BucketPlan, Class, GroupPlan, StartLevel};
use paceline_core::queue::{Ask, AskId};
use paceline_core::signal::{AnswerKind, Signal, Source};
use paceline_core::units::{FleetTime, Milli, Span};
use proptest::prelude::*;

use super::plans::{concurrency, continuous, group_named, of_account, windowed};
use super::world::World;

/// What a check found.
pub type Checked = Result<(), TestCaseError>;

/// What happens next.
#[derive(Clone, Debug)]
pub enum Op {
    /// A call arrives.
    Ask { class: Class, group: usize, tokens: u64, patience: Span },
    /// The n-th open lease is given back unused.
    Release(usize),
    /// The n-th open lease ends having used so many percent of its tokens.
    Settle(usize, u64),
    /// The n-th open lease was refused, with a Retry-After.
    Refuse(usize, Span),
    /// A waiting caller goes away.
    Leave(usize),
}

/// A life: limits and what happens, each after a pause.
#[derive(Clone)]
pub struct Script {
    pub plans: Vec<Arc<GroupPlan>>,
    pub steps: Vec<(Span, Op)>,
    pub seed: u64,
}

/// A line per limit and step: what proptest shows of a counterexample.
impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for plan in &self.plans {
            for bucket in &plan.buckets {
                let (limit, per) = (bucket.limit.unwrap_or(0), bucket.per.unwrap_or(Span::ZERO));
                write!(f, "\n{} {}: {limit} per {per}, ", plan.key, bucket.id.label())?;
                write!(f, "capacity {:?}, burst {:?}, {:?}, {:?}", bucket.capacity, bucket.burst, bucket.start, bucket.refill)?;
            }
        }
        for (pause, op) in &self.steps {
            write!(f, "\nafter {} us: {op:?}", pause.as_micros())?;
        }
        write!(f, "\nseed {}", self.seed)
    }
}

/// A lived script.
pub struct Life {
    pub world: World,
    /// Everyone who ever asked.
    pub asked: Vec<Ask>,
    pub given_back: Vec<GivenBack>,
    /// When a lease ended by a report or release.
    pub ended: BTreeMap<AskId, FleetTime>,
    /// Floors under groups: after how many grants, which group, until when.
    pub floors: Vec<(usize, Arc<str>, FleetTime)>,
}

/// What a settlement or release gave back to one bucket.
pub struct GivenBack {
    pub bucket: BucketId,
    /// In thousandths; negative: used on top.
    pub amount: i64,
    /// The same for what may go back to back.
    pub to_burst: i64,
    /// After how many grants it was decided.
    pub after_grants: usize,
    pub at: FleetTime,
    /// When the last slot is sent that was firm by then.
    pub firm_until: FleetTime,
    /// The window it was given back to.
    pub window_end: FleetTime,
}

/// The kinds of limits a script draws from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Continuous,
    Windowed,
}

/// Two groups with buckets of their own and one of the account.
pub fn scripts(kind: Kind, refusals: bool) -> impl Strategy<Value = Script> {
    let plans = (bucket("requests", kind), bucket("tokens", kind), bucket("requests", kind), proptest::option::of(1_u64..6));
    let steps = proptest::collection::vec((pause(), op(refusals)), 1..60);
    (plans, steps, any::<u64>()).prop_map(|((requests, tokens, shared, most), steps, seed)| {
        let shared = of_account(shared);
        let mut first = vec![requests.clone(), tokens, shared.clone()];
        first.extend(most.map(concurrency));
        Script { plans: vec![group_named("a", first), group_named("b", vec![requests, shared])], steps, seed }
    })
}

fn bucket(meter: &'static str, kind: Kind) -> impl Strategy<Value = BucketPlan> {
    let scale = if meter == "tokens" { 100 } else { 1 };
    (1_u64..40, 1_i64..30, proptest::option::of(1_u64..60), proptest::option::of(1_u64..20), any::<bool>()).prop_map(
        move |(limit, secs, capacity, burst, full)| {
            let per = Span::from_secs(secs);
            let plan = match kind {
                Kind::Continuous => BucketPlan {
                    capacity: capacity.map(|capacity| capacity * scale),
                    burst: burst.map(|burst| burst * scale),
                    ..continuous(meter, limit * scale, per)
                },
                Kind::Windowed => windowed(meter, limit * scale, per),
            };
            BucketPlan { start: if full { StartLevel::Full } else { StartLevel::Cautious }, ..plan }
        },
    )
}

fn pause() -> impl Strategy<Value = Span> {
    prop_oneof![
        4 => Just(Span::ZERO),
        4 => (0_i64..200_000).prop_map(Span::from_micros),
        2 => (0_i64..10_000).prop_map(Span::from_millis),
        1 => (10_i64..90).prop_map(Span::from_secs),
    ]
}

fn op(refusals: bool) -> impl Strategy<Value = Op> {
    let class = prop_oneof![Just(Class::Interactive), Just(Class::Normal), Just(Class::Batch)];
    let patience = prop_oneof![Just(Span::from_secs(3_600)), (0_i64..20_000).prop_map(Span::from_millis)];
    let ask = (class, 0_usize..2, 1_u64..2_500, patience).prop_map(|(class, group, tokens, patience)| Op::Ask {
        class,
        group,
        tokens,
        patience,
    });
    let refused = (any::<usize>(), (1_i64..20_000).prop_map(Span::from_millis))
        .prop_map(move |(lease, wait)| if refusals { Op::Refuse(lease, wait) } else { Op::Release(lease) });
    prop_oneof![
        10 => ask,
        2 => any::<usize>().prop_map(Op::Release),
        3 => (any::<usize>(), 0_u64..250).prop_map(|(lease, percent)| Op::Settle(lease, percent)),
        2 => refused,
        1 => any::<usize>().prop_map(Op::Leave),
    ]
}

impl Script {
    /// Lives through it and then until nobody waits; `check` looks at the world after each pass.
    pub fn live(&self, mut check: impl FnMut(&World) -> Checked) -> Result<Life, TestCaseError> {
        let mut life = Life {
            world: World::new(self.seed),
            asked: Vec::new(),
            given_back: Vec::new(),
            ended: BTreeMap::new(),
            floors: Vec::new(),
        };
        let mut present = Vec::new();
        for (pause, op) in &self.steps {
            run_until(&mut life.world, *pause, &mut check)?;
            self.step(&mut life, &mut present, op);
            life.world.decide();
            check(&life.world)?;
        }
        run_until(&mut life.world, Span::from_secs(7_200), &mut check)?;
        Ok(life)
    }

    fn step(&self, life: &mut Life, present: &mut Vec<AskId>, op: &Op) {
        let world = &mut life.world;
        let nth = |world: &World, number: usize| world.open.keys().nth(number % world.open.len().max(1)).copied();
        match op {
            Op::Ask { class, group, tokens, patience } => {
                let mut ask = world.ask(&self.plans[*group]);
                ask.class = *class;
                ask.cost.set("tokens", *tokens);
                ask.wait_until = world.now + *patience;
                life.asked.push(ask.clone());
                present.push(world.push(ask));
            }
            Op::Release(number) => {
                let Some(id) = nth(world, *number) else { return };
                let levels = levels(world);
                life.ended.insert(id, world.now);
                world.release(id);
                life.note_changes(&levels);
            }
            Op::Settle(number, percent) => {
                let Some(id) = nth(world, *number) else { return };
                let reserved =
                    world.granted.iter().find(|granted| granted.ask.id == id).expect("granted").ask.cost.of("tokens");
                let usage = Amounts::from_pairs([("tokens", reserved.unwrap_or(0) * percent / 100)]);
                let levels = levels(world);
                life.ended.insert(id, world.now);
                world.report(id, Some(&Signal::default()), None, Some(&usage), true);
                life.note_changes(&levels);
            }
            Op::Refuse(number, wait) => {
                let Some(id) = nth(world, *number) else { return };
                life.ended.insert(id, world.now);
                let group = world.open[&id].group.clone();
                world.answer(id, &refused_for(*wait));
                life.floors.push((world.granted.len(), group, world.now + *wait));
            }
            Op::Leave(number) => {
                present.retain(|id| world.queue.get(*id).is_some());
                if let Some(id) = present.get(number % present.len().max(1)) {
                    world.queue.remove(*id, world.now);
                }
            }
        }
    }
}

/// A refusal that names no bucket.
pub fn refused_for(wait: Span) -> Signal {
    Signal {
        kind: AnswerKind::Throttled,
        retry_after: Some(wait),
        source: Source::RetryAfterSeconds,
        field: "retry-after".to_string(),
        retryable: true,
        ..Signal::default()
    }
}

/// As [`World::run_for`], with a check after each pass.
fn run_until(world: &mut World, pause: Span, check: &mut impl FnMut(&World) -> Checked) -> Checked {
    let time = world.now + pause;
    while let Some(look) = world.look.filter(|look| *look <= time) {
        world.now = look;
        world.decide();
        check(world)?;
    }
    world.now = time;
    Ok(())
}

/// Levels at the world's time, or at that of the last firm slot where that is later.
fn levels(world: &World) -> Vec<(i64, i64)> {
    let level = |bucket: &BucketState| match bucket.rate().filter(|_| !bucket.is_windowed()) {
        Some(rate) => {
            let most = bucket.plan.burst.map_or(rate.capacity, Milli::from_units).min(rate.capacity);
            let at = |level: &Level, rate| level.at(world.now.max(level.as_of), rate).as_milli();
            (at(&bucket.level, &rate), at(&bucket.burst, &Rate { capacity: most, ..rate }))
        }
        None => (bucket.level.amount.as_milli(), 0),
    };
    world.value.buckets.iter().map(level).collect()
}

impl Life {
    /// Notes what a settlement or release gave back.
    fn note_changes(&mut self, before: &[(i64, i64)]) {
        let after = levels(&self.world);
        for (bucket, (before, after)) in self.world.value.buckets.iter().zip(before.iter().zip(after)) {
            let (amount, to_burst) = (after.0 - before.0, after.1 - before.1);
            if (amount, to_burst) != (0, 0) && !bucket.is_held() {
                self.given_back.push(GivenBack {
                    bucket: bucket.plan.id.clone(),
                    amount,
                    to_burst,
                    after_grants: self.world.granted.len(),
                    at: self.world.now,
                    firm_until: bucket.level.as_of,
                    window_end: bucket.window_end,
                });
            }
        }
    }
}
