//! The catalogue of `paceline-signals` as resolution sees it.

use std::sync::Arc;

use paceline_core::calendar::Zone;
use paceline_core::signal::ObservedOwner;

use crate::facts::{AliasFacts, Catalogue, GroupFacts, LimitFacts, MeterFacts, ProviderFacts};

impl Catalogue for paceline_signals::Catalogue {
    fn names(&self) -> Vec<String> {
        let all = self
            .providers()
            .flat_map(|provider| std::iter::once(provider.name().to_owned()).chain(provider.also_called().to_vec()));
        all.collect()
    }

    fn provider(&self, name: &str) -> Option<ProviderFacts> {
        self.get(name).map(ProviderFacts::from)
    }

    fn name_of(&self, name: &str) -> Option<String> {
        self.get(name).map(|provider| provider.name().to_owned())
    }
}

impl From<&paceline_signals::Provider> for ProviderFacts {
    fn from(provider: &paceline_signals::Provider) -> Self {
        let meters = provider.meters().map(|meter| MeterFacts {
            meter: Arc::from(meter.name),
            per: meter.window,
            refill: meter.refill,
            zone: meter.zone.and_then(Zone::named),
            account_wide: meter.owner == ObservedOwner::Account,
        });
        let tier =
            |name: &str| (name.to_owned(), provider.tier(name).unwrap_or_default().iter().map(GroupFacts::from).collect());
        let aliases = provider.aliases().map(|(model, names)| AliasFacts { model: model.to_owned(), names: names.to_vec() });
        Self {
            name: provider.name().to_owned(),
            meters: meters.collect(),
            groups: provider.models().map(|limits| GroupFacts::from(&limits)).collect(),
            tiers: provider.tiers().map(tier).collect(),
            aliases: aliases.collect(),
            min_backoff: provider.min_backoff(),
        }
    }
}

impl From<&paceline_signals::ModelLimits<'_>> for GroupFacts {
    fn from(group: &paceline_signals::ModelLimits<'_>) -> Self {
        let limits = group.limits.iter().map(|(meter, limit)| LimitFacts {
            meter: Arc::from(*meter),
            limit: limit.units,
            per: Some(limit.per.span()),
        });
        Self { pattern: group.pattern.to_owned(), limits: limits.collect() }
    }
}
