//! Who waits, in what order: a pure structure in the memory of the replica that holds the calls.
//!
//! A *lane* holds the calls of one tenant and class in one group, first come first served by stamp. Absent callers (away with a ticket)
//! are remembered only to tell the others how many are ahead; they are never granted anything. A call with a floor of its own
//! (the provider refused this call alone) is *parked* until shortly before that floor ends, and one that a person paused until the
//! pause ends: it keeps its place and nobody waits behind it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::amounts::Amounts;
use crate::controls::Pause;
use crate::delays::{self, Cause, DelayPart, Ledger, RunnerUp, Snapshot};
use crate::fair::lane_hash;
use crate::lease::{CallFloor, Serial};
use crate::plan::{Class, GroupPlan, Portion, Weight};
use crate::signal::Source;
use crate::tally::Sent;
use crate::units::{FleetTime, Milli, Span};
use crate::usage::CallKind;

/// The most calls that wait in one group.
pub const MOST_WAITING_IN_GROUP: usize = 10_000;

/// From so many lanes on, further tenants of a class and group share [`SHARED_LANES`] lanes by hash.
pub const MOST_OWN_LANES: usize = 64;
/// Lanes that tenants share for whom there is no lane of their own.
pub const SHARED_LANES: u64 = 16;

/// Names a waiting call within its queue; given by the coordinator.
pub type AskId = u64;

/// A call that wants a slot.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Its name in the queue.
    pub id: AskId,
    /// Its place in line.
    pub stamp: Serial,
    /// Whether it is attempt 2 or later, and whether it comes as a fallback.
    pub sent: Sent,
    /// How urgent.
    pub class: Class,
    /// Among whom capacity is shared.
    pub tenant: Arc<str>,
    /// Its weight among the tenants of its class.
    pub weight: Weight,
    /// What limits apply.
    pub plan: Arc<GroupPlan>,
    /// What it costs, as stated.
    pub cost: Amounts,
    /// What kind of call it is, for what it does not state.
    pub kind: CallKind,
    /// Whether the cost is a guess: then it is cut to what fits instead of refused.
    pub cost_estimated: bool,
    /// When this attempt was first asked for.
    pub asked_at: FleetTime,
    /// When it entered the queue (again).
    pub entered_at: FleetTime,
    /// The latest send time that is of use.
    pub wait_until: FleetTime,
    /// Whether that comes from the deadline (true) or from `max_wait`.
    pub until_deadline: bool,
    /// How long such calls typically run, where the deadline leaves room for that.
    pub run: Span,
    /// The longest provider's floor it waits for.
    pub honor_cap: Span,
    /// A floor under this call alone.
    pub not_before: Option<CallFloor>,
    /// A pause that a person said for calls like it.
    pub pause: Option<Pause>,
    /// How long it may run without a report.
    pub ttl: Span,
    /// The wait before it entered, by cause; adds up to `entered_at - asked_at`.
    pub prior: Vec<DelayPart>,
}

/// Which lane.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneKey {
    /// More urgent classes first.
    pub class: Class,
    /// The group's key.
    pub group: Arc<str>,
    /// The tenant, or `other:NN` where many tenants share a lane.
    pub tenant: Arc<str>,
}

/// A call in a lane.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The call.
    pub ask: Ask,
    /// Whether no decision has passed over it yet.
    pub fresh: bool,
    /// What else would have held it up, found at its first look.
    pub runner_up: Option<RunnerUp>,
    snapshot: Snapshot,
    /// Since when it is parked, and why.
    parked: Option<(FleetTime, Cause)>,
}

impl Waiting {
    /// Its wait by cause; `ledger`: of its lane, advanced to `now`.
    fn parts(&self, ledger: &Ledger, now: FleetTime) -> Vec<DelayPart> {
        let mut parts = self.ask.prior.clone();
        match &self.parked {
            Some((since, cause)) => delays::add(&mut parts, cause, now.since(*since)),
            None => {
                for part in ledger.since(&self.snapshot) {
                    delays::add(&mut parts, &part.cause, part.length);
                }
            }
        }
        parts
    }
}

