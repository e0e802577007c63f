//! The memory store: the suite every store runs, and what is its own: lives in detail, sweeping, its limit, its keys.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use paceline_core::units::{FleetTime, Span};

use super::MemoryStore;
use crate::codec::Header;
use crate::conformance::{self, Harness};
use crate::error::StoreError;
use crate::key::{RecordKey, ScopeKey};
use crate::life::LONGEST_LIFE;
use crate::register::{Commit, Committed, Expect, RecordWrite, Store, Version};
use crate::token::{MOST_OLDER_KEYS, ROTATE_AFTER};

/// A store with a clock that the test moves.
struct Moved {
    store: Arc<MemoryStore>,
    micros: Arc<AtomicI64>,
}

impl Moved {
    fn new() -> Self {
        Self::with(|store| store)
    }

    fn with(change: impl Fn(MemoryStore) -> MemoryStore) -> Self {
        let micros = Arc::new(AtomicI64::new(1_800_000_000_000_000));
        let read = micros.clone();
        let clock = Arc::new(move || FleetTime::from_micros(read.load(Ordering::SeqCst)));
        Self { store: Arc::new(change(MemoryStore::with_clock(clock))), micros }
    }

    fn advance(&self, span: Span) -> FleetTime {
        self.micros.fetch_add(span.as_micros(), Ordering::SeqCst);
        self.store.now()
    }

    /// Writes over whatever is there, with so many records; all of it is kept for `life`.
    async fn write(&self, account: &str, records: std::ops::Range<u32>, life: Span) -> Result<Committed, StoreError> {
        let scope = ScopeKey::new("test", account);
        let now = self.store.now();
        let expected = self.store.load(&scope).await.unwrap().version;
        let header = Header::new(0, expected.next(now), 0);
        let keep_until = now + life;
        let records = records.map(|number| RecordWrite {
            key: RecordKey::of([&number.to_be_bytes()[..]]),
            value: Bytes::from_static(b"a record"),
            keep_until,
            must_be: Expect::Anything,
        });
        let commit = Commit { expected, value: header.to_bytes().to_vec().into(), keep_until, records: records.collect() };
        self.store.commit(&scope, commit).await
    }
}

impl Harness for Moved {
    type Store = MemoryStore;

    fn store(&self) -> Arc<MemoryStore> {
        self.store.clone()
    }

