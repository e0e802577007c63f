//! While the store does not answer: this replica decides with its part of each limit, and brings back what it did.

use std::collections::HashSet;
use std::sync::Arc;

use paceline_core::alone::{Alone, divide};
use paceline_core::denial::{Denial, Reason};
use paceline_core::mode::Mode;
use paceline_core::plan::{GroupPlan, StoreDown};
use paceline_core::queue::AskId;
use paceline_core::report;
use paceline_core::units::{FleetTime, Span};
use paceline_core::value::ScopeValue;

use super::effects::Undo;
use super::lost::{LostCommit, Return, Unheard};
use super::{Answer, DecidedAs, Denied, Effects, Event, RecordChange, Reply, ReplyId, ReportInput, Scope, reply_to};
use crate::inputs::print_of_lease;
use crate::lease_body::LeaseBody;
use crate::record::{CallKey, Record};
use crate::wire;

/// So many late records go with one commit: more would hold the store up longer than a request may take.
const LATE_RECORDS: usize = 1_024;
/// When to try again what needs the store.
const AGAIN_AFTER: Span = Span::from_secs(1);

impl Scope {
    /// Whether the store does not answer, and this replica decides by itself.
    pub fn is_alone(&self) -> bool {
        self.alone.is_some()
    }

    /// From now on each of `among` replicas decides with its part of each limit; groups that are to be closed then are.
    /// `written`: the last value that the store held for sure.
    pub fn go_alone(&mut self, written: ScopeValue, among: u32, now: FleetTime) {
        if self.alone.is_some() {
            return;
        }
        self.alone = Some(Alone::begin(&mut self.value, written, among, now));
        self.plans.clear();
        self.replan_waiting(now);
        self.shut = self.calls.keys().copied().collect();
    }

    /// The store answers again, and holds `stored`, written at `stored_at`: the next step writes what comes of both.
    /// Should another replica be faster with its commit, it is called again with what that one wrote.
    pub fn rejoin(&mut self, stored: ScopeValue, stored_at: FleetTime, now: FleetTime) {
        let back = match (self.alone.take(), self.back.take()) {
            (Some(alone), _) => {
                let (local, lost) = (self.value.clone(), std::mem::take(&mut self.lost));
                Box::new(Return { alone, local, lost })
            }
            (None, Some(back)) => back,
            (None, None) => return self.adopt(stored, now),
        };
        let (value, unheard) = back.with(stored, stored_at, |unheard| self.is_granted_anew(unheard), now);
        (self.back, self.unheard) = (Some(back), unheard);
        let own = |key: &CallKey| self.records.get(key).map(|record| (*key, record.clone()));
        let own: Vec<(CallKey, Arc<Record>)> = self.pending.keys().filter_map(own).collect();
        self.adopt_merged(value, now);
        own.into_iter().for_each(|(key, record)| self.know_record(key, record));
        self.plans.clear();
        self.replan_waiting(now);
    }

    /// Takes in a step of which nobody knows whether it was written. Nobody has heard of what it granted, so nobody sends on it:
    /// those calls go back in line, and what they took is given back here (in the store it stays taken, if it was written).
    /// Everything else it did stands, and is written later. Returns the answers that stand. Of several steps the last one first.
    pub fn land_alone(&mut self, fx: Effects, mut commit: LostCommit, now: FleetTime) -> (Vec<(ReplyId, Reply)>, Vec<Event>) {
        let mut unheard: HashSet<ReplyId> = HashSet::new();
        let mut keys: HashSet<CallKey> = HashSet::new();
        for undo in fx.undo {
            match undo {
                Undo::Ask(granted) => {
                    unheard.insert(granted.call.reply);
                    let key = granted.call.input.key;
                    keys.insert(key);
                    if let Some(record) = self.records.remove(&key) {
                        let lease = record.lease.lease();
                        report::release(&mut self.value, &lease);
                        commit.unheard.push(Unheard { key, lease });
                    }
                    self.back_in_line(*granted, &HashSet::new(), now);
                }
                Undo::Input(_) => {}
                Undo::Pending(changes) => self.keep_for_later(changes, now),
                // It is in the value: should it not be written, it differs from what is stored like anything done alone.
                Undo::Return(_) => {}
            }
        }
        self.lost.insert(0, commit);
        let stands = |change: &RecordChange| !change.must_be_new && !keys.contains(&change.key);
        self.keep_for_later(fx.records.into_iter().filter(stands), now);
        let replies = fx.replies_on_commit.into_iter().filter(|(id, _)| !unheard.contains(id)).collect();
        let is_heard = |event: &Event| !matches!(event, Event::Decided { outcome: DecidedAs::Granted, .. });
        (replies, fx.events_on_commit.into_iter().filter(is_heard).collect())
    }

