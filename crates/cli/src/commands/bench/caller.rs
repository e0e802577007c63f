//! One call after the other, as a worker asks: with a new name, again with its ticket while it waits, and a report at the end.

use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use paceline_proto::v1::acquire_batch_item::Result as Item;
use paceline_proto::v1::acquire_response::Outcome as Decision;
use paceline_proto::v1::{
    AcquireBatchRequest, AcquireRequest, AcquireResponse, Denial, Outcome, ReportBatchRequest, ReportRequest, Target,
};
use tokio::time::{sleep, timeout};
use tonic::{Code, Status};

use super::replicas::Replicas;
use super::{Balance, BenchArgs, BenchError, PATIENCE, Via};
use crate::commands::status::root_cause;

/// How long a lease lives that nobody reports: short, so that a long run does not pile them up.
const RUN_TIME: Duration = Duration::from_secs(2);
/// How long the asks of a message may be held together: as long as one alone without a ticket.
const HOLD: Duration = Duration::from_secs(1);

/// Makes calls.
pub(super) struct Caller {
    replicas: Replicas,
    scopes: Vec<Scope>,
    balance: Balance,
    via: Via,
    /// Asks in a message, where they share one.
    batch: usize,
    reports: bool,
    /// What names of calls begin with: one run's are not another's.
    run: u64,
    next: AtomicU64,
}

struct Scope {
    target: Target,
    /// The replica of the scope.
    home: usize,
}

/// What became of an ask.
pub(super) enum Ended {
    /// Granted, after so many tickets.
    Granted {
        lease_id: String,
        tickets: u64,
        replica: usize,
    },
    Denied {
        why: String,
    },
    Failed {
        why: String,
    },
}

impl Caller {
    pub(super) fn new(args: &BenchArgs, replicas: Replicas) -> Self {
        let named = |number: u32| if args.scopes == 1 { args.account.clone() } else { format!("{}-{number}", args.account) };
        let scope = |number| {
            let target = Target { provider: args.provider.clone(), account: named(number), model: args.model.clone() };
            let home = replicas.home_of(&target.provider, &target.account);
            Scope { target, home }
        };
        Self {
            scopes: (0..args.scopes).map(scope).collect(),
            replicas,
            balance: args.balance,
            via: args.via,
            batch: usize::try_from(args.batch).unwrap_or(1),
            reports: args.is_reported(),
            run: rand::random(),
            next: AtomicU64::new(0),
        }
    }

    pub(super) fn addrs(&self) -> Vec<SocketAddr> {
        self.replicas.addrs()
    }

