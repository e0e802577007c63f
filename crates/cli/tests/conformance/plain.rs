//! The loop of docs/workers.md in plain gRPC, with habits that it may be given to be a bad worker.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use paceline_proto::v1::acquire_response::Outcome as Decision;
use paceline_proto::v1::rate_limiter_client::RateLimiterClient;
use paceline_proto::v1::release_request::What as Held;
use paceline_proto::v1::{
    AcquireRequest, Grant, Header, Outcome, ReleaseRequest, ReportRequest, ReportResponse, RetryAsk, Target, Verdict,
};
use tokio::time::{Instant, sleep, sleep_until};
use tonic::transport::Channel;

use crate::kit::{Answer, Broken, Desk, Ended, Job, send, unless_left};

/// What a worker does otherwise than it should.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    pub(crate) sends_early: bool,
    pub(crate) ignores_tickets: bool,
    pub(crate) retries_itself: bool,
    pub(crate) reports: bool,
    pub(crate) minds_lateness: bool,
    pub(crate) leaks: bool,
    pub(crate) new_names: bool,
    pub(crate) ignores_denials: bool,
    pub(crate) counts_names: bool,
    pub(crate) leaves_things: bool,
    pub(crate) hammers: bool,
    pub(crate) knows_one_account: bool,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            sends_early: false,
            ignores_tickets: false,
            retries_itself: false,
            reports: true,
            minds_lateness: true,
            leaks: false,
            new_names: false,
            ignores_denials: false,
            counts_names: false,
            leaves_things: false,
            hammers: false,
            knows_one_account: false,
        }
    }
}

struct Worker {
    service: RateLimiterClient<Channel>,
    habits: Habits,
    /// What it was given last.
    held: Mutex<Option<Held>>,
}

/// Does all jobs of the kit.
pub(crate) async fn work(desk: &Desk, habits: Habits) {
    let channel = Channel::from_shared(format!("http://{}", desk.grpc)).unwrap().connect_lazy();
    let worker = Worker { service: RateLimiterClient::new(channel), habits, held: Mutex::default() };
    while let Some(job) = desk.job().await {
        let ended = unless_left(&job, worker.call(&job)).await;
        if matches!(ended, Ended::Cancelled) {
            worker.give_back().await;
        }
        desk.done(&job, ended).await;
    }
}

impl Worker {
    /// A name that nobody else has; or one that the next process will have as well.
    fn new_name(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let count = NEXT.fetch_add(1, Ordering::Relaxed);
        if self.habits.counts_names { format!("call-{count}") } else { format!("call-{}-{count}", std::process::id()) }
    }

    async fn call(&self, job: &Job) -> Ended {
        let account = if self.habits.knows_one_account { "kit".to_owned() } else { job.account.clone() };
        let target = Target { provider: job.provider.clone(), account, model: job.model.clone() };
        let mut ask = AcquireRequest {
            request_id: self.new_name(),
            attempt: 1,
            target: Some(target),
            cost: [("tokens".to_owned(), job.tokens)].into(),
            ..AcquireRequest::default()
        };
        let mut answer = None;
        loop {
            let (decision, received) = match answer.take() {
                Some(next) => (next, Instant::now()),
                None => self.acquire(&mut ask).await,
            };
            *self.held.lock().unwrap() = match &decision {
                Decision::Grant(grant) => Some(Held::LeaseId(grant.lease_id.clone())),
                Decision::Queued(queued) => Some(Held::Ticket(queued.ticket.clone())),
                Decision::Denial(_) => None,
            };
            let grant = match decision {
                Decision::Denial(_) if self.habits.ignores_denials => Grant::default(),
                Decision::Denial(_) => return Ended::Denied,
                Decision::Queued(queued) => {
                    sleep_until(received + time(queued.come_back_in)).await;
                    if !self.habits.ignores_tickets {
                        ask.ticket = queued.ticket;
                    }
                    self.rename(&mut ask);
                    continue;
                }
                Decision::Grant(grant) => grant,
            };
            let send_at = received + if self.habits.sends_early { Duration::ZERO } else { time(grant.wait) };
            sleep_until(send_at).await;
            if self.habits.minds_lateness
                && Instant::now() > send_at + grant.use_within.map_or(Duration::from_secs(2), |w| time(Some(w)))
            {
                continue;
            }
            let (said, ended) = self.attempt(&grant, job).await;
            let Some(said) = said.filter(|said| matches!(said.verdict(), Verdict::Retry | Verdict::FailOver)) else {
                return ended;
            };
            ask.attempt += 1;
            ask.previous_lease_id = grant.lease_id;
            ask.ticket.clear();
            self.rename(&mut ask);
            answer = said.next.and_then(|next| next.outcome);
        }
    }

