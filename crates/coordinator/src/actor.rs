//! The thin loop around a scope: receive, load, step, commit, answer. One batch is in flight at a time; what arrives meanwhile
//! makes up the next one. One timer per scope.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use paceline_core::units::{FleetTime, Span};
use paceline_store::{
    CodecError, Commit, Committed, Expect, Loaded, RecordKey, RecordWrite, ScopeKey, Store, StoreError, Version, codec,
    keep_until,
};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::front::Inner;
use crate::gauges::Gauges;
use crate::lead::LeadCell;
use crate::memory::{self, Memory, Stored};
use crate::metrics::Recorder;
use crate::record::{CallKey, Record};
use crate::scope::{Effects, Input, Reply, ReplyId, Scope};

/// How many inputs make up one batch at most.
const BATCH: usize = 512;
/// How many messages may queue before callers wait to send more.
pub(crate) const INBOX: usize = 16_384;
/// A scope that nobody has spoken to for this long, and in which nobody waits, is put away.
const IDLE: Duration = Duration::from_secs(120);
/// One that could not be put away then, because a lease is known or somebody looks at it, tries again after this.
const STILL_IDLE: Duration = Duration::from_secs(10);
/// How often a refused commit is decided anew before the callers are told that the store is busy.
const TRIES: u32 = 16;
/// After this long a store that did not answer is asked again.
const RETRY_STORE: Span = Span::from_millis(250);

/// What is sent to an actor.
pub(crate) struct Message {
    pub(crate) input: Input,
    pub(crate) reply: Option<(ReplyId, oneshot::Sender<Reply>)>,
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

/// What the loop keeps between steps.
struct State {
    version: Version,
    epoch: u64,
    /// The last value that is known to be, or to have been, in the store.
    memory: Option<Memory>,
    loaded: bool,
    waiting: HashMap<ReplyId, oneshot::Sender<Reply>>,
    wake_at: Option<FleetTime>,
    rng: StdRng,
    /// Inputs that came out of answering: slots whose caller was gone.
    own: VecDeque<Input>,
}

impl<S: Store> Actor<S> {
    pub(crate) async fn run(mut self) {
        let mut state = State {
            version: Version::NONE,
            epoch: 0,
            memory: None,
            loaded: false,
            waiting: HashMap::new(),
            wake_at: None,
            rng: StdRng::from_rng(&mut rand::rng()),
            own: VecDeque::new(),
        };
        let mut batch = Vec::with_capacity(BATCH);
        let mut last_spoken = Instant::now();
        loop {
            let until = self.sleep_until(&state, last_spoken);
            let received =
                if state.own.is_empty() { timeout_at(until, self.inbox.recv_many(&mut batch, BATCH)).await } else { Ok(0) };
            if received == Ok(0) && state.own.is_empty() {
                return; // the coordinator is gone
            }
            let mut inputs: Vec<Input> = state.own.drain(..).collect();
            for message in batch.drain(..) {
                if !matches!(message.input, Input::Inspect(_)) {
                    last_spoken = Instant::now();
                }
                if let Some((id, sender)) = message.reply {
                    state.waiting.insert(id, sender);
                }
                inputs.push(message.input);
            }
            self.turn(&mut state, inputs).await;
            if self.can_rest(&state, last_spoken) && self.inner.put_away(&self.key, &self.inbox) {
                return;
            }
        }
    }

    /// Until something is to be decided, or until it may be time to rest.
    fn sleep_until(&self, state: &State, last_spoken: Instant) -> Instant {
        let now = Instant::now();
        let rest = if last_spoken + IDLE > now { last_spoken + IDLE } else { now + STILL_IDLE };
        let wake = state.wake_at.map(|at| now + at.since(self.inner.store.now()).to_duration());
        wake.map_or(rest, |wake| wake.min(rest))
    }

    fn can_rest(&self, state: &State, last_spoken: Instant) -> bool {
        state.waiting.is_empty() && state.own.is_empty() && self.scope.is_idle() && last_spoken.elapsed() >= IDLE
    }

    /// One batch: decide, commit, answer; decided anew on the newer value while others commit first.
    async fn turn(&mut self, state: &mut State, mut inputs: Vec<Input>) {
        for _ in 0..TRIES {
            if let Err(error) = self.prepare(state, &inputs).await {
                return self.fail(state, inputs, &error);
            }
            let now = self.inner.store.now();
            inputs = self.move_away(state, inputs, now);
            let mut fx = self.scope.step(std::mem::take(&mut inputs), now, &mut state.rng);
            state.wake_at = fx.wake_at;
            self.gauges.write(&self.scope, now);
            self.tell(state, &mut fx, now);
            if !fx.changed {
                return self.tell_on_commit(state, fx, now);
            }
            match self.commit(state, &fx, now).await {
                Ok((Committed::Done(version), written)) => {
                    state.version = version;
                    self.lead.see(self.scope.value().leader.as_ref());
                    state.memory = Some(Memory::of(written, state.epoch, self.scope.value(), now));
                    return self.tell_on_commit(state, fx, now);
                }
                Ok((Committed::Stale(loaded), _)) => {
                    self.recorder.conflict();
                    let adopted = self.adopt(state, loaded, now);
                    inputs = self.scope.undo(fx, now);
                    if let Err(error) = adopted {
                        state.loaded = false;
                        return self.fail(state, inputs, &error);
                    }
                }
                Ok((Committed::RecordExists { found }, _)) => {
                    // The same keys were granted on another replica: read everything again, their records included.
                    self.recorder.conflict();
                    inputs = self.scope.undo(fx, now);
                    inputs.extend(found.into_iter().map(|(key, _)| Input::Taken(CallKey(key.0))));
                    state.loaded = false;
                }
                Err(error) => {
                    inputs = self.scope.undo(fx, now);
                    state.loaded = false;
                    return self.fail(state, inputs, &error.to_string());
                }
            }
        }
        self.fail(state, inputs, "too many replicas write this scope at once");
    }

