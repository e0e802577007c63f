//! One connection: many requests on their way at once, answered in their order.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, Value};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use super::endpoint::Endpoint;
use super::script::Script;

/// A connection that was set up.
#[derive(Debug)]
pub(super) struct Link {
    connection: MultiplexedConnection,
    endpoint: Endpoint,
    ended: Arc<AtomicBool>,
    driver: OnceLock<AbortHandle>,
    /// Scripts that were sent in full here, by their bits: the server has them, unless they are flushed.
    scripts: AtomicU16,
    /// When the last answer came, in microseconds after `born`.
    answered: AtomicU64,
    born: Instant,
}

/// Why there is no answer. The request may have been carried out.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// None came in time.
    Late,
    /// The connection ended before.
    Ended(RedisError),
}

impl Link {
    /// Takes over a connection, and drives it. `on_end` is called when it ends by itself.
    pub(super) fn new(
        connection: MultiplexedConnection,
        endpoint: Endpoint,
        driver: impl Future<Output = ()> + Send + 'static,
        on_end: impl FnOnce() + Send + 'static,
    ) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let flag = ended.clone();
        let task = tokio::spawn(async move {
            driver.await;
            flag.store(true, Ordering::Release);
            on_end();
        });
        Self {
            connection,
            endpoint,
            ended,
            driver: OnceLock::from(task.abort_handle()),
            scripts: AtomicU16::new(0),
            answered: AtomicU64::new(0),
            born: Instant::now(),
        }
    }

    /// Whether it ended by itself.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// The server at its other end.
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Whether a script was sent in full here before; from now on it was. Requests are carried out in the order in which they are
    /// sent, so those behind it can name it by its hash.
    pub(super) fn had(&self, script: &Script) -> bool {
        self.scripts.fetch_or(script.bit(), Ordering::Relaxed) & script.bit() != 0
    }

    /// Sends a command when it is first polled, behind all that were sent before, and waits for its answer. When the future is
    /// dropped before the command left, it never leaves.
    ///
    /// # Errors
    /// No answer until `deadline`, or the connection ended.
    pub(super) async fn send(&self, cmd: &Cmd, deadline: Instant) -> Result<Value, NoAnswer> {
        let mut connection = self.connection.clone();
        self.outcome(timeout_at(deadline, connection.send_packed_command(cmd)).await)
    }

    /// Sends several commands at once; errors of servers are among the answers.
    ///
    /// # Errors
    /// As for [`Link::send`].
    pub(super) async fn send_all(&self, pipeline: &Pipeline, count: usize, deadline: Instant) -> Result<Vec<Value>, NoAnswer> {
        let mut connection = self.connection.clone();
        self.outcome(timeout_at(deadline, connection.send_packed_commands(pipeline, 0, count)).await)
    }

    /// How long nothing has been heard.
    pub(super) fn silent_for(&self) -> Duration {
        self.born.elapsed().saturating_sub(Duration::from_micros(self.answered.load(Ordering::Relaxed)))
    }

    fn outcome<T>(&self, outcome: Result<Result<T, RedisError>, tokio::time::error::Elapsed>) -> Result<T, NoAnswer> {
        match outcome {
            Ok(Ok(answer)) => {
                let micros = u64::try_from(self.born.elapsed().as_micros()).unwrap_or(u64::MAX);
                self.answered.fetch_max(micros, Ordering::Relaxed);
                Ok(answer)
            }
            Ok(Err(error)) => Err(NoAnswer::Ended(error)),
            Err(_) => Err(NoAnswer::Late),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Nobody waits for an answer any more: whatever is not sent yet must not be.
        if let Some(driver) = self.driver.get() {
            driver.abort();
        }
    }
}
