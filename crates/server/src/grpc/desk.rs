//! One call after the other, whichever RPC it came by: read, decided here or by the replica that leads, written.

use std::sync::Arc;
use std::time::Duration;

use paceline_coordinator::api::{self, CallError, FIRST_HOLD};
use paceline_coordinator::{Coordinator, Lead};
use paceline_core::units::Span;
use paceline_proto::v1;
use paceline_proto::v1::acquire_response::Outcome;
use paceline_store::Store;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::Status;
use tonic::metadata::MetadataMap;

use super::spans::{Parent, Traces};
use super::unheard::{Left, Untold};
use super::{read, status, write};
use crate::listener::stopped;
use crate::peers::{Link, NotThere, Peers, Sent, Way};

/// How often a call is sent on because the lead moved; then it is decided here.
const MOST_MOVES: u32 = 4;
/// A call that is decided here while another replica leads looks after this long whether it can go there again, so that the order
/// is lost for a moment only.
const ALONE_FOR: Span = Span::from_millis(500);
/// A place that comes with less than this left of the hold is its end.
const EARLY: Span = Span::from_millis(20);
/// Longer holds end with their caller only.
const UNTIL_DECIDED: Span = Span::from_secs(24 * 3_600);

/// Whom a call is from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    /// As authenticated; empty: anonymous.
    pub(crate) identity: String,
    /// Whether another replica sent it on: it is decided here, whoever leads.
    pub(crate) is_sent_on: bool,
    /// Which one.
    pub(crate) sent_on_by: Option<u32>,
    /// The span that its call continues.
    pub(crate) parent: Option<Parent>,
    /// Of a release: nobody heard of the slot or place.
    pub(crate) is_unheard: bool,
}

impl Caller {
    /// Said for this caller to another replica.
    fn forwarded(&self) -> v1::Forwarded {
        v1::Forwarded { identity: self.identity.clone(), unheard: self.is_unheard }
    }
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
    peers: Arc<Peers<S>>,
    draining: watch::Receiver<bool>,
    traces: Traces,
}

impl<S> Clone for Desk<S> {
    fn clone(&self) -> Self {
        Self {
            coordinator: self.coordinator.clone(),
            peers: self.peers.clone(),
            draining: self.draining.clone(),
            traces: self.traces.clone(),
        }
    }
}

/// An ask on its way: what is left of it, and where it may be decided.
struct Asked {
    ask: api::AcquireRequest,
    hold_until: Instant,
    moves: u32,
    /// Whether it is decided here, whoever leads.
    alone: bool,
    /// What may still be under way at the leader.
    elsewhere: Option<NotThere>,
}

impl<S: Store> Desk<S> {
    /// `draining` becomes true before those who wait are let go.
    pub(crate) fn new(
        coordinator: Coordinator<S>,
        peers: Arc<Peers<S>>,
        draining: watch::Receiver<bool>,
        traces: Traces,
    ) -> Self {
        Self { coordinator, peers, draining, traces }
    }

    /// What makes spans of calls.
    pub(crate) fn traces(&self) -> &Traces {
        &self.traces
    }

    /// Becomes true when everybody is to go elsewhere.
    pub(crate) fn draining(&self) -> watch::Receiver<bool> {
        self.draining.clone()
    }

    /// The number of the replica that opens a Session; `None`: it is no replica.
    ///
    /// # Errors
    /// It says that it is one, and cannot prove it.
    pub(crate) async fn peer(&self, metadata: &MetadataMap) -> Result<Option<u32>, Status> {
        self.peers.peer(metadata).await
    }