    /// Loads the value at first, and the records that the inputs need.
    async fn prepare(&mut self, state: &mut State, inputs: &[Input]) -> Result<(), String> {
        if !state.loaded {
            let loaded = self.inner.store.load(&self.key).await.map_err(|error| error.to_string())?;
            self.adopt(state, loaded, self.inner.store.now())?;
            state.loaded = true;
        }
        let missing: Vec<RecordKey> =
            inputs.iter().flat_map(|input| self.scope.missing_records(input)).map(|key| RecordKey(key.0)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let found = self.inner.store.records(&self.key, &missing).await.map_err(|error| error.to_string())?;
        for (key, value) in missing.into_iter().zip(found) {
            if let Some(record) = value.and_then(|bytes| Record::decode(&bytes)) {
                self.scope.know_record(CallKey(key.0), record);
            }
        }
        Ok(())
    }

    /// Takes over what the store holds. An error: a value of a newer release, which must not be overwritten.
    fn adopt(&mut self, state: &mut State, loaded: Loaded, now: FleetTime) -> Result<(), String> {
        state.version = loaded.version;
        let stored = match loaded.value.as_ref().map(|bytes| codec::decode(bytes, now)) {
            None => Stored::Nothing,
            Some(Err(error @ CodecError::TooNew { .. })) => return Err(error.to_string()),
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
        match (taken.loss, loaded.value) {
            (None, bytes) => {
                state.memory = bytes.map(|bytes| Memory::of(bytes, taken.epoch, &taken.value, now));
                self.scope.adopt(taken.value, now);
            }
            // The memory stays as it is until what was merged from it is written.
            (Some(loss), _) => {
                tracing::warn!(scope = %self.key, ?loss, "the store has less than was written; going on with what is remembered");
                self.recorder.merged(loss);
                self.scope.adopt_merged(taken.value, now);
            }
        }
        Ok(())
    }

    /// Sends calls on when another replica leads.
    fn move_away(&mut self, state: &mut State, inputs: Vec<Input>, now: FleetTime) -> Vec<Input> {
        self.lead.see(self.scope.value().leader.as_ref());
        if self.scope.led_elsewhere(now).is_none() {
            return inputs;
        }
        let mut fx = Effects::default();
        let left = self.scope.move_away(inputs, now, &mut fx);
        self.tell(state, &mut fx, now);
        left
    }

    /// Writes what the step made true; gives back the bytes it wrote.
    async fn commit(&self, state: &State, fx: &Effects, now: FleetTime) -> Result<(Committed, Bytes), StoreError> {
        let next = state.version.next(now);
        let records = fx.records.iter().map(|change| RecordWrite {
            key: RecordKey(change.key.0),
            value: Bytes::from(change.record.encode()),
            keep_until: change.record.keep_until(),
            must_be: if change.must_be_new { Expect::Absent } else { Expect::Anything },
        });
        let header = codec::Header::new(state.epoch, next, u64::from(self.inner.replica));
        let value = codec::encode(&header, self.scope.value());
        let commit = Commit {
            expected: state.version,
            value: value.clone(),
            keep_until: keep_until(self.scope.value(), now),
            records: records.collect(),
        };
        Ok((self.inner.store.commit(&self.key, commit).await?, value))
    }

    /// What holds whatever becomes of the commit.
    fn tell(&mut self, state: &mut State, fx: &mut Effects, decided_at: FleetTime) {
        self.answer(state, std::mem::take(&mut fx.replies), decided_at);
        std::mem::take(&mut fx.events).into_iter().for_each(|event| self.recorder.record(event));
    }

    /// What the commit made true.
    fn tell_on_commit(&mut self, state: &mut State, fx: Effects, decided_at: FleetTime) {
        self.answer(state, fx.replies_on_commit, decided_at);
        fx.events_on_commit.into_iter().for_each(|event| self.recorder.record(event));
    }

    fn answer(&self, state: &mut State, replies: Vec<(ReplyId, Reply)>, decided_at: FleetTime) {
        let late = self.inner.store.now().since(decided_at);
        for (id, mut reply) in replies {
            reply.age_by(late);
            let unheard = match state.waiting.remove(&id) {
                Some(sender) => sender.send(reply).err(),
                None => Some(reply),
            };
            // A caller that is gone cannot use its slot: give it back at once.
            state.own.extend(unheard.and_then(|reply| self.inner.release_of(&reply)));
        }
    }

    /// The store is away: nobody is left without an answer, and who waits goes on waiting until the end of its hold.
    fn fail(&mut self, state: &mut State, inputs: Vec<Input>, why: &str) {
        tracing::warn!(scope = %self.key, why, "the store does not answer");
        let now = self.inner.store.now();
        let mut fx = self.scope.step_without_store(inputs, why, now);
        self.tell(state, &mut fx, now);
        let again = now + RETRY_STORE;
        state.wake_at = Some(fx.wake_at.map_or(again, |at| at.min(again)));
    }
}
