//! Lanes: classes with guarantees and shares, tenants by weight, nobody starved, nobody blocked by what is not theirs.

use paceline_core::plan::Class;
use paceline_core::queue::Ask;
use paceline_core::units::{FleetTime, Span};

use crate::support::crowd::{Crowd, Demand, Market, jain, quantile};
use crate::support::plans::{group, group_named, of_account, per_minute};
use crate::support::world::{START, World, at};

const MINUTE: Span = Span::from_secs(60);

/// What a full bucket held is gone by now, and those who wait are served as it refills.
const SETTLED: FleetTime = FleetTime::from_micros(START.as_micros() + 60_000_000);

fn settled(market: &mut Market) -> FleetTime {
    market.run(SETTLED - START);
    SETTLED
}

#[test]
fn equal_tenants_get_the_same_however_much_they_ask_for() {
    let plan = group(vec![per_minute("requests", 600)]);
    let asks = [2_000, 700, 300, 120, 40, 12, 6, 3];
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let crowds =
        names.iter().zip(asks).map(|(name, asks)| Crowd::new(&plan, Class::Normal, name, Demand::Keeps(asks))).collect();
    let mut market = Market::new(1, crowds);
    let from = settled(&mut market);
    market.run(MINUTE + MINUTE);
    let calls = market.calls(from);
    assert!(jain(&calls) >= 0.99, "{}: {calls:?}", jain(&calls));
    assert!(calls.iter().sum::<f64>() >= 1_190.0, "and nothing is lost: {calls:?}");
}

#[test]
fn equal_tenants_get_the_same_of_what_is_scarce_whatever_a_call_costs() {
    let plan = group(vec![per_minute("requests", 6_000), per_minute("tokens", 60_000)]);
    let costs = [("small", 10), ("middle", 200), ("large", 3_000)];
    let crowds = costs.iter().map(|(name, cost)| Crowd::new(&plan, Class::Normal, name, Demand::Keeps(50)).costing(*cost));
    let mut market = Market::new(2, crowds.collect());
    let from = settled(&mut market);
    market.run(Span::from_secs(600));
    let tokens = market.tokens(from);
    assert!(jain(&tokens) >= 0.99, "{}: {tokens:?}", jain(&tokens));
}

#[test]
fn tenants_get_by_weight_while_both_wait_and_all_when_alone() {
    let plan = group(vec![per_minute("requests", 600)]);
    let mut market = Market::new(
        3,
        vec![
            Crowd::new(&plan, Class::Normal, "ads", Demand::Keeps(30)).weighing(3),
            Crowd::new(&plan, Class::Normal, "web", Demand::Keeps(300)),
        ],
    );
    let from = settled(&mut market);
    market.run(MINUTE);
    let calls = market.calls(from);
    let ratio = calls[0] / calls[1];
    assert!((2.8..=3.2).contains(&ratio), "{ratio}: {calls:?}");
    market.demand(0, Demand::Keeps(0));
    market.run(Span::from_secs(10));
    let from = market.world.now;
    market.run(MINUTE);
    let calls = market.calls(from);
    assert!(calls[0] == 0.0 && calls[1] >= 590.0, "alone it takes all: {calls:?}");
    // Who was away has saved up nothing, and lost nothing either.
    market.demand(0, Demand::Keeps(30));
    market.run(Span::from_secs(5));
    let from = market.world.now;
    market.run(MINUTE);
    let calls = market.calls(from);
    assert!((2.8..=3.2).contains(&(calls[0] / calls[1])), "back again: {calls:?}");
}

#[test]
fn a_tenant_that_was_away_brings_back_no_credit() {
    let plan = group(vec![per_minute("requests", 600)]);
    let mut market = Market::new(
        4,
        vec![
            Crowd::new(&plan, Class::Normal, "a", Demand::Keeps(20)),
            Crowd::new(&plan, Class::Normal, "b", Demand::Keeps(20)),
            Crowd::new(&plan, Class::Normal, "late", Demand::Keeps(0)),
        ],
    );
    settled(&mut market);
    market.run(Span::from_secs(300));
    market.demand(2, Demand::Keeps(20));
    let from = market.world.now;
    market.run(Span::from_secs(30));
    let calls = market.calls(from);
    assert!(jain(&calls) >= 0.99, "{calls:?}");
}

