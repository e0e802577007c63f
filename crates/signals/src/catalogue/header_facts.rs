//! What a provider's file says about headers.

use std::collections::BTreeMap;

use paceline_core::signal::{ObservedOwner, ResetMeans};
use serde::Deserialize;

use super::limit::Window;
use super::provenance::fact;
use super::words::{owner, reset_means};
use crate::value::time::TimeForm;

fact!(
    /// A header that says how long to wait.
    WaitFact {
        /// Its name, lower case.
        header: String,
        /// How its value is written, first match counts.
        forms: Vec<TimeForm>,
        /// What a negative or unreadable value means.
        #[serde(default)]
        unusable: Unusable,
    }
);

/// What an unusable value of a wait means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Unusable {
    /// As if the header were not there.
    #[default]
    Absent,
    /// The server forbids another attempt.
    DoNotRetry,
    /// Nothing: the header often speaks of other things.
    Nothing,
}

fact!(
    /// A header that says whether to send again.
    FlagFact {
        /// Its name, lower case.
        header: String,
    }
);

fact!(
    /// Headers that describe buckets: one name per part and bucket.
    FamilyFact {
        /// Names with `{part}`, `{bucket}` (any words) and `{vendor}` (one word) in place of what varies.
        names: Vec<String>,
        /// The words that stand for `{part}`.
        parts: BTreeMap<String, PartFact>,
        /// The words that stand for `{bucket}` and which bucket they name; others are taken apart by the vocabulary.
        #[serde(default)]
        buckets: BTreeMap<String, BucketFact>,
        /// The bucket of names without `{bucket}`.
        #[serde(default)]
        bucket: Option<BucketFact>,
        /// What the reset means, for buckets that do not say otherwise.
        #[serde(default, deserialize_with = "reset_means")]
        reset_means: Option<ResetMeans>,
        /// Whether buckets that are not listed count on their own, whatever meter their words end in.
        #[serde(default)]
        apart: bool,
        /// Whether the names alone are too weak a hint: they count only when what is left stands beside a limit or a reset.
        #[serde(default)]
        only_together: bool,
    }
);

/// What one part of a family says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartFact {
    /// Which quantity.
    pub(crate) reads: Quantity,
    /// How a time is written, first match counts; unused for counts.
    #[serde(default)]
    pub(crate) forms: Vec<TimeForm>,
    /// The words that say that it is used up, any casing.
    #[serde(default)]
    pub(crate) empty: Vec<String>,
    /// What each `name=value` says, for a header of several; other names are passed over.
    #[serde(default)]
    pub(crate) members: BTreeMap<String, PartFact>,
}

/// What a header says about a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Quantity {
    /// Units per window; may be a list of policies (`100, 100;w=60`).
    Limit,
    /// Units left.
    Remaining,
    /// Units used.
    Used,
    /// When it is full again, or its window ends.
    Reset,
    /// The length of its window.
    Window,
    /// Units that come back per window, which stretches the window over which the whole limit does.
    Fill,
    /// Used and limit in one value: `40/40`.
    Usage,
    /// The share that is used: 1 is all of it.
    Share,
    /// The share that is used in percent, with or without the sign.
    Percent,
    /// A word for how it stands; those in `empty` say that it is used up.
    State,
    /// Several in one value: `total=100; remaining=99; resets=41`.
    Members,
}

/// A bucket that headers speak of.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BucketFact {
    /// What it counts.
    pub(crate) meter: String,
    /// Its name; the meter (and the window's suffix) unless said otherwise.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// Its window, when the name states it.
    #[serde(default)]
    pub(crate) window: Option<Window>,
    /// Whose it is; as the meter's unless said otherwise.
    #[serde(default, deserialize_with = "owner")]
    pub(crate) owner: Option<ObservedOwner>,
    /// What its reset means; as the family's or the meter's unless said otherwise.
    #[serde(default, deserialize_with = "reset_means")]
    pub(crate) reset_means: Option<ResetMeans>,
    /// Whether it sums up the other buckets of its family: it counts only for what they do not say themselves.
    #[serde(default)]
    pub(crate) sums_up: bool,
}

fact!(
    /// The IETF RateLimit fields.
    RateLimitFact {
        /// The field with remaining and reset.
        header: String,
        /// The field with quotas and windows.
        policy: String,
    }
);

fact!(
    /// Headers that look like limits and say nothing to act on.
    KnownFact {
        /// Their names, lower case.
        headers: Vec<String>,
    }
);

fact!(
    /// Headers that name whose quota an answer was about.
    IdentityFact {
        /// Their names, lower case; the first one that is there counts.
        headers: Vec<String>,
    }
);

fact!(
    /// A header of refusals whose value names the bucket that refused. It counts when no wait is addressed to the caller, which
    /// would speak of the same bucket.
    RefusalFact {
        /// Its name, lower case.
        header: String,
        /// The header with the time until that bucket's window ends.
        reset: String,
        /// How that time is written.
        forms: Vec<TimeForm>,
    }
);

fact!(
    /// What gateways put in front of the names of headers that they pass on from the provider behind them.
    PrefixFact {
        /// The prefix, lower case.
        prefix: String,
    }
);

/// Words of header names.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Vocabulary {
    /// Meter -> the words that name it.
    pub(crate) meters: BTreeMap<String, Vec<String>>,
    /// Window -> the words that name it.
    pub(crate) windows: BTreeMap<Window, Vec<String>>,
}
