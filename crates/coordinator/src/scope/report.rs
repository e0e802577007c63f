//! A report: what it teaches, what it settles, and what becomes of the call.

use std::sync::Arc;

use paceline_core::amounts::Amounts;
use paceline_core::denial::Reason;
use paceline_core::lease::{CallFloor, Lease};
use paceline_core::report::{self, Outcome, Report, Reported};
use paceline_core::retry::{self, Ended, Verdict};
use paceline_core::signal::AnswerKind;
use paceline_core::units::{FleetTime, Span};
use rand::Rng;

use super::{AskInput, Effects, Event, GivenBack, Input, ReleaseInput, Reply, ReplyId, ReportEvent, ReportInput, Scope, Undo};
use crate::api::{AcquireRequest, NotApplied, ReportAnswer, Target};
use crate::record::{CallKey, Record};
use crate::wire::{self, LeaseWire};

/// Reports of authentic leases teach until this long after their grant.
const TEACHES_FOR: Span = Span::from_secs(3_600);

impl Scope {
    /// Returns whether calls that wait must be looked at again.
    pub(super) fn report<R: Rng + ?Sized>(
        &mut self,
        reply: ReplyId,
        input: Arc<ReportInput>,
        now: FleetTime,
        rng: &mut R,
        fx: &mut Effects,
    ) -> bool {
        let record = input.key.and_then(|key| self.records.get(&key)).cloned();
        let refused = not_applied(&input, record.as_ref(), now);
        let (Some(wire), true) = (&input.lease, input.is_authentic) else {
            let answer = unread_answer(&input, NotApplied::LeaseUnknown);
            self.told(&input, None, None, fx);
            fx.replies.push((reply, Reply::Report(Ok(Box::new(answer)))));
            return false;
        };
        let lease = Lease {
            hold_until: record.as_ref().map_or(FleetTime::from_micros(wire.hold_until), |r| r.hold_until),
            ..wire::lease_of(wire)
        };
        if refused == Some(NotApplied::LeaseSettled) && record.as_ref().is_some_and(|record| record.was_released) {
            fx.events.push(Event::LateUse { model: Arc::from(wire.model.as_str()) });
        }
        let teaches = refused != Some(NotApplied::Repeated) && now.since(lease.granted_at) <= TEACHES_FOR;
        let is_final = ends(&input);
        let done =
            if teaches { self.apply(&lease, &input, refused.is_none(), is_final, now, rng) } else { Reported::default() };
        if teaches {
            fx.changed = true;
            fx.undo.push(Undo::Input(Input::Report(reply, input.clone())));
        }
        if done.flaps > 0 {
            fx.events.push(Event::LimitFlapped { model: Arc::from(wire.model.as_str()) });
        }
        let verdict = is_final.then(|| self.verdict(&lease, wire, &input, &done, now));
        self.told(&input, Some(wire), verdict, fx);
        let mut answer = ReportAnswer {
            not_applied: refused,
            ttl: Span::ZERO,
            verdict,
            signal: input.signal.clone().unwrap_or_default(),
            honored: done.honored,
            honored_source: done.source,
            next: None,
        };
        if let (None, Some(mut record), Some(key)) = (refused, record, input.key) {
            self.move_flight(lease.class, Some(lease.hold_until), (!is_final).then_some(done.hold_until));
            note_report(&mut record, &input, &done, is_final, verdict, lease.ttl, now);
            if !is_final {
                answer.ttl = lease.ttl;
            }
            self.change_record(key, record, false, fx);
        }
        let wants_next = input.request.retry.is_some() && verdict == Some(Verdict::Retry) && refused.is_none();
        match next_ask(wire, &input).filter(|_| wants_next) {
            Some(next) => self.ask_within_report(reply, &Arc::new(next), answer, now, fx),
            None => fx.replies_on_commit.push((reply, Reply::Report(Ok(Box::new(answer))))),
        }
        done.honored > Span::ZERO || done.limits_changed > 0
    }

