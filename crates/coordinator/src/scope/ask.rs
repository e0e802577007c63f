//! An ask: idempotency, history and bounds, then a place in line.

use std::sync::Arc;

use paceline_core::delays::DelayPart;
use paceline_core::denial::Reason;
use paceline_core::lease::{CallFloor, History, Lease, Serial};
use paceline_core::mode::Mode;
use paceline_core::plan::{ClassPolicy, GroupPlan};
use paceline_core::queue::{Ask, MOST_WAITING_IN_GROUP};
use paceline_core::report;
use paceline_core::units::{FleetTime, Span};

use super::used::kind_of;
use super::{AskInput, Call, Effects, Event, Input, ReplyId, Scope, reply_to};
use crate::api::{Answer, CallError, Denied, FIRST_HOLD, ReportAnswer};
use crate::record::{CallKey, Record};
use crate::scope::DecidedAs;
use crate::wire;

/// What the call has been through before this ask.
#[derive(Default)]
pub(super) struct Past {
    stamp: Option<Serial>,
    asked_at: Option<FleetTime>,
    prior: Vec<DelayPart>,
    pub(super) history: History,
    call_floor: Option<CallFloor>,
    gave_up: Option<Reason>,
}

/// Until when a call waits.
pub(super) struct Bounds {
    wait_until: FleetTime,
    until_deadline: bool,
    pub(super) deadline: Option<FleetTime>,
}

impl Scope {
    /// Takes an ask; `report`: it is the next attempt of a reported call, and its answer completes the report's.
    pub(super) fn ask(
        &mut self,
        reply: ReplyId,
        input: &Arc<AskInput>,
        report: Option<Box<ReportAnswer>>,
        now: FleetTime,
        fx: &mut Effects,
    ) {
        let plan = match self.plan(&input.request.target.model) {
            Ok(plan) => plan,
            Err(error) => return fx.answer(reply, reply_to(report, Err(error)), None),
        };
        let mode = self.mode_of(&input.request);
        if mode == Mode::Off {
            return self.pass_by(reply, input, plan, mode, report, now, fx);
        }
        let mut past = self.past_of(input, now);
        let met = match self.supersede(input, &mut past, now, fx) {
            Err(error) => Some(Err(error)),
            Ok(()) => self.meet_record(reply, input, &mut past, now, fx),
        };
        match (met, mode) {
            (None, _) => {}
            // Nobody fails because of us: it is let through under a lease of its own.
            (Some(Err(_)), Mode::Shadow) => fx.events.push(misnamed(input)),
            (Some(answer), _) => return fx.answer(reply, reply_to(report, answer), None),
        }
        let policy = *plan.class(input.request.class);
        let refusal = self.refusal(input, &plan, &policy, &past);
        let (refusal, would_deny) = if mode == Mode::Shadow { (None, refusal) } else { (refusal, None) };
        if let Some(denied) = refusal {
            let event = Event::Decided {
                model: Arc::from(input.request.target.model.as_str()),
                class: input.request.class,
                outcome: DecidedAs::Denied(denied.denial.reason),
                delays: Vec::new(),
            };
            return fx.answer(reply, reply_to(report, Ok(Answer::Denied(Box::new(denied)))), Some(event));
        }
        let bounds = bounds(input, &policy, &past, now);
        let call = Call {
            reply,
            input: input.clone(),
            hold_until: now + self.hold_of(input, report.is_some()),
            place_lost: input.place_lost,
            report,
            history: past.history,
            deadline: bounds.deadline,
            would_deny: would_deny.map(|denied| denied.denial),
        };
        let ask = self.line_up(input, plan, &policy, past, &bounds, now);
        self.enqueue(ask, call, now);
    }

    pub(super) fn line_up(
        &mut self,
        input: &AskInput,
        plan: Arc<GroupPlan>,
        policy: &ClassPolicy,
        past: Past,
        bounds: &Bounds,
        now: FleetTime,
    ) -> Ask {
        let request = &input.request;
        self.next_ask += 1;
        let ttl = self.ttl_of(request, &plan);
        Ask {
            id: self.next_ask,
            stamp: past.stamp.unwrap_or_else(|| self.next_serial(now)),
            class: request.class,
            plan,
            cost: request.cost.clone(),
            kind: kind_of(&request.target.model, &request.labels),
            cost_estimated: request.cost_estimated,
            asked_at: past.asked_at.unwrap_or(now),
            entered_at: now,
            wait_until: bounds.wait_until,
            until_deadline: bounds.until_deadline,
            honor_cap: policy.honor_cap,
            not_before: past.call_floor,
            ttl,
            prior: past.prior,
        }
    }