    async fn pass(&self, span: Span) {
        self.advance(span);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn it_does_what_every_store_must() {
    conformance::run(&Moved::new()).await;
}

#[tokio::test]
async fn lives_end_to_the_microsecond() {
    let moved = Moved::new();
    let scope = ScopeKey::new("test", "a");
    moved.write("a", 0..1, Span::from_secs(90)).await.unwrap();
    for (pass, expected) in [(Span::from_secs(90) - Span::from_micros(1), true), (Span::from_micros(1), false)] {
        moved.advance(pass);
        assert_eq!(moved.store.load(&scope).await.unwrap().value.is_some(), expected);
        let key = RecordKey::of([&0_u32.to_be_bytes()[..]]);
        assert_eq!(moved.store.records(&scope, &[key]).await.unwrap()[0].is_some(), expected);
    }
}

#[tokio::test]
async fn nothing_outlives_forty_days() {
    let moved = Moved::new();
    moved.write("a", 0..1, Span::MAX).await.unwrap();
    moved.advance(LONGEST_LIFE - Span::from_micros(1));
    assert!(moved.store.load(&ScopeKey::new("test", "a")).await.unwrap().value.is_some());
    moved.advance(Span::from_micros(1));
    assert_eq!(moved.store.load(&ScopeKey::new("test", "a")).await.unwrap().version, Version::NONE);
    let later = moved.advance(Span::from_secs(120));
    assert_eq!(moved.store.sweep(later), 2);
    assert_eq!(moved.store.used_bytes(), 0);
}

#[tokio::test]
async fn sweeping_takes_what_is_over_and_nothing_else() {
    let moved = Moved::new();
    for account in 0..100 {
        let life = Span::from_secs(if account % 2 == 0 { 60 } else { 6_000 });
        moved.write(&account.to_string(), 0..10, life).await.unwrap();
    }
    let full = moved.store.used_bytes();
    let now = moved.store.now();
    assert_eq!((moved.store.sweep(now), moved.store.used_bytes()), (0, full));
    let now = moved.advance(Span::from_secs(400));
    assert_eq!(moved.store.sweep(now), 50 * 11);
    assert_eq!(moved.store.used_bytes(), full / 2);
    assert_eq!(moved.store.sweep(now), 0, "only once");
    let now = moved.advance(Span::from_secs(6_000));
    assert_eq!(moved.store.sweep(now), 50 * 11);
    assert_eq!(moved.store.used_bytes(), 0);
}

#[tokio::test]
async fn commits_keep_memory_flat_without_a_sweeper() {
    // A busy scope: every second it writes 20 records that count for two minutes, and renews 5 of them.
    let moved = Moved::new();
    let mut most_bytes = 0;
    for second in 0..3_600_u32 {
        let first = second * 15;
        moved.write("busy", first..first + 20, Span::from_secs(120)).await.unwrap();
        let used = moved.store.used_bytes();
        match second {
            0..600 => most_bytes = most_bytes.max(used),
            _ => assert!(used <= most_bytes, "{used} bytes after {second} s, {most_bytes} after ten minutes"),
        }
        moved.advance(Span::from_secs(1));
    }
}

#[tokio::test]
async fn accounts_that_nobody_uses_any_more_go_away_in_passing() {
    let moved = Moved::new();
    for account in 0..500 {
        moved.write(&account.to_string(), 0..1, Span::from_secs(1)).await.unwrap();
    }
    let full = moved.store.used_bytes();
    moved.advance(Span::from_secs(300));
    // Other accounts, on all shards, take turns.
    for account in 1_000..1_200 {
        moved.write(&account.to_string(), 0..0, Span::from_secs(60)).await.unwrap();
    }
    assert!(moved.store.used_bytes() < full / 2, "{} of {full} bytes", moved.store.used_bytes());
}

#[tokio::test]
async fn a_full_store_refuses_and_recovers() {
    let moved = Moved::with(|store| store.with_limit_bytes(20_000));
    let mut written = 0;
    let error = loop {
        match moved.write(&format!("account {written}"), 0..5, Span::from_secs(60)).await {
            Ok(Committed::Done(_)) => written += 1,
            other => break other.unwrap_err(),
        }
    };
    assert_eq!(error, StoreError::Full { limit_bytes: 20_000 });
    assert!(error.is_retryable() && !error.may_have_been_written());
    assert!(written > 10 && moved.store.used_bytes() <= 20_000, "{written} accounts");
    for account in 0..written {
        let scope = ScopeKey::new("test", &format!("account {account}"));
        assert!(moved.store.load(&scope).await.unwrap().value.is_some(), "nothing was thrown out to make room");
    }
    moved.advance(Span::from_secs(240));
    moved.write("one more", 0..5, Span::from_secs(60)).await.unwrap();
}

#[tokio::test]
async fn keys_rotate_daily_and_two_older_ones_are_accepted() {
    let moved = Moved::new();
    let first = moved.store.token_keys().await.unwrap();
    moved.advance(ROTATE_AFTER - Span::from_micros(1));
    assert_eq!(moved.store.token_keys().await.unwrap(), first);
    moved.advance(Span::from_micros(1));
    let second = moved.store.token_keys().await.unwrap();
    assert_ne!(second.current, first.current);
    assert_eq!(second.older, std::slice::from_ref(&first.current));
    for _ in 0..2 {
        moved.advance(ROTATE_AFTER);
        moved.store.token_keys().await.unwrap();
    }
    let last = moved.store.token_keys().await.unwrap();
    assert_eq!(last.older.len(), MOST_OLDER_KEYS);
    assert_eq!(last.find(first.current.id), None);
    let other = MemoryStore::new().token_keys().await.unwrap();
    assert_eq!(last.find(other.current.id), None, "each process has keys of its own");
}

#[test]
fn fleet_time_starts_at_the_systems() {
    let store = MemoryStore::default();
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let apart = (store.now() - (FleetTime::ZERO + Span::from(wall))).as_micros().abs();
    assert!(apart < 60_000_000, "{apart} us apart");
}