#[test]
fn a_hand_over_between_replicas_keeps_fairness() {
    let plan = group(vec![per_minute("tokens", 60_000)]);
    let crowd = |name, cost| Crowd::new(&plan, Class::Normal, name, Demand::Keeps(20)).costing(cost);
    let mut market = Market::new(5, vec![crowd("small", 100), crowd("large", 10_000)]);
    let from = settled(&mut market);
    // A large call takes ten seconds: without memory each hand-over would begin with one.
    for _ in 0..200 {
        market.run(Span::from_secs(3));
        market.hand_over();
    }
    let tokens = market.tokens(from);
    assert!(jain(&tokens) >= 0.99, "{tokens:?}");
}

#[test]
fn a_chat_waits_four_spacings_at_most_while_batch_saturates() {
    for (limit, seed) in [(1_200, 1), (1_200, 2), (60, 3), (60, 5), (60, 6), (12_000, 4)] {
        let plan = group(vec![per_minute("requests", limit)]);
        let per_second = limit as f64 / 60.0;
        let mut market = Market::new(
            seed,
            vec![
                Crowd::new(&plan, Class::Batch, "jobs", Demand::Keeps(200)),
                Crowd::new(&plan, Class::Interactive, "chat", Demand::PerSecond(per_second / 5.0)),
            ],
        );
        let from = settled(&mut market);
        market.run(Span::from_secs_f64(5_000.0 / per_second).unwrap().max(MINUTE));
        let p99 = quantile(&market.waits(1, from), 0.99).as_secs_f64() * per_second;
        // Below a spacing of 50 ms what counts is when we look: a batch slot is firm for 50 ms.
        let most = if per_second > 20.0 { 0.1 * per_second } else { 4.0 };
        let p50 = quantile(&market.waits(1, from), 0.5).as_secs_f64() * per_second;
        println!("{limit}/min: p50 {p50:.2}, p99 {p99:.2} spacings");
        assert!(p99 <= most, "{limit}/min: p99 is {p99} spacings");
        let calls = market.calls(from);
        let seconds = (market.world.now - from).as_secs_f64();
        assert!(calls.iter().sum::<f64>() >= 0.97 * per_second * seconds, "and nothing is lost: {calls:?} in {seconds} s");
    }
}

/// Batch gets its 5 %, normal what interactive leaves, and interactive half.
#[test]
fn no_class_falls_below_its_guarantee_or_above_its_share() {
    // Small calls, and batch calls of six seconds of refill.
    for (batch, seed) in [(50, 1), (6_000, 2)] {
        let plan = group(vec![per_minute("tokens", 60_000)]);
        let crowd = |class, cost| Crowd::new(&plan, class, "x", Demand::Keeps(100)).costing(cost);
        let mut market =
            Market::new(seed, vec![crowd(Class::Interactive, 50), crowd(Class::Normal, 200), crowd(Class::Batch, batch)]);
        let from = settled(&mut market);
        market.run(Span::from_secs(1_200));
        let got = market.tokens(from);
        let total: f64 = got.iter().sum();
        let shares: Vec<f64> = got.iter().map(|tokens| tokens / total).collect();
        println!("{batch}: {shares:.3?}");
        assert!(total >= 0.98 * 20.0 * 60_000.0, "nothing is lost: {total}");
        assert!(shares[0] <= 0.51 && shares[0] >= 0.49, "{shares:?}");
        assert!(shares[2] >= 0.049 && shares[2] <= 0.08, "{shares:?}");
    }
}

