//! I-3 and I-4: what an answer leaves out never lets anybody go sooner, and nothing comes back twice or above what was told.

use std::collections::BTreeMap;

use paceline_core::amounts::Amounts;
use paceline_core::lease::Lease;
use paceline_core::outlook::outlook;
use paceline_core::report::{self, Outcome, Report};
use paceline_core::signal::{AnswerKind, ObservedBucket, ResetMeans, Signal, Source};
use paceline_core::units::{FleetTime, Milli, Span};
use paceline_core::value::ScopeValue;
use proptest::prelude::*;

use crate::support::plans::{cautious, continuous, group, unknown, windowed};
use crate::support::world::World;

/// A bucket per minute as a provider would tell of it: a time until full that fits what is used, or the end of a window.
fn observed(meter: &'static str, limit: u64, means: ResetMeans) -> impl Strategy<Value = ObservedBucket> {
    (0..=limit, 0_i64..60_000).prop_map(move |(remaining, ends_in)| {
        let until_full = (60_000 * (limit - remaining)).div_ceil(limit) as i64;
        ObservedBucket {
            name: meter.to_string(),
            meter: meter.to_string(),
            limit: Some(limit),
            remaining: Some(remaining),
            reset_in: Some(Span::from_millis(if means == ResetMeans::Full { until_full } else { ends_in })),
            reset_means: means,
            ..ObservedBucket::default()
        }
    })
}

fn answer(means: ResetMeans) -> impl Strategy<Value = Signal> {
    let kind = prop_oneof![3 => Just(AnswerKind::Ok), 2 => Just(AnswerKind::Throttled), 1 => Just(AnswerKind::Overloaded)];
    let buckets = (observed("requests", 60, means), observed("tokens", 100, means));
    (kind, proptest::option::of(1_i64..60), buckets).prop_map(|(kind, wait, (requests, tokens))| {
        let wait = wait.filter(|_| kind != AnswerKind::Ok).map(Span::from_secs);
        Signal {
            kind,
            retry_after: wait,
            source: if wait.is_some() { Source::RetryAfterSeconds } else { Source::None },
            buckets: vec![requests, tokens],
            retryable: kind != AnswerKind::Ok,
            ..Signal::default()
        }
    })
}

/// The answer with nothing in it that can be read.
fn unreadable(whole: &Signal) -> Signal {
    Signal { retry_after: None, source: Source::None, buckets: Vec::new(), ..whole.clone() }
}

/// What the answer says of one bucket, without the fields whose bit is set in `lost`. (Of two buckets one may let calls go sooner
/// and the other later; without the latter what remains is the former, and nothing is wrong with that.)
fn of_one_bucket(whole: &Signal, which: usize, lost: u32) -> Signal {
    let mut bucket = whole.buckets[which % whole.buckets.len()].clone();
    bucket.limit = bucket.limit.filter(|_| lost & 1 == 0);
    bucket.remaining = bucket.remaining.filter(|_| lost & 2 == 0);
    bucket.reset_in = bucket.reset_in.filter(|_| lost & 4 == 0);
    Signal { buckets: vec![bucket], ..whole.clone() }
}

/// When the next call in line would go, after this answer to a lease that is settled already.
fn next_slot(world: &World, lease: &Lease, signal: Option<&Signal>, answered_at: FleetTime) -> FleetTime {
    let mut value: ScopeValue = world.value.clone();
    let ask = world.granted[0].ask.clone();
    let binding = value.bind(&ask.plan, world.now);
    if signal.is_some() {
        let said = Report { outcome: Outcome::Response, signal, answered_at, usage: None, is_final: true, is_open: false };
        report::apply(&mut value, &binding, lease, &said, world.now, &mut world.rng.clone());
    }
    outlook(&value, &binding, &ask, world.now, true).opening.at
}

#[derive(Clone, Copy, Debug)]
enum Told {
    Nothing,
    Bucket,
    Window,
}

