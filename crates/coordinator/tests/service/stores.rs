//! A store that fails: nobody is left without an answer, and who waits goes on waiting.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use paceline_coordinator::api::{AcquireRequest, Answer, NotApplied};
use paceline_coordinator::settings::Settings;
use paceline_core::denial::Reason;
use paceline_core::units::{FleetTime, Span};
use paceline_store::{
    Announcement, Commit, Committed, Loaded, MemoryStore, RecordKey, Replica, ScopeKey, Store, StoreError, TokenKeys,
};

use crate::support::{Look, answered, ask, back, cost, limits, settings, target};
use crate::{Service, secs, service, sleep, store};

/// A store whose commits, or whose reads too, fail while it is switched off.
#[derive(Clone)]
pub(crate) struct Failing {
    store: Arc<MemoryStore>,
    reads: Arc<AtomicBool>,
    commits: Arc<AtomicBool>,
}

impl Failing {
    pub(crate) fn new() -> Self {
        Self { store: store(), reads: Arc::default(), commits: Arc::default() }
    }

    pub(crate) fn fail(&self, fails: bool) {
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

/// Starts a call that is held on its place.
pub(crate) async fn held(service: &Arc<Service<Failing>>, name: &'static str, hold: Span) -> tokio::task::JoinHandle<Answer> {
    let first = service.ask(AcquireRequest { hold: Span::ZERO, ..ask(name) }).await;
    let (service, request) = (service.clone(), back(&ask(name), first.queued(), hold));
    tokio::spawn(async move { service.ask(request).await })
}

/// A configuration under which so many replicas share a limit while the store is away.
fn closed(limits: &str) -> Arc<dyn Settings> {
    let accounts = format!("accounts: {{prod: {{models: {{m: {{{limits}}}}}}}}}");
    settings(&format!("providers: {{acme: {{extends: generic, on_store_down: closed, start_level: full, {accounts}}}}}"))
}

fn rand_name() -> String {
    use std::sync::atomic::AtomicU32;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("any {}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn shared(expected: u32, limits: &str) -> Arc<dyn Settings> {
    let accounts = format!("accounts: {{prod: {{models: {{m: {{{limits}}}}}}}}}");
    settings(&format!(
        "expected_replicas: {expected}\nproviders: {{acme: {{extends: generic, start_level: full, {accounts}}}}}"
    ))
}

#[tokio::test(start_paused = true)]
async fn a_scope_that_nobody_has_read_begins_cautiously_alone() {
    let failing = Failing::new();
    let service = service(failing.clone(), limits("limits: {requests: 600/min}")).await;
    failing.fail(true);
    let mut granted = 0;
    while let Answer::Granted(_) = service.ask(AcquireRequest { hold: Span::ZERO, ..ask(&format!("{granted}")) }).await {
        granted += 1;
    }
    assert!((1..=10).contains(&granted), "a second's worth: nobody knows what others did: {granted}");
    assert!(service.coordinator.is_degraded(&target("")));
    failing.fail(false);
    sleep(secs(1)).await;
    assert!(!service.coordinator.is_degraded(&target("")), "back within a second, by itself");
    assert_eq!(service.metric("paceline_store_conflicts_total"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn what_is_reported_meanwhile_counts_at_once_and_is_written_later() {
    let failing = Failing::new();
    let service = Arc::new(service(failing.clone(), limits("concurrency: 1")).await);
    let running = service.grant(ask("A")).await;
    let waiting = held(&service, "B", secs(20)).await;
    sleep(secs(1)).await;
    failing.fail(true);
    // The place comes free here, and the one that waits has it.
    let report = answered(&running.lease_id, 200, &[]);
    assert_eq!(service.coordinator.report(report.clone()).await.unwrap().not_applied, None);
    let next = waiting.await.unwrap();
    assert_eq!(paceline_core::delays::total(&next.grant().delays), secs(1));
    failing.fail(false);
    sleep(secs(1)).await;
    // Another replica knows of both.
    let other = crate::service(failing.clone(), limits("concurrency: 1")).await;
    assert_eq!(other.coordinator.report(report).await.unwrap().not_applied, Some(NotApplied::Repeated));
    let report = answered(&next.grant().lease_id, 200, &[]);
    assert_eq!(other.coordinator.report(report).await.unwrap().not_applied, None);
    assert_eq!(other.coordinator.scopes().await[0].in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn three_replicas_alone_keep_to_the_limit_and_begin_again_cautiously() {
    // RF06: five minutes without the store, a hundred workers at three replicas, 60 a minute.
    let failing = Failing::new();
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(Arc::new(service(failing.clone(), shared(3, "limits: {requests: 60/min}")).await));
    }
    for (n, replica) in replicas.iter().enumerate() {
        replica.grant(ask(&format!("first {n}"))).await;
    }
    failing.fail(true);
    let (start, sent) = (replicas[0].coordinator.now(), Arc::new(std::sync::Mutex::new(Vec::new())));
    let worker = |n: usize| {
        let (replica, sent) = (replicas[n % 3].clone(), sent.clone());
        async move {
            for round in 0.. {
                let (_, at) =
                    replica.worker(AcquireRequest { max_wait: Some(secs(3_600)), ..ask(&format!("{n} {round}")) }).await;
                sent.lock().unwrap().push(at);
            }
        }
    };
    let workers: Vec<_> = (0..100).map(|n| tokio::spawn(worker(n))).collect();
    sleep(secs(300)).await;
    let until = |at: Span| sent.lock().unwrap().iter().filter(|&&send| send - start <= at).count();
    let alone = until(secs(300));
    assert!((280..=330).contains(&alone), "{alone} in five minutes at sixty a minute");
    assert!(replicas.iter().all(|replica| replica.coordinator.is_degraded(&target(""))));
    failing.fail(false);
    sleep(secs(60)).await;
    let after = until(secs(360)) - alone;
    assert!((50..=64).contains(&after), "{after} in the minute after that: neither a full bucket nor a stall");
    assert!(!replicas.iter().any(|replica| replica.coordinator.is_degraded(&target(""))));
    workers.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_cut_off_alone_adds_its_part_and_owes_it_afterwards() {
    let (here, cut) = (Failing::new(), Failing::new());
    let cut = Failing { store: here.store.clone(), ..cut };
    let settings = shared(3, "limits: {requests: 600/min}");
    let (with, without) = (service(here, settings.clone()).await, service(cut.clone(), settings).await);
    with.grant(ask("0")).await;
    without.grant(ask("1")).await;
    cut.fail(true);
    // The others leave it nothing.
    while let Answer::Granted(_) =
        with.ask(AcquireRequest { hold: Span::ZERO, max_wait: Some(Span::ZERO), ..ask(&rand_name()) }).await
    {}
    let mut granted = 0;
    for n in 0..600 {
        let answer =
            without.ask(AcquireRequest { hold: Span::ZERO, max_wait: Some(Span::ZERO), ..ask(&format!("cut {n}")) }).await;
        granted += i64::from(matches!(answer, Answer::Granted(_)));
        sleep(Span::from_millis(100)).await;
    }
    assert!((190..=205).contains(&granted), "a third of 600 a minute: {granted}");
    cut.fail(false);
    sleep(secs(1)).await;
    // What it granted is gone from what refilled meanwhile.
    let level = with.coordinator.scopes().await;
    without.ask(AcquireRequest { hold: Span::ZERO, max_wait: Some(Span::ZERO), ..ask("after") }).await;
    with.ask(AcquireRequest { hold: Span::ZERO, max_wait: Some(Span::ZERO), ..ask("seen") }).await;
    let mut more = 0;
    while let Answer::Granted(_) =
        with.ask(AcquireRequest { hold: Span::ZERO, max_wait: Some(Span::ZERO), ..ask(&rand_name()) }).await
    {
        more += 1;
    }
    assert!(more <= 610 - granted, "{more} after {granted}, {level:?}");
}

#[tokio::test(start_paused = true)]
async fn a_closed_group_lets_nothing_through_and_says_why() {
    let failing = Failing::new();
    let service = Arc::new(service(failing.clone(), closed("limits: {requests: {limit: 60, per: 1m, burst: 1}}")).await);
    service.grant(ask("A")).await;
    let waiting = held(&service, "B", secs(20)).await;
    failing.fail(true);
    let Answer::Denied(denied) = service.ask(ask("C")).await else { panic!("it is closed") };
    assert_eq!((denied.denial.reason, denied.denial.retry_after), (Reason::StoreUnavailable, Some(secs(1))));
    assert!(denied.denial.detail.contains("on_store_down"), "{}", denied.denial.detail);
    assert!(matches!(waiting.await.unwrap(), Answer::Denied(_)), "who waits is told too");
    failing.fail(false);
    sleep(secs(2)).await;
    service.grant(ask("D")).await;
}

#[tokio::test(start_paused = true)]
async fn what_costs_more_than_its_part_may_come_again() {
    let failing = Failing::new();
    let service = service(failing.clone(), shared(3, "limits: {tokens: 9k/min}")).await;
    service.grant(AcquireRequest { cost: cost([("tokens", 10)]), ..ask("A") }).await;
    failing.fail(true);
    service.ask(AcquireRequest { cost: cost([("tokens", 10)]), hold: Span::ZERO, ..ask("B") }).await;
    let Answer::Denied(denied) = service.ask(AcquireRequest { cost: cost([("tokens", 8_000)]), ..ask("C") }).await else {
        panic!("its part is 3,000")
    };
    assert_eq!((denied.denial.reason, denied.denial.retry_after), (Reason::StoreUnavailable, Some(secs(1))));
}

#[tokio::test(start_paused = true)]
async fn holds_end_and_one_can_look_while_the_store_is_away() {
    let failing = Failing::new();
    let service = Arc::new(service(failing.clone(), limits("concurrency: 1")).await);
    service.grant(ask("A")).await;
    let waiting = held(&service, "B", secs(5)).await;
    sleep(secs(1)).await;
    failing.fail(true);
    let start = service.coordinator.now();
    service.ask(AcquireRequest { hold: Span::ZERO, ..ask("C") }).await.queued();
    let seen = tokio::time::timeout(secs(1).to_duration(), service.coordinator.scopes()).await.unwrap();
    assert_eq!(seen[0].in_flight, 1);
    waiting.await.unwrap().queued();
    assert!(service.coordinator.now() - start <= secs(4) + Span::from_millis(1));
}

#[tokio::test(start_paused = true)]
async fn thousands_of_records_are_brought_back_in_several_commits() {
    let failing = Failing::new();
    let service = service(failing.clone(), limits("limits: {requests: 600000/min}")).await;
    service.grant(ask("first")).await;
    failing.fail(true);
    let mut leases = Vec::new();
    for n in 0..3_000 {
        leases.push(service.worker(ask(&format!("alone {n}"))).await.0.lease_id);
    }
    failing.fail(false);
    sleep(secs(1)).await;
    let other = crate::service(failing, limits("limits: {requests: 600000/min}")).await;
    for lease in leases.iter().step_by(97) {
        assert_eq!(other.coordinator.report(answered(lease, 200, &[])).await.unwrap().not_applied, None);
    }
}
