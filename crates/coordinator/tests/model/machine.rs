//! Three replicas, a register, and what can happen next.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use paceline_coordinator::memory::{Memory, Stored, take_over};
use paceline_core::amounts::Amounts;
use paceline_core::decide::{self, Decision};
use paceline_core::lease::Serial;
use paceline_core::plan::{BucketId, BucketPlan, Class, ClassPolicy, GroupPlan, OurPart, Owner, Refill, StartLevel, Weight};
use paceline_core::queue::{Ask, Queue};
use paceline_core::units::{FleetTime, Milli, Span};
use paceline_core::value::ScopeValue;
use paceline_store::Version;
use paceline_store::codec::{self, Decoded, Header};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

const START: FleetTime = FleetTime::from_secs(1_800_000_000);
/// Units that the bucket holds; one comes back every second.
pub(crate) const CAPACITY: u32 = 5;
/// What a cautious start hands out: one second of refill.
pub(crate) const CAUTIOUS: u32 = 1;
/// Between two steps, so that no two commits have one version.
const BETWEEN_STEPS: Span = Span::from_micros(7);

/// What a replica does when the store holds less than it remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// As the service does.
    Ours,
    /// It takes what is stored, and nothing stored for a new scope whose bucket is full.
    BelieveTheStore,
    /// It writes what it remembers over whatever is there.
    BelieveTheMemory,
    /// It merges, and goes on with the level it remembers.
    MergeOnly,
}

/// A value by its number.
pub(crate) type Id = usize;

/// What the register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cell {
    version: Version,
    epoch: u64,
    value: Id,
    /// Units granted by everybody until it was written.
    granted: u32,
}

/// A replica's view of the scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Replica {
    /// The value it decides on, with the version and epoch it found.
    view: Option<(Version, u64, Id)>,
    /// Whether its view was merged and is not written yet.
    is_unsaved: bool,
    /// The last value it read or wrote for sure, and its epoch.
    memory: Option<(u64, Id)>,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    /// A replica grants one call, or all it can, and swaps; when the register holds something else, it takes that over.
    Grant { replica: usize, all: bool },
    /// A replica starts again and remembers nothing.
    Restart { replica: usize },
    /// The register loses its value.
    Loss,
    /// The register comes back as it was so many commits ago.
    Return { commits: usize },
    /// A second passes.
    Second,
}

/// Everything at one moment of a history.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    second: u32,
    register: Option<Cell>,
    past: Vec<Cell>,
    replicas: [Replica; 3],
    /// Units granted in each second.
    pub(crate) granted: Vec<u32>,
    /// Slack that events of each second add.
    pub(crate) slack: Vec<u32>,
    /// Losses, and returns of older values.
    pub(crate) losses: [u32; 2],
    /// How it came about; it tells no two states apart.
    history: History,
}

#[derive(Clone, Debug, Default)]
struct History(Vec<Event>);

impl PartialEq for History {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for History {}

impl std::hash::Hash for History {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

impl State {
    /// What has happened.
    pub(crate) fn events(&self) -> &[Event] {
        &self.history.0
    }

    fn total(&self) -> u32 {
        self.granted.iter().sum()
    }
}

/// The real parts, with what they answered before.
pub(crate) struct Machine {
    rule: Rule,
    plan: Arc<GroupPlan>,
    values: Vec<(ScopeValue, Bytes)>,
    ids: HashMap<Bytes, Id>,
    decided: HashMap<(Id, FleetTime, usize, bool), (Id, u32)>,
    taken: HashMap<TakeOver, (Id, u64, bool)>,
}

type TakeOver = (Option<(u64, Id)>, Option<(u64, Id)>, FleetTime);

impl Machine {
    pub(crate) fn new(rule: Rule) -> Self {
        let start = if rule == Rule::BelieveTheStore { StartLevel::Full } else { StartLevel::Cautious };
        let (values, ids) = (Vec::new(), HashMap::new());
        Self { rule, plan: plan(start), values, ids, decided: HashMap::new(), taken: HashMap::new() }
    }

    /// How many different values there were.
    pub(crate) fn values(&self) -> usize {
        self.values.len()
    }

