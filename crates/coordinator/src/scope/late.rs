//! Records of asks are read late: a fresh ask is granted in one round trip, because the commit itself refuses a key that was
//! granted before. Who waits is looked up meanwhile, and nobody is refused before that.

use super::{AskInput, Effects, Input, ReplyId, Scope};
use paceline_core::units::FleetTime;

use crate::record::CallKey;

impl Scope {
    /// Reads the records of asks late from now on: whoever drives the step must take [`Effects::unread`] again, and read
    /// [`Effects::to_read`].
    #[must_use]
    pub fn reading_late(self) -> Self {
        Self { reads_late: true, ..self }
    }

    /// No record is stored of what was just taken over: all there will be are written from here.
    pub fn begins_without_records(&mut self) {
        self.strangers_until = FleetTime::ZERO;
    }

    /// Whether a record may be stored that is not known here. One that was written since the value was taken over is known, or
    /// the next commit is refused; those from before come to their end.
    pub(super) fn may_meet_strangers(&self, now: FleetTime) -> bool {
        now < self.strangers_until
    }

    /// Whether nobody else can have granted what is not known here: this replica leads, and has done so for long enough.
    pub(super) fn knows_all(&self, now: FleetTime) -> bool {
        let leader = self.value.leader.as_ref();
        !self.may_meet_strangers(now) && leader.is_some_and(|leader| leader.replica == self.replica && leader.holds_at(now))
    }

    /// The records that an input reads or writes.
    pub fn keys_of(&self, input: &Input) -> Vec<CallKey> {
        match input {
            Input::Ask(_, ask) | Input::Quote(_, ask) => {
                [Some(ask.key), ask.previous_key].into_iter().chain(ask.families()).flatten().collect()
            }
            Input::Report(_, report) => {
                [report.key, report.next_key()].into_iter().flatten().chain(report.families()).collect()
            }
            Input::Release(_, release) => release.needs().into_iter().collect(),
            Input::Recall(_, key, _) | Input::Taken(key) => vec![*key],
            Input::Leave(_)
            | Input::Settings(_)
            | Input::Drain
            | Input::HandOver(..)
            | Input::Inspect(_)
            | Input::Forget(..)
            | Input::Find(..)
            | Input::Teach(_) => Vec::new(),
        }
    }

    /// The record of this ask is read before it is decided.
    pub fn read_first(&mut self, reply: ReplyId) {
        self.read_first.insert(reply);
    }

    /// What an ask needs read before it is decided: what it tells of its past and is not known here; its own record when it is
    /// known (another replica may have changed it) or was asked for.
    pub(super) fn needed_for(&self, reply: ReplyId, ask: &AskInput) -> Vec<CallKey> {
        let previous = ask.previous_key.filter(|key| !self.records.contains_key(key));
        let own = (self.read_first.contains(&reply) || self.records.contains_key(&ask.key)).then_some(ask.key);
        let families = ask.families().into_iter().flatten().filter(|key| !self.families.knows(key));
        previous.into_iter().chain(own).chain(families).collect()
    }

    pub(super) fn has_been_read(&mut self, reply: ReplyId) -> bool {
        !self.reads_late || self.read_first.remove(&reply) || self.alone.is_some()
    }

    /// Who came in this step and still waits is looked up meanwhile.
    pub(super) fn name_unread(&mut self, fx: &mut Effects) {
        for id in std::mem::take(&mut self.unread_asks) {
            fx.to_read.extend(self.calls.get(&id).filter(|call| !call.is_read).map(|call| call.input.key));
        }
    }
}
