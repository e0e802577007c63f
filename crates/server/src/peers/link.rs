//! A replica that calls are sent on to: connected when the first one goes there, and not waited for when it does not answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use paceline_proto::v1;
use paceline_proto::v1::session_request::Call as Said;
use paceline_proto::v1::session_response::Answer;
use paceline_telemetry::{Forwarded, Telemetry};
use tokio::time::{Instant, timeout_at};
use tonic::Status;

use super::health::Health;
use super::proof::FOR_ANOTHER;
use super::told::{Cases, Reach};
use super::wire::{Call, Wire, is_last_to_ask};

/// Within this time a call that is sent on must have arrived, or it is decided where it came in.
pub const ARRIVES_WITHIN: Duration = Duration::from_millis(200);
/// An answer at the end of a hold may take this much longer.
const GRACE: Duration = Duration::from_secs(1);

/// Makes the proof that a Session begins with.
pub(super) type Prove = Box<dyn Fn() -> Vec<u8> + Send + Sync>;

/// The way to one replica.
pub(crate) struct Link {
    replica: u32,
    pub(super) address: Arc<str>,
    pub(super) prove: Prove,
    telemetry: Telemetry,
    pub(super) arrives_within: Duration,
    health: Mutex<Health>,
    // Held while a Session is opened: those who come meanwhile wait for the same one.
    wire: tokio::sync::Mutex<Option<Arc<Wire>>>,
    used_at: Mutex<Instant>,
    told: Mutex<Told>,
    /// Whether it is lost, so that whoever is answered need not look.
    is_lost: AtomicBool,
}

/// What the log was told.
#[derive(Default)]
struct Told {
    reach: Reach,
    mistaken: Cases,
}

/// What became of a call that was sent on.
pub(crate) enum Sent<A> {
    /// It was answered there, with an answer or an error.
    Answered(Result<A, Status>),
    /// It was not: to be decided here.
    Not(NotThere),
}

/// A call that may still be under way there while it is decided here. It ends there when this is dropped.
#[derive(Default)]
pub(crate) struct NotThere {
    call: Option<Call>,
}

impl NotThere {
    /// The call got its answer here: a slot that comes from there all the same is the very slot of whoever asks again with the same
    /// key. Without this, such a slot is given back: the caller has gone.
    pub(crate) fn leave_slots(self) {
        drop(self.call.map(Call::leave_slots));
    }
}

impl Link {
    pub(super) fn new(replica: u32, address: Arc<str>, prove: Prove, telemetry: Telemetry, arrives_within: Duration) -> Self {
        Self {
            replica,
            address,
            prove,
            telemetry,
            arrives_within,
            health: Mutex::new(Health::default()),
            wire: tokio::sync::Mutex::new(None),
            used_at: Mutex::new(Instant::now()),
            told: Mutex::default(),
            is_lost: AtomicBool::new(false),
        }
    }

    /// Whether a call goes there now.
    pub(crate) fn takes(&self) -> bool {
        *self.used_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.health().takes(Instant::now(), &mut rand::rng())
    }

