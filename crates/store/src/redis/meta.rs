//! What is common to all replicas, in one hash: the agreed offset of time, token keys, who serves.

use std::collections::BTreeMap;

use paceline_core::units::{FleetTime, Span};
use prost::Message;
use redis::{Cmd, Value};

use super::calls::Request;
use super::clock::Agreed;
use super::keys;
use super::ring::Ring;
use super::script::{By, Foreign, META, RequestId, Room, SWAP, Script};
use crate::life::LONGEST_LIFE;
use crate::replica::{Announcement, REPLICA_LIFE, Replica};

/// The field of the agreed offset.
pub(super) const CLOCK: &str = "clock";
/// The field of the token keys.
pub(super) const TOKENS: &str = "tokens";
/// Before the id of each replica.
const REPLICA: &str = "replica:";
/// Who has been silent for this long is taken away; until then only not counted: clocks of servers may be set.
const FORGOTTEN_AFTER: Span = Span::from_secs(60);

/// A look at the hash, which may say something of this replica too.
#[derive(Debug)]
pub(super) struct MetaRequest {
    id: RequestId,
    keys: [String; 1],
    me: Option<(String, Vec<u8>)>,
    take_away: Vec<String>,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Meta {
    /// The server's time, in microseconds since the epoch.
    pub(super) server: i64,
    /// All fields, as they are.
    fields: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl MetaRequest {
    pub(super) fn new(key: String) -> Self {
        Self { id: RequestId::random(), keys: [key], me: None, take_away: Vec::new() }
    }

    /// With what a replica says of itself at `now`.
    pub(super) fn announcing(self, me: &Announcement, now: FleetTime) -> Self {
        Self { me: Some((field_of(me.id), encode(me, now))), ..self }
    }

    /// And without those who have been silent for long.
    pub(super) fn taking_away(self, take_away: Vec<String>) -> Self {
        Self { take_away, ..self }
    }

    /// What was found.
    ///
    /// # Errors
    /// The answer is not to this question.
    pub(super) fn read(&self, answer: Value) -> Result<Meta, Foreign> {
        let mut parts = self.id.open(answer)?.into_iter();
        let (Some(seconds), Some(micros)) = (parts.next(), parts.next()) else { return Err(Foreign) };
        let server = number(&seconds)?.checked_mul(1_000_000).and_then(|whole| whole.checked_add(number(&micros).ok()?));
        let mut meta = Meta { server: server.ok_or(Foreign)?, fields: BTreeMap::new() };
        while let Some(field) = parts.next() {
            let (Value::BulkString(field), Some(Value::BulkString(value))) = (field, parts.next()) else { return Err(Foreign) };
            meta.fields.insert(field, value);
        }
        Ok(meta)
    }
}

impl Request for MetaRequest {
    fn script(&self) -> &'static Script {
        &META
    }

    fn keys(&self) -> &[String] {
        &self.keys
    }

    fn command(&self, by: By) -> Cmd {
        let mut cmd = META.command(by, &self.keys, Room::default());
        cmd.arg(self.id.as_bytes()).arg(keys::millis(LONGEST_LIFE));
        match &self.me {
            Some((field, value)) => cmd.arg(field).arg(value),
            None => cmd.arg("").arg(""),
        };
        for field in &self.take_away {
            cmd.arg(field);
        }
        cmd
    }
}

impl Meta {
    /// A field, as it is; empty when it is not there.
    pub(super) fn raw(&self, field: &str) -> &[u8] {
        self.fields.get(field.as_bytes()).map_or(&[], Vec::as_slice)
    }

    /// The agreed offset of time.
    pub(super) fn agreed(&self) -> Option<Agreed> {
        let (offset, steps) = std::str::from_utf8(self.raw(CLOCK)).ok()?.split_once(' ')?;
        Some(Agreed { offset: offset.parse().ok()?, steps: steps.parse().ok()? })
    }

    /// The token keys.
    pub(super) fn ring(&self) -> Ring {
        Ring::decode(self.raw(TOKENS))
    }

    /// The replicas that live at `now`, by id.
    pub(super) fn live(&self, now: FleetTime) -> Vec<Replica> {
        let mut live: Vec<Replica> = self.replicas().map(|(_, replica)| replica).filter(|replica| replica.lives(now)).collect();
        live.sort_by_key(|replica| replica.announced.id);
        live
    }