#[test]
fn interactive_takes_half_while_batch_waits_and_all_when_nobody_does() {
    let plan = group(vec![per_minute("requests", 600)]);
    let mut market = Market::new(
        7,
        vec![
            Crowd::new(&plan, Class::Interactive, "chat", Demand::Keeps(50)),
            Crowd::new(&plan, Class::Batch, "jobs", Demand::Keeps(50)),
        ],
    );
    let from = settled(&mut market);
    market.run(MINUTE);
    let calls = market.calls(from);
    assert!((0.95..=1.05).contains(&(calls[0] / calls[1])), "{calls:?}");
    market.demand(1, Demand::Keeps(0));
    market.run(Span::from_secs(10));
    let from = market.world.now;
    market.run(MINUTE);
    let calls = market.calls(from);
    assert!(calls[0] >= 590.0, "{calls:?}");
}

#[test]
fn normal_and_batch_alone_share_by_guarantee() {
    let plan = group(vec![per_minute("requests", 1_200)]);
    let mut market = Market::new(
        8,
        vec![Crowd::new(&plan, Class::Normal, "x", Demand::Keeps(50)), Crowd::new(&plan, Class::Batch, "x", Demand::Keeps(50))],
    );
    let from = settled(&mut market);
    // In every stretch of 20 s, not only on average.
    for _ in 0..15 {
        let from = market.world.now;
        market.run(Span::from_secs(20));
        let calls = market.calls(from);
        assert!(calls[1] >= 19.0, "batch got {} of its 20 in 20 s", calls[1]);
    }
    let calls = market.calls(from);
    assert!(calls[0] >= 0.94 * (calls[0] + calls[1]), "the rest is normal's: {calls:?}");
}

#[test]
fn a_group_held_up_in_its_own_bucket_blocks_nobody_on_a_shared_one() {
    let shared = of_account(per_minute("requests", 600));
    let slow = group_named("slow", vec![per_minute("requests", 6), shared.clone()]);
    let fast = group_named("fast", vec![per_minute("requests", 6_000), shared]);
    for (slow_class, fast_class) in [(Class::Normal, Class::Normal), (Class::Interactive, Class::Batch)] {
        let mut market = Market::new(
            9,
            vec![
                Crowd::new(&slow, slow_class, "x", Demand::Keeps(500)),
                Crowd::new(&fast, fast_class, "x", Demand::Keeps(100)),
            ],
        );
        let from = settled(&mut market);
        market.run(MINUTE);
        let calls = market.calls(from);
        assert!(calls[0] >= 5.0, "{calls:?}");
        assert!(calls[1] >= 585.0, "{calls:?}");
    }
}

#[test]
fn groups_on_a_shared_bucket_share_it_by_who_is_in_them() {
    let shared = of_account(per_minute("requests", 600));
    let one = group_named("one", vec![shared.clone()]);
    let two = group_named("two", vec![shared]);
    let mut market = Market::new(
        10,
        vec![
            Crowd::new(&one, Class::Normal, "a", Demand::Keeps(2_000)),
            Crowd::new(&one, Class::Normal, "b", Demand::Keeps(5)),
            Crowd::new(&two, Class::Normal, "c", Demand::Keeps(5)),
        ],
    );
    let from = settled(&mut market);
    market.run(MINUTE);
    let calls = market.calls(from);
    assert!(jain(&calls) >= 0.99, "{calls:?}");
}

/// A huge call gets its turn in bounded time whatever the small ones of its class do, and they go on.
#[test]
fn huge_calls_among_small_ones_get_their_turn() {
    let plan = group(vec![per_minute("tokens", 60_000)]);
    let mut market = Market::new(
        11,
        vec![
            Crowd::new(&plan, Class::Normal, "small", Demand::Keeps(500)).costing(100),
            Crowd::new(&plan, Class::Normal, "huge", Demand::Keeps(1)).costing(50_000),
        ],
    );
    let from = settled(&mut market);
    market.run(Span::from_secs(1_200));
    let waits = market.waits(1, from);
    assert!(waits.len() >= 10, "{} huge calls in 20 min", waits.len());
    // Half of the refill is its tenant's: 100 s for a call, and a call of the others.
    let longest = waits.last().unwrap();
    assert!(*longest <= Span::from_secs(105), "{longest}");
    let small = market.waits(0, from);
    assert!(quantile(&small, 1.0) <= Span::from_secs(150), "{}", quantile(&small, 1.0));
}

