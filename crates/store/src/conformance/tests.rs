//! The suite itself: a store with a fault does not pass.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use paceline_core::history::Hour;
use paceline_core::units::{FleetTime, Span};

use super::{Harness, expiry, racing, swapping, tallies};
use crate::error::StoreError;
use crate::key::{RecordKey, ScopeKey};
use crate::memory::MemoryStore;
use crate::register::{Commit, Committed, Expect, Loaded, Store};
use crate::replica::{Announcement, Replica};
use crate::tally::{Addition, Counters};
use crate::token::TokenKeys;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// Checks and writes in two steps.
    TwoSteps,
    /// Writes over records that must be absent.
    Overwrites,
    /// Keeps values for as long as it may.
    Forgetless,
    /// Does not know an addition again.
    AddsTwice,
    /// Keeps no tallies.
    CountsNothing,
}

struct Faulty {
    inside: MemoryStore,
    fault: Fault,
}

impl Store for Faulty {
    async fn load(&self, scope: &ScopeKey) -> Result<Loaded, StoreError> {
        self.inside.load(scope).await
    }

    async fn records(&self, scope: &ScopeKey, keys: &[RecordKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.inside.records(scope, keys).await
    }

    async fn commit(&self, scope: &ScopeKey, mut commit: Commit) -> Result<Committed, StoreError> {
        match self.fault {
            Fault::TwoSteps => {
                let current = self.inside.load(scope).await?;
                if current.version != commit.expected {
                    return Ok(Committed::Stale(current));
                }
                tokio::task::yield_now().await;
                // What happened meanwhile is overwritten.
                commit.expected = self.inside.load(scope).await?.version;
                commit.value = super::sealed(commit.expected.next(self.now()), commit.value.split_off(32).as_ref());
            }
            Fault::Overwrites => commit.records.iter_mut().for_each(|record| record.must_be = Expect::Anything),
            Fault::Forgetless => commit.keep_until = FleetTime::MAX,
            Fault::AddsTwice | Fault::CountsNothing => {}
        }
        self.inside.commit(scope, commit).await
    }

    async fn add_tally(&self, scope: &ScopeKey, addition: Addition) -> Result<(), StoreError> {
        match self.fault {
            Fault::CountsNothing => Ok(()),
            _ => self.inside.add_tally(scope, Addition { writer: rand::random(), ..addition }).await,
        }
    }

    async fn tallies(&self, scope: &ScopeKey, hours: RangeInclusive<Hour>) -> Result<Vec<(Hour, Counters)>, StoreError> {
        self.inside.tallies(scope, hours).await
    }

    fn now(&self) -> FleetTime {
        self.inside.now()
    }

    async fn token_keys(&self) -> Result<TokenKeys, StoreError> {
        self.inside.token_keys().await
    }

    async fn heartbeat(&self, me: &Announcement) -> Result<Vec<Replica>, StoreError> {
        self.inside.heartbeat(me).await
    }

    async fn retire(&self, id: u32) -> Result<(), StoreError> {
        self.inside.retire(id).await
    }
}

struct Bench {
    store: Arc<Faulty>,
    micros: Arc<AtomicI64>,
}

impl Bench {
    fn with(fault: Fault) -> Self {
        let micros = Arc::new(AtomicI64::new(1_800_000_000_000_000));
        let read = micros.clone();
        let clock = Arc::new(move || FleetTime::from_micros(read.load(Ordering::SeqCst)));
        Self { store: Arc::new(Faulty { inside: MemoryStore::with_clock(clock), fault }), micros }
    }
}

impl Harness for Bench {
    type Store = Faulty;

    fn store(&self) -> Arc<Faulty> {
        self.store.clone()
    }

    async fn pass(&self, span: Span) {
        self.micros.fetch_add(span.as_micros(), Ordering::SeqCst);
    }
}

#[tokio::test]
#[should_panic(expected = "round 0")]
async fn two_steps_are_caught_by_racing() {
    racing::one_of_many_wins(&Bench::with(Fault::TwoSteps)).await;
}

#[tokio::test]
#[should_panic(expected = "RecordExists")]
async fn overwriting_is_caught() {
    swapping::a_present_record_stops_the_whole_commit(&Bench::with(Fault::Overwrites)).await;
}

#[tokio::test]
#[should_panic(expected = "3 s later")]
async fn living_too_long_is_caught() {
    expiry::values_and_records_live_as_long_as_told(&Bench::with(Fault::Forgetless)).await;
}

#[tokio::test]
#[should_panic(expected = "left: Some({\"a\": 7})")]
async fn adding_twice_is_caught() {
    tallies::an_addition_counts_once(&Bench::with(Fault::AddsTwice)).await;
}

#[tokio::test]
#[should_panic(expected = "left: None")]
async fn counting_nothing_is_caught() {
    tallies::additions_of_all_are_summed(&Bench::with(Fault::CountsNothing)).await;
}
