//! The scope is led by another replica: calls are sent on to it, with their places.

use std::sync::Arc;

use paceline_core::leader::{self, LEADS_FOR, Leader, Traffic};
use paceline_core::queue::AskId;
use paceline_core::units::FleetTime;

use super::{AskInput, Effects, Input, Reply, Scope, reply_to};
use crate::api::{AcquireRequest, Answer, CallError};

impl Scope {
    /// This replica can be reached here: it may lead, and sends calls on to whoever leads.
    #[must_use]
    pub fn with_address(mut self, address: Option<Arc<str>>) -> Self {
        self.address = address;
        self
    }

    /// The other replica that decides at `now`, if calls can be sent on to it.
    pub fn led_elsewhere(&self, now: FleetTime) -> Option<&Leader> {
        self.address.as_ref()?;
        self.value.leader.as_ref().filter(|leader| leader.replica != self.replica && leader.holds_at(now))
    }

    /// Sends on who waits here and who comes, but for those who are to be decided here whoever leads. What the leader itself has sent
    /// on, because it did not know yet that it leads, goes back to it. Returns what is left to do.
    pub fn move_away(&mut self, inputs: Vec<Input>, now: FleetTime, fx: &mut Effects) -> Vec<Input> {
        let Some(leader) = self.led_elsewhere(now).map(|leader| leader.replica) else { return inputs };
        let ids: Vec<AskId> =
            self.calls.iter().filter(|(_, call)| goes(&call.input.request, leader)).map(|(id, _)| *id).collect();
        for id in ids {
            if self.calls.get(&id).is_some_and(|call| call.report.is_some()) {
                // Its report was taken: the answer to that is a place, which any replica honours.
                self.send_away(id, now, fx);
                continue;
            }
            let Some((queued, _)) = self.queue_ticket(id, now) else { continue };
            let Some(call) = self.forget_call(id) else { continue };
            let moved = CallError::Moved { ticket: Some(queued.ticket) };
            fx.answer(call.reply, Reply::Answer(Err(moved)), None);
        }
        inputs.into_iter().filter_map(|input| moves(input, leader, fx)).collect()
    }

    /// A commit renews the lead of who has it, and takes it where nobody does.
    pub(super) fn take_lead(&mut self, now: FleetTime) {
        self.value.leader = leader::after_commit(self.value.leader.as_ref(), self.replica, self.address.as_ref(), now);
    }

    /// Notes where a call came from.
    pub(super) fn note_origin(&mut self, ask: &AskInput, now: FleetTime) {
        if self.value.leader.as_ref().is_some_and(|leader| leader.replica == self.replica) {
            self.traffic.note(ask.request.sent_on_by, now);
        } else {
            self.traffic = Traffic::default();
        }
    }

    /// The replica that should lead in place of this one: nearly all calls come in there.
    pub fn heir(&self) -> Option<u32> {
        self.traffic.heir().filter(|_| self.alone.is_none() && !self.is_draining)
    }

    /// Hands the lead over with the next commit. Whether it was this replica's to give.
    pub(super) fn hand_over(&mut self, replica: u32, address: Arc<str>, now: FleetTime) -> bool {
        self.traffic = Traffic::default();
        let is_mine = self.value.leader.as_ref().is_some_and(|leader| leader.replica == self.replica);
        if is_mine {
            self.value.leader = Some(Leader { replica, address, until: now + LEADS_FOR });
        }
        is_mine
    }

    /// Gives the lead up with the next commit, so that another replica need not wait for its end. Whether there is anything to do.
    pub(super) fn lay_down_lead(&mut self) -> bool {
        self.address = None;
        let is_mine = self.value.leader.as_ref().is_some_and(|leader| leader.replica == self.replica);
        if is_mine {
            self.value.leader = None;
        }
        is_mine
    }
}

/// Whether a call is decided by the leader and not here.
fn goes(request: &AcquireRequest, leader: u32) -> bool {
    !request.decide_here || request.sent_on_by == Some(leader)
}

fn moves(input: Input, leader: u32, fx: &mut Effects) -> Option<Input> {
    match input {
        Input::Ask(reply, ask) if goes(&ask.request, leader) => {
            let moved = CallError::Moved { ticket: ask.request.ticket.clone() };
            fx.answer(reply, reply_to(None, Err::<Answer, _>(moved)), None);
            None
        }
        Input::Report(reply, report) if !report.request.decide_here => {
            fx.answer(reply, Reply::Report(Err(CallError::Moved { ticket: None })), None);
            None
        }
        other => Some(other),
    }
}
