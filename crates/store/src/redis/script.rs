//! The scripts: what is asked of the server, and what its answers mean.
//!
//! Every key is declared, so a cluster can route them. No number above 2^53 passes through Lua: versions and values are
//! compared as bytes. Each answer begins with the id of its request, which is checked: an answer to another question must
//! never become a grant.

use std::sync::OnceLock;

use bytes::Bytes;
use paceline_core::units::{FleetTime, Span};
use redis::{Cmd, Value};
use sha1_smol::Sha1;

use super::calls::Request;
use super::cell::Cell;
use super::keys::{self, Keys};
use crate::key::{RecordKey, ScopeKey};
use crate::life::{SHORTEST_LIFE, bounded};
use crate::register::{Commit, Committed, Expect, Loaded, Version};

/// One `unpack` of Lua takes some 8,000 values at most; stay well below.
const MOST_ARGUMENTS: usize = 2_000;

/// Checks, then writes; see `commit.lua`.
pub(super) static COMMIT: Script = Script::new(0, include_str!("commit.lua"));
/// Looks records up; see `records.lua`.
pub(super) static RECORDS: Script = Script::new(1, include_str!("records.lua"));
/// Reads a value; see `load.lua`.
pub(super) static LOAD: Script = Script::new(2, include_str!("load.lua"));
/// Takes away what cannot be ours; see `repair.lua`.
pub(super) static REPAIR: Script = Script::new(3, include_str!("repair.lua"));
/// What is common to all, and the time; see `meta.lua`.
pub(super) static META: Script = Script::new(4, include_str!("meta.lua"));
/// Compare-and-swap of one field of a hash; see `swap.lua`.
pub(super) static SWAP: Script = Script::new(5, include_str!("swap.lua"));
/// Tries to write; see `trial.lua`.
pub(super) static TRIAL: Script = Script::new(6, include_str!("trial.lua"));
/// Adds to tallies; see `tally.lua`.
pub(super) static TALLY: Script = Script::new(7, include_str!("tally.lua"));
/// Names scopes; see `names.lua`.
pub(super) static NAMES: Script = Script::new(8, include_str!("names.lua"));
/// Reads whole hashes; see `hashes.lua`.
pub(super) static HASHES: Script = Script::new(9, include_str!("hashes.lua"));

/// A script of ours.
#[derive(Debug)]
pub(super) struct Script {
    number: u8,
    source: &'static str,
    hash: OnceLock<String>,
}

/// What arguments take in a command.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    pub(super) arguments: usize,
    pub(super) bytes: usize,
}

/// How a script is named in a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// By its hash: the server has it as a rule.
    Hash,
    /// In full: the server keeps it then. It is the first time here, or it was flushed.
    Source,
}

impl Script {
    const fn new(number: u8, source: &'static str) -> Self {
        Self { number, source, hash: OnceLock::new() }
    }

    /// One that no other script has.
    pub(super) const fn bit(&self) -> u16 {
        1 << self.number
    }

    /// A command with its keys, and room for the arguments that follow.
    pub(super) fn command(&self, by: By, keys: &[String], more: Room) -> Cmd {
        let script = match by {
            By::Hash => 40,
            By::Source => self.source.len(),
        };
        let size = keys.iter().map(String::len).sum::<usize>() + script + 16;
        let mut cmd = Cmd::with_capacity(3 + keys.len() + more.arguments, size + more.bytes);
        match by {
            By::Hash => cmd.arg("EVALSHA").arg(self.hash.get_or_init(|| Sha1::from(self.source).hexdigest())),
            By::Source => cmd.arg("EVAL").arg(self.source),
        };
        cmd.arg(keys.len());
        for key in keys {
            cmd.arg(key);
        }
        cmd
    }
}

/// Names a request; its answer repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestId([u8; 8]);

impl RequestId {
    /// One that no other request on any connection has, for practical purposes.
    pub(super) fn random() -> Self {
        Self(rand::random())
    }

