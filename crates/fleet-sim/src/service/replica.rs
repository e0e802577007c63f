//! One replica: the production step, and the loop around it as events of virtual time. One batch is at the store at a time; what
//! arrives meanwhile makes up the next one.

use std::sync::Arc;

use paceline_coordinator::CallKey;
use paceline_coordinator::api::Target;
use paceline_coordinator::scope::{Effects, Input, Reply, ReplyId, Scope};
use paceline_coordinator::settings::Settings;
use paceline_coordinator::token::Keyring;
use paceline_core::units::{FleetTime, Span};
use paceline_core::value::ScopeValue;
use rand_chacha::ChaCha8Rng;

use super::store::{Image, SimStore, Stored};

/// How many inputs make up one batch at most.
const BATCH: usize = 512;
/// After this long a store that did not answer is asked again.
const RETRY_STORE: Span = Span::from_millis(250);

/// A replica of the service.
pub(super) struct Replica {
    pub(super) is_alive: bool,
    /// What was planned for an earlier wish to be woken is void.
    pub(super) wake_serial: u64,
    /// The same for what is at the store.
    pub(super) store_serial: u64,
    scope: Scope,
    version: u64,
    is_loaded: bool,
    has_read: bool,
    is_due: bool,
    wake_at: Option<FleetTime>,
    inbox: Vec<Input>,
    batch: Vec<Input>,
    at_store: Option<AtStore>,
    rng: ChaCha8Rng,
}

enum AtStore {
    Read { wants_value: bool, keys: Vec<CallKey> },
    Commit { fx: Box<Effects>, decided_at: FleetTime },
}

/// Answers to be told, decided at this time.
pub(super) struct Told {
    pub(super) replies: Vec<(ReplyId, Reply)>,
}

/// What a replica wants next.
pub(super) enum Wants {
    /// To hear from the store.
    Store,
    /// Nothing before this time.
    Rest(Option<FleetTime>),
}

impl Replica {
    pub(super) fn new(
        target: Target,
        number: u32,
        keyring: Arc<Keyring>,
        settings: Arc<dyn Settings>,
        rng: ChaCha8Rng,
    ) -> Self {
        Self {
            is_alive: true,
            wake_serial: 0,
            store_serial: 0,
            scope: Scope::new(target, number, keyring, settings),
            version: 0,
            is_loaded: false,
            has_read: false,
            is_due: false,
            wake_at: None,
            inbox: Vec::new(),
            batch: Vec::new(),
            at_store: None,
            rng,
        }
    }

    /// Takes an input; `go_on` does something about it.
    pub(super) fn take(&mut self, input: Input) {
        self.inbox.push(input);
    }

    /// It is time to look again.
    pub(super) fn wake(&mut self) {
        self.wake_at = None;
        self.is_due = true;
    }

    /// Whether it waits for the store.
    pub(super) fn is_busy(&self) -> bool {
        self.at_store.is_some()
    }

    /// Decides what can be decided without the store.
    pub(super) fn go_on(&mut self, now: FleetTime, told: &mut Told) -> Wants {
        while self.at_store.is_none() {
            if self.batch.is_empty() {
                let rest = self.inbox.split_off(self.inbox.len().min(BATCH));
                self.batch = std::mem::replace(&mut self.inbox, rest);
            }
            if self.batch.is_empty() && !self.is_due {
                return Wants::Rest(self.wake_at);
            }
            if !self.has_read {
                self.has_read = true;
                let keys: Vec<CallKey> = self.batch.iter().flat_map(|input| self.scope.missing_records(input)).collect();
                if !self.is_loaded || !keys.is_empty() {
                    self.at_store = Some(AtStore::Read { wants_value: !self.is_loaded, keys });
                    break;
                }
            }
            self.step(now, told);
        }
        Wants::Store
    }

    fn step(&mut self, now: FleetTime, told: &mut Told) {
        (self.is_due, self.has_read) = (false, false);
        let mut fx = self.scope.step(std::mem::take(&mut self.batch), now, &mut self.rng);
        self.wake_at = fx.wake_at;
        told.replies.append(&mut fx.replies);
        if fx.changed {
            self.at_store = Some(AtStore::Commit { fx: Box::new(fx), decided_at: now });
        } else {
            told.replies.append(&mut fx.replies_on_commit);
        }
    }

    /// What the store does with the request that is on its way.
    pub(super) fn at_store(&mut self, store: &mut SimStore, now: FleetTime) -> Stored {
        match &mut self.at_store {
            _ if now < store.away_until => Stored::Lost,
            Some(AtStore::Read { wants_value, keys }) => store.read(*wants_value, keys, now),
            Some(AtStore::Commit { fx, .. }) => store.commit(self.version, self.scope.value(), &mut fx.records, now),
            None => Stored::Lost,
        }
    }

    /// Takes the store's answer.
    pub(super) fn hear(&mut self, answer: Stored, now: FleetTime, told: &mut Told) {
        match (self.at_store.take(), answer) {
            (Some(AtStore::Read { .. }), Stored::Read(value, records)) => {
                if let Some((version, image)) = value {
                    self.adopt(version, image.as_ref(), now);
                    self.is_loaded = true;
                }
                for (key, note) in records {
                    if let Some(record) = note.read() {
                        self.scope.know_record(key, record);
                    }
                }
            }
            (Some(AtStore::Commit { mut fx, decided_at }), Stored::Done(version)) => {
                self.version = version;
                let late = now.since(decided_at);
                for (id, mut reply) in std::mem::take(&mut fx.replies_on_commit) {
                    reply.age_by(late);
                    told.replies.push((id, reply));
                }
            }
            (Some(AtStore::Commit { fx, .. }), Stored::Stale(version, image)) => {
                self.adopt(version, image.as_ref(), now);
                self.again(*fx, None, now);
            }
            (Some(AtStore::Commit { fx, .. }), Stored::Exists(key)) => {
                self.is_loaded = false;
                self.again(*fx, Some(key), now);
            }
            (Some(AtStore::Commit { fx, .. }), _) => {
                let inputs = self.scope.undo(*fx, now);
                self.without_store(inputs, now, told);
            }
            (_, _) => {
                let inputs = std::mem::take(&mut self.batch);
                self.without_store(inputs, now, told);
            }
        }
    }

    fn again(&mut self, fx: Effects, taken: Option<CallKey>, now: FleetTime) {
        let mut inputs = self.scope.undo(fx, now);
        inputs.extend(taken.map(Input::Taken));
        self.batch = inputs;
        (self.is_due, self.has_read) = (true, false);
    }

    fn without_store(&mut self, inputs: Vec<Input>, now: FleetTime, told: &mut Told) {
        (self.is_loaded, self.is_due, self.has_read) = (false, false, false);
        let mut fx = self.scope.step_without_store(inputs, "no answer", now);
        told.replies.append(&mut fx.replies);
        told.replies.append(&mut fx.replies_on_commit);
        let again = now + RETRY_STORE;
        self.wake_at = Some(fx.wake_at.map_or(again, |at| at.min(again)));
    }

    fn adopt(&mut self, version: u64, image: Option<&Image>, now: FleetTime) {
        let read = image.and_then(|image| image.read(now));
        let value = match (read, image.is_some() || self.version > 0) {
            (Some(value), _) => value,
            (None, true) => ScopeValue::after_loss(now),
            (None, false) => ScopeValue::default(),
        };
        self.scope.adopt(value, now);
        self.version = version;
    }
}