    /// An ask. Dropping the future leaves the line, here and elsewhere.
    pub(crate) async fn acquire(
        &self,
        caller: &Caller,
        message: v1::AcquireRequest,
        held: Held,
    ) -> Result<v1::AcquireResponse, Status> {
        let mut ask = read::acquire(message)?;
        ask.identity.clone_from(&caller.identity);
        ask.sent_on_by = caller.sent_on_by;
        ask.hold = match held {
            Held::AsAsked(most) => ask.hold.min(most),
            Held::For(hold) => hold,
        };
        let hold_until = Instant::now() + ask.hold.min(UNTIL_DECIDED).to_duration();
        let mut asked = Asked { ask, hold_until, moves: 0, alone: caller.is_sent_on, elsewhere: None };
        loop {
            // Large, and not a part of the future of a call that is decided here.
            if let Some(link) = self.way_of(&mut asked)
                && let Some(answer) = Box::pin(self.send_on(&mut asked, &link)).await?
            {
                return Ok(answer);
            }
            let mut ask = asked.ask.clone();
            ask.decide_here = asked.alone;
            let looks_again = asked.alone && !caller.is_sent_on && ask.hold > ALONE_FOR;
            if looks_again {
                ask.hold = ALONE_FOR;
            }
            match self.coordinator.acquire(ask).await {
                // The replica that sent it leads by now: it gets its call back.
                Err(CallError::Moved { ticket }) if caller.is_sent_on => {
                    let ticket = ticket.or(asked.ask.ticket.take());
                    return Ok(write::give_back(ticket.unwrap_or_default()));
                }
                // The lead has moved while it waited, or as it came.
                Err(CallError::Moved { ticket }) => asked.moved(ticket),
                Ok(api::Answer::Queued(queued)) if looks_again && !*self.draining.borrow() => asked.look_again(queued.ticket),
                answer => {
                    let answer = answer.map_err(status::of_call)?;
                    asked.elsewhere.take().into_iter().for_each(NotThere::leave_slots);
                    let is_degraded = self.coordinator.is_degraded(answer.target().unwrap_or(&asked.ask.target));
                    return Ok(write::acquire_response(&answer, is_degraded));
                }
            }
        }
    }

    /// The way to the replica that leads, if another one does. `None`: it is to be decided here.
    fn way_of(&self, asked: &mut Asked) -> Option<Arc<Link>> {
        if asked.alone || *self.draining.borrow() {
            return None;
        }
        match self.way(|| self.lead_of(&asked.ask)) {
            Way::Here => {
                // It was sent away from here, and nobody is known to send it to.
                asked.alone = asked.moves > 0;
                None
            }
            Way::Alone => {
                asked.alone = true;
                self.peers.order_lost(&asked.ask.target);
                None
            }
            Way::To(link) => Some(link),
        }
    }

    /// The answer of the replica that leads. `None`: it does not answer, and it is to be decided here.
    async fn send_on(&self, asked: &mut Asked, link: &Link) -> Result<Option<v1::AcquireResponse>, Status> {
        let lead = self.lead_of(&asked.ask);
        if asked.ask.ticket.is_none() {
            // Its place counts from now, wherever it is decided; like any first ask it is not held for long.
            asked.ask.ticket = Some(self.coordinator.place_for(&asked.ask).map_err(status::of_call)?);
            asked.shorten(FIRST_HOLD);
        }
        let until_decided = asked.ask.hold >= UNTIL_DECIDED;
        asked.count_down(until_decided);
        let hold = (!until_decided).then(|| asked.ask.hold.to_duration());
        let message = write::acquire_request(asked.ask.clone());
        let sent = tokio::select! {
            sent = link.acquire(&asked.ask.identity, message, hold) => sent,
            // Those who wait elsewhere for callers of ours are let go with a ticket too.
            () = stopped(self.draining.clone()) => {
                asked.ask.hold = Span::ZERO;
                asked.alone = true;
                return Ok(None);
            }
        };
        match sent {
            Sent::Answered(answer) => {
                let answer = answer?;
                let untold = Untold::of(self, &answer);
                let comes_back = self.comes_back(asked, &answer, &lead).await;
                untold.iter().for_each(Untold::told);
                Ok(if comes_back { None } else { Some(answer) })
            }
            Sent::Not(not_there) => {
                asked.count_down(until_decided);
                (asked.alone, asked.elsewhere) = (true, Some(not_there));
                self.peers.order_lost(&asked.ask.target);
                Ok(None)
            }
        }
    }

