//! How a worker goes about its calls with Paceline: asks, sends when told, reports what came back.

use std::time::Duration;

use paceline_client::{Ask, Delay, Error, Limiter, Next, Report, Retry};
use paceline_proto::convert;

use super::DemoError;
use super::outcome::Done;
use super::plan::{MODEL, Plan};
use super::provider::{Answered, Caller};
use super::tally::Tally;

/// Calls wait as long as it takes: this demo compares how fleets get through, not what they give up.
const MAX_WAIT: Duration = Duration::from_secs(3_600);
/// The pause before a denied call is asked for anew, when the denial names none.
const PAUSE: Duration = Duration::from_secs(1);
/// What a worker waits for, until the service says why.
const FOR_A_SLOT: &str = "slot";

/// One worker and what it works with.
pub(super) struct Worker<'a> {
    pub(super) plan: &'a Plan,
    pub(super) number: usize,
    pub(super) limiter: &'a Limiter,
    pub(super) caller: &'a Caller,
    pub(super) tally: &'a Tally,
}

impl Worker<'_> {
    /// Its calls, one after the other.
    pub(super) async fn work(&self) -> Result<(), DemoError> {
        for nth in 0..self.plan.calls_per_worker {
            let tokens = self.plan.tokens(self.number, nth);
            let wanted = self.tally.now();
            let mut sends = 0;
            while let Some(again_in) = self.call(tokens, wanted, &mut sends).await? {
                let _waiting = self.tally.waiting(FOR_A_SLOT);
                tokio::time::sleep(again_in).await;
            }
        }
        Ok(())
    }

    /// One call, sent as often as the service says. `None`: it went through; else when it may be asked for anew.
    async fn call(&self, tokens: u64, wanted: Duration, sends: &mut u32) -> Result<Option<Duration>, DemoError> {
        let ask = Ask::new(self.plan.catalogue_name()).model(MODEL).cost("tokens", tokens).max_wait(MAX_WAIT);
        let waiting = self.tally.waiting(FOR_A_SLOT);
        let mut slot = match self.limiter.acquire(ask).await {
            Ok(slot) => slot,
            Err(error) => return anew(error).map(Some),
        };
        drop(waiting);
        loop {
            self.note(slot.delays());
            slot.sent();
            let sent = self.tally.now();
            let answered = self.caller.call(tokens).await?;
            *sends += 1;
            if answered.status.is_success() {
                let done = Done { worker: self.number, wanted, sent, answered: self.tally.now(), sends: *sends };
                self.tally.finish(done);
                slot.report(told(&answered).usage("tokens", tokens)).await?;
                return Ok(None);
            }
            self.tally.was_refused(self.tally.now().saturating_sub(sent));
            let _waiting = self.tally.waiting(FOR_A_SLOT);
            slot = match slot.report_and_retry(told(&answered).body(&answered.body), Retry::default()).await {
                Ok(Next::Again(slot)) => slot,
                Ok(Next::Over(_)) => return Ok(Some(PAUSE)),
                Err(error) => return anew(error).map(Some),
            };
        }
    }

    /// Adds up where the service says that the waiting went.
    fn note(&self, delays: &[Delay]) {
        for delay in delays {
            let length = delay.duration.as_ref().and_then(|length| Duration::try_from(*length).ok()).unwrap_or_default();
            if !length.is_zero() {
                self.tally.waited(convert::source(delay.source).name(), length);
            }
        }
    }
}

/// When a call that was denied may be asked for anew.
fn anew(error: Error) -> Result<Duration, DemoError> {
    match error {
        Error::Denied(denied) => Ok(denied.retry_after.unwrap_or(PAUSE)),
        error => Err(error.into()),
    }
}

/// An answer as it is reported: whatever headers came.
fn told(answered: &Answered) -> Report {
    let headers = answered.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    Report::response(answered.status.as_u16()).headers(headers)
}
