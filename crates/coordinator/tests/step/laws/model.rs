//! The workers of a random history, a reference bucket as the provider would keep it, and what must hold after each event.

use std::collections::BTreeMap;

use paceline_coordinator::api::{AcquireRequest, Answer, Grant, ReportRequest, USE_WITHIN};
use paceline_coordinator::scope::{Input, Reply, ReplyId};
use paceline_core::delays;
use paceline_core::report::Outcome;
use paceline_core::units::{FleetTime, Span};
use proptest::prelude::*;

use super::ops::{CALLS, Op, What};
use super::slots::{self, Back, Key, RUN_TIME, Slot};
use crate::support::{START, World, answered_as, ask, cost, limits, report, target, with_retry};

const LIMITS: &str = "concurrency: 6, limits: {requests: {limit: 120, per: 1m, burst: 8}, tokens: 6000/min}";
const CONCURRENCY: i64 = 6_000;
/// A call as its worker knows it.
#[derive(Clone, Debug, Default)]
struct Call {
    request: AcquireRequest,
    ticket: Option<Vec<u8>>,
    lease: Option<String>,
    seq: u32,
    /// When this attempt was asked for, each time.
    asked: Vec<FleetTime>,
}

/// Somebody who waits for an answer.
#[derive(Clone, Debug)]
struct Open {
    call: usize,
    key: Key,
    replica: usize,
    what: Asked,
    has_left: bool,
}

#[derive(Clone, Debug)]
enum Asked {
    Slot,
    Report { lease: String, at: FleetTime, applies: bool },
    Release { lease: Option<String> },
}

pub(crate) struct Model {
    world: World,
    calls: Vec<Call>,
    count: usize,
    open: BTreeMap<ReplyId, Open>,
    slots: BTreeMap<String, Slot>,
    turn: usize,
    /// The latest floor that was committed before the event at hand.
    floor: FleetTime,
}

impl Model {
    pub(crate) fn new(seed: u64) -> Self {
        let calls = vec![Call::default(); CALLS];
        let world = World::new(limits(LIMITS), seed);
        Self { world, calls, count: 0, open: BTreeMap::new(), slots: BTreeMap::new(), turn: 0, floor: START }
    }

