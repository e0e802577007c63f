//! Callers that go without a word: a cancel, an RPC that is dropped, a stream that breaks.
//!
//! Such a call counts no more from then on, wherever it was: in line, about to come into line, or on its way back there because a commit
//! was refused. What is kept for a moment is where it stood, by its key: whoever asks again stands there. Nobody waits for that.

use std::collections::{HashMap, HashSet, VecDeque};

use paceline_core::delays::{self, Cause, DelayPart};
use paceline_core::units::{FleetTime, Span};

use super::ask::{Past, history_after};
use super::{AskId, CallKey, Record, ReplyId, Scope};
use crate::wire::{self, TicketWire};

/// So long does a caller that went without a word find its place again, should it ask with the same key: a connection is opened anew, or
/// another one is tried, within that.
pub(crate) const BACK_WITHIN: Span = Span::from_secs(5);
/// The most places that are kept so; beyond, the oldest is forgotten.
const MOST_KEPT: usize = 10_000;

/// Who went, and where those stood that may come back.
#[derive(Debug, Default)]
pub(super) struct Gone {
    /// Callers whose call was neither in line nor answered when they went.
    callers: HashSet<ReplyId>,
    places: HashMap<CallKey, Stood>,
    /// The places by the time at which they are forgotten.
    ends: VecDeque<(FleetTime, CallKey)>,
}

/// Where a call stood.
#[derive(Debug)]
struct Stood {
    past: Past,
    /// Since when it is away, and what it waited for then; `None`: its wait was over.
    away: Option<(FleetTime, Cause)>,
    until: FleetTime,
}

impl Gone {
    /// Whether the caller of this has gone.
    pub(super) fn has(&self, reply: ReplyId) -> bool {
        self.callers.contains(&reply)
    }

    /// The same, asked for the last time.
    pub(super) fn take(&mut self, reply: ReplyId) -> bool {
        self.callers.remove(&reply)
    }

    fn keep(&mut self, key: CallKey, past: Past, away: Option<(FleetTime, Cause)>, now: FleetTime) {
        let until = now + BACK_WITHIN;
        if self.ends.len() >= MOST_KEPT
            && let Some((end, oldest)) = self.ends.pop_front()
        {
            self.forget(oldest, end);
        }
        self.ends.push_back((until, key));
        self.places.insert(key, Stood { past, away, until });
    }

    /// The place of a call that is asked for again, with the wait since it went.
    pub(super) fn come_back(&mut self, key: CallKey, now: FleetTime) -> Option<Past> {
        let Stood { mut past, away, .. } = self.places.remove(&key).filter(|stood| stood.until > now)?;
        if let Some((since, cause)) = away {
            delays::add(&mut past.prior, &cause, now.since(since));
        }
        past.call_floor = past.call_floor.filter(|floor| floor.until > now);
        Some(past)
    }

    /// The call is over, or was given back by word.
    pub(super) fn forget_place(&mut self, key: CallKey) {
        self.places.remove(&key);
    }

    pub(super) fn expire(&mut self, now: FleetTime) {
        while let Some((until, key)) = self.ends.front().copied().filter(|(until, _)| *until <= now) {
            self.ends.pop_front();
            self.forget(key, until);
        }
    }

    fn forget(&mut self, key: CallKey, until: FleetTime) {
        // It may have come back and gone again since.
        if self.places.get(&key).is_some_and(|stood| stood.until <= until) {
            self.places.remove(&key);
        }
    }
}

impl Scope {
    /// The caller went without a word. One that is not in line and was not answered is noted: it comes into no line any more.
    pub(super) fn go(&mut self, reply: ReplyId, now: FleetTime) {
        match self.by_reply.get(&reply).copied() {
            Some(id) => self.leave_line(id, now),
            None => {
                self.gone.callers.insert(reply);
            }
        }
    }

    /// The answer to a caller that had gone is there, and nobody heard it.
    pub fn was_not_heard(&mut self, reply: ReplyId) {
        self.gone.take(reply);
    }

    /// Takes a waiting call out of line; its place is kept for a moment.
    pub(super) fn leave_line(&mut self, id: AskId, now: FleetTime) {
        let cause = self.queue.cause_of(id);
        let waiting = self.queue.remove(id, now);
        let (Some((waiting, parts)), Some(call)) = (waiting, self.forget_call(id)) else { return };
        let past = Past {
            stamp: Some(waiting.ask.stamp),
            asked_at: Some(waiting.ask.asked_at),
            prior: parts,
            history: call.history,
            call_floor: waiting.ask.not_before,
            gave_up: None,
            ran_at: call.ran_at,
        };
        self.gone.keep(call.input.key, past, cause.map(|cause| (now, cause)), now);
    }

    /// Nobody heard of this place: it counts no more. Whether it was there.
    pub(super) fn unheard_place(&mut self, ticket: &TicketWire, now: FleetTime) -> bool {
        let Some(key) = CallKey::from_bytes(&ticket.key) else { return false };
        let mut past = Past::default();
        past.of_ticket(ticket);
        let Some(stamp) = past.stamp.filter(|stamp| self.queue.forget_place(*stamp)) else { return false };
        // It may be asked for again already, and have another place.
        if !self.by_key.contains_key(&key) {
            let cause = ticket.waiting_for.clone().map(|part| DelayPart::from(part).cause);
            let away = cause.map(|cause| (FleetTime::from_micros(ticket.left_at), cause));
            self.gone.keep(key, Past { stamp: Some(stamp), ..past }, away, now);
        }
        true
    }

    /// Nobody heard of this slot, which was given back: asked for again, the call is the next in line.
    pub(super) fn unheard_slot(&mut self, key: CallKey, record: &Record, now: FleetTime) {
        if self.by_key.contains_key(&key) {
            return;
        }
        let wire = record.lease.wire();
        let lease = wire::lease_of(&wire);
        let past = Past { stamp: Some(lease.stamp), history: history_after(&lease), ran_at: wire.ran_at, ..Past::default() };
        self.gone.keep(key, past, None, now);
    }
}
