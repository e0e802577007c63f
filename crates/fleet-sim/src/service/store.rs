//! The store of a simulated service: one versioned value and the records of calls, in the real codec's bytes. A single replica at a
//! store that never fails reads none of that again, so there it is kept as it is: encoding would take a tenth of the time.

use std::collections::HashMap;

use bytes::Bytes;
use paceline_coordinator::scope::RecordChange;
use paceline_coordinator::{CallKey, Kept, Record};
use paceline_core::units::FleetTime;
use paceline_core::value::ScopeValue;
use paceline_store::Version;
use paceline_store::codec::{self, Header};

/// From this many records on, those whose time is over are thrown away now and then.
const MANY_RECORDS: usize = 50_000;

/// A value as it is kept.
#[derive(Clone, Debug)]
pub(super) enum Image {
    /// By the codec.
    Bytes(Bytes),
    /// As it is.
    Own(Box<ScopeValue>),
}

impl Image {
    /// The value in it; `None`: it cannot be read.
    pub(super) fn read(&self, now: FleetTime) -> Option<ScopeValue> {
        match self {
            Self::Bytes(bytes) => codec::decode(bytes, now).ok().map(|decoded| decoded.value),
            Self::Own(value) => Some((**value).clone()),
        }
    }
}

/// A record as it is kept.
#[derive(Clone, Debug)]
pub(super) enum Note {
    /// Encoded.
    Bytes(Vec<u8>),
    /// As it is.
    Own(Kept),
}

impl Note {
    /// The record in it; `None`: it cannot be read.
    pub(super) fn read(self) -> Option<Kept> {
        match self {
            Self::Bytes(bytes) => Record::decode(&bytes),
            Self::Own(record) => Some(record),
        }
    }
}

/// What the store holds.
#[derive(Debug, Default)]
pub(super) struct SimStore {
    version: u64,
    value: Option<Image>,
    records: HashMap<CallKey, (FleetTime, Note)>,
    /// Whether what is written is encoded.
    encodes: bool,
    sweep_at: usize,
    /// Until then nobody gets an answer.
    pub(super) away_until: FleetTime,
}

/// What the store answered.
#[derive(Debug)]
pub(super) enum Stored {
    /// The value and its version, where asked for, and the records that exist.
    Read(Option<(u64, Option<Image>)>, Vec<(CallKey, Note)>),
    /// Committed as this version.
    Done(u64),
    /// Another replica was faster.
    Stale(u64, Option<Image>),
    /// A record that must be new exists.
    Exists(CallKey),
    /// No answer.
    Lost,
}

impl SimStore {
    /// An empty one; `encodes`: several replicas share it, or its answers get lost.
    pub(super) fn new(encodes: bool) -> Self {
        Self { encodes, ..Self::default() }
    }

    /// Reads the value, if asked for, and records.
    pub(super) fn read(&self, wants_value: bool, keys: &[CallKey], now: FleetTime) -> Stored {
        let found = keys.iter().filter_map(|key| {
            let (until, note) = self.records.get(key)?;
            (*until > now).then(|| (*key, note.clone()))
        });
        Stored::Read(wants_value.then(|| (self.version, self.value.clone())), found.collect())
    }

    /// Swaps the value when the version is still the one that was read, and takes the records with it.
    pub(super) fn commit(&mut self, read: u64, value: &ScopeValue, records: &mut Vec<RecordChange>, now: FleetTime) -> Stored {
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
        self.value = Some(match self.encodes {
            true => Image::Bytes(codec::encode(&Header::new(0, Version(self.version), 0), value)),
            false => Image::Own(Box::new(value.clone())),
        });
        for RecordChange { key, record, .. } in records.drain(..) {
            let until = record.keep_until();
            let note = if self.encodes { Note::Bytes(record.encode()) } else { Note::Own(record) };
            self.records.insert(key, (until, note));
        }
        if self.records.len() > self.sweep_at.max(MANY_RECORDS) {
            self.records.retain(|_, (until, _)| *until > now);
            self.sweep_at = self.records.len() * 2;
        }
        Stored::Done(self.version)
    }
}
