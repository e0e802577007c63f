//! One scope's coordinator as a pure step: inputs in, effects out. No clock, no I/O, no lock: `crate::actor` drives it in the
//! service, simulations and tests drive it in virtual time.

mod again;
mod alone;
mod answer;
mod ask;
mod bounds;
mod controls;
mod effects;
mod estimate;
mod gone;
mod input;
mod late;
mod lead;
mod lost;
mod mode;
mod organisations;
mod parent;
mod quote;
mod report;
mod shadow;
mod teach;
mod undo;
mod unread;
mod used;
mod view;
mod why;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use paceline_core::decide::{self, Decision};
use paceline_core::delays::DelayPart;
use paceline_core::holds::Holds;
use paceline_core::lease::Serial;
use paceline_core::mode::Mode;
use paceline_core::plan::Class;
use paceline_core::queue::{Ask, AskId, Queue};
use paceline_core::units::{FleetTime, Milli, Span};
use paceline_core::value::ScopeValue;
use rand::Rng;

use crate::api::{Answer, CallError, Denied, ReportAnswer, Target};
use crate::record::{CallKey, Kept, Record};
use crate::settings::Settings;
use crate::token::Keyring;

pub(crate) use ask::NAME_TAKEN;
pub use effects::{DecidedAs, Effects, EndedAs, Event, RecordChange, Reply, ReplyId, ReportEvent, UnitsOf};
pub(crate) use input::GivenBack;
pub(crate) use input::Served;
pub use input::{AskInput, ForgetInput, Input, ReleaseInput, ReportInput, TeachInput};
pub use lost::LostCommit;
pub use quote::{Elsewhere, Quote};
pub(crate) use report::next_ask;
pub use shadow::Tally;
pub use view::{
    BackingView, BucketView, DegradedView, FloorView, GroupView, LaneView, LeaderView, ScopeView, UnreadView, UsageView,
};

/// No record is kept for longer after it was written: the longest lease takes half of it.
const LONGEST_RECORD: Span = Span::from_secs(3_600);

/// A call that waits here.
#[derive(Clone, Debug)]
struct Call {
    reply: ReplyId,
    input: Arc<AskInput>,
    hold_until: FleetTime,
    place_lost: bool,
    /// When it waits as the `retry` of a report: the report's answer, completed by the ask's.
    report: Option<Box<ReportAnswer>>,
    history: paceline_core::lease::History,
    deadline: Option<FleetTime>,
    /// Of a call that is only watched: why it would not even have got a place.
    would_deny: Option<paceline_core::denial::Denial>,
    /// Providers at which earlier attempts may have run.
    ran_at: Vec<String>,
    /// Whether the store was asked for a record of its key.
    is_read: bool,
}

/// One scope's coordinator.
#[derive(Debug)]
pub struct Scope {
    target: Target,
    replica: u32,
    /// Where others reach this replica; without it, it neither leads nor sends calls on.
    address: Option<Arc<str>>,
    keyring: Arc<Keyring>,
    settings: Arc<dyn Settings>,
    value: ScopeValue,
    queue: Queue,
    calls: HashMap<AskId, Call>,
    by_reply: HashMap<ReplyId, AskId>,
    by_key: HashMap<CallKey, AskId>,
    holds: BTreeSet<(FleetTime, AskId)>,
    records: HashMap<CallKey, Arc<Record>>,
    /// Until then records that are not known here may be stored.
    strangers_until: FleetTime,
    /// When to look whether they are over, by whole seconds.
    record_ends: BTreeMap<i64, Vec<CallKey>>,
    families: parent::Families,
    plans: HashMap<String, Arc<paceline_core::plan::GroupPlan>>,
    next_ask: AskId,
    sequence: u64,
    is_draining: bool,
    /// Whether the value was put together from a memory and is not stored like that yet.
    is_unsaved: bool,
    /// Whether the value was taken over since the last step: whoever waits is looked at anew.
    is_adopted: bool,
    /// Where calls come from, while this replica leads.
    traffic: paceline_core::leader::Traffic,
    /// Set while the store does not answer and this replica decides by itself.
    alone: Option<paceline_core::alone::Alone>,
    /// What was done alone, while it is not known to be written.
    back: Option<Box<lost::Return>>,
    /// Commits that were on their way when the store fell silent.
    lost: Vec<LostCommit>,
    /// Leases that are stored and that nobody heard of.
    unheard: Vec<lost::Unheard>,
    /// Records that were not written because the store did not answer.
    pending: HashMap<CallKey, RecordChange>,
    /// How many of them there may be before those that are over are dropped.
    pending_sweep_at: usize,
    /// Calls in line when this replica was left alone: those of closed groups are refused in the next step.
    shut: Vec<AskId>,
    /// Whether the records of asks are read while these wait or are granted, instead of before.
    reads_late: bool,
    /// Asks whose records are read first, late reading or not.
    read_first: HashSet<ReplyId>,
    /// Calls that came in this step and whose records nobody has read.
    unread_asks: Vec<AskId>,
    /// Calls in flight that this replica granted, for its gauges.
    flights: [Holds; 3],
    /// What calls usually cost.
    usual: estimate::Usual,
    /// Headers that nothing read.
    unread: unread::Unread,
    /// Calls in line that are not made to wait: they leave it in the same step.
    through: Vec<AskId>,
    /// Where watched calls would be.
    line: paceline_core::shadow::Line,
    watched: shadow::Tally,
    /// Whose quota answers were about.
    organisations: organisations::Organisations,
    /// Callers that went without a word.
    gone: gone::Gone,
    /// What people on call have said, as it holds here.
    controls: paceline_core::controls::OfScope,
    /// Whether the controls of the settings in force were looked at.
    has_heard: bool,
}

