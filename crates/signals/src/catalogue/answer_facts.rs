//! What a provider's file says about what answers were about.

use paceline_core::signal::AnswerKind;
use serde::Deserialize;

use super::matching::Statuses;
use super::provenance::fact;
use super::words::kind;

fact!(
    /// What an answer was about. All conditions that are given must hold; of a list, one.
    AnswerFact {
        /// HTTP statuses: numbers, classes (`5xx`), ranges (`520-527`).
        #[serde(default)]
        status: Statuses,
        /// gRPC statuses, in the same way.
        #[serde(default)]
        grpc: Statuses,
        /// One of the body's codes is one of these (any casing; `a.b#Code` and `Code:...` are `Code`).
        #[serde(default)]
        code: Vec<String>,
        /// One of the body's sentences contains one of these (any casing).
        #[serde(default)]
        text: Vec<String>,
        /// A header has one of these values.
        #[serde(default)]
        header: Option<HeaderIs>,
        /// Whether a header or the body states a wait.
        #[serde(default)]
        wait: Option<bool>,
        /// Whether a bucket is known to be empty.
        #[serde(default)]
        empty: Option<bool>,
        /// Whether the body names a quota of zero.
        #[serde(default)]
        zero: Option<bool>,
        /// Then it was this.
        #[serde(deserialize_with = "kind")]
        kind: AnswerKind,
        /// And this is whether sending it again later is worth it, where the kind alone does not say.
        #[serde(default)]
        retryable: Option<bool>,
    }
);

/// A header's name and the values that count.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeaderIs {
    pub(crate) name: String,
    pub(crate) is: Vec<String>,
}
