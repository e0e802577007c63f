//! A request's way to its answer: to the right server, with a script it may not have, and within its time.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};
use tokio::time::Instant;

use super::connect::ConnectError;
use super::errors::{self, Said};
use super::lane::Common;
use super::link::NoAnswer;
use super::routes::{Place, Route, Routes};
use super::script::{By, Foreign, REPAIR, RequestId, Room, Script};
use crate::error::StoreError;
use crate::observe::{Failure, Operation};

/// A connection that has been silent for less is not given up, however short the time of a request is: it is slow, not dead.
const LEAST_SILENCE: Duration = Duration::from_millis(50);
/// A request is sent this often at most: once in full, elsewhere, after a repair.
const MOST_TRIES: usize = 6;

/// Carries requests.
pub(super) struct Courier {
    pub(super) routes: Routes,
    pub(super) common: Arc<Common>,
    pub(super) timeout: Duration,
}

/// A script to run, with all it needs.
pub(super) trait Request {
    /// Which script.
    fn script(&self) -> &'static Script;
    /// What the server is to do.
    fn command(&self, by: By) -> Cmd;
    /// The keys of it.
    fn keys(&self) -> &[String];
}

impl Courier {
    /// Sends a request and reads the answer with `read`. It leaves when this is first polled, behind all that were polled before
    /// and take the same way, or not at all.
    ///
    /// # Errors
    /// [`StoreError::Timeout`]: it may have been carried out; all others: it was not.
    pub(super) async fn ask<T>(
        &self,
        what: Operation,
        route: Route,
        request: &impl Request,
        read: impl FnOnce(Value) -> Result<T, Foreign>,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        let mut answered = self.try_ask(what, route, request, began).await;
        if matches!(&answered, Err(Problem::WrongType)) {
            answered = match self.repair(route, request.keys()).await {
                Ok(()) => self.try_ask(what, route, request, began).await,
                Err(error) => return Err(error),
            };
        }
        let (answer, place) = answered.map_err(|problem| self.tell(problem))?;
        self.common.observer.answered(what, began.elapsed());
        read(answer).map_err(|Foreign| {
            // Whatever comes next on this connection may be somebody else's too.
            let detail = format!("{} sent an answer that belongs to another request", place.link.endpoint());
            place.give_up(ConnectError::new(Failure::Protocol, detail.clone()));
            self.common.observer.failed(Failure::Protocol);
            StoreError::Timeout { detail }
        })
    }

    async fn try_ask(
        &self,
        what: Operation,
        route: Route,
        request: &impl Request,
        began: Instant,
    ) -> Result<(Value, Place), Problem> {
        let deadline = began + self.timeout;
        let (mut was_flushed, mut asking) = (false, false);
        let mut place = self.routes.place(route)?;
        for _ in 0..MOST_TRIES {
            let sent = Instant::now();
            let by = if place.link.had(request.script()) && !was_flushed { By::Hash } else { By::Source };
            let command = request.command(by);
            let answer =
                if asking { after_asking(&place, &command, deadline).await } else { place.link.send(&command, deadline).await };
            asking = false;
            let error = match answer {
                Ok(Value::ServerError(error)) => error,
                Ok(answer) => return Ok((answer, place)),
                Err(no_answer) => return Err(self.unanswered(what, &place, no_answer, sent)),
            };
            match errors::said(&error) {
                Said::NoScript if by == By::Hash => was_flushed = true,
                Said::Moved(redirect) => {
                    let to = redirect.from(place.link.endpoint());
                    place = self.routes.elsewhere(route, to, true)?;
                }
                Said::Ask(redirect) => {
                    let to = redirect.from(place.link.endpoint());
                    place = self.routes.elsewhere(route, to, false)?;
                    asking = true;
                }
                Said::WrongType => return Err(Problem::WrongType),
                Said::Not { failure, elsewhere } => {
                    let told = errors::unavailable(&error);
                    if elsewhere {
                        place.give_up(ConnectError::new(failure, told.to_string()));
                        self.common.lost.notify_one();
                    }
                    return Err(Problem::Known(failure, told));
                }
                Said::NoScript => return Err(Problem::Known(Failure::Other, errors::unavailable(&error))),
            }
        }
        let detail = "the cluster sends us from one node to the next".to_owned();
        Err(Problem::Known(Failure::ClusterDown, StoreError::Unavailable { detail }))
    }

