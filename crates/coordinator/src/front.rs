//! What the service calls: opens tokens, reads headers, finds the scope's actor and waits for its answer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use paceline_core::denial::Reason;
use paceline_core::units::{FleetTime, Span};
use paceline_store::{ScopeKey, Store};
use paceline_telemetry::{AcquireOutcome, Fleet, InBucket, InFleet, InGroup, InMode, Load, Telemetry};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::actor::{Actor, INBOX, Message};
use crate::api::{AcquireRequest, Answer, CallError, Denied, ReportAnswer, ReportRequest, Target};
use crate::controls::Following;
use crate::gauges::Gauges;
use crate::history::Ledgers;
use crate::inputs::{release_lease_input, release_ticket_input, report_input, unheard_input};
use crate::journal::{Happened, Journal};
use crate::lead::{Lead, LeadCell};
use crate::lives::Lives;
use crate::metrics::Recorder;
use crate::registry::Registry;
use crate::scope::{AskInput, Input, ReleaseInput, Reply, ReplyId, Scope, ScopeView};
use crate::seats::Seats;
use crate::settings::Settings;
use crate::steered::Steered;
use crate::targets::ask_inputs;
use crate::token::Keyring;
use crate::trace::{self, Trace};

/// The most calls that one replica holds.
const MOST_HELD: usize = 100_000;

/// What a coordinator is made of.
pub struct Options<S> {
    /// Where state lives.
    pub store: S,
    /// The configuration in force.
    pub settings: Arc<dyn Settings>,
    /// Where it is counted.
    pub telemetry: Telemetry,
    /// Who is told what became of each call, if anybody is.
    pub trace: Option<Arc<dyn Trace>>,
    /// Where other replicas reach this one (`host:port`). Without it, it never leads a scope, and decides whatever it is asked.
    pub address: Option<Arc<str>>,
}

/// Coordinates all scopes of this replica; cheap to clone.
pub struct Coordinator<S>(Arc<Inner<S>>);

impl<S> Clone for Coordinator<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

pub(crate) struct Inner<S> {
    pub(crate) store: S,
    pub(crate) replica: u32,
    address: Option<Arc<str>>,
    keyring: Arc<Keyring>,
    pub(crate) settings: RwLock<Arc<Steered>>,
    pub(crate) following: Following,
    telemetry: Telemetry,
    trace: Option<Arc<dyn Trace>>,
    // Held for a look-up or an insertion only, never across an await.
    scopes: Mutex<HashMap<ScopeKey, Handle>>,
    next_reply: AtomicU64,
    is_draining: AtomicBool,
    seats: Seats,
    /// How many scopes this replica decides without the store.
    degraded: Arc<AtomicU64>,
    /// Whether another replica was ever seen to lead a scope.
    others: Arc<AtomicBool>,
    registry: Registry,
    ledgers: Ledgers,
    journal: Arc<Journal>,
    pub(crate) lives: Arc<Lives>,
}

#[derive(Clone)]
struct Handle {
    sender: mpsc::Sender<Message>,
    gauges: Arc<Gauges>,
    lead: Arc<LeadCell>,
    provider: Arc<str>,
    account: Arc<str>,
}