    /// Where histories begin: nobody has used the scope; or each replica has, one after the other, and remembers another
    /// value; or the same, and the bucket is full again.
    pub(crate) fn beginnings(&mut self) -> Vec<State> {
        let fresh = State {
            second: 0,
            register: None,
            past: Vec::new(),
            replicas: [Replica::default(); 3],
            granted: vec![0],
            slack: vec![0],
            losses: [0; 2],
            history: History::default(),
        };
        let mut value = ScopeValue::default();
        let binding = value.bind(&self.plan, START);
        let bucket = &mut value.buckets[binding.buckets[0]];
        bucket.start(START, Milli::from_units(1));
        bucket.level.amount = Milli::from_units(u64::from(CAPACITY));
        bucket.burst.amount = bucket.level.amount;
        let cell = Cell { version: Version::NONE.next(START), epoch: 0, value: self.id(value), granted: 0 };
        let mut used = State { register: Some(cell), ..fresh.clone() };
        for replica in 0..3 {
            for at in [1, 2] {
                let now = START + Span::from_micros(at + 10 * i64::try_from(replica).unwrap());
                used = self.grant(&used, replica, false, now).unwrap();
            }
        }
        used.past.clear();
        let mut full = used.clone();
        (0..CAPACITY).for_each(|_| full = second_later(&full));
        vec![fresh, used, full]
    }

    /// What may come next, at the given step of a history.
    pub(crate) fn next(&mut self, state: &State, step: u32) -> Vec<State> {
        let seconds = Span::from_secs(i64::from(state.second));
        let now = START + seconds + Span::from_micros(100 + BETWEEN_STEPS.as_micros() * i64::from(step));
        let mut next = Vec::new();
        let mut happens = |event: Event, state: Option<State>| {
            next.extend(state.map(|mut state| {
                state.history.0.push(event);
                state
            }));
        };
        for replica in 0..3 {
            for all in [false, true] {
                happens(Event::Grant { replica, all }, self.grant(state, replica, all, now));
            }
            happens(Event::Restart { replica }, restarted(state, replica));
        }
        happens(Event::Loss, lost(state));
        for commits in [1, 2] {
            happens(Event::Return { commits }, returned(state, commits));
        }
        happens(Event::Second, Some(second_later(state)));
        next
    }

    fn grant(&mut self, state: &State, replica: usize, all: bool, now: FleetTime) -> Option<State> {
        let mut state = state.clone();
        let found = state.register;
        let me = state.replicas[replica];
        let version = found.map_or(Version::NONE, |cell| cell.version);
        let Some((_, epoch, value)) = me.view.filter(|view| view.0 == version) else {
            let stored = found.map(|cell| (cell.epoch, cell.value));
            let (value, epoch, is_merged) = self.take_over(me.memory, stored, now);
            let memory = if is_merged { me.memory } else { stored };
            state.replicas[replica] = Replica { view: Some((version, epoch, value)), is_unsaved: is_merged, memory };
            return Some(state);
        };
        let (value, units) = self.decide(value, now, replica, all);
        if units == 0 && !me.is_unsaved {
            return None; // nothing to write
        }
        *state.granted.last_mut().unwrap() += units;
        let cell = Cell { version: version.next(now), epoch, value, granted: state.total() };
        state.past.extend(found);
        let surplus = state.past.len().saturating_sub(2);
        state.past.drain(..surplus);
        state.register = Some(cell);
        let view = Some((cell.version, epoch, value));
        state.replicas[replica] = Replica { view, is_unsaved: false, memory: Some((epoch, value)) };
        Some(state)
    }

    /// As one turn of the service: calls that cannot be sent at once go away.
    fn decide(&mut self, id: Id, now: FleetTime, replica: usize, all: bool) -> (Id, u32) {
        let known = (id, now, replica, all);
        if let Some(decided) = self.decided.get(&known) {
            return *decided;
        }
        let mut value = self.values[id].0.clone();
        let most = if all { CAPACITY } else { 1 };
        let granted = (0..most).filter(|_| is_granted(&mut value, &self.plan, now)).count();
        value.lineage.wrote(u32::try_from(replica).unwrap());
        let decided = (self.id(value), u32::try_from(granted).unwrap());
        self.decided.insert(known, decided);
        decided
    }