    /// Whether a call that was sent on has come back with its place, because the lead has moved: before the end of its hold, and the
    /// store names another leader.
    async fn comes_back(&self, asked: &mut Asked, answer: &v1::AcquireResponse, lead: &Lead) -> bool {
        let ticket = match &answer.outcome {
            Some(Outcome::Queued(queued)) if !queued.ticket.is_empty() => queued.ticket.clone(),
            _ => return false,
        };
        asked.count_down(asked.ask.hold >= UNTIL_DECIDED);
        if asked.ask.hold <= EARLY || asked.moves >= MOST_MOVES || *self.draining.borrow() {
            return false;
        }
        if self.lead_of(&asked.ask) == *lead && self.coordinator.look_who_leads(&asked.ask.target).await == *lead {
            return false;
        }
        asked.ask.ticket = Some(ticket);
        asked.moves += 1;
        true
    }

    /// The way to whoever leads; a replica that has never seen another one does not look.
    fn way(&self, lead: impl FnOnce() -> Lead) -> Way {
        if self.coordinator.has_others() { self.peers.way(lead()) } else { Way::Here }
    }

    fn lead_of(&self, ask: &api::AcquireRequest) -> Lead {
        // A place is in one line, and so is where it is decided.
        let by_place = ask.ticket.as_ref().filter(|_| !ask.fallbacks.is_empty());
        match by_place.map(|ticket| self.coordinator.leads_of_ticket(ticket)) {
            None | Some(Lead::Unknown) => self.coordinator.leads(&ask.target),
            Some(lead) => lead,
        }
    }

    /// A report; `hold`: how long its answer may be held back for a slot it asks for, `None`: as long as a first ask.
    pub(crate) async fn report(
        &self,
        caller: &Caller,
        message: v1::ReportRequest,
        hold: Option<Span>,
    ) -> Result<v1::ReportResponse, Status> {
        let way = match caller.is_sent_on || *self.draining.borrow() {
            true => Way::Here,
            false => self.way(|| self.coordinator.leads_of_lease(&message.lease_id)),
        };
        let (link, alone) = match way {
            Way::Here => (None, caller.is_sent_on),
            Way::Alone => (None, true),
            Way::To(link) => (Some(link), true),
        };
        match link {
            None => self.report_here(caller, message, hold, alone).await,
            Some(link) => Box::pin(self.send_report_on(caller, message, hold, &link)).await,
        }
    }

    /// The answer of the replica that leads to a report, or, when it does not answer, ours.
    async fn send_report_on(
        &self,
        caller: &Caller,
        message: v1::ReportRequest,
        hold: Option<Span>,
        link: &Link,
    ) -> Result<v1::ReportResponse, Status> {
        read::report(message.clone())?;
        match link.report(&caller.identity, message.clone()).await {
            Sent::Answered(answer) => self.go_on(caller, message, answer?, hold).await,
            // It may have been taken there: then it is a repeated one here, and its answer is that of the first.
            Sent::Not(not_there) => {
                let mut answer = self.report_here(caller, message, hold, true).await?;
                not_there.leave_slots();
                if answer.not_applied() == v1::NotApplied::Repeated {
                    (answer.applied, answer.not_applied) = (true, v1::NotApplied::Unspecified.into());
                }
                Ok(answer)
            }
        }
    }

    async fn report_here(
        &self,
        caller: &Caller,
        message: v1::ReportRequest,
        hold: Option<Span>,
        alone: bool,
    ) -> Result<v1::ReportResponse, Status> {
        let mut report = read::report(message)?;
        report.identity.clone_from(&caller.identity);
        if let Some(retry) = &mut report.retry {
            retry.hold = hold;
        }
        report.decide_here = alone;
        let has_signal = read::has_answer(&report);
        let reported = report.lease_id.clone();
        let answer = match self.coordinator.report(report.clone()).await {
            // What is settled is settled anywhere; only the order of a next attempt may suffer.
            Err(CallError::Moved { .. }) => {
                report.decide_here = true;
                self.coordinator.report(report).await
            }
            answer => answer,
        }
        .map_err(status::of_call)?;
        let is_degraded = answer.next.as_ref().is_some_and(|next| match next.target() {
            Some(target) => self.coordinator.is_degraded(target),
            None => self.coordinator.is_degraded_of_lease(&reported),
        });
        Ok(write::report_response(&answer, has_signal, is_degraded))
    }

