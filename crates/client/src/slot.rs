//! A slot: the right to send one call now, and the duty to report what came of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use paceline_proto::v1::release_request::What;
use paceline_proto::v1::{AcquireResponse, Delay, Grant, Mode, ReleaseRequest, ReportResponse, Shadow, Target};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::alone;
use crate::ask::Asked;
use crate::beside::Beside;
use crate::error::Error;
use crate::lease::{Lease, Telling, renew};
use crate::limiter::Shared;
use crate::peers::Bounds;
use crate::recent::Place;
use crate::rendezvous::Route;
use crate::report::{Report, Reported, Retry};
use crate::stats::Path;
use crate::timing::{self, Moment, Window};
use crate::waiting;

/// The right to send one call now.
///
/// Say [`sent`](Slot::sent) right before sending and [`report`](Slot::report) what came of it. While the guard lives its lease
/// is renewed in the background. Dropped without a final report it is given back when the call was not sent, and reported as
/// abandoned (it may have run, and stays charged) when it was, or when it is too late now to send it. Both happen on the
/// runtime after the drop, as well as they can: when the process ends first, the lease ends by itself.
#[derive(Debug)]
#[must_use = "a slot is capacity taken from others: send the call and report it, or release it"]
pub struct Slot {
    shared: Arc<Shared>,
    given: Box<Given>,
    stage: Stage,
    /// What is to be said when the guard is dropped, if it is known better than that the call was abandoned.
    farewell: Option<Box<Report>>,
    lease: Arc<Lease>,
    renewal: Option<AbortHandle>,
    /// Who tells the service of it, where the worker only watches.
    beside: Option<Beside>,
}

/// What a slot was asked for, and what was given.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) asked: Asked,
    pub(crate) grant: Grant,
    /// The answer without its outcome, which `grant` is.
    pub(crate) answer: AcquireResponse,
    /// Where it was asked for.
    pub(crate) route: Route,
    pub(crate) window: Window,
    pub(crate) waited: Duration,
    pub(crate) path: Path,
}

/// How far the call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Granted,
    Sent,
    Settled,
}

/// What follows a report that asked for another attempt.
#[derive(Debug)]
pub enum Next {
    /// Send again, now, under this slot.
    Again(Slot),
    /// The call is over.
    Over(Reported),
}

impl Slot {
    pub(crate) fn new(shared: Arc<Shared>, given: Given) -> Self {
        let grant = &given.grant;
        // A replica that has lost the store is the only one that knows what it granted.
        let its_scope = grant.target.as_ref().filter(|_| !given.answer.degraded).map(Route::of);
        let route = its_scope.unwrap_or(given.route);
        let lease = Arc::new(Lease::new(grant.lease_id.clone(), route));
        let ttl = grant.ttl.as_ref().map(timing::length).filter(|ttl| !ttl.is_zero());
        let renewal = ttl.map(|ttl| shared.runtime.spawn(renew(shared.clone(), lease.clone(), ttl)).abort_handle());
        Self { shared, given: Box::new(given), stage: Stage::Granted, farewell: None, lease, renewal, beside: None }
    }

    /// The same slot, with somebody who tells the service what becomes of it.
    pub(crate) fn told_by(mut self, beside: Beside) -> Self {
        self.beside = Some(beside);
        self
    }

    /// Where to send: one of the places that were asked for.
    pub fn target(&self) -> Target {
        self.given.grant.target.clone().unwrap_or_else(|| self.given.asked.target())
    }

    /// The name of the logical call.
    pub fn request_id(&self) -> &str {
        self.given.asked.request_id()
    }

