//! What a provider's answer said, with the provenance of each value. Produced by `paceline-signals`, acted on by the core.

use crate::units::Span;

/// Where a length of time came from: the provenance of a floor, and the name of a second of waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Source {
    /// Nothing usable came (only in a [`Signal`]).
    #[default]
    None = 0,
    /// Spread although capacity is left.
    Pacing = 1,
    /// The bucket is empty and refills.
    Bucket = 2,
    /// `Retry-After` in seconds (RFC 9110, section 10.2.3).
    RetryAfterSeconds = 3,
    /// `Retry-After` as an HTTP-date (RFC 9110, section 10.2.3).
    RetryAfterDate = 4,
    /// A header in milliseconds, such as `retry-after-ms`.
    RetryAfterMs = 5,
    /// The reset of a bucket.
    ResetHeader = 6,
    /// A field or sentence in the error's body.
    ErrorBody = 7,
    /// The provider refused and said nothing usable: we guessed.
    Backoff = 8,
    /// Starting slowly, or again.
    Ramp = 9,
    /// Too many calls in flight.
    Concurrency = 10,
    /// Another tenant's or class's turn.
    FairShare = 11,
    /// Random delay inside the slot, so that workers do not wake together.
    Jitter = 12,
    /// The store was slow or away.
    Store = 13,
    /// A person paused it.
    Paused = 14,
}

impl Source {
    /// Every source, in order.
    pub const ALL: [Self; 15] = [
        Self::None,
        Self::Pacing,
        Self::Bucket,
        Self::RetryAfterSeconds,
        Self::RetryAfterDate,
        Self::RetryAfterMs,
        Self::ResetHeader,
        Self::ErrorBody,
        Self::Backoff,
        Self::Ramp,
        Self::Concurrency,
        Self::FairShare,
        Self::Jitter,
        Self::Store,
        Self::Paused,
    ];

    /// The metric label and JSON key: lower snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pacing => "pacing",
            Self::Bucket => "bucket",
            Self::RetryAfterSeconds => "retry_after_seconds",
            Self::RetryAfterDate => "retry_after_date",
            Self::RetryAfterMs => "retry_after_ms",
            Self::ResetHeader => "reset_header",
            Self::ErrorBody => "error_body",
            Self::Backoff => "backoff",
            Self::Ramp => "ramp",
            Self::Concurrency => "concurrency",
            Self::FairShare => "fair_share",
            Self::Jitter => "jitter",
            Self::Store => "store",
            Self::Paused => "paused",
        }
    }

    /// The source with this number, if there is one.
    pub fn from_u8(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether the provider itself said so (as opposed to our own reasons).
    pub const fn is_providers_word(self) -> bool {
        matches!(
            self,
            Self::RetryAfterSeconds | Self::RetryAfterDate | Self::RetryAfterMs | Self::ResetHeader | Self::ErrorBody
        )
    }
}

/// What the time in a reset field means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResetMeans {
    /// Not known: treated as the end of a window when deciding how long to wait, never as a reason to send sooner.
    #[default]
    Unspecified,
    /// Until the bucket is full again (continuous refill: most LLM providers).
    Full,
    /// Until the current window ends and the whole limit is there again.
    Window,
}

/// To whom an observed bucket belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObservedOwner {
    /// The group of models the call was for.
    #[default]
    Group,
    /// The whole account.
    Account,
}

/// One bucket as the provider describes it in its answer. Absent = not said (never zero by default).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedBucket {
    /// Name in Paceline's terms: the meter, with `_second`, `_hour`, `_day`, `_month` when the provider states such a window.
    pub name: String,
    /// What it counts: `requests`, `tokens`, `input_tokens`, ...
    pub meter: String,
    /// Units per window.
    pub limit: Option<u64>,
    /// Units left, rounded down; negative figures under a positive limit are 0.
    pub remaining: Option<u64>,
    /// From the moment of the answer until the reset.
    pub reset_in: Option<Span>,
    /// What that reset means.
    pub reset_means: ResetMeans,
    /// The window's length, when the answer or the catalogue states it.
    pub window: Option<Span>,
    /// Group's or account's.
    pub owner: ObservedOwner,
}

/// What the answer was about, from status and body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerKind {
    /// The call went through (2xx, 3xx).
    #[default]
    Ok,
    /// The rate limit refused it.
    Throttled,
    /// The service is overloaded or away (503, 529, ...): not our bucket.
    Overloaded,
    /// Billing or a quota that no wait cures.
    QuotaExhausted,
    /// The request itself can never fit (too large for the limit).
    Impossible,
    /// A server-side failure which may have run the call (500, 502, 504, 408, 409).
    Failed,
    /// Any other client error: sending it again is pointless.
    Rejected,
}

/// What was read out of one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    /// What kind of answer it was.
    pub kind: AnswerKind,
    /// How long the provider says to wait before this call is worth sending again, as read, from the moment of the answer.
    pub retry_after: Option<Span>,
    /// Where `retry_after` was read; [`Source::None`] when absent.
    pub source: Source,
    /// The name of the field (header, trailer or body path) that `retry_after` came from; empty when absent.
    pub field: String,
    /// The buckets the answer describes.
    pub buckets: Vec<ObservedBucket>,
    /// Whether the same request is worth sending again later, leaving `repeat` aside.
    pub retryable: bool,
    /// Whether the answer names the model that the call was for: a refusal is about that one then, and not about the account.
    pub names_model: bool,
    /// Header names that look like limits and that nothing read (lower case).
    pub unread_headers: Vec<String>,
    /// Header names that were to be read and whose value was unusable (lower case).
    pub malformed_headers: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_stable() {
        for (index, source) in Source::ALL.iter().enumerate() {
            assert_eq!(*source as usize, index);
            assert_eq!(Source::from_u8(*source as u8), Some(*source));
        }
        assert_eq!(Source::from_u8(200), None);
    }
}