/// Calls of one tenant and class in one group.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Present callers by stamp, parked ones included.
    pub waiting: BTreeMap<Serial, Waiting>,
    /// Present callers that are not parked.
    ready: BTreeSet<Serial>,
    /// Parked callers by the instant at which they come back into line.
    parked: BTreeSet<(FleetTime, Serial)>,
    /// Absent callers by stamp.
    absent: BTreeMap<Serial, Away>,
    /// What held the lane up, in total.
    pub ledger: Ledger,
    /// The bucket it was last found waiting for, by its position in the value.
    pub(crate) waits_on: Option<usize>,
}

/// What is remembered of a caller that is away with a ticket, for counting only.
#[derive(Clone, Debug)]
struct Away {
    /// Until when.
    until: FleetTime,
    /// What it costs in each bucket of its plan.
    charges: Box<[Milli]>,
}

/// A call before another in its lane.
#[derive(Clone, Copy, Debug)]
pub enum Ahead<'q> {
    /// It is here.
    Here(&'q Ask),
    /// It is away with a ticket; what it costs in each bucket of its plan.
    Away(&'q [Milli]),
}

/// All lanes of one scope.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    lanes: BTreeMap<LaneKey, Lane>,
    places: HashMap<AskId, (LaneKey, Serial)>,
    limits: BTreeSet<(FleetTime, AskId)>,
    /// Where absent callers stand, by the instant at which they are forgotten.
    away: BTreeMap<(FleetTime, Serial), LaneKey>,
    fresh: Vec<AskId>,
    /// Present retries and fallbacks by group.
    kinds: HashMap<Arc<str>, Kinds>,
}

/// How many waiting calls are of a kind that is bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// Attempts after the first.
    pub retries: u64,
    /// Calls whose own target was worse off.
    pub fallbacks: u64,
}

impl Kinds {
    fn of(sent: Sent) -> Self {
        Self { retries: u64::from(sent.is_retry), fallbacks: u64::from(sent.is_fallback) }
    }
}

/// Where a caller stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Callers before it in its lane, absent ones included.
    pub ahead: u64,
    /// Present callers that will go before it: in its lane, of other tenants of its class as many as their weight gives them
    /// meanwhile, and of more urgent classes as many as its guarantee lets pass.
    pub present_ahead: u64,
}

impl Queue {
    /// Puts a call in its lane.
    pub fn push(&mut self, mut ask: Ask, now: FleetTime) {
        let key = self.lane_for(&ask);
        let lane = self.lanes.entry(key.clone()).or_insert_with(|| Lane {
            waiting: BTreeMap::new(),
            ready: BTreeSet::new(),
            parked: BTreeSet::new(),
            absent: BTreeMap::new(),
            ledger: Ledger::new(now),
            waits_on: None,
        });
        lane.ledger.advance(now);
        // Two that come with one place (a ticket that was copied) stand one behind the other.
        while lane.waiting.contains_key(&ask.stamp) {
            ask.stamp.sequence = ask.stamp.sequence.wrapping_add(1);
        }
        if let Some(away) = lane.absent.remove(&ask.stamp) {
            self.away.remove(&(away.until, ask.stamp));
        }
        let of = Kinds::of(ask.sent);
        if of != Kinds::default() {
            let kinds = self.kinds.entry(key.group.clone()).or_default();
            kinds.retries += of.retries;
            kinds.fallbacks += of.fallbacks;
        }
        self.limits.insert((ask.wait_until, ask.id));
        self.fresh.push(ask.id);
        self.places.insert(ask.id, (key, ask.stamp));
        let floor = ask.not_before.map(|floor| (floor.until - ask.class.horizon(), floor.source));
        // Nothing is decided while a pause lasts, not even for the moment after it.
        let pause = ask.pause.as_ref().map(|pause| (pause.until, Source::Paused));
        let back = floor.into_iter().chain(pause).max_by_key(|(back_at, _)| *back_at).filter(|(back_at, _)| *back_at > now);
        let back_at = back.map(|(back_at, _)| back_at);
        let parked = back.map(|(_, source)| (now, Cause::plain(source)));
        match back_at {
            Some(back_at) => lane.parked.insert((back_at, ask.stamp)),
            None => lane.ready.insert(ask.stamp),
        };
        // Who has waited before and is put in line again (back with a ticket, another configuration) is not new here.
        let fresh = ask.prior.is_empty();
        let snapshot = lane.ledger.snapshot();
        lane.waiting.insert(ask.stamp, Waiting { ask, fresh, runner_up: None, snapshot, parked });
    }

