//! What a reading yields beside the signal: the figures as they were sent, and the rules that were applied.

use std::fmt;

use paceline_core::signal::{ObservedBucket, ObservedOwner, ResetMeans, Signal};
use paceline_core::units::Span;

/// A signal, and how it came about.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// What the fleet acts on.
    pub signal: Signal,
    /// The buckets with their figures as sent.
    pub buckets: Vec<BucketReading>,
    /// Why the wait is what it is.
    pub rule: Rule,
    /// Whether dates were measured against the server's own clock.
    pub is_server_clock: bool,
}

/// The rule that decided how long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Nothing usable was said.
    Nothing,
    /// The first usable header of the ladder.
    Header,
    /// Milliseconds beside seconds that agree: the finer one.
    FinerAgrees,
    /// Milliseconds of zero beside seconds: rounding, not permission.
    ZeroMilliseconds,
    /// Milliseconds beside seconds that disagree: the longer one.
    LongerOfTwo,
    /// The latest reset of the buckets known to be empty.
    EmptyBuckets,
    /// The latest reset, since nobody said which bucket is empty.
    UnknownBuckets,
    /// The details of a gRPC error.
    Details,
    /// What the request costs, what is left and how fast it comes back.
    Shortage,
    /// The end of the day or month of a quota that is used up.
    CalendarQuota,
    /// A field of the body.
    BodyField,
    /// A sentence of the body.
    BodySentence,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing usable was said",
            Self::Header => "a wait addressed to the caller governs over resets and body",
            Self::FinerAgrees => "milliseconds and seconds agree: the finer one",
            Self::ZeroMilliseconds => "0 ms beside seconds is rounding, not permission: the seconds",
            Self::LongerOfTwo => "milliseconds and seconds disagree: the longer one",
            Self::EmptyBuckets => "no wait was addressed to the caller: the latest reset of the empty buckets",
            Self::UnknownBuckets => "nobody said which bucket is empty: the latest reset",
            Self::Details => "no header stated a wait: the details of the error",
            Self::Shortage => "no header stated a wait: what is missing for this request, at the rate at which it comes back",
            Self::CalendarQuota => "a quota of a day or month is used up: the end of it, or the stated wait if that is later",
            Self::BodyField => "no header stated a wait: the body's field",
            Self::BodySentence => "no header stated a wait: the sentence in the body",
        })
    }
}

/// One bucket as it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketReading {
    /// Name in Paceline's terms.
    pub name: String,
    /// What it counts.
    pub meter: String,
    /// The limit as sent; `None` when unknown (not sent, unusable, or -1).
    pub limit: Option<i64>,
    /// What is left as sent, negative in an overdraft; `None` when unknown.
    pub remaining: Option<i64>,
    /// From the answer until the reset, whole milliseconds.
    pub reset_in: Option<Span>,
    /// Whether that reset was sent as an instant, which only a clock turns into a length of time.
    pub is_reset_instant: bool,
    /// Whether that reset was an instant that is over.
    pub is_reset_past: bool,
    /// What the reset means.
    pub reset_means: ResetMeans,
    /// The window, when it was stated.
    pub window: Option<Span>,
    /// Whose it is.
    pub owner: ObservedOwner,
    /// The headers it was read from, lower case.
    pub fields: Vec<String>,
}

impl BucketReading {
    /// Whether nothing is left in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.remaining.is_some_and(|remaining| remaining <= 0)
    }

    /// What the fleet acts on; `None` when the answer said nothing about the bucket. A limit of zero is no limit anybody could
    /// live with (Okta sends it for its concurrency limit): absent.
    pub fn observed(&self) -> Option<ObservedBucket> {
        self.says_something().then(|| self.clone().into_observed())
    }

    /// As [`BucketReading::observed`], without a copy.
    pub(crate) fn into_observed(self) -> ObservedBucket {
        let limit = self.usable_limit();
        ObservedBucket {
            name: self.name,
            meter: self.meter,
            limit,
            remaining: self.remaining.map(|remaining| u64::try_from(remaining).unwrap_or(0)),
            reset_in: self.reset_in,
            reset_means: self.reset_means,
            window: self.window,
            owner: self.owner,
        }
    }

    /// Whether there is anything in it to act on.
    pub(crate) fn says_something(&self) -> bool {
        self.usable_limit().is_some() || self.remaining.is_some() || self.reset_in.is_some()
    }

    fn usable_limit(&self) -> Option<u64> {
        self.limit.and_then(|limit| u64::try_from(limit).ok()).filter(|limit| *limit > 0)
    }

    /// On a success, a window whose end is over has turned: what was left in it says nothing about the next one.
    pub(crate) fn forget_past_window(&mut self) {
        if self.is_reset_past && self.is_empty() {
            self.remaining = None;
        }
    }
}
