//! Commits that were written although their answer was lost: nothing stays taken for calls that never began, and nothing that was
//! granted is granted twice.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use bytes::Bytes;
use paceline_coordinator::api::{AcquireRequest, Answer};
use paceline_coordinator::settings::Settings;
use paceline_core::units::{FleetTime, Span};
use paceline_store::codec::{Header, decode, encode};
use paceline_store::{
    Announcement, Commit, Committed, Loaded, MemoryStore, RecordKey, Replica, ScopeKey, Store, StoreError, TokenKeys,
    keep_until,
};

use crate::support::{Look, answered, ask, limits, settings};
use crate::{Service, secs, service, sleep, store};

/// A store whose answers can be lost, and whose users can be too late.
#[derive(Clone)]
struct Lossy {
    store: Arc<MemoryStore>,
    /// The next commit is written, and its answer is lost.
    loses_next: Arc<AtomicBool>,
    /// No request is answered.
    is_away: Arc<AtomicBool>,
    /// So many of the next commits find that another replica was faster.
    late: Arc<AtomicU32>,
}

impl Lossy {
    fn new() -> Self {
        Self::over(store())
    }

    fn over(store: Arc<MemoryStore>) -> Self {
        Self { store, loses_next: Arc::default(), is_away: Arc::default(), late: Arc::default() }
    }

    /// From the next commit on, which is written, nothing is answered for a while.
    fn lose_the_next(&self) {
        self.loses_next.store(true, Ordering::SeqCst);
    }

    fn is_back(&self) {
        self.is_away.store(false, Ordering::SeqCst);
    }

    fn check(&self) -> Result<(), StoreError> {
        let away = self.is_away.load(Ordering::SeqCst);
        if away { Err(StoreError::Timeout { detail: "away".into() }) } else { Ok(()) }
    }

    /// Another replica writes what is there again.
    async fn write_between(&self, scope: &ScopeKey) {
        let held = self.store.load(scope).await.unwrap();
        let (bytes, now) = (held.value.unwrap(), self.now());
        let mut value = decode(&bytes, now).unwrap().value;
        value.lineage.wrote(99);
        let header = Header::new(Header::read(&bytes).unwrap().epoch, held.version.next(now), 99);
        let (value, keep_until) = (encode(&header, &value), keep_until(&value, now));
        let commit = Commit { expected: held.version, value, keep_until, records: Vec::new() };
        assert!(matches!(self.store.commit(scope, commit).await.unwrap(), Committed::Done(_)));
    }
}

impl Store for Lossy {
    async fn load(&self, scope: &ScopeKey) -> Result<Loaded, StoreError> {
        self.check()?;
        self.store.load(scope).await
    }

