//! A report: what it teaches, what it settles, and what becomes of the call.

use std::sync::Arc;

use paceline_core::amounts::Amounts;
use paceline_core::backoff;
use paceline_core::lease::{CallFloor, Lease, Serial};
use paceline_core::mode::Mode;
use paceline_core::report::{self, Outcome, Report, Reported};
use paceline_core::retry::{self, Ended, Verdict};
use paceline_core::signal::{AnswerKind, Source};
use paceline_core::units::{FleetTime, LONGEST_FLOOR, Span};
use rand::Rng;

use super::shadow::is_needless;
use super::{
    AskInput, Effects, EndedAs, Event, GivenBack, Input, ReleaseInput, Reply, ReplyId, ReportEvent, ReportInput, Scope, Served,
    why,
};
use crate::api::{AcquireRequest, FIRST_HOLD, NotApplied, ReportAnswer, Target};
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
        let known = input.key.and_then(|key| self.records.get(&key)).map(|record| (**record).clone());
        let record = known.or_else(|| self.record_as_told(&input));
        let refused = not_applied(&input, record.as_ref(), now);
        let (Some(wire), true) = (&input.lease, input.is_authentic) else {
            let answer = unread_answer(&input, NotApplied::LeaseUnknown);
            let event = told(&input, None, None, false);
            fx.answer(reply, Reply::Report(Ok(Box::new(answer))), Some(event));
            return false;
        };
        if wire::mode_of(wire) == Mode::Off {
            self.report_of_off(reply, &input, wire, now, fx);
            return false;
        }
        if let Some(signal) = input.signal.as_ref().filter(|_| refused != Some(NotApplied::Repeated)) {
            self.unread.note(signal, &input.request.headers, now);
        }
        if let Some(organisation) = input.organisation.as_ref().filter(|_| refused != Some(NotApplied::Repeated))
            && self.organisations.note(organisation, now)
        {
            fx.events.push(Event::AccountMixed { organisations: self.organisations.hints(now) });
        }
        let own = record.as_ref().filter(|record| record.lease.serial == wire::serial_of(wire));
        let lease = Lease {
            hold_until: own.map_or(FleetTime::from_micros(wire.hold_until), |record| record.hold_until),
            ..wire::lease_of(wire)
        };
        let is_open = refused.is_none();
        let teaches = refused != Some(NotApplied::Repeated) && now.since(lease.granted_at) <= TEACHES_FOR;
        let is_final = ends(&input);
        let is_needless = is_needless(wire, &input);
        let mut done = Reported { hold_until: lease.hold_until, ..Reported::default() };
        if is_open || teaches {
            fx.bind(reply, Input::Report(reply, input.clone()));
            // That a call is refused which was not to be sent tells nothing new: it is no further cut.
            let group_mark = if is_needless { 0 } else { lease.group_mark };
            let told = Lease { group_mark, ..lease.clone() };
            done = self.apply(&told, &input, is_open && !is_needless, teaches, now, rng).unwrap_or(done);
            if is_final && (is_open || refused == Some(NotApplied::LeaseExpired)) {
                self.learn_use(&lease, wire, &input, is_open, now, fx);
            }
        }
        if is_open && is_needless {
            self.was_needless(&lease, wire, now, fx);
        }
        if is_open && is_final && own.is_none_or(Record::has_place) {
            self.settle_line(&lease, wire, &input, now);
        }
        let verdict = is_final.then(|| match own.and_then(|record| record.verdict).filter(|_| !is_open) {
            Some(earlier) => earlier,
            None => {
                let has_begun = own.is_some_and(|record| record.has_begun);
                self.verdict(&lease, wire, &input, has_begun, &done, now)
            }
        });
        let verdict = match verdict {
            Some(verdict) if is_open => Some(self.note_outcome(lease.class, wire, verdict, now, fx)),
            told => told,
        };
        self.note_events(&input, wire, refused, own, &done, verdict, fx);
        if let Some(verdict) = verdict.filter(|_| matches!(refused, None | Some(NotApplied::LeaseExpired))) {
            fx.remember(reply, why::settled(&input, wire, own, &done, verdict, now));
        }
        let mut answer = ReportAnswer {
            not_applied: refused,
            ttl: own.filter(|record| !record.is_over).map_or(Span::ZERO, |record| record.ends_at.since(now)),
            verdict,
            signal: input.signal.clone().unwrap_or_default(),
            honored: done.honored,
            honored_source: done.source,
            next: None,
        };
        if let (None, Some(mut record), Some(key)) = (refused, record, input.key) {
            self.move_flight(lease.class, Some(lease.hold_until), (!is_final).then_some(done.hold_until));
            note_report(&mut record, &input, &done, verdict, lease.ttl, now);
            answer.ttl = if is_final { Span::ZERO } else { lease.ttl };
            self.change_record(key, record, fx);
        }
        let wants_next = is_open && verdict == Some(Verdict::Retry) && input.candidates.is_empty();
        let target = Target { provider: wire.provider.clone(), account: wire.account.clone(), model: wire.model.clone() };
        match next_ask(wire, &input, target).filter(|_| wants_next) {
            Some(next) => self.ask(reply, &Arc::new(next), Some(Box::new(answer)), now, fx),
            None => fx.answer(reply, Reply::Report(Ok(Box::new(answer))), None),
        }
        done.honored > Span::ZERO || done.limits_changed > 0 || done.floors_ended > 0
    }

    pub(super) fn release(&mut self, reply: ReplyId, input: Box<ReleaseInput>, now: FleetTime, fx: &mut Effects) {
        let released = match input.what {
            GivenBack::Place(_) if input.is_unheard => {
                let was_there = input.place.as_ref().is_some_and(|ticket| self.unheard_place(ticket, now));
                return fx.answer(reply, Reply::Released(was_there), None);
            }
            GivenBack::Place(stamp) => self.release_place(stamp, input.key, now, fx),
            GivenBack::Lease(_) => false,
        };
        let Some((key, mut record)) = self.unused(&input, now) else {
            return fx.answer(reply, Reply::Released(released), None);
        };
        if input.is_unheard && record.told_again > 0 {
            // It was told once more, and that may have been heard.
            record.told_again -= 1;
            fx.bind(reply, Input::Release(reply, input));
            self.change_record(key, record, fx);
            return fx.answer(reply, Reply::Released(false), None);
        }
        let mut lease = Lease { hold_until: record.hold_until, ..record.lease.lease() };
        if record.answered {
            // It was sent: only the place it takes comes free.
            lease.charges.retain(|charge| charge.held);
        }
        if input.is_unheard {
            self.unheard_slot(key, &record, now);
        }
        fx.bind(reply, Input::Release(reply, input));
        report::release(&mut self.value, &lease);
        for charge in lease.charges.iter().filter(|charge| !charge.held && record.has_place()) {
            self.line.give_back(&self.value, &charge.bucket, lease.class, charge.amount, now);
        }
        self.move_flight(lease.class, Some(lease.hold_until), None);
        fx.remember(reply, why::given_back(&record, now));
        (record.is_over, record.was_released) = (true, !record.answered);
        self.change_record(key, record, fx);
        fx.answer(reply, Reply::Released(true), None);
    }

    /// Gives a place back. Whoever is still held on it is let go with a ticket.
    fn release_place(&mut self, stamp: Serial, key: Option<CallKey>, now: FleetTime, fx: &mut Effects) -> bool {
        key.into_iter().for_each(|key| self.gone.forget_place(key));
        let held = key.and_then(|key| self.by_key.get(&key)).copied();
        let was_held = held.is_some_and(|id| self.send_away(id, now, fx).is_some());
        self.queue.forget_place(stamp) || was_held
    }

    /// The open reservation that a release names, by its lease or by the place it was granted to.
    fn unused(&self, input: &ReleaseInput, now: FleetTime) -> Option<(CallKey, Record)> {
        let key = input.key?;
        let record = self.records.get(&key).filter(|record| !record.is_over && now < record.ends_at)?;
        let lease = record.lease.lease();
        let is_meant = match input.what {
            GivenBack::Lease(serial) => lease.serial == serial,
            GivenBack::Place(stamp) => lease.stamp == stamp && !record.answered,
        };
        // Somebody reported of it, so it was heard.
        let is_meant = is_meant && !(input.is_unheard && record.answered);
        is_meant.then(|| (key, (**record).clone()))
    }

    /// `None` when the configuration has no place for the lease's model any more.
    fn apply<R: Rng + ?Sized>(
        &mut self,
        lease: &Lease,
        input: &ReportInput,
        is_open: bool,
        teaches: bool,
        now: FleetTime,
        rng: &mut R,
    ) -> Option<Reported> {
        let model = &input.lease.as_ref()?.model;
        let plan = self.plan(model).ok()?;
        let binding = self.value.bind(&plan, now);
        let usage = (!input.request.usage.is_empty()).then_some(&input.request.usage);
        let facts = Report {
            outcome: input.request.outcome,
            // What another target said teaches that one.
            signal: input.signal.as_ref().filter(|_| teaches && input.served == Served::AsSent),
            answered_at: now - input.request.age,
            usage,
            is_final: ends(input),
            is_open,
        };
        let mut done = report::apply(&mut self.value, &binding, lease, &facts, now, rng);
        if input.served != Served::AsSent {
            done.call_floor = floor_of_another(input, now);
        }
        Some(done)
    }

    pub(super) fn verdict(
        &mut self,
        lease: &Lease,
        wire: &LeaseWire,
        input: &ReportInput,
        has_begun: bool,
        done: &Reported,
        now: FleetTime,
    ) -> Verdict {
        let plan = self.plan(&wire.model).ok();
        let policy = match &plan {
            Some(plan) => *plan.class(lease.class),
            None => paceline_core::plan::ClassPolicy::default_of(lease.class),
        };
        // Who is not made to wait does not give up because of a wait of ours either.
        let is_enforced = wire::mode_of(wire) == Mode::Enforce;
        let standing = self.standing_floor(wire, now).filter(|_| is_enforced);
        let own = done.call_floor.filter(|_| is_enforced);
        let (not_before, source) = match (standing, own) {
            (Some(floor), Some(own)) if own.until > floor.until => (own.until, own.source),
            (Some(floor), _) => (floor.until, floor.source),
            (None, Some(own)) => (own.until, own.source),
            (None, None) => (now, paceline_core::signal::Source::None),
        };
        let policy = paceline_core::plan::ClassPolicy {
            max_wait: match wire.max_wait {
                _ if !is_enforced => LONGEST_FLOOR,
                stated if stated >= 0 => Span::from_micros(stated),
                _ => policy.max_wait,
            },
            ..policy
        };
        let ended = Ended {
            outcome: input.request.outcome,
            signal: input.signal.as_ref(),
            has_begun,
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
        match (retry::verdict(&ended), plan) {
            (Verdict::Retry, Some(plan)) if is_enforced => self
                .pointless((lease, wire), input, plan, &policy, done.call_floor, now)
                .map_or(Verdict::Retry, |denial| Verdict::GiveUp(denial.reason)),
            (verdict, _) => verdict,
        }
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

    #[expect(clippy::too_many_arguments, reason = "each is a different thing, and a struct would only rename them")]
    fn note_events(
        &self,
        input: &ReportInput,
        wire: &LeaseWire,
        refused: Option<NotApplied>,
        own: Option<&Record>,
        done: &Reported,
        verdict: Option<Verdict>,
        fx: &mut Effects,
    ) {
        let model: Arc<str> = Arc::from(wire.model.as_str());
        let is_news = matches!(refused, None | Some(NotApplied::LeaseExpired));
        fx.events_on_commit.push(told(input, Some(wire), verdict, is_news));
        // Given up by a release, or because the key was asked for again.
        if refused == Some(NotApplied::LeaseSettled) && own.is_none_or(|record| record.was_released) {
            fx.events_on_commit.push(Event::LateUse { model: model.clone() });
        }
        if done.flaps > 0 {
            fx.events_on_commit.push(Event::LimitFlapped { model });
        }
    }
}

/// A refusal by another target than the one asked: the call itself waits as told, and nobody else here.
fn floor_of_another(input: &ReportInput, now: FleetTime) -> Option<CallFloor> {
    let signal = input.signal.as_ref().filter(|signal| signal.kind != AnswerKind::Ok)?;
    let (wait, source) = match signal.retry_after {
        Some(told) if told > Span::ZERO => (told - input.request.age, signal.source),
        _ => (backoff::BASE, Source::Backoff),
    };
    (wait > Span::ZERO).then(|| CallFloor { until: now + wait.min(LONGEST_FLOOR), source })
}

/// What a report said; `is_news`: nothing that counts was known of the attempt's end before.
pub(super) fn told(input: &ReportInput, wire: Option<&LeaseWire>, verdict: Option<Verdict>, is_news: bool) -> Event {
    let refusal = input.signal.as_ref().filter(|signal| matches!(signal.kind, AnswerKind::Throttled | AnswerKind::Overloaded));
    let ended = wire.filter(|_| is_news && ends(input)).map(|wire| EndedAs {
        mode: wire::mode_of(wire),
        is_refused: refusal.is_some(),
        tells: input.signal.as_ref().is_some_and(|signal| !signal.buckets.is_empty() || signal.source != Source::None),
    });
    Event::Reported(Box::new(ReportEvent {
        model: wire.map_or_else(|| Arc::from(""), |wire| Arc::from(wire.model.as_str())),
        outcome: input.request.outcome,
        status: input.request.status,
        grpc_status: input.request.grpc_status,
        verdict: verdict.map_or("none", Verdict::name),
        refusal_source: refusal.map(|signal| signal.source),
        unread: input.signal.as_ref().map(|signal| signal.unread_headers.clone()).unwrap_or_default(),
        ended,
    }))
}

/// Why a report cannot settle anything, if it cannot.
fn not_applied(input: &ReportInput, record: Option<&Record>, now: FleetTime) -> Option<NotApplied> {
    let (Some(lease), true) = (&input.lease, input.is_authentic) else { return Some(NotApplied::LeaseUnknown) };
    let ended = FleetTime::from_micros(lease.send_at.saturating_add(lease.ttl));
    let Some(record) = record else {
        return Some(if ended <= now { NotApplied::LeaseExpired } else { NotApplied::LeaseUnknown });
    };
    if record.lease.serial != wire::serial_of(lease) {
        return Some(NotApplied::LeaseSettled); // the key was asked for again meanwhile: this lease was given up
    }
    if record.answered && input.request.seq <= record.seq && !input.only_renews() {
        return Some(NotApplied::Repeated);
    }
    if record.is_over {
        return Some(NotApplied::LeaseSettled);
    }
    (record.ends_at <= now).then_some(NotApplied::LeaseExpired)
}

/// Whether nothing more can come of the attempt: said so, implied by the outcome, or by an error's status.
pub(super) fn ends(input: &ReportInput) -> bool {
    let is_error = input.request.status >= 400 || input.signal.as_ref().is_some_and(|signal| signal.kind != AnswerKind::Ok);
    let response = input.request.outcome == Outcome::Response;
    input.request.outcome.is_final() || (response && (input.request.is_final || is_error))
}

pub(super) fn note_report(
    record: &mut Record,
    input: &ReportInput,
    done: &Reported,
    verdict: Option<Verdict>,
    ttl: Span,
    now: FleetTime,
) {
    record.seq = record.seq.max(input.request.seq);
    // Whoever only renews does not know whether the call was sent.
    record.answered |= !input.only_renews();
    record.has_begun |= input.signal.as_ref().is_some_and(|signal| signal.kind == AnswerKind::Ok);
    record.call_floor = done.call_floor.or(record.call_floor);
    record.verdict = verdict;
    if verdict.is_some() {
        record.is_over = true;
        record.paid_attempts += u32::from(retry::may_have_run(input.request.outcome, input.signal.as_ref()));
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

impl ReportInput {
    /// Whether it renews the lease and says nothing else: on behalf of a worker that is connected.
    fn only_renews(&self) -> bool {
        self.request.outcome == Outcome::Running && self.request.seq == 0
    }

    /// The key of the next attempt, where the report asks for it.
    pub(super) fn next_key(&self) -> Option<CallKey> {
        let lease = self.lease.as_ref().filter(|_| self.request.retry.is_some())?;
        Some(CallKey::new(&lease.identity, &lease.tenant, &lease.request_id, lease.attempt.saturating_add(1)))
    }
}

/// The next attempt of a reported call at a target, from its lease.
pub(crate) fn next_ask(wire: &LeaseWire, input: &ReportInput, target: Target) -> Option<AskInput> {
    let retry = input.request.retry.as_ref()?;
    let lease = wire::lease_of(wire);
    let attempt = lease.attempt.saturating_add(1);
    let stated = Amounts::from_pairs(wire.cost.iter().map(|(meter, units)| (meter.as_str(), *units)));
    let key = input.next_key()?;
    let request = AcquireRequest {
        identity: wire.identity.clone(),
        request_id: wire.request_id.clone(),
        attempt,
        target,
        fallbacks: Vec::new(),
        cost: if retry.cost.is_empty() { stated } else { retry.cost.clone() },
        cost_estimated: wire.cost_estimated,
        max_wait: retry.max_wait.or((wire.max_wait >= 0).then_some(Span::from_micros(wire.max_wait))),
        deadline: None,
        hold: retry.hold.unwrap_or(FIRST_HOLD),
        run_time: Some(lease.ttl),
        class: lease.class,
        tenant: wire.tenant.clone(),
        labels: wire.labels.clone(),
        parent: wire.parent.clone(),
        ticket: None,
        previous_lease_id: None,
        repeat: lease.repeat,
        decide_here: input.request.decide_here,
        sent_on_by: None,
    };
    let print = crate::inputs::print_of(&request);
    Some(AskInput {
        deadline_at: lease.deadline,
        request,
        key,
        print,
        ticket: None,
        place_lost: false,
        previous: Some(Box::new(wire.clone())),
        previous_key: input.key,
        candidates: input.candidates.clone(),
        is_fallback: false,
        elsewhere: None,
    })
}
