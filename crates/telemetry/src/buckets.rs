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
}

/// Those of the first `most` (provider, account, model) by name, eight of each at most. Others are left out: a sum of levels would
/// mean nothing.
pub(crate) fn bounded(mut rows: Vec<InBucket>, most: usize) -> Vec<InBucket> {
    let name = |row: &InBucket| (row.provider.clone(), row.account.clone(), row.model.clone());
    rows.sort_by_key(|row| (name(row), row.bucket.clone()));
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    rows.retain(|row| {
        let name = name(row);
        if !counts.contains_key(&name) && counts.len() >= most {
            return false;
        }
        let count = counts.entry(name).or_default();
        *count += 1;
        *count <= MAX_BUCKETS_PER_SCOPE
    });
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
        };
        let rows: Vec<InBucket> =
            (0..20).flat_map(|model| (0..10).map(move |bucket| row(format!("m{model:02}"), format!("b{bucket}")))).collect();
        let shown = bounded(rows, 3);
        assert_eq!(shown.len(), 3 * MAX_BUCKETS_PER_SCOPE);
        assert!(shown.iter().all(|row| &*row.model < "m03"));
    }
}