    pub(super) fn release(&mut self, reply: ReplyId, input: Box<ReleaseInput>, now: FleetTime, fx: &mut Effects) {
        let waiting = input.key.and_then(|key| self.by_key.get(&key).copied());
        if let Some(id) = waiting {
            self.queue.remove(id, now);
            self.forget_call(id);
            fx.replies.push((reply, Reply::Released(true)));
            return;
        }
        let serial = match input.what {
            GivenBack::Place(place) => {
                fx.replies.push((reply, Reply::Released(self.queue.forget_place(place))));
                return;
            }
            GivenBack::Lease(serial) => serial,
        };
        let record = input.key.and_then(|key| Some((key, self.records.get(&key)?.clone())));
        let same = |record: &Record| wire::lease_of(&record.lease).serial == serial;
        let Some((key, mut record)) = record.filter(|(_, record)| !record.is_over && same(record) && now < record.ends_at)
        else {
            fx.replies.push((reply, Reply::Released(false)));
            return;
        };
        let lease = Lease { hold_until: record.hold_until, ..wire::lease_of(&record.lease) };
        report::release(&mut self.value, &lease);
        self.move_flight(lease.class, Some(lease.hold_until), None);
        (record.is_over, record.was_released) = (true, true);
        fx.undo.push(Undo::Input(Input::Release(reply, input)));
        self.change_record(key, record, false, fx);
        fx.replies_on_commit.push((reply, Reply::Released(true)));
    }

    fn apply<R: Rng + ?Sized>(
        &mut self,
        lease: &Lease,
        input: &ReportInput,
        is_open: bool,
        is_final: bool,
        now: FleetTime,
        rng: &mut R,
    ) -> Reported {
        let Some(model) = input.lease.as_ref().map(|lease| lease.model.clone()) else { return Reported::default() };
        let Ok(plan) = self.plan(&model) else { return Reported::default() };
        let binding = self.value.bind(&plan, now);
        let usage = (!input.request.usage.is_empty()).then_some(&input.request.usage);
        let facts = Report {
            outcome: input.request.outcome,
            signal: input.signal.as_ref(),
            answered_at: now - input.request.age,
            usage,
            is_final,
            is_open,
        };
        report::apply(&mut self.value, &binding, lease, &facts, now, rng)
    }

    fn verdict(&mut self, lease: &Lease, wire: &LeaseWire, input: &ReportInput, done: &Reported, now: FleetTime) -> Verdict {
        let policy = match self.plan(&wire.model) {
            Ok(plan) => *plan.class(lease.class),
            Err(_) => paceline_core::plan::ClassPolicy::default_of(lease.class),
        };
        let standing = self.standing_floor(wire, now);
        let own = done.call_floor;
        let (not_before, source) = match (standing, own) {
            (Some(floor), Some(own)) if own.until > floor.until => (own.until, own.source),
            (Some(floor), _) => (floor.until, floor.source),
            (None, Some(own)) => (own.until, own.source),
            (None, None) => (now, paceline_core::signal::Source::None),
        };
        let policy = paceline_core::plan::ClassPolicy {
            max_wait: if wire.max_wait >= 0 { Span::from_micros(wire.max_wait) } else { policy.max_wait },
            ..policy
        };
        let ended = Ended {
            outcome: input.request.outcome,
            signal: input.signal.as_ref(),
            attempt: lease.attempt,
            history: lease.history,
            repeat: lease.repeat,
            policy,
            not_before,
            providers_word: source.is_providers_word(),
            deadline: lease.deadline,
            waited: lease.history.waited + lease.waited(),
            now,
        };
        retry::verdict(&ended)
    }

    /// The latest floor that the call's next attempt would meet.
    fn standing_floor(&self, wire: &LeaseWire, now: FleetTime) -> Option<CallFloor> {
        let group = self.value.groups.iter().find(|group| *group.key == *wire.group).and_then(|group| group.floor);
        let buckets = wire.charges.iter().filter_map(|charge| {
            let charge = paceline_core::lease::Charge::from(charge.clone());
            self.value.position(&charge.bucket).and_then(|index| self.value.buckets.get(index))?.floor
        });
        [self.value.floor, group]
            .into_iter()
            .flatten()
            .chain(buckets)
            .filter(|floor| floor.holds_at(now))
            .max_by_key(|floor| floor.until)
            .map(|floor| CallFloor { until: floor.until, source: floor.source })
    }

    fn told(&self, input: &ReportInput, wire: Option<&LeaseWire>, verdict: Option<Verdict>, fx: &mut Effects) {
        let refusal =
            input.signal.as_ref().filter(|signal| matches!(signal.kind, AnswerKind::Throttled | AnswerKind::Overloaded));
        fx.events.push(Event::Reported(Box::new(ReportEvent {
            model: wire.map_or_else(|| Arc::from(""), |wire| Arc::from(wire.model.as_str())),
            outcome: input.request.outcome,
            status: input.request.status,
            grpc_status: input.request.grpc_status,
            verdict: verdict.map_or("none", Verdict::name),
            refusal_source: refusal.map(|signal| signal.source),
            unread: input.signal.as_ref().map(|signal| signal.unread_headers.clone()).unwrap_or_default(),
        })));
    }
}

