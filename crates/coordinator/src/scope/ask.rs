//! An ask: idempotency, history and bounds, then a place in line.

use std::sync::Arc;

use paceline_core::delays::DelayPart;
use paceline_core::denial::Reason;
use paceline_core::lease::{CallFloor, History, Serial};
use paceline_core::queue::{Ask, MOST_WAITING_IN_GROUP};
use paceline_core::report;
use paceline_core::units::{FleetTime, Span};

use super::{AskInput, Call, Effects, Event, RecordChange, Reply, ReplyId, Scope};
use crate::api::{Answer, CallError, DEFAULT_TTL, Denied, FIRST_HOLD, LONGEST_TTL, ReportAnswer};
use crate::scope::DecidedAs;
use crate::wire;

/// What the call has been through before this ask.
#[derive(Default)]
struct Past {
    stamp: Option<Serial>,
    asked_at: Option<FleetTime>,
    prior: Vec<DelayPart>,
    history: History,
    call_floor: Option<CallFloor>,
    gave_up: Option<Reason>,
}

impl Scope {
    pub(super) fn ask(&mut self, reply: ReplyId, input: Arc<AskInput>, now: FleetTime, fx: &mut Effects) {
        if let Err(error) = self.try_ask(reply, &input, None, now, fx) {
            fx.replies.push((reply, Reply::Answer(Err(error))));
        }
    }

    /// Puts the next attempt of a reported call in line; its answer completes the report's.
    pub(super) fn ask_within_report(
        &mut self,
        reply: ReplyId,
        input: &Arc<AskInput>,
        answer: ReportAnswer,
        now: FleetTime,
        fx: &mut Effects,
    ) {
        if let Err(error) = self.try_ask(reply, input, Some(Box::new(answer)), now, fx) {
            fx.replies.push((reply, Reply::Report(Err(error))));
        }
    }

