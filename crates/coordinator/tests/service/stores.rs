//! A store that fails: nobody is left without an answer, and who waits goes on waiting.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use paceline_coordinator::api::{AcquireRequest, CallError};
use paceline_core::units::{FleetTime, Span};
use paceline_store::{
    Announcement, Commit, Committed, Loaded, MemoryStore, RecordKey, Replica, ScopeKey, Store, StoreError, TokenKeys,
};

use crate::support::{Look, answered, ask, back, limits};
use crate::{secs, service, sleep, store};

/// A store whose commits, or whose reads too, fail while it is switched off.
#[derive(Clone)]
struct Failing {
    store: Arc<MemoryStore>,
    reads: Arc<AtomicBool>,
    commits: Arc<AtomicBool>,
}

impl Failing {
    fn new() -> Self {
        Self { store: store(), reads: Arc::default(), commits: Arc::default() }
    }

    fn fail(&self, fails: bool) {
        self.reads.store(fails, Ordering::SeqCst);
        self.commits.store(fails, Ordering::SeqCst);
    }

    fn check(switch: &AtomicBool) -> Result<(), StoreError> {
        if switch.load(Ordering::SeqCst) { Err(StoreError::Full { limit_bytes: 0 }) } else { Ok(()) }
    }
}

impl Store for Failing {
    async fn load(&self, scope: &ScopeKey) -> Result<Loaded, StoreError> {
        Self::check(&self.reads)?;
        self.store.load(scope).await
    }

    async fn records(&self, scope: &ScopeKey, keys: &[RecordKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        Self::check(&self.reads)?;
        self.store.records(scope, keys).await
    }

    async fn commit(&self, scope: &ScopeKey, commit: Commit) -> Result<Committed, StoreError> {
        Self::check(&self.commits)?;
        self.store.commit(scope, commit).await
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

#[tokio::test(start_paused = true)]
async fn a_scope_that_cannot_be_read_says_so_to_each_caller() {
    let failing = Failing::new();
    let service = service(failing.clone(), limits("limits: {requests: 60/min}")).await;
    failing.fail(true);
    let error = service.coordinator.acquire(ask("A")).await.unwrap_err();
    assert!(matches!(error, CallError::Unavailable(_)));
    failing.fail(false);
    service.grant(ask("A")).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_be_written_waits_until_it_can() {
    let failing = Failing::new();
    let service = Arc::new(service(failing.clone(), limits("concurrency: 1")).await);
    let running = service.grant(ask("A")).await;
    let first = service.ask(AcquireRequest { hold: Span::ZERO, ..ask("B") }).await;
    let held = {
        let (service, request) = (service.clone(), back(&ask("B"), first.queued(), secs(20)));
        tokio::spawn(async move { service.ask(request).await })
    };
    sleep(secs(1)).await;
    failing.fail(true);
    // A report cannot be taken: its worker is told, and reports again.
    let report = answered(&running.lease_id, 200, &[]);
    assert!(matches!(service.coordinator.report(report.clone()).await.unwrap_err(), CallError::Unavailable(_)));
    sleep(secs(2)).await;
    failing.fail(false);
    assert_eq!(service.coordinator.report(report).await.unwrap().not_applied, None);
    let answer = held.await.unwrap();
    assert_eq!(paceline_core::delays::total(&answer.grant().delays), secs(3));
}

#[tokio::test(start_paused = true)]
async fn holds_end_while_the_store_is_away() {
    let failing = Failing::new();
    let service = Arc::new(service(failing.clone(), limits("concurrency: 1")).await);
    service.grant(ask("A")).await;
    let first = service.ask(AcquireRequest { hold: Span::ZERO, ..ask("B") }).await;
    let held = {
        let (service, request) = (service.clone(), back(&ask("B"), first.queued(), secs(5)));
        tokio::spawn(async move { service.ask(request).await })
    };
    sleep(secs(1)).await;
    failing.fail(true);
    // Something fails, so that the value must be read again, which fails too.
    assert!(service.coordinator.acquire(ask("C")).await.is_err());
    let start = service.coordinator.now();
    let answer = held.await.unwrap();
    answer.queued();
    assert!(service.coordinator.now() - start <= secs(4) + Span::from_millis(1));
}

#[tokio::test(start_paused = true)]
async fn one_can_look_at_a_scope_while_the_store_is_away() {
    let failing = Failing::new();
    let service = service(failing.clone(), limits("concurrency: 1")).await;
    service.grant(ask("A")).await;
    failing.fail(true);
    assert!(service.coordinator.acquire(ask("B")).await.is_err());
    let seen = tokio::time::timeout(secs(1).to_duration(), service.coordinator.scopes()).await.unwrap();
    assert_eq!(seen[0].in_flight, 1);
}
