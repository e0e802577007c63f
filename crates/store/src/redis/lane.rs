//! A place for a connection: kept filled by a task of its own, which looks after what is in it.
//!
//! Who sends takes what is there, or fails at once: requests must not pile up while a server is away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use super::connect::{self, Access, ConnectError, Role};
use super::endpoint::Endpoint;
use super::journal::Journal;
use super::link::Link;
use super::reconnects::{Reconnects, pause};
use super::sentinel::Sentinels;
use crate::observe::{Failure, Observer};
use crate::register::OnReached;

/// How often a connection is asked for its server's role: a primary that became a replica still answers, and a connection
/// whose other end is gone says nothing.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How to find the server of a lane.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// At this place, whoever is there.
    At(Endpoint),
    /// Where sentinels say.
    Primary(Arc<Sentinels>),
}

impl Target {
    fn name(&self) -> Arc<str> {
        match self {
            Self::At(endpoint) => endpoint.to_string().into(),
            Self::Primary(sentinels) => format!("the primary {}", sentinels.name()).into(),
        }
    }
}

/// What all lanes of a store share.
pub(super) struct Common {
    pub(super) access: Access,
    pub(super) reconnects: Reconnects,
    pub(super) observer: Arc<dyn Observer>,
    /// Something is wrong with the way to a server: whoever draws the map should look again.
    pub(super) lost: Notify,
    /// A connection was opened.
    pub(super) opened: Notify,
    /// Who is told that a server was reached anew.
    pub(super) listeners: Listeners,
    /// What the log says of servers.
    pub(super) journal: Journal,
}

/// Who is told that what is stored may not be what it was.
#[derive(Default)]
pub(super) struct Listeners(Mutex<Vec<OnReached>>);

impl Listeners {
    pub(super) fn add(&self, tell: OnReached) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(tell);
    }

    pub(super) fn tell(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|tell| tell());
    }
}

/// A place for a connection.
pub(super) struct Lane {
    slot: Arc<Slot>,
    keeper: AbortHandle,
}

struct Slot {
    target: Target,
    /// What the log calls the server.
    server: Arc<str>,
    /// Whether the last attempt to connect failed.
    is_missing: AtomicBool,
    common: Arc<Common>,
    link: ArcSwapOption<Link>,
    /// Why there is no connection.
    problem: Mutex<ConnectError>,
    wake: Notify,
}

impl Lane {
    /// A place that is being filled from now on.
    pub(super) fn new(target: Target, common: Arc<Common>) -> Self {
        let problem = ConnectError::new(Failure::Connection, "not connected yet");
        let server = target.name();
        common.journal.enter(&server);
        let slot = Arc::new(Slot {
            target,
            server,
            is_missing: AtomicBool::new(false),
            common,
            link: ArcSwapOption::empty(),
            problem: Mutex::new(problem),
            wake: Notify::new(),
        });
        let keeper = tokio::spawn(slot.clone().keep()).abort_handle();
        Self { slot, keeper }
    }

    /// The connection.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn link(&self) -> Result<Arc<Link>, ConnectError> {
        match self.slot.link.load_full().filter(|link| !link.has_ended()) {
            Some(link) => Ok(link),
            None => Err(self.slot.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()),
        }
    }

    /// Gives this connection up and opens another one; requests on their way still get their answers.
    pub(super) fn give_up(&self, link: &Arc<Link>, why: ConnectError) {
        self.slot.give_up(link, why);
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.keeper.abort();
        self.slot.common.journal.leave(&self.slot.server, self.slot.is_missing.load(Ordering::Relaxed));
    }
}

impl Slot {
    fn give_up(&self, link: &Arc<Link>, why: ConnectError) {
        let current = self.link.load();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, link)) {
            self.note(why);
            self.link.compare_and_swap(&*current, None);
            self.wake.notify_one();
        }
    }

    fn note(&self, why: ConnectError) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Fills the place, and again whenever it is empty.
    async fn keep(self: Arc<Self>) {
        let mut failures = 0_u32;
        loop {
            let Some(link) = self.link.load_full().filter(|link| !link.has_ended()) else {
                sleep(pause(failures)).await;
                self.common.reconnects.turn().await;
                match self.open().await {
                    Ok(link) => {
                        self.common.journal.found(&self.server, self.is_missing.swap(false, Ordering::Relaxed));
                        failures = 0;
                        self.link.store(Some(Arc::new(link)));
                        self.common.opened.notify_waiters();
                        // Whoever is there now may not be who was there before.
                        self.common.listeners.tell();
                    }
                    Err(error) => {
                        self.failed(error);
                        failures = failures.saturating_add(1);
                    }
                }
                continue;
            };
            if timeout(LOOK_EVERY, self.wake.notified()).await.is_err() {
                self.look(&link).await;
            }
        }
    }

    fn failed(&self, error: ConnectError) {
        self.common.journal.lost(&self.server, self.is_missing.swap(true, Ordering::Relaxed), &error);
        self.common.observer.failed(error.failure);
        self.note(error);
        self.common.lost.notify_one();
    }

    async fn open(self: &Arc<Self>) -> Result<Link, ConnectError> {
        let endpoint = match &self.target {
            Target::At(endpoint) => endpoint.clone(),
            Target::Primary(sentinels) => sentinels.primary().await?,
        };
        let slot = Arc::downgrade(self);
        let on_end = move || {
            if let Some(slot) = slot.upgrade() {
                slot.note(ConnectError::new(Failure::Connection, "the connection ended"));
                slot.wake.notify_one();
            }
        };
        let link = connect::open(&endpoint, &self.common.access, on_end).await?;
        match connect::role(&link, Instant::now() + self.common.access.timeout).await? {
            Role::Primary | Role::Unknown => Ok(link),
            Role::Replica => Err(replica(&endpoint)),
        }
    }

    /// Looks whether a connection still leads to a server that takes writes.
    async fn look(&self, link: &Arc<Link>) {
        match connect::role(link, Instant::now() + self.common.access.timeout).await {
            Ok(Role::Primary | Role::Unknown) => {}
            Ok(Role::Replica) => self.give_up(link, replica(link.endpoint())),
            Err(error) if error.failure == Failure::Loading => self.give_up(link, error),
            Err(error) => {
                self.common.observer.failed(error.failure);
                self.give_up(link, error);
            }
        }
    }
}

fn replica(endpoint: &Endpoint) -> ConnectError {
    ConnectError::new(Failure::ReadOnly, format!("{endpoint} is a replica and takes no writes"))
}
