//! A small model check of what replicas do with a store that loses what it held, or comes back with an older value: every
//! history of six steps, over three replicas and one register. The decisions, the merge and the take-over are the real ones.
//!
//! The law (I-1) with its slack, in every window of every history:
//!
//! > granted <= capacity + refill x window + slack,
//!
//! where each loss adds a cautious start (a second of refill, at least one call), and each return of an older value what was
//! granted since that value was written. The second cannot be less: a replica that has not seen the newer value has no way to
//! know of it. The first one is what a replica that has no memory hands out, and one that has some does no better, because
//! others may have granted more than it remembers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod check;
mod machine;

use machine::{Machine, Rule, State};

/// How many steps a history has.
const STEPS: u32 = 6;

#[test]
fn nothing_is_granted_beyond_the_slack_whatever_the_store_does() {
    let mut machine = Machine::new(Rule::Ours);
    let found = check::explore(&mut machine, STEPS);
    println!("{} states, {} values; the most beyond the law without slack: {:?}", found.states, machine.values(), found.most);
    assert_eq!(found.broken, None);
    assert!(found.states > 100_000, "only {} states were seen", found.states);
    // The slack is not larger than it must be.
    assert_eq!(found.most.after_one_loss, machine::CAUTIOUS);
    assert_eq!(found.most.beyond_slack, 0);
}

/// The check notices the mistakes that the rule is there to avoid.
#[test]
fn each_part_of_the_rule_is_needed() {
    for rule in [Rule::BelieveTheStore, Rule::BelieveTheMemory, Rule::MergeOnly] {
        let found = check::explore(&mut Machine::new(rule), STEPS);
        let broken: State = found.broken.unwrap_or_else(|| panic!("{rule:?} broke nothing"));
        println!("{rule:?} breaks the law: {:?}", broken.events());
    }
}