impl<S: Store> Coordinator<S> {
    /// A coordinator over a store.
    ///
    /// # Errors
    /// The store does not hand out its token keys.
    pub async fn new(options: Options<S>) -> Result<Self, CallError> {
        let keys = options.store.token_keys().await.map_err(|error| CallError::Unavailable(error.to_string()))?;
        let inner = Arc::new(Inner {
            store: options.store,
            replica: rand::random(),
            address: options.address,
            keyring: Arc::new(Keyring::new(keys)),
            settings: RwLock::new(Arc::new(Steered::new(options.settings, Arc::default()))),
            following: Following::default(),
            telemetry: options.telemetry.clone(),
            trace: options.trace,
            scopes: Mutex::new(HashMap::new()),
            next_reply: AtomicU64::new(1),
            is_draining: AtomicBool::new(false),
            seats: Seats::new(MOST_HELD),
            degraded: Arc::default(),
            others: Arc::default(),
            registry: Registry::default(),
            ledgers: Ledgers::default(),
            journal: Arc::default(),
            lives: Arc::default(),
        });
        let weak = Arc::downgrade(&inner);
        options.telemetry.observe_load(move || weak.upgrade().map(|inner| inner.load()).unwrap_or_default());
        let weak = Arc::downgrade(&inner);
        options.telemetry.observe_modes(move || weak.upgrade().map(|inner| inner.modes()).unwrap_or_default());
        let weak = Arc::downgrade(&inner);
        options.telemetry.observe_buckets(move || weak.upgrade().map(|inner| inner.buckets()).unwrap_or_default());
        let weak = Arc::downgrade(&inner);
        options.telemetry.observe_groups(move || weak.upgrade().map(|inner| inner.groups()).unwrap_or_default());
        let weak = Arc::downgrade(&inner);
        options.telemetry.observe_fleet(move || weak.upgrade().map(|inner| inner.fleet()).unwrap_or_default());
        let weak = Arc::downgrade(&inner);
        inner.store.on_reached(Box::new(move || weak.upgrade().into_iter().for_each(|inner| inner.look_again())));
        Ok(Self(inner))
    }

    /// Asks for a slot; answered when the answer is firm or the hold is over. Dropping the future leaves the line.
    ///
    /// # Errors
    /// Wrong fields, forged tokens, unknown names, a key that is taken; the store is away.
    pub async fn acquire(&self, request: AcquireRequest) -> Result<Answer, CallError> {
        let asked = self.0.trace.as_ref().map(|trace| (trace, request.clone()));
        let answer = self.slot(request).await?;
        if let Some((trace, asked)) = asked
            && let Ok(target) = self.settings().canonical(&asked.target)
            && let Some(traced) = trace::of_answer(&asked, target, &answer, self.now())
        {
            trace.ended(traced);
        }
        Ok(answer)
    }

    async fn slot(&self, request: AcquireRequest) -> Result<Answer, CallError> {
        let inputs = ask_inputs(request, &*self.settings(), &self.0.keyring)?;
        let Some(first) = inputs.first() else { return Err(lost()) };
        let target = first.request.target.clone();
        if first.place_lost {
            self.0.telemetry.order_lost(&self.0.telemetry.scope(&target.provider, &target.account, &target.model));
        }
        let seat = self.0.seats.take();
        // Those who are not made to wait need no seat.
        if seat.is_none() && self.0.is_enforced(&target, self.settings().plan(&target)?.modes) {
            return Ok(self.full(&target));
        }
        match <[AskInput; 1]>::try_from(inputs) {
            Ok([only]) if only.made_elsewhere().is_none() => self.ask_at(&Arc::new(only)).await,
            // Seldom, and large: not a part of every call's future.
            Ok([only]) => Box::pin(self.ask_anywhere(vec![only])).await.map(|(_, answer)| answer),
            Err(inputs) => Box::pin(self.ask_anywhere(inputs)).await.map(|(_, answer)| answer),
        }
    }

    /// Takes a report.
    ///
    /// # Errors
    /// Wrong fields, a forged token; the store is away.
    pub async fn report(&self, request: ReportRequest) -> Result<ReportAnswer, CallError> {
        let input = report_input(request, &*self.settings(), &self.0.keyring, self.0.store.now())?;
        let Some(target) = input.target() else {
            return Err(CallError::Invalid { field: "lease_id", problem: "cannot be read".to_string() });
        };
        let input = Arc::new(input);
        let mut answer = match self.call(&target, |id| Input::Report(id, input.clone())).await? {
            Reply::Report(answer) => *answer?,
            _ => return Err(lost()),
        };
        self.teach(&input, &answer, self.now());
        if !input.candidates.is_empty() {
            Box::pin(self.fail_over(&input, &mut answer)).await;
        }
        if let Some(trace) = &self.0.trace
            && let Some(traced) = trace::of_report(&input, &answer, self.now())
        {
            let next = trace::of_next(&traced, &answer, self.now());
            trace.ended(traced);
            next.into_iter().for_each(|next| trace.ended(next));
        }
        Ok(answer)
    }

