//! From an ask to the moment its call may be sent.

use std::sync::Arc;
use std::time::Duration;

use paceline_proto::v1::acquire_response::Outcome;
use paceline_proto::v1::release_request::What;
use paceline_proto::v1::{AcquireResponse, Mode, ReleaseRequest};
use tokio::time::{Instant, sleep_until};

use crate::alone;
use crate::ask::Asked;
use crate::beside::Beside;
use crate::error::{Denied, Error};
use crate::limiter::Shared;
use crate::peers::Bounds;
use crate::rendezvous::Route;
use crate::slot::{Given, Slot};
use crate::solo::Waited;
use crate::stats::Path;
use crate::timing::{self, Moment, Window};

/// How long the service holds an ask when it is not told otherwise.
const HOLD: Duration = Duration::from_secs(10);
/// How long it holds an ask without a place, at most.
const HELD_WITHOUT_PLACE: Duration = Duration::from_secs(1);
/// How long an ask that the service would not hold back waits for it.
const PATIENCE_WHEN_WATCHED: Duration = Duration::from_secs(1);

/// Asks, keeps its place, and sleeps until the call may be sent. `answer` is the answer to the first ask, when it came with a
/// report. An answer that is slept past its use is asked for again, with the same request_id and attempt. When nobody answers,
/// the call goes on without the service, and back to it when it is there again.
pub(crate) async fn for_slot(
    shared: &Arc<Shared>,
    mut asked: Asked,
    mut answer: Option<(AcquireResponse, Moment)>,
) -> Result<Slot, Error> {
    let started = Instant::now();
    match shared.mode {
        Mode::Off => return Ok(unserved(shared, asked, Path::Bypass, started)),
        Mode::Shadow => {
            let beside = Beside::begin(shared, asked.clone());
            return Ok(unserved(shared, asked, Path::Bypass, started).told_by(beside));
        }
        Mode::Enforce | Mode::Unspecified => {}
    }
    let mut kept = Kept { shared: shared.clone(), route: asked.route(), what: None };
    loop {
        let (mut response, received) = match answer.take() {
            Some(given) => given,
            None => match ask(shared, &asked).await {
                Ok((response, received, route)) => {
                    kept.route = route;
                    (response, received)
                }
                Err(error) => match without_service(shared, &asked, started, error).await? {
                    Some(path) => return Ok(unserved(shared, asked, path, started)),
                    None => continue,
                },
            },
        };
        shared.peers.blind.heard(asked.route(), response.degraded);
        shared.solo.heard(&asked, &response, received.steady);
        match response.outcome.take() {
            Some(Outcome::Grant(grant)) => {
                kept.what = Some(What::LeaseId(grant.lease_id.clone()));
                let window = Window::new(&grant, received);
                sleep_past(window.opens).await;
                if window.is_over(Moment::now()) {
                    // The process was frozen or starved. What was granted for then is not for now.
                    tracing::debug!(request_id = asked.request_id(), "woke too late for the slot; asking again");
                    shared.peers.counters.late_wake();
                    continue;
                }
                kept.what = None;
                let waited = started.elapsed();
                shared.peers.counters.slot(Path::Served, waited);
                let route = kept.route;
                let given = Given { asked, grant, answer: response, route, window, waited, path: Path::Served };
                return Ok(Slot::new(shared.clone(), given));
            }
            Some(Outcome::Queued(queued)) => {
                if queued.place_lost {
                    tracing::debug!(request_id = asked.request_id(), "the place in line was lost; took a new one");
                }
                kept.what = Some(What::Ticket(queued.ticket.clone()));
                asked.keep_place(queued.ticket);
                let wait = queued.come_back_in.as_ref().map(timing::length).unwrap_or_default();
                sleep_past(timing::after(received.steady, wait)).await;
            }
            Some(Outcome::Denial(denial)) => {
                kept.what = None;
                shared.peers.counters.denied();
                return Err(Box::new(Denied::new(denial, response.delays)).into());
            }
            None => return Err(Error::Malformed { missing: "outcome" }),
        }
    }
}