    /// What was not used goes back.
    async fn give_back(&self) {
        let what = self.held.lock().unwrap().take();
        if !self.habits.leaves_things && what.is_some() {
            self.service.clone().release(ReleaseRequest { what }).await.unwrap();
        }
    }

    /// The bad habit of naming each ask anew.
    fn rename(&self, ask: &mut AcquireRequest) {
        if self.habits.new_names {
            ask.request_id = self.new_name();
        }
    }

    async fn acquire(&self, ask: &mut AcquireRequest) -> (Decision, Instant) {
        for tries in 0.. {
            if let Ok(answer) = self.service.clone().acquire(ask.clone()).await {
                return (answer.into_inner().outcome.expect("a decision"), Instant::now());
            }
            self.pause(tries).await;
            self.rename(ask);
        }
        unreachable!("there is always another try")
    }

    /// Before the next try: longer each time, a second at most. (It should be random as well.)
    async fn pause(&self, tries: u32) {
        let grown = if self.habits.hammers { 0 } else { tries.min(4) };
        sleep(Duration::from_millis(if self.habits.hammers { 10 } else { 60 }) * (1 << grown)).await;
    }

    /// One call to the provider, its reports, and what the last one was answered.
    async fn attempt(&self, grant: &Grant, job: &Job) -> (Option<ReportResponse>, Ended) {
        let lease = &grant.lease_id;
        let running = self.keep_alive(lease.clone(), time(grant.ttl) / 3);
        let mut sent = send(job).await;
        if self.habits.retries_itself && sent.as_ref().is_ok_and(|answer| answer.status == 429) {
            sleep(Duration::from_millis(20)).await;
            sent = send(job).await;
        }
        running.abort();
        let mut answer = match sent {
            Ok(answer) => answer,
            Err(Broken::NeverSent) => return (self.report(lease, 1, of(Outcome::ConnectionFailed)).await, Ended::Failed),
            Err(Broken::Midway) => return (self.report(lease, 1, of(Outcome::Timeout)).await, Ended::Failed),
        };
        let status = answer.status;
        let mut head = ReportRequest { status: u32::from(status), headers: self.headers(&answer), ..of(Outcome::Response) };
        if !job.stream {
            let body = answer.rest().await.unwrap_or_default();
            head.body = if status >= 400 { body.into_bytes() } else { Vec::new() };
            head.retry = Some(RetryAsk { wanted: true, ..RetryAsk::default() });
            return (self.report(lease, 1, head).await, Ended::Answered(status));
        }
        let first = ReportRequest { r#final: false, ..head };
        let read = async {
            while answer.piece().await?.is_some() {}
            Ok::<_, Broken>(())
        };
        let (_, read) = tokio::join!(self.report(lease, 1, first), read);
        let usage = [("tokens".to_owned(), 12)].into();
        let (last, ended) = match read {
            Ok(()) => (ReportRequest { status: u32::from(status), usage, ..of(Outcome::Response) }, Ended::Answered(status)),
            Err(_) => (of(Outcome::Abandoned), Ended::Failed),
        };
        (self.report(lease, 2, last).await, ended)
    }

    /// Reports until it is answered, with the age of the answer by then.
    async fn report(&self, lease: &str, seq: u32, report: ReportRequest) -> Option<ReportResponse> {
        let arrived = Instant::now();
        if !self.habits.reports {
            return None;
        }
        for tries in 0.. {
            let age = prost_types::Duration::try_from(arrived.elapsed()).ok();
            let report = ReportRequest { lease_id: lease.to_owned(), seq, age, ..report.clone() };
            if let Ok(said) = self.service.clone().report(report).await {
                return Some(said.into_inner());
            }
            self.pause(tries).await;
        }
        None
    }

    fn keep_alive(&self, lease: String, every: Duration) -> tokio::task::JoinHandle<()> {
        let mut service = self.service.clone();
        let is_silent = !self.habits.reports || every.is_zero();
        tokio::spawn(async move {
            if is_silent {
                return;
            }
            loop {
                sleep(every).await;
                let alive = ReportRequest { lease_id: lease.clone(), r#final: false, ..of(Outcome::Running) };
                let _ = service.report(alive).await;
            }
        })
    }

    fn headers(&self, answer: &Answer) -> Vec<Header> {
        let shown = answer.headers.iter().filter(|(name, _)| self.habits.leaks || name.as_str() != "set-cookie");
        shown.map(|(name, value)| Header { name: name.to_string(), value: value.to_str().unwrap().to_owned() }).collect()
    }
}

fn of(outcome: Outcome) -> ReportRequest {
    ReportRequest { outcome: outcome.into(), r#final: true, ..ReportRequest::default() }
}

fn time(duration: Option<prost_types::Duration>) -> Duration {
    duration.and_then(|duration| Duration::try_from(duration).ok()).unwrap_or_default()
}