    /// One event, and what must hold after it.
    pub(crate) fn run(&mut self, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Ask { call, replica, tokens, hold_ms, class } => {
                self.count += 1;
                let request = AcquireRequest {
                    cost: cost([("tokens", tokens)]),
                    hold: Span::from_millis(hold_ms),
                    class,
                    run_time: Some(RUN_TIME),
                    ..ask(&self.count.to_string())
                };
                self.calls[call] = Call { request: request.clone(), ..Call::default() };
                self.ask(call, replica, request);
            }
            Op::Again { call, replica, hold_ms } if !self.calls[call].request.request_id.is_empty() => {
                let Call { ticket, request, lease, .. } = self.calls[call].clone();
                // Asking again when the slot is over says that it was not sent.
                let own = lease.filter(|lease| request.previous_lease_id.as_ref() != Some(lease));
                if let Some(lease) = own.filter(|lease| self.is_missed(lease)) {
                    self.unsent(&lease, self.world.now);
                    // The other replica may learn of it only when it commits something.
                    self.slots.entry(lease).and_modify(|slot| slot.is_unsure = true);
                }
                self.ask(call, replica, AcquireRequest { ticket, hold: Span::from_millis(hold_ms), ..request });
            }
            Op::Report { call, replica, what, retry } => self.report(call, replica, what, retry),
            Op::Release { call, replica } => self.release(call, replica),
            Op::Leave { call } => {
                let held = self.open.iter_mut().find(|(_, open)| open.call == call && !open.has_left);
                if let Some((id, open)) = held {
                    open.has_left = true;
                    let (id, replica) = (*id, open.replica);
                    self.world.leave(replica, &target(""), id);
                }
            }
            Op::Pass { millis } => self.world.pass(Span::from_millis(millis)),
            Op::Refuse { commits } => self.world.refuse = commits,
            Op::Reload { replica } => self.world.tell_all(replica, || Input::Settings(limits(LIMITS))),
            Op::Restart { replica } => {
                // Whoever it held has lost its connection.
                self.world.put_away(replica);
                self.open.values_mut().filter(|open| open.replica == replica).for_each(|open| open.has_left = true);
            }
            Op::Again { .. } => {}
        }
        self.listen()
    }

    /// Everybody is answered in the end, and the provider saw no more than it allows.
    pub(crate) fn finish(mut self) -> Result<(), TestCaseError> {
        self.world.refuse = 0;
        self.world.pass(Span::from_secs(86_400));
        self.listen()?;
        let forgotten: Vec<&Open> = self.open.values().filter(|open| !open.has_left).collect();
        prop_assert!(forgotten.is_empty(), "never answered: {forgotten:?}");
        for replica in 0..2 {
            prop_assert!(self.world.is_quiet(replica), "somebody waits who was answered");
        }
        slots::bear(&self.slots)
    }

    fn ask(&mut self, call: usize, replica: usize, request: AcquireRequest) {
        self.calls[call].asked.push(self.world.now);
        let key = (request.request_id.clone(), request.attempt);
        let id = self.world.ask_at(replica, request).unwrap();
        self.open.insert(id, Open { call, key, replica, what: Asked::Slot, has_left: false });
    }

    fn report(&mut self, call: usize, replica: usize, what: What, retry: bool) {
        let state = &mut self.calls[call];
        let Some(lease) = state.lease.clone() else { return };
        if !matches!(what, What::Repeated) {
            state.seq += 1;
        }
        let (seq, tokens) = (state.seq, state.request.cost.of("tokens").unwrap_or(0));
        let request = match what {
            What::Running => report(&lease, seq, Outcome::Running),
            What::Done { used_percent } => {
                ReportRequest { usage: cost([("tokens", tokens * used_percent / 100)]), ..answered_as(&lease, seq, 200) }
            }
            What::RetryAfter { secs } => {
                ReportRequest { headers: vec![("Retry-After".into(), secs.to_string())], ..answered_as(&lease, seq, 429) }
            }
            What::Bare | What::Repeated => answered_as(&lease, seq, 429),
            What::Lost(outcome) => report(&lease, seq, outcome),
        };
        let at = self.world.now;
        let key = (state.request.request_id.clone(), state.request.attempt);
        let id = self.world.report_at(replica, if retry { with_retry(request) } else { request }).unwrap();
        let applies = self.settle(&lease, what, at);
        let what = Asked::Report { lease, at, applies };
        self.open.insert(id, Open { call, key, replica, what, has_left: false });
    }

    fn release(&mut self, call: usize, replica: usize) {
        let Call { ticket, lease, .. } = self.calls[call].clone();
        let (id, lease) = match (ticket, lease) {
            (Some(ticket), _) => (self.world.release_ticket(replica, &ticket).unwrap(), None),
            (None, Some(lease)) => (self.world.release_lease(replica, &lease).unwrap(), Some(lease)),
            (None, None) => return,
        };
        let request = &self.calls[call].request;
        let key = (request.request_id.clone(), request.attempt);
        self.open.insert(id, Open { call, key, replica, what: Asked::Release { lease }, has_left: false });
    }

    /// Looks at every new answer.
    fn listen(&mut self) -> Result<(), TestCaseError> {
        for answered in std::mem::take(&mut self.world.answers) {
            self.turn += 1;
            let Some(open) = self.open.remove(&answered.id) else {
                return Err(TestCaseError::fail(format!("answered twice: {answered:?}")));
            };
            prop_assert!(!open.has_left, "answered although it left: {answered:?}");
            let request = &self.calls[open.call].request;
            let is_current = (&request.request_id, request.attempt) == (&open.key.0, open.key.1);
            let is_same_call = |model: &Self, lease: &str| model.calls[open.call].lease.as_deref() == Some(lease);
            match (&answered.reply, &open.what) {
                // The worker has begun another call meanwhile and does not listen any more.
                (Reply::Answer(Ok(answer)), _) if !is_current => self.overhear(open.key, answer, answered.at),
                (Reply::Answer(Ok(answer)), _) => self.hear(open.call, answer, answered.at)?,
                (Reply::Report(Ok(told)), Asked::Report { lease, at, applies }) => {
                    let is_unsure = self.slots.get(lease).is_none_or(|slot| slot.is_unsure);
                    prop_assert!(is_unsure || told.not_applied.is_none() == *applies, "{told:?}");
                    if let Some(answer) = told.next.as_ref().filter(|_| is_same_call(self, lease)) {
                        let state = &mut self.calls[open.call];
                        state.request.attempt += 1;
                        state.request.previous_lease_id = Some(lease.clone());
                        (state.ticket, state.asked) = (None, vec![*at]);
                        self.hear(open.call, answer, answered.at)?;
                    }
                }
                (Reply::Released(true), Asked::Release { lease }) => match lease {
                    Some(lease) => self.unsent(lease, answered.at),
                    None => {
                        // The place may have been granted meanwhile, or it was another one: only the service knows.
                        let lease = self.calls[open.call].lease.clone().unwrap_or_default();
                        self.unsent(&lease, answered.at);
                        self.slots.entry(lease).and_modify(|slot| slot.is_unsure = true);
                        self.calls[open.call].ticket = None;
                    }
                },
                _ => {}
            }
        }
        self.check()
    }

    fn hear(&mut self, call: usize, answer: &Answer, at: FleetTime) -> Result<(), TestCaseError> {
        match answer {
            Answer::Granted(grant) => self.granted(call, grant, at),
            Answer::Queued(queued) => {
                self.adds_up(call, at, &queued.delays)?;
                self.calls[call].ticket = Some(queued.ticket.clone());
                Ok(())
            }
            Answer::Denied(denied) => {
                self.adds_up(call, at, &denied.delays)?;
                self.calls[call].ticket = None;
                Ok(())
            }
        }
    }

    fn overhear(&mut self, key: Key, answer: &Answer, at: FleetTime) {
        if let Answer::Granted(grant) = answer
            && !self.slots.contains_key(&grant.lease_id)
        {
            self.note_slot(key, grant, at);
        }
    }

    fn note_slot(&mut self, key: Key, grant: &Grant, at: FleetTime) {
        // A call that was held on the other replica too may have met the record of its missed slot there.
        let missed: Vec<String> = self
            .slots
            .iter()
            .filter(|(lease, slot)| slot.key == key && self.is_missed(lease))
            .map(|(lease, _)| lease.clone())
            .collect();
        for lease in missed {
            self.unsent(&lease, at);
        }
        self.turn += 1;
        self.slots.insert(grant.lease_id.clone(), Slot::new(key, grant, at, self.turn));
    }

    fn granted(&mut self, call: usize, grant: &Grant, at: FleetTime) -> Result<(), TestCaseError> {
        if self.slots.contains_key(&grant.lease_id) {
            return Ok(()); // told again
        }
        let send_at = at + grant.wait;
        self.adds_up(call, send_at, &grant.delays)?;
        prop_assert!(send_at >= self.floor, "I-2: sent at {}, floor {}", send_at - START, self.floor - START);
        let state = &mut self.calls[call];
        state.lease = Some(grant.lease_id.clone());
        (state.ticket, state.seq) = (None, 0);
        let key = (state.request.request_id.clone(), state.request.attempt);
        self.note_slot(key, grant, at);
        Ok(())
    }

    /// I-7: the parts add up to the time since one of the asks for this attempt.
    fn adds_up(&self, call: usize, until: FleetTime, parts: &[delays::DelayPart]) -> Result<(), TestCaseError> {
        let sum = delays::total(parts);
        let asked = &self.calls[call].asked;
        let known: Vec<Span> = asked.iter().map(|at| until - *at).collect();
        prop_assert!(known.contains(&sum), "I-7: {sum:?} is none of {known:?}: {parts:?}");
        Ok(())
    }

    /// What a report settles; whether it settles or renews anything.
    fn settle(&mut self, lease: &str, what: What, at: FleetTime) -> bool {
        self.turn += 1;
        let turn = self.turn;
        let Some(slot) = self.slots.get_mut(lease) else { return false };
        let is_known = matches!(what, What::Repeated) && slot.was_reported;
        if slot.is_over || is_known || at >= slot.ends_at {
            return false;
        }
        slot.was_reported = true;
        slot.is_over = !matches!(what, What::Running);
        match what {
            What::Lost(Outcome::ConnectionFailed) => slot.back = Some(Back { at, turn, requests: 1, tokens: slot.tokens }),
            What::Done { used_percent } => {
                let unused = slot.tokens - slot.tokens * used_percent / 100;
                slot.back = Some(Back { at, turn, requests: 0, tokens: unused });
            }
            What::Running => slot.ends_at = slot.ends_at.max(at + RUN_TIME),
            _ => {}
        }
        true
    }

    fn is_missed(&self, lease: &str) -> bool {
        self.slots.get(lease).is_some_and(|slot| !slot.was_reported && self.world.now > slot.send_at + USE_WITHIN)
    }

    /// A slot was given back or missed; what has ended by itself is spent.
    fn unsent(&mut self, lease: &str, at: FleetTime) {
        self.turn += 1;
        let turn = self.turn;
        let slot = self.slots.get_mut(lease);
        let Some(slot) = slot.filter(|slot| !slot.is_over) else { return };
        if !slot.was_reported && at < slot.ends_at {
            slot.back = Some(Back { at, turn, requests: 1, tokens: slot.tokens });
        }
        slot.is_over = true;
    }

    /// What holds at any time.
    fn check(&mut self) -> Result<(), TestCaseError> {
        let value = self.world.stored_value(&target(""));
        for bucket in &value.buckets {
            let in_use = bucket.holds.in_use(self.world.now).as_milli();
            prop_assert!(in_use <= CONCURRENCY, "{in_use} thousandths are in use");
            if let (Some(level), Some(capacity)) = (bucket.level_at(self.world.now), bucket.capacity()) {
                prop_assert!(level <= capacity, "{} holds {level:?}", bucket.plan.id.label());
            }
        }
        let floors = value.groups.iter().filter_map(|group| group.floor).chain(value.floor).map(|floor| floor.until);
        self.floor = floors.fold(self.floor, FleetTime::max);
        Ok(())
    }
}