/// Another slot for one that became too late before it was used: asked for with the same request_id and attempt.
#[cfg(feature = "http")]
pub(crate) async fn again(late: Slot) -> Result<Slot, Error> {
    let (shared, asked) = late.forget();
    shared.peers.counters.late_wake();
    for_slot(&shared, asked, None).await
}

/// The answer, and where it was asked for.
async fn ask(shared: &Shared, asked: &Asked) -> Result<(AcquireResponse, Moment, Route), Error> {
    let held = held(shared, asked);
    // Where nobody is made to wait while the service is there, nobody waits for it either.
    let patience = (!shared.solo.is_enforced(asked)).then_some(PATIENCE_WHEN_WATCHED);
    let bounds = Bounds { held, deadline: asked.deadline, patience, in_background: false };
    let route = shared.peers.blind.route(asked.route(), asked.request_id());
    let response = shared.peers.send(route, bounds, || asked.request_at(Instant::now())).await?;
    Ok((response, Moment::now(), route))
}

/// How long the service may hold an ask.
pub(crate) fn held(shared: &Shared, asked: &Asked) -> Duration {
    let hold = shared.defaults.hold.unwrap_or(HOLD);
    if asked.has_place() { hold } else { hold.min(HELD_WITHOUT_PLACE) }
}

/// What becomes of an ask that nobody answered: it goes, by the client's own pace, or (`None`) somebody is there again.
async fn without_service(shared: &Shared, asked: &Asked, started: Instant, error: Error) -> Result<Option<Path>, Error> {
    let is_over = asked.deadline.is_some_and(|deadline| Instant::now() >= deadline.at);
    if !shared.goes_on || is_over || !matches!(error, Error::Unreachable { .. }) {
        return Err(error);
    }
    if !shared.solo.is_enforced(asked) {
        return Ok(Some(Path::Bypass));
    }
    if shared.peers.away_since(Instant::now()).is_none() {
        return Err(error); // others were answered meanwhile: this call is what nobody answers
    }
    match shared.solo.wait(&shared.peers, asked, started).await {
        Waited::Go(path) => Ok(Some(path)),
        Waited::Back => Ok(None),
        Waited::Denied(denied) => {
            shared.peers.counters.denied();
            Err(denied.into())
        }
    }
}

/// A slot that no service gave.
fn unserved(shared: &Arc<Shared>, asked: Asked, path: Path, started: Instant) -> Slot {
    let grant = alone::grant();
    let window = Window::new(&grant, Moment::now());
    let answer = AcquireResponse { mode: unserved_mode(shared).into(), ..AcquireResponse::default() };
    let waited = started.elapsed();
    shared.peers.counters.slot(path, waited);
    let route = asked.route();
    Slot::new(shared.clone(), Given { asked, grant, answer, route, window, waited, path })
}

/// The mode of a slot that no service gave: nobody makes the call wait.
fn unserved_mode(shared: &Shared) -> Mode {
    if shared.mode == Mode::Shadow { Mode::Shadow } else { Mode::Off }
}

/// Sleeps until the clock has reached `until`, whatever a timer thinks of it.
pub(crate) async fn sleep_past(until: Instant) {
    while Instant::now() < until {
        sleep_until(until).await;
    }
}

/// A place or a reservation that is given back when the ask is dropped while it waits.
struct Kept {
    shared: Arc<Shared>,
    route: Route,
    what: Option<What>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        let Some(what) = self.what.take() else { return };
        let (shared, route) = (self.shared.clone(), self.route);
        self.shared.runtime.spawn(async move {
            let request = ReleaseRequest { what: Some(what) };
            if let Err(error) = shared.peers.send(route, Bounds::IN_BACKGROUND, || request.clone()).await {
                tracing::debug!(%error, "a place was not given back; the service gives it up by itself");
            }
        });
    }
}
