//! What every store must do, as functions that panic when it does not: a store's tests call [`run`] with a [`Harness`].
//!
//! Scopes are named at random, so the suite can run against a store that others use too. Values are a real header and a body
//! of the suite's own: a store must not look behind the header.

#![expect(clippy::expect_used, reason = "a suite of tests: a store that fails must fail loudly")]

mod books;
mod expiry;
mod racing;
mod replicas;
mod swapping;
mod tallies;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use paceline_core::units::{FleetTime, Span};

use crate::codec::Header;
use crate::key::{RecordKey, ScopeKey};
use crate::register::{Commit, Committed, Expect, Loaded, RecordWrite, Store, Version};
use crate::token::MOST_OLDER_KEYS;

/// A store to put to the test.
pub trait Harness: Send + Sync {
    /// Its type.
    type Store: Store;

    /// The store, each time over another connection where there are such things; all see the same contents.
    fn store(&self) -> Arc<Self::Store>;

    /// Lets fleet time pass: by moving the clock where it can be moved, else by waiting.
    fn pass(&self, span: Span) -> impl Future<Output = ()> + Send;

    /// How often a race is run; a store far away may take fewer.
    fn rounds(&self) -> usize {
        1_000
    }
}

/// Runs the whole suite; needs a tokio runtime, best with several threads.
pub async fn run<H: Harness>(harness: &H) {
    swapping::nothing_is_stored_at_first(harness).await;
    swapping::a_commit_is_read_back_by_all(harness).await;
    swapping::a_scope_without_records_says_so(harness).await;
    swapping::a_stale_commit_writes_nothing(harness).await;
    swapping::a_present_record_stops_the_whole_commit(harness).await;
    swapping::records_are_overwritten_when_asked(harness).await;
    swapping::invalid_commits_write_nothing(harness).await;
    swapping::scopes_do_not_see_each_other(harness).await;
    swapping::any_bytes_and_sizes_come_back(harness).await;
    racing::one_of_many_wins(harness).await;
    racing::one_record_of_many_is_written(harness).await;
    racing::no_update_is_lost(harness).await;
    racing::value_and_records_change_together(harness).await;
    expiry::values_and_records_live_as_long_as_told(harness).await;
    expiry::lives_are_bounded(harness).await;
    expiry::renewing_prolongs(harness).await;
    expiry::a_lost_value_is_no_old_version(harness).await;
    tallies::additions_of_all_are_summed(harness).await;
    tallies::an_addition_counts_once(harness).await;
    tallies::hours_and_scopes_stand_apart(harness).await;
    tallies::no_addition_of_a_race_is_lost(harness).await;
    tallies::sums_stay_exact_and_bounded(harness).await;
    tallies::what_is_over_is_not_kept(harness).await;
    tallies::scopes_are_named_by_day(harness).await;
    books::no_control_of_a_race_is_lost(harness).await;
    time_goes_forward(harness).await;
    token_keys_are_common(harness).await;
    replicas::all_see_each_other(harness).await;
    replicas::who_is_silent_or_retired_is_gone(harness).await;
}

/// Fleet time never goes back, and is that of this century.
async fn time_goes_forward<H: Harness>(harness: &H) {
    let store = harness.store();
    let mut last = store.now();
    assert!(last > FleetTime::from_secs(1_000_000_000), "fleet time counts from the Unix epoch: {last:?}");
    for _ in 0..1_000 {
        let now = store.now();
        assert!(now >= last, "fleet time went back from {last:?} to {now:?}");
        last = now;
    }
    let span = Span::from_secs(1);
    harness.pass(span).await;
    assert!(store.now() >= last + span, "a second later it is later by less");
}

/// All users of a store sign with the same key.
async fn token_keys_are_common<H: Harness>(harness: &H) {
    let keys = harness.store().token_keys().await.expect("token keys");
    assert_eq!(harness.store().token_keys().await.expect("token keys"), keys, "another connection signs with another key");
    assert!(keys.older.len() <= MOST_OLDER_KEYS);
    assert_ne!(keys.current.secret, [0; 32], "a key everybody knows");
    assert_eq!(keys.find(keys.current.id), Some(&keys.current));
}

/// A scope that nobody has used.
fn fresh_scope() -> ScopeKey {
    ScopeKey::new("conformance", &format!("{:032x}", rand::random::<u128>()))
}

fn record_key(name: &str) -> RecordKey {
    RecordKey::of([name.as_bytes()])
}

/// A value with `body` behind its header.
fn sealed(version: Version, body: &[u8]) -> Bytes {
    let header = Header::new(1, version, 7).to_bytes();
    [&header, body].concat().into()
}

/// The body of a stored value.
fn body_of(loaded: &Loaded) -> Option<Bytes> {
    let value = loaded.value.as_ref()?;
    assert_eq!(Header::read(value).map(|header| header.version), Ok(loaded.version), "the version is not the header's");
    Some(value.slice(crate::codec::HEADER_BYTES..))
}

/// A commit over `expected` that keeps its value for an hour.
fn commit<S: Store>(store: &S, expected: Version, body: &[u8], records: Vec<RecordWrite>) -> Commit {
    let now = store.now();
    Commit { expected, value: sealed(expected.next(now), body), keep_until: now + Span::from_secs(3_600), records }
}

/// A record that is kept for an hour.
fn record<S: Store>(store: &S, name: &str, value: &str, must_be: Expect) -> RecordWrite {
    let keep_until = store.now() + Span::from_secs(3_600);
    RecordWrite { key: record_key(name), value: Bytes::copy_from_slice(value.as_bytes()), keep_until, must_be }
}

/// Commits what nothing speaks against; returns the version.
async fn must_commit<S: Store>(store: &S, scope: &ScopeKey, commit: Commit) -> Version {
    match store.commit(scope, commit).await {
        Ok(Committed::Done(version)) => version,
        other => {
            assert_eq!(other.map(|_| "not done"), Ok("done"), "nothing speaks against this commit");
            Version::NONE
        }
    }
}

/// What a scope holds, whether there are records of it or not.
async fn load<S: Store>(store: &S, scope: &ScopeKey) -> Loaded {
    Loaded { has_no_records: false, ..store.load(scope).await.expect("load") }
}

async fn read_records<S: Store>(store: &S, scope: &ScopeKey, names: &[&str]) -> Vec<Option<Bytes>> {
    let keys: Vec<RecordKey> = names.iter().map(|name| record_key(name)).collect();
    store.records(scope, &keys).await.expect("records")
}