    /// Gives back a reservation; unknown leases are no error.
    ///
    /// # Errors
    /// A forged token; the store is away.
    pub async fn release_lease(&self, lease_id: &str) -> Result<bool, CallError> {
        self.release(release_lease_input(lease_id, &self.0.keyring)?).await
    }

    /// Gives back a slot that could not be told to its caller, unless it was told since. Whether it was there.
    pub async fn give_up_unheard(&self, lease_id: &str) -> bool {
        let input = release_lease_input(lease_id, &self.0.keyring).ok().flatten();
        // When the store is away the lease ends by itself.
        self.release(input.map(|input| ReleaseInput { is_unheard: true, ..input })).await.unwrap_or_default()
    }

    /// Gives back a place that could not be told to its caller, unless it was asked for again since. Whether it was there.
    pub async fn give_up_unheard_place(&self, ticket: &[u8]) -> bool {
        let input = release_ticket_input(ticket, &self.0.keyring).ok().flatten();
        // When the store is away it is forgotten by itself.
        self.release(input.map(|input| ReleaseInput { is_unheard: true, ..input })).await.unwrap_or_default()
    }

    /// Gives back a place in line; unknown places are no error.
    ///
    /// # Errors
    /// A forged token; the store is away.
    pub async fn release_ticket(&self, ticket: &[u8]) -> Result<bool, CallError> {
        self.release(release_ticket_input(ticket, &self.0.keyring)?).await
    }

    /// Every live scope of this replica, sorted by name.
    pub async fn scopes(&self) -> Vec<ScopeView> {
        let targets = self.live_targets();
        let mut views = Vec::with_capacity(targets.len());
        for target in targets {
            views.extend(self.inspect(&target).await);
        }
        views.sort_by(|a, b| (&a.provider, &a.account).cmp(&(&b.provider, &b.account)));
        views
    }

    /// The scopes that are live here.
    pub(crate) fn live_targets(&self) -> Vec<Target> {
        self.0.handles().iter().map(Handle::target).collect()
    }

    /// One scope, if anybody has used it here.
    ///
    /// # Errors
    /// Unknown names.
    pub async fn scope(&self, provider: &str, account: &str) -> Result<Option<ScopeView>, CallError> {
        let asked = Target { provider: provider.to_string(), account: account.to_string(), model: String::new() };
        match self.settings().canonical(&asked) {
            Ok(target) => Ok(self.inspect(&target).await),
            // A configuration that no longer knows it does not hide what is there.
            Err(unknown) => self.inspect(&asked).await.map(Some).ok_or(unknown),
        }
    }

    /// Puts another configuration in force; waiting calls are looked at again, no bucket is refilled.
    pub async fn reconfigure(&self, settings: Arc<dyn Settings>) {
        self.rewrite(settings).await;
    }

    /// Nobody is held any more: every waiting caller gets a ticket at once, also those that come later.
    pub async fn drain(&self) {
        self.0.is_draining.store(true, Ordering::SeqCst);
        self.broadcast(|| Input::Drain).await;
    }

    /// Fetches the store's token keys again; call it now and then.
    ///
    /// # Errors
    /// The store is away.
    pub async fn refresh_keys(&self) -> Result<(), CallError> {
        let keys = self.0.store.token_keys().await.map_err(|error| CallError::Unavailable(error.to_string()))?;
        self.0.keyring.replace(keys);
        Ok(())
    }