    /// Asks once, so that what is wrong with all calls is told before thousands are sent.
    pub(super) async fn look_whether_it_works(&self) -> Result<(), BenchError> {
        let Some((request, replica)) = self.request() else { return Ok(()) };
        match timeout(PATIENCE, self.ask(request, replica)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(status)) if status.code() == Code::Unavailable || status.source().is_some() => {
                let addr = self.addrs().get(replica).map(ToString::to_string).unwrap_or_default();
                Err(BenchError::Away { addr, why: told(&status) })
            }
            Ok(Err(status)) => Err(BenchError::Refused(told(&status))),
            Err(_) => {
                let addr = self.addrs().get(replica).map(ToString::to_string).unwrap_or_default();
                Err(BenchError::Away { addr, why: format!("no answer in {PATIENCE:?}") })
            }
        }
    }

    /// How many asks go in one message.
    pub(super) fn per_message(&self) -> usize {
        if self.via == Via::Batch { self.batch } else { 1 }
    }

    /// Asks for so many slots in one message, each until its answer is firm.
    pub(super) async fn acquire(&self, count: usize) -> Vec<Ended> {
        let Some((request, replica)) = self.request() else { return Vec::new() };
        match self.via {
            Via::Acquire => vec![self.until_firm(request, replica, 0).await],
            Via::Session => vec![match self.replicas.stream(replica) {
                Some(stream) => self.ended(stream.acquire(request).await, replica, 0),
                None => Ended::Failed { why: "there is no stream".to_owned() },
            }],
            Via::Batch => self.acquire_batch(request, replica, count).await,
        }
    }

    async fn acquire_batch(&self, request: AcquireRequest, replica: usize, count: usize) -> Vec<Ended> {
        let named = |nth: usize| AcquireRequest { request_id: format!("{}-{nth}", request.request_id), ..request.clone() };
        let items: Vec<AcquireRequest> = (0..count).map(named).collect();
        let batch = AcquireBatchRequest { items: items.clone(), hold: prost_types::Duration::try_from(HOLD).ok() };
        let Some(mut client) = self.replicas.client(replica) else { return Vec::new() };
        let answers = match client.acquire_batch(batch).await {
            Ok(answers) => answers.into_inner().items,
            Err(status) => return (0..count).map(|_| Ended::Failed { why: told(&status) }).collect(),
        };
        let mut ended = Vec::with_capacity(count);
        for (item, mut request) in answers.into_iter().zip(items) {
            let answer = match item.result {
                Some(Item::Answer(answer)) => Ok(answer),
                Some(Item::Error(error)) => Err(Status::new(Code::from_i32(error.code), error.message)),
                None => Err(Status::internal("an item without an answer")),
            };
            ended.push(match answer {
                Ok(AcquireResponse { outcome: Some(Decision::Queued(queued)), .. }) => {
                    request.ticket = queued.ticket;
                    self.until_firm(request, replica, 1).await
                }
                answer => self.ended(answer, replica, 0),
            });
        }
        ended
    }

    /// Asks in RPCs of its own, with its ticket while it waits.
    async fn until_firm(&self, mut request: AcquireRequest, replica: usize, mut tickets: u64) -> Ended {
        loop {
            match self.ask(request.clone(), replica).await {
                Ok(AcquireResponse { outcome: Some(Decision::Queued(queued)), .. }) => {
                    tickets += 1;
                    request.ticket = queued.ticket;
                    let wait = queued.come_back_in.and_then(|wait| Duration::try_from(wait).ok()).unwrap_or_default();
                    sleep(wait).await;
                }
                answer => return self.ended(answer, replica, tickets),
            }
        }
    }

    fn ended(&self, answer: Result<AcquireResponse, Status>, replica: usize, tickets: u64) -> Ended {
        let failed = |why: &str| Ended::Failed { why: why.to_owned() };
        match answer.map(|answer| answer.outcome) {
            Ok(Some(Decision::Grant(grant))) => Ended::Granted { lease_id: grant.lease_id, tickets, replica },
            Ok(Some(Decision::Denial(denial))) => Ended::Denied { why: why(&denial) },
            Ok(Some(Decision::Queued(_))) => failed("the session let go of a call that waited"),
            Ok(None) => failed("an answer without an outcome"),
            Err(status) => failed(&told(&status)),
        }
    }

    /// Reports granted calls as done, if calls are reported at all. Returns what went wrong, once for each.
    pub(super) async fn report(&self, leases: Vec<(String, usize)>) -> Vec<String> {
        let Some(replica) = leases.first().map(|(_, replica)| *replica).filter(|_| self.reports) else { return Vec::new() };
        let report = |(lease_id, _): (String, usize)| ReportRequest {
            lease_id,
            seq: 1,
            outcome: Outcome::Response.into(),
            status: 200,
            r#final: true,
            ..ReportRequest::default()
        };
        let mut items: Vec<ReportRequest> = leases.into_iter().map(report).collect();
        let count = items.len();
        let Some(mut client) = self.replicas.client(replica) else { return Vec::new() };
        let reported = match (self.via, self.replicas.stream(replica)) {
            (Via::Batch, _) => client.report_batch(ReportBatchRequest { items, hold: None }).await.map(drop),
            (_, Some(stream)) => stream.report(items.swap_remove(0)).await,
            (..) => client.report(items.swap_remove(0)).await.map(drop),
        };
        reported.err().map(|status| vec![told(&status); count]).unwrap_or_default()
    }

    async fn ask(&self, request: AcquireRequest, replica: usize) -> Result<AcquireResponse, Status> {
        let client = self.replicas.client(replica);
        let mut client = client.ok_or_else(|| Status::internal("there is no replica"))?;
        client.acquire(request).await.map(tonic::Response::into_inner)
    }

    /// The next call, and the replica it goes to: scopes take turns.
    fn request(&self) -> Option<(AcquireRequest, usize)> {
        let nth = self.next.fetch_add(1, Ordering::Relaxed);
        let scope = usize::try_from(nth).unwrap_or(0) % self.scopes.len().max(1);
        let scope = self.scopes.get(scope)?;
        let replica = match self.balance {
            Balance::Hash => scope.home,
            Balance::RoundRobin => self.replicas.next(),
        };
        let run_time = prost_types::Duration::try_from(RUN_TIME).ok();
        let request = AcquireRequest {
            request_id: format!("{:016x}-{nth}", self.run),
            attempt: 1,
            target: Some(scope.target.clone()),
            run_time: run_time.filter(|_| !self.reports),
            ..AcquireRequest::default()
        };
        Some((request, replica))
    }
}

pub(super) fn told(status: &Status) -> String {
    match status.source() {
        Some(source) => root_cause(source),
        None => format!("{:?}: {}", status.code(), status.message()),
    }
}

fn why(denial: &Denial) -> String {
    format!("{}: {}", denial.reason().as_str_name(), denial.detail)
}
