//! What a provider's file says, as it is written: the schema of the catalogue. Unknown keys are errors.
//!
//! Every entry may carry `source` (where the fact is from), `checked` (the day somebody last looked) and `sure` (how sure it is);
//! the file's own `checked` and `sure` stand for those of its entries that have none. In the built-in files all three are
//! required, which a test sees to.

use std::collections::BTreeMap;

use paceline_core::plan::Refill;
use paceline_core::signal::{AnswerKind, ObservedOwner, ResetMeans};
use serde::Deserialize;

use super::body_facts::BodyFacts;
use super::limit::{Limit, Window};
use super::matching::Statuses;
use super::provenance::{Day, Provenance, Sure, fact};
use crate::value::time::TimeForm;

/// One provider's file. Lists of a file come before those of the one it extends, so that the first match is the most specific.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProviderFacts {
    /// Counts up with every change of what the file says.
    pub(crate) version: Option<u32>,
    /// The day of the entries that have none of their own.
    pub(crate) checked: Option<Day>,
    /// How sure the entries are that do not say so themselves.
    pub(crate) sure: Option<Sure>,
    /// How people call it.
    pub(crate) title: Option<String>,
    /// The provider whose file this one starts from; `generic` unless said otherwise.
    pub(crate) extends: Option<String>,
    /// More names of the same provider.
    pub(crate) also_called: Vec<String>,
    /// What it counts, by meter. A file that names any names all: none are inherited then.
    pub(crate) meters: BTreeMap<String, MeterFact>,
    /// The least backoff after a refusal that says nothing usable.
    pub(crate) min_backoff: Option<BackoffFact>,
    /// Published limits by tier.
    pub(crate) tiers: BTreeMap<String, TierFact>,
    /// Limits that hold for everybody, by model pattern.
    pub(crate) models: BTreeMap<String, ModelFact>,
    /// Names that share one model's buckets.
    pub(crate) aliases: Vec<AliasFact>,
    /// Whether calls to an endpoint may be sent twice.
    pub(crate) endpoints: Vec<EndpointFact>,
    /// Headers that say how long to wait; the first usable one counts.
    pub(crate) waits: Vec<WaitFact>,
    /// Headers that say `true` or `false` about sending again.
    pub(crate) retry_flags: Vec<FlagFact>,
    /// Headers that describe buckets.
    pub(crate) families: Vec<FamilyFact>,
    /// The IETF RateLimit fields, which are structured.
    pub(crate) rate_limit_fields: Vec<RateLimitFact>,
    /// Headers that look like limits and say nothing to act on.
    pub(crate) known: Vec<KnownFact>,
    /// Headers whose value names the bucket that refused.
    pub(crate) refusals: Vec<RefusalFact>,
    /// What gateways put in front of the names of headers that they pass on.
    pub(crate) prefixes: Vec<PrefixFact>,
    /// What to look for in the body of a refusal.
    pub(crate) body: BodyFacts,
    /// What an answer was about; the first rule that fits counts.
    pub(crate) answers: Vec<AnswerFact>,
    /// Words of header names that nobody listed.
    pub(crate) vocabulary: Vocabulary,
    /// Parts of header names that make an unread header worth telling.
    pub(crate) looks_like_limits: Vec<String>,
}

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

/// Words of header names.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Vocabulary {
    /// Meter -> the words that name it.
    pub(crate) meters: BTreeMap<String, Vec<String>>,
    /// Window -> the words that name it.
    pub(crate) windows: BTreeMap<Window, Vec<String>>,
}

/// Reads an optional word of a fixed set into a type of the core, which knows nothing of serde.
macro_rules! words {
    ($name:ident -> $type:ty { $($word:literal => $value:expr,)* }) => {
        fn $name<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
            let word = String::deserialize(deserializer)?;
            match word.as_str() {
                $($word => Ok($value),)*
                _ => Err(serde::de::Error::unknown_variant(&word, &[$($word),*])),
            }
        }
    };
}

words!(refill -> Option<Refill> {
    "continuous" => Some(Refill::Continuous),
    "window" => Some(Refill::Window),
    "held" => Some(Refill::Held),
});

words!(reset_means -> Option<ResetMeans> {
    "full" => Some(ResetMeans::Full),
    "window" => Some(ResetMeans::Window),
});

words!(owner -> Option<ObservedOwner> {
    "group" => Some(ObservedOwner::Group),
    "account" => Some(ObservedOwner::Account),
});

words!(kind -> AnswerKind {
    "ok" => AnswerKind::Ok,
    "throttled" => AnswerKind::Throttled,
    "overloaded" => AnswerKind::Overloaded,
    "quota-exhausted" => AnswerKind::QuotaExhausted,
    "impossible" => AnswerKind::Impossible,
    "failed" => AnswerKind::Failed,
    "rejected" => AnswerKind::Rejected,
});