    /// The configuration in force.
    pub fn settings(&self) -> Arc<dyn Settings> {
        self.0.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn inner(&self) -> &Arc<Inner<S>> {
        &self.0
    }

    /// Fleet time.
    pub fn now(&self) -> FleetTime {
        self.0.store.now()
    }

    /// Refuses a call because too many are held here.
    fn full(&self, target: &Target) -> Answer {
        let labels = self.0.telemetry.scope(&target.provider, &target.account, &target.model);
        self.0.telemetry.acquire_decided(&labels, AcquireOutcome::Denied, Reason::QueueFull.name());
        let detail = format!("{MOST_HELD} calls are held by this replica already; another one may have room");
        Answer::Denied(Box::new(Denied::at_once(Reason::QueueFull, Some(Span::from_secs(1)), detail)))
    }

    async fn release(&self, input: Option<ReleaseInput>) -> Result<bool, CallError> {
        let Some(input) = input else { return Ok(false) };
        let target = input.target.clone();
        match self.call(&target, |id| Input::Release(id, Box::new(input))).await? {
            Reply::Released(released) => Ok(released),
            _ => Err(lost()),
        }
    }

    pub(crate) async fn inspect(&self, target: &Target) -> Option<ScopeView> {
        let handle = self.0.scopes().get(&ScopeKey::new(&target.provider, &target.account)).cloned()?;
        match self.send(&handle, Input::Inspect).await {
            // Without the store the value names nobody; who led is asked first all the same.
            Some(Reply::View(view)) => Some(match &view.leader {
                Some(_) => *view,
                None => view.led_by(handle.lead.known(self.now()).as_ref(), self.now()),
            }),
            _ => None,
        }
    }

    pub(crate) async fn broadcast(&self, input: impl Fn() -> Input) {
        for handle in self.0.handles() {
            // A failed send means that the scope was just put away: it will read the new state when it comes back.
            let _ = handle.sender.send(Message::Told { input: input(), reply: None }).await;
        }
    }

    /// Looks up in the store who leads the scope of this target, which may have changed since it was last seen here.
    pub async fn look_who_leads(&self, target: &Target) -> Lead {
        let Ok(target) = self.settings().canonical(target) else { return Lead::Unknown };
        let (asked, looked) = oneshot::channel();
        if self.handle(&target).sender.send(Message::WhoLeads(asked)).await.is_ok() {
            // Without an answer it is as it was.
            let _ = looked.await;
        }
        self.leads(&target)
    }

    /// Tells a scope something that nobody waits for. A scope that was just put away learns it from the next answer.
    pub(crate) fn tell(&self, target: &Target, input: Input) {
        tell_later(&self.handle(target).sender, input);
    }

    pub(crate) async fn call(&self, target: &Target, input: impl FnOnce(ReplyId) -> Input) -> Result<Reply, CallError> {
        let handle = self.handle(target);
        self.send(&handle, input).await.ok_or_else(lost)
    }

    async fn send(&self, handle: &Handle, input: impl FnOnce(ReplyId) -> Input) -> Option<Reply> {
        let id = self.0.next_reply.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        handle.sender.send(Message::Told { input: input(id), reply: Some((id, sender)) }).await.ok()?;
        Caller { inner: &self.0, actor: &handle.sender, id, receiver, has_heard: false }.answer().await
    }

    /// The scope's actor, started if it is not there.
    fn handle(&self, target: &Target) -> Handle {
        let key = ScopeKey::new(&target.provider, &target.account);
        let mut scopes = self.0.scopes();
        if let Some(handle) = scopes.get(&key) {
            return handle.clone();
        }
        let (sender, inbox) = mpsc::channel(INBOX);
        let gauges = Arc::new(Gauges::new(self.0.degraded.clone()));
        let lead = Arc::new(LeadCell::new(self.0.replica, self.0.others.clone()));
        let target = Target { model: String::new(), ..target.clone() };
        let mut scope = Scope::new(target.clone(), self.0.replica, self.0.keyring.clone(), self.settings())
            .with_address(self.0.address.clone())
            .reading_late();
        if self.0.is_draining.load(Ordering::SeqCst) {
            scope.stop_holding();
        }
        let handle = Handle {
            sender,
            gauges: gauges.clone(),
            lead: lead.clone(),
            provider: Arc::from(target.provider.as_str()),
            account: Arc::from(target.account.as_str()),
        };
        let ledger = self.0.ledgers.of(key, &target);
        let recorder = Recorder::new(
            self.0.telemetry.clone(),
            ledger,
            (self.0.journal.clone(), self.0.replica),
            self.0.lives.clone(),
            target,
        );
        tokio::spawn(Actor { inner: self.0.clone(), key, inbox, scope, gauges, lead, recorder }.run());
        scopes.insert(key, handle.clone());
        handle
    }
}

impl Handle {
    /// Whether this replica tells the scope's state: it leads, or nobody else does; or it goes on by itself, and knows best what
    /// it granted.
    fn tells(&self) -> bool {
        !self.lead.is_elsewhere() || self.gauges.is_degraded()
    }

