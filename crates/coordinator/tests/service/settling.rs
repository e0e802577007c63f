//! Settlements whose commits fail on their way.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use paceline_coordinator::api::{AcquireRequest, NotApplied, ReportRequest};
use paceline_core::amounts::Amounts;
use paceline_core::units::{FleetTime, Span};
use paceline_store::{
    Announcement, Commit, Committed, Loaded, MemoryStore, RecordKey, Replica, ScopeKey, Store, StoreError, TokenKeys,
};

use crate::support::{answered, ask, cost, limits};
use crate::{secs, service, sleep, store};

/// A store of whose commits every fifth times out: half of those were written all the same.
#[derive(Clone)]
struct Flaky {
    store: Arc<MemoryStore>,
    commits: Arc<AtomicU64>,
}

impl Store for Flaky {
    async fn load(&self, scope: &ScopeKey) -> Result<Loaded, StoreError> {
        self.store.load(scope).await
    }

    async fn records(&self, scope: &ScopeKey, keys: &[RecordKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.store.records(scope, keys).await
    }

    async fn commit(&self, scope: &ScopeKey, commit: Commit) -> Result<Committed, StoreError> {
        let number = self.commits.fetch_add(1, Ordering::Relaxed);
        let late = StoreError::Timeout { detail: "commit".into() };
        match number % 10 {
            4 => Err(late),
            9 => self.store.commit(scope, commit).await.and(Err(late)),
            _ => self.store.commit(scope, commit).await,
        }
    }

    fn now(&self) -> FleetTime {
        self.store.now()
    }

    fn token_keys(&self) -> impl Future<Output = Result<TokenKeys, StoreError>> + Send {
        self.store.token_keys()
    }

    fn heartbeat(&self, me: &Announcement) -> impl Future<Output = Result<Vec<Replica>, StoreError>> + Send {
        self.store.heartbeat(me)
    }

    fn retire(&self, id: u32) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.store.retire(id)
    }
}

/// TE06: every fifth commit fails once, and the ledger is the sum of what was used, to the token.
#[tokio::test(start_paused = true)]
async fn te06_the_ledger_is_the_sum_of_what_was_used() {
    const LIMIT: u64 = 1_000_000_000;
    // Nothing refills before its end, so that the level tells what was charged.
    const DAY: &str = "limits: {tokens: {limit: 1000000000, per: day, zone: UTC}}";
    let calls = if std::env::var_os("PACELINE_LONG_TESTS").is_some() { 10_000 } else { 1_000 };
    let flaky = Flaky { store: store(), commits: Arc::default() };
    let service = service(flaky.clone(), limits(DAY)).await;
    let mut used = 0;
    for n in 0..calls {
        let (grant, _) = service.worker(AcquireRequest { cost: cost([("tokens", 500)]), ..ask(&format!("{n}")) }).await;
        // Long enough for the store to be taken for well again.
        sleep(Span::from_millis(600)).await;
        // More than was reserved, and less.
        let actual = n * 37 % 1_000;
        let usage: Amounts = cost([("tokens", actual)]);
        let report = ReportRequest { usage, ..answered(&grant.lease_id, 200, &[]) };
        let first = service.coordinator.report(report.clone()).await.unwrap();
        assert_eq!(first.not_applied, None, "call {n}");
        if n % 7 == 0 {
            // The answer was lost on its way to the worker.
            let again = service.coordinator.report(report).await.unwrap();
            assert_eq!(again.not_applied, Some(NotApplied::Repeated), "call {n}");
        }
        used += actual;
    }
    // What was done while the store was taken to be away is written soon.
    sleep(secs(1)).await;
    let commits = flaky.commits.load(Ordering::Relaxed);
    // What happens while the store is taken to be away is written together.
    assert!(commits > calls, "{commits} commits");
    // As another replica reads it from the store.
    let other = crate::service(flaky.clone(), limits(DAY)).await;
    other.worker(AcquireRequest { cost: cost([("tokens", 500)]), ..ask("looks") }).await;
    let seen = other.coordinator.scopes().await;
    let level = seen[0].buckets.iter().find(|bucket| bucket.meter == "tokens").unwrap().level.unwrap();
    assert_eq!(level, (LIMIT - used - 500) as f64, "{used} tokens were used");
    assert_eq!(seen[0].in_flight, 1, "only the one that looks");
}