/// A huge call of a class with a guarantee gets its turn beside urgent small ones without making them wait: what it is owed is
/// kept in the bucket until there is enough.
#[test]
fn a_huge_call_saves_up_beside_urgent_small_ones() {
    let plan = group(vec![per_minute("tokens", 60_000)]);
    let mut market = Market::new(
        12,
        vec![
            Crowd::new(&plan, Class::Interactive, "chat", Demand::PerSecond(4.0)).costing(100),
            Crowd::new(&plan, Class::Normal, "small", Demand::Keeps(200)).costing(100),
            Crowd::new(&plan, Class::Batch, "huge", Demand::Keeps(1)).costing(30_000),
        ],
    );
    let from = settled(&mut market);
    market.run(Span::from_secs(3_600));
    let huge = market.waits(2, from);
    assert!(huge.len() >= 5, "{} huge calls in an hour: 5 % are 6", huge.len());
    let chat = quantile(&market.waits(0, from), 0.99);
    assert!(chat <= Span::from_millis(1_000), "p99 of the chat is {chat}");
}

#[test]
fn two_hundred_who_leave_delay_nobody() {
    let plan = group(vec![per_minute("requests", 60)]);
    let mut world = World::new(13);
    world.push_many(&plan, 60);
    world.decide();
    let mut leavers = Vec::new();
    for _ in 0..200 {
        let ask = world.ask(&plan);
        leavers.push(world.push(ask));
    }
    world.decide();
    let stays: Vec<_> = (0..10)
        .map(|_| {
            let ask = world.ask(&plan);
            world.push(ask)
        })
        .collect();
    for id in leavers {
        // Away with a ticket for a long time: remembered, and not waited for.
        world.queue.leave(id, world.now, world.now + Span::from_secs(600), Box::default());
    }
    world.run_until(at(12.0));
    for (number, id) in stays.iter().enumerate() {
        let granted = world.granted.iter().find(|granted| granted.ask.id == *id).expect("granted");
        let latest = at(number as f64 + 1.6);
        assert!(granted.slot.send_at <= latest, "number {number} at {}", granted.slot.send_at - START);
    }
}

#[test]
fn more_tenants_than_lanes_share_some_of_them() {
    let plan = group(vec![per_minute("requests", 60_000)]);
    let mut world = World::new(14);
    world.push_many(&plan, 60_000);
    world.decide();
    for number in 0..1_000 {
        let mut ask = world.ask(&plan);
        ask.tenant = std::sync::Arc::from(format!("tenant-{number}"));
        world.push(ask);
    }
    let lanes = world.queue.lanes().count();
    assert!(lanes <= 80, "{lanes} lanes");
    world.run_for(Span::from_secs(3));
    assert_eq!(world.granted.len(), 61_000, "and all are served");
    let remembered: usize = world.value.groups.iter().map(|group| group.crews.remembered()).sum();
    assert!(remembered <= 80, "{remembered}");
    world.run_for(Span::from_secs(61));
    world.value.expire(world.now);
    assert!(world.value.groups.iter().all(|group| group.crews.remembered() == 0), "and forgotten when idle");
}

/// A ticket that was copied: two calls come with one place. Both are answered, one after the other, and no pass goes on for ever.
#[test]
fn two_that_come_with_one_place_are_both_answered() {
    let plan = group(vec![per_minute("requests", 60)]);
    let mut world = World::new(1);
    world.push_many(&plan, 60);
    world.decide();
    let first = world.ask(&plan);
    let second = world.ask(&plan);
    let wait_until = world.now + Span::from_secs(3);
    world.push(Ask { wait_until, ..first.clone() });
    world.push(Ask { wait_until, stamp: first.stamp, ..second });
    world.run_for(Span::from_secs(10));
    let answered =
        |id| world.granted.iter().any(|granted| granted.ask.id == id) || world.denied.iter().any(|denied| denied.ask.id == id);
    assert!(answered(61) && answered(62));
    assert!(world.queue.is_empty());
}