    /// When a call went there last.
    pub(super) fn used_at(&self) -> Instant {
        *self.used_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends an ask on, to be held there for at most `hold`; `None`: until it is decided.
    pub(crate) async fn acquire(
        &self,
        identity: &str,
        ask: v1::AcquireRequest,
        hold: Option<Duration>,
    ) -> Sent<v1::AcquireResponse> {
        let arrives_by = Instant::now() + self.arrives_within;
        let (mut call, first) = match self.first_answer(said_by(identity), Said::Acquire(ask), arrives_by).await {
            Ok(arrived) => arrived,
            Err(not_there) => return Sent::Not(not_there),
        };
        let mut heard = Some(first);
        let ends_by = hold.and_then(|hold| Instant::now().checked_add(hold + GRACE));
        loop {
            match heard {
                Some(Answer::Acquire(answer)) if is_last_to_ask(&answer) => {
                    self.answered(answer.degraded);
                    return Sent::Answered(Ok(answer));
                }
                Some(Answer::Error(error)) => return self.error(error),
                Some(_) => {}
                None => return Sent::Not(self.broken()),
            }
            let next = async { call.hear().await };
            heard = match ends_by {
                None => next.await,
                Some(ends_by) => match timeout_at(ends_by, next).await {
                    Ok(heard) => heard,
                    Err(_) => return Sent::Not(self.unanswered(Some(call))),
                },
            };
        }
    }

    /// Sends a report on. Not answered, it may have been taken there all the same.
    pub(crate) async fn report(&self, identity: &str, report: v1::ReportRequest) -> Sent<v1::ReportResponse> {
        match self.first_answer(said_by(identity), Said::Report(report), Instant::now() + self.arrives_within).await {
            Ok((_, Answer::Report(answer))) => {
                self.answered(answer.next.as_ref().is_some_and(|next| next.degraded));
                Sent::Answered(Ok(answer))
            }
            Ok((_, Answer::Error(error))) => self.error(error),
            Ok(_) => Sent::Not(self.broken()),
            Err(not_there) => Sent::Not(not_there),
        }
    }

    /// Sends a release on.
    pub(crate) async fn release(&self, caller: v1::Forwarded, release: v1::ReleaseRequest) -> Sent<v1::ReleaseResponse> {
        match self.first_answer(caller, Said::Release(release), Instant::now() + self.arrives_within).await {
            Ok((_, Answer::Release(answer))) => {
                self.answered(false);
                Sent::Answered(Ok(answer))
            }
            Ok((_, Answer::Error(error))) => self.error(error),
            Ok(_) => Sent::Not(self.broken()),
            Err(not_there) => Sent::Not(not_there),
        }
    }

    async fn first_answer(&self, caller: v1::Forwarded, said: Said, arrives_by: Instant) -> Result<(Call, Answer), NotThere> {
        let mut call = None;
        let heard = timeout_at(arrives_by, async {
            let wire = self.wire().await?;
            let call = call.insert(wire.say(caller, said).await?);
            call.hear().await
        });
        match heard.await {
            Ok(Some(answer)) => match call {
                Some(call) => Ok((call, answer)),
                None => Err(self.broken()),
            },
            Ok(None) => Err(self.broken()),
            Err(_) => Err(self.unanswered(call)),
        }
    }

    /// The open Session, opened if need be.
    pub(super) async fn wire(&self) -> Option<Arc<Wire>> {
        let asked_at = Instant::now();
        let mut wire = self.wire.lock().await;
        if let Some(open) = wire.as_ref().filter(|wire| wire.is_open()) {
            return Some(open.clone());
        }
        // It was tried in vain while this call waited for its turn to try.
        if asked_at.elapsed() > Duration::from_millis(1) && self.health().is_down() {
            return None;
        }
        *wire = None;
        match Wire::open(&self.address, &(self.prove)()).await {
            Ok(open) => {
                *wire = Some(open.clone());
                self.reached();
                Some(open)
            }
            Err(error) => {
                self.not_opened(&error);
                self.health().failed(Instant::now(), &mut rand::rng());
                None
            }
        }
    }

    fn answered(&self, is_degraded: bool) {
        self.health().answered(is_degraded, Instant::now());
        self.reached();
        self.telemetry.forwarded(Forwarded::Answered);
    }

    /// An error is an answer too, unless it says that the replica leaves.
    fn error<A>(&self, error: tonic_types::Status) -> Sent<A> {
        let code = tonic::Code::from_i32(error.code);
        if code == tonic::Code::Unavailable {
            return Sent::Not(self.broken());
        }
        self.answered(false);
        let details = prost::Message::encode_to_vec(&error);
        let details = if error.details.is_empty() { Vec::new() } else { details };
        Sent::Answered(Err(Status::with_details(code, error.message, details.into())))
    }

    fn unanswered(&self, call: Option<Call>) -> NotThere {
        self.health().failed(Instant::now(), &mut rand::rng());
        self.telemetry.forwarded(Forwarded::Unanswered);
        self.lost(&format!("no answer within {} ms", self.arrives_within.as_millis()));
        NotThere { call }
    }

    fn broken(&self) -> NotThere {
        self.health().failed(Instant::now(), &mut rand::rng());
        self.telemetry.forwarded(Forwarded::Broken);
        NotThere::default()
    }

    /// Another one may answer at the address: that is said in other words, once it is sure that it is not just a new process.
    fn not_opened(&self, error: &Status) {
        if error.code() != tonic::Code::PermissionDenied || !error.message().contains(FOR_ANOTHER) {
            return self.lost(error.message());
        }
        if self.told().mistaken.lasting(Instant::now()) {
            tracing::warn!(
                address = &*self.address,
                "the address that replica {} advertises is answered by another replica: check --advertise of both; its calls are \
                 decided here",
                self.replica
            );
        }
    }

    fn lost(&self, why: &str) {
        self.is_lost.store(true, Ordering::Relaxed);
        if self.told().reach.lost(Instant::now()) {
            tracing::warn!(
                replica = self.replica,
                address = &*self.address,
                why,
                "a replica cannot be reached at the address it advertises; its calls are decided here"
            );
        }
    }

    fn reached(&self) {
        if !self.is_lost.load(Ordering::Relaxed) || !self.is_lost.swap(false, Ordering::Relaxed) {
            return;
        }
        if let Some(after) = self.told().reach.found(Instant::now()) {
            tracing::info!(
                replica = self.replica,
                address = &*self.address,
                after = format!("{:.1} s", after.as_secs_f64()),
                "a replica is reached again"
            );
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn said_by(identity: &str) -> v1::Forwarded {
    v1::Forwarded { identity: identity.to_owned(), unheard: false }
}
