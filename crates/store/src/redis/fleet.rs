//! What a replica knows of its fleet, and keeps true in the store: time, token keys, who serves.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use paceline_core::units::{FleetTime, Span};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::calls::Courier;
use super::clock::{Advice, FleetClock, Line, Sample};
use super::meta::{CLOCK, Meta, MetaRequest, SwapRequest, TOKENS, agreed_bytes, field_of};
use super::ring::Ring;
use super::routes::Route;
use crate::error::StoreError;
use crate::observe::Operation;
use crate::replica::{Announcement, Replica};
use crate::token::TokenKeys;

/// How often the server's clock is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// And when something does not fit.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// A sample whose way took no longer than this, in microseconds, needs no better one.
const SHARP: i64 = 3_000;
/// So many more are taken at the first contact to find one.
const MOST_FIRST_SAMPLES: usize = 8;
/// How long a replica that needs its keys waits for the store before it makes one of its own.
const FIRST_CONTACT: Duration = Duration::from_secs(2);
/// A retry of a swap that another replica was faster at.
const MOST_SWAPS: usize = 5;

/// A replica's view of its fleet.
pub(super) struct Fleet {
    courier: Arc<Courier>,
    key: String,
    route: Route,
    began: Instant,
    clock: Mutex<FleetClock>,
    line: ArcSwap<Line>,
    /// Whether somebody asked for the time before the server told it.
    was_read: AtomicBool,
    ring: Mutex<Ring>,
    /// What this replica said of itself last, to be said again should it be lost.
    me: Mutex<Option<Announcement>>,
    contact: watch::Sender<bool>,
    looks: AtomicU64,
}

