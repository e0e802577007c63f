//! An ask: idempotency, history and bounds, then a place in line.

use std::sync::Arc;

use paceline_core::delays::DelayPart;
use paceline_core::denial::{Denial, Reason};
use paceline_core::lease::{CallFloor, History, Lease, Serial};
use paceline_core::mode::Mode;
use paceline_core::plan::{Class, ClassPolicy, GroupPlan, Weight};
use paceline_core::queue::Ask;
use paceline_core::report;
use paceline_core::tally::Sent;
use paceline_core::units::{FleetTime, Span};

use super::alone::store_is_away;
use super::bounds::{deny, refusal};
use super::effects::tenant_or_default;
use super::shadow::is_needless_retry;
use super::used::kind_of;
use super::{AskInput, Call, Effects, Event, Input, Reply, ReplyId, Scope, reply_to};
use crate::api::{Answer, CallError, Denied, FIRST_HOLD, ReportAnswer};
use crate::record::{CallKey, Record};
use crate::settings::Settings;
use crate::wire::{self, TicketWire};

/// What the call has been through before this ask.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) stamp: Option<Serial>,
    pub(super) asked_at: Option<FleetTime>,
    pub(super) prior: Vec<DelayPart>,
    pub(super) history: History,
    pub(super) call_floor: Option<CallFloor>,
    pub(super) gave_up: Option<Reason>,
    /// Providers at which it may have run.
    pub(super) ran_at: Vec<String>,
}

impl Past {
    /// What a ticket tells, up to when it was given.
    pub(super) fn of_ticket(&mut self, ticket: &TicketWire) {
        self.stamp = ticket.stamp.clone().map(Serial::from);
        self.asked_at = Some(FleetTime::from_micros(ticket.asked_at));
        self.prior = ticket.parts.iter().cloned().map(DelayPart::from).collect();
        if ticket.is_first {
            return;
        }
        self.history = History { waited: Span::from_micros(ticket.waited), paid_attempts: ticket.paid_attempts };
        self.ran_at.clone_from(&ticket.ran_at);
        self.call_floor = wire::call_floor_of(ticket.call_floor, ticket.call_floor_source);
    }
}

/// Until when a call waits.
pub(super) struct Bounds {
    pub(super) wait_until: FleetTime,
    pub(super) until_deadline: bool,
    pub(super) deadline: Option<FleetTime>,
    /// How long such calls typically run.
    pub(super) run: Span,
}

/// Where a call stands among others.
#[derive(Clone, Copy)]
pub(super) struct Standing {
    pub(super) class: Class,
    pub(super) weight: Weight,
}

impl Standing {
    /// As the configuration says of the tenant: a more urgent class than it may have is lowered.
    pub(super) fn of(input: &AskInput, settings: &dyn Settings) -> Self {
        let policy = settings.tenant(tenant_name(input));
        Self { class: input.request.class.max(policy.max_priority), weight: policy.weight }
    }
}

/// The tenant; who names none is `default`.
fn tenant_name(input: &AskInput) -> &str {
    tenant_or_default(&input.request.tenant)
}

