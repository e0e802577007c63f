//! What a provider's file says about what is counted, by how much, and which calls may be sent twice.

use std::collections::BTreeMap;

use paceline_core::plan::Refill;
use paceline_core::signal::{ObservedOwner, ResetMeans};
use serde::Deserialize;

use super::limit::{Limit, Window};
use super::provenance::fact;
use super::words::{owner, refill, reset_means};

fact!(
    /// How the provider counts one meter.
    MeterFact {
        /// `continuous`, `window` or `held`; absent: not known.
        #[serde(default, deserialize_with = "refill")]
        refill: Option<Refill>,
        /// The window of the limit; absent: not known, or several.
        #[serde(default)]
        window: Option<Window>,
        /// Where a day or month begins and ends (IANA name).
        #[serde(default)]
        zone: Option<String>,
        /// What a reset field of this meter means.
        #[serde(default, deserialize_with = "reset_means")]
        reset_means: Option<ResetMeans>,
        /// Whose the bucket is.
        #[serde(default, deserialize_with = "owner")]
        owner: Option<ObservedOwner>,
        /// When a call's units are taken.
        #[serde(default)]
        charge: Option<Charge>,
        /// Figures are rounded to multiples of this.
        #[serde(default)]
        step: Option<u64>,
        /// What else there is to know of it, in a sentence.
        #[serde(default)]
        note: Option<String>,
    }
);

/// When a call's units are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Charge {
    /// An estimate when it starts (what it may use at most), corrected when it ends.
    Reserved,
    /// What it used, when it ends.
    Used,
}

fact!(
    /// The least backoff.
    BackoffFact {
        /// How long, such as `60s`.
        at_least: Window,
    }
);

fact!(
    /// The published limits of one tier.
    TierFact {
        /// By model pattern, by meter.
        models: BTreeMap<String, BTreeMap<String, Limit>>,
    }
);

fact!(
    /// Limits that hold for everybody.
    ModelFact {
        /// By meter.
        limits: BTreeMap<String, Limit>,
    }
);

fact!(
    /// Names that share one model's buckets.
    AliasFact {
        /// The model.
        model: String,
        /// Patterns of the other names.
        names: Vec<String>,
    }
);

fact!(
    /// Whether calls to an endpoint may be sent twice.
    EndpointFact {
        /// Path pattern.
        path: String,
        /// What a second sending costs.
        repeat: Repeat,
    }
);

/// What sending a call twice costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Repeat {
    /// Only money.
    Safe,
    /// Nothing, as long as the provider's idempotency key is the same.
    Keyed,
    /// Something happens twice.
    Never,
}
