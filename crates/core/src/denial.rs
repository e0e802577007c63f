//! A refusal by us, as an answer: why, when it could work, and a sentence for a person.

use crate::units::Span;

/// Why a call is not let through. In order: when several hold, the first is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The provider's answer said that sending it again is pointless.
    NotRetryable,
    /// It has been sent as often as its class allows.
    AttemptsExhausted,
    /// It may have run at another provider.
    CrossProvider,
    /// It can never fit.
    CostExceedsCapacity,
    /// A person paused it.
    Paused,
    /// The store is away and the configuration says to stop then.
    StoreUnavailable,
    /// Billing, or a bucket of an hour or more that is empty beyond `max_wait`.
    QuotaExhausted,
    /// A floor set by the provider ends later than the class waits for.
    OverHonorCap,
    /// Even the shortest possible wait ends after the deadline or `max_wait`.
    Deadline,
    /// Too many retries in the group.
    RetryBudget,
    /// Too many wait already.
    QueueFull,
}

impl Reason {
    /// The metric label and JSON key.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotRetryable => "not_retryable",
            Self::AttemptsExhausted => "attempts_exhausted",
            Self::CrossProvider => "cross_provider",
            Self::CostExceedsCapacity => "cost_exceeds_capacity",
            Self::Paused => "paused",
            Self::StoreUnavailable => "store_unavailable",
            Self::QuotaExhausted => "quota_exhausted",
            Self::OverHonorCap => "over_honor_cap",
            Self::Deadline => "deadline",
            Self::RetryBudget => "retry_budget",
            Self::QueueFull => "queue_full",
        }
    }
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Why.
    pub reason: Reason,
    /// When asking again could work; `None`: never.
    pub retry_after: Option<Span>,
    /// What binds, since when, and what to do.
    pub detail: String,
}