/// Says in a refusal that the call was not treated as it asked.
pub(super) fn explain_lowered(denial: &mut Denial, input: &AskInput, class: Class) {
    if class != input.request.class {
        let (asked, tenant) = (input.request.class.name(), tenant_name(input));
        denial.detail.push_str(&format!(
            "; asked for as {asked}, treated as {}: tenants.{tenant}.max_priority allows no more",
            class.name()
        ));
    }
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
        if report.is_none() && self.gone.has(reply) {
            return self.ask_of_gone(reply, input, now, fx);
        }
        let plan = match self.plan(&input.request.target.model) {
            Ok(plan) => plan,
            Err(error) => return fx.answer(reply, reply_to(report, Err(error)), None),
        };
        let mode = self.mode_of(&input.request);
        if mode == Mode::Off {
            return self.pass_by(reply, input, plan, mode, report, now, fx);
        }
        let is_read = self.has_been_read(reply) || report.is_some() || self.knows_all(now);
        if self.is_shut(&plan) && mode == Mode::Enforce {
            let denied = Denied { denial: store_is_away(), delays: Vec::new() };
            return deny(reply, input, report, denied, now, fx);
        }
        let mut past = self.past_of(input, now);
        // Whoever went without a word, and whose place is not told by a ticket, finds it by its key.
        let kept = self.gone.come_back(input.key, now);
        if let Some(kept) = kept.filter(|_| input.ticket.is_none()) {
            past = kept;
        }
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
        let standing = Standing::of(input, &*self.settings);
        let policy = *plan.class(standing.class);
        let refusal = refusal(&self.target.provider, input, standing.class, &policy, &past)
            .or_else(|| self.tried_in_layers(input, policy.attempts));
        let (refusal, would_deny) = if mode == Mode::Shadow { (None, refusal) } else { (refusal, None) };
        if let Some(mut denied) = refusal {
            if !is_read {
                return fx.unread.push(Input::Ask(reply, input.clone()));
            }
            explain_lowered(&mut denied.denial, input, standing.class);
            return deny(reply, input, report, denied, now, fx);
        }
        let bounds = self.bounds(input, &policy, &past, now);
        let mut call = Call {
            reply,
            input: input.clone(),
            hold_until: now + self.hold_of(input, report.is_some()),
            place_lost: input.place_lost,
            report,
            history: past.history,
            deadline: bounds.deadline,
            would_deny: would_deny.map(|denied| denied.denial),
            ran_at: past.ran_at.clone(),
            is_read,
        };
        let ask = self.line_up(input, plan, &policy, past, &bounds, now);
        match self.turned_away(input, &ask, now) {
            Some(_) if mode != Mode::Shadow && !is_read => return fx.unread.push(Input::Ask(reply, input.clone())),
            Some(mut denial) if mode != Mode::Shadow => {
                self.explain_alone(&mut denial);
                return deny(call.reply, input, call.report, Denied { denial, delays: Vec::new() }, now, fx);
            }
            would => call.would_deny = call.would_deny.or(would),
        }
        if !is_read {
            self.unread_asks.push(ask.id);
        }
        self.enqueue(ask, call, now);
    }

    /// An ask that nobody waits for any more and that has no place yet. A slot that it missed is given up all the same: it may have been
    /// before, in a commit that was refused, and others have gone on from there.
    fn ask_of_gone(&mut self, reply: ReplyId, input: &Arc<AskInput>, now: FleetTime, fx: &mut Effects) {
        let record = self.records.get(&input.key);
        if record.is_some_and(|record| matches!(meaning(record, input, now), Met::Missed)) {
            fx.bind(reply, Input::Ask(reply, input.clone()));
            self.give_up(input.key, now, fx);
        }
        fx.answer(reply, Reply::Answer(Err(CallError::Unavailable("its caller has gone".to_owned()))), None);
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
        let standing = Standing::of(input, &*self.settings);
        self.next_ask += 1;
        let ttl = self.ttl_of(request, &plan);
        let pause = self.pause_of(&request.target.model, &request.tenant, standing.class);
        Ask {
            id: self.next_ask,
            stamp: past.stamp.unwrap_or_else(|| self.next_serial(now)),
            sent: Sent { is_retry: request.attempt > 1 && !is_needless_retry(input), is_fallback: input.is_fallback },
            class: standing.class,
            tenant: Arc::from(tenant_name(input)),
            weight: standing.weight,
            plan,
            cost: request.cost.clone(),
            kind: kind_of(&request.target.model, &request.labels),
            cost_estimated: request.cost_estimated,
            asked_at: past.asked_at.unwrap_or(now),
            entered_at: now,
            wait_until: bounds.wait_until,
            until_deadline: bounds.until_deadline,
            run: bounds.run,
            honor_cap: policy.honor_cap,
            not_before: past.call_floor,
            pause,
            ttl,
            prior: past.prior,
        }
    }

    /// An ask without a ticket is held a second at most, so that a lost reply costs no more.
    fn hold_of(&self, input: &AskInput, is_retry: bool) -> Span {
        let has_place = input.ticket.as_ref().is_some_and(|ticket| !ticket.is_first) && !is_retry;
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
            past.ran_at.clone_from(&lease.ran_at);
            // The record may tell of another lease, if the key was asked for again.
            let record = self.records.get(&key).filter(|record| record.lease.serial == wire::serial_of(lease));
            if let Some(record) = record {
                past.history.paid_attempts = record.paid_attempts;
                past.call_floor = record.call_floor.filter(|floor| floor.until > now);
                past.gave_up = record.gave_up();
            } else if let Some(elsewhere) = input.elsewhere {
                past.history.paid_attempts = elsewhere.paid_attempts;
                past.gave_up = elsewhere.gave_up;
            }
            let may_have_run = record.map(|record| record.may_have_run()).or(input.elsewhere.map(|known| known.may_have_run));
            if may_have_run.unwrap_or(true) && !past.ran_at.contains(&lease.provider) {
                past.ran_at.push(lease.provider.clone());
            }
        }
        if let Some(ticket) = &input.ticket {
            past.of_ticket(ticket);
            let away = now.since(FleetTime::from_micros(ticket.left_at));
            if let Some(waiting_for) = ticket.waiting_for.clone().map(DelayPart::from) {
                paceline_core::delays::add(&mut past.prior, &waiting_for.cause, away);
            }
            past.call_floor = past.call_floor.filter(|floor| floor.until > now);
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
            past.ran_at.clone_from(&call.ran_at);
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
            Met::Usable => {
                let grant = self.grant_again(record, now);
                if record.shadow.is_none() && record.lease.mode == Mode::Enforce {
                    let record = Record { told_again: record.told_again.saturating_add(1), ..(**record).clone() };
                    fx.bind(reply, Input::Ask(reply, input.clone()));
                    self.change_record(input.key, record, fx);
                }
                Some(Ok(Answer::Granted(Box::new(grant))))
            }
            Met::Refused(error) => Some(Err(error)),
            Met::Missed => {
                let wire = record.lease.wire();
                let lease = wire::lease_of(&wire);
                *past = Past { stamp: Some(lease.stamp), history: history_after(&lease), ..Past::default() };
                past.ran_at = wire.ran_at;
                fx.bind(reply, Input::Ask(reply, input.clone()));
                self.give_up(input.key, now, fx);
                None
            }
        }
    }

    /// The call with this key waits here, but the store has a record of it: another replica has granted it meanwhile.
    pub(super) fn taken(&mut self, key: CallKey, now: FleetTime, fx: &mut Effects) {
        let Some(call) = self.by_key.get(&key).and_then(|id| self.calls.get(id)).cloned() else { return };
        let Some(record) = self.records.get(&key) else {
            // It is the first with its key.
            if let Some(call) = self.by_key.get(&key).and_then(|id| self.calls.get_mut(id)) {
                call.is_read = true;
            }
            return;
        };
        let answer = match meaning(record, &call.input, now) {
            // Knowing the record is enough: it will be overwritten.
            Met::Free => return fx.take_again(Input::Taken(key)),
            Met::Missed => {
                fx.take_again(Input::Taken(key));
                return self.give_up(key, now, fx);
            }
            // The report was taken, and cannot be taken again: whoever has that slot has it from elsewhere, and who has not asks for it.
            Met::Usable if call.report.is_some() => Err(CallError::AlreadyExists("it was told elsewhere".to_owned())),
            Met::Usable => {
                let grant = self.grant_again(record, now);
                let record = Record { told_again: record.told_again.saturating_add(1), ..(**record).clone() };
                fx.bind(call.reply, Input::Ask(call.reply, call.input.clone()));
                self.change_record(key, record, fx);
                Ok(Answer::Granted(Box::new(grant)))
            }
            Met::Refused(error) => Err(error),
        };
        self.take_out(call.reply, now);
        fx.answer(call.reply, reply_to(call.report, answer), None);
    }

    /// Ends the lease of a slot that was missed.
    fn give_up(&mut self, key: CallKey, now: FleetTime, fx: &mut Effects) {
        let Some(mut record) = self.records.get(&key).map(|record| (**record).clone()) else { return };
        let wire = record.lease.wire();
        let lease = Lease { hold_until: record.hold_until, ..wire::lease_of(&wire) };
        // One that ended by itself is settled already: its reservation was probably used (I-4).
        if now < record.ends_at {
            report::release(&mut self.value, &lease);
            self.move_flight(lease.class, Some(lease.hold_until), None);
        }
        (record.is_over, record.was_released) = (true, true);
        fx.events_on_commit.push(Event::LateUse { model: Arc::from(wire.model) });
        self.change_record(key, record, fx);
    }

    pub(super) fn change_record(&mut self, key: CallKey, record: Record, fx: &mut Effects) {
        let record = Arc::new(record);
        self.know_record(key, record.clone());
        fx.write(key, record, false);
    }
}