    /// Fields of replicas that have been silent for long, or cannot be read.
    pub(super) fn forgotten(&self, now: FleetTime) -> Vec<String> {
        let lasting: Vec<&[u8]> = self
            .replicas()
            .filter(|(_, replica)| now.since(replica.seen) < REPLICA_LIFE.max(FORGOTTEN_AFTER))
            .map(|(field, _)| field)
            .collect();
        let all = self.fields.keys().filter(|field| field.starts_with(REPLICA.as_bytes()));
        let gone = all.filter(|field| !lasting.contains(&field.as_slice()));
        gone.map(|field| String::from_utf8_lossy(field).into_owned()).collect()
    }

    fn replicas(&self) -> impl Iterator<Item = (&[u8], Replica)> {
        let ours = self.fields.iter().filter(|(field, _)| field.starts_with(REPLICA.as_bytes()));
        ours.filter_map(|(field, value)| Some((field.as_slice(), decode(value)?)))
    }
}

/// The field of a replica.
pub(super) fn field_of(id: u32) -> String {
    format!("{REPLICA}{id:08x}")
}

/// As the agreed offset is stored.
pub(super) fn agreed_bytes(agreed: Agreed) -> Vec<u8> {
    format!("{} {}", agreed.offset, agreed.steps).into_bytes()
}

/// Writes one field, if it still is what was read.
#[derive(Debug)]
pub(super) struct SwapRequest {
    id: RequestId,
    keys: [String; 1],
    field: &'static str,
    read: Vec<u8>,
    write: Vec<u8>,
}

impl SwapRequest {
    pub(super) fn new(key: String, field: &'static str, read: Vec<u8>, write: Vec<u8>) -> Self {
        Self { id: RequestId::random(), keys: [key], field, read, write }
    }

    /// Whether it was written.
    ///
    /// # Errors
    /// The answer is not to this question.
    pub(super) fn read(&self, answer: Value) -> Result<bool, Foreign> {
        self.id.open(answer).map(|rest| rest.is_empty())
    }
}

impl Request for SwapRequest {
    fn script(&self) -> &'static Script {
        &SWAP
    }

    fn keys(&self) -> &[String] {
        &self.keys
    }

    fn command(&self, by: By) -> Cmd {
        let mut cmd = SWAP.command(by, &self.keys, Room::default());
        cmd.arg(self.id.as_bytes()).arg(self.field).arg(&self.read).arg(&self.write).arg(keys::millis(LONGEST_LIFE));
        cmd
    }
}

fn number(value: &Value) -> Result<i64, Foreign> {
    match value {
        Value::Int(number) => Ok(*number),
        Value::BulkString(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(Foreign),
        _ => Err(Foreign),
    }
}

fn encode(me: &Announcement, now: FleetTime) -> Vec<u8> {
    let Announcement { id, address, build, schema, config_hash, config_read, began } = me.clone();
    let (config_read, began) = (config_read.as_micros(), began.as_micros());
    ReplicaWire { id, address, build, schema, config_hash, seen: now.as_micros(), config_read, began }.encode_to_vec()
}

fn decode(bytes: &[u8]) -> Option<Replica> {
    let ReplicaWire { id, address, build, schema, config_hash, seen, config_read, began } = ReplicaWire::decode(bytes).ok()?;
    let (config_read, began) = (FleetTime::from_micros(config_read), FleetTime::from_micros(began));
    let announced = Announcement { id, address, build, schema, config_hash, config_read, began };
    Some(Replica { announced, seen: FleetTime::from_micros(seen) })
}

#[derive(Clone, PartialEq, Message)]
struct ReplicaWire {
    #[prost(fixed32, tag = "1")]
    id: u32,
    #[prost(string, tag = "2")]
    address: String,
    #[prost(string, tag = "3")]
    build: String,
    #[prost(uint32, tag = "4")]
    schema: u32,
    #[prost(string, tag = "5")]
    config_hash: String,
    #[prost(int64, tag = "6")]
    seen: i64,
    #[prost(int64, tag = "7")]
    config_read: i64,
    #[prost(int64, tag = "8")]
    began: i64,
}
