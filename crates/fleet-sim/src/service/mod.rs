//! The service in virtual time: workers that follow its rules, replicas that run the production step, a store between them.

mod client;
mod replica;
mod store;

use std::collections::HashMap;
use std::sync::Arc;

use paceline_config::Config;
use paceline_coordinator::api::{AcquireRequest, Answer, Grant, Queued, ReportAnswer, ReportRequest, Target};
use paceline_coordinator::scope::{Input, Reply, ReplyId};
use paceline_coordinator::settings::Settings;
use paceline_coordinator::token::Keyring;
use paceline_coordinator::{Configured, ask_input, release_lease_input, report_input};
use paceline_core::denial::Reason;
use paceline_core::retry::Verdict;
use paceline_core::units::Span;
use paceline_provider_sim::{Answer as ProviderAnswer, Telling};
use paceline_store::{TokenKey, TokenKeys};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::engine::jobs::stream;
use crate::engine::{Governor, Own, Run, WorkerId, went_through};
use crate::error::SimulateError;
use crate::scenario::{Happens, Scenario, ServiceSpec};
use client::Client;
use replica::{Replica, Told, Wants};
use store::{SimStore, Stored};

/// Tokens need a key; nobody else sees them.
const KEY: TokenKey = TokenKey { id: 1, secret: [42; 32] };
/// The first pause after a replica did not answer; doubles, with jitter.
const PAUSE: Span = Span::from_millis(100);
/// The longest such pause.
const LONGEST_PAUSE: Span = Span::from_secs(2);

/// What the service plans for itself.
#[derive(Debug)]
pub(crate) enum Due {
    /// A message reaches a replica.
    Arrives { replica: usize, message: Message },
    /// An answer reaches its worker.
    Told { to: Waiting, reply: Box<Reply> },
    /// A worker asks (again).
    Asks { worker: WorkerId, life: u32, serial: u32 },
    /// A replica wanted to be woken.
    Wake { replica: usize, serial: u64 },
    /// The store takes a request.
    StoreActs { replica: usize, serial: u64 },
    /// The store's answer arrives.
    StoreAnswers { replica: usize, serial: u64, answer: Box<Answered> },
}

/// The store's answer on its way.
#[derive(Debug)]
pub(crate) struct Answered(Stored);

/// From a worker to a replica.
#[derive(Debug)]
pub(crate) enum Message {
    /// May I send?
    Ask(Waiting, Box<AcquireRequest>),
    /// This is what the provider said; somebody may wait for the verdict.
    Report(Option<Waiting>, Box<ReportRequest>),
    /// Nobody waits for this any more.
    Leave(ReplyId),
    /// Nobody will use this slot.
    Release(String),
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    worker: WorkerId,
    life: u32,
    id: ReplyId,
}

/// The service and its clients.
pub(crate) struct Service {
    spec: ServiceSpec,
    settings: Arc<dyn Settings>,
    keyring: Arc<Keyring>,
    replicas: Vec<Replica>,
    store: SimStore,
    clients: Vec<Client>,
    waiting: HashMap<ReplyId, Waiting>,
    next_id: ReplyId,
    rng: ChaCha8Rng,
    seed: u64,
    incarnations: u32,
}

impl Service {
    /// The service as a scenario describes it.
    ///
    /// # Errors
    /// Its configuration is wrong.
    pub(crate) fn new(scenario: &Scenario, seed: u64) -> Result<Self, SimulateError> {
        let spec = scenario.service.clone();
        let config = Config::parse(&spec.config, "service.config")
            .map_err(|problems| SimulateError::Config { name: scenario.name.clone(), problems })?;
        let mut rng = stream(seed, 3);
        // Workers begin with any of the replicas, as clients that know all their addresses do.
        let clients = (0..scenario.workers())
            .map(|_| Client { replica: rng.random_range(0..spec.replicas), ..Client::default() })
            .collect();
        let mut service = Self {
            settings: Arc::new(Configured::new(config)),
            keyring: Arc::new(Keyring::new(TokenKeys { current: KEY, older: Vec::new() })),
            replicas: Vec::new(),
            store: SimStore::new(spec.replicas > 1 || spec.store_loss > 0.0),
            clients,
            waiting: HashMap::new(),
            next_id: 1,
            rng,
            seed,
            incarnations: 0,
            spec,
        };
        service.replicas = (0..service.spec.replicas).map(|_| service.incarnate()).collect();
        Ok(service)
    }

