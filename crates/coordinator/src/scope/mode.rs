//! What is done with a call: nothing, only watched, or made to wait; and how the first two are let through.

use std::sync::Arc;

use paceline_core::decide::Slot;
use paceline_core::mode::{Draw, Mode};
use paceline_core::plan::GroupPlan;
use paceline_core::queue::Ask;
use paceline_core::report::Reported;
use paceline_core::retry::Verdict;
use paceline_core::units::{FleetTime, Span};

use super::report::{ends, next_ask, note_report, told};
use super::{AskInput, Call, CallError, Effects, Event, Reply, ReplyId, ReportInput, Scope, reply_to};
use crate::api::{Answer, NotApplied, ReportAnswer, Target};
use crate::record::digest;
use crate::scope::DecidedAs;
use crate::wire::{self, LeaseWire};

impl Scope {
    /// Lets go whoever is in line and is not made to wait: who came so, and who waited until the configuration changed.
    pub(super) fn let_through(&mut self, now: FleetTime, fx: &mut Effects) {
        for id in std::mem::take(&mut self.through) {
            let Some(input) = self.calls.get(&id).map(|call| call.input.clone()) else { continue };
            match self.mode_of(&input.request) {
                Mode::Enforce => {}
                Mode::Shadow => self.watch(id, now, fx),
                Mode::Off => self.let_go(id, Mode::Off, now, fx),
            }
        }
    }

    /// The same while the store is away: nobody is charged, and nobody who is not made to wait waits for the store.
    pub(super) fn let_through_without_store(&mut self, now: FleetTime, fx: &mut Effects) {
        for id in std::mem::take(&mut self.through) {
            let Some(input) = self.calls.get(&id).map(|call| call.input.clone()) else { continue };
            match self.mode_of(&input.request) {
                Mode::Enforce => {}
                mode => self.let_go(id, mode, now, fx),
            }
        }
    }

    /// An ask while the store is away.
    pub(super) fn ask_without_store(
        &mut self,
        reply: ReplyId,
        input: &Arc<AskInput>,
        report: Option<Box<ReportAnswer>>,
        why: CallError,
        now: FleetTime,
        fx: &mut Effects,
    ) {
        let mode = self.mode_of(&input.request);
        match self.plan(&input.request.target.model) {
            Ok(plan) if mode != Mode::Enforce => self.pass_by(reply, input, plan, mode, report, now, fx),
            _ => fx.answer(reply, reply_to(report, Err(why)), None),
        }
    }

    /// A report while the store is away: of calls that were not made to wait it is read and answered, and teaches nothing.
    pub(super) fn report_without_store(
        &mut self,
        reply: ReplyId,
        input: &Arc<ReportInput>,
        why: CallError,
        now: FleetTime,
        fx: &mut Effects,
    ) {
        let lease = input.lease.as_ref().filter(|lease| input.is_authentic && wire::mode_of(lease) != Mode::Enforce);
        let Some(lease) = lease else { return fx.answer(reply, Reply::Report(Err(why)), None) };
        let (answer, next) = self.read_only(input, lease, now, fx);
        match next {
            Some(next) => self.ask_without_store(reply, &Arc::new(next), Some(Box::new(answer)), why, now, fx),
            None => fx.answer(reply, Reply::Report(Ok(Box::new(answer))), None),
        }
    }

    /// A report of a call that was let through as if nobody were there: it is read, counted and answered.
    pub(super) fn report_of_off(
        &mut self,
        reply: ReplyId,
        input: &Arc<ReportInput>,
        lease: &LeaseWire,
        now: FleetTime,
        fx: &mut Effects,
    ) {
        let (answer, next) = self.read_only(input, lease, now, fx);
        match next {
            Some(next) => self.ask(reply, &Arc::new(next), Some(Box::new(answer)), now, fx),
            None => fx.answer(reply, Reply::Report(Ok(Box::new(answer))), None),
        }
    }

