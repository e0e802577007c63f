//! Limits that people have said, as they lie in a scope's value.
//!
//! They are a part of the value, with the instant at which the book said so: a replica that has read an older book, or none, keeps
//! to them, so a limit holds for all or for nobody. Each ends by itself.

use std::sync::Arc;

use super::{Control, What, Whom};
use crate::bucket::BucketState;
use crate::plan::Owner;
use crate::units::{FleetTime, Span};
use crate::value::ScopeValue;

/// A limit in place of the configured and the learned one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverLimit {
    /// The label of its bucket: `requests`, `account/tokens`, `shared/embeddings/requests`.
    pub bucket: Arc<str>,
    /// Units per `per`.
    pub units: u64,
    /// The time in which they may be used; `None`: at once in use, for buckets without refill.
    pub per: Option<Span>,
}

impl OverLimit {
    /// Units in a window of this length, at least one: a bucket keeps its own window.
    pub fn within(&self, window: Span) -> u64 {
        let Some(per) = self.per else { return self.units.max(1) };
        let units = u128::from(self.units) * u128::from(window.as_micros().unsigned_abs());
        u64::try_from(units / u128::from(per.as_micros().unsigned_abs().max(1))).unwrap_or(u64::MAX).max(1)
    }
}

/// One of the limits of a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSaid {
    /// What.
    pub limit: OverLimit,
    /// A glob over models: groups of which none is meant keep theirs.
    pub model: Arc<str>,
    /// Until when.
    pub ends: FleetTime,
}

impl LimitSaid {
    /// The limit that a control says, if it says one.
    pub(super) fn of(control: &Control) -> Option<Self> {
        match &control.what {
            What::Limit(limit) => Some(Self { limit: limit.clone(), model: control.whom.model.clone(), ends: control.ends }),
            _ => None,
        }
    }

    fn whom(&self) -> Whom {
        Whom { model: self.model.clone(), ..Whom::default() }
    }

    /// Whether it is about this bucket.
    pub fn is_about(&self, bucket: &BucketState) -> bool {
        let whom = self.whom();
        let is_meant = match &bucket.plan.id.owner {
            Owner::Group(key) => whom.touches_group(key),
            // What several models share has no limit of one of them.
            Owner::Shared(_) | Owner::Account => whom.is_of_all_models(),
        };
        is_meant && bucket.is_held() == self.limit.per.is_none() && bucket.plan.id.label() == *self.limit.bucket
    }
}

/// The limits of a scope, those that say most about whom last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// When the book came to say so; [`FleetTime::ZERO`]: it never said anything of limits.
    pub at: FleetTime,
    /// What it says.
    pub said: Vec<LimitSaid>,
}

impl Limits {
    pub(super) fn expire(&mut self, now: FleetTime) {
        self.said.retain(|said| said.ends > now);
    }

    /// The one that holds for a bucket, what is over included.
    pub fn of(&self, bucket: &BucketState) -> Option<&OverLimit> {
        let said = self.said.iter().filter(|said| said.is_about(bucket));
        // Of equals the later one: they are in the order in which they were said.
        said.max_by_key(|said| said.whom().precision()).map(|said| &said.limit)
    }

    /// Of two values that were one what was said last.
    pub(crate) fn later(&self, other: &Self) -> Self {
        // Of the same instant one may have let go already what is over.
        std::cmp::max_by_key(self, other, |limits| (limits.at, limits.said.len())).clone()
    }
}

impl ScopeValue {
    /// Takes over what the book says of limits, if that is newer than what holds. Returns whether it did: the value is to be written.
    pub fn obey(&mut self, limits: &Limits, now: FleetTime) -> bool {
        let is_newer = limits.at > self.limits.at;
        if is_newer {
            self.limits.clone_from(limits);
            self.limits.expire(now);
        }
        self.set_limits(now);
        is_newer
    }

    /// Sets in each bucket the limit that a person said, or none; no level rises by it.
    pub(crate) fn set_limits(&mut self, now: FleetTime) {
        self.limits.expire(now);
        for bucket in &mut self.buckets {
            let over = self.limits.of(bucket).cloned();
            bucket.set_over(over, now);
        }
    }
}