    /// The tenant's own lane, or one that it shares with others where there are many. A tenant with calls in a shared lane stays
    /// in it, so that none of its calls overtakes another.
    fn lane_for(&self, ask: &Ask) -> LaneKey {
        let own = LaneKey { class: ask.class, group: ask.plan.key.clone(), tenant: ask.tenant.clone() };
        if self.lanes.contains_key(&own) {
            return own;
        }
        let number = lane_hash(&ask.tenant) % SHARED_LANES;
        let shared = LaneKey { tenant: Arc::from(format!("other:{number:02}")), ..own.clone() };
        let is_only_one = || !self.lanes.keys().any(|key| key.class == own.class && key.group == own.group);
        let has_own = !self.lanes.contains_key(&shared) && (self.lanes.len() < MOST_OWN_LANES || is_only_one());
        if has_own { own } else { shared }
    }

    /// Takes a call out; `None` if it is not there. With its wait so far by cause, which adds up to `now - asked_at`.
    pub fn remove(&mut self, id: AskId, now: FleetTime) -> Option<(Waiting, Vec<DelayPart>)> {
        let (key, stamp) = self.places.remove(&id)?;
        let lane = self.lanes.get_mut(&key)?;
        let waiting = lane.waiting.remove(&stamp)?;
        self.limits.remove(&(waiting.ask.wait_until, waiting.ask.id));
        lane.ready.remove(&stamp);
        lane.parked.retain(|(_, parked)| waiting.parked.is_none() || *parked != stamp);
        lane.ledger.advance(now);
        let parts = waiting.parts(&lane.ledger, now);
        if lane.waiting.is_empty() && lane.absent.is_empty() {
            self.lanes.remove(&key);
        }
        self.uncount(&key.group, waiting.ask.sent);
        Some((waiting, parts))
    }

    /// The wait of a waiting call so far by cause, which adds up to `now - asked_at`.
    pub fn waited(&self, id: AskId, now: FleetTime) -> Option<Vec<DelayPart>> {
        let (waiting, mut ledger) = (self.get(id)?, self.lane_of(id)?.ledger.clone());
        ledger.advance(now);
        Some(waiting.parts(&ledger, now))
    }

