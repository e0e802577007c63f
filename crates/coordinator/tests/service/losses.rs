//! A store that is emptied under a running service.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use paceline_coordinator::api::{AcquireRequest, Answer};
use paceline_core::denial::Reason;
use paceline_core::units::{FleetTime, Span};
use paceline_store::{
    Announcement, Commit, Committed, Loaded, MemoryStore, OnReached, RecordKey, Replica, ScopeKey, Store, StoreError,
    TokenKeys, Version,
};

use crate::support::{Look, answered, ask, limits};
use crate::{Service, secs, service, sleep, store};

/// A store whose contents can be taken away.
#[derive(Clone)]
struct Emptied {
    first: Arc<MemoryStore>,
    now: Arc<Mutex<Arc<MemoryStore>>>,
    listeners: Arc<Mutex<Vec<OnReached>>>,
    /// So many loads fail from now on.
    failing: Arc<AtomicU32>,
}

impl Emptied {
    fn new() -> Self {
        let first = store();
        Self { first: first.clone(), now: Arc::new(Mutex::new(first)), listeners: Arc::default(), failing: Arc::default() }
    }

    /// Another server takes over, which holds this older value, and is reached after so many loads that fail.
    async fn fall_back(&self, older: Bytes, failing: u32) {
        self.empty();
        let commit =
            Commit { expected: Version::NONE, value: older, keep_until: self.now() + secs(3_600), records: Vec::new() };
        assert!(matches!(self.inside().commit(&scope(), commit).await.unwrap(), Committed::Done(_)));
        self.failing.store(failing, Ordering::Relaxed);
        self.listeners.lock().unwrap().iter().for_each(|tell| tell());
    }

    fn empty(&self) {
        let clock = self.first.clone();
        *self.now.lock().unwrap() = Arc::new(MemoryStore::with_clock(Arc::new(move || clock.now())));
    }

    fn inside(&self) -> Arc<MemoryStore> {
        self.now.lock().unwrap().clone()
    }
}

impl Store for Emptied {
    async fn load(&self, scope: &ScopeKey) -> Result<Loaded, StoreError> {
        let fails = self.failing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        if fails {
            return Err(StoreError::Unavailable { detail: "not yet".into() });
        }
        self.inside().load(scope).await
    }

    async fn records(&self, scope: &ScopeKey, keys: &[RecordKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.inside().records(scope, keys).await
    }

    async fn commit(&self, scope: &ScopeKey, commit: Commit) -> Result<Committed, StoreError> {
        self.inside().commit(scope, commit).await
    }

    fn now(&self) -> FleetTime {
        self.first.now()
    }

    fn token_keys(&self) -> impl Future<Output = Result<TokenKeys, StoreError>> + Send {
        self.first.token_keys()
    }

    fn heartbeat(&self, me: &Announcement) -> impl Future<Output = Result<Vec<Replica>, StoreError>> + Send {
        self.first.heartbeat(me)
    }

    fn retire(&self, id: u32) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.first.retire(id)
    }

    fn on_reached(&self, tell: OnReached) {
        self.listeners.lock().unwrap().push(tell);
    }
}

fn scope() -> ScopeKey {
    ScopeKey::new("acme", "prod")
}

/// Asks until there is no slot any more; how many there were.
async fn drained<S: Store>(service: &Service<S>, name: &str) -> usize {
    let mut granted = 0;
    let now = |n: usize| AcquireRequest { hold: Span::ZERO, max_wait: Some(Span::ZERO), ..ask(&format!("{name} {n}")) };
    while let Answer::Granted(_) = service.ask(now(granted)).await {
        granted += 1;
    }
    granted
}

/// SE10: everything flushed under load: nobody helps, what was refused stays refused, and no burst follows.
#[tokio::test(start_paused = true)]
async fn everything_flushed_is_remembered_and_hands_out_one_cautious_start() {
    let emptied = Emptied::new();
    let service = service(emptied.clone(), limits("limits: {requests: 600/min}")).await;
    for n in 0..100 {
        service.grant(ask(&format!("before {n}"))).await;
    }
    emptied.empty();
    let mut granted = 0;
    for n in 0..50 {
        let request = AcquireRequest { deadline: Some(Span::from_millis(1)), ..ask(&format!("after {n}")) };
        granted += usize::from(matches!(service.ask(request).await, Answer::Granted(_)));
    }
    assert_eq!(granted, 10, "one second of refill");
    assert!((service.metric("paceline_state_merged_total") - 1.0).abs() < f64::EPSILON);

    tokio::time::sleep(secs(1).to_duration()).await;
    let (lease, other) = (service.grant(ask("refused")).await.lease_id, service.grant(ask("running")).await.lease_id);
    service.coordinator.report(answered(&lease, 429, &[("retry-after", "600")])).await.unwrap();
    emptied.empty();
    // It looks at the store when it writes: an ended call is enough.
    service.coordinator.report(answered(&other, 200, &[])).await.unwrap();
    let denied = service.ask(ask("told to wait")).await.denied().clone();
    assert_eq!(denied.denial.reason, Reason::OverHonorCap, "{denied:?}");
    assert!((service.metric("paceline_state_merged_total") - 2.0).abs() < f64::EPSILON);
}

/// RF11: a copy that lagged takes over. A replica that remembers more looks by itself, and writes it back although nobody asks.
#[tokio::test(start_paused = true)]
async fn an_older_copy_is_put_right_by_whoever_remembers_more_without_a_call() {
    // Less than one comes back while this runs.
    const SLOW: &str = "limits: {requests: {limit: 100, per: 1h}}";
    for failing in [0, 3] {
        let emptied = Emptied::new();
        let (one, two) = (service(emptied.clone(), limits(SLOW)).await, service(emptied.clone(), limits(SLOW)).await);
        one.grant(ask("known")).await;
        two.grant(ask("to both")).await;
        let older = emptied.load(&scope()).await.unwrap().value.unwrap();
        assert_eq!(drained(&one, "hidden").await, 98);

        emptied.fall_back(older, failing).await;
        sleep(if failing == 0 { Span::from_millis(50) } else { secs(3) }).await;
        assert!((one.metric("paceline_state_merged_total") - 1.0).abs() < f64::EPSILON, "{failing}");
        assert_eq!(drained(&two, "again").await + drained(&one, "again").await, 0, "nothing was left ({failing} failed looks)");
    }
}

/// A server that is reached again and holds what it held is looked at, and nothing comes of it.
#[tokio::test(start_paused = true)]
async fn a_server_that_has_kept_everything_is_left_as_it_is() {
    let emptied = Emptied::new();
    let service = service(emptied.clone(), limits("limits: {requests: {limit: 100, per: 1h}}")).await;
    service.grant(ask("before")).await;
    let held = emptied.load(&scope()).await.unwrap();
    emptied.fall_back(held.value.clone().unwrap(), 0).await;
    sleep(secs(2)).await;
    let after = emptied.load(&scope()).await.unwrap();
    assert_eq!((after.version, after.value), (held.version, held.value));
    assert_eq!(drained(&service, "after").await, 99);
}