impl Fleet {
    pub(super) fn new(courier: Arc<Courier>, key: String) -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let clock = FleetClock::new(0, Span::from(wall).as_micros());
        Self {
            courier,
            route: Route::of_key(&key),
            key,
            began: Instant::now(),
            line: ArcSwap::from_pointee(clock.line()),
            clock: Mutex::new(clock),
            was_read: AtomicBool::new(false),
            ring: Mutex::default(),
            me: Mutex::default(),
            contact: watch::Sender::new(false),
            looks: AtomicU64::new(0),
        }
    }

    /// Fleet time.
    pub(super) fn now(&self) -> FleetTime {
        if !self.was_read.load(Ordering::Relaxed) {
            self.was_read.store(true, Ordering::Relaxed);
        }
        self.time()
    }

    /// Becomes true when the store has answered for the first time.
    pub(super) fn contact(&self) -> watch::Receiver<bool> {
        self.contact.subscribe()
    }

    /// The token keys, as all replicas know them; when the store is away, those that were known last, or else one of this
    /// replica's own that the others learn of as soon as it is back.
    pub(super) async fn token_keys(&self) -> TokenKeys {
        let mut contact = self.contact();
        // Who has just started has no connection yet. Whatever comes of either: the ring below is what there is.
        let _ = timeout(FIRST_CONTACT, contact.wait_for(|contacted| *contacted)).await;
        let _ = self.look(None).await;
        let now = self.time();
        let mut ring = lock(&self.ring);
        if ring.keys(now).is_none() {
            *ring = Ring::of_one_alone(now);
        }
        ring.keys(now).unwrap_or_else(|| TokenKeys::new(crate::token::TokenKey::random()))
    }

    /// Says that this replica is there; who else is.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) async fn heartbeat(&self, me: &Announcement) -> Result<Vec<Replica>, StoreError> {
        *lock(&self.me) = Some(me.clone());
        let meta = self.look(Some(me)).await?;
        Ok(meta.live(self.time()))
    }

    /// Says that this replica goes.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) async fn retire(&self, id: u32) -> Result<(), StoreError> {
        lock(&self.me).take_if(|me| me.id == id);
        let request = MetaRequest::new(self.key.clone()).taking_away(vec![field_of(id)]);
        self.courier.ask(Operation::Meta, self.route, &request, |answer| request.read(answer)).await.map(drop)
    }

    /// Looks at the server's time and at what is common to all, and puts back what it has lost.
    async fn look(&self, me: Option<&Announcement>) -> Result<Meta, StoreError> {
        let mut request = MetaRequest::new(self.key.clone());
        if let Some(me) = me {
            request = request.announcing(me, self.time());
        }
        let (mut sample, mut meta) = self.sample(&request).await?;
        // The first one is believed as it is, so it should be a sharp one.
        let mut more = if *self.contact.borrow() { 0 } else { MOST_FIRST_SAMPLES };
        while more > 0 && sample.received - sample.sent > SHARP {
            more -= 1;
            let (other, its) = self.sample(&request).await?;
            if other.received - other.sent < sample.received - sample.sent {
                (sample, meta) = (other, its);
            }
        }
        if meta.agreed().is_none() && *self.contact.borrow() {
            // It has lost what it held.
            self.courier.common.listeners.tell();
        }
        self.take(sample, &meta).await?;
        self.share_keys(&meta).await?;
        self.forget(&meta).await?;
        self.contact.send_if_modified(|contacted| !std::mem::replace(contacted, true));
        Ok(meta)
    }

    async fn sample(&self, request: &MetaRequest) -> Result<(Sample, Meta), StoreError> {
        let sent = self.mono();
        let meta = self.courier.ask(Operation::Meta, self.route, request, |answer| request.read(answer)).await?;
        Ok((Sample { sent, received: self.mono(), server: meta.server, agreed: meta.agreed() }, meta))
    }

    /// Follows the server's clock, or corrects what was agreed when it was set.
    async fn take(&self, sample: Sample, meta: &Meta) -> Result<(), StoreError> {
        let advice = {
            let mut clock = lock(&self.clock);
            let advice = clock.observe(sample, self.was_read.load(Ordering::Relaxed));
            self.line.store(Arc::new(clock.line()));
            advice
        };
        match advice {
            Advice::Fine | Advice::Doubt => {}
            Advice::Adopted => self.stepped("another replica corrected it"),
            Advice::Propose(agreed) => {
                if self.swap(CLOCK, meta.raw(CLOCK), agreed_bytes(agreed)).await? {
                    lock(&self.clock).written(agreed);
                    if meta.agreed().is_some() {
                        self.stepped("this replica corrected it");
                    }
                }
            }
        }
        // Soon again, until it fits.
        self.looks.store(u64::from(matches!(advice, Advice::Doubt | Advice::Propose(_))), Ordering::Relaxed);
        Ok(())
    }

    fn stepped(&self, how: &str) {
        self.courier.common.observer.clock_stepped();
        tracing::warn!("Redis' clock was set; fleet time goes on as before ({how})");
    }

    /// Learns the token keys of the others, and tells them ours.
    async fn share_keys(&self, meta: &Meta) -> Result<(), StoreError> {
        let now = self.time();
        let (mut stored, mut raw) = (meta.ring(), meta.raw(TOKENS).to_vec());
        for _ in 0..MOST_SWAPS {
            let merged = {
                let mut ring = lock(&self.ring);
                *ring = std::mem::take(&mut *ring).merged(stored.clone(), now);
                ring.clone().rotated(now)
            };
            if merged == stored {
                return Ok(());
            }
            if self.swap(TOKENS, &raw, merged.encode()).await? {
                *lock(&self.ring) = merged;
                return Ok(());
            }
            let request = MetaRequest::new(self.key.clone());
            let again = self.courier.ask(Operation::Meta, self.route, &request, |answer| request.read(answer)).await?;
            (stored, raw) = (again.ring(), again.raw(TOKENS).to_vec());
        }
        Ok(())
    }

    /// Takes away replicas that have been silent for long.
    async fn forget(&self, meta: &Meta) -> Result<(), StoreError> {
        let gone = meta.forgotten(self.time());
        if gone.is_empty() {
            return Ok(());
        }
        let request = MetaRequest::new(self.key.clone()).taking_away(gone);
        self.courier.ask(Operation::Meta, self.route, &request, |answer| request.read(answer)).await.map(drop)
    }

    async fn swap(&self, field: &'static str, read: &[u8], write: Vec<u8>) -> Result<bool, StoreError> {
        let request = SwapRequest::new(self.key.clone(), field, read.to_vec(), write);
        self.courier.ask(Operation::Meta, self.route, &request, |answer| request.read(answer)).await
    }

    fn time(&self) -> FleetTime {
        FleetTime::from_micros(self.line.load().read(self.mono()))
    }

    fn mono(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX)
    }
}

/// Looks at the store as long as somebody has the fleet.
pub(super) async fn tend(fleet: Weak<Fleet>) {
    loop {
        let Some(alive) = fleet.upgrade() else { return };
        let common = alive.courier.common.clone();
        let opened = common.opened.notified();
        // Without a connection there is nothing to ask; who opens connections counts and logs that.
        let answered = alive.courier.routes.place(alive.route).is_ok() && alive.look(None).await.is_ok();
        let doubts = alive.looks.load(Ordering::Relaxed) > 0;
        let contacted = *alive.contact.borrow();
        drop(alive);
        match (answered, doubts) {
            (true, false) => sleep(LOOK_EVERY).await,
            (true, true) => sleep(LOOK_AGAIN).await,
            // Until the first contact at once when there is a connection.
            (false, _) => {
                let pause = if contacted { LOOK_EVERY / 2 } else { LOOK_AGAIN };
                let _ = timeout(pause, opened).await;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
