//! Replicas over one store in virtual time: the step is the real one; the loop around it (`actor`) and the store are modelled
//! in a few lines, so that every interleaving can be tried and nothing sleeps.

use std::collections::BTreeMap;
use std::sync::Arc;

use paceline_coordinator::api::{AcquireRequest, CallError, ReportRequest, Target};
use paceline_coordinator::memory::{self, Memory};
use paceline_coordinator::scope::{Event, Input, Reply, ReplyId, Scope};
use paceline_coordinator::settings::Settings;
use paceline_coordinator::token::Keyring;
use paceline_coordinator::{
    CallKey, Record, ask_input, release_lease_input, release_ticket_input, report_input, unheard_input,
};
use paceline_core::units::{FleetTime, Span};
use paceline_core::value::ScopeValue;
use paceline_store::codec::{self, Header};
use paceline_store::{TokenKey, TokenKeys, Version};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// When tests begin.
pub(crate) const START: FleetTime = FleetTime::from_secs(1_800_000_000);

/// A scope's name: provider and account.
type Name = (String, String);

/// One answer.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    /// To whom.
    pub(crate) id: ReplyId,
    /// When.
    pub(crate) at: FleetTime,
    /// What.
    pub(crate) reply: Reply,
}

/// What the store holds of a scope.
#[derive(Default)]
struct Stored {
    version: u64,
    value: Option<bytes::Bytes>,
    /// What was stored before, the oldest first.
    past: Vec<(u64, Option<bytes::Bytes>)>,
    /// The highest version there ever was: none comes back.
    highest: u64,
    records: BTreeMap<CallKey, (FleetTime, Vec<u8>)>,
}

/// One replica's actor of a scope.
struct Live {
    scope: Scope,
    version: u64,
    epoch: u64,
    memory: Option<Memory>,
    loaded: bool,
    wake_at: Option<FleetTime>,
    woken_at: Option<FleetTime>,
}

/// Replicas, their store and their clock.
pub(crate) struct World {
    /// Fleet time.
    pub(crate) now: FleetTime,
    /// The configuration in force.
    pub(crate) settings: Arc<dyn Settings>,
    /// Every answer, in order.
    pub(crate) answers: Vec<Answered>,
    /// Every event that counts.
    pub(crate) events: Vec<Event>,
    /// So many of the next commits find that another replica was faster (it changed nothing else).
    pub(crate) refuse: u32,
    keyring: Arc<Keyring>,
    live: BTreeMap<(usize, Name), Live>,
    stored: BTreeMap<Name, Stored>,
    rng: ChaCha8Rng,
    next_id: ReplyId,
}

impl World {
    /// One or more replicas under a configuration; the same seed gives the same answers.
    pub(crate) fn new(settings: Arc<dyn Settings>, seed: u64) -> Self {
        Self::with_key(settings, seed, TokenKey { id: 7, secret: [3; 32] })
    }

    /// A world whose tokens are signed with another key, and that knows nothing of what was before.
    pub(crate) fn after_restart(settings: Arc<dyn Settings>, seed: u64) -> Self {
        Self::with_key(settings, seed, TokenKey { id: 8, secret: [4; 32] })
    }

    fn with_key(settings: Arc<dyn Settings>, seed: u64, key: TokenKey) -> Self {
        let keys = TokenKeys { current: key, older: Vec::new() };
        Self {
            now: START,
            settings,
            answers: Vec::new(),
            events: Vec::new(),
            refuse: 0,
            keyring: Arc::new(Keyring::new(keys)),
            live: BTreeMap::new(),
            stored: BTreeMap::new(),
            rng: ChaCha8Rng::seed_from_u64(seed),
            next_id: 1,
        }
    }

    /// An ask at the first replica.
    pub(crate) fn ask(&mut self, request: AcquireRequest) -> ReplyId {
        self.ask_at(0, request).unwrap_or_else(|error| panic!("{error}"))
    }