    fn incarnate(&mut self) -> Replica {
        self.incarnations += 1;
        let number = self.incarnations;
        let rng = stream(self.seed, 100 + u64::from(number));
        Replica::new(self.target(""), number, self.keyring.clone(), self.settings.clone(), rng)
    }

    fn target(&self, model: &str) -> Target {
        Target { provider: self.spec.provider.clone(), account: self.spec.account.clone(), model: model.to_owned() }
    }

    // The workers' side.

    fn ask(&mut self, worker: WorkerId, run: &mut Run<'_>) {
        let to = self.new_wait(worker, run);
        let Some(client) = self.clients.get_mut(worker) else { return };
        client.waits_for = Some(to.id);
        let (replica, request) = (client.replica, Box::new(client.request.clone()));
        self.post(replica, Message::Ask(to, request), run);
    }

    fn new_wait(&mut self, worker: WorkerId, run: &Run<'_>) -> Waiting {
        let id = self.next_id;
        self.next_id += 1;
        Waiting { worker, life: run.life(worker), id }
    }

    fn post(&mut self, replica: usize, message: Message, run: &mut Run<'_>) {
        run.plan(run.now + self.spec.network, Own::Service(Due::Arrives { replica, message }));
    }

    /// An answer reached a worker.
    fn told(&mut self, to: Waiting, reply: Reply, run: &mut Run<'_>) {
        let is_awaited = run.is_alive(to.worker, to.life)
            && self.clients.get(to.worker).is_some_and(|client| client.waits_for == Some(to.id));
        if !is_awaited {
            return self.unheard(&reply, to.worker, run);
        }
        if let Some(client) = self.clients.get_mut(to.worker) {
            (client.waits_for, client.failures) = (None, 0);
        }
        match reply {
            Reply::Answer(Ok(answer)) => self.answer(to.worker, answer, run),
            Reply::Report(Ok(answer)) => self.verdict(to.worker, *answer, run),
            Reply::Answer(Err(_)) | Reply::Report(Err(_)) => self.try_another(to.worker, run),
            Reply::Released(_)
            | Reply::View(_)
            | Reply::Found(_)
            | Reply::Quote(_)
            | Reply::Recalled(_)
            | Reply::Forgotten(_) => {}
        }
    }

    /// A slot that nobody heard of goes back, as when a connection breaks.
    fn unheard(&mut self, reply: &Reply, worker: WorkerId, run: &mut Run<'_>) {
        let replica = self.clients.get(worker).map_or(0, |client| client.replica);
        if let Some(lease_id) = reply.lease_id() {
            self.post(replica, Message::Release(lease_id.to_owned()), run);
        }
    }

    fn answer(&mut self, worker: WorkerId, answer: Answer, run: &mut Run<'_>) {
        match answer {
            Answer::Granted(grant) => self.granted(worker, &grant, run),
            Answer::Queued(queued) => self.queued(worker, *queued, run),
            Answer::Denied(denied) => {
                for part in &denied.delays {
                    run.waits(part.cause.source, run.now - part.length, run.now);
                }
                // Too many retries is a matter of when: the job is worth coming back for.
                match denied.denial.retry_after.filter(|_| denied.denial.reason == Reason::RetryBudget) {
                    Some(retry_after) => self.ask_at(worker, run.now + retry_after, run),
                    None => run.give_up(worker),
                }
            }
        }
    }

    fn granted(&mut self, worker: WorkerId, grant: &Grant, run: &mut Run<'_>) {
        let Some(client) = self.clients.get_mut(worker) else { return };
        let closes = client.granted(grant, run.now);
        let opens = run.now + grant.wait;
        let mut from = opens - grant.delays.iter().fold(Span::ZERO, |sum, part| sum + part.length);
        for part in &grant.delays {
            run.waits(part.cause.source, from, from + part.length);
            from = from + part.length;
        }
        let wakes = opens + oversleep(worker, run, &mut self.rng);
        if wakes > closes {
            // Too late for the slot: asking again says that it was not used.
            self.ask_at(worker, wakes, run);
        } else {
            run.send_at(worker, wakes);
        }
    }

