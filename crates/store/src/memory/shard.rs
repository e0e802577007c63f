//! Scopes under one lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use paceline_core::units::FleetTime;

use super::due::{Due, Generation};
use super::records::{self, Records};
use crate::key::{RecordKey, ScopeKey};
use crate::life::bounded;
use crate::register::{Commit, Committed, Expect, Loaded, Version};

/// What a scope takes beside its value and records.
const OVERHEAD_BYTES: usize = 512;

/// About how much memory all shards take together.
#[derive(Debug, Default)]
pub(super) struct Usage(AtomicUsize);

impl Usage {
    /// Bytes in use.
    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn sub(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The most memory a commit can need.
pub(super) fn size_of(commit: &Commit) -> usize {
    let records: usize = commit.records.iter().map(|record| records::size_of(&record.value)).sum();
    OVERHEAD_BYTES + commit.value.len() + records
}

#[derive(Debug)]
pub(super) struct Shard {
    scopes: HashMap<ScopeKey, Scope>,
    /// Scopes by the generation in which something of theirs may end.
    due: Due<ScopeKey>,
    used: Arc<Usage>,
}

#[derive(Debug)]
struct Scope {
    value: Option<Value>,
    records: Records,
    /// Where the shard's `due` has it; entries elsewhere are left-overs.
    listed: Generation,
}

#[derive(Debug)]
struct Value {
    version: Version,
    bytes: Bytes,
    keep_until: FleetTime,
}

impl Shard {
    pub(super) fn new(used: Arc<Usage>) -> Self {
        Self { scopes: HashMap::new(), due: Due::default(), used }
    }

    pub(super) fn load(&self, now: FleetTime, scope: &ScopeKey) -> Loaded {
        let scope = self.scopes.get(scope);
        let has_no_records = scope.is_none_or(|scope| scope.records.is_empty());
        Loaded { has_no_records, ..scope.map(|scope| scope.load(now)).unwrap_or_default() }
    }

    pub(super) fn records(&self, now: FleetTime, scope: &ScopeKey, keys: &[RecordKey]) -> Vec<Option<Bytes>> {
        let scope = self.scopes.get(scope);
        keys.iter().map(|key| scope.and_then(|scope| scope.records.get(now, key)).cloned()).collect()
    }

    /// Checks the version, then the records, then writes `version`.
    pub(super) fn commit(&mut self, now: FleetTime, key: &ScopeKey, version: Version, commit: Commit) -> Committed {
        let current = self.scopes.get(key).map(|scope| scope.load(now)).unwrap_or_default();
        if current.version != commit.expected {
            return Committed::Stale(current);
        }
        let stored = self.scopes.get(key);
        let must_be_absent = commit.records.iter().filter(|write| write.must_be == Expect::Absent);
        let found: Vec<_> =
            must_be_absent.filter_map(|write| Some((write.key, stored?.records.get(now, &write.key)?.clone()))).collect();
        if !found.is_empty() {
            return Committed::RecordExists { found };
        }
        self.write(now, key, version, commit);
        Committed::Done(version)
    }

    /// Takes away what is over, looking at no more than `budget` things; returns how many values and records it took.
    pub(super) fn sweep(&mut self, now: FleetTime, mut budget: usize) -> usize {
        let mut taken = 0;
        while budget > 0
            && let Some((generation, key)) = self.due.pop(now)
        {
            budget -= 1;
            let Some(scope) = self.scopes.get_mut(&key).filter(|scope| scope.listed == generation) else { continue };
            taken += scope.records.sweep(now, &mut budget, &self.used);
            if let Some(value) = scope.value.take_if(|value| value.keep_until <= now) {
                self.used.sub(value.bytes.len());
                taken += 1;
            }
            match scope.earliest() {
                Some(earliest) => {
                    scope.listed = earliest;
                    self.due.push(earliest, key);
                }
                None => {
                    self.scopes.remove(&key);
                    self.used.sub(OVERHEAD_BYTES);
                }
            }
        }
        taken
    }

    fn write(&mut self, now: FleetTime, key: &ScopeKey, version: Version, commit: Commit) {
        let used = &*self.used;
        let scope = self.scopes.entry(*key).or_insert_with(|| {
            used.add(OVERHEAD_BYTES);
            Scope { value: None, records: Records::default(), listed: Generation::NEVER }
        });
        used.add(commit.value.len());
        let value = Value { version, bytes: commit.value, keep_until: bounded(commit.keep_until, now) };
        if let Some(old) = scope.value.replace(value) {
            used.sub(old.bytes.len());
        }
        for write in commit.records {
            let keep_until = bounded(write.keep_until, now);
            scope.records.put(write, keep_until, used);
        }
        // A later end is noticed when the listed one has come; only an earlier one must be listed now.
        if let Some(earliest) = scope.earliest().filter(|earliest| *earliest < scope.listed) {
            scope.listed = earliest;
            self.due.push(earliest, *key);
        }
    }
}

impl Scope {
    fn load(&self, now: FleetTime) -> Loaded {
        let value = self.value.as_ref().filter(|value| value.keep_until > now);
        value
            .map(|value| Loaded { version: value.version, value: Some(value.bytes.clone()), has_no_records: false })
            .unwrap_or_default()
    }

    /// The earliest generation in which anything of it may end.
    fn earliest(&self) -> Option<Generation> {
        let value = self.value.as_ref().map(|value| Generation::of(value.keep_until));
        value.into_iter().chain(self.records.earliest()).min()
    }
}
