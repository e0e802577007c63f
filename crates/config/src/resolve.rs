//! Which buckets a call is charged in.
//!
//! Two steps. First the *group*: the account's groups, the provider's, the catalogue's; within a layer the most specific
//! pattern. Then, for everything the group stands for (its pattern, or the one model where each model has its own buckets),
//! meter by meter the nearest layer that names the meter. A farther layer counts only when its pattern covers everything the
//! group matches, so that a group's buckets do not depend on which of its models asked first.

mod buckets;
mod group;
mod modes;
mod promises;
mod retries;
mod store_down;

use std::sync::Arc;

use paceline_core::plan::GroupPlan;

use crate::explain::Explanation;
use crate::facts::Catalogue;
use crate::identify::{Identity, ResolveError};
use crate::model::{Config, Settings, Written};

use group::Layers;

impl Config {
    /// What a call to this provider, account and model must respect.
    ///
    /// Deterministic; depends on the model only through its group, so that equal keys mean equal plans. `model` may be empty.
    ///
    /// # Errors
    /// An unknown provider; an unknown or missing account where accounts are configured.
    pub fn resolve(
        &self,
        catalogue: &dyn Catalogue,
        provider: &str,
        account: &str,
        model: &str,
    ) -> Result<Arc<GroupPlan>, ResolveError> {
        self.explain(catalogue, provider, account, model).map(|explanation| Arc::new(explanation.plan))
    }

    /// The same as [`Config::resolve`], with the line or layer that each part comes from.
    ///
    /// # Errors
    /// As [`Config::resolve`].
    pub fn explain(
        &self,
        catalogue: &dyn Catalogue,
        provider: &str,
        account: &str,
        model: &str,
    ) -> Result<Explanation, ResolveError> {
        let identity = self.identify(catalogue, provider, account)?;
        let layers = Layers::choose(&identity, model);
        let (buckets, bucket_origins, notes) = buckets::buckets(&identity, &layers);
        let (classes, setting_origins) = promises::promises(self, &identity, &layers);
        let (retries, retry_origins) = retries::retries(self, &identity, &layers);
        let (modes, mode_origin) = modes::modes(self, &layers.chain(&identity));
        let (store_down, store_down_origin) = store_down::store_down(&layers.chain(&identity));
        let plan = GroupPlan {
            key: layers.key.clone(),
            is_each: layers.is_each,
            buckets,
            classes,
            min_backoff: identity.facts.min_backoff,
            retries,
            modes,
            store_down,
        };
        Ok(Explanation {
            asked: format!("{provider}/{account}/{model}"),
            file: self.file.clone(),
            provider: identity.provider.to_string(),
            account: identity.account.to_owned(),
            group: layers.origin.clone(),
            buckets: bucket_origins,
            settings: setting_origins,
            retries: retry_origins,
            mode: mode_origin,
            store_down: store_down_origin,
            tenants: modes::of_tenants(self, plan.modes),
            plan,
            notes,
        })
    }
}

/// The levels of settings that apply to an account, nearest first.
pub(crate) fn account_chain<'a>(identity: &Identity<'a>) -> Vec<(&'a Settings, &'static str)> {
    let account = identity.account_in_file.map(|account| (&account.block.settings, "account"));
    let provider = identity.in_file.map(|provider| (&provider.block.settings, "provider"));
    account.into_iter().chain(provider).collect()
}

/// The nearest level that says something.
pub(crate) fn nearest<T>(
    chain: &[(&Settings, &'static str)],
    read: impl Fn(&Settings) -> Option<Written<T>>,
) -> Option<(Written<T>, &'static str)> {
    chain.iter().find_map(|(settings, level)| read(settings).map(|written| (written, *level)))
}
