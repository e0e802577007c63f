//! Buckets as gauges show them: how full, how big, who else drinks.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::series::MAX_BUCKETS_PER_SCOPE;

/// One bucket at the moment of a scrape.
#[derive(Clone, Debug, PartialEq)]
pub struct InBucket {
    /// Its provider.
    pub provider: Arc<str>,
    /// Its account.
    pub account: Arc<str>,
    /// The key of the group it belongs to; empty for the account's and shared ones.
    pub model: Arc<str>,
    /// Its name as people see it.
    pub bucket: Arc<str>,
    /// Units that it holds; `None`: unknown.
    pub level: Option<f64>,
    /// Units per window that are configured.
    pub configured: Option<u64>,
    /// Units per window that headers told.
    pub learned: Option<u64>,
    /// Units per window that we take at most.
    pub effective: Option<u64>,
    /// Units that the provider last said are left.
    pub observed_remaining: Option<u64>,
    /// Units a minute that others take; zero: none; `None`: answers have told nothing about others.
    pub foreign_drain: Option<f64>,
    /// The part of our limit that is drawn; `None`: there is no limit.
    pub utilization: Option<f64>,
    /// Seconds until a long quota is gone at the use of the last hour; `None`: there is no such forecast.
    pub exhausted_in: Option<f64>,
    /// Seconds until a long quota comes back.
    pub resets_in: Option<f64>,
}

/// The first `most` by name, eight of one (provider, account, model) at most. Others are left out: a sum of levels would mean
/// nothing. Each makes seven series or so.
pub(crate) fn bounded(mut rows: Vec<InBucket>, most: usize) -> Vec<InBucket> {
    let name = |row: &InBucket| (row.provider.clone(), row.account.clone(), row.model.clone());
    rows.sort_by_key(|row| (name(row), row.bucket.clone()));
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    rows.retain(|row| {
        let count = counts.entry(name(row)).or_default();
        *count += 1;
        *count <= MAX_BUCKETS_PER_SCOPE
    });
    rows.truncate(most);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_are_shown() {
        let row = |model: String, bucket: String| InBucket {
            provider: "openai".into(),
            account: "prod".into(),
            model: model.into(),
            bucket: bucket.into(),
            level: Some(1.0),
            configured: None,
            learned: None,
            effective: None,
            observed_remaining: None,
            foreign_drain: None,
            utilization: None,
            exhausted_in: None,
            resets_in: None,
        };
        let rows: Vec<InBucket> =
            (0..20).flat_map(|model| (0..10).map(move |bucket| row(format!("m{model:02}"), format!("b{bucket}")))).collect();
        let shown = bounded(rows, 20);
        assert_eq!(shown.len(), 20);
        let of = |model: &str| shown.iter().filter(|row| &*row.model == model).count();
        assert_eq!((of("m00"), of("m01"), of("m02")), (MAX_BUCKETS_PER_SCOPE, MAX_BUCKETS_PER_SCOPE, 4));
    }
}