    fn target(&self) -> Target {
        Target { provider: self.provider.to_string(), account: self.account.to_string(), model: String::new() }
    }
}

impl<S: Store> Inner<S> {
    /// Forgets an idle scope, unless somebody is about to speak to it. True: the actor must end.
    pub(crate) fn put_away(&self, key: &ScopeKey, inbox: &mpsc::Receiver<Message>) -> bool {
        let mut scopes = self.scopes();
        // Whoever has a sender may be between look-up and sending: only the map's own may be left.
        let unused = inbox.is_empty() && inbox.sender_strong_count() == 1;
        if unused {
            scopes.remove(key);
        }
        unused
    }

    /// Whether another replica was ever seen to lead a scope.
    pub(crate) fn has_others(&self) -> bool {
        self.others.load(Ordering::Acquire)
    }

    pub(crate) fn lead(&self, key: &ScopeKey) -> Lead {
        let handle = self.scopes().get(key).cloned();
        handle.map_or(Lead::Unknown, |handle| handle.lead.lead(self.store.now()))
    }

    fn modes(&self) -> Vec<InMode> {
        let settings = self.settings.read().unwrap_or_else(PoisonError::into_inner).clone();
        let in_mode = |handle: &Handle| {
            let modes = self.modes_shown(&handle.target(), settings.modes(&handle.target()).ok()?);
            let organisations = handle.tells().then(|| handle.gauges.organisations());
            Some(InMode { provider: handle.provider.clone(), account: handle.account.clone(), modes, organisations })
        };
        self.handles().iter().filter_map(in_mode).collect()
    }

    fn buckets(&self) -> Vec<InBucket> {
        let now = self.store.now();
        let read = |handle: &Handle| handle.gauges.buckets.read(&handle.provider, &handle.account, now);
        self.handles().iter().filter(|handle| handle.tells()).flat_map(read).collect()
    }

    fn groups(&self) -> Vec<InGroup> {
        let read = |handle: &Handle| handle.gauges.breakers.read(&handle.provider, &handle.account);
        self.handles().iter().filter(|handle| handle.tells()).flat_map(read).collect()
    }

