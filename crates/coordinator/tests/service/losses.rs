//! A store that is emptied under a running service.

use std::future::Future;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use paceline_coordinator::api::{AcquireRequest, Answer};
use paceline_core::denial::Reason;
use paceline_core::units::{FleetTime, Span};
use paceline_store::{
    Announcement, Commit, Committed, Loaded, MemoryStore, RecordKey, Replica, ScopeKey, Store, StoreError, TokenKeys,
};

use crate::support::{Look, answered, ask, limits};
use crate::{secs, service, store};

/// A store whose contents can be taken away.
#[derive(Clone)]
struct Emptied {
    first: Arc<MemoryStore>,
    now: Arc<Mutex<Arc<MemoryStore>>>,
}

impl Emptied {
    fn new() -> Self {
        let first = store();
        Self { first: first.clone(), now: Arc::new(Mutex::new(first)) }
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
