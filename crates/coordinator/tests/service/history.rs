//! What became of calls, as sums of the whole fleet: over replicas, restarts and a store that is away for a while.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use paceline_coordinator::api::{AcquireRequest, ReportRequest};
use paceline_coordinator::settings::Settings;
use paceline_core::history::{Hour, Hourly};
use paceline_core::mode::Mode;
use paceline_core::report::Outcome;
use paceline_core::units::FleetTime;
use paceline_store::{
    Addition, Announcement, Commit, Committed, Counters, Day, Loaded, MemoryStore, RecordKey, Replica, ScopeKey, ScopeName,
    Store, StoreError, TokenKeys,
};

use crate::support::{answered, ask, cost, report, settings};
use crate::{Service, secs, service, sleep, store};

fn in_mode(mode: &str) -> Arc<dyn Settings> {
    settings(&format!(
        "mode: {mode}\nproviders: {{acme: {{extends: generic, start_level: full, accounts: {{prod: {{models: {{m: \
         {{limits: {{requests: 60/min}}}}}}}}}}}}}}"
    ))
}

/// A call that the provider answers with a status.
async fn call<S: Store>(service: &Service<S>, name: &str, status: u32) {
    let grant = service.grant(ask(name)).await;
    service.coordinator.report(answered(&grant.lease_id, status, &[])).await.unwrap();
}

/// All hours of the only scope together.
async fn sum<S: Store>(service: &Service<S>) -> Hourly {
    let scopes = service.coordinator.history(Hour(0), |_, _| true).await.unwrap();
    let mut sum = Hourly::default();
    for scope in &scopes {
        assert_eq!((scope.provider.as_str(), scope.account.as_str()), ("acme", "prod"));
        scope.hours.iter().for_each(|(_, hour)| sum.add(hour));
    }
    assert!(scopes.len() <= 1, "{scopes:?}");
    sum
}

/// Seventy calls at once. The sixth is refused although nothing spoke against it: those behind it would have waited for that, so the five
/// of them that are refused as well would not have been sent.
#[tokio::test(start_paused = true)]
async fn all_replicas_add_to_one_sum_that_outlives_them() {
    let store = store();
    let (here, there) = (service(store.clone(), in_mode("shadow")).await, service(store.clone(), in_mode("shadow")).await);
    for n in 0..70 {
        let status = if n == 5 || n >= 65 { 429 } else { 200 };
        call(if n % 2 == 0 { &here } else { &there }, &n.to_string(), status).await;
    }
    there.coordinator.write_history().await.unwrap();
    let sums = sum(&here).await;
    let counts = sums.mode(Mode::Shadow);
    assert_eq!((counts.asks, counts.judged, counts.answers, counts.all_denied()), (70, 70, 70, 0));
    assert_eq!((counts.all_refused(), counts.refused.get(&429), counts.unsaid), (6, Some(&6), 6));
    assert_eq!((counts.waits.count, counts.prevented), (64, 5), "{counts:?}");
    assert_eq!((counts.units["requests"].used, counts.units["requests"].refused), (64, 6));
    drop((here, there));
    let after_a_restart = service(store, in_mode("shadow")).await;
    assert_eq!(sum(&after_a_restart).await, sums);
}

#[tokio::test(start_paused = true)]
async fn calls_are_counted_in_the_mode_they_were_in() {
    let store = store();
    for mode in ["off", "shadow", "enforce"] {
        let service = service(store.clone(), in_mode(mode)).await;
        call(&service, &format!("{mode} well"), 200).await;
        call(&service, &format!("{mode} refused"), 529).await;
        sleep(secs(60)).await;
        let grant = service.grant(AcquireRequest { cost: cost([("requests", 1)]), ..ask(&format!("{mode} lost")) }).await;
        let lost: ReportRequest = report(&grant.lease_id, 1, Outcome::Timeout);
        service.coordinator.report(lost.clone()).await.unwrap();
        service.coordinator.report(lost).await.unwrap();
        let again = AcquireRequest { attempt: 2, previous_lease_id: Some(grant.lease_id), ..ask(&format!("{mode} lost")) };
        service.worker(again).await;
        service.coordinator.write_history().await.unwrap();
        let sums = sum(&service).await;
        let counts = sums.mode(Mode::ALL.into_iter().find(|known| known.name() == mode).unwrap());
        assert_eq!((counts.asks, counts.retries, counts.answers, counts.unanswered), (4, 1, 2, 1), "{mode}: {counts:?}");
        assert_eq!((counts.refused.get(&529), counts.silent), (Some(&1), 2), "{mode}");
    }
}

