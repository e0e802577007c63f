//! I-9: no class or lane with a guarantee starves, and tenants get by weight, whoever wants how much of what size.

use std::collections::BTreeMap;

use paceline_core::plan::{Class, ClassPolicy};
use paceline_core::units::Span;
use proptest::prelude::*;

use crate::support::crowd::{Crowd, Demand, Market};
use crate::support::plans::{continuous, group};

/// Units that come back in a second.
const PER_SECOND: u64 = 100;
const TENANTS: [&str; 3] = ["a", "b", "c"];

/// Calls of one tenant and class, of which some wait at all times.
#[derive(Clone, Copy, Debug)]
struct Lane {
    class: Class,
    tenant: &'static str,
    weight: u32,
    tokens: u64,
    waiting: usize,
}

impl Lane {
    /// Whether somebody is in line at any time: those whose slot is within the horizon have left it, and others come a tenth of a
    /// second later.
    fn is_never_empty(&self) -> bool {
        self.tokens * self.waiting as u64 >= PER_SECOND * 6 / 10
    }

    /// What a call counts for in the order of its class.
    fn turn(&self) -> f64 {
        self.tokens as f64 / f64::from(self.weight)
    }
}

fn lanes() -> impl Strategy<Value = Vec<Lane>> {
    let class = prop_oneof![Just(Class::Interactive), Just(Class::Normal), Just(Class::Batch)];
    let lane = (class, 0..TENANTS.len(), 1_u32..6, 1_u64..=PER_SECOND, 3_usize..12);
    proptest::collection::vec(lane, 2..8).prop_map(|drawn| {
        let mut lanes = BTreeMap::new();
        for (class, tenant, weight, tokens, waiting) in drawn {
            let tenant = TENANTS[tenant];
            lanes.insert((class, tenant), Lane { class, tenant, weight, tokens, waiting });
        }
        lanes.into_values().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn i9_nobody_with_a_guarantee_starves(lanes in lanes(), seed in any::<u64>()) {
        let plan = group(vec![continuous("tokens", 60 * PER_SECOND, Span::from_secs(60))]);
        let crowd = |lane: &Lane| {
            Crowd::new(&plan, lane.class, lane.tenant, Demand::Keeps(lane.waiting)).weighing(lane.weight).costing(lane.tokens)
        };
        let mut market = Market::new(seed, lanes.iter().map(crowd).collect());
        // What the full bucket held is gone by then.
        market.run(Span::from_secs(90));
        let from = market.world.now;
        market.run(Span::from_secs(120));
        let got = market.tokens(from);
        let all: f64 = got.iter().sum();
        let somebody_waits = lanes.iter().any(Lane::is_never_empty);
        prop_assert!(!somebody_waits || all >= 0.95 * 120.0 * PER_SECOND as f64, "{all} units: some lay idle while others waited");

        let largest = lanes.iter().map(|lane| lane.tokens).max().unwrap_or(0) as f64;
        for class in Class::ALL {
            let of_class: f64 = lanes.iter().zip(&got).filter(|(lane, _)| lane.class == class).map(|(_, got)| got).sum();
            if lanes.iter().all(|lane| lane.class != class) {
                continue;
            }
            let guarantee = ClassPolicy::default_of(class).guarantee.as_millionths();
            let due = all * f64::from(guarantee) / 1e6;
            prop_assert!(of_class >= due - 3.0 * largest, "{class:?} got {of_class} of {all}, at least {due} are due");
        }
        let competing = || lanes.iter().zip(&got).filter(|(lane, _)| lane.is_never_empty());
        for (one, one_got) in competing() {
            for (other, other_got) in competing().filter(|(other, _)| other.class == one.class) {
                let apart = one_got / f64::from(one.weight) - other_got / f64::from(other.weight);
                // A call of each: who is served when its turn is the least is ahead by one at most, at either end of the time.
                let most = 2.0 * (one.turn() + other.turn()) + 1.0;
                prop_assert!(apart <= most, "{one:?} got {one_got}, {other:?} {other_got}");
            }
        }
    }
}

/// A class whose calls always get a slot within their horizon is never seen in line, and yet it takes all there is: it counts as
/// waiting, so that batch gets its part beside it.
#[test]
fn a_short_line_is_a_line_too() {
    let plan = group(vec![continuous("tokens", 60 * PER_SECOND, Span::from_secs(60))]);
    let crowds = vec![
        Crowd::new(&plan, Class::Normal, "a", Demand::Keeps(3)).costing(1),
        Crowd::new(&plan, Class::Batch, "a", Demand::Keeps(5)).costing(3),
    ];
    let mut market = Market::new(0, crowds);
    market.run(Span::from_secs(90));
    let from = market.world.now;
    market.run(Span::from_secs(60));
    let got = market.tokens(from);
    assert!(got[1] >= 0.049 * (got[0] + got[1]), "{got:?}");
}
