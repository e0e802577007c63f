//! A limit holds for all or for nobody: whoever follows a configuration that is not its own sends what that one allows, whatever its
//! own lacks or says.

use std::sync::Arc;

use paceline_core::in_force::{ConfigHash, Loaded};
use paceline_core::plan::{BucketPlan, GroupPlan, Owner};
use paceline_core::units::Span;
use proptest::prelude::*;

use crate::support::plans::{group, of_account, per_minute};
use crate::support::world::{START, World};

/// Requests and tokens of the group, of a shared group and of the account, with these limits; those that are kept.
fn plan(limits: [u64; 5], kept: [bool; 5]) -> Arc<GroupPlan> {
    let shared = |mut bucket: BucketPlan| {
        bucket.id.owner = Owner::Shared(Arc::from("both"));
        bucket
    };
    let [requests, tokens, of_both, account, account_tokens] = limits;
    let all = [
        shared(per_minute("requests", of_both)),
        per_minute("requests", requests),
        per_minute("tokens", tokens * 10),
        of_account(per_minute("requests", account)),
        of_account(per_minute("tokens", account_tokens * 10)),
    ];
    group(all.into_iter().zip(kept).filter(|(_, is_kept)| *is_kept).map(|(bucket, _)| bucket).collect())
}

/// When calls are sent that come in these gaps: the first one at a replica with the file, and then at one that has read `mine`.
fn sends(file: &Arc<GroupPlan>, mine: (&Arc<GroupPlan>, Loaded), gaps: &[i64], seed: u64) -> Vec<Span> {
    let has_file = Loaded { hash: ConfigHash(1), at: START, is_reload: false };
    let mut world = World::new(seed);
    for (nth, gap) in gaps.iter().enumerate() {
        let (plan, loaded) = if nth == 0 { (file, has_file) } else { (mine.0, mine.1) };
        world.value.meet(&loaded, world.now);
        let ask = world.ask(plan);
        let cost = paceline_core::amounts::Amounts::from_pairs([("requests", 1), ("tokens", 10)]);
        world.push(paceline_core::queue::Ask { cost, ..ask });
        world.run_for(Span::from_millis(*gap));
    }
    world.run_for(Span::from_secs(120));
    world.sends()
}

proptest! {
    #[test]
    fn a_follower_sends_what_the_configuration_in_force_allows(
        limits in prop::array::uniform5(1_u64..90),
        others in prop::array::uniform5(1_u64..900),
        mut kept in prop::array::uniform5(any::<bool>()),
        gaps in prop::collection::vec(0_i64..900, 2..120),
        has_file in any::<bool>(),
        seed in any::<u64>(),
    ) {
        // Which shared groups a model is in, each replica's own file says.
        kept[0] = true;
        let file = plan(limits, [true; 5]);
        let older = Loaded { hash: ConfigHash(2), at: START - Span::from_secs(60), is_reload: false };
        let mine = if has_file { older } else { Loaded::nothing(ConfigHash(2)) };
        let all = Loaded { hash: ConfigHash(1), at: START, is_reload: false };
        let followed = sends(&file, (&plan(others, kept), mine), &gaps, seed);
        prop_assert!(!followed.is_empty());
        prop_assert_eq!(&followed, &sends(&file, (&file, all), &gaps, seed), "as if it had the same file");
        let least = *limits.iter().min().unwrap() as f64;
        for (nth, sent) in followed.iter().enumerate() {
            let allowed = least + least * sent.as_micros() as f64 / 60e6;
            prop_assert!((nth + 1) as f64 <= allowed + 0.001, "{nth} sent by {sent}: {allowed}");
        }
    }
}
