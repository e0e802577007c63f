//! What a provider's file says, as it is written: the schema of the catalogue. Unknown keys are errors.
//!
//! Every entry may carry `source` (where the fact is from), `checked` (the day somebody last looked) and `sure` (how sure it is);
//! the file's own `checked` and `sure` stand for those of its entries that have none. In the built-in files all three are
//! required, which a test sees to.

use std::collections::BTreeMap;

use serde::Deserialize;

pub(crate) use super::answer_facts::AnswerFact;
pub(crate) use super::body_facts::{BodyBucketFact, BodyFacts, BucketListFact, QuotaFact};
pub(crate) use super::header_facts::{
    BucketFact, FamilyFact, FlagFact, IdentityFact, KnownFact, PartFact, PrefixFact, Quantity, RateLimitFact, RefusalFact,
    Unusable, Vocabulary, WaitFact,
};
pub(crate) use super::meter_facts::{AliasFact, BackoffFact, EndpointFact, MeterFact, ModelFact, TierFact};
pub use super::meter_facts::{Charge, Repeat};
pub(crate) use super::probe_facts::ProbeFact;
use super::provenance::{Day, Provenance, Sure};

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
    /// The cheapest call that shows limits.
    pub(crate) probe: Option<ProbeFact>,
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
    /// Headers that name the organisation whose quota it is: two under one account's name are two quotas.
    pub(crate) identities: Vec<IdentityFact>,
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
        self.probe = match (self.probe, &base.probe) {
            (Some(own), Some(base)) => Some(own.over(base)),
            (own, base) => own.or_else(|| base.as_ref().map(ProbeFact::for_others)),
        };
        front(&mut self.waits, &base.waits);
        front(&mut self.retry_flags, &base.retry_flags);
        front(&mut self.families, &base.families);
        front(&mut self.rate_limit_fields, &base.rate_limit_fields);
        front(&mut self.known, &base.known);
        front(&mut self.identities, &base.identities);
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
        self.probe.iter_mut().for_each(|fact| fact.stamp(&file));
        self.waits.iter_mut().for_each(|fact| fact.stamp(&file));
        self.retry_flags.iter_mut().for_each(|fact| fact.stamp(&file));
        self.families.iter_mut().for_each(|fact| fact.stamp(&file));
        self.rate_limit_fields.iter_mut().for_each(|fact| fact.stamp(&file));
        self.known.iter_mut().for_each(|fact| fact.stamp(&file));
        self.body.stamp(&file);
        self.identities.iter_mut().for_each(|fact| fact.stamp(&file));
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
        all.extend(self.probe.iter().map(|fact| ("probe".to_owned(), fact.provenance())));
        all.extend(self.waits.iter().map(|fact| (format!("header {}", fact.header), fact.provenance())));
        all.extend(self.retry_flags.iter().map(|fact| (format!("header {}", fact.header), fact.provenance())));
        all.extend(self.families.iter().map(|fact| (format!("headers {}", fact.names.join(", ")), fact.provenance())));
        all.extend(self.rate_limit_fields.iter().map(|fact| (format!("header {}", fact.header), fact.provenance())));
        all.extend(self.known.iter().map(|fact| (format!("headers {}", fact.headers.join(", ")), fact.provenance())));
        all.extend(self.identities.iter().map(|fact| (format!("identity {}", fact.headers.join(", ")), fact.provenance())));
        all.extend(self.refusals.iter().map(|fact| (format!("header {}", fact.header), fact.provenance())));
        all.extend(self.prefixes.iter().map(|fact| (format!("headers {}*", fact.prefix), fact.provenance())));
        all.extend(self.body.provenances());
        all.extend(self.answers.iter().map(|fact| (format!("answers {:?}", fact.kind), fact.provenance())));
        all
    }
}