impl std::fmt::Debug for dyn Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Settings")
    }
}

impl Scope {
    /// A scope nobody has used, of a canonical target (its model is ignored).
    pub fn new(target: Target, replica: u32, keyring: Arc<Keyring>, settings: Arc<dyn Settings>) -> Self {
        Self {
            target,
            replica,
            address: None,
            keyring,
            settings,
            value: ScopeValue::default(),
            queue: Queue::default(),
            calls: HashMap::new(),
            by_reply: HashMap::new(),
            by_key: HashMap::new(),
            holds: BTreeSet::new(),
            records: HashMap::new(),
            strangers_until: FleetTime::MAX,
            record_ends: BTreeMap::new(),
            families: parent::Families::default(),
            plans: HashMap::new(),
            next_ask: 0,
            sequence: 0,
            is_draining: false,
            is_unsaved: false,
            is_adopted: false,
            traffic: paceline_core::leader::Traffic::default(),
            alone: None,
            back: None,
            lost: Vec::new(),
            unheard: Vec::new(),
            pending: HashMap::new(),
            pending_sweep_at: 1_024,
            shut: Vec::new(),
            reads_late: false,
            read_first: HashSet::new(),
            unread_asks: Vec::new(),
            flights: Default::default(),
            usual: estimate::Usual::default(),
            unread: unread::Unread::default(),
            through: Vec::new(),
            line: paceline_core::shadow::Line::default(),
            watched: shadow::Tally::default(),
            organisations: organisations::Organisations::default(),
            gone: gone::Gone::default(),
            controls: paceline_core::controls::OfScope::default(),
            has_heard: false,
        }
    }

    /// Provider and account; its model is empty.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The value as this replica has it.
    pub fn value(&self) -> &ScopeValue {
        &self.value
    }

    /// The queue.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Adopts a value that was merged because the store had lost something: the next step writes it, whatever else it does.
    pub fn adopt_merged(&mut self, value: ScopeValue, now: FleetTime) {
        self.adopt(value, now);
        self.is_unsaved = true;
    }

    /// Adopts the store's value: at first, or after another replica's commit. Cached records may be out of date then.
    pub fn adopt(&mut self, value: ScopeValue, now: FleetTime) {
        self.is_unsaved = false;
        self.is_adopted = true;
        self.value = value;
        self.value.repair(now);
        self.records.clear();
        self.strangers_until = now + LONGEST_RECORD;
        self.record_ends.clear();
        self.families.clear();
    }

    /// The keys whose records an input needs read: those that are not cached, and those that decide without a commit which
    /// would find a newer value. (Another replica may have taken a report of this lease.)
    pub fn missing_records(&self, input: &Input) -> Vec<CallKey> {
        let needed = match input {
            Input::Ask(reply, ask) if self.reads_late => return self.needed_for(*reply, ask),
            Input::Ask(_, ask) | Input::Quote(_, ask) => {
                return [ask.previous_key, Some(ask.key)].into_iter().chain(ask.families()).flatten().collect();
            }
            Input::Report(_, report) => {
                let families = report.families().into_iter().filter(|key| !self.families.knows(key));
                let keys = [report.key, report.next_key()].into_iter().flatten();
                return keys.filter(|key| !self.records.contains_key(key)).chain(families).collect();
            }
            Input::Release(_, release) => [release.needs(), None],
            Input::Recall(_, key, _) => return vec![*key],
            Input::Taken(key) => [Some(*key), None],
            Input::Leave(_)
            | Input::Settings(_)
            | Input::Drain
            | Input::HandOver(..)
            | Input::Inspect(_)
            | Input::Forget(..)
            | Input::Find(..)
            | Input::Teach(_) => [None, None],
        };
        needed.into_iter().flatten().filter(|key| !self.records.contains_key(key)).collect()
    }