    pub(super) const fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }

    /// The rest of an answer that begins with this id.
    ///
    /// # Errors
    /// It is the answer to something else, or none of ours.
    pub(super) fn open(self, answer: Value) -> Result<Vec<Value>, Foreign> {
        match answer {
            Value::BulkString(id) if id == self.0 => Ok(Vec::new()),
            Value::Array(mut parts) if matches!(parts.first(), Some(Value::BulkString(id)) if *id == self.0) => {
                parts.remove(0);
                Ok(parts)
            }
            _ => Err(Foreign),
        }
    }
}

/// An answer that is not to the question that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Foreign;

/// A commit, ready to be sent.
#[derive(Debug)]
pub(super) struct CommitRequest {
    id: RequestId,
    keys: Vec<String>,
    commit: Commit,
    version: Version,
    now: FleetTime,
    /// Indexes of the records that must be absent.
    absent: Vec<usize>,
    groups: Vec<Group>,
}

/// What is written to a hash.
#[derive(Debug)]
struct Group {
    /// Which of those behind the value's key.
    hash: usize,
    /// How long it lives from now on.
    life: Span,
    /// Indexes of the records to write there.
    within: Vec<usize>,
}

impl CommitRequest {
    pub(super) fn new(names: &Keys, scope: &ScopeKey, commit: Commit, version: Version, now: FleetTime) -> Self {
        let (mut absent, mut groups) = (Vec::new(), Vec::<Group>::new());
        for (index, record) in commit.records.iter().enumerate() {
            if record.must_be == Expect::Absent {
                absent.push(index);
            }
            let place = keys::place(bounded(record.keep_until, now), now);
            match groups.iter_mut().find(|group| group.hash == place.hash && group.within.len() < MOST_ARGUMENTS / 2) {
                Some(group) => {
                    group.life = place.life.max(group.life);
                    group.within.push(index);
                }
                None => groups.push(Group { hash: place.hash, life: place.life, within: vec![index] }),
            }
        }
        let mut keys = vec![names.value(scope)];
        if absent.is_empty() {
            // Those that are written, and no others.
            for group in &mut groups {
                keys.push(names.hash(scope, now, group.hash));
                group.hash = keys.len() - 2;
            }
        } else {
            keys.extend(names.hashes(scope, now));
        }
        Self { id: RequestId::random(), keys, commit, version, now, absent, groups }
    }

    /// What became of it.
    ///
    /// # Errors
    /// The answer is not to this commit.
    pub(super) fn read(&self, answer: Value) -> Result<Committed, Foreign> {
        let mut parts = self.id.open(answer)?.into_iter();
        match (parts.next(), parts.next()) {
            (None, None) => Ok(Committed::Done(self.version)),
            (Some(Value::Int(0)), None) => Ok(Committed::Stale(Loaded::default())),
            (Some(Value::Int(0)), Some(Value::BulkString(value))) => Ok(Committed::Stale(loaded(value))),
            (Some(Value::Int(1)), Some(first)) => self.found(std::iter::once(first).chain(parts)),
            _ => Err(Foreign),
        }
    }

    fn found(&self, parts: impl Iterator<Item = Value>) -> Result<Committed, Foreign> {
        let cells = newest(self.absent.len(), parts)?;
        let record = |index: &usize| self.commit.records.get(*index);
        let found = self.absent.iter().filter_map(record).zip(cells);
        let found: Vec<(RecordKey, Bytes)> =
            found.filter_map(|(record, cell)| Some((record.key, cell?.counts(self.now)?))).collect();
        if found.is_empty() { Err(Foreign) } else { Ok(Committed::RecordExists { found }) }
    }
}

