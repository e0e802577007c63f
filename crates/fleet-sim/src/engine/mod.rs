//! A run in virtual time: workers take calls, a [`Governor`] says when each is sent, the provider answers.
//!
//! One event after the other, in order of time; what is random comes from seeded streams. The same scenario, strategy and seed
//! give the same run.

mod agenda;
mod film;
pub(crate) mod jobs;
mod tally;

use std::collections::VecDeque;

use paceline_core::signal::Source;
use paceline_core::units::{FleetTime, Milli, Span};
use paceline_provider_sim::{Answer, Provider, ProviderConfig, SimError, Telling};
use rand::RngExt as _;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use crate::scenario::{FleetEvent, Happens, Part, Scenario};
use agenda::Agenda;
pub(crate) use film::Film;
use jobs::{Job, stream};
pub(crate) use tally::{Tally, quantile};

/// When runs begin: a full minute, somewhere in 2027.
pub(crate) const START: FleetTime = FleetTime::from_secs(1_800_000_000);
/// A call of a worker that died is made by another one after so long: somebody has to notice.
const CRASH_NOTICED: Span = Span::from_secs(5);
/// The most events of one run; a run that needs more goes round in circles.
const MOST_EVENTS: u64 = 200_000_000;

/// Names a worker of a run.
pub(crate) type WorkerId = usize;

