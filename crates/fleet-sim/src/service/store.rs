//! The store of a simulated service: one versioned value in the real codec's bytes, and the records of calls.

use std::collections::HashMap;

use bytes::Bytes;
use paceline_coordinator::CallKey;
use paceline_coordinator::scope::RecordChange;
use paceline_core::units::FleetTime;
use paceline_core::value::ScopeValue;
use paceline_store::Version;
use paceline_store::codec::{self, Header};

/// From this many records on, those whose time is over are thrown away now and then.
const MANY_RECORDS: usize = 50_000;

/// What the store holds.
#[derive(Debug, Default)]
pub(super) struct SimStore {
    version: u64,
    value: Option<Bytes>,
    records: HashMap<CallKey, (FleetTime, Vec<u8>)>,
    sweep_at: usize,
    /// Until then nobody gets an answer.
    pub(super) away_until: FleetTime,
}

/// What the store answered.
#[derive(Debug)]
pub(super) enum Stored {
    /// The value and its version, where asked for, and the records that exist.
    Read(Option<(u64, Option<Bytes>)>, Vec<(CallKey, Vec<u8>)>),
    /// Committed as this version.
    Done(u64),
    /// Another replica was faster.
    Stale(u64, Option<Bytes>),
    /// A record that must be new exists.
    Exists(CallKey),
    /// No answer.
    Lost,
}

impl SimStore {
    /// Reads the value, if asked for, and records.
    pub(super) fn read(&self, wants_value: bool, keys: &[CallKey], now: FleetTime) -> Stored {
        let found = keys.iter().filter_map(|key| {
            let (until, bytes) = self.records.get(key)?;
            (*until > now).then(|| (*key, bytes.clone()))
        });
        Stored::Read(wants_value.then(|| (self.version, self.value.clone())), found.collect())
    }

    /// Swaps the value when the version is still the one that was read, and writes the records with it.
    pub(super) fn commit(&mut self, read: u64, value: &ScopeValue, records: &[RecordChange], now: FleetTime) -> Stored {
        if read != self.version {
            return Stored::Stale(self.version, self.value.clone());
        }
        let taken = records
            .iter()
            .find(|change| change.must_be_new && self.records.get(&change.key).is_some_and(|(until, _)| *until > now));
        if let Some(change) = taken {
            return Stored::Exists(change.key);
        }
        self.version += 1;
        self.value = Some(codec::encode(&Header::new(0, Version(self.version), 0), value));
        for change in records {
            self.records.insert(change.key, (change.record.keep_until(), change.record.encode()));
        }
        if self.records.len() > self.sweep_at.max(MANY_RECORDS) {
            self.records.retain(|_, (until, _)| *until > now);
            self.sweep_at = self.records.len() * 2;
        }
        Stored::Done(self.version)
    }
}