impl Request for CommitRequest {
    fn script(&self) -> &'static Script {
        &COMMIT
    }

    fn keys(&self) -> &[String] {
        &self.keys
    }

    fn command(&self, by: By) -> Cmd {
        let records: usize = self.commit.records.iter().map(|record| Cell::size_of(&record.value) + record.key.0.len()).sum();
        let more = Room {
            arguments: 6 + self.absent.len() + 3 * self.groups.len() + 2 * self.commit.records.len(),
            bytes: 96 + self.commit.value.len() + records + 16 * self.absent.len() + 16 * self.groups.len(),
        };
        let mut cmd = COMMIT.command(by, &self.keys, more);
        cmd.arg(self.id.as_bytes());
        match self.commit.expected {
            Version::NONE => cmd.arg(""),
            Version(expected) => cmd.arg(&expected.to_be_bytes()),
        };
        let life = bounded(self.commit.keep_until, self.now).since(self.now);
        cmd.arg(&self.commit.value[..]).arg(keys::millis(life)).arg(self.now.as_micros()).arg(self.absent.len());
        let record = |index: &usize| self.commit.records.get(*index);
        for absent in self.absent.iter().filter_map(record) {
            cmd.arg(&absent.key.0);
        }
        for Group { hash, life, within } in &self.groups {
            // Lua counts from one, and the value's key comes first.
            cmd.arg(hash + 2).arg(keys::millis(*life)).arg(within.len() * 2);
            for write in within.iter().filter_map(record) {
                let end = bounded(write.keep_until, self.now);
                cmd.arg(&write.key.0).arg(Cell::pack(self.version, end, &write.value));
            }
        }
        cmd
    }
}

/// A stored value as the register sees it; one that is there and has no version cannot be ours, see [`is_broken`].
pub(super) fn loaded(value: Vec<u8>) -> Loaded {
    let value = Bytes::from(value);
    let version = crate::codec::Header::read(&value).map_or(Version::NONE, |header| header.version);
    Loaded { version, value: Some(value), has_no_records: false }
}

/// Whether this is no value of ours: too short for a header, or without a version. Nobody could commit over it.
pub(super) fn is_broken(loaded: &Loaded) -> bool {
    loaded.version == Version::NONE && loaded.value.is_some()
}

/// A request for a value.
#[derive(Debug)]
pub(super) struct LoadRequest {
    id: RequestId,
    keys: Vec<String>,
}

impl LoadRequest {
    pub(super) fn new(names: &Keys, scope: &ScopeKey, now: FleetTime) -> Self {
        let keys = std::iter::once(names.value(scope)).chain(names.hashes(scope, now)).collect();
        Self { id: RequestId::random(), keys }
    }

    /// The value, if there is one.
    ///
    /// # Errors
    /// The answer is not to this question.
    pub(super) fn read(&self, answer: Value) -> Result<Loaded, Foreign> {
        let mut parts = self.id.open(answer)?.into_iter();
        let Some(Value::Int(hashes)) = parts.next() else { return Err(Foreign) };
        let has_no_records = hashes == 0;
        match parts.next() {
            None => Ok(Loaded { has_no_records, ..Loaded::default() }),
            Some(Value::BulkString(value)) => Ok(Loaded { has_no_records, ..loaded(value) }),
            _ => Err(Foreign),
        }
    }
}

impl Request for LoadRequest {
    fn script(&self) -> &'static Script {
        &LOAD
    }

    fn keys(&self) -> &[String] {
        &self.keys
    }

    fn command(&self, by: By) -> Cmd {
        let mut cmd = LOAD.command(by, &self.keys, Room { arguments: 1, bytes: 8 });
        cmd.arg(self.id.as_bytes());
        cmd
    }
}

/// A trial whether a scope's server takes writes.
#[derive(Debug)]
pub(super) struct TrialRequest {
    id: RequestId,
    keys: [String; 2],
}

impl TrialRequest {
    pub(super) fn new(names: &Keys, scope: &ScopeKey) -> Self {
        Self { id: RequestId::random(), keys: names.trial(scope) }
    }

    /// Nothing, if it was taken.
    ///
    /// # Errors
    /// The answer is not to this question.
    pub(super) fn read(&self, answer: Value) -> Result<(), Foreign> {
        self.id.open(answer).map(drop)
    }
}

