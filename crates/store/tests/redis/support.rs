//! Stores at servers for tests, and what they count.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use paceline_core::units::Span;
use paceline_store::codec::Header;
use paceline_store::{
    Commit, Committed, Expect, Failure, Observer, Operation, RecordKey, RecordWrite, RedisStore, ScopeKey, Store, StoreError,
    Version,
};
use tokio::time::{Instant, sleep, timeout};

/// What a store told.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    answered: Mutex<HashMap<Operation, u64>>,
    failed: Mutex<HashMap<Failure, u64>>,
    steps: Mutex<u64>,
}

impl Counts {
    pub(crate) fn answered(&self, operation: Operation) -> u64 {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner).get(&operation).copied().unwrap_or(0)
    }

    pub(crate) fn failed(&self, failure: Failure) -> u64 {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get(&failure).copied().unwrap_or(0)
    }

    pub(crate) fn steps(&self) -> u64 {
        *self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Counts {
    fn answered(&self, operation: Operation, _took: Duration) {
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner).entry(operation).or_default() += 1;
    }

    fn failed(&self, failure: Failure) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner).entry(failure).or_default() += 1;
    }

    fn clock_stepped(&self) {
        *self.steps.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }
}

/// A store that may not be connected yet.
pub(crate) fn open(url: &str) -> (Arc<RedisStore>, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let url = url.parse().unwrap_or_else(|error| panic!("{url}: {error}"));
    (Arc::new(RedisStore::open(url, counts.clone())), counts)
}

/// A store that has reached its server.
pub(crate) async fn connect(url: &str) -> Arc<RedisStore> {
    let (store, _) = open(url);
    contact(&store).await;
    store
}

/// Waits for the first contact, and until every connection that a scope may take is open.
pub(crate) async fn contact(store: &RedisStore) {
    let mut contact = store.contact();
    timeout(Duration::from_secs(20), contact.wait_for(|contacted| *contacted)).await.expect("contact in time").unwrap();
    let start = Instant::now();
    let mut well = 0;
    while well < 64 {
        assert!(start.elapsed() < Duration::from_secs(20), "not all connections are open after 20 s");
        match store.load(&scope()).await {
            Ok(_) => well += 1,
            Err(_) => {
                well = 0;
                sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

/// Waits until commits succeed on every connection; how long that took.
pub(crate) async fn until_well(store: &RedisStore, within: Duration) -> Duration {
    let start = Instant::now();
    let mut well = 0;
    while well < 16 {
        if let Ok(Committed::Done(_)) = write(store, &scope(), Version::NONE, b"well").await {
            well += 1;
            continue;
        }
        well = 0;
        assert!(start.elapsed() < within, "commits fail after {within:?}");
        sleep(Duration::from_millis(5)).await;
    }
    start.elapsed()
}

/// A scope that nobody has used.
pub(crate) fn scope() -> ScopeKey {
    ScopeKey::new("test", &format!("{:032x}", rand::random::<u128>()))
}

/// A value with `body` behind its header.
pub(crate) fn sealed(version: Version, body: &[u8]) -> Bytes {
    [&Header::new(1, version, 7).to_bytes(), body].concat().into()
}

/// A commit over `expected` that is kept for an hour.
pub(crate) fn commit(store: &RedisStore, expected: Version, body: &[u8], records: Vec<RecordWrite>) -> Commit {
    let now = store.now();
    Commit { expected, value: sealed(expected.next(now), body), keep_until: now + Span::from_secs(3_600), records }
}

/// Commits a value without records.
pub(crate) async fn write(
    store: &RedisStore,
    scope: &ScopeKey,
    expected: Version,
    body: &[u8],
) -> Result<Committed, StoreError> {
    store.commit(scope, commit(store, expected, body, Vec::new())).await
}

/// A record that is kept for so long.
pub(crate) fn record(store: &RedisStore, name: &str, value: &[u8], life: Span, must_be: Expect) -> RecordWrite {
    let key = RecordKey::of([name.as_bytes()]);
    RecordWrite { key, value: Bytes::copy_from_slice(value), keep_until: store.now() + life, must_be }
}