    fn unanswered(&self, what: Operation, place: &Place, no_answer: NoAnswer, sent: Instant) -> Problem {
        let (what, server) = (what.as_str(), place.link.endpoint());
        match no_answer {
            NoAnswer::Late => {
                let detail = format!("{what}: {server} did not answer within {} ms", self.timeout.as_millis());
                // When others are answered meanwhile it is slow; else the connection may lead nowhere.
                if place.link.silent_for() >= sent.elapsed().max(LEAST_SILENCE) {
                    place.give_up(ConnectError::new(Failure::Timeout, detail.clone()));
                    self.common.lost.notify_one();
                }
                Problem::Known(Failure::Timeout, StoreError::Timeout { detail })
            }
            NoAnswer::Ended(error) => {
                let detail = format!("{what}: the connection to {server} ended before the answer: {error}");
                place.give_up(ConnectError::new(Failure::Connection, format!("the connection to {server} ended: {error}")));
                self.common.lost.notify_one();
                Problem::Known(Failure::Connection, StoreError::Timeout { detail })
            }
        }
    }

    /// Takes away what lies under keys of ours and cannot be ours.
    ///
    /// # Errors
    /// It cannot be taken away.
    pub(super) async fn repair(&self, route: Route, keys: &[String]) -> Result<(), StoreError> {
        self.common.observer.failed(Failure::Corrupt);
        let request = Repair { id: RequestId::random(), keys: keys.to_vec() };
        let answered = self.try_ask(Operation::Meta, route, &request, Instant::now()).await;
        let (answer, _) = answered.map_err(|problem| self.tell(problem))?;
        let taken = match request.id.open(answer).as_deref() {
            Ok([Value::Int(taken)]) => *taken,
            _ => 0,
        };
        let key = keys.first().map_or("", String::as_str);
        tracing::warn!(
            key,
            taken,
            "Redis held something else under keys of ours; it was taken away, and the scope starts cautiously"
        );
        Ok(())
    }

    /// Counts a problem and turns it into what callers get.
    fn tell(&self, problem: Problem) -> StoreError {
        match problem {
            Problem::NoConnection(error) => {
                self.common.observer.failed(error.failure);
                StoreError::Unavailable { detail: error.detail }
            }
            Problem::Known(failure, error) => {
                self.common.observer.failed(failure);
                error
            }
            Problem::WrongType => {
                self.common.observer.failed(Failure::Corrupt);
                StoreError::Corrupt { detail: "a key of ours holds something of another type".to_owned() }
            }
        }
    }
}

enum Problem {
    NoConnection(ConnectError),
    Known(Failure, StoreError),
    WrongType,
}

impl From<ConnectError> for Problem {
    fn from(error: ConnectError) -> Self {
        Self::NoConnection(error)
    }
}

async fn after_asking(place: &Place, command: &Cmd, deadline: Instant) -> Result<Value, NoAnswer> {
    let mut both = Pipeline::with_capacity(2);
    both.add_command(redis::cmd("ASKING")).add_command(command.clone());
    let answers = place.link.send_all(&both, 2, deadline).await?;
    Ok(answers.into_iter().nth(1).unwrap_or(Value::Nil))
}

struct Repair {
    id: RequestId,
    keys: Vec<String>,
}

impl Request for Repair {
    fn script(&self) -> &'static Script {
        &REPAIR
    }

    fn command(&self, by: By) -> Cmd {
        let mut cmd = REPAIR.command(by, &self.keys, Room { arguments: 1, bytes: 8 });
        cmd.arg(self.id.as_bytes());
        cmd
    }

    fn keys(&self) -> &[String] {
        &self.keys
    }
}