impl Request for TrialRequest {
    fn script(&self) -> &'static Script {
        &TRIAL
    }

    fn keys(&self) -> &[String] {
        &self.keys
    }

    fn command(&self, by: By) -> Cmd {
        let mut cmd = TRIAL.command(by, &self.keys, Room { arguments: 2, bytes: 16 });
        cmd.arg(self.id.as_bytes()).arg(keys::millis(SHORTEST_LIFE));
        cmd
    }
}

/// A look-up of records, ready to be sent.
#[derive(Debug)]
pub(super) struct RecordsRequest<'a> {
    id: RequestId,
    keys: [String; keys::HASHES],
    wanted: &'a [RecordKey],
    now: FleetTime,
}

impl<'a> RecordsRequest<'a> {
    pub(super) fn new(names: &Keys, scope: &ScopeKey, wanted: &'a [RecordKey], now: FleetTime) -> Self {
        Self { id: RequestId::random(), keys: names.hashes(scope, now), wanted, now }
    }

    /// The records found.
    ///
    /// # Errors
    /// The answer is not to this question.
    pub(super) fn read(&self, answer: Value) -> Result<Vec<Option<Bytes>>, Foreign> {
        let parts = self.id.open(answer)?;
        let cells = newest(self.wanted.len(), parts.into_iter())?;
        Ok(cells.into_iter().map(|cell| cell?.counts(self.now)).collect())
    }
}

impl Request for RecordsRequest<'_> {
    fn script(&self) -> &'static Script {
        &RECORDS
    }

    fn keys(&self) -> &[String] {
        &self.keys
    }

    fn command(&self, by: By) -> Cmd {
        let mut cmd =
            RECORDS.command(by, &self.keys, Room { arguments: 1 + self.wanted.len(), bytes: 8 + 16 * self.wanted.len() });
        cmd.arg(self.id.as_bytes());
        for key in self.wanted {
            cmd.arg(&key.0);
        }
        cmd
    }
}

/// Of pairs of index (from one) and cell: the newest cell of each index. A renewed record may lie in two hashes.
fn newest(count: usize, mut parts: impl Iterator<Item = Value>) -> Result<Vec<Option<Cell>>, Foreign> {
    let mut cells = vec![None; count];
    while let Some(index) = parts.next() {
        let (Value::Int(index), Some(Value::BulkString(bytes))) = (index, parts.next()) else { return Err(Foreign) };
        let index = usize::try_from(index).ok().and_then(|index| index.checked_sub(1));
        let slot: &mut Option<Cell> = index.and_then(|index| cells.get_mut(index)).ok_or(Foreign)?;
        let read = Cell::read(bytes.into());
        if slot.is_none() || read > *slot {
            *slot = read;
        }
    }
    Ok(cells)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    /// RC02: scripts touch no key that was not declared, so that a cluster knows where they belong.
    #[test]
    fn scripts_touch_declared_keys_alone() {
        for script in [&COMMIT, &RECORDS, &LOAD, &REPAIR, &META, &SWAP, &TRIAL, &TALLY, &NAMES, &HASHES] {
            let code: Vec<&str> = script.source.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
            let code = code.join("\n");
            let mut calls = code.split("redis.call(").skip(1).peekable();
            assert!(calls.peek().is_some() && !code.contains("redis.pcall("), "{code}");
            for call in calls {
                let key = call.split_once(", ").map_or("", |(_, key)| key);
                let declared = ["KEYS[", "unpack(KEYS"].iter().any(|known| key.starts_with(known))
                    || (key.starts_with("key,") && code.contains("local key, count = KEYS["));
                assert!(declared || call.starts_with("'TIME')"), "redis.call({call}");
            }
        }
    }

    #[test]
    fn an_answer_to_another_question_is_none() {
        let (mine, other) = (RequestId([1; 8]), Value::BulkString(vec![2; 8]));
        assert_eq!(mine.open(Value::BulkString(vec![1; 8])), Ok(Vec::new()));
        for foreign in [other.clone(), Value::Array(vec![other]), Value::Array(Vec::new()), Value::Nil, Value::Okay] {
            assert_eq!(mine.open(foreign), Err(Foreign));
        }
    }
}