    fn try_ask(
        &mut self,
        reply: ReplyId,
        input: &Arc<AskInput>,
        report: Option<Box<ReportAnswer>>,
        now: FleetTime,
        fx: &mut Effects,
    ) -> Result<(), CallError> {
        let plan = self.plan(&input.request.target.model)?;
        let mut past = self.past_of(input, now);
        self.supersede(input, &mut past, now, fx)?;
        if self.repeat_grant(reply, input, &mut past, now, fx)? {
            return Ok(());
        }
        let request = &input.request;
        let policy = *plan.class(request.class);
        let asked_at = past.asked_at.unwrap_or(now);
        let deadline = request.deadline.map(|deadline| now + deadline).or(input.deadline_at);
        let max_wait = request.max_wait.unwrap_or(policy.max_wait);
        let by_max_wait = asked_at + (max_wait - past.history.waited).at_least_zero();
        let wait_until = deadline.map_or(by_max_wait, |deadline| deadline.min(by_max_wait));
        let call = Call {
            reply,
            input: input.clone(),
            hold_until: now + self.hold_of(input, report.is_some()),
            place_lost: input.place_lost,
            report,
            history: past.history,
            deadline,
        };
        let refusal = if let Some(reason) = past.gave_up {
            Some(Denied::at_once(
                reason,
                None,
                format!("the attempt before ended with {}; another one is not allowed", reason.name()),
            ))
        } else if request.attempt > policy.attempts {
            Some(Denied::at_once(
                Reason::AttemptsExhausted,
                None,
                format!(
                    "a {} call is sent {} times at most, and this is attempt {}",
                    request.class.name(),
                    policy.attempts,
                    request.attempt
                ),
            ))
        } else if request.deadline == Some(Span::ZERO) {
            Some(Denied::at_once(Reason::Deadline, Some(Span::ZERO), "the deadline is over already (deadline = 0)"))
        } else if self.queue.len_of_group(&plan.key) >= MOST_WAITING_IN_GROUP {
            let detail = format!("{MOST_WAITING_IN_GROUP} calls wait for {} already", plan.key);
            Some(Denied::at_once(Reason::QueueFull, Some(Span::from_secs(1)), detail))
        } else {
            None
        };
        if let Some(denied) = refusal {
            fx.events.push(Event::Decided {
                model: Arc::from(request.target.model.as_str()),
                class: request.class,
                outcome: DecidedAs::Denied(denied.denial.reason),
                delays: Vec::new(),
            });
            self.answer(call, Answer::Denied(Box::new(denied)), &mut fx.replies);
            return Ok(());
        }
        let stamp = past.stamp.unwrap_or_else(|| self.next_serial(now));
        self.next_ask += 1;
        let ask = Ask {
            id: self.next_ask,
            stamp,
            class: request.class,
            plan,
            cost: request.cost.clone(),
            cost_estimated: request.cost_estimated,
            asked_at,
            entered_at: now,
            wait_until,
            until_deadline: deadline.is_some_and(|deadline| deadline < by_max_wait),
            honor_cap: policy.honor_cap,
            not_before: past.call_floor,
            ttl: request.run_time.map_or(DEFAULT_TTL, |ttl| ttl.max(Span::from_secs(1)).min(LONGEST_TTL)),
            prior: past.prior,
        };
        self.enqueue(ask, call, now);
        Ok(())
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

    fn past_of(&self, input: &AskInput, now: FleetTime) -> Past {
        let mut past = Past::default();
        if let (Some(lease), Some(key)) = (&input.previous, input.previous_key) {
            let before = wire::lease_of(lease);
            past.history =
                History { waited: before.history.waited + before.waited(), paid_attempts: before.history.paid_attempts };
            if let Some(record) = self.records.get(&key) {
                past.history.paid_attempts = record.paid_attempts;
                past.call_floor = record.call_floor.filter(|floor| floor.until > now);
                past.gave_up = record.gave_up;
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
        let before = fx.replies.len();
        self.send_away(id, now, fx);
        // The ticket just made for the replaced caller tells the wait so far.
        if let Some((_, Reply::Answer(Ok(Answer::Queued(queued))))) = fx.replies.get(before) {
            past.prior = queued.delays.clone();
        } else if let Some((_, Reply::Report(Ok(answer)))) = fx.replies.get(before)
            && let Some(Answer::Queued(queued)) = &answer.next
        {
            past.prior = queued.delays.clone();
        }
        Ok(())
    }

    /// The same key again: the same lease while its slot can still be used; later it means *I did not send*.
    fn repeat_grant(
        &mut self,
        reply: ReplyId,
        input: &Arc<AskInput>,
        past: &mut Past,
        now: FleetTime,
        fx: &mut Effects,
    ) -> Result<bool, CallError> {
        let Some(record) = self.records.get(&input.key) else { return Ok(false) };
        if record.print != input.print {
            return Err(other_call(input));
        }
        if record.is_over {
            if record.was_released {
                return Ok(false);
            }
            return Err(CallError::AlreadyExists(format!(
                "request_id {:?}, attempt {}, is over: its outcome was reported; use attempt {} or another request_id",
                input.request.request_id,
                input.request.attempt,
                input.request.attempt.saturating_add(1)
            )));
        }
        let lease = wire::lease_of(&record.lease);
        if record.answered {
            return Err(CallError::AlreadyExists(format!(
                "request_id {:?}, attempt {}, is running: something was reported of it",
                input.request.request_id, input.request.attempt
            )));
        }
        if now <= lease.use_by {
            let grant = self.grant_again(record, now);
            fx.replies.push((reply, Reply::Answer(Ok(Answer::Granted(Box::new(grant))))));
            return Ok(true);
        }
        let mut record = record.clone();
        report::release(&mut self.value, &lease);
        self.move_flight(lease.class, Some(lease.hold_until), None);
        (record.is_over, record.was_released) = (true, true);
        past.stamp = Some(lease.stamp);
        past.history.waited += lease.waited();
        self.change_record(input.key, record, false, fx);
        Ok(false)
    }

    pub(super) fn change_record(
        &mut self,
        key: crate::record::CallKey,
        record: crate::record::Record,
        must_be_new: bool,
        fx: &mut Effects,
    ) {
        fx.changed = true;
        self.know_record(key, record.clone());
        match fx.records.iter_mut().find(|change| change.key == key) {
            Some(change) => change.record = record,
            None => fx.records.push(RecordChange { key, record, must_be_new }),
        }
    }
}

fn other_call(input: &AskInput) -> CallError {
    CallError::AlreadyExists(format!(
        "request_id {:?}, attempt {}, was asked for with another cost or target; use another request_id",
        input.request.request_id, input.request.attempt
    ))
}