    /// After a step: what it made true is so at once while this replica is alone, and its records wait for the store.
    pub(super) fn settle_alone(&mut self, now: FleetTime, fx: &mut Effects) {
        if self.alone.is_some() {
            let records = std::mem::take(&mut fx.records);
            self.keep_for_later(records, now);
            fx.undo.clear();
            return;
        }
        let keys: Vec<CallKey> = self.pending.keys().copied().take(LATE_RECORDS).collect();
        let late: Vec<RecordChange> = keys.iter().filter_map(|key| self.pending.remove(key)).collect();
        let written: HashSet<CallKey> = fx.records.iter().map(|change| change.key).collect();
        let still_count = late.into_iter().filter(|change| change.record.keep_until() > now && !written.contains(&change.key));
        let late: Vec<RecordChange> = still_count.collect();
        if !late.is_empty() {
            fx.changed = true;
            fx.records.extend(late.iter().cloned());
            fx.undo.push(Undo::Pending(late));
        }
    }

    /// Whether records wait that can be written now.
    pub(super) fn has_late_records(&self) -> bool {
        self.alone.is_none() && !self.pending.is_empty()
    }

    pub(super) fn keep_for_later(&mut self, records: impl IntoIterator<Item = RecordChange>, now: FleetTime) {
        let late = records.into_iter().map(|change| (change.key, RecordChange { must_be_new: false, ..change }));
        self.pending.extend(late);
        if self.pending.len() > self.pending_sweep_at {
            self.pending.retain(|_, change| change.record.keep_until() > now);
            self.pending_sweep_at = (2 * self.pending.len()).max(1_024);
        }
    }

    /// The plan in force: divided while this replica is alone.
    pub(super) fn as_divided(&self, plan: Arc<GroupPlan>) -> Arc<GroupPlan> {
        match &self.alone {
            Some(alone) if alone.among > 1 => Arc::new(divide(&plan, alone.among)),
            _ => plan,
        }
    }

    /// Refuses who waits for a group that is closed while the store is away.
    pub(super) fn shut_out(&mut self, now: FleetTime, fx: &mut Effects) {
        for id in std::mem::take(&mut self.shut) {
            self.shut_one_out(id, now, fx);
        }
    }

    fn shut_one_out(&mut self, id: AskId, now: FleetTime, fx: &mut Effects) {
        let Some(model) = self.calls.get(&id).map(|call| call.input.request.target.model.clone()) else { return };
        if !self.plan(&model).is_ok_and(|plan| self.is_shut(&plan)) {
            return;
        }
        let Some((waiting, delays)) = self.queue.remove(id, now) else { return };
        let Some(call) = self.forget_call(id) else { return };
        let denial = store_is_away();
        let outcome = DecidedAs::Denied(denial.reason);
        let event = Event::decided(&call.input.request, waiting.ask.class, Mode::Enforce, outcome, delays.clone());
        fx.remember(call.reply, super::why::denied(&call.input, waiting.ask.class, &denial, &delays, now));
        fx.answer(call.reply, reply_to(call.report, Ok(Answer::Denied(Box::new(Denied { denial, delays })))), Some(event));
    }

    /// Whether a group's calls are refused now because the store is away.
    pub(super) fn is_shut(&self, plan: &GroupPlan) -> bool {
        self.alone.is_some() && plan.store_down == StoreDown::Closed
    }

    /// What costs more than this replica's part can be had again when the store is back.
    pub(super) fn explain_alone(&self, denial: &mut Denial) {
        if let Some(alone) = self.alone.as_ref().filter(|alone| alone.among > 1)
            && denial.reason == Reason::CostExceedsCapacity
        {
            let among = alone.among;
            denial.reason = Reason::StoreUnavailable;
            denial.retry_after = Some(AGAIN_AFTER);
            denial.detail =
                format!("the store does not answer, and one of {among} replicas alone has no room for it: {}", denial.detail);
        }
    }

    /// The record of an authentic lease that cannot be looked up now, as its token tells it.
    pub(super) fn record_as_told(&self, input: &ReportInput) -> Option<Record> {
        self.alone.as_ref()?;
        let lease = input.lease.as_ref().filter(|_| input.is_authentic)?;
        let told = wire::lease_of(lease);
        Some(Record {
            print: print_of_lease(lease),
            lease: LeaseBody::of(lease),
            is_over: false,
            was_released: false,
            told_again: 0,
            seq: 0,
            answered: false,
            has_begun: false,
            hold_until: told.hold_until,
            ends_at: told.send_at + told.ttl,
            call_floor: None,
            paid_attempts: lease.paid_attempts,
            verdict: None,
            delays: Vec::new(),
            shadow: None,
        })
    }
}

/// The refusal of a group that is closed while the store is away.
pub(super) fn store_is_away() -> Denial {
    Denial {
        reason: Reason::StoreUnavailable,
        retry_after: Some(AGAIN_AFTER),
        detail: "the store does not answer, and `on_store_down: closed` lets nothing through meanwhile".to_owned(),
    }
}