    /// Lets a call through that stands nowhere and is charged nowhere.
    #[expect(clippy::too_many_arguments, reason = "an ask, and what is known of it")]
    pub(super) fn pass_by(
        &mut self,
        reply: ReplyId,
        input: &Arc<AskInput>,
        plan: Arc<GroupPlan>,
        mode: Mode,
        report: Option<Box<ReportAnswer>>,
        now: FleetTime,
        fx: &mut Effects,
    ) {
        let past = self.past_of(input, now);
        let policy = *plan.class(input.request.class);
        let bounds = self.bounds(input, &policy, &past, now);
        let call = Call {
            reply,
            input: input.clone(),
            hold_until: now,
            place_lost: input.place_lost,
            report,
            history: past.history,
            deadline: bounds.deadline,
            would_deny: None,
            ran_at: past.ran_at.clone(),
            is_read: true,
        };
        let ask = self.line_up(input, plan, &policy, past, &bounds, now);
        self.let_pass(ask, call, mode, now, fx);
    }

    /// Lets a waiting call go that is charged nowhere.
    fn let_go(&mut self, id: paceline_core::queue::AskId, mode: Mode, now: FleetTime, fx: &mut Effects) {
        let Some((waiting, parts)) = self.queue.remove(id, now) else { return };
        let Some(call) = self.forget_call(id) else { return };
        self.let_pass(Ask { prior: parts, ..waiting.ask }, call, mode, now, fx);
    }

    fn let_pass(&mut self, ask: Ask, call: Call, mode: Mode, now: FleetTime, fx: &mut Effects) {
        let slot = Slot {
            send_at: now,
            charges: Vec::new(),
            estimated: Vec::new(),
            group_mark: 0,
            group: ask.plan.key.clone(),
            hold_until: now,
            delays: ask.prior.clone(),
            runner_up: None,
        };
        let lease = self.lease(&ask, &call, &slot, mode, now);
        let (record, grant) = self.record(&lease, &ask, &call, &slot, None, now);
        let event = Event::decided(&call.input.request, ask.class, mode, DecidedAs::Granted, slot.delays);
        // Remembered here only: it tells a stream that has begun, and repeats the answer when it is asked for again.
        self.know_record(call.input.key, record);
        fx.answer(call.reply, reply_to(call.report, Ok(Answer::Granted(Box::new(grant)))), Some(event));
    }

    /// The answer to a report that settles nothing and teaches nothing, and the next attempt if it is wanted.
    fn read_only(
        &mut self,
        input: &ReportInput,
        wire: &LeaseWire,
        now: FleetTime,
        fx: &mut Effects,
    ) -> (ReportAnswer, Option<AskInput>) {
        let known =
            input.key.and_then(|key| self.records.get(&key)).filter(|record| record.lease.serial == wire::serial_of(wire));
        let known = known.map(|record| (**record).clone());
        let refused = known.as_ref().and_then(|record| match record {
            record if record.answered && input.request.seq <= record.seq => Some(NotApplied::Repeated),
            record => record.is_over.then_some(NotApplied::LeaseSettled),
        });
        if let Some(signal) = input.signal.as_ref().filter(|_| refused.is_none()) {
            self.unread.note(signal, &input.request.headers, now);
        }
        let lease = wire::lease_of(wire);
        let is_final = ends(input);
        let has_begun = known.as_ref().is_some_and(|record| record.has_begun);
        let done = Reported::default();
        let verdict = is_final.then(|| self.verdict(&lease, wire, input, has_begun, &done, now));
        fx.events.push(told(input, Some(wire), verdict, refused.is_none()));
        if let (None, Some(mut record), Some(key)) = (refused, known, input.key) {
            note_report(&mut record, input, &done, verdict, lease.ttl, now);
            self.know_record(key, record);
        }
        let answer = ReportAnswer {
            not_applied: refused,
            ttl: if is_final { Span::ZERO } else { lease.ttl },
            verdict,
            signal: input.signal.clone().unwrap_or_default(),
            honored: Span::ZERO,
            honored_source: paceline_core::signal::Source::None,
            next: None,
        };
        let target = Target { provider: wire.provider.clone(), account: wire.account.clone(), model: wire.model.clone() };
        let next = next_ask(wire, input, target)
            .filter(|_| input.candidates.is_empty())
            .filter(|_| refused.is_none() && verdict == Some(Verdict::Retry));
        (answer, next)
    }
}

/// Where a call falls among all calls: by its name, so that every attempt, replica and provider agrees.
pub(super) fn draw_of(request_id: &str) -> Draw {
    let [a, b, c, d, e, f, g, h, ..] = digest(&[b"mode", request_id.as_bytes()]);
    Draw::new(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
}