#[tokio::test(start_paused = true)]
async fn enforced_waits_and_denials_are_those_that_happened() {
    let service = service(store(), in_mode("enforce")).await;
    let start = service.coordinator.now();
    for n in 0..63 {
        service.worker(ask(&n.to_string())).await;
    }
    assert!(service.coordinator.now() >= start);
    let denied = service.ask(AcquireRequest { max_wait: Some(secs(0)), ..ask("in a hurry") }).await;
    assert!(matches!(denied, paceline_coordinator::api::Answer::Denied(_)));
    let sums = sum(&service).await;
    let counts = sums.mode(Mode::Enforce);
    assert_eq!((counts.asks, counts.judged, counts.denied.get("deadline")), (64, 64, Some(&1)), "{counts:?}");
    assert!((2..=3).contains(&counts.waits.count), "{:?}", counts.waits);
}

/// What a store does with additions.
const TAKES: u8 = 0;
const REFUSES: u8 = 1;
const TAKES_AND_SAYS_NOTHING: u8 = 2;

/// A store whose tallies fail.
#[derive(Clone)]
struct Moody(Arc<MemoryStore>, Arc<AtomicU8>);

impl Store for Moody {
    async fn load(&self, scope: &ScopeKey) -> Result<Loaded, StoreError> {
        self.0.load(scope).await
    }

    async fn records(&self, scope: &ScopeKey, keys: &[RecordKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.0.records(scope, keys).await
    }

    async fn commit(&self, scope: &ScopeKey, commit: Commit) -> Result<Committed, StoreError> {
        self.0.commit(scope, commit).await
    }

    fn now(&self) -> FleetTime {
        self.0.now()
    }

    async fn token_keys(&self) -> Result<TokenKeys, StoreError> {
        self.0.token_keys().await
    }

    async fn heartbeat(&self, me: &Announcement) -> Result<Vec<Replica>, StoreError> {
        self.0.heartbeat(me).await
    }

    async fn retire(&self, id: u32) -> Result<(), StoreError> {
        self.0.retire(id).await
    }

    async fn add_tally(&self, scope: &ScopeKey, addition: Addition) -> Result<(), StoreError> {
        let silent = || Err(StoreError::Timeout { detail: "no answer".to_owned() });
        match self.1.load(Ordering::SeqCst) {
            TAKES => self.0.add_tally(scope, addition).await,
            REFUSES => silent(),
            _ => self.0.add_tally(scope, addition).await.and_then(|()| silent()),
        }
    }

    async fn tallies(&self, scope: &ScopeKey, hours: RangeInclusive<Hour>) -> Result<Vec<(Hour, Counters)>, StoreError> {
        self.0.tallies(scope, hours).await
    }

    async fn name_scopes(&self, day: Day, names: Vec<ScopeName>) -> Result<(), StoreError> {
        self.0.name_scopes(day, names).await
    }

    async fn named_scopes(&self, days: RangeInclusive<Day>) -> Result<BTreeSet<ScopeName>, StoreError> {
        self.0.named_scopes(days).await
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_or_counted_twice_while_the_store_does_not_answer() {
    let mood = Arc::new(AtomicU8::new(TAKES));
    let service = service(Moody(store(), mood.clone()), in_mode("shadow")).await;
    let mut calls = 0;
    for round in [TAKES, REFUSES, TAKES_AND_SAYS_NOTHING, REFUSES, TAKES_AND_SAYS_NOTHING, TAKES] {
        mood.store(round, Ordering::SeqCst);
        for _ in 0..3 {
            calls += 1;
            call(&service, &calls.to_string(), 200).await;
        }
        let written = service.coordinator.write_history().await;
        assert_eq!(written.is_ok(), round == TAKES, "{written:?}");
        sleep(secs(1_500)).await;
    }
    service.coordinator.write_history().await.unwrap();
    let sums = sum(&service).await;
    assert_eq!((sums.mode(Mode::Shadow).asks, sums.mode(Mode::Shadow).answers, sums.lost), (18, 18, 0));
    let hours = service.coordinator.history(Hour(0), |_, _| true).await.unwrap().remove(0).hours;
    assert_eq!(hours.len(), 3, "two hours and a half: {hours:?}");
}