impl ProviderFacts {
    /// This file on top of the one it extends: lists in front, single values and named entries instead.
    pub(crate) fn over(mut self, base: &Self) -> Self {
        fn front<T: Clone>(own: &mut Vec<T>, base: &[T]) {
            own.extend(base.iter().cloned());
        }
        fn named<K: Ord + Clone, V: Clone>(own: &mut BTreeMap<K, V>, base: &BTreeMap<K, V>) {
            for (key, value) in base {
                own.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        self.title = self.title.or_else(|| base.title.clone());
        if self.meters.is_empty() {
            self.meters.clone_from(&base.meters);
        }
        self.min_backoff = self.min_backoff.or_else(|| base.min_backoff.clone());
        named(&mut self.tiers, &base.tiers);
        named(&mut self.models, &base.models);
        front(&mut self.aliases, &base.aliases);
        front(&mut self.endpoints, &base.endpoints);
        front(&mut self.waits, &base.waits);
        front(&mut self.retry_flags, &base.retry_flags);
        front(&mut self.families, &base.families);
        front(&mut self.rate_limit_fields, &base.rate_limit_fields);
        front(&mut self.known, &base.known);
        front(&mut self.refusals, &base.refusals);
        front(&mut self.prefixes, &base.prefixes);
        self.body = self.body.over(&base.body);
        front(&mut self.answers, &base.answers);
        named(&mut self.vocabulary.meters, &base.vocabulary.meters);
        named(&mut self.vocabulary.windows, &base.vocabulary.windows);
        front(&mut self.looks_like_limits, &base.looks_like_limits);
        self
    }

    /// Gives the entries the file's `checked` and `sure` where they have none of their own.
    pub(crate) fn stamp(&mut self) {
        let file = Provenance { source: None, checked: self.checked, sure: self.sure };
        self.meters.values_mut().for_each(|fact| fact.stamp(&file));
        self.min_backoff.iter_mut().for_each(|fact| fact.stamp(&file));
        self.tiers.values_mut().for_each(|fact| fact.stamp(&file));
        self.models.values_mut().for_each(|fact| fact.stamp(&file));
        self.aliases.iter_mut().for_each(|fact| fact.stamp(&file));
        self.endpoints.iter_mut().for_each(|fact| fact.stamp(&file));
        self.waits.iter_mut().for_each(|fact| fact.stamp(&file));
        self.retry_flags.iter_mut().for_each(|fact| fact.stamp(&file));
        self.families.iter_mut().for_each(|fact| fact.stamp(&file));
        self.rate_limit_fields.iter_mut().for_each(|fact| fact.stamp(&file));
        self.known.iter_mut().for_each(|fact| fact.stamp(&file));
        self.body.stamp(&file);
        self.refusals.iter_mut().for_each(|fact| fact.stamp(&file));
        self.prefixes.iter_mut().for_each(|fact| fact.stamp(&file));
        self.body.buckets.iter_mut().for_each(|fact| fact.stamp(&file));
        self.answers.iter_mut().for_each(|fact| fact.stamp(&file));
    }

    /// Every fact of this file that must have a source, with what it is about.
    pub(crate) fn provenances(&self) -> Vec<(String, Provenance)> {
        let mut all = Vec::new();
        all.extend(self.meters.iter().map(|(meter, fact)| (format!("meter {meter}"), fact.provenance())));
        all.extend(self.min_backoff.iter().map(|fact| ("min_backoff".to_owned(), fact.provenance())));
        all.extend(self.tiers.iter().map(|(tier, fact)| (format!("tier {tier}"), fact.provenance())));
        all.extend(self.models.iter().map(|(model, fact)| (format!("model {model}"), fact.provenance())));
        all.extend(self.aliases.iter().map(|fact| (format!("aliases of {}", fact.model), fact.provenance())));
        all.extend(self.endpoints.iter().map(|fact| (format!("endpoint {}", fact.path), fact.provenance())));
        all.extend(self.waits.iter().map(|fact| (format!("header {}", fact.header), fact.provenance())));
        all.extend(self.retry_flags.iter().map(|fact| (format!("header {}", fact.header), fact.provenance())));
        all.extend(self.families.iter().map(|fact| (format!("headers {}", fact.names.join(", ")), fact.provenance())));
        all.extend(self.rate_limit_fields.iter().map(|fact| (format!("header {}", fact.header), fact.provenance())));
        all.extend(self.known.iter().map(|fact| (format!("headers {}", fact.headers.join(", ")), fact.provenance())));
        all.extend(self.refusals.iter().map(|fact| (format!("header {}", fact.header), fact.provenance())));
        all.extend(self.prefixes.iter().map(|fact| (format!("headers {}*", fact.prefix), fact.provenance())));
        all.extend(self.body.provenances());
        all.extend(self.answers.iter().map(|fact| (format!("answers {:?}", fact.kind), fact.provenance())));
        all
    }
}