/// Why a report cannot settle anything, if it cannot.
fn not_applied(input: &ReportInput, record: Option<&Record>, now: FleetTime) -> Option<NotApplied> {
    let (Some(lease), true) = (&input.lease, input.is_authentic) else { return Some(NotApplied::LeaseUnknown) };
    let ended = FleetTime::from_micros(lease.send_at.saturating_add(lease.ttl));
    let Some(record) = record else {
        return Some(if ended <= now { NotApplied::LeaseExpired } else { NotApplied::LeaseUnknown });
    };
    if record.lease.serial != lease.serial {
        return Some(NotApplied::LeaseSettled); // the key was asked for again meanwhile: this lease was given up
    }
    if record.answered && input.request.seq <= record.seq {
        return Some(NotApplied::Repeated);
    }
    if record.is_over {
        return Some(NotApplied::LeaseSettled);
    }
    (record.ends_at <= now).then_some(NotApplied::LeaseExpired)
}

/// Whether nothing more can come of the attempt: said so, implied by the outcome, or by an error's status.
fn ends(input: &ReportInput) -> bool {
    let is_error = input.request.status >= 400 || input.signal.as_ref().is_some_and(|signal| signal.kind != AnswerKind::Ok);
    let response = input.request.outcome == Outcome::Response;
    input.request.outcome.is_final() || (response && (input.request.is_final || is_error))
}

fn note_report(
    record: &mut Record,
    input: &ReportInput,
    done: &Reported,
    is_final: bool,
    verdict: Option<Verdict>,
    ttl: Span,
    now: FleetTime,
) {
    record.seq = record.seq.max(input.request.seq);
    record.answered = true;
    record.is_over = is_final;
    record.call_floor = done.call_floor.or(record.call_floor);
    if is_final {
        let paid = retry::may_have_run(input.request.outcome, input.signal.as_ref());
        record.paid_attempts += u32::from(paid);
        record.gave_up = match verdict {
            // A later ask may come with another bound; what the provider said of the request itself stands.
            Some(Verdict::GiveUp(reason @ (Reason::NotRetryable | Reason::AttemptsExhausted | Reason::QuotaExhausted))) => {
                Some(reason)
            }
            _ => None,
        };
    } else {
        record.hold_until = done.hold_until;
        record.ends_at = record.ends_at.max(now + ttl);
    }
}

fn unread_answer(input: &ReportInput, why: NotApplied) -> ReportAnswer {
    ReportAnswer {
        not_applied: Some(why),
        ttl: Span::ZERO,
        verdict: None,
        signal: input.signal.clone().unwrap_or_default(),
        honored: Span::ZERO,
        honored_source: paceline_core::signal::Source::None,
        next: None,
    }
}

/// The next attempt of a reported call, from its lease.
fn next_ask(wire: &LeaseWire, input: &ReportInput) -> Option<AskInput> {
    let retry = input.request.retry.as_ref()?;
    let lease = wire::lease_of(wire);
    let attempt = lease.attempt.saturating_add(1);
    let stated = Amounts::from_pairs(wire.cost.iter().map(|(meter, units)| (meter.as_str(), *units)));
    let key = CallKey::new(&wire.identity, &wire.tenant, &wire.request_id, attempt);
    let request = AcquireRequest {
        identity: wire.identity.clone(),
        request_id: wire.request_id.clone(),
        attempt,
        target: Target { provider: wire.provider.clone(), account: wire.account.clone(), model: wire.model.clone() },
        cost: if retry.cost.is_empty() { stated } else { retry.cost.clone() },
        cost_estimated: wire.cost_estimated,
        max_wait: retry.max_wait.or((wire.max_wait >= 0).then_some(Span::from_micros(wire.max_wait))),
        deadline: None,
        hold: crate::api::FIRST_HOLD,
        run_time: Some(lease.ttl),
        class: lease.class,
        tenant: wire.tenant.clone(),
        labels: wire.labels.clone(),
        parent: wire.parent.clone(),
        ticket: None,
        previous_lease_id: None,
        repeat: lease.repeat,
    };
    let print = crate::inputs::print_of(&request);
    Some(AskInput {
        deadline_at: lease.deadline,
        request,
        key,
        print,
        ticket: None,
        place_lost: false,
        previous: Some(wire.clone()),
        previous_key: input.key,
    })
}