    /// Takes a record read from the store.
    pub fn know_record(&mut self, key: CallKey, record: impl Into<Kept>) {
        match record.into() {
            Kept::Call(record) => {
                self.record_ends.entry(second_after(record.keep_until())).or_default().push(key);
                self.records.insert(key, record);
            }
            Kept::Family(family) => self.families.know(key, family),
        }
    }

    /// The store has no record under this key.
    pub fn know_absent(&mut self, key: CallKey) {
        self.families.know_none(key);
    }

    /// Holds nobody from now on: the replica is shutting down.
    pub fn stop_holding(&mut self) {
        self.is_draining = true;
    }

    /// Whether nothing here would be missed: nobody waits and no lease is cached.
    pub fn is_idle(&self) -> bool {
        self.calls.is_empty() && self.records.is_empty() && self.queue.is_empty()
    }

    /// Calls in flight that this replica granted, by class.
    pub fn in_flight_by_class(&self, now: FleetTime) -> [u64; 3] {
        [0, 1, 2].map(|class: usize| self.flights.get(class).map_or(0, |flights| flights.in_use(now).as_units_floor()))
    }

    /// How many organisations answers have named lately; more than one: the account's name stands for several quotas.
    pub fn organisations(&self, now: FleetTime) -> u64 {
        view::count(self.organisations.count(now))
    }

    /// Moves one call in flight from one expiry slot to another; `None`: it starts, or it ends.
    fn move_flight(&mut self, class: Class, from: Option<FleetTime>, to: Option<FleetTime>) {
        let Some(flights) = self.flights.get_mut(class.index()) else { return };
        let one = Milli::from_units(1);
        let moved = from.map_or(one, |ends| flights.free(ends, one));
        if let Some(ends) = to.filter(|_| moved > Milli::ZERO) {
            flights.take(ends, one);
        }
    }

    /// One step: takes `inputs`, decides what can be decided at `now`, and says what follows.
    pub fn step<R: Rng + ?Sized>(&mut self, inputs: Vec<Input>, now: FleetTime, rng: &mut R) -> Effects {
        let mut fx = Effects::default();
        self.expire(now, &mut fx);
        self.meet_settings(now);
        // What was merged may have another floor or limit.
        fx.changed |= std::mem::take(&mut self.is_unsaved);
        let mut recheck = std::mem::take(&mut self.is_adopted) | self.obey(now, &mut fx);
        for input in inputs {
            recheck |= self.take(input, now, rng, &mut fx);
        }
        self.let_through(now, &mut fx);
        self.shut_out(now, &mut fx);
        let pass = decide::decide(&mut self.value, &mut self.queue, now, recheck, rng);
        for (ask, decision) in pass.decided {
            self.decided(ask, decision, now, &mut fx);
        }
        self.end_holds(now, &mut fx);
        self.name_unread(&mut fx);
        self.settle_alone(now, &mut fx);
        if fx.changed && self.alone.is_none() {
            fx.undo.extend(self.back.take().map(effects::Undo::Return));
            self.value.lineage.wrote(self.replica);
            self.take_lead(now);
        }
        let late = self.has_late_records().then_some(now);
        fx.wake_at = [
            late,
            self.next_end_of_control(),
            pass.look_again_at,
            self.holds.first().map(|(at, _)| *at),
            self.queue.next_forgetting(),
        ]
        .into_iter()
        .flatten()
        .min();
        fx
    }

