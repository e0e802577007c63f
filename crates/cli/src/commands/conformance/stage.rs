//! The kit's memory: how far each situation is, and what has happened. Adapters ask it what to answer; it reads the clock for them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use paceline_proto::v1::{AcquireRequest, Mode, NotApplied, Outcome, ReportRequest, Verdict};
use tokio::sync::{Notify, mpsc};

use super::event::{Answer, Event, Granted, Said, Way, What};
use super::script::{Act, Reply, Say, Situation, Tell};

/// Stands in leases before the job's name.
const LEASE: &str = "kit.";

/// Shared by the gRPC and the HTTP side; clones are the same one.
#[derive(Clone)]
pub(super) struct Stage {
    shared: Arc<Shared>,
}

struct Shared {
    started: Instant,
    situations: Vec<Situation>,
    state: Mutex<State>,
    changed: Notify,
    acts: mpsc::UnboundedSender<(&'static str, Act)>,
}

#[derive(Default)]
struct State {
    events: Vec<Event>,
    progress: HashMap<String, Progress>,
    handed: usize,
    reports: u64,
    last: Duration,
}

impl State {
    /// How many jobs are done.
    fn done(&self) -> usize {
        self.progress.values().filter(|progress| progress.is_done).count()
    }
}

/// How far a situation is.
#[derive(Default)]
struct Progress {
    asks: usize,
    calls: u32,
    leases: u32,
    reports: usize,
    /// Answered reports by lease and number: the same one gets the same answer.
    told: BTreeMap<(String, u32), Said>,
    is_done: bool,
    has_acted: bool,
    /// Nobody answers an ask, or a report, until then.
    away_until: Option<Duration>,
}

impl Progress {
    /// Whether nobody answers at `now`, where that began with the first try and lasts so long.
    fn is_away(&mut self, now: Duration, lasts: Duration) -> bool {
        now < *self.away_until.get_or_insert(now + lasts)
    }
}

/// What is to be said to an ask, and after how long.
pub(super) struct Answering {
    pub(super) after: Duration,
    pub(super) answer: Answer,
    pub(super) ttl: Duration,
}

impl Answering {
    /// What gives no lease.
    fn at_once(answer: Answer) -> Self {
        Self { after: Duration::ZERO, answer, ttl: Duration::ZERO }
    }
}

impl Stage {
    /// The stage, and what it wants to be done to the worker's process.
    pub(super) fn new(situations: Vec<Situation>) -> (Self, mpsc::UnboundedReceiver<(&'static str, Act)>) {
        let (acts, wanted) = mpsc::unbounded_channel();
        let (state, changed) = (Mutex::new(State::default()), Notify::new());
        (Self { shared: Arc::new(Shared { started: Instant::now(), situations, state, changed, acts }) }, wanted)
    }

    /// Has something done to the worker's process, once in a situation.
    fn act(&self, state: &mut State, situation: &Situation, is_it: fn(&Act) -> bool) {
        let Some(act) = situation.act.filter(is_it) else { return };
        let progress = state.progress.entry(situation.id.to_owned()).or_default();
        if !std::mem::replace(&mut progress.has_acted, true) {
            // Nobody listens once the kit has ended.
            let _ = self.shared.acts.send((situation.id, act));
        }
    }

    /// The worker's process was killed in this job, which ends with it.
    pub(super) fn killed(&self, job: &str) {
        let mut state = self.lock();
        state.progress.entry(job.to_owned()).or_default().is_done = true;
        self.record(&mut state, job, What::Killed);
    }

    /// All that happened so far.
    pub(super) fn events(&self) -> Vec<Event> {
        self.lock().events.clone()
    }

    pub(super) fn situations(&self) -> &[Situation] {
        &self.shared.situations
    }

    /// The situation of that name.
    pub(super) fn situation(&self, job: &str) -> Option<&Situation> {
        self.shared.situations.iter().find(|situation| situation.id == job)
    }

    /// The next job that nobody has taken. One in which something is done to the process has it for itself: it is handed out when
    /// all before it are done, and the next one when it is.
    pub(super) async fn next_job(&self) -> Option<&Situation> {
        loop {
            let changed = self.shared.changed.notified();
            {
                let mut state = self.lock();
                let next = self.shared.situations.get(state.handed)?;
                let before = state.handed.checked_sub(1).and_then(|index| self.shared.situations.get(index));
                let is_alone = next.act.is_some() || before.is_some_and(|before| before.act.is_some());
                if !is_alone || state.done() >= state.handed {
                    state.handed += 1;
                    self.record(&mut state, next.id, What::Handed);
                    return Some(next);
                }
            }
            changed.await;
        }
    }

    /// Takes down how a job ended; false when there is no such job.
    pub(super) fn done(&self, job: &str, outcome: String, status: u16) -> bool {
        let mut state = self.lock();
        if self.situation(job).is_none() {
            return false;
        }
        state.progress.entry(job.to_owned()).or_default().is_done = true;
        self.record(&mut state, job, What::Done { outcome, status });
        true
    }

    /// Completes when every job was taken and is done.
    pub(super) async fn all_done(&self) {
        loop {
            let changed = self.shared.changed.notified();
            if self.lock().done() >= self.shared.situations.len() {
                return;
            }
            changed.await;
        }
    }

    /// How long nothing has happened.
    pub(super) fn idle(&self) -> Duration {
        self.now().saturating_sub(self.lock().last)
    }

    /// What a worker's ask is to be answered; `None` when it names no job.
    pub(super) fn ask(&self, way: Way, request: &AcquireRequest) -> Option<Answering> {
        let job = request.target.as_ref().map_or("", |target| target.model.as_str()).to_owned();
        let mut state = self.lock();
        let what = What::Asked { way, request: Box::new(request.clone()) };
        let Some(situation) = self.situation(&job) else {
            self.record(&mut state, "", what);
            return None;
        };
        self.record(&mut state, situation.id, what);
        Some(self.say(&mut state, situation))
    }

    /// The next thing to be said to the same ask, on a Session.
    pub(super) fn ask_on(&self, job: &str) -> Option<Answering> {
        let situation = self.situation(job)?;
        Some(self.say(&mut self.lock(), situation))
    }

    fn say(&self, state: &mut State, situation: &Situation) -> Answering {
        let now = self.now();
        let progress = state.progress.entry(situation.id.to_owned()).or_default();
        let step = |asks: usize| situation.asks.get(asks).or(situation.asks.last()).cloned().unwrap_or(Say::Unavailable);
        let mut say = step(progress.asks);
        match say {
            Say::Away { lasts } if progress.is_away(now, lasts) => {}
            Say::Away { .. } => {
                say = step(progress.asks + 1);
                progress.asks += 2;
            }
            _ => progress.asks += 1,
        }
        match say {
            Say::Grant { after, wait, use_within, ttl, mode } => {
                let granted = Granted { lease: lease(situation.id, progress), wait, use_within, mode };
                Answering { after, answer: Answer::Granted(granted), ttl }
            }
            Say::Queue { come_back_in } => {
                let ticket = format!("ticket {} of {}", progress.asks, situation.id).into_bytes();
                Answering::at_once(Answer::Queued { ticket, come_back_in })
            }
            Say::Deny { reason, is_for_ever } => Answering::at_once(Answer::Denied { reason, is_for_ever }),
            Say::Unavailable | Say::Away { .. } => Answering::at_once(Answer::Failed),
        }
    }

    /// An answer is about to go out: waits count from now at the earliest.
    pub(super) fn answered(&self, job: &str, answer: &Answer) {
        let mut state = self.lock();
        self.record(&mut state, job, What::Answered(answer.clone()));
        if let (Answer::Granted(_), Some(situation)) = (answer, self.situation(job)) {
            self.act(&mut state, situation, |act| matches!(act, Act::StandStill { .. }));
        }
    }

    /// A call is at the provider: its number and what to answer.
    pub(super) fn arrived(&self, job: &str) -> Option<(u32, Reply)> {
        let situation = self.situation(job)?;
        let mut state = self.lock();
        let progress = state.progress.entry(job.to_owned()).or_default();
        progress.calls += 1;
        let call = progress.calls;
        let index = usize::try_from(call - 1).unwrap_or(usize::MAX);
        let reply = situation.replies.get(index).or(situation.replies.last()).cloned()?;
        self.record(&mut state, situation.id, What::Arrived { call });
        self.act(&mut state, situation, |act| *act == Act::Kill);
        Some((call, reply))
    }

    /// Takes down something that the provider did.
    pub(super) fn happened(&self, job: &str, what: What) {
        self.record(&mut self.lock(), job, what);
    }

    /// What a worker's report is to be answered: its number, after how long, and what.
    pub(super) fn report(&self, way: Way, request: &ReportRequest) -> (u64, Duration, Said) {
        let job = job_of(&request.lease_id).to_owned();
        let now = self.now();
        let mut state = self.lock();
        state.reports += 1;
        let number = state.reports;
        let situation = self.situation(&job);
        let name = situation.map_or("", |situation| situation.id);
        self.record(&mut state, name, What::Reported { number, way, request: Box::new(request.clone()) });
        let Some(situation) = situation else {
            return (number, Duration::ZERO, Said::NotApplied(NotApplied::LeaseUnknown, Verdict::Unspecified));
        };
        if request.outcome() == Outcome::Running {
            return (number, Duration::ZERO, Said::Verdict(Verdict::Unspecified, None));
        }
        let progress = state.progress.entry(job).or_default();
        let key = (request.lease_id.clone(), request.seq);
        if let Some(said) = progress.told.get(&key) {
            return (number, Duration::ZERO, said.clone());
        }
        let (after, said) = tell(situation, progress, request, now);
        if said != Said::Failed {
            progress.told.insert(key, said.clone());
        }
        (number, after, said)
    }

    /// The answer to a report is about to go out.
    pub(super) fn told(&self, lease: &str, number: u64, said: &Said) {
        self.record(&mut self.lock(), job_of(lease), What::Told { number, said: said.clone() });
    }

    /// A lease or a ticket is given back.
    pub(super) fn released(&self, job: &str, lease: &str) {
        self.record(&mut self.lock(), job, What::Released { lease: lease.to_owned() });
    }

    fn now(&self) -> Duration {
        self.shared.started.elapsed()
    }

    fn record(&self, state: &mut State, job: &str, what: What) {
        let at = self.now();
        state.last = at;
        state.events.push(Event { at, job: job.to_owned(), what });
        self.shared.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves an event out at worst.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tell(situation: &Situation, progress: &mut Progress, request: &ReportRequest, now: Duration) -> (Duration, Said) {
    let step = situation.reports.get(progress.reports).cloned();
    if let Some(Tell::Away { lasts }) = step
        && progress.is_away(now, lasts)
    {
        return (Duration::ZERO, Said::Failed);
    }
    progress.reports += 1;
    let ends = request.r#final || !matches!(request.outcome(), Outcome::Response);
    let usual = if ends { Verdict::Done } else { Verdict::Unspecified };
    match step {
        None | Some(Tell::Away { .. }) => (Duration::ZERO, Said::Verdict(usual, None)),
        // A worker that reports the end at once gets the verdict on it.
        Some(Tell::Verdict { after, verdict: Verdict::Unspecified, .. }) => (after, Said::Verdict(usual, None)),
        Some(Tell::Verdict { after, verdict, next }) => {
            let wanted = request.retry.as_ref().is_some_and(|retry| retry.wanted);
            let next = next.filter(|_| wanted).map(|wait| Granted {
                lease: lease(situation.id, progress),
                wait,
                use_within: Duration::from_secs(60),
                mode: Mode::Enforce,
            });
            (after, Said::Verdict(verdict, next))
        }
        Some(Tell::Unavailable { after }) => (after, Said::Failed),
        Some(Tell::NotApplied { why, verdict }) => (Duration::ZERO, Said::NotApplied(why, verdict)),
    }
}

fn lease(job: &str, progress: &mut Progress) -> String {
    progress.leases += 1;
    format!("{LEASE}{job}.{}", progress.leases)
}

/// The job that a lease is for; empty when it is none of ours.
pub(super) fn job_of(lease: &str) -> &str {
    lease.strip_prefix(LEASE).and_then(|rest| rest.rsplit_once('.')).map_or("", |(job, _)| job)
}

/// The job that a ticket is for; empty when it is none of ours.
pub(super) fn job_of_ticket(ticket: &[u8]) -> &str {
    std::str::from_utf8(ticket).ok().and_then(|text| text.split(' ').nth(3)).unwrap_or_default()
}