    /// Which attempt of the call this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.given.asked.attempt()
    }

    /// The lease; opaque, and empty where the service did not give the slot.
    pub fn lease_id(&self) -> &str {
        &self.lease.id
    }

    /// Units charged in advance, by meter.
    pub fn reserved(&self) -> &BTreeMap<String, u64> {
        &self.given.grant.reserved
    }

    /// Where the waiting went, by the service's account.
    pub fn delays(&self) -> &[Delay] {
        &self.given.answer.delays
    }

    /// How long this attempt waited, by the worker's clock.
    pub fn waited(&self) -> Duration {
        self.given.waited
    }

    /// Who gave the slot: the service, or nobody, because it does not answer or the worker only watches or is off.
    pub fn path(&self) -> Path {
        self.given.path
    }

    /// The mode the service is in for this call; `Off` where it did not give the slot (see [`Slot::path`]).
    pub fn mode(&self) -> Mode {
        self.given.answer.mode()
    }

    /// In shadow mode: what would have been.
    pub fn shadow(&self) -> Option<&Shadow> {
        self.given.answer.shadow.as_ref()
    }

    /// Whether the service is cut off from its store and answers from a local share.
    pub fn is_degraded(&self) -> bool {
        self.given.answer.degraded
    }

    /// Whether the slot can no longer be used: it was kept too long before sending. Release it and acquire again.
    pub fn is_late(&self) -> bool {
        self.stage == Stage::Granted && self.given.window.is_over(Moment::now())
    }

    /// Marks the call as sent: from here on it may have run, whatever happens to the guard.
    pub fn sent(&mut self) {
        if self.stage == Stage::Granted {
            self.stage = Stage::Sent;
            if let Some(beside) = &self.beside {
                beside.sent();
            }
        }
    }

    /// Tells the service how the attempt went. A final report (they are, unless [`Report::more_follows`]) ends the slot's
    /// duty; what to do next is in [`Reported::verdict`].
    ///
    /// # Errors
    /// [`Error::Unreachable`] when no replica answers for as long as the client is patient; [`Error::Invalid`].
    pub async fn report(&mut self, report: Report) -> Result<Reported, Error> {
        let response = self.tell(report, None).await?;
        Ok(Reported::new(response).0)
    }

    /// Tells the service how the attempt went, and waits for the next slot if the call is to be sent again.
    ///
    /// # Errors
    /// As [`Slot::report`]; [`Error::Denied`] when the call should be sent again and cannot be.
    pub async fn report_and_retry(mut self, report: Report, retry: Retry) -> Result<Next, Error> {
        if matches!(self.mode(), Mode::Off | Mode::Shadow) {
            return self.report_and_wait(report, retry).await;
        }
        let response = match self.tell(report.clone(), Some(&retry)).await {
            Err(error @ Error::Unreachable { .. }) => return self.go_on_untold(&report, retry, error).await,
            told => told?,
        };
        let received = Moment::now();
        let (reported, answer) = Reported::new(response);
        if !reported.is_to_be_sent_again() {
            return Ok(Next::Over(reported));
        }
        let asked = self.given.asked.clone().next_attempt(self.lease.id.clone(), retry);
        let answer = answer.map(|answer| (answer, received));
        waiting::for_slot(&self.shared, asked, answer).await.map(Next::Again)
    }

    /// When the report did not arrive because nobody answers: what was refused is sent again as an SDK would, and all else is
    /// the caller's to judge. The report itself follows when the guard goes.
    async fn go_on_untold(self, report: &Report, retry: Retry, error: Error) -> Result<Next, Error> {
        if !self.shared.goes_on || self.shared.peers.away_since(Instant::now()).is_none() {
            return Err(error);
        }
        let (reported, _) = Reported::new(self.judge_alone(report));
        if !reported.is_to_be_sent_again() {
            return Err(error);
        }
        self.wait_alone(reported, retry).await
    }

    /// The same where nobody makes calls wait: the next slot is there at once, so the wait comes before it is asked for.
    async fn report_and_wait(mut self, report: Report, retry: Retry) -> Result<Next, Error> {
        let (reported, _) = Reported::new(self.tell(report, None).await?);
        if !reported.is_to_be_sent_again() {
            return Ok(Next::Over(reported));
        }
        self.wait_alone(reported, retry).await
    }

    /// Waits as an SDK does, and then for the next slot.
    async fn wait_alone(self, reported: Reported, retry: Retry) -> Result<Next, Error> {
        let Some(wait) = alone::wait(reported.signal.as_ref(), self.attempt(), rand::random()) else {
            return Ok(Next::Over(reported));
        };
        let until = timing::after(Instant::now(), wait);
        if self.given.asked.deadline.is_some_and(|deadline| until >= deadline.at) {
            return Ok(Next::Over(reported));
        }
        let (shared, asked, lease) = (self.shared.clone(), self.given.asked.clone(), self.lease.id.clone());
        let beside = self.beside.as_ref().map(Beside::lease);
        drop(self); // with what it has still to say
        waiting::sleep_past(until).await;
        let lease = beside.map_or(lease, |beside| beside.get().cloned().unwrap_or_default());
        waiting::for_slot(&shared, asked.next_attempt(lease, retry), None).await.map(Next::Again)
    }

    /// Gives the slot back: the call was not sent. Returns whether there was something to give back.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when no replica answers for as long as the client is patient.
    pub async fn release(mut self) -> Result<bool, Error> {
        if !self.is_served() {
            self.settle();
            return Ok(false);
        }
        let request = release(&self.lease.id);
        // Until the service has answered, the guard stays responsible: a dropped future gives the slot back as well.
        let response = self.shared.peers.send(self.lease.route, Bounds::AT_ONCE, || request.clone()).await?;
        self.settle();
        Ok(response.released)
    }

    /// The attempt this slot is for.
    pub(crate) fn asked(&self) -> &Asked {
        &self.given.asked
    }

    /// The runtime that the limiter lives on.
    #[cfg(feature = "http")]
    pub(crate) fn runtime(&self) -> &tokio::runtime::Handle {
        &self.shared.runtime
    }

    /// Forgets a slot that came too late, to ask for it again: that tells the service that it was not used.
    #[cfg(feature = "http")]
    pub(crate) fn forget(mut self) -> (Arc<Shared>, Asked) {
        self.settle();
        (self.shared.clone(), self.given.asked.clone())
    }

    /// Leaves a last report to be sent in the background.
    pub(crate) fn leave(mut self, last: Report) {
        self.sent();
        self.farewell = Some(Box::new(last));
    }

    async fn tell(&mut self, report: Report, retry: Option<&Retry>) -> Result<ReportResponse, Error> {
        self.sent();
        if !self.is_served() {
            if let Some(beside) = &self.beside {
                beside.report(report.clone());
            }
            if report.is_final() {
                self.settle();
            }
            return Ok(self.judge_alone(&report));
        }
        let lease = self.lease.clone();
        let telling = Telling::begin(&lease);
        // A report that asks for the next slot is held like a first ask, for a second.
        let held = if retry.is_some() { Duration::from_secs(1) } else { Duration::ZERO };
        let bounds = Bounds { held, deadline: self.given.asked.deadline, ..Bounds::AT_ONCE };
        let make = || report.request_at(Instant::now(), &lease.id, telling.seq, retry);
        if !report.is_final() {
            let response = self.shared.peers.send(lease.route, bounds, make).await?;
            self.shared.solo.told(&self.place(), response.signal.as_ref(), Instant::now());
            return Ok(response);
        }
        // Whether this is cancelled or nobody answers: it remains the truth about the call.
        self.farewell = Some(Box::new(report.clone()));
        let response = self.shared.peers.send(lease.route, bounds, make).await?;
        self.settle();
        self.shared.solo.told(&self.place(), response.signal.as_ref(), Instant::now());
        Ok(response)
    }

    /// What an SDK would make of an answer. The client remembers what the provider said in it.
    fn judge_alone(&self, report: &Report) -> ReportResponse {
        let request = report.request_at(Instant::now(), "", 0, None);
        if alone::is_refusal(&request) {
            self.shared.solo.refused(&self.place());
        }
        let response = alone::judge(&request, self.attempt(), SystemTime::now());
        self.shared.solo.told(&self.place(), response.signal.as_ref(), Instant::now());
        response
    }

    /// Whether the service gave it, and is to be told of it.
    fn is_served(&self) -> bool {
        self.given.path == Path::Served
    }

    fn place(&self) -> Place {
        Place::of(&self.target())
    }

    fn settle(&mut self) {
        self.stage = Stage::Settled;
        if let Some(renewal) = self.renewal.take() {
            renewal.abort();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let is_unsent = self.stage == Stage::Granted && !self.is_late();
        let farewell = self.farewell.take();
        if self.stage == Stage::Settled {
            return;
        }
        self.settle();
        if !self.is_served() {
            if let (Some(beside), Some(report)) = (&self.beside, farewell) {
                beside.report(*report);
            }
            return; // what the worker did not say, `beside` says when it goes
        }
        let (shared, lease) = (self.shared.clone(), self.lease.clone());
        self.shared.runtime.spawn(async move {
            let said = if is_unsent {
                let request = release(&lease.id);
                shared.peers.send(lease.route, Bounds::IN_BACKGROUND, || request.clone()).await.map(drop)
            } else {
                let report = farewell.map_or_else(Report::abandoned, |report| *report);
                let telling = Telling::begin(&lease);
                let make = || report.request_at(Instant::now(), &lease.id, telling.seq, None);
                shared.peers.send(lease.route, Bounds::IN_BACKGROUND, make).await.map(drop)
            };
            if let Err(error) = said {
                tracing::debug!(%error, "the end of a slot was not reported; its lease ends by itself");
            }
        });
    }
}

fn release(lease_id: &str) -> ReleaseRequest {
    ReleaseRequest { what: Some(What::LeaseId(lease_id.to_owned())) }
}