    /// Why the call gets no place, whatever the buckets hold.
    fn refusal(&self, input: &AskInput, plan: &GroupPlan, policy: &ClassPolicy, past: &Past) -> Option<Denied> {
        let request = &input.request;
        if let Some(reason) = past.gave_up {
            let detail = format!("the attempt before ended with {}; another one is not allowed", reason.name());
            return Some(Denied::at_once(reason, None, detail));
        }
        if request.attempt > policy.attempts {
            let detail = format!(
                "a {} call is sent {} times at most, and this is attempt {}",
                request.class.name(),
                policy.attempts,
                request.attempt
            );
            return Some(Denied::at_once(Reason::AttemptsExhausted, None, detail));
        }
        if request.deadline == Some(Span::ZERO) {
            return Some(Denied::at_once(Reason::Deadline, Some(Span::ZERO), "the deadline is over already (deadline = 0)"));
        }
        if self.queue.len_of_group(&plan.key) >= MOST_WAITING_IN_GROUP {
            let detail = format!("{MOST_WAITING_IN_GROUP} calls wait for {} already", plan.key);
            return Some(Denied::at_once(Reason::QueueFull, Some(Span::from_secs(1)), detail));
        }
        None
    }

    /// An ask without a ticket is held a second at most, so that a lost reply costs no more.
    fn hold_of(&self, input: &AskInput, is_retry: bool) -> Span {
        let has_place = input.ticket.is_some() && !is_retry;
        match (self.is_draining, has_place) {
            (true, _) => Span::ZERO,
            (false, true) => input.request.hold,
            (false, false) => input.request.hold.min(FIRST_HOLD),
        }
    }

    pub(super) fn past_of(&self, input: &AskInput, now: FleetTime) -> Past {
        let mut past = Past::default();
        if let (Some(lease), Some(key)) = (&input.previous, input.previous_key) {
            past.history = history_after(&wire::lease_of(lease));
            // The record may tell of another lease, if the key was asked for again.
            if let Some(record) = self.records.get(&key).filter(|record| record.lease.serial == lease.serial) {
                past.history.paid_attempts = record.paid_attempts;
                past.call_floor = record.call_floor.filter(|floor| floor.until > now);
                past.gave_up = record.gave_up();
            }
        }
        if let Some(ticket) = &input.ticket {
            past.stamp = ticket.stamp.clone().map(Serial::from);
            past.asked_at = Some(FleetTime::from_micros(ticket.asked_at));
            past.prior = ticket.parts.iter().cloned().map(DelayPart::from).collect();
            let away = now.since(FleetTime::from_micros(ticket.left_at));
            if let Some(waiting_for) = ticket.waiting_for.clone().map(DelayPart::from) {
                paceline_core::delays::add(&mut past.prior, &waiting_for.cause, away);
            }
            past.history = History { waited: Span::from_micros(ticket.waited), paid_attempts: ticket.paid_attempts };
            past.call_floor =
                wire::call_floor_of(ticket.call_floor, ticket.call_floor_source).filter(|floor| floor.until > now);
        }
        past
    }

    /// A second ask with the same key replaces the one that is held, and takes over its place.
    fn supersede(&mut self, input: &AskInput, past: &mut Past, now: FleetTime, fx: &mut Effects) -> Result<(), CallError> {
        let Some(id) = self.by_key.get(&input.key).copied() else { return Ok(()) };
        let Some(call) = self.calls.get(&id) else { return Ok(()) };
        if call.input.print != input.print {
            return Err(other_call(input));
        }
        if let Some(waiting) = self.queue.get(id) {
            past.stamp = Some(waiting.ask.stamp);
            past.asked_at = Some(waiting.ask.asked_at);
            past.call_floor = waiting.ask.not_before.filter(|floor| floor.until > now);
            past.history = call.history;
        }
        // The ticket for the replaced caller tells the wait so far.
        past.prior = self.send_away(id, now, fx).unwrap_or_default();
        Ok(())
    }

    /// What the record of this key means for an ask: its answer, or `None` when it is to be decided (anew). The same lease while
    /// its slot can still be used; later the same key means *I did not send*, and the lease is given up.
    fn meet_record(
        &mut self,
        reply: ReplyId,
        input: &Arc<AskInput>,
        past: &mut Past,
        now: FleetTime,
        fx: &mut Effects,
    ) -> Option<Result<Answer, CallError>> {
        let record = self.records.get(&input.key)?;
        match meaning(record, input, now) {
            Met::Free => None,
            Met::Usable => Some(Ok(Answer::Granted(Box::new(self.grant_again(record, now))))),
            Met::Refused(error) => Some(Err(error)),
            Met::Missed => {
                let lease = wire::lease_of(&record.lease);
                *past = Past { stamp: Some(lease.stamp), history: history_after(&lease), ..Past::default() };
                fx.bind(reply, Input::Ask(reply, input.clone()));
                self.give_up(input.key, now, fx);
                None
            }
        }
    }