    /// Takes a call out whose caller goes away with a ticket; its place and what it costs in each bucket of its plan are
    /// remembered until `until`, for counting only.
    pub fn leave(
        &mut self,
        id: AskId,
        now: FleetTime,
        until: FleetTime,
        charges: Box<[Milli]>,
    ) -> Option<(Waiting, Vec<DelayPart>)> {
        let (key, stamp) = self.places.get(&id)?.clone();
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.absent.insert(stamp, Away { until, charges });
            self.away.insert((until, stamp), key);
        }
        self.remove(id, now)
    }

    /// A waiting call.
    pub fn get(&self, id: AskId) -> Option<&Waiting> {
        let (key, stamp) = self.places.get(&id)?;
        self.lanes.get(key)?.waiting.get(stamp)
    }

    /// The lane a waiting call is in.
    pub fn lane_of(&self, id: AskId) -> Option<&Lane> {
        self.lanes.get(&self.places.get(&id)?.0)
    }

    /// What a waiting call waits for: its own floor, or what holds its lane up.
    pub fn cause_of(&self, id: AskId) -> Option<Cause> {
        let own = self.get(id)?.parked.as_ref().map(|(_, cause)| cause.clone());
        own.or_else(|| self.lane_of(id).map(|lane| lane.ledger.current().clone()))
    }

    /// When the next parked call comes back into line, if any.
    pub fn next_back(&self) -> Option<FleetTime> {
        self.lanes.values().filter_map(|lane| lane.parked.first()).map(|(back_at, _)| *back_at).min()
    }

    /// The lanes.
    pub fn lanes(&self) -> impl Iterator<Item = (&LaneKey, &Lane)> {
        self.lanes.iter()
    }

    /// From now on this holds a lane up: `waits_on` is the position of the bucket it waits for, if it is one.
    pub(crate) fn hold_up(&mut self, key: &LaneKey, source: Source, bucket: &Arc<str>, waits_on: Option<usize>) {
        if let Some(lane) = self.lanes.get_mut(key) {
            lane.ledger.set(source, bucket);
            lane.waits_on = waits_on;
        }
    }

    /// A lane.
    pub fn lane(&self, key: &LaneKey) -> Option<&Lane> {
        self.lanes.get(key)
    }

    /// How many calls wait here.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether nobody waits here.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many calls wait in a group, present ones.
    pub fn len_of_group(&self, group: &str) -> usize {
        self.lanes.iter().filter(|(key, _)| &*key.group == group).map(|(_, lane)| lane.waiting.len()).sum()
    }

    /// How many of the group's waiting calls, present ones, are retries and fallbacks.
    pub fn kinds_of_group(&self, group: &str) -> Kinds {
        self.kinds.get(group).copied().unwrap_or_default()
    }

    fn uncount(&mut self, group: &Arc<str>, sent: Sent) {
        let of = Kinds::of(sent);
        let Some(kinds) = self.kinds.get_mut(group) else { return };
        kinds.retries = kinds.retries.saturating_sub(of.retries);
        kinds.fallbacks = kinds.fallbacks.saturating_sub(of.fallbacks);
        if *kinds == Kinds::default() {
            self.kinds.remove(group);
        }
    }

    /// The call whose limit comes first.
    pub fn first_limit(&self) -> Option<(FleetTime, AskId)> {
        self.limits.first().copied()
    }

    /// Nobody waits under this name: a limit without a call must not stop a pass.
    pub(crate) fn forget_limit(&mut self, limit: FleetTime, id: AskId) {
        self.limits.remove(&(limit, id));
    }

    /// Where a waiting call stands.
    pub fn standing(&self, id: AskId) -> Standing {
        let Some((key, stamp)) = self.places.get(&id) else { return Standing::default() };
        let mut standing = Standing::default();
        let Some(own) = self.lanes.get(key) else { return standing };
        let before = own.waiting.range(..stamp).count();
        standing.ahead = as_u64(before.saturating_add(own.absent.range(..stamp).count()));
        let (mut of_class, mut urgent) = (before, 0_usize);
        for (other, lane) in self.lanes.iter().filter(|(other, _)| other.group == key.group && *other != key) {
            if other.class < key.class {
                urgent = urgent.saturating_add(lane.waiting.len());
            } else if other.class == key.class {
                of_class = of_class.saturating_add(lane.goes_before(own, before));
            }
        }
        // Its class's guarantee bounds how many urgent ones go before each of its calls.
        let guarantee =
            own.waiting.get(stamp).map_or(0, |waiting| u64::from(waiting.ask.plan.class(key.class).guarantee.as_millionths()));
        let whole = u64::from(Portion::WHOLE.as_millionths());
        let most = as_u64(of_class).saturating_add(1).saturating_mul(whole - guarantee).checked_div(guarantee);
        standing.present_ahead = as_u64(of_class).saturating_add(as_u64(urgent).min(most.unwrap_or(u64::MAX)));
        standing
    }

    /// Forgets an absent caller; false when nobody with this stamp is away.
    pub fn forget_place(&mut self, stamp: Serial) -> bool {
        let until = self.lanes.values().find_map(|lane| lane.absent.get(&stamp)).map(|away| away.until);
        let Some(key) = until.and_then(|until| self.away.remove(&(until, stamp))) else { return false };
        self.forget_in(&key, stamp);
        true
    }

    /// Forgets absent callers whose time is over, and lanes that are empty then.
    pub fn forget_absent(&mut self, now: FleetTime) {
        while let Some(first) = self.away.first_entry().filter(|first| first.key().0 <= now) {
            let ((_, stamp), key) = first.remove_entry();
            self.forget_in(&key, stamp);
        }
    }

    fn forget_in(&mut self, key: &LaneKey, stamp: Serial) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        lane.absent.remove(&stamp);
        if lane.waiting.is_empty() && lane.absent.is_empty() {
            self.lanes.remove(key);
        }
    }

    /// When the next absent caller is forgotten, if any.
    pub fn next_forgetting(&self) -> Option<FleetTime> {
        self.away.first_key_value().map(|((until, _), _)| *until)
    }

    /// Names the calls that no decision has looked at, and forgets that they are new.
    pub(crate) fn take_fresh(&mut self) -> Vec<AskId> {
        std::mem::take(&mut self.fresh)
    }

    /// Everybody who waits here.
    pub fn ids(&self) -> Vec<AskId> {
        self.lanes.values().flat_map(|lane| lane.waiting.values().map(|waiting| waiting.ask.id)).collect()
    }

    pub(crate) fn waiting_mut(&mut self, id: AskId) -> Option<&mut Waiting> {
        let (key, stamp) = self.places.get(&id)?;
        self.lanes.get_mut(key)?.waiting.get_mut(stamp)
    }

    pub(crate) fn advance(&mut self, now: FleetTime) {
        for lane in self.lanes.values_mut() {
            lane.ledger.advance(now);
            lane.unpark(now);
        }
    }
}