    async fn records(&self, scope: &ScopeKey, keys: &[RecordKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.check()?;
        self.store.records(scope, keys).await
    }

    async fn commit(&self, scope: &ScopeKey, commit: Commit) -> Result<Committed, StoreError> {
        self.check()?;
        if self.late.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            self.write_between(scope).await;
        }
        let outcome = self.store.commit(scope, commit).await;
        if self.loses_next.swap(false, Ordering::SeqCst) {
            self.is_away.store(true, Ordering::SeqCst);
            return Err(StoreError::Timeout { detail: "its answer was lost".into() });
        }
        outcome
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

const TWO_AT_ONCE: &str = "concurrency: 2, limits: {requests: {limit: 100, per: day, zone: UTC}}";

/// What another replica reads: calls in flight, and what is left of the day.
async fn stored(lossy: &Lossy, configured: Arc<dyn Settings>) -> (u64, f64) {
    let other = service(Lossy::over(lossy.store.clone()), configured).await;
    // A quote of a call that nobody makes reads the scope and writes nothing.
    let looks = AcquireRequest { hold: Span::ZERO, deadline: Some(Span::ZERO), ..ask("looks") };
    other.coordinator.acquire(looks).await.unwrap();
    let seen = other.coordinator.scopes().await;
    let requests = seen[0].buckets.iter().find(|bucket| bucket.meter == "requests").unwrap();
    (seen[0].in_flight, requests.level.unwrap())
}

/// Asks while the answer of its commit is lost.
async fn ask_unheard(service: &Service<Lossy>, lossy: &Lossy, request: AcquireRequest) -> Answer {
    lossy.lose_the_next();
    service.ask(request).await
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_granted_anew_alone_is_in_flight_once() {
    let lossy = Lossy::new();
    let service = service(lossy.clone(), limits(TWO_AT_ONCE)).await;
    service.grant(ask("before")).await;
    let lease = ask_unheard(&service, &lossy, ask("A")).await.grant().lease_id.clone();
    lossy.is_back();
    sleep(secs(1)).await;
    assert_eq!(stored(&lossy, limits(TWO_AT_ONCE)).await, (2, 98.0), "and it is charged once");
    service.coordinator.report(answered(&lease, 200, &[])).await.unwrap();
    assert_eq!(stored(&lossy, limits(TWO_AT_ONCE)).await, (1, 98.0));
    service.grant(ask("B")).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_caller_has_gone_is_in_flight_no_more() {
    let lossy = Lossy::new();
    let configured = || closed(TWO_AT_ONCE);
    let service = service(lossy.clone(), configured()).await;
    // Denied, because nobody may be let through meanwhile: nobody knows of its lease.
    ask_unheard(&service, &lossy, ask("A")).await.denied();
    lossy.is_back();
    sleep(secs(1)).await;
    assert_eq!(stored(&lossy, configured()).await, (0, 100.0));
    let again = service.grant(ask("A")).await;
    assert_eq!(service.grant(ask("A")).await.lease_id, again.lease_id);
    assert_eq!(stored(&lossy, configured()).await, (1, 99.0), "as if it had been asked for once");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_gets_the_very_lease() {
    let lossy = Lossy::new();
    // Alone there is no room for it: one of nine has a ninth of nine places, and that is taken.
    let configured = || shared(9, "concurrency: 9, limits: {requests: {limit: 100, per: day, zone: UTC}}");
    let service = Arc::new(service(lossy.clone(), configured()).await);
    let place = service.ask(AcquireRequest { hold: Span::ZERO, ..ask("other") }).await.grant().lease_id.clone();
    lossy.lose_the_next();
    let asking = service.clone();
    let waiting = tokio::spawn(async move { asking.worker(AcquireRequest { hold: secs(5), ..ask("A") }).await });
    sleep(Span::from_millis(10)).await;
    assert!(!waiting.is_finished(), "nobody has told it");
    lossy.is_back();
    let (grant, _) = waiting.await.unwrap();
    sleep(secs(1)).await;
    assert_eq!(stored(&lossy, configured()).await.0, 2);
    assert_eq!(service.grant(ask("A")).await.lease_id, grant.lease_id);
    service.coordinator.report(answered(&place, 200, &[])).await.unwrap();
    service.coordinator.report(answered(&grant.lease_id, 200, &[])).await.unwrap();
    assert_eq!(stored(&lossy, configured()).await.0, 0);
}

#[tokio::test(start_paused = true)]
async fn what_another_replica_has_told_meanwhile_is_not_given_back() {
    let lossy = Lossy::new();
    let configured = || closed(TWO_AT_ONCE);
    let service = service(lossy.clone(), configured()).await;
    ask_unheard(&service, &lossy, ask("A")).await.denied();
    let other = crate::service(Lossy::over(lossy.store.clone()), configured()).await;
    let told = other.grant(ask("A")).await;
    lossy.is_back();
    sleep(secs(1)).await;
    assert_eq!(stored(&lossy, configured()).await, (1, 99.0));
    assert_eq!(other.coordinator.report(answered(&told.lease_id, 200, &[])).await.unwrap().not_applied, None);
    assert_eq!(stored(&lossy, configured()).await, (0, 99.0));
}

#[tokio::test(start_paused = true)]
async fn what_was_not_written_is_owed_by_nobody() {
    let lossy = Lossy::new();
    let configured = || closed(TWO_AT_ONCE);
    let service = service(lossy.clone(), configured()).await;
    service.grant(ask("before")).await;
    lossy.is_away.store(true, Ordering::SeqCst);
    service.ask(ask("A")).await.denied();
    // Others go on meanwhile.
    sleep(secs(2)).await;
    lossy.write_between(&scope()).await;
    lossy.is_back();
    sleep(secs(1)).await;
    assert_eq!(stored(&lossy, configured()).await, (1, 99.0));
}

/// What was granted alone is owed, also when another replica's commit comes before the one that says so.
#[tokio::test(start_paused = true)]
async fn a_commit_that_comes_first_does_not_wipe_out_what_was_done_alone() {
    for late in [0, 1, 3] {
        let lossy = Lossy::new();
        let service = service(lossy.clone(), limits(TWO_AT_ONCE)).await;
        service.grant(ask("before")).await;
        lossy.is_away.store(true, Ordering::SeqCst);
        service.grant(ask("alone")).await;
        sleep(secs(2)).await;
        lossy.late.store(late, Ordering::SeqCst);
        lossy.is_back();
        sleep(secs(1)).await;
        assert_eq!(lossy.late.load(Ordering::SeqCst), 0);
        assert_eq!(stored(&lossy, limits(TWO_AT_ONCE)).await, (2, 98.0), "{late} were faster");
    }
}

fn scope() -> ScopeKey {
    ScopeKey::new("acme", "prod")
}

fn closed(limits: &str) -> Arc<dyn Settings> {
    configured("on_store_down: closed, start_level: full", 1, limits)
}

fn shared(expected: u32, limits: &str) -> Arc<dyn Settings> {
    configured("start_level: full", expected, limits)
}

fn configured(provider: &str, expected: u32, limits: &str) -> Arc<dyn Settings> {
    let accounts = format!("accounts: {{prod: {{models: {{m: {{{limits}}}}}}}}}");
    settings(&format!("expected_replicas: {expected}\nproviders: {{acme: {{extends: generic, {provider}, {accounts}}}}}"))
}
