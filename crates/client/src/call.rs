//! A whole call: sent as often as the service says, within one bound.

use tokio::time::timeout_at;

use crate::ask::Ask;
use crate::error::{Denied, Error};
use crate::limiter::Limiter;
use crate::report::{Report, Reported, Retry};
use crate::slot::{Next, Slot};

/// What came of a call that was sent at least once.
#[derive(Debug)]
pub struct Called<T> {
    /// What the last attempt brought; when the call was given up, the provider's last word.
    pub value: T,
    /// How often it was sent.
    pub attempts: u32,
    /// Why it ended.
    pub end: End,
}

/// Why a call is not sent again.
#[derive(Debug)]
pub enum End {
    /// The last attempt was reported, and the service says that the call is over: done, or given up.
    Reported(Reported),
    /// It should have been sent again and there was no slot for it.
    Denied(Box<Denied>),
    /// The last attempt could not be reported; its value is as good as any.
    Unreported(Error),
}

impl<T> Called<T> {
    /// Whether the service says that the call is done (and not given up, denied or unreported).
    pub fn is_done(&self) -> bool {
        matches!(&self.end, End::Reported(reported) if reported.verdict == crate::Verdict::Done)
    }
}

impl Limiter {
    /// Sends a call as often as the service says. `send` makes one attempt, with the SDK's own retries turned off, and says
    /// how it went; it gets the slot for its target, and to report the first byte of a stream. An [`Ask::deadline`] bounds
    /// everything: an attempt that is at the provider when it passes is cancelled and reported as a time-out.
    ///
    /// In a task of its own the closure must own what it uses (`async move`, with clones); one that borrows makes a future that
    /// the compiler cannot prove to be `Send`:
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use paceline_client::{Ask, Limiter, Report};
    /// # async fn send(_key: &str) -> u16 { 200 }
    /// fn spawn(limiter: Limiter, key: Arc<str>) {
    ///     tokio::spawn(async move {
    ///         let ask = Ask::new("openai").model("gpt-4o");
    ///         limiter.call(ask, async move |_slot| (Report::response(send(&key).await), ())).await
    ///     });
    /// }
    /// ```
    ///
    /// ```compile_fail
    /// # use std::sync::Arc;
    /// # use paceline_client::{Ask, Limiter, Report};
    /// # async fn send(_key: &str) -> u16 { 200 }
    /// fn spawn(limiter: Limiter, key: Arc<str>) {
    ///     tokio::spawn(async move {
    ///         let ask = Ask::new("openai").model("gpt-4o");
    ///         limiter.call(ask, async |_slot| (Report::response(send(&key).await), ())).await // borrows key
    ///     });
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Limiter::acquire`] while nothing was sent; [`Error::DeadlineOver`]. Once an attempt has come back its value is
    /// never lost: the call ends with it in [`Called`].
    pub async fn call<T, F>(&self, ask: Ask, mut send: F) -> Result<Called<T>, Error>
    where
        F: AsyncFnMut(&mut Slot) -> (Report, T),
    {
        let mut slot = self.acquire(ask).await?;
        loop {
            slot.sent();
            let attempts = slot.attempt();
            let (report, value) = match slot.asked().deadline {
                None => send(&mut slot).await,
                Some(deadline) => match timeout_at(deadline.at, send(&mut slot)).await {
                    Ok(came_back) => came_back,
                    Err(_) => {
                        slot.leave(Report::timeout());
                        return Err(Error::DeadlineOver { after: deadline.length, attempt: attempts });
                    }
                },
            };
            let end = match slot.report_and_retry(report, Retry::default()).await {
                Ok(Next::Again(next)) => {
                    slot = next;
                    continue;
                }
                Ok(Next::Over(reported)) => End::Reported(reported),
                Err(Error::Denied(denied)) => End::Denied(denied),
                Err(error) => End::Unreported(error),
            };
            return Ok(Called { value, attempts, end });
        }
    }
}