    /// Returns whether floors or limits may have changed for calls that wait.
    fn take<R: Rng + ?Sized>(&mut self, input: Input, now: FleetTime, rng: &mut R, fx: &mut Effects) -> bool {
        match input {
            Input::Ask(reply, ask) => {
                self.note_origin(&ask, now);
                self.ask(reply, &ask, None, now, fx);
                false
            }
            Input::Report(reply, report) => self.report(reply, report, now, rng, fx),
            Input::Release(reply, release) => {
                self.release(reply, release, now, fx);
                false
            }
            Input::Quote(reply, ask) => {
                let quote = self.quote(&ask, now);
                fx.answer(reply, Reply::Quote(Box::new(quote)), None);
                false
            }
            Input::Recall(reply, key, serial) => {
                fx.answer(reply, Reply::Recalled(self.recall(key, serial)), None);
                false
            }
            Input::Forget(reply, forget) => self.forget(reply, forget, now, fx),
            Input::Teach(answer) => self.teach(&answer, now, rng, fx),
            Input::Taken(key) => {
                self.taken(key, now, fx);
                false
            }
            local => self.take_local(local, now, fx),
        }
    }

    /// Takes what needs no store. Returns whether limits may have changed for calls that wait.
    fn take_local(&mut self, input: Input, now: FleetTime, fx: &mut Effects) -> bool {
        match input {
            Input::Leave(reply) => self.go(reply, now),
            Input::Settings(settings) => {
                self.settings = settings;
                self.plans.clear();
                fx.changed |= self.meet_settings(now);
                self.hear_controls(now);
                self.obey(now, fx);
                self.replan_waiting(now);
                return true;
            }
            Input::Drain => {
                self.drain(now);
                fx.changed |= self.lay_down_lead();
            }
            Input::HandOver(replica, address) => fx.changed |= self.hand_over(replica, address, now),
            Input::Inspect(reply) => {
                let view = view::view(self, now);
                fx.answer(reply, Reply::View(Box::new(view)), None);
            }
            Input::Find(reply, asked) => {
                let found = self.find(&asked, now);
                fx.answer(reply, Reply::Found(Box::new(found)), None);
            }
            // These need the store.
            Input::Ask(..)
            | Input::Report(..)
            | Input::Release(..)
            | Input::Quote(..)
            | Input::Recall(..)
            | Input::Forget(..)
            | Input::Teach(_)
            | Input::Taken(_) => {}
        }
        false
    }

    fn expire(&mut self, now: FleetTime, fx: &mut Effects) {
        let ended = self.value.expire(now);
        if ended > 0 {
            fx.changed = true;
            fx.events_on_commit.push(Event::LeasesExpired(ended));
        }
        for flights in &mut self.flights {
            flights.expire(now);
        }
        self.queue.forget_absent(now);
        self.gone.expire(now);
        let second = second_after(now);
        while let Some(over) = self.record_ends.first_entry().filter(|entry| *entry.key() < second) {
            for key in over.remove() {
                if self.records.get(&key).is_some_and(|record| record.keep_until() <= now) {
                    let over = self.records.remove(&key);
                    fx.events.extend(over.and_then(|record| why::forgotten(&record, now)));
                }
            }
        }
    }

    fn decided(&mut self, ask: Ask, decision: Decision, now: FleetTime, fx: &mut Effects) {
        let Some(call) = self.forget_call(ask.id) else { return };
        match decision {
            Decision::Granted(slot) => {
                self.line.sent(&self.value, &slot.charges, ask.class, now);
                self.granted(ask, call, *slot, None, now, fx);
            }
            Decision::Denied(..) if !call.is_read => fx.unread.push(Input::Ask(call.reply, call.input)),
            Decision::Denied(mut denial, delays) => {
                self.explain_alone(&mut denial);
                ask::explain_lowered(&mut denial, &call.input, ask.class);
                let outcome = DecidedAs::Denied(denial.reason);
                let event = Event::decided(&call.input.request, ask.class, Mode::Enforce, outcome, delays.clone());
                fx.remember(call.reply, why::denied(&call.input, ask.class, &denial, &delays, now));
                let answer = Answer::Denied(Box::new(Denied { denial, delays }));
                fx.answer(call.reply, reply_to(call.report, Ok(answer)), Some(event));
            }
        }
    }

    /// Sends callers away with a ticket whose hold is over.
    fn end_holds(&mut self, now: FleetTime, fx: &mut Effects) {
        while let Some((at, id)) = self.holds.first().copied().filter(|(at, _)| *at <= now) {
            self.holds.remove(&(at, id));
            self.send_away(id, now, fx);
        }
    }

    /// Answers a caller with a ticket; returns its wait so far.
    fn send_away(&mut self, id: AskId, now: FleetTime, fx: &mut Effects) -> Option<Vec<DelayPart>> {
        let (queued, class) = self.queue_ticket(id, now)?;
        let call = self.forget_call(id)?;
        let delays = queued.delays.clone();
        fx.remember(call.reply, why::sent_away(&call.input, class, &queued, now));
        let event = Event::decided(&call.input.request, class, Mode::Enforce, DecidedAs::Queued, delays.clone());
        fx.answer(call.reply, reply_to(call.report, Ok(Answer::Queued(Box::new(queued)))), Some(event));
        Some(delays)
    }