/// Decides when calls are sent: the service, or each worker for itself.
pub(crate) trait Governor {
    /// How much of the provider's answers it looks at.
    fn reads(&self) -> Telling;
    /// A worker has a call to send.
    fn begin(&mut self, worker: WorkerId, run: &mut Run<'_>);
    /// A worker got an answer to what it sent.
    fn answered(&mut self, worker: WorkerId, answer: Answer, run: &mut Run<'_>);
    /// What the governor planned for itself is due.
    fn due(&mut self, own: Own, run: &mut Run<'_>);
    /// A worker died with whatever it held.
    fn crashed(&mut self, worker: WorkerId, run: &mut Run<'_>);
    /// Something happened to the service.
    fn happens(&mut self, event: Happens, run: &mut Run<'_>);
}

/// What governors plan for themselves.
#[derive(Debug)]
pub(crate) enum Own {
    /// The service's affairs.
    Service(crate::service::Due),
}

#[derive(Debug)]
enum Event {
    /// A worker starts.
    Starts { worker: WorkerId },
    /// A call comes in.
    Comes { part: usize },
    /// A worker sends, if it is still alive.
    Send { worker: WorkerId, life: u32 },
    /// An answer reaches its worker.
    Answered { worker: WorkerId, life: u32, answer: Box<Answer> },
    /// A call of a worker that died is noticed.
    Returned { job: usize },
    /// What the scenario has in store.
    Happens(Happens),
    /// What the governor planned.
    Own(Own),
    /// The camera.
    Look,
}

/// One worker.
#[derive(Clone, Debug, Default)]
struct Worker {
    part: usize,
    /// How often it died and was replaced: what was planned for an earlier life is void.
    life: u32,
    job: Option<usize>,
    taken_at: FleetTime,
    sent_at: FleetTime,
    /// Time that its calls spent at the provider to be refused: no wait of ours.
    at_provider: Span,
}

/// Calls of a part that nobody has begun, and workers with nothing to do.
#[derive(Clone, Debug, Default)]
struct Pool {
    waiting: VecDeque<usize>,
    idle: VecDeque<WorkerId>,
    /// Calls that are still to come in, by time.
    to_come: VecDeque<usize>,
}

/// Everything of a run but its governor.
pub(crate) struct Run<'a> {
    pub(crate) now: FleetTime,
    pub(crate) scenario: &'a Scenario,
    pub(crate) jobs: &'a [Job],
    pub(crate) rng: ChaCha8Rng,
    pub(crate) tally: Tally,
    pub(crate) film: Option<Film>,
    provider: Provider,
    agenda: Agenda<Event>,
    workers: Vec<Worker>,
    pools: Vec<Pool>,
    open: usize,
    chance: ChaCha8Rng,
    seed: u64,
    /// Workers whose call ended and who are to take another.
    free: Vec<WorkerId>,
    /// How much of answers anybody looks at.
    telling: Telling,
}

/// Whether an answer is what the call was made for: not an error, and not a connection that broke.
pub(crate) fn went_through(answer: &Answer) -> bool {
    (100..400).contains(&answer.status)
}

/// The provider of a scenario, for one seed.
pub(crate) fn provider_config(scenario: &Scenario, seed: u64) -> ProviderConfig {
    ProviderConfig { seed, ..scenario.provider.clone() }
}

impl<'a> Run<'a> {
    /// A run that has not begun.
    pub(crate) fn new(scenario: &'a Scenario, jobs: &'a [Job], seed: u64) -> Result<Self, SimError> {
        let parts = scenario.fleet.iter().enumerate();
        let workers = parts.flat_map(|(part, plan)| (0..plan.workers).map(move |_| Worker { part, ..Worker::default() }));
        Ok(Self {
            now: START,
            scenario,
            jobs,
            rng: stream(seed, 1),
            tally: Tally::new(scenario, START),
            film: None,
            provider: Provider::starting_at(provider_config(scenario, seed), START)?,
            agenda: Agenda::default(),
            workers: workers.collect(),
            pools: vec![Pool::default(); scenario.fleet.len()],
            open: jobs.len(),
            chance: stream(seed, 2),
            seed,
            free: Vec::new(),
            telling: Telling::Everything,
        })
    }

    /// Runs until every call has ended, or the scenario's time is over.
    pub(crate) fn go(&mut self, governor: &mut dyn Governor) {
        self.telling = governor.reads();
        self.set_up();
        let cap = START + self.scenario.at_most;
        let mut events = 0_u64;
        self.put_to_work(governor);
        while self.open > 0 && events < MOST_EVENTS {
            let Some((at, event)) = self.agenda.next() else { break };
            if at > cap {
                self.now = cap;
                break;
            }
            self.now = self.now.max(at);
            self.take(event, governor);
            self.put_to_work(governor);
            events += 1;
        }
        self.tally.given_up += u64::try_from(self.open).unwrap_or(u64::MAX);
        if self.open > 0 {
            self.tally.last_answer = self.tally.last_answer.max(self.now);
        }
    }

    fn set_up(&mut self) {
        for (index, job) in self.jobs.iter().enumerate() {
            let Some(pool) = self.pools.get_mut(job.part) else { continue };
            if job.comes == Span::ZERO {
                pool.waiting.push_back(index);
            } else {
                pool.to_come.push_back(index);
            }
        }
        for part in 0..self.pools.len() {
            self.plan_next_arrival(part);
        }
        for event in &self.scenario.events {
            let FleetEvent { at, what } = *event;
            self.agenda.plan(START + at, Event::Happens(what));
        }
        if let Some(film) = &self.film {
            self.agenda.plan(START + film.bin(), Event::Look);
        }
        let mut rng = stream(self.seed, 4);
        for id in 0..self.workers.len() {
            let starts = self.part_of(id).map_or(Span::ZERO, |part| part.starts);
            match starts {
                Span::ZERO => self.free.push(id),
                starts => self.agenda.plan(START + starts.scaled(rng.random::<f64>()), Event::Starts { worker: id }),
            }
        }
    }

    fn take(&mut self, event: Event, governor: &mut dyn Governor) {
        match event {
            Event::Starts { worker } => self.free.push(worker),
            Event::Comes { part } => {
                if let Some(pool) = self.pools.get_mut(part)
                    && let Some(job) = pool.to_come.pop_front()
                {
                    self.offer(part, job, false);
                    self.plan_next_arrival(part);
                }
            }
            Event::Send { worker, life } => {
                if self.is_alive(worker, life) {
                    self.send(worker);
                }
            }
            Event::Answered { worker, life, answer } => {
                if self.is_alive(worker, life) {
                    self.answer(worker, *answer, governor);
                }
            }
            Event::Returned { job } => {
                if let Some(part) = self.jobs.get(job).map(|job| job.part) {
                    self.offer(part, job, true);
                }
            }
            Event::Happens(Happens::WorkersCrash(share)) => self.crash(share, governor),
            Event::Happens(event) => governor.happens(event, self),
            Event::Own(own) => governor.due(own, self),
            Event::Look => {
                if let Some(film) = &mut self.film {
                    film.look(&mut self.provider, self.now);
                    self.agenda.plan(self.now + film.bin(), Event::Look);
                }
            }
        }
    }

    fn plan_next_arrival(&mut self, part: usize) {
        let next = self.pools.get(part).and_then(|pool| pool.to_come.front()).and_then(|job| self.jobs.get(*job));
        if let Some(job) = next {
            self.agenda.plan(START + job.comes, Event::Comes { part });
        }
    }

    /// Puts a call where workers find it; wakes one who has nothing to do.
    fn offer(&mut self, part: usize, job: usize, first: bool) {
        let Some(pool) = self.pools.get_mut(part) else { return };
        if first {
            pool.waiting.push_front(job);
        } else {
            pool.waiting.push_back(job);
        }
        self.free.extend(pool.idle.pop_front());
    }

    /// Every worker that is free takes the next call of its part.
    fn put_to_work(&mut self, governor: &mut dyn Governor) {
        let mut at = 0;
        while let Some(id) = self.free.get(at).copied() {
            at += 1;
            let Some(worker) = self.workers.get_mut(id) else { continue };
            let Some(pool) = self.pools.get_mut(worker.part) else { continue };
            let Some(job) = pool.waiting.pop_front() else {
                pool.idle.push_back(id);
                continue;
            };
            *worker = Worker { job: Some(job), taken_at: self.now, at_provider: Span::ZERO, ..worker.clone() };
            self.tally.begun(worker.part, self.now);
            governor.begin(id, self);
        }
        self.free.clear();
    }

    fn send(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        let Some(job) = worker.job.and_then(|job| self.jobs.get(job)) else { return };
        worker.sent_at = self.now;
        let answer = self.provider.arrive_telling(self.now, &job.call, self.telling);
        let rejected = !went_through(&answer);
        self.tally.sends += 1;
        self.tally.rejected += u64::from(rejected);
        if !rejected {
            self.tally.accepted(job, self.now);
        }
        if let Some(film) = &mut self.film {
            film.sent(self.now, rejected);
        }
        let at = self.now + answer.latency;
        self.agenda.plan(at, Event::Answered { worker: id, life: worker.life, answer: Box::new(answer) });
    }

    fn answer(&mut self, id: WorkerId, answer: Answer, governor: &mut dyn Governor) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        if went_through(&answer) {
            let wait = worker.sent_at.since(worker.taken_at) - worker.at_provider;
            let class = self.scenario.fleet.get(worker.part).map(|part| part.class).unwrap_or_default();
            self.tally.finished(id, class, wait, self.now);
            governor.answered(id, answer, self);
            self.end(id);
        } else {
            worker.at_provider += self.now.since(worker.sent_at);
            governor.answered(id, answer, self);
        }
    }

    /// The worker's call is over, one way or the other.
    fn end(&mut self, id: WorkerId) {
        if let Some(worker) = self.workers.get_mut(id)
            && worker.job.take().is_some()
        {
            self.open -= 1;
            self.free.push(id);
        }
    }

    fn crash(&mut self, share: f64, governor: &mut dyn Governor) {
        let busy: Vec<WorkerId> = (0..self.workers.len()).filter(|id| self.job_of(*id).is_some()).collect();
        let count = (busy.len() as f64 * share).round() as usize;
        let chosen: Vec<WorkerId> = busy.sample(&mut self.chance, count).copied().collect();
        for id in chosen {
            governor.crashed(id, self);
            let Some(worker) = self.workers.get_mut(id) else { continue };
            // A new one takes its place at once; its call is found missing later.
            worker.life += 1;
            if let Some(job) = worker.job.take() {
                self.agenda.plan(self.now + CRASH_NOTICED, Event::Returned { job });
            }
            self.free.push(id);
        }
    }

    /// Which part of what the provider's other consumer wanted it did not get; of the meter where that is most.
    pub(crate) fn taken_from_other(&mut self) -> f64 {
        let readings = self.provider.levels(self.now);
        let missed = readings.iter().map(|own| own.drained).filter(|drained| drained.wanted > Milli::ZERO);
        missed.map(|drained| 1.0 - drained.got.as_milli() as f64 / drained.wanted.as_milli() as f64).fold(0.0, f64::max)
    }

    // What governors use.

    /// The worker sends its call at `at`, or now if that is past.
    pub(crate) fn send_at(&mut self, worker: WorkerId, at: FleetTime) {
        let life = self.life(worker);
        if at <= self.now {
            self.send(worker);
        } else {
            self.agenda.plan(at, Event::Send { worker, life });
        }
    }

    /// The worker gives its call up.
    pub(crate) fn give_up(&mut self, worker: WorkerId) {
        if self.job_of(worker).is_some() {
            self.tally.given_up(self.now);
            self.end(worker);
        }
    }

    /// The caller goes away: its call counts neither as made nor as given up by us.
    pub(crate) fn leave(&mut self, worker: WorkerId) {
        self.end(worker);
    }

    /// Plans something of the governor's.
    pub(crate) fn plan(&mut self, at: FleetTime, own: Own) {
        self.agenda.plan(at.max(self.now), Event::Own(own));
    }

    /// Counts a wait, and shows it in the film.
    pub(crate) fn waits(&mut self, source: Source, from: FleetTime, until: FleetTime) {
        self.tally.delay(source, until.since(from));
        if let Some(film) = &mut self.film {
            film.waited(source, from, until);
        }
    }

    /// Which life the worker is in.
    pub(crate) fn life(&self, worker: WorkerId) -> u32 {
        self.workers.get(worker).map_or(0, |worker| worker.life)
    }

    /// Whether a worker is still in this life, with a call to make.
    pub(crate) fn is_alive(&self, worker: WorkerId, life: u32) -> bool {
        self.workers.get(worker).is_some_and(|worker| worker.life == life && worker.job.is_some())
    }

    /// The number of the call that a worker makes.
    pub(crate) fn job_of(&self, worker: WorkerId) -> Option<usize> {
        self.workers.get(worker).and_then(|worker| worker.job)
    }

    /// The part of the fleet a worker belongs to.
    pub(crate) fn part_of(&self, worker: WorkerId) -> Option<&'a Part> {
        self.workers.get(worker).and_then(|worker| self.scenario.fleet.get(worker.part))
    }
}
