//! Laws over random histories: asks, returns, reports, releases, cancels, reloads, time, two replicas, refused commits.

mod model;
mod ops;
mod slots;

use paceline_coordinator::api::{AcquireRequest, Answer};
use paceline_core::units::Span;
use proptest::prelude::*;

use self::model::Model;
use crate::support::{Look, START, World, ask, back, cost, limits};

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 4_000, ..ProptestConfig::default() })]

    /// I-1, I-2, I-4, I-7, and every caller is answered exactly once.
    #[test]
    fn any_history_keeps_the_laws(seed in any::<u64>(), ops in proptest::collection::vec(ops::op(), 1..80)) {
        let mut model = Model::new(seed);
        for op in ops {
            model.run(op)?;
        }
        model.finish()?;
    }

    /// I-8: within a lane first come first served among those present, whenever they came back.
    #[test]
    fn places_are_served_in_their_order(
        seed in any::<u64>(),
        calls in proptest::collection::vec((0_i64..2_000, 1_u64..400, 0_i64..20_000, 0_i64..60_000), 2..25),
    ) {
        let mut world = World::new(limits("limits: {tokens: {limit: 1200, per: 1m, burst: 400}}"), seed);
        let hour = Span::from_secs(3_600);
        let mut comings = Vec::new();
        for (n, (after, tokens, back_after, stays)) in calls.iter().enumerate() {
            world.pass(Span::from_millis(*after));
            let request = AcquireRequest { cost: cost([("tokens", *tokens)]), max_wait: Some(hour), ..ask(&n.to_string()) };
            let id = world.ask(AcquireRequest { hold: Span::ZERO, ..request.clone() });
            if let Answer::Queued(queued) = world.reply(id).answer() {
                let back_at = world.now + Span::from_millis(*back_after);
                comings.push((back_at, n, back(&request, queued, Span::from_millis(*stays))));
            }
        }
        comings.sort_by_key(|(at, n, _)| (*at, *n));
        let mut present = Vec::new();
        for (at, n, request) in comings {
            world.run_until(at.max(world.now));
            present.push((world.now, n, world.ask(request)));
        }
        world.pass(hour + hour);
        for (index, (_, n, id)) in present.iter().enumerate() {
            let left = world.replied_at(*id);
            let granted = matches!(world.reply(*id).answer(), Answer::Granted(_));
            for (other_index, (came, other, other_id)) in present.iter().enumerate() {
                let was_there = (*came < left || other_index < index) && world.replied_at(*other_id) > left;
                prop_assert!(
                    !(granted && other < n && was_there),
                    "{n} went at {:?} although {other}, who came before it, was there",
                    left - START
                );
            }
        }
    }
}
