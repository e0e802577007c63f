//! How many calls may be retries: for each figure the nearest level that says it, else the default.

use paceline_core::retry_budget::RetryPolicy;

use super::group::Layers;
use crate::explain::{Origin, RetryOrigins};
use crate::identify::Identity;
use crate::model::{Config, RetrySettings, Written};

/// The policy, and where what is not the default comes from.
pub(super) fn retries(config: &Config, identity: &Identity<'_>, layers: &Layers<'_>) -> (RetryPolicy, RetryOrigins) {
    let chain = layers.chain(identity);
    let mut levels: Vec<(&RetrySettings, &'static str)> =
        chain.iter().map(|(settings, level)| (&settings.retries, *level)).collect();
    levels.push((&config.retries, "retries"));
    let mut policy = RetryPolicy::default();
    let mut origins = RetryOrigins::default();
    if let Some((share, origin)) = nearest(&levels, |level| level.share) {
        policy.share_ppm = share.portion().as_millionths();
        origins.share = Some(origin);
    }
    if let Some(((at_least, per), origin)) = nearest(&levels, |level| level.at_least) {
        (policy.at_least, policy.per) = (at_least, per);
        origins.at_least = Some(origin);
    }
    (policy, origins)
}

fn nearest<T>(
    levels: &[(&RetrySettings, &'static str)],
    read: impl Fn(&RetrySettings) -> Option<Written<T>>,
) -> Option<(T, Origin)> {
    let (written, level) = levels.iter().find_map(|(settings, level)| read(settings).map(|written| (written, *level)))?;
    Some((written.value, Origin::File { level, pattern: None, pos: written.pos }))
}