impl Lane {
    /// The caller whose turn it is; none when all are parked.
    pub fn head(&self) -> Option<&Waiting> {
        self.ready.first().and_then(|stamp| self.waiting.get(stamp))
    }

    /// How many of this lane's calls go while `before` of another one of its class go, by weight.
    fn goes_before(&self, other: &Self, before: usize) -> usize {
        let weight = |lane: &Self| lane.head().map_or(1, |head| u64::from(head.ask.weight.get()));
        let turns = as_u64(before).saturating_mul(weight(self)) / weight(other).max(1);
        usize::try_from(turns).unwrap_or(usize::MAX).min(self.waiting.len())
    }

    /// How many wait: those who are here, and those who are away with a ticket.
    pub fn depth(&self) -> usize {
        self.waiting.len() + self.absent.len()
    }

    /// How many stand before a place, those away with a ticket included.
    pub fn before(&self, stamp: Serial) -> usize {
        self.waiting.range(..stamp).count() + self.absent.range(..stamp).count()
    }

    /// The calls before a place: those who are here, then those who are away.
    pub fn ahead_of(&self, stamp: Serial) -> impl Iterator<Item = Ahead<'_>> {
        let here = self.waiting.range(..stamp).map(|(_, waiting)| Ahead::Here(&waiting.ask));
        here.chain(self.absent.range(..stamp).map(|(_, away)| Ahead::Away(&away.charges)))
    }

    /// When the longest waiting call entered the line, one that is away with a ticket included.
    pub fn oldest(&self) -> Option<FleetTime> {
        let here = self.waiting.first_key_value().map(|(_, waiting)| waiting.ask.asked_at);
        let away = self.absent.first_key_value().map(|(stamp, _)| stamp.at);
        here.into_iter().chain(away).min()
    }

    /// Takes those back into line whose own floor is about to end; their ledger was that floor until now.
    fn unpark(&mut self, now: FleetTime) {
        while let Some((_, stamp)) = self.parked.first().copied().filter(|(back_at, _)| *back_at <= now) {
            self.parked.pop_first();
            self.ready.insert(stamp);
            let Some(waiting) = self.waiting.get_mut(&stamp) else { continue };
            if let Some((since, cause)) = waiting.parked.take() {
                delays::add(&mut waiting.ask.prior, &cause, now.since(since));
                waiting.ask.entered_at = now;
                waiting.snapshot = self.ledger.snapshot();
            }
        }
    }
}

fn as_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
