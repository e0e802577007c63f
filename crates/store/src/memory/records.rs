//! The records of one scope: found by key, taken away by generation.

use std::collections::HashMap;

use bytes::Bytes;
use paceline_core::units::FleetTime;

use super::due::{Due, Generation};
use super::shard::Usage;
use crate::key::RecordKey;
use crate::register::RecordWrite;

/// What a record takes beside its bytes: its key twice, its life, the map's slack.
const OVERHEAD_BYTES: usize = 128;
/// A map smaller than this is not worth shrinking.
const LEAST_SHRUNK: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Records {
    by_key: HashMap<RecordKey, Record>,
    due: Due<RecordKey>,
}

#[derive(Debug)]
struct Record {
    value: Bytes,
    keep_until: FleetTime,
}

/// What a record takes in memory.
pub(super) fn size_of(value: &Bytes) -> usize {
    OVERHEAD_BYTES + value.len()
}

impl Records {
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The record under this key, if its life is not over.
    pub(super) fn get(&self, now: FleetTime, key: &RecordKey) -> Option<&Bytes> {
        self.by_key.get(key).filter(|record| record.keep_until > now).map(|record| &record.value)
    }

    /// Writes a record over whatever is there.
    pub(super) fn put(&mut self, write: RecordWrite, keep_until: FleetTime, used: &Usage) {
        used.add(size_of(&write.value));
        let generation = Generation::of(keep_until);
        let old = self.by_key.insert(write.key, Record { value: write.value, keep_until });
        if let Some(old) = &old {
            used.sub(size_of(&old.value));
        }
        if old.is_none_or(|old| Generation::of(old.keep_until) != generation) {
            self.due.push(generation, write.key);
        }
    }

    /// Takes away what is over, looking at no more than `budget` things; returns how many it took.
    pub(super) fn sweep(&mut self, now: FleetTime, budget: &mut usize, used: &Usage) -> usize {
        let mut taken = 0;
        while *budget > 0
            && let Some((_, key)) = self.due.pop(now)
        {
            *budget -= 1;
            // A renewed record is noted in its later generation too.
            if self.by_key.get(&key).is_some_and(|record| record.keep_until <= now)
                && let Some(record) = self.by_key.remove(&key)
            {
                used.sub(size_of(&record.value));
                taken += 1;
            }
        }
        if self.by_key.capacity() > LEAST_SHRUNK.max(self.by_key.len() * 8) {
            self.by_key.shrink_to(self.by_key.len() * 2);
        }
        taken
    }

    /// The earliest generation in which anything here may end.
    pub(super) fn earliest(&self) -> Option<Generation> {
        self.due.earliest()
    }
}