    /// An ask at a replica.
    pub(crate) fn ask_at(&mut self, replica: usize, request: AcquireRequest) -> Result<ReplyId, CallError> {
        let input = ask_input(request, &*self.settings, &self.keyring)?;
        let target = input.request.target.clone();
        Ok(self.tell(replica, &target, |id| Input::Ask(id, Arc::new(input))))
    }

    /// A scope that is not driven by this world.
    pub(crate) fn new_scope(&self) -> Scope {
        let target = super::target("");
        let target = self.settings.canonical(&target).unwrap_or_else(|error| panic!("{error}"));
        Scope::new(Target { model: String::new(), ..target }, 0, self.keyring.clone(), self.settings.clone())
    }

    /// An ask as an input of a step.
    pub(crate) fn input(&mut self, request: AcquireRequest) -> Input {
        let input = ask_input(request, &*self.settings, &self.keyring).unwrap_or_else(|error| panic!("{error}"));
        self.next_id += 1;
        Input::Ask(self.next_id - 1, Arc::new(input))
    }

    /// A report as an input of a step.
    pub(crate) fn report_input(&mut self, request: ReportRequest) -> Input {
        let input = report_input(request, &*self.settings, &self.keyring, self.now).unwrap_or_else(|error| panic!("{error}"));
        self.next_id += 1;
        Input::Report(self.next_id - 1, Arc::new(input))
    }

