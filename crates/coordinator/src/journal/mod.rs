//! What happened: changes that somebody may ask about tomorrow, kept in the store by the hour.
//!
//! Each replica notes what it did or saw, and writes it every two seconds or so behind what is there of that hour, by the same
//! compare-and-swap that keeps limits. An event that was written and not heard of is not written twice: it has a number.

mod page;
mod words;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use paceline_core::history::Hour;
use paceline_core::units::{FleetTime, Span};
use paceline_store::codec::Header;
use paceline_store::{Commit, Committed, Loaded, ScopeKey, Store, StoreError};

use self::page::Page;
pub use self::page::{Happened, Kind};
pub(crate) use self::words::of_scope;
use crate::api::CallError;
use crate::front::Coordinator;

/// For so long events are kept.
pub const KEPT: Span = Span::from_secs(7 * 86_400);
/// What is not written yet is bounded: the oldest go, and how many is told.
const MOST_PENDING: usize = 500;
/// Replicas that write at the same moment find each other's events, and write behind them.
const TRIES: usize = 8;
/// So many hours are read at a time.
const READ_AT_ONCE: usize = 24;

/// What this replica has noted and not written.
#[derive(Debug, Default)]
pub(crate) struct Journal(Mutex<Pending>);

#[derive(Debug, Default)]
struct Pending {
    events: VecDeque<Happened>,
    /// Given up because the store was away for too long.
    dropped: u64,
    number: u64,
}

/// What happened, and what is not known of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Events {
    /// In their order.
    pub events: Vec<Happened>,
    /// So many more happened and were not kept.
    pub dropped: u64,
    /// Why only what this replica has not written yet is told: the store is away.
    pub store_away: Option<String>,
}

impl Journal {
    /// Keeps an event until it is written.
    pub(crate) fn note(&self, replica: u32, happened: Happened) {
        let mut pending = self.pending();
        pending.number += 1;
        let number = pending.number;
        pending.events.push_back(Happened { replica, number, ..happened });
        if pending.events.len() > MOST_PENDING {
            pending.events.pop_front();
            pending.dropped += 1;
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be written, by hour; nothing is taken out.
    fn by_hour(&self) -> (BTreeMap<Hour, Vec<Happened>>, u64) {
        let pending = self.pending();
        let mut hours: BTreeMap<Hour, Vec<Happened>> = BTreeMap::new();
        for event in &pending.events {
            hours.entry(Hour::of(event.at)).or_default().push(event.clone());
        }
        (hours, pending.dropped)
    }

    fn written(&self, events: &[Happened], dropped: u64) {
        let mut pending = self.pending();
        pending.events.retain(|event| !events.iter().any(|written| written.number == event.number));
        pending.dropped = pending.dropped.saturating_sub(dropped);
    }
}

impl<S: Store> Coordinator<S> {
    /// Notes something that happened here, to be written by [`Coordinator::write_journal`].
    pub fn note(&self, happened: Happened) {
        self.inner().note(happened);
    }

    /// Writes what was noted; call it every two seconds or so, and at the end. What cannot be written is kept for the next time.
    ///
    /// # Errors
    /// The store does not take it.
    pub async fn write_journal(&self) -> Result<(), CallError> {
        let (hours, dropped) = self.inner().journal().by_hour();
        let mut to_tell = dropped;
        for (hour, events) in hours {
            self.append(hour, &events, to_tell).await.map_err(|error| CallError::Unavailable(error.to_string()))?;
            self.inner().journal().written(&events, std::mem::take(&mut to_tell));
        }
        Ok(())
    }

    /// What happened in the last `since`, at most [`KEPT`]. What other replicas have noted in the last two seconds may be missing.
    pub async fn events(&self, since: Span) -> Events {
        let now = self.now();
        let begins = now - since.at_least_zero().min(KEPT);
        let away = self.write_journal().await.err().map(|error| error.to_string());
        let mut all = match away {
            Some(why) => Events { store_away: Some(why), ..Events::default() },
            None => self.stored_events(Hour::of(begins), Hour::of(now)).await,
        };
        if all.store_away.is_some() {
            let pending = self.inner().journal().pending();
            all.events.extend(pending.events.iter().cloned());
            all.dropped += pending.dropped;
        }
        all.events.retain(|event| event.at >= begins);
        all.events.sort_by_key(|event| (event.at, event.replica, event.number));
        all
    }

    async fn stored_events(&self, first: Hour, last: Hour) -> Events {
        let mut all = Events::default();
        let hours: Vec<Hour> = (first.0..=last.0).map(Hour).collect();
        for some in hours.chunks(READ_AT_ONCE) {
            let reads = some.iter().map(|hour| self.read_page(*hour));
            for page in futures_util::future::join_all(reads).await {
                match page {
                    Ok(page) => {
                        all.events.extend(page.events);
                        all.dropped += page.dropped;
                    }
                    Err(error) => all.store_away = Some(error.to_string()),
                }
            }
        }
        all
    }

    async fn read_page(&self, hour: Hour) -> Result<Page, StoreError> {
        let loaded = self.inner().store.load(&key_of(hour)).await?;
        Ok(page_of(&loaded))
    }

    /// Writes events behind those of their hour.
    async fn append(&self, hour: Hour, events: &[Happened], dropped: u64) -> Result<(), StoreError> {
        let inner = self.inner();
        let key = key_of(hour);
        let mut loaded = inner.store.load(&key).await?;
        for _ in 0..TRIES {
            let mut page = page_of(&loaded);
            if !page.add(events, dropped) {
                return Ok(());
            }
            let version = loaded.version.next(inner.store.now());
            let header = Header::new(0, version, u64::from(inner.replica));
            let mut value = header.to_bytes().to_vec();
            page.encode(&mut value);
            let commit = Commit {
                expected: loaded.version,
                value: Bytes::from(value),
                keep_until: hour.ends() + KEPT,
                records: Vec::new(),
            };
            match inner.store.commit(&key, commit).await? {
                Committed::Done(_) | Committed::RecordExists { .. } => return Ok(()),
                Committed::Stale(newer) => loaded = newer,
            }
        }
        // The others write; ours are next.
        Err(StoreError::Unavailable { detail: "too many replicas write what happened at once".to_owned() })
    }
}

/// The register of an hour.
fn key_of(hour: Hour) -> ScopeKey {
    ScopeKey::of_fleet(&[b"events", &hour.0.to_be_bytes()])
}

/// One that cannot be read is begun anew: what is in it is for people, and no limit depends on it.
fn page_of(loaded: &Loaded) -> Page {
    let body = loaded.value.as_ref().and_then(|value| value.get(paceline_store::codec::HEADER_BYTES..));
    body.and_then(Page::decode).unwrap_or_default()
}

impl Happened {
    /// Something that happened now, to the fleet as a whole.
    pub fn new(at: FleetTime, kind: Kind) -> Self {
        Self { at, kind, ..Self::default() }
    }
}