    fn enqueue(&mut self, ask: Ask, call: Call, now: FleetTime) {
        self.by_reply.insert(call.reply, ask.id);
        self.by_key.insert(call.input.key, ask.id);
        self.holds.insert((call.hold_until, ask.id));
        if self.mode_of(&call.input.request) != Mode::Enforce {
            self.through.push(ask.id);
        }
        let (id, has_gone) = (ask.id, self.gone.take(call.reply));
        self.calls.insert(ask.id, call);
        self.queue.push(ask, now);
        if has_gone {
            self.leave_line(id, now);
        }
    }

    /// Forgets a call that left the queue.
    fn forget_call(&mut self, id: AskId) -> Option<Call> {
        let call = self.calls.remove(&id)?;
        self.by_reply.remove(&call.reply);
        self.by_key.remove(&call.input.key);
        self.holds.remove(&(call.hold_until, id));
        Some(call)
    }

    /// A call that is answered otherwise, or taken again, leaves the line.
    fn take_out(&mut self, reply: ReplyId, now: FleetTime) {
        if let Some(id) = self.by_reply.get(&reply).copied() {
            self.queue.remove(id, now);
            self.forget_call(id);
        }
    }

    fn drain(&mut self, now: FleetTime) {
        self.is_draining = true;
        let ids: Vec<AskId> = self.calls.keys().copied().collect();
        for id in ids {
            if let Some(call) = self.calls.get_mut(&id) {
                self.holds.remove(&(call.hold_until, id));
                call.hold_until = now;
                self.holds.insert((now, id));
            }
        }
    }

    /// Moves waiting calls under a changed configuration; places and waits are kept.
    fn replan_waiting(&mut self, now: FleetTime) {
        let ids: Vec<AskId> = self.calls.keys().copied().collect();
        for id in ids {
            let Some(input) = self.calls.get(&id).map(|call| call.input.clone()) else { continue };
            let Ok(plan) = self.plan(&input.request.target.model) else { continue };
            if self.mode_of(&input.request) != Mode::Enforce {
                self.through.push(id);
            }
            if let Some((waiting, parts)) = self.queue.remove(id, now) {
                let weight = self.settings.tenant(&waiting.ask.tenant).weight;
                let pause = self.pause_of(&input.request.target.model, &waiting.ask.tenant, waiting.ask.class);
                self.queue.push(Ask { plan, weight, pause, prior: parts, entered_at: now, ..waiting.ask }, now);
            }
        }
    }

    fn plan(&mut self, model: &str) -> Result<Arc<paceline_core::plan::GroupPlan>, CallError> {
        if let Some(plan) = self.plans.get(model) {
            return Ok(plan.clone());
        }
        let plan = self.settings.plan(&Target { model: model.to_string(), ..self.target.clone() })?;
        let plan = self.as_divided(plan);
        // Bounded: a worker may invent model names, and each would stay.
        if self.plans.len() >= 1_024 {
            self.plans.clear();
        }
        self.plans.insert(model.to_string(), plan.clone());
        Ok(plan)
    }

    /// Finds out whether the limits are those of the configuration read here. Returns whether they are from now on.
    fn meet_settings(&mut self, now: FleetTime) -> bool {
        self.settings.loaded().is_some_and(|mine| self.value.meet(&mine, now))
    }

    fn next_serial(&mut self, now: FleetTime) -> Serial {
        self.sequence += 1;
        Serial { at: now, replica: self.replica, sequence: self.sequence }
    }
}

/// The answer to an ask as it is sent: by itself, or as a part of the report that asked. That was taken whatever became of the
/// ask, so an error costs no more than the next slot.
fn reply_to(report: Option<Box<ReportAnswer>>, answer: Result<Answer, CallError>) -> Reply {
    match report {
        None => Reply::Answer(answer),
        Some(mut report) => {
            report.next = answer.ok();
            Reply::Report(Ok(report))
        }
    }
}

/// The first whole second after an instant.
fn second_after(at: FleetTime) -> i64 {
    at.as_micros().div_euclid(1_000_000) + 1
}

/// A wait in whole microseconds from `now`.
fn from_now(at: FleetTime, now: FleetTime) -> Span {
    at.since(now)
}