    fn queued(&mut self, worker: WorkerId, queued: Queued, run: &mut Run<'_>) {
        let leaves = run.part_of(worker).is_some_and(|part| part.leave > 0.0 && self.rng.random::<f64>() < part.leave);
        if leaves {
            return run.leave(worker);
        }
        let back = run.now + queued.come_back_in + oversleep(worker, run, &mut self.rng);
        if let Some(client) = self.clients.get_mut(worker) {
            client.request.ticket = Some(queued.ticket);
        }
        self.ask_at(worker, back, run);
    }

    fn ask_at(&mut self, worker: WorkerId, at: paceline_core::units::FleetTime, run: &mut Run<'_>) {
        let Some(client) = self.clients.get_mut(worker) else { return };
        client.serial += 1;
        run.plan(at, Own::Service(Due::Asks { worker, life: run.life(worker), serial: client.serial }));
    }

    fn verdict(&mut self, worker: WorkerId, said: ReportAnswer, run: &mut Run<'_>) {
        let Some(client) = self.clients.get_mut(worker) else { return };
        client.report = None;
        match said.verdict {
            Some(Verdict::GiveUp(_) | Verdict::Done) => run.give_up(worker),
            // A service that lost the lease leaves it to the worker; what was refused may be sent again.
            Some(Verdict::Retry | Verdict::FailOver) | None => {
                client.next_attempt();
                match said.next {
                    Some(answer) => self.answer(worker, answer, run),
                    None => self.ask(worker, run),
                }
            }
        }
    }

    /// A replica did not answer: the same again elsewhere, after a pause.
    fn try_another(&mut self, worker: WorkerId, run: &mut Run<'_>) {
        let Some(client) = self.clients.get_mut(worker) else { return };
        client.replica = (client.replica + 1) % self.spec.replicas;
        client.failures = client.failures.saturating_add(1);
        client.waits_for = None;
        let bound = Span::from_micros(PAUSE.as_micros() << client.failures.min(10)).min(LONGEST_PAUSE);
        let pause = bound.scaled(0.5 + 0.5 * self.rng.random::<f64>());
        self.ask_at(worker, run.now + pause, run);
    }

    /// A worker's plan is due: it asks, or repeats a report that nobody answered.
    fn asks(&mut self, worker: WorkerId, run: &mut Run<'_>) {
        let report = self.clients.get(worker).and_then(|client| client.report.clone());
        match report {
            None => self.ask(worker, run),
            Some(report) => self.send_report(worker, report, run),
        }
    }

    fn send_report(&mut self, worker: WorkerId, report: Box<ReportRequest>, run: &mut Run<'_>) {
        let to = self.new_wait(worker, run);
        let Some(client) = self.clients.get_mut(worker) else { return };
        client.waits_for = Some(to.id);
        let replica = client.replica;
        self.post(replica, Message::Report(Some(to), report), run);
    }

    // The replicas' side.

    fn arrives(&mut self, replica: usize, message: Message, run: &mut Run<'_>) {
        if !self.replicas.get(replica).is_some_and(|replica| replica.is_alive) {
            return self.unreachable(replica, message, run);
        }
        let Some(input) = self.input(message, run) else { return };
        if let Some(replica) = self.replicas.get_mut(replica) {
            replica.take(input);
        }
        self.go_on(replica, run);
    }

    /// A message came to a replica that is not there.
    fn unreachable(&mut self, replica: usize, message: Message, run: &mut Run<'_>) {
        match message {
            Message::Ask(to, _) | Message::Report(Some(to), _) => {
                let is_awaited = self.clients.get(to.worker).is_some_and(|client| client.waits_for == Some(to.id));
                if is_awaited && run.is_alive(to.worker, to.life) {
                    self.try_another(to.worker, run);
                }
            }
            // Nobody waits for these; the client repeats them in the background, elsewhere.
            Message::Report(None, _) | Message::Release(_) if self.spec.replicas > 1 => {
                let next = (replica + 1) % self.spec.replicas;
                run.plan(run.now + PAUSE, Own::Service(Due::Arrives { replica: next, message }));
            }
            Message::Report(None, _) | Message::Release(_) | Message::Leave(_) => {}
        }
    }

