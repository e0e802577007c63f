//! What became of calls, as sums by hour: counted from events in passing, and written to the store by whoever keeps house.
//!
//! No call waits for any of this. A scope's actor adds to its page in memory; [`Coordinator::write_history`] takes what was added and
//! hands it to the store as numbered additions, which count once however often they are sent. While the store is away pages grow by the
//! hour, not by the call, and the oldest go first when there are too many: what went is counted as lost.

mod count;
mod pages;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use paceline_core::history::{Hour, Hourly};
use paceline_core::units::FleetTime;
use paceline_store::{Counters, Day, ScopeKey, ScopeName, Store};

use self::count::count;
use self::pages::Pages;
use crate::api::{CallError, Target};
use crate::front::Coordinator;
use crate::scope::{Event, Reply, ScopeView};

/// Of so many scopes pages are kept at most; calls of further ones are not counted until some were written.
const MOST_LEDGERS: usize = 10_000;
/// After so many failures in a round the store is away.
const MOST_FAILURES: usize = 3;

/// What one replica has counted of a scope and not written yet.
#[derive(Debug)]
pub(crate) struct Ledger {
    name: ScopeName,
    // Held to add a few numbers, never across an await.
    pages: Mutex<Pages>,
}

impl Ledger {
    fn new(target: &Target) -> Self {
        let name = ScopeName { provider: target.provider.clone(), account: target.account.clone() };
        Self { name, pages: Mutex::default() }
    }

    /// Counts what a step brought about at `now`.
    pub(crate) fn note(&self, event: &Event, now: FleetTime) {
        self.with(|pages| count(pages.page(Hour::of(now)), event));
    }

    fn with<T>(&self, then: impl FnOnce(&mut Pages) -> T) -> T {
        then(&mut self.pages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The ledgers of this replica.
#[derive(Debug, Default)]
pub(crate) struct Ledgers(Mutex<HashMap<ScopeKey, Arc<Ledger>>>);

impl Ledgers {
    /// The ledger of a scope; `None`: there are too many.
    pub(crate) fn of(&self, key: ScopeKey, target: &Target) -> Option<Arc<Ledger>> {
        let mut ledgers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = ledgers.get(&key) {
            return Some(known.clone());
        }
        (ledgers.len() < MOST_LEDGERS).then(|| ledgers.entry(key).or_insert_with(|| Arc::new(Ledger::new(target))).clone())
    }

    fn all(&self) -> Vec<(ScopeKey, Arc<Ledger>)> {
        let ledgers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ledgers.iter().map(|(key, ledger)| (*key, ledger.clone())).collect()
    }

    /// Forgets those that nobody adds to and that are written.
    fn tidy(&self) {
        let mut ledgers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ledgers.retain(|_, ledger| Arc::strong_count(ledger) > 1 || !ledger.with(|pages| pages.is_written()));
    }
}

/// What became of the calls of a scope.
#[derive(Clone, Debug, PartialEq)]
pub struct ScopeHistory {
    /// The provider.
    pub provider: String,
    /// The account.
    pub account: String,
    /// By hour, those without calls left out.
    pub hours: Vec<(Hour, Hourly)>,
}

impl<S: Store> Coordinator<S> {
    /// Writes what was counted since the last time; call it every ten seconds or so, and at the end. What cannot be written is kept
    /// for the next time.
    ///
    /// # Errors
    /// The store does not take it.
    pub async fn write_history(&self) -> Result<(), CallError> {
        let inner = self.inner();
        let ledgers = inner.ledgers().all();
        let mut problem = self.name_scopes(&ledgers).await.err();
        let mut failures = 0;
        for (key, ledger) in &ledgers {
            if let Err(error) = self.write_ledger(key, ledger).await {
                problem = Some(error);
                failures += 1;
                if failures >= MOST_FAILURES {
                    break;
                }
            }
        }
        drop(ledgers);
        inner.ledgers().tidy();
        problem.map_or(Ok(()), Err)
    }

    /// Writes the pages of a scope: what was sent before and not heard of, and then what was counted since.
    async fn write_ledger(&self, key: &ScopeKey, ledger: &Ledger) -> Result<(), CallError> {
        let inner = self.inner();
        let mut is_again = ledger.with(|pages| pages.has_unheard());
        loop {
            for addition in ledger.with(|pages| pages.take(inner.replica)) {
                let (hour, number) = (addition.hour, addition.number);
                let added = inner.store.add_tally(key, addition).await;
                added.map_err(|error| CallError::Unavailable(error.to_string()))?;
                ledger.with(|pages| pages.written(hour, number));
            }
            if !std::mem::take(&mut is_again) {
                return Ok(());
            }
        }
    }

    /// Says which scopes something is written of, each time: a store that began again empty has forgotten it.
    async fn name_scopes(&self, ledgers: &[(ScopeKey, Arc<Ledger>)]) -> Result<(), CallError> {
        let mut days: BTreeMap<Day, Vec<ScopeName>> = BTreeMap::new();
        for (_, ledger) in ledgers {
            for day in ledger.with(|pages| pages.days()) {
                days.entry(day).or_default().push(ledger.name.clone());
            }
        }
        for (day, names) in days {
            let named = self.inner().store.name_scopes(day, names).await;
            named.map_err(|error| CallError::Unavailable(error.to_string()))?;
        }
        Ok(())
    }

    /// What became of the calls of all scopes that `selects` takes, since an hour; sorted by name. What other replicas have counted
    /// in the last seconds is missing.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn history(&self, since: Hour, selects: impl Fn(&str, &str) -> bool) -> Result<Vec<ScopeHistory>, CallError> {
        self.write_history().await?;
        let store = &self.inner().store;
        let until = Hour::of(self.now());
        let away = |error: paceline_store::StoreError| CallError::Unavailable(error.to_string());
        let names = store.named_scopes(Day::of(since)..=Day::of(until)).await.map_err(away)?;
        let mut scopes = Vec::new();
        for ScopeName { provider, account } in names.into_iter().filter(|name| selects(&name.provider, &name.account)) {
            let hours = store.tallies(&ScopeKey::new(&provider, &account), since..=until).await.map_err(away)?;
            if !hours.is_empty() {
                let hours = hours.iter().map(|(hour, counters)| (*hour, hourly(counters))).collect();
                scopes.push(ScopeHistory { provider, account, hours });
            }
        }
        Ok(scopes)
    }

    /// A scope as the store has it, whether anybody has used it here lately or not.
    ///
    /// # Errors
    /// Unknown names.
    pub async fn stored_scope(&self, provider: &str, account: &str) -> Result<Option<ScopeView>, CallError> {
        let asked = Target { provider: provider.to_owned(), account: account.to_owned(), model: String::new() };
        let target = self.settings().canonical(&asked)?;
        Ok(match self.call(&target, crate::scope::Input::Inspect).await? {
            Reply::View(view) => Some(*view),
            _ => None,
        })
    }
}

fn hourly(counters: &Counters) -> Hourly {
    let mut hour = Hourly::default();
    counters.iter().for_each(|(name, count)| hour.add_counter(name, *count));
    hour
}
