//! From an ask to the moment its call may be sent.

use std::sync::Arc;

use paceline_proto::v1::acquire_response::Outcome;
use paceline_proto::v1::release_request::What;
use paceline_proto::v1::{AcquireResponse, Mode, ReleaseRequest};
use tokio::time::{Instant, sleep_until};

use crate::alone;
use crate::ask::Asked;
use crate::error::{Denied, Error};
use crate::limiter::Shared;
use crate::peers::Bounds;
use crate::slot::{Given, Slot};
use crate::timing::{self, Moment, Window};

/// How long the service holds an ask when it is not told otherwise.
const HOLD: std::time::Duration = std::time::Duration::from_secs(10);

/// Asks, keeps its place, and sleeps until the call may be sent. `answer` is the answer to the first ask, when it came with a
/// report. An answer that is slept past its use is asked for again, with the same request_id and attempt.
pub(crate) async fn for_slot(
    shared: &Arc<Shared>,
    mut asked: Asked,
    mut answer: Option<(AcquireResponse, Moment)>,
) -> Result<Slot, Error> {
    let started = Instant::now();
    if shared.is_off {
        let grant = alone::grant();
        let window = Window::new(&grant, Moment::now());
        let answer = AcquireResponse { mode: Mode::Off.into(), ..AcquireResponse::default() };
        return Ok(Slot::new(shared.clone(), Given { asked, grant, answer, window, waited: started.elapsed() }));
    }
    let mut kept = Kept { shared: shared.clone(), what: None };
    loop {
        let (mut response, received) = match answer.take() {
            Some(given) => given,
            None => ask(shared, &asked).await?,
        };
        match response.outcome.take() {
            Some(Outcome::Grant(grant)) => {
                kept.what = Some(What::LeaseId(grant.lease_id.clone()));
                let window = Window::new(&grant, received);
                sleep_past(window.opens).await;
                if window.is_over(Moment::now()) {
                    // The process was frozen or starved. What was granted for then is not for now.
                    tracing::debug!(request_id = asked.request_id(), "woke too late for the slot; asking again");
                    continue;
                }
                kept.what = None;
                let given = Given { asked, grant, answer: response, window, waited: started.elapsed() };
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
                return Err(Box::new(Denied::new(denial, response.delays)).into());
            }
            None => return Err(Error::Malformed { missing: "outcome" }),
        }
    }
}

async fn ask(shared: &Shared, asked: &Asked) -> Result<(AcquireResponse, Moment), Error> {
    let held = shared.defaults.hold.unwrap_or(HOLD);
    let bounds = Bounds { held, deadline: asked.deadline };
    let response = shared.peers.send(bounds, || asked.request_at(Instant::now())).await?;
    Ok((response, Moment::now()))
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
    what: Option<What>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        let Some(what) = self.what.take() else { return };
        let shared = self.shared.clone();
        self.shared.runtime.spawn(async move {
            let request = ReleaseRequest { what: Some(what) };
            if let Err(error) = shared.peers.send(Bounds::AT_ONCE, || request.clone()).await {
                tracing::debug!(%error, "a place was not given back; the service gives it up by itself");
            }
        });
    }
}
