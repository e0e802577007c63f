//! The thin loop around a scope: receive, decide, commit, answer. Commits follow each other without waiting for the one before
//! (`crate::flight`); one timer per scope. When the store does not answer, the loop goes on without it (`crate::outage`).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use paceline_core::journal::Told;
use paceline_core::units::FleetTime;
use paceline_core::value::ScopeValue;
use paceline_store::{
    CodecError, Commit, Committed, Expect, Loaded, RecordKey, RecordWrite, ScopeKey, Store, StoreError, Version, codec,
    keep_until,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::flight::{Air, Flight, Outcome};
use crate::front::Inner;
use crate::gauges::Gauges;
use crate::lead::LeadCell;
use crate::look::{self, Look};
use crate::memory::{self, Memory, Stored, TakenOver};
use crate::metrics::Recorder;
use crate::outage::Outage;
use crate::record::{CallKey, Record};
use crate::scope::{Effects, Event, Input, Reply, ReplyId, Scope};

/// How many inputs make up one batch at most.
const BATCH: usize = 512;
/// How many messages may queue before callers wait to send more.
pub(crate) const INBOX: usize = 16_384;
/// A scope that nobody has spoken to for this long, and in which nobody waits, is put away.
const IDLE: Duration = Duration::from_secs(120);
/// One that could not be put away then, because a lease is known or somebody looks at it, tries again after this.
const STILL_IDLE: Duration = Duration::from_secs(10);
/// How often in a row refused commits are decided anew before the callers are told that the store is busy.
const TRIES: u32 = 16;

/// What is sent to an actor.
pub(crate) enum Message {
    /// Something to be taken by the step.
    Told { input: Input, reply: Option<(ReplyId, oneshot::Sender<Reply>)> },
    /// The store may not hold any more what it did; `scopes` of this replica are to look.
    StoreReached { scopes: usize },
    /// Somebody wants to know who leads, as the store has it.
    WhoLeads(oneshot::Sender<()>),
}

pub(crate) struct Actor<S> {
    pub(crate) inner: Arc<Inner<S>>,
    pub(crate) key: ScopeKey,
    pub(crate) inbox: mpsc::Receiver<Message>,
    pub(crate) scope: Scope,
    pub(crate) gauges: Arc<Gauges>,
    pub(crate) lead: Arc<LeadCell>,
    pub(crate) recorder: Recorder,
}

/// Records that were read while their calls wait.
type Found = (Vec<RecordKey>, Result<Vec<Option<Bytes>>, StoreError>);

/// What the loop keeps between steps.
pub(crate) struct State {
    /// The version that the next commit expects.
    pub(crate) version: Version,
    pub(crate) epoch: u64,
    /// The last value that is known to be, or to have been, in the store.
    pub(crate) memory: Option<Memory>,
    pub(crate) loaded: bool,
    waiting: HashMap<ReplyId, oneshot::Sender<Reply>>,
    pub(crate) wake_at: Option<FleetTime>,
    pub(crate) rng: StdRng,
    /// What is taken next: slots whose caller was gone, and what a refused commit left to do.
    pub(crate) own: VecDeque<Input>,
    /// What waits until nothing is in the air.
    deferred: Vec<Input>,
    pub(crate) air: Air,
    reads: JoinSet<Found>,
    pub(crate) outage: Option<Outage>,
    pub(crate) look: Look,
    /// What was told of the value's changes, by whoever made them.
    told: Told,
    /// Refused commits in a row.
    refused: u32,
    last_spoken: Instant,
    /// Who wants to know who leads, once that is looked up.
    want_to_know: Vec<oneshot::Sender<()>>,
}

impl State {
    fn new() -> Self {
        Self {
            version: Version::NONE,
            epoch: 0,
            memory: None,
            loaded: false,
            waiting: HashMap::new(),
            wake_at: None,
            rng: StdRng::from_rng(&mut rand::rng()),
            own: VecDeque::new(),
            deferred: Vec::new(),
            air: Air::default(),
            reads: JoinSet::new(),
            outage: None,
            look: Look::default(),
            told: Told::default(),
            refused: 0,
            last_spoken: Instant::now(),
            want_to_know: Vec::new(),
        }
    }

    /// Whether a batch may be decided now.
    fn may_decide(&self) -> bool {
        self.air.has_room() && (self.deferred.is_empty() || self.air.is_empty())
    }

    /// When the value that is stored was written: a version is the microsecond of its commit.
    pub(crate) fn written_at(&self) -> FleetTime {
        FleetTime::from_micros(i64::try_from(self.version.0).unwrap_or(i64::MAX))
    }

    fn is_quiet(&self) -> bool {
        self.waiting.is_empty()
            && self.own.is_empty()
            && self.deferred.is_empty()
            && self.air.is_empty()
            && self.reads.is_empty()
            && self.outage.is_none()
            && self.look.is_over()
    }
}

impl<S: Store> Actor<S> {
    pub(crate) async fn run(mut self) {
        let mut state = State::new();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            if state.air.is_empty() {
                state.own.extend(std::mem::take(&mut state.deferred));
            }
            if !state.own.is_empty() && state.may_decide() {
                let inputs = state.own.drain(..).collect();
                self.turn(&mut state, inputs).await;
            }
            self.look(&mut state);
            let may_decide = state.may_decide();
            let until = self.sleep_until(&state);
            let State { air, reads, outage, look, .. } = &mut state;
            tokio::select! {
                biased;
                (flight, outcome) = air.next() => self.landed(&mut state, flight, outcome),
                Some(found) = reads.join_next(), if !reads.is_empty() => self.found(&mut state, found.ok()),
                stored = Outage::answered(outage) => self.answers_again(&mut state, stored),
                (version, stored) = look.answered() => self.looked(&mut state, version, stored),
                received = self.inbox.recv_many(&mut batch, BATCH), if may_decide => {
                    if received == 0 {
                        return; // the coordinator is gone
                    }
                    let inputs = batch.drain(..).filter_map(|message| state.hear(message)).collect();
                    self.turn(&mut state, inputs).await;
                    for asked in state.want_to_know.drain(..) {
                        // Whoever is gone does not want to know any more.
                        let _ = asked.send(());
                    }
                }
                () = tokio::time::sleep_until(until), if may_decide => {
                    self.probe(&mut state);
                    self.turn(&mut state, Vec::new()).await;
                }
            }
            if self.can_rest(&state) && self.inner.put_away(&self.key, &self.inbox) {
                return;
            }
        }
    }

    /// Until something is to be decided, until the store is to be asked again, or until it may be time to rest.
    fn sleep_until(&self, state: &State) -> Instant {
        let now = Instant::now();
        if !state.own.is_empty() {
            return now;
        }
        let idle_from = state.last_spoken + IDLE;
        let rest = if idle_from > now { idle_from } else { now + STILL_IDLE };
        let wake = state.wake_at.map(|at| now + at.since(self.inner.store.now()).to_duration());
        let look = state.look.due().filter(|_| state.air.is_empty());
        [wake, look, state.outage.as_ref().and_then(Outage::next_probe)].into_iter().flatten().fold(rest, Instant::min)
    }

    fn can_rest(&self, state: &State) -> bool {
        state.is_quiet() && self.scope.is_idle() && state.last_spoken.elapsed() >= IDLE
    }

    /// One batch: decide, and send the commit off; or decide alone.
    async fn turn(&mut self, state: &mut State, inputs: Vec<Input>) {
        let inputs = self.defer(state, inputs);
        if state.outage.is_none()
            && let Err(error) = self.prepare(state, &inputs).await
        {
            match error {
                Trouble::Store(error) => self.lose_store(state, &error),
                Trouble::Value(why) => return self.refuse(state, inputs, &why),
            }
        }
        let now = self.inner.store.now();
        let mut inputs = self.move_away(state, inputs, now);
        inputs.extend(self.hand_over(state));
        let mut fx = self.scope.step(inputs, now, &mut state.rng);
        state.wake_at = fx.wake_at;
        self.gauges.write(&self.scope, now);
        self.tell(state, &mut fx, now);
        self.read_late(state, &mut fx);
        if !fx.changed || state.outage.is_some() {
            if state.air.is_empty() {
                state.refused = 0;
            }
            return self.tell_on_commit(state, fx, now);
        }
        let changed = state.told.changes(self.scope.value(), now);
        fx.events_on_commit.extend(changed.into_iter().map(Event::Changed));
        let flight = self.take_off(state, fx, now);
        if let Some((flight, outcome)) = state.air.send(flight).await {
            self.landed(state, flight, outcome);
        }
    }

    /// Puts off what depends on a record that is about to be written.
    fn defer(&self, state: &mut State, inputs: Vec<Input>) -> Vec<Input> {
        let (later, now): (Vec<_>, Vec<_>) =
            inputs.into_iter().partition(|input| state.air.concerns(self.scope.keys_of(input)));
        state.deferred.extend(later);
        now
    }

    /// Loads the value at first, and the records that the inputs need.
    async fn prepare(&mut self, state: &mut State, inputs: &[Input]) -> Result<(), Trouble> {
        if !state.loaded {
            let loaded = self.inner.store.load(&self.key).await?;
            let taken = self.take_over(state, &loaded, self.inner.store.now())?;
            self.adopt(state, taken, loaded.value);
            if loaded.has_no_records {
                self.scope.begins_without_records();
            }
            state.loaded = true;
        }
        let missing: Vec<RecordKey> =
            inputs.iter().flat_map(|input| self.scope.missing_records(input)).map(|key| RecordKey(key.0)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let found = self.inner.store.records(&self.key, &missing).await?;
        self.know(missing, found);
        Ok(())
    }

    /// A scope that nobody has read yet begins cautiously: others may have used it.
    pub(crate) fn begin_unread(&mut self, state: &mut State, now: FleetTime) {
        if !state.loaded {
            self.scope.adopt(ScopeValue::after_loss(now), now);
            state.loaded = true;
        }
    }

    fn know(&mut self, keys: Vec<RecordKey>, found: Vec<Option<Bytes>>) {
        for (key, value) in keys.into_iter().zip(found) {
            match value.and_then(|bytes| Record::decode(&bytes)) {
                Some(record) => self.scope.know_record(CallKey(key.0), record),
                None => self.scope.know_absent(CallKey(key.0)),
            }
        }
    }

    /// What is to be gone on with, given what the store holds. An error: a value of a newer release, which must not be
    /// overwritten.
    pub(crate) fn take_over(&mut self, state: &mut State, loaded: &Loaded, now: FleetTime) -> Result<TakenOver, Trouble> {
        state.version = loaded.version;
        let stored = match loaded.value.as_ref().map(|bytes| codec::decode(bytes, now)) {
            None => Stored::Nothing,
            Some(Err(error @ CodecError::TooNew { .. })) => return Err(Trouble::Value(error.to_string())),
            Some(Ok(decoded)) => {
                if decoded.repaired > 0 {
                    self.recorder.repaired(decoded.repaired);
                }
                Stored::Value(Box::new(decoded))
            }
            Some(Err(error)) => {
                tracing::warn!(scope = %self.key, %error, "the stored value cannot be read");
                self.recorder.repaired(1);
                Stored::Damaged
            }
        };
        let taken = memory::take_over(state.memory.as_ref(), stored, now);
        state.epoch = taken.epoch;
        if let Some(loss) = taken.loss {
            let target = self.scope.target();
            tracing::warn!(
                provider = target.provider,
                account = target.account,
                ?loss,
                "the store has less than was written; going on with what is remembered"
            );
            self.recorder.merged(loss);
        }
        Ok(taken)
    }

    pub(crate) fn adopt(&mut self, state: &mut State, taken: TakenOver, bytes: Option<Bytes>) {
        let now = self.inner.store.now();
        // After a loss the memory stays as it is until what was merged from it is written.
        if taken.loss.is_none() {
            state.memory = bytes.map(|bytes| Memory::of(bytes, taken.epoch, &taken.value, now));
        }
        if self.scope.is_returning() {
            self.scope.rejoin(taken.value, state.written_at(), now);
            state.own.extend(self.scope.settle_unheard(|| self.inner.next_number()));
        } else if taken.loss.is_some() {
            self.scope.adopt_merged(taken.value, now);
        } else {
            self.scope.adopt(taken.value, now);
        }
        self.lead.see(self.scope.value().leader.as_ref());
        // What is different in it was told by whoever wrote it.
        state.told = Told::of(self.scope.value(), now);
    }

    /// The lead goes to where the calls come in, if that replica lives.
    fn hand_over(&self, state: &State) -> Option<Input> {
        let heir = self.scope.heir().filter(|_| state.outage.is_none())?;
        let address = self.inner.registry().address_of(heir)?;
        let target = self.scope.target();
        tracing::info!(
            provider = target.provider,
            account = target.account,
            replica = heir,
            address = &*address,
            "nearly all calls come in at another replica; it leads from now on"
        );
        Some(Input::HandOver(heir, address))
    }

    /// Sends calls on when another replica leads.
    fn move_away(&mut self, state: &mut State, inputs: Vec<Input>, now: FleetTime) -> Vec<Input> {
        if self.scope.led_elsewhere(now).is_none() {
            return inputs;
        }
        let mut fx = Effects::default();
        let left = self.scope.move_away(inputs, now, &mut fx);
        self.tell(state, &mut fx, now);
        left
    }

    /// Looks up who waits while it waits, and takes again who is about to be refused.
    fn read_late(&mut self, state: &mut State, fx: &mut Effects) {
        for input in std::mem::take(&mut fx.unread) {
            input.reply().into_iter().for_each(|reply| self.scope.read_first(reply));
            state.own.push_back(input);
        }
        let keys: Vec<RecordKey> = std::mem::take(&mut fx.to_read).into_iter().map(|key| RecordKey(key.0)).collect();
        if !keys.is_empty() {
            let (inner, scope) = (self.inner.clone(), self.key);
            state.reads.spawn(async move {
                let found = inner.store.records(&scope, &keys).await;
                (keys, found)
            });
        }
    }

    fn found(&mut self, state: &mut State, found: Option<Found>) {
        match found {
            Some((keys, Ok(found))) => {
                state.own.extend(keys.iter().map(|key| Input::Taken(CallKey(key.0))));
                self.know(keys, found);
            }
            // The next commit will meet the same trouble; until then those calls are not refused.
            Some((_, Err(error))) => tracing::debug!(scope = %self.key, %error, "records cannot be read"),
            None => {}
        }
    }

    /// A commit of what the step made true.
    fn take_off(&self, state: &mut State, fx: Effects, now: FleetTime) -> Flight {
        let next = state.version.next(now);
        let records = fx.records.iter().map(|change| RecordWrite {
            key: RecordKey(change.key.0),
            value: Bytes::from(change.record.encode()),
            keep_until: change.record.keep_until(),
            must_be: if change.must_be_new { Expect::Absent } else { Expect::Anything },
        });
        let value = self.scope.value();
        let schema = self.inner.registry().schema();
        let header = codec::Header::new(state.epoch, next, u64::from(self.inner.replica)).in_schema(schema);
        let bytes = codec::encode(&header, value);
        let until = keep_until(value, now);
        let commit = Commit { expected: state.version, value: bytes.clone(), keep_until: until, records: records.collect() };
        state.version = next;
        let (inner, scope) = (self.inner.clone(), self.key);
        let landing = Box::pin(async move { inner.store.commit(&scope, commit).await });
        Flight::new(fx, now, bytes, (value.lineage.clone(), until), landing)
    }

    fn landed(&mut self, state: &mut State, flight: Flight, outcome: Outcome) {
        let now = self.inner.store.now();
        match outcome {
            Ok(Committed::Done(_)) => {
                state.refused = 0;
                state.memory = Some(Memory::written(flight.bytes, state.epoch, flight.lineage, flight.until));
                self.lead.see(self.scope.value().leader.as_ref());
                self.tell_on_commit(state, flight.fx, flight.decided_at);
                if self.scope.led_elsewhere(now).is_some() && !state.waiting.is_empty() {
                    // The lead was handed over: who waits goes there at once.
                    state.wake_at = Some(now);
                }
            }
            Ok(Committed::Stale(loaded)) => {
                let inputs = self.turn_back(state, flight, now);
                match self.take_over(state, &loaded, now) {
                    Ok(taken) => {
                        self.adopt(state, taken, loaded.value);
                        self.again(state, inputs);
                    }
                    Err(trouble) => {
                        state.loaded = false;
                        self.refuse(state, inputs, &trouble.to_string());
                    }
                }
            }
            Ok(Committed::RecordExists { found }) => {
                // The same keys were granted on another replica: read everything again, their records included.
                let mut inputs = self.turn_back(state, flight, now);
                inputs.extend(found.into_iter().map(|(key, _)| Input::Taken(CallKey(key.0))));
                state.loaded = false;
                self.again(state, inputs);
            }
            Err(error) => {
                let flights = std::iter::once(flight).chain(state.air.take_all()).collect();
                self.lose_commits(state, flights, &error);
            }
        }
    }

    /// A commit was refused: it and those behind it are undone, the last one first. Returns what is to be taken again.
    fn turn_back(&mut self, state: &mut State, refused: Flight, now: FleetTime) -> Vec<Input> {
        self.recorder.conflict();
        state.refused += 1;
        let mut flights = state.air.take_all();
        flights.insert(0, refused);
        let mut again: Vec<Vec<Input>> = flights.into_iter().rev().map(|flight| self.scope.undo(flight.fx, now)).collect();
        again.reverse();
        let inputs: Vec<Input> = again.into_iter().flatten().collect();
        inputs.iter().filter_map(Input::reply).for_each(|reply| self.scope.read_first(reply));
        inputs
    }

    fn again(&mut self, state: &mut State, inputs: Vec<Input>) {
        if state.refused > TRIES {
            state.refused = 0;
            return self.refuse(state, inputs, "too many replicas write this scope at once");
        }
        // Before what came later.
        inputs.into_iter().rev().for_each(|input| state.own.push_front(input));
        state.wake_at = Some(self.inner.store.now());
    }

    /// What holds whatever becomes of the commit.
    pub(crate) fn tell(&mut self, state: &mut State, fx: &mut Effects, decided_at: FleetTime) {
        self.answer(state, std::mem::take(&mut fx.replies), decided_at);
        std::mem::take(&mut fx.events).into_iter().for_each(|event| self.recorder.record(event, decided_at));
    }

    /// What the commit made true.
    fn tell_on_commit(&mut self, state: &mut State, fx: Effects, decided_at: FleetTime) {
        self.answer(state, fx.replies_on_commit, decided_at);
        fx.events_on_commit.into_iter().for_each(|event| self.recorder.record(event, decided_at));
    }

    pub(crate) fn answer(&mut self, state: &mut State, replies: Vec<(ReplyId, Reply)>, decided_at: FleetTime) {
        let late = self.inner.store.now().since(decided_at);
        for (id, mut reply) in replies {
            reply.age_by(late);
            let unheard = match state.waiting.remove(&id) {
                Some(sender) => sender.send(reply).err(),
                None => {
                    self.scope.was_not_heard(id);
                    Some(reply)
                }
            };
            // A caller that is gone cannot use its slot or place: give it back at once.
            state.own.extend(unheard.and_then(|reply| self.inner.release_of(&reply)));
        }
    }

    /// Nothing can be decided on what is stored: nobody is left without an answer, and who waits goes on waiting until the end
    /// of its hold.
    fn refuse(&mut self, state: &mut State, inputs: Vec<Input>, why: &str) {
        tracing::warn!(scope = %self.key, why, "nothing can be decided");
        let now = self.inner.store.now();
        let mut fx = self.scope.step_without_store(inputs, why, now);
        self.tell(state, &mut fx, now);
        let again = now + crate::outage::PROBE_EVERY;
        state.wake_at = Some(fx.wake_at.map_or(again, |at| at.min(again)));
    }
}

impl State {
    fn hear(&mut self, message: Message) -> Option<Input> {
        match message {
            // One that was answered meanwhile has seen to its answer itself.
            Message::Told { input: Input::Leave(id), .. } => self.waiting.remove(&id).map(|_| Input::Leave(id)),
            Message::Told { input, reply } => {
                if !matches!(input, Input::Inspect(_) | Input::Find(..)) {
                    self.last_spoken = Instant::now();
                }
                if let Some((id, sender)) = reply {
                    self.waiting.insert(id, sender);
                }
                Some(input)
            }
            Message::WhoLeads(asked) => {
                // Who has commits on their way finds out by them.
                self.loaded &= !self.air.is_empty() || self.outage.is_some();
                self.want_to_know.push(asked);
                None
            }
            Message::StoreReached { scopes } => {
                self.look.begin(look::due_in(self.last_spoken.elapsed(), scopes, self.rng.random_range(0..=1_000)));
                None
            }
        }
    }
}

/// Why nothing can be decided with the store.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// It does not answer.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// What it holds must not be overwritten.
    #[error("{0}")]
    Value(String),
}