    fn input(&mut self, message: Message, run: &Run<'_>) -> Option<Input> {
        match message {
            Message::Ask(to, request) => {
                // What the simulation asks for is well-formed: an error here is one of ours, and its caller never hears.
                let input = ask_input(*request, &*self.settings, &self.keyring).ok()?;
                self.waiting.insert(to.id, to);
                Some(Input::Ask(to.id, Arc::new(input)))
            }
            Message::Report(to, request) => {
                let input = report_input(*request, &*self.settings, &self.keyring, run.now).ok()?;
                let id = to.map_or_else(|| self.fresh_id(), |to| to.id);
                if let Some(to) = to {
                    self.waiting.insert(id, to);
                }
                Some(Input::Report(id, Arc::new(input)))
            }
            Message::Leave(id) => self.waiting.remove(&id).map(|_| Input::Leave(id)),
            Message::Release(lease_id) => {
                let input = release_lease_input(&lease_id, &self.keyring).ok().flatten()?;
                Some(Input::Release(self.fresh_id(), Box::new(input)))
            }
        }
    }

    fn fresh_id(&mut self) -> ReplyId {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Lets a replica do what it can until it has to wait for something.
    fn go_on(&mut self, index: usize, run: &mut Run<'_>) {
        loop {
            let Some(replica) = self.replicas.get_mut(index) else { return };
            if replica.is_busy() {
                return;
            }
            let mut told = Told { replies: Vec::new() };
            let wants = replica.go_on(run.now, &mut told);
            self.tell(told, run);
            match wants {
                Wants::Rest(at) => return self.rest(index, at, run),
                Wants::Store if self.spec.store > Span::ZERO => return self.call_store(index, run),
                Wants::Store => {
                    let Some(replica) = self.replicas.get_mut(index) else { return };
                    let answer = replica.at_store(&mut self.store, run.now);
                    self.hear(index, answer, run);
                }
            }
        }
    }

    fn rest(&mut self, index: usize, at: Option<paceline_core::units::FleetTime>, run: &mut Run<'_>) {
        let Some(replica) = self.replicas.get_mut(index) else { return };
        replica.wake_serial += 1;
        if let Some(at) = at {
            let soonest = run.now + Span::from_micros(1);
            let due = Due::Wake { replica: index, serial: replica.wake_serial };
            run.plan(at.max(soonest), Own::Service(due));
        }
    }

    fn call_store(&mut self, index: usize, run: &mut Run<'_>) {
        let Some(replica) = self.replicas.get_mut(index) else { return };
        replica.store_serial += 1;
        let due = Due::StoreActs { replica: index, serial: replica.store_serial };
        run.plan(run.now + self.spec.store.scaled(0.5), Own::Service(due));
    }

    fn store_acts(&mut self, index: usize, serial: u64, run: &mut Run<'_>) {
        let Some(replica) = self.replicas.get_mut(index) else { return };
        let mut answer = replica.at_store(&mut self.store, run.now);
        let mut after = self.spec.store.scaled(0.5);
        if self.rng.random::<f64>() < self.spec.store_loss || matches!(answer, Stored::Lost) {
            // What was asked for may have been done: nobody knows before the time-out.
            answer = Stored::Lost;
            after = Span::from_millis(200);
        }
        let due = Due::StoreAnswers { replica: index, serial, answer: Box::new(Answered(answer)) };
        run.plan(run.now + after, Own::Service(due));
    }

    fn hear(&mut self, index: usize, answer: Stored, run: &mut Run<'_>) {
        let Some(replica) = self.replicas.get_mut(index) else { return };
        let mut told = Told { replies: Vec::new() };
        replica.hear(answer, run.now, &mut told);
        self.tell(told, run);
    }

    fn tell(&mut self, told: Told, run: &mut Run<'_>) {
        for (id, reply) in told.replies {
            if let Some(to) = self.waiting.remove(&id) {
                run.plan(run.now + self.spec.network, Own::Service(Due::Told { to, reply: Box::new(reply) }));
            }
        }
    }

    fn lose(&mut self, index: usize, run: &mut Run<'_>) {
        let Some(replica) = self.replicas.get_mut(index) else { return };
        replica.is_alive = false;
        replica.wake_serial += 1;
        replica.store_serial += 1;
        // Connections break: whoever waited there turns to another one.
        let stranded = (0..self.clients.len())
            .filter(|id| self.clients.get(*id).is_some_and(|client| client.replica == index && client.waits_for.is_some()));
        for worker in stranded.collect::<Vec<_>>() {
            if let Some(id) = self.clients.get(worker).and_then(|client| client.waits_for) {
                self.waiting.remove(&id);
            }
            self.try_another(worker, run);
        }
    }
}

impl Governor for Service {
    fn reads(&self) -> Telling {
        Telling::NoCompletions
    }