    /// The slot that a report asked for, waited for where it has to be.
    async fn go_on(
        &self,
        caller: &Caller,
        report: v1::ReportRequest,
        mut answer: v1::ReportResponse,
        hold: Option<Span>,
    ) -> Result<v1::ReportResponse, Status> {
        let hold = hold.unwrap_or(FIRST_HOLD);
        let ticket = match answer.next.as_ref().and_then(|next| next.outcome.as_ref()) {
            Some(Outcome::Queued(queued)) if hold > Span::ZERO => queued.ticket.clone(),
            _ => return Ok(answer),
        };
        if let Some(next) = self.next_ask(caller, report, &ticket)
            && let Ok(decided) = self.acquire(caller, next, Held::For(hold)).await
        {
            answer.next = Some(decided);
        }
        Ok(answer)
    }

    /// A release.
    pub(crate) async fn release(&self, caller: &Caller, message: v1::ReleaseRequest) -> Result<v1::ReleaseResponse, Status> {
        let what = read::release(message.clone())?;
        if !caller.is_sent_on && !*self.draining.borrow() {
            let way = self.way(|| match &what {
                read::Released::Lease(lease_id) => self.coordinator.leads_of_lease(lease_id),
                read::Released::Ticket(ticket) => self.coordinator.leads_of_ticket(ticket),
            });
            if let Way::To(link) = way
                && let Sent::Answered(answer) = link.release(caller.forwarded(), message).await
            {
                return answer;
            }
        }
        let released = match what {
            read::Released::Lease(lease_id) if caller.is_unheard => Ok(self.coordinator.give_up_unheard(&lease_id).await),
            read::Released::Ticket(ticket) if caller.is_unheard => Ok(self.coordinator.give_up_unheard_place(&ticket).await),
            read::Released::Lease(lease_id) => self.coordinator.release_lease(&lease_id).await,
            read::Released::Ticket(ticket) => self.coordinator.release_ticket(&ticket).await,
        };
        Ok(v1::ReleaseResponse { released: released.map_err(status::of_call)? })
    }

    /// Gives back what nobody heard of, beside everything else. Where that does not work out, a slot ends by itself and a place is
    /// forgotten.
    pub(crate) fn give_back(&self, left: Vec<Left>) {
        if left.is_empty() {
            return;
        }
        let desk = self.clone();
        let giving = async move {
            let caller = Caller { is_unheard: true, ..Caller::default() };
            for each in left {
                let _ = desk.release(&caller, each.into()).await;
            }
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(giving);
        }
    }

    /// The ask that a report's `retry` stands for, to go on waiting with a ticket.
    pub(crate) fn next_ask(&self, caller: &Caller, message: v1::ReportRequest, ticket: &[u8]) -> Option<v1::AcquireRequest> {
        let mut report = read::report(message).ok()?;
        report.identity.clone_from(&caller.identity);
        let next = self.coordinator.next_request(report).ok()??;
        Some(v1::AcquireRequest { ticket: ticket.to_vec(), ..write::acquire_request(next) })
    }
}

impl Asked {
    /// Another replica leads by now: it goes there, with its place.
    fn moved(&mut self, ticket: Option<Vec<u8>>) {
        self.moves += 1;
        self.alone = self.moves >= MOST_MOVES;
        self.ask.ticket = ticket.or(self.ask.ticket.take());
        self.count_down(self.ask.hold >= UNTIL_DECIDED);
    }

    /// It was alone for a while: who leads by now, and does that one answer?
    fn look_again(&mut self, ticket: Vec<u8>) {
        (self.ask.ticket, self.alone) = (Some(ticket), false);
        // It is asked for there again, with the same key.
        self.elsewhere.take().into_iter().for_each(NotThere::leave_slots);
        self.count_down(self.ask.hold >= UNTIL_DECIDED);
    }

    /// What is left of the hold.
    fn count_down(&mut self, until_decided: bool) {
        if !until_decided {
            self.ask.hold = Span::from(self.hold_until.saturating_duration_since(Instant::now()));
        }
    }

    fn shorten(&mut self, most: Span) {
        self.ask.hold = self.ask.hold.min(most);
        self.hold_until = self.hold_until.min(Instant::now() + most.to_duration());
    }
}

/// How soon another replica is told that its call has arrived, when there is no answer yet.
pub(crate) const ARRIVED_AFTER: Duration = Duration::from_millis(20);