    pub(crate) fn has_degraded(&self) -> bool {
        self.degraded.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn is_degraded(&self, key: &ScopeKey) -> bool {
        self.scopes().get(key).is_some_and(|handle| handle.gauges.is_degraded())
    }

    fn is_config_stale(&self) -> bool {
        self.handles().iter().any(|handle| handle.gauges.is_config_stale())
    }

    /// A scope whose limits come from another configuration than the one read here.
    pub(crate) fn followed(&self) -> Option<Target> {
        self.handles().iter().find(|handle| handle.gauges.is_config_stale()).map(Handle::target)
    }

    fn fleet(&self) -> Fleet {
        let now = self.store.now();
        let of = |handle: &Handle| InFleet {
            provider: handle.provider.clone(),
            is_led: handle.lead.is_led(now),
            is_degraded: handle.gauges.is_degraded(),
            is_closed: handle.gauges.is_closed(),
        };
        let replicas = u64::try_from(self.registry.replicas().len()).unwrap_or(u64::MAX);
        Fleet {
            scopes: self.handles().iter().map(of).collect(),
            replicas,
            is_config_stale: self.is_config_stale(),
            overrides: self.overrides(),
        }
    }

    fn load(&self) -> Vec<Load> {
        let now = self.store.now();
        let read =
            |handle: &Handle| handle.gauges.read(&handle.provider, &handle.account, handle.tells(), now).collect::<Vec<_>>();
        self.handles().iter().flat_map(read).collect()
    }
}

impl<S> Inner<S> {
    /// What gives back the slot or place in an answer that nobody heard.
    pub(crate) fn release_of(&self, unheard: &Reply) -> Option<Input> {
        let input = unheard_input(unheard, &self.keyring)?;
        let id = self.next_reply.fetch_add(1, Ordering::Relaxed);
        Some(Input::Release(id, Box::new(input)))
    }

    /// Among how many replicas a limit is divided while the store is away.
    pub(crate) fn among(&self) -> u32 {
        let expected = self.settings.read().unwrap_or_else(PoisonError::into_inner).expected_replicas();
        self.registry.most().max(expected).max(1)
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn ledgers(&self) -> &Ledgers {
        &self.ledgers
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Notes something that happened here.
    pub(crate) fn note(&self, happened: Happened) {
        self.journal.note(self.replica, happened);
    }

    /// Where others reach this replica.
    pub(crate) fn address(&self) -> Option<&Arc<str>> {
        self.address.as_ref()
    }

    pub(crate) fn keyring(&self) -> &Arc<Keyring> {
        &self.keyring
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.next_reply.fetch_add(1, Ordering::Relaxed)
    }

    fn scopes(&self) -> MutexGuard<'_, HashMap<ScopeKey, Handle>> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store may not hold any more what it did: every scope looks whether what is remembered of it is still there.
    fn look_again(&self) {
        let handles = self.handles();
        let scopes = handles.len();
        // One with a full inbox is about to write, and finds out by that.
        handles.iter().for_each(|handle| drop(handle.sender.try_send(Message::StoreReached { scopes })));
    }

    fn handles(&self) -> Vec<Handle> {
        self.scopes().values().cloned().collect()
    }
}

/// Waits for an answer; dropped before, it leaves the line, or gives back what it did not hear of.
struct Caller<'a, S> {
    inner: &'a Inner<S>,
    actor: &'a mpsc::Sender<Message>,
    id: ReplyId,
    receiver: oneshot::Receiver<Reply>,
    has_heard: bool,
}

impl<S> Caller<'_, S> {
    /// `None`: the actor is gone.
    async fn answer(mut self) -> Option<Reply> {
        let reply = (&mut self.receiver).await.ok();
        self.has_heard = true;
        reply
    }
}

impl<S> Drop for Caller<'_, S> {
    fn drop(&mut self) {
        if self.has_heard {
            return;
        }
        // From here on the actor learns that nobody listens; an answer may be under way already.
        self.receiver.close();
        let input = match self.receiver.try_recv() {
            Ok(unheard) => self.inner.release_of(&unheard),
            Err(_) => Some(Input::Leave(self.id)),
        };
        input.into_iter().for_each(|input| tell_later(self.actor, input));
    }
}

/// Tells an actor something without waiting; with a full inbox it waits its turn.
fn tell_later(actor: &mpsc::Sender<Message>, input: Input) {
    let told = actor.try_send(Message::Told { input, reply: None });
    if let (Err(TrySendError::Full(message)), Ok(runtime)) = (told, tokio::runtime::Handle::try_current()) {
        let actor = actor.clone();
        runtime.spawn(async move { actor.send(message).await });
    }
}

pub(crate) fn lost() -> CallError {
    CallError::Unavailable("the scope was put away while the call came in; ask again".to_string())
}