/// What a record means for an ask with its key.
pub(super) enum Met {
    /// Nothing: it was given back.
    Free,
    /// The slot can still be used: the same lease.
    Usable,
    /// It cannot be used any more, and nothing was reported: it was not sent.
    Missed,
    /// It is another call, or this one has been sent.
    Refused(CallError),
}

pub(super) fn meaning(record: &Record, input: &AskInput, now: FleetTime) -> Met {
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
    } else if now <= record.lease.use_by {
        Met::Usable
    } else {
        Met::Missed
    }
}

/// What the next attempt has behind it.
pub(super) fn history_after(lease: &Lease) -> History {
    History { waited: lease.history.waited + lease.waited(), paid_attempts: lease.history.paid_attempts }
}

/// Why a watched call would have been refused whose name is another call's.
pub(crate) const NAME_TAKEN: &str = "already_exists";

/// A watched call that would have been refused because its name is another call's.
fn misnamed(input: &AskInput) -> Event {
    let model = Arc::from(input.request.target.model.as_str());
    Event::Watched { model, wait: Span::ZERO, denied: Some(NAME_TAKEN), is_needless: false }
}

fn other_call(input: &AskInput) -> CallError {
    CallError::AlreadyExists(format!(
        "request_id {:?}, attempt {}, was asked for with another cost or target; use another request_id",
        input.request.request_id, input.request.attempt
    ))
}