fn told() -> impl Strategy<Value = (Told, ResetMeans)> {
    prop_oneof![
        Just((Told::Nothing, ResetMeans::Full)),
        Just((Told::Nothing, ResetMeans::Window)),
        Just((Told::Bucket, ResetMeans::Full)),
        Just((Told::Window, ResetMeans::Window)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    /// I-3: an answer that cannot be read lets nobody go sooner than none; one of which a field is missing lets nobody go sooner
    /// than the whole answer or none would.
    #[test]
    fn i3_what_is_missing_never_shortens_a_wait(
        (told, answers, last) in told().prop_flat_map(|(told, means)| {
            (Just(told), proptest::collection::vec((any::<usize>(), answer(means)), 0..4), answer(means))
        }),
        calls in 1_usize..30, pauses in proptest::collection::vec(0_i64..5_000, 1..6),
        which in any::<usize>(), lost in 0_u32..8, age in 0_i64..500,
    ) {
        let minute = Span::from_secs(60);
        let plan = match told {
            Told::Nothing => group(vec![unknown("requests"), unknown("tokens")]),
            Told::Bucket => group(vec![continuous("requests", 60, minute), cautious(continuous("tokens", 100, minute))]),
            // Not a cautious one: until its phase is known, it is spread evenly, so that a window's end may come later.
            Told::Window => group(vec![windowed("requests", 60, minute), windowed("tokens", 100, minute)]),
        };
        let mut world = World::new(1);
        for _ in 0..calls {
            let mut ask = world.ask(&plan);
            ask.cost.set("tokens", 3);
            world.push(ask);
        }
        world.decide();
        for (pause, (number, signal)) in pauses.iter().zip(&answers) {
            world.run_for(Span::from_millis(*pause));
            let id = world.open.keys().nth(number % world.open.len().max(1)).copied();
            if let Some(id) = id {
                world.answer(id, signal);
            }
        }
        world.run_for(Span::from_millis(pauses[0]));
        let Some(lease) = world.open.values().nth(which % world.open.len().max(1)) else { return Ok(()) };
        let answered_at = (world.now - Span::from_millis(age)).max(lease.send_at.min(world.now));
        let before = next_slot(&world, lease, None, answered_at);
        let unread = next_slot(&world, lease, Some(&unreadable(&last)), answered_at);
        let whole = next_slot(&world, lease, Some(&of_one_bucket(&last, which, 0)), answered_at);
        let partly = next_slot(&world, lease, Some(&of_one_bucket(&last, which, lost)), answered_at);
        prop_assert!(unread >= before, "nothing readable: {} sooner", before - unread);
        prop_assert!(
            partly >= whole.min(before) || matches!(told, Told::Nothing),
            "in {}; {} after {last:?}, {} without; missing {lost:b}",
            partly - world.now, whole - world.now, before - world.now
        );
    }

    /// I-4: whatever comes back, and in whatever order, the level stays at or below the newest observation, carried on.
    #[test]
    fn i4_nothing_comes_back_twice_or_above_a_newer_observation(
        steps in proptest::collection::vec((0_i64..3_000, 0_u8..4, any::<usize>(), 0_u64..120, 0_u64..100), 1..60),
    ) {
        let (limit, per) = (120, Span::from_secs(60));
        let plan = group(vec![continuous("tokens", limit, per)]);
        let mut world = World::new(2);
        let mut settled: Vec<Lease> = Vec::new();
        let mut newest: Option<(i64, u64, FleetTime)> = None;
        let mut unused: BTreeMap<i64, i64> = BTreeMap::new();
        for (pause, what, number, tokens, percent) in steps {
            world.run_for(Span::from_millis(pause));
            let nth = world.open.values().nth(number % world.open.len().max(1)).cloned();
            match (what, nth) {
                (0, _) | (_, None) => {
                    let mut ask = world.ask(&plan);
                    ask.cost.set("tokens", tokens.max(1));
                    world.push(ask);
                    world.decide();
                }
                (1, Some(lease)) => {
                    let tokens = lease.charges[0].amount.as_units_floor() * percent / 100;
                    let used = Amounts::from_pairs([("tokens", tokens)]);
                    unused.insert(lease.charges[0].mark, (lease.charges[0].amount - Milli::from_units(tokens)).as_milli());
                    world.report(lease.serial.sequence, Some(&Signal::default()), None, Some(&used), true);
                    settled.push(lease);
                }
                (2, Some(lease)) => {
                    let bucket = ObservedBucket { remaining: Some(tokens), meter: "tokens".into(), ..ObservedBucket::default() };
                    let signal = Signal { buckets: vec![bucket], ..Signal::default() };
                    let mark = lease.charges[0].mark;
                    if newest.is_none_or(|(newest, _, _)| newest <= mark) {
                        newest = Some((mark, tokens, lease.send_at.min(world.now)));
                    }
                    world.report(lease.serial.sequence, Some(&signal), None, None, false);
                }
                (_, Some(lease)) => {
                    unused.insert(lease.charges[0].mark, lease.charges[0].amount.as_milli());
                    world.release(lease.serial.sequence);
                    settled.push(lease);
                }
            }
            // A second report about a lease that is settled: the coordinator says so, and then it moves nothing.
            if let Some(lease) = settled.get(number % settled.len().max(1)).cloned() {
                let before = world.value.clone();
                let used = Amounts::from_pairs([("tokens", 0)]);
                let said = Report {
                    outcome: Outcome::Response, signal: None, answered_at: world.now,
                    usage: Some(&used), is_final: true, is_open: false,
                };
                world.apply(&lease, &said);
                prop_assert_eq!(&before, &world.value);
            }
            let Some((mark, remaining, since)) = newest else { continue };
            let bucket = &world.value.buckets[0];
            let time = world.now.max(bucket.level.as_of);
            let refilled = time.since(since).as_micros() * limit as i64 * 1_000 / per.as_micros();
            let returned: i64 = unused.range(mark + 1..).map(|(_, amount)| amount).sum();
            let fired = Milli::from_milli(bucket.fired - mark - returned);
            let told = Milli::from_units(remaining) - fired + Milli::from_milli(refilled + 2);
            let level = bucket.level_at(time).unwrap();
            prop_assert!(level <= told, "{level:?} believed, {told:?} told");
        }
    }
}