    /// A report at the first replica.
    pub(crate) fn report(&mut self, request: ReportRequest) -> ReplyId {
        self.report_at(0, request).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A report at a replica.
    pub(crate) fn report_at(&mut self, replica: usize, request: ReportRequest) -> Result<ReplyId, CallError> {
        let input = report_input(request, &*self.settings, &self.keyring, self.now)?;
        let target = input.target().expect("a lease of ours");
        Ok(self.tell(replica, &target, |id| Input::Report(id, Arc::new(input))))
    }

    /// Gives a lease back at a replica.
    pub(crate) fn release_lease(&mut self, replica: usize, lease_id: &str) -> Result<ReplyId, CallError> {
        let input = release_lease_input(lease_id, &self.keyring)?.expect("a lease of ours");
        let target = input.target.clone();
        Ok(self.tell(replica, &target, |id| Input::Release(id, Box::new(input))))
    }

    /// Gives a place back at a replica.
    pub(crate) fn release_ticket(&mut self, replica: usize, ticket: &[u8]) -> Result<ReplyId, CallError> {
        let input = release_ticket_input(ticket, &self.keyring)?.expect("a ticket of ours");
        let target = input.target.clone();
        Ok(self.tell(replica, &target, |id| Input::Release(id, Box::new(input))))
    }

    /// What gives back the slot or place in an answer that nobody heard.
    pub(crate) fn unheard(&mut self, reply: &Reply) -> Option<Input> {
        let input = unheard_input(reply, &self.keyring)?;
        self.next_id += 1;
        Some(Input::Release(self.next_id - 1, Box::new(input)))
    }

    /// The caller of `id` goes away.
    pub(crate) fn leave(&mut self, replica: usize, target: &Target, id: ReplyId) {
        self.turn(replica, target, vec![Input::Leave(id)]);
    }

    /// Tells one thing that is answered.
    pub(crate) fn tell(&mut self, replica: usize, target: &Target, input: impl FnOnce(ReplyId) -> Input) -> ReplyId {
        let id = self.next_id;
        self.next_id += 1;
        self.turn(replica, target, vec![input(id)]);
        id
    }

    /// Tells every scope of a replica.
    pub(crate) fn tell_all(&mut self, replica: usize, input: impl Fn() -> Input) {
        let names: Vec<Name> = self.live.keys().filter(|(at, _)| *at == replica).map(|(_, name)| name.clone()).collect();
        for (provider, account) in names {
            self.turn(replica, &Target { provider, account, model: String::new() }, vec![input()]);
        }
    }

    /// Lets time pass, waking whoever wants to be woken.
    pub(crate) fn pass(&mut self, length: Span) {
        self.run_until(self.now + length);
    }

    /// Lets time pass until `until`, waking whoever wants to be woken until then (included).
    pub(crate) fn run_until(&mut self, until: FleetTime) {
        for wakes in 0.. {
            assert!(wakes < 3_000, "it wakes all the time, at last at {:?}", self.now - START);
            let next = self.live.iter().filter_map(|(key, live)| Some((live.wake_at?, key.clone()))).min();
            let Some((at, (replica, (provider, account)))) = next.filter(|(at, _)| *at <= until) else { break };
            self.now = at.max(self.now);
            if let Some(live) = self.live.get_mut(&(replica, (provider.clone(), account.clone()))) {
                assert!(live.woken_at < Some(self.now), "a step that wakes itself at once would never end");
                live.woken_at = Some(self.now);
            }
            self.turn(replica, &Target { provider, account, model: String::new() }, Vec::new());
        }
        self.now = until.max(self.now);
    }

    /// The store loses all it holds.
    pub(crate) fn lose(&mut self) {
        for stored in self.stored.values_mut() {
            (stored.version, stored.value) = (0, None);
            stored.records.clear();
        }
    }

    /// The store comes back as it was so many commits ago.
    pub(crate) fn roll_back(&mut self, commits: usize) {
        for stored in self.stored.values_mut() {
            for _ in 0..commits {
                (stored.version, stored.value) = stored.past.pop().expect("so many commits");
            }
        }
    }

    /// Forgets a replica's scopes, as when they are idle, or when the replica dies.
    pub(crate) fn put_away(&mut self, replica: usize) {
        self.live.retain(|(at, _), _| *at != replica);
    }

    /// The step of a replica.
    pub(crate) fn scope(&self, replica: usize) -> &Scope {
        &self.live.iter().find(|((at, _), _)| *at == replica).expect("it has been used").1.scope
    }

    /// Whether nobody waits at a replica.
    pub(crate) fn is_quiet(&self, replica: usize) -> bool {
        self.live.iter().filter(|((at, _), _)| *at == replica).all(|(_, live)| live.scope.queue().is_empty())
    }

    /// The step of a replica, to be driven by hand.
    pub(crate) fn scope_mut(&mut self, replica: usize) -> &mut Scope {
        &mut self.live.iter_mut().find(|((at, _), _)| *at == replica).expect("it has been used").1.scope
    }

    /// The only reply to `id`.
    pub(crate) fn reply(&self, id: ReplyId) -> &Reply {
        self.replied(id).unwrap_or_else(|| panic!("{id} waits for its answer"))
    }

    /// The only reply to `id`, if there is one yet.
    pub(crate) fn replied(&self, id: ReplyId) -> Option<&Reply> {
        let mut replies = self.answers.iter().filter(|answered| answered.id == id);
        let reply = replies.next();
        assert!(replies.next().is_none(), "{id} was answered twice");
        reply.map(|answered| &answered.reply)
    }

    /// When `id` was answered.
    pub(crate) fn replied_at(&self, id: ReplyId) -> FleetTime {
        self.answers.iter().find(|answered| answered.id == id).expect("it was answered").at
    }

    /// The value in the store.
    pub(crate) fn stored_value(&self, target: &Target) -> ScopeValue {
        let stored = self.stored.get(&(target.provider.clone(), target.account.clone()));
        let bytes = stored.and_then(|stored| stored.value.clone());
        bytes.map_or_else(ScopeValue::default, |bytes| codec::decode(&bytes, self.now).unwrap().value)
    }

    /// What is left in a bucket of `acme/prod`, in whole units, by the store's value.
    pub(crate) fn level(&self, label: &str) -> u64 {
        let value = self.stored_value(&super::target(""));
        let bucket = value.buckets.iter().find(|state| state.plan.id.label() == label).expect("there is one");
        bucket.level_at(self.now).expect("its level is known").as_units_floor()
    }

    /// One batch at a replica, decided anew while the store holds something newer.
    pub(crate) fn turn(&mut self, replica: usize, target: &Target, mut inputs: Vec<Input>) {
        let name = (target.provider.clone(), target.account.clone());
        let key = (replica, name.clone());
        let target = Target { model: String::new(), ..target.clone() };
        let (settings, keyring) = (self.settings.clone(), self.keyring.clone());
        let mut live = self.live.remove(&key).unwrap_or_else(|| Live {
            scope: Scope::new(target, u32::try_from(replica).unwrap(), keyring, settings),
            version: 0,
            epoch: 0,
            memory: None,
            loaded: false,
            wake_at: None,
            woken_at: None,
        });
        for _ in 0..16 {
            let stored = self.stored.entry(name.clone()).or_default();
            prepare(&mut live, stored, &inputs, self.now);
            let mut fx = live.scope.step(std::mem::take(&mut inputs), self.now, &mut self.rng);
            live.wake_at = fx.wake_at;
            self.events.append(&mut fx.events);
            let firm = std::mem::take(&mut fx.replies);
            self.answers.extend(firm.into_iter().map(|(id, reply)| Answered { id, at: self.now, reply }));
            if fx.changed && self.refuse > 0 {
                self.refuse -= 1;
                stored.highest += 1;
                stored.version = stored.highest;
            }
            if fx.changed && stored.version != live.version {
                adopt(&mut live, stored, self.now);
                inputs = live.scope.undo(fx, self.now);
                continue;
            }
            let taken = fx.records.iter().find(|change| {
                let there = stored.records.get(&change.key).is_some_and(|(until, _)| *until > self.now);
                change.must_be_new && there
            });
            if let Some(key) = taken.map(|change| change.key) {
                inputs = live.scope.undo(fx, self.now);
                inputs.push(Input::Taken(key));
                live.loaded = false;
                continue;
            }
            if fx.changed {
                stored.past.push((stored.version, stored.value.take()));
                stored.highest += 1;
                stored.version = stored.highest;
                live.version = stored.version;
                let header = Header::new(live.epoch, Version(stored.version), 0);
                let bytes = codec::encode(&header, live.scope.value());
                live.memory = Some(Memory::of(bytes.clone(), live.epoch, live.scope.value(), self.now));
                stored.value = Some(bytes);
                for change in &fx.records {
                    stored.records.insert(change.key, (change.record.keep_until(), change.record.encode()));
                }
            }
            let replies = std::mem::take(&mut fx.replies_on_commit);
            self.answers.extend(replies.into_iter().map(|(id, reply)| Answered { id, at: self.now, reply }));
            self.events.append(&mut fx.events_on_commit);
            self.live.insert(key, live);
            return;
        }
        panic!("the same batch was decided sixteen times and never committed");
    }
}

fn prepare(live: &mut Live, stored: &Stored, inputs: &[Input], now: FleetTime) {
    if !live.loaded {
        adopt(live, stored, now);
        if stored.records.is_empty() {
            live.scope.begins_without_records();
        }
        live.loaded = true;
    }
    for key in inputs.iter().flat_map(|input| live.scope.missing_records(input)).collect::<Vec<_>>() {
        if let Some((_, bytes)) = stored.records.get(&key).filter(|(until, _)| *until > now) {
            live.scope.know_record(key, Record::decode(bytes).expect("a record"));
        }
    }
}

fn adopt(live: &mut Live, stored: &Stored, now: FleetTime) {
    let bytes = stored.value.clone();
    let found = bytes
        .as_ref()
        .map_or(memory::Stored::Nothing, |bytes| memory::Stored::Value(Box::new(codec::decode(bytes, now).unwrap())));
    let taken = memory::take_over(live.memory.as_ref(), found, now);
    (live.version, live.epoch) = (stored.version, taken.epoch);
    if taken.loss.is_some() {
        return live.scope.adopt_merged(taken.value, now);
    }
    live.memory = bytes.map(|bytes| Memory::of(bytes, taken.epoch, &taken.value, now));
    live.scope.adopt(taken.value, now);
}
