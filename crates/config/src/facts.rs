//! What resolution needs to know of a provider that the file does not say: the catalogue, seen from here.

use std::collections::BTreeMap;
use std::sync::Arc;

use paceline_core::calendar::Zone;
use paceline_core::plan::Refill;
use paceline_core::units::Span;

/// A catalogue of providers.
pub trait Catalogue {
    /// Every provider's name, and the other names it is called by.
    fn names(&self) -> Vec<String>;

    /// What is known of a provider, under any of its names; `None` for one that is not in the catalogue.
    fn provider(&self, name: &str) -> Option<ProviderFacts>;

    /// The one name of a provider given by any of its names; cheaper than all its facts.
    fn name_of(&self, name: &str) -> Option<String> {
        self.provider(name).map(|facts| facts.name)
    }
}

/// What a catalogue knows of one provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderFacts {
    /// Its one name in the catalogue.
    pub name: String,
    /// What the provider meters. Only these and configured meters have buckets.
    pub meters: Vec<MeterFacts>,
    /// Groups that hold for every account, with published limits that depend on no tier.
    pub groups: Vec<GroupFacts>,
    /// Groups with the published limits of a tier, by the tier's name.
    pub tiers: BTreeMap<String, Vec<GroupFacts>>,
    /// Other names of a model that share its buckets.
    pub aliases: Vec<AliasFacts>,
    /// The least backoff after a refusal that says nothing usable.
    pub min_backoff: Span,
}

/// One bucket a provider keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterFacts {
    /// What it counts.
    pub meter: Arc<str>,
    /// The window, where it is always the same.
    pub per: Option<Span>,
    /// How it refills, where that is known.
    pub refill: Option<Refill>,
    /// Where its day, week or month ends, where the provider says.
    pub zone: Option<Zone>,
    /// Whether it is kept for the whole account rather than per group of models.
    pub account_wide: bool,
}

/// Models that share their buckets at the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFacts {
    /// Which models, as a glob.
    pub pattern: String,
    /// Published limits: a guess until the provider's answers say more.
    pub limits: Vec<LimitFacts>,
}

/// Names of one model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AliasFacts {
    /// The model.
    pub model: String,
    /// Globs of its other names.
    pub names: Vec<String>,
}

/// A published limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitFacts {
    /// What is counted.
    pub meter: Arc<str>,
    /// Units per window.
    pub limit: u64,
    /// The window; `None` for calls in flight.
    pub per: Option<Span>,
}
