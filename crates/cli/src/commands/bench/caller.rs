//! One call after the other, as a worker asks: with a new name, again with its ticket while it waits, and a report at the end.

use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use paceline_proto::v1::acquire_response::Outcome as Decision;
use paceline_proto::v1::{AcquireRequest, AcquireResponse, Denial, Outcome, ReportRequest, Target};
use tokio::time::{sleep, timeout};
use tonic::{Code, Status};

use super::replicas::Replicas;
use super::{Balance, BenchArgs, BenchError, PATIENCE};
use crate::commands::status::root_cause;

/// How long a lease lives that nobody reports: short, so that a long run does not pile them up.
const RUN_TIME: Duration = Duration::from_secs(2);

/// Makes calls.
pub(super) struct Caller {
    replicas: Replicas,
    scopes: Vec<Scope>,
    balance: Balance,
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
            reports: args.report,
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

    /// Asks for a slot until the answer is firm.
    pub(super) async fn acquire(&self) -> Ended {
        let Some((mut request, replica)) = self.request() else { return Ended::Failed { why: "no scope".to_owned() } };
        let mut tickets = 0;
        loop {
            let answer = match self.ask(request.clone(), replica).await {
                Ok(answer) => answer,
                Err(status) => return Ended::Failed { why: told(&status) },
            };
            match answer.outcome {
                Some(Decision::Grant(grant)) => return Ended::Granted { lease_id: grant.lease_id, tickets, replica },
                Some(Decision::Queued(queued)) => {
                    tickets += 1;
                    request.ticket = queued.ticket;
                    let wait = queued.come_back_in.and_then(|wait| Duration::try_from(wait).ok()).unwrap_or_default();
                    sleep(wait).await;
                }
                Some(Decision::Denial(denial)) => return Ended::Denied { why: why(&denial) },
                None => return Ended::Failed { why: "an answer without an outcome".to_owned() },
            }
        }
    }

    /// Reports a granted call as done, if calls are reported at all. Returns what went wrong.
    pub(super) async fn report(&self, lease_id: String, replica: usize) -> Option<String> {
        if !self.reports {
            return None;
        }
        let report = ReportRequest {
            lease_id,
            seq: 1,
            outcome: Outcome::Response.into(),
            status: 200,
            r#final: true,
            ..ReportRequest::default()
        };
        let reported = self.replicas.client(replica)?.report(report).await;
        reported.err().map(|status| told(&status))
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

fn told(status: &Status) -> String {
    match status.source() {
        Some(source) => root_cause(source),
        None => format!("{:?}: {}", status.code(), status.message()),
    }
}

fn why(denial: &Denial) -> String {
    format!("{}: {}", denial.reason().as_str_name(), denial.detail)
}