    fn begin(&mut self, worker: WorkerId, run: &mut Run<'_>) {
        let (Some(part), Some(index)) = (run.part_of(worker), run.job_of(worker)) else { return };
        let Some(job) = run.jobs.get(index) else { return };
        let target = self.target(&part.model);
        let name = format!("call-{index}-{}", run.life(worker));
        if let Some(client) = self.clients.get_mut(worker) {
            client.begin(target, part, job, name);
        }
        self.ask(worker, run);
    }

    fn answered(&mut self, worker: WorkerId, answer: ProviderAnswer, run: &mut Run<'_>) {
        let Some(job) = run.job_of(worker).and_then(|job| run.jobs.get(job)) else { return };
        let Some(client) = self.clients.get_mut(worker) else { return };
        let is_refusal = !went_through(&answer);
        let report = Box::new(client.report(answer, job));
        if is_refusal {
            client.report = Some(report.clone());
            self.send_report(worker, report, run);
        } else {
            let replica = client.replica;
            self.post(replica, Message::Report(None, report), run);
        }
    }

    fn due(&mut self, own: Own, run: &mut Run<'_>) {
        let Own::Service(due) = own;
        match due {
            Due::Arrives { replica, message } => self.arrives(replica, message, run),
            Due::Told { to, reply } => self.told(to, *reply, run),
            Due::Asks { worker, life, serial } => {
                let is_current = self.clients.get(worker).is_some_and(|client| client.serial == serial);
                if is_current && run.is_alive(worker, life) {
                    self.asks(worker, run);
                }
            }
            Due::Wake { replica, serial } => {
                let Some(current) = self.replicas.get_mut(replica).filter(|current| current.wake_serial == serial) else {
                    return;
                };
                if current.is_alive {
                    current.wake();
                    self.go_on(replica, run);
                }
            }
            Due::StoreActs { replica, serial } => {
                if self.replicas.get(replica).is_some_and(|current| current.store_serial == serial) {
                    self.store_acts(replica, serial, run);
                }
            }
            Due::StoreAnswers { replica, serial, answer } => {
                if self.replicas.get(replica).is_some_and(|current| current.store_serial == serial) {
                    self.hear(replica, answer.0, run);
                    self.go_on(replica, run);
                }
            }
        }
    }

    fn crashed(&mut self, worker: WorkerId, run: &mut Run<'_>) {
        let Some(client) = self.clients.get_mut(worker) else { return };
        let replica = client.replica;
        // Its connection breaks, so the service learns that nobody waits; a slot it had is only known by its silence.
        if let Some(id) = client.waits_for.take() {
            self.post(replica, Message::Leave(id), run);
        }
    }

    fn happens(&mut self, event: Happens, run: &mut Run<'_>) {
        match event {
            Happens::ReplicaLost(index) => self.lose(index, run),
            Happens::ReplicaBack(index) => {
                let fresh = self.incarnate();
                if let Some(replica) = self.replicas.get_mut(index) {
                    let serials = (replica.wake_serial, replica.store_serial);
                    *replica = fresh;
                    (replica.wake_serial, replica.store_serial) = serials;
                }
            }
            Happens::StoreAway(length) => self.store.away_until = run.now + length,
            Happens::WorkersCrash(_) => {}
        }
    }
}

fn oversleep(worker: WorkerId, run: &Run<'_>, rng: &mut ChaCha8Rng) -> Span {
    match run.part_of(worker).and_then(|part| part.oversleeps) {
        Some((share, by)) if rng.random::<f64>() < share => by.scaled(rng.random::<f64>()),
        _ => Span::ZERO,
    }
}