    fn take_over(&mut self, memory: Option<(u64, Id)>, stored: Option<(u64, Id)>, now: FleetTime) -> (Id, u64, bool) {
        let known = (memory, stored, now);
        if let Some(taken) = self.taken.get(&known) {
            return *taken;
        }
        let remembered = memory.map(|(epoch, id)| Memory::of(self.values[id].1.clone(), epoch, &self.values[id].0, now));
        let found = stored.map_or(Stored::Nothing, |(epoch, id)| {
            let header = Header::new(epoch, Version(1), 0);
            Stored::Value(Box::new(Decoded { header, value: self.values[id].0.clone(), repaired: 0 }))
        });
        let ours = take_over(remembered.as_ref(), found, now);
        let taken = match (self.rule, ours.loss, memory) {
            (Rule::BelieveTheStore, ..) => {
                let value = stored.map_or_else(ScopeValue::default, |(_, id)| self.values[id].0.clone());
                (self.id(value), 0, false)
            }
            (Rule::BelieveTheMemory, Some(_), Some((epoch, id))) => (id, epoch, true),
            (Rule::MergeOnly, Some(_), Some((epoch, id))) => {
                let stored = stored.map_or_else(ScopeValue::default, |(_, id)| self.values[id].0.clone());
                (self.id(paceline_core::merge::merge(&stored, &self.values[id].0.clone())), epoch + 1, true)
            }
            _ => (self.id(ours.value), ours.epoch, ours.loss.is_some()),
        };
        self.taken.insert(known, taken);
        taken
    }

    fn id(&mut self, value: ScopeValue) -> Id {
        let bytes = codec::encode(&Header::new(0, Version(1), 0), &value);
        *self.ids.entry(bytes.clone()).or_insert_with(|| {
            self.values.push((value, bytes));
            self.values.len() - 1
        })
    }
}

fn second_later(state: &State) -> State {
    let mut state = state.clone();
    state.second += 1;
    state.granted.push(0);
    state.slack.push(0);
    state
}

fn restarted(state: &State, replica: usize) -> Option<State> {
    let mut state = state.clone();
    let before = std::mem::take(&mut state.replicas[replica]);
    (before != Replica::default()).then_some(state)
}

fn lost(state: &State) -> Option<State> {
    let mut state = state.clone();
    let lost = state.register.take()?;
    state.past.push(lost);
    *state.slack.last_mut().unwrap() += CAUTIOUS;
    state.losses[0] += 1;
    Some(state)
}

fn returned(state: &State, commits: usize) -> Option<State> {
    let mut state = state.clone();
    let at = state.past.len().checked_sub(commits)?;
    let cell = state.past[at];
    state.past.truncate(at);
    state.register = Some(cell);
    *state.slack.last_mut().unwrap() += state.total() - cell.granted;
    state.losses[1] += 1;
    Some(state)
}

fn is_granted(value: &mut ScopeValue, plan: &Arc<GroupPlan>, now: FleetTime) -> bool {
    let mut queue = Queue::default();
    queue.push(
        Ask {
            id: 1,
            stamp: Serial { at: now, replica: 1, sequence: 1 },
            sent: Default::default(),
            class: Class::Normal,
            tenant: Arc::from("default"),
            weight: Weight::ONE,
            plan: plan.clone(),
            cost: Amounts::from_pairs([("requests", 1)]),
            cost_estimated: false,
            asked_at: now,
            entered_at: now,
            wait_until: now,
            until_deadline: false,
            run: Span::ZERO,
            honor_cap: Span::ZERO,
            not_before: None,
            pause: None,
            kind: paceline_core::usage::CallKind::default(),
            ttl: Span::from_secs(60),
            prior: Vec::new(),
        },
        now,
    );
    let pass = decide::decide(value, &mut queue, now, false, &mut ChaCha8Rng::seed_from_u64(1));
    matches!(pass.decided.first(), Some((_, Decision::Granted(slot))) if slot.send_at == now)
}

fn plan(start: StartLevel) -> Arc<GroupPlan> {
    let bucket = BucketPlan {
        id: BucketId { owner: Owner::Account, name: Arc::from("requests") },
        meter: Arc::from("requests"),
        limit: Some(u64::from(CAPACITY)),
        per: Some(Span::from_secs(i64::from(CAPACITY))),
        capacity: None,
        // All of it may go back to back: nothing but the level holds anybody up.
        burst: Some(u64::from(CAPACITY)),
        refill: Some(Refill::Continuous),
        calendar: None,
        start,
        learn_above: false,
        ours: OurPart::default(),
    };
    Arc::new(GroupPlan {
        key: Arc::from("m"),
        is_each: false,
        buckets: vec![bucket],
        classes: Class::ALL.map(ClassPolicy::default_of),
        modes: Default::default(),
        store_down: Default::default(),
        min_backoff: Span::ZERO,
        retries: Default::default(),
    })
}
