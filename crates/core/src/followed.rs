//! What is charged by a replica whose own configuration is not the one in force: also the limits that its own lacks.
//!
//! A limit holds for all or for nobody. A replica that was started without the file, or whose file does not have a limit yet, would
//! let through whatever comes once it leads.

use std::sync::Arc;

use crate::plan::{BucketPlan, GroupPlan, Owner};
use crate::value::ScopeValue;

impl ScopeValue {
    /// Every bucket that a call of this plan is charged in: the plan's, and those it is charged in by the configuration in force.
    pub fn buckets_of<'a>(&'a self, plan: &'a GroupPlan) -> impl Iterator<Item = &'a BucketPlan> {
        plan.buckets.iter().chain(self.followed(plan).map(|(_, bucket)| bucket))
    }

    /// The limits that hold for calls of this plan although it does not have them, with their positions: of the whole account, of
    /// its group, and of the shared ones that it names. None while its configuration is the one in force.
    pub(crate) fn followed<'a>(&'a self, plan: &'a GroupPlan) -> impl Iterator<Item = (usize, &'a BucketPlan)> {
        let there = if self.keeps_limits { self.buckets.as_slice() } else { &[] };
        let held = there.iter().map(|state| &state.plan).enumerate();
        held.filter(move |(_, bucket)| bucket.limit.is_some() && concerns(bucket, plan))
    }

    /// The plan with the limits in force that it lacks: behind its own, whose positions stay.
    pub(crate) fn completed(&self, plan: Arc<GroupPlan>) -> Arc<GroupPlan> {
        let more: Vec<BucketPlan> = self.followed(&plan).map(|(_, bucket)| bucket.clone()).collect();
        if more.is_empty() {
            return plan;
        }
        let mut completed = GroupPlan::clone(&plan);
        completed.buckets.extend(more);
        Arc::new(completed)
    }
}

fn concerns(bucket: &BucketPlan, plan: &GroupPlan) -> bool {
    let is_its = match &bucket.id.owner {
        Owner::Account => true,
        Owner::Group(key) => *key == plan.key,
        Owner::Shared(_) => plan.buckets.iter().any(|own| own.id.owner == bucket.id.owner),
    };
    is_its && !plan.buckets.iter().any(|own| own.id == bucket.id)
}
