//! Many users at once: the step is atomic, or a provider's limit is not kept.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;

use super::{Harness, body_of, commit, fresh_scope, load, must_commit, read_records, record, record_key};
use crate::key::ScopeKey;
use crate::register::{Committed, Expect, Loaded, Store, Version};

/// Users of one race.
const RACERS: usize = 64;

/// A bucket of one, as a body.
const FREE: &[u8] = b"1";
const TAKEN: &[u8] = b"0";

/// AT03: capacity 1, everybody asks at once, exactly one is granted.
pub(super) async fn one_of_many_wins<H: Harness>(harness: &H) {
    for round in 0..harness.rounds() {
        let (store, scope) = (harness.store(), fresh_scope());
        must_commit(&*store, &scope, commit(&*store, Version::NONE, FREE, Vec::new())).await;
        let wins = race(harness, scope, |store, scope, _| async move { take_the_only_one(&*store, &scope).await }).await;
        assert_eq!(wins.into_iter().filter(|won| *won).count(), 1, "round {round}");
    }
}

/// One idempotency key, asked for by many at once on many replicas: one lease, which all others are told of.
pub(super) async fn one_record_of_many_is_written<H: Harness>(harness: &H) {
    for round in 0..harness.rounds().div_ceil(10) {
        let told = race(harness, fresh_scope(), |store, scope, racer| async move {
            let lease = racer.to_string();
            loop {
                let version = load(&*store, &scope).await.version;
                let write = record(&*store, "key", &lease, Expect::Absent);
                match store.commit(&scope, commit(&*store, version, b"value", vec![write])).await {
                    Ok(Committed::Done(_)) => return (true, Bytes::from(lease)),
                    Ok(Committed::RecordExists { found }) => {
                        assert_eq!(found.len(), 1);
                        let (key, value) = found.into_iter().next().expect("one is found");
                        assert_eq!(key, record_key("key"));
                        return (false, value);
                    }
                    other => assert!(matches!(other, Ok(Committed::Stale(_))), "{other:?}"),
                }
            }
        })
        .await;
        let winners: Vec<&Bytes> = told.iter().filter(|(won, _)| *won).map(|(_, lease)| lease).collect();
        assert_eq!(winners.len(), 1, "round {round}");
        assert!(told.iter().all(|(_, lease)| winners.contains(&lease)), "round {round}: all are told the winner's lease");
    }
}

/// Everybody counts up; every count is there in the end, and was one user's alone.
pub(super) async fn no_update_is_lost<H: Harness>(harness: &H) {
    let (scope, times) = (fresh_scope(), harness.rounds().div_ceil(100));
    let counted = race(harness, scope, |store, scope, _| async move {
        let mut counted = Vec::new();
        for _ in 0..times {
            counted.push(count_up(&*store, &scope).await);
        }
        counted
    })
    .await;
    let mut counted: Vec<usize> = counted.into_iter().flatten().collect();
    counted.sort_unstable();
    assert_eq!(counted, (1..=RACERS * times).collect::<Vec<_>>());
    assert_eq!(count_of(&load(&*harness.store(), &scope).await), RACERS * times);
}

/// A reader never meets a value without the records that were written with it.
pub(super) async fn value_and_records_change_together<H: Harness>(harness: &H) {
    let (scope, times) = (fresh_scope(), harness.rounds().div_ceil(100));
    race(harness, scope, |store, scope, racer| async move {
        for _ in 0..times {
            if racer % 2 == 0 {
                count_up(&*store, &scope).await;
                continue;
            }
            let count = count_of(&load(&*store, &scope).await);
            let names: Vec<String> = (1..=count).map(counter_name).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let found = read_records(&*store, &scope, &names).await;
            assert!(found.iter().all(Option::is_some), "a value of {count} without its records");
        }
    })
    .await;
}

/// Runs the same at once for all racers, each with its own connection, and gathers what they return.
async fn race<H, F, T>(harness: &H, scope: ScopeKey, run: impl Fn(Arc<H::Store>, ScopeKey, usize) -> F) -> Vec<T>
where
    H: Harness,
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let racers: Vec<_> = (0..RACERS).map(|racer| tokio::spawn(run(harness.store(), scope, racer))).collect();
    let mut results = Vec::with_capacity(RACERS);
    for racer in racers {
        results.push(racer.await.expect("a racer failed"));
    }
    results
}

async fn take_the_only_one<S: Store>(store: &S, scope: &ScopeKey) -> bool {
    let mut current = load(store, scope).await;
    while body_of(&current).as_deref() == Some(FREE) {
        match store.commit(scope, commit(store, current.version, TAKEN, Vec::new())).await {
            Ok(Committed::Done(_)) => return true,
            Ok(Committed::Stale(newer)) => current = newer,
            other => assert!(other.is_err(), "no record is in the way: {other:?}"),
        }
    }
    false
}

/// Adds one to the number in the body, with a record for each number; returns the new one.
async fn count_up<S: Store>(store: &S, scope: &ScopeKey) -> usize {
    let mut current = load(store, scope).await;
    loop {
        let next = count_of(&current) + 1;
        let write = record(store, &counter_name(next), "counted", Expect::Absent);
        match store.commit(scope, commit(store, current.version, next.to_string().as_bytes(), vec![write])).await {
            Ok(Committed::Done(_)) => return next,
            Ok(Committed::Stale(newer)) => current = newer,
            other => assert!(other.is_err(), "a record is ahead of its value: {other:?}"),
        }
    }
}

fn count_of(loaded: &Loaded) -> usize {
    let text = body_of(loaded).and_then(|body| String::from_utf8(body.to_vec()).ok());
    text.map_or(0, |text| text.parse().expect("a number"))
}

fn counter_name(count: usize) -> String {
    format!("count {count}")
}