    /// The call with this key waits here, but the store has a record of it: another replica has granted it meanwhile.
    pub(super) fn taken(&mut self, key: CallKey, now: FleetTime, fx: &mut Effects) {
        let Some(call) = self.by_key.get(&key).and_then(|id| self.calls.get(id)).cloned() else { return };
        let Some(record) = self.records.get(&key) else { return };
        let answer = match meaning(record, &call.input, now) {
            // Knowing the record is enough: it will be overwritten.
            Met::Free => return fx.take_again(Input::Taken(key)),
            Met::Missed => {
                fx.take_again(Input::Taken(key));
                return self.give_up(key, now, fx);
            }
            Met::Usable => Ok(Answer::Granted(Box::new(self.grant_again(record, now)))),
            Met::Refused(error) => Err(error),
        };
        self.leave(call.reply, now);
        fx.answer(call.reply, reply_to(call.report, answer), None);
    }

    /// Ends the lease of a slot that was missed.
    fn give_up(&mut self, key: CallKey, now: FleetTime, fx: &mut Effects) {
        let Some(mut record) = self.records.get(&key).cloned() else { return };
        let lease = Lease { hold_until: record.hold_until, ..wire::lease_of(&record.lease) };
        // One that ended by itself is settled already: its reservation was probably used (I-4).
        if now < record.ends_at {
            report::release(&mut self.value, &lease);
            self.move_flight(lease.class, Some(lease.hold_until), None);
        }
        (record.is_over, record.was_released) = (true, true);
        fx.events_on_commit.push(Event::LateUse { model: Arc::from(record.lease.model.as_str()) });
        self.change_record(key, record, fx);
    }

    pub(super) fn change_record(&mut self, key: CallKey, record: Record, fx: &mut Effects) {
        self.know_record(key, record.clone());
        fx.write(key, record, false);
    }
}

/// What a record means for an ask with its key.
enum Met {
    /// Nothing: it was given back.
    Free,
    /// The slot can still be used: the same lease.
    Usable,
    /// It cannot be used any more, and nothing was reported: it was not sent.
    Missed,
    /// It is another call, or this one has been sent.
    Refused(CallError),
}

fn meaning(record: &Record, input: &AskInput, now: FleetTime) -> Met {
    let request = &input.request;
    let refused = |why: String| {
        Met::Refused(CallError::AlreadyExists(format!(
            "request_id {:?}, attempt {}, {why}",
            request.request_id, request.attempt
        )))
    };
    if record.print != input.print {
        Met::Refused(other_call(input))
    } else if record.is_over && record.was_released {
        Met::Free
    } else if record.is_over {
        let next = request.attempt.saturating_add(1);
        refused(format!("is over: its outcome was reported; use attempt {next} or another request_id"))
    } else if record.answered {
        refused("is running: something was reported of it".to_string())
    } else if now <= FleetTime::from_micros(record.lease.use_by) {
        Met::Usable
    } else {
        Met::Missed
    }
}

pub(super) fn bounds(input: &AskInput, policy: &ClassPolicy, past: &Past, now: FleetTime) -> Bounds {
    let deadline = input.request.deadline.map(|deadline| now + deadline).or(input.deadline_at);
    let max_wait = input.request.max_wait.unwrap_or(policy.max_wait);
    let by_max_wait = past.asked_at.unwrap_or(now) + (max_wait - past.history.waited).at_least_zero();
    Bounds {
        wait_until: deadline.map_or(by_max_wait, |deadline| deadline.min(by_max_wait)),
        until_deadline: deadline.is_some_and(|deadline| deadline < by_max_wait),
        deadline,
    }
}

/// What the next attempt has behind it.
fn history_after(lease: &Lease) -> History {
    History { waited: lease.history.waited + lease.waited(), paid_attempts: lease.history.paid_attempts }
}

/// A watched call that would have been refused because its name is another call's.
fn misnamed(input: &AskInput) -> Event {
    let model = Arc::from(input.request.target.model.as_str());
    Event::Watched { model, wait: Span::ZERO, denied: Some("already_exists") }
}

fn other_call(input: &AskInput) -> CallError {
    CallError::AlreadyExists(format!(
        "request_id {:?}, attempt {}, was asked for with another cost or target; use another request_id",
        input.request.request_id, input.request.attempt
    ))
}
