//! A worker that only watches: the ask goes beside the call, which knows nothing of it. Whatever becomes of the ask, the call has
//! gone; a service that is not there costs a task that ends by itself.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use paceline_proto::v1::acquire_response::Outcome;
use paceline_proto::v1::release_request::What;
use paceline_proto::v1::{AcquireResponse, Grant, ReleaseRequest};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::ask::Asked;
use crate::error::Error;
use crate::limiter::Shared;
use crate::peers::Bounds;
use crate::rendezvous::Route;
use crate::report::Report;
use crate::slot::{Given, Slot};
use crate::stats::Path;
use crate::timing::{self, Moment, Window};
use crate::waiting;

/// The call's side: what it says is passed on once the service has answered. Dropped without a last word it says that the call was
/// abandoned, or not sent.
#[derive(Debug)]
pub(crate) struct Beside {
    said: mpsc::UnboundedSender<Said>,
    lease_id: Arc<OnceLock<String>>,
}

/// What a call says.
#[derive(Debug)]
enum Said {
    Sent,
    Report(Box<Report>),
}

impl Beside {
    /// Asks, in a task of its own.
    pub(crate) fn begin(shared: &Arc<Shared>, asked: Asked) -> Self {
        let (said, heard) = mpsc::unbounded_channel();
        let lease_id = Arc::new(OnceLock::new());
        // Who is known to be away is not asked; it is looked at now and then in any case.
        if !shared.peers.is_silent() {
            let call = Call { heard, said: VecDeque::new(), is_over: false };
            shared.runtime.spawn(follow(shared.clone(), asked, call, lease_id.clone()));
        }
        Self { said, lease_id }
    }

    pub(crate) fn sent(&self) {
        self.say(Said::Sent);
    }

    pub(crate) fn report(&self, report: Report) {
        self.say(Said::Report(Box::new(report)));
    }

    /// The lease, as soon as the service gave one.
    pub(crate) fn lease(&self) -> Arc<OnceLock<String>> {
        self.lease_id.clone()
    }

    fn say(&self, said: Said) {
        // Nobody listens when nobody was asked, or the service had no lease for the call.
        let _ = self.said.send(said);
    }
}

/// The service's side of a call.
struct Call {
    heard: mpsc::UnboundedReceiver<Said>,
    /// Heard and not yet passed on.
    said: VecDeque<Said>,
    is_over: bool,
}

impl Call {
    async fn next(&mut self) -> Option<Said> {
        match self.said.pop_front() {
            Some(said) => Some(said),
            None if self.is_over => None,
            None => self.heard.recv().await,
        }
    }

    /// Until nothing more will be said.
    async fn over(&mut self) {
        while !self.is_over {
            match self.heard.recv().await {
                Some(said) => self.said.push_back(said),
                None => self.is_over = true,
            }
        }
    }
}

/// Asks for a call that is under way, and passes on what it says.
async fn follow(shared: Arc<Shared>, asked: Asked, mut call: Call, lease_id: Arc<OnceLock<String>>) {
    let mut slot = match lease(&shared, asked, &mut call).await {
        Ok(Some(slot)) => slot,
        Ok(None) => return,
        Err(error) => return tracing::debug!(%error, "a call that is only watched was not asked for"),
    };
    // It is set once.
    let _ = lease_id.set(slot.lease_id().to_owned());
    while let Some(said) = call.next().await {
        match said {
            Said::Sent => slot.sent(),
            Said::Report(report) => {
                if let Err(error) = slot.report(*report).await {
                    tracing::debug!(%error, "what became of a call that is only watched was not reported");
                }
            }
        }
    }
}

/// The lease of a call that does not wait for it. `None`: it was denied, or over before its turn.
async fn lease(shared: &Arc<Shared>, mut asked: Asked, call: &mut Call) -> Result<Option<Slot>, Error> {
    let started = Instant::now();
    loop {
        let route = shared.peers.blind.route(asked.route(), asked.request_id());
        let asking = ask(shared, &asked, route);
        let (mut answer, received) = if asked.has_place() {
            tokio::select! {
                answer = asking => answer?,
                () = call.over() => return give_up(shared, &asked, route).await,
            }
        } else {
            asking.await?
        };
        shared.peers.blind.heard(asked.route(), answer.degraded);
        match answer.outcome.take() {
            Some(Outcome::Grant(grant)) => {
                // What it was to wait for has happened already.
                let grant = Grant { wait: None, ..grant };
                let (window, waited) = (Window::new(&grant, received), started.elapsed());
                let given = Given { asked, grant, answer, route, window, waited, path: Path::Served };
                return Ok(Some(Slot::new(shared.clone(), given)));
            }
            Some(Outcome::Queued(queued)) => {
                asked.keep_place(queued.ticket);
                let wait = queued.come_back_in.as_ref().map(timing::length).unwrap_or_default();
                tokio::select! {
                    () = sleep_until(timing::after(received.steady, wait)) => {}
                    () = call.over() => return give_up(shared, &asked, route).await,
                }
            }
            Some(Outcome::Denial(_)) => return Ok(None),
            None => return Err(Error::Malformed { missing: "outcome" }),
        }
    }
}

async fn ask(shared: &Shared, asked: &Asked, route: Route) -> Result<(AcquireResponse, Moment), Error> {
    let bounds = Bounds { held: waiting::held(shared, asked), deadline: asked.deadline, ..Bounds::AT_ONCE };
    let answer = shared.peers.send(route, bounds, || asked.request_at(Instant::now())).await?;
    Ok((answer, Moment::now()))
}

/// Leaves the line: the call is over.
async fn give_up(shared: &Shared, asked: &Asked, route: Route) -> Result<Option<Slot>, Error> {
    let request = ReleaseRequest { what: Some(What::Ticket(asked.place().to_vec())) };
    shared.peers.send(route, Bounds::IN_BACKGROUND, || request.clone()).await?;
    Ok(None)
}
