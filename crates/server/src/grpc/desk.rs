//! One call after the other, whichever RPC it came by: read, decided, written.

use paceline_coordinator::Coordinator;
use paceline_core::units::Span;
use paceline_proto::v1;
use paceline_store::Store;
use tokio::sync::watch;
use tonic::Status;

use super::{read, status, write};

/// Whom a call is from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    /// As authenticated; empty: anonymous.
    pub(crate) identity: String,
}

/// How long an answer may be held back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Held {
    /// As the ask says, and no longer than this.
    AsAsked(Span),
    /// This long, whatever the ask says.
    For(Span),
}

/// Where calls are taken; cheap to clone.
pub(crate) struct Desk<S> {
    coordinator: Coordinator<S>,
    draining: watch::Receiver<bool>,
}

impl<S> Clone for Desk<S> {
    fn clone(&self) -> Self {
        Self { coordinator: self.coordinator.clone(), draining: self.draining.clone() }
    }
}

impl<S: Store> Desk<S> {
    /// `draining` becomes true before those who wait are let go.
    pub(crate) fn new(coordinator: Coordinator<S>, draining: watch::Receiver<bool>) -> Self {
        Self { coordinator, draining }
    }

    /// Becomes true when everybody is to go elsewhere.
    pub(crate) fn draining(&self) -> watch::Receiver<bool> {
        self.draining.clone()
    }

    /// An ask. Dropping the future leaves the line.
    pub(crate) async fn acquire(
        &self,
        caller: &Caller,
        message: v1::AcquireRequest,
        held: Held,
    ) -> Result<v1::AcquireResponse, Status> {
        let mut ask = read::acquire(message)?;
        ask.identity.clone_from(&caller.identity);
        ask.hold = match held {
            Held::AsAsked(most) => ask.hold.min(most),
            Held::For(hold) => hold,
        };
        let asked = ask.target.clone();
        let answer = self.coordinator.acquire(ask).await.map_err(status::of_call)?;
        let is_degraded = self.coordinator.is_degraded(answer.target().unwrap_or(&asked));
        Ok(write::acquire_response(&answer, is_degraded))
    }

    /// A report; `hold`: how long its answer may be held back for a slot it asks for, `None`: as long as a first ask.
    pub(crate) async fn report(
        &self,
        caller: &Caller,
        message: v1::ReportRequest,
        hold: Option<Span>,
    ) -> Result<v1::ReportResponse, Status> {
        let mut report = read::report(message)?;
        report.identity.clone_from(&caller.identity);
        if let Some(retry) = &mut report.retry {
            retry.hold = hold;
        }
        let has_signal = read::has_answer(&report);
        let reported = report.lease_id.clone();
        let answer = self.coordinator.report(report).await.map_err(status::of_call)?;
        let is_degraded = answer.next.as_ref().is_some_and(|next| match next.target() {
            Some(target) => self.coordinator.is_degraded(target),
            None => self.coordinator.is_degraded_of_lease(&reported),
        });
        Ok(write::report_response(&answer, has_signal, is_degraded))
    }

    /// A release.
    pub(crate) async fn release(&self, _caller: &Caller, message: v1::ReleaseRequest) -> Result<v1::ReleaseResponse, Status> {
        let released = match read::release(message)? {
            read::Released::Lease(lease_id) => self.coordinator.release_lease(&lease_id).await,
            read::Released::Ticket(ticket) => self.coordinator.release_ticket(&ticket).await,
        };
        Ok(v1::ReleaseResponse { released: released.map_err(status::of_call)? })
    }

    /// The ask that a report's `retry` stands for, to go on waiting with a ticket.
    pub(crate) fn next_ask(&self, caller: &Caller, message: v1::ReportRequest, ticket: &[u8]) -> Option<v1::AcquireRequest> {
        let mut report = read::report(message).ok()?;
        report.identity.clone_from(&caller.identity);
        let next = self.coordinator.next_request(report).ok()??;
        Some(v1::AcquireRequest { ticket: ticket.to_vec(), ..write::acquire_request(next) })
    }
}
