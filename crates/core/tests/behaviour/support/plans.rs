//! Plans in a line: what a test's calls are charged in.

use std::sync::Arc;

use paceline_core::mode::Modes;
use paceline_core::plan::{BucketId, BucketPlan, Class, ClassPolicy, GroupPlan, OurPart, Owner, Refill, StartLevel};
use paceline_core::retry_budget::RetryPolicy;
use paceline_core::units::Span;

/// The group most tests are about.
pub const GROUP: &str = "model";

/// A bucket of [`GROUP`] about which nothing is configured.
pub fn unknown(meter: &str) -> BucketPlan {
    BucketPlan {
        id: BucketId { owner: Owner::Group(Arc::from(GROUP)), name: Arc::from(meter) },
        meter: Arc::from(meter),
        limit: None,
        per: None,
        capacity: None,
        burst: None,
        refill: None,
        calendar: None,
        start: StartLevel::Cautious,
        learn_above: false,
        ours: OurPart::default(),
    }
}

/// `limit` units every `per`, refilling evenly, full at the start.
pub fn continuous(meter: &str, limit: u64, per: Span) -> BucketPlan {
    BucketPlan {
        limit: Some(limit),
        per: Some(per),
        refill: Some(Refill::Continuous),
        start: StartLevel::Full,
        ..unknown(meter)
    }
}

/// `limit` units a minute, refilling evenly, full at the start.
pub fn per_minute(meter: &str, limit: u64) -> BucketPlan {
    continuous(meter, limit, Span::from_secs(60))
}

/// `limit` units in each window of `per`, full at the start.
pub fn windowed(meter: &str, limit: u64, per: Span) -> BucketPlan {
    BucketPlan { refill: Some(Refill::Window), ..continuous(meter, limit, per) }
}

/// So many calls in flight at most.
pub fn concurrency(limit: u64) -> BucketPlan {
    BucketPlan { limit: Some(limit), refill: Some(Refill::Held), start: StartLevel::Full, ..unknown("concurrency") }
}

/// The same bucket, starting with a second of refill.
pub fn cautious(plan: BucketPlan) -> BucketPlan {
    BucketPlan { start: StartLevel::Cautious, ..plan }
}

/// The same bucket under another name.
pub fn named(name: &str, plan: BucketPlan) -> BucketPlan {
    BucketPlan { id: BucketId { name: Arc::from(name), ..plan.id }, ..plan }
}

/// The same bucket, the whole account's.
pub fn of_account(plan: BucketPlan) -> BucketPlan {
    BucketPlan { id: BucketId { owner: Owner::Account, ..plan.id }, ..plan }
}

/// [`GROUP`] with these buckets.
pub fn group(buckets: Vec<BucketPlan>) -> Arc<GroupPlan> {
    group_named(GROUP, buckets)
}

/// A group with these buckets; those of a group become its own.
pub fn group_named(key: &str, buckets: Vec<BucketPlan>) -> Arc<GroupPlan> {
    let plan = GroupPlan {
        key: Arc::from(GROUP),
        is_each: false,
        buckets,
        classes: Class::ALL.map(ClassPolicy::default_of),
        min_backoff: Span::ZERO,
        modes: Modes::default(),
        store_down: Default::default(),
        retries: RetryPolicy::default(),
    };
    Arc::new(plan.renamed(&Arc::from(key)))
}
