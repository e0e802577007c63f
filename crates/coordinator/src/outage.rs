//! The store does not answer: going on alone, asking now and then whether it is back, and bringing back what was done meanwhile.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use paceline_core::units::Span;
use paceline_store::{Loaded, Store, StoreError, codec};
use rand::{Rng, RngExt};
use tokio::time::Instant;

use crate::actor::{Actor, State, Trouble};
use crate::flight::Flight;
use crate::journal::{Happened, Kind};
use crate::scope::LostCommit;

/// How often the store is asked whether it is back, give or take a fifth, so that replicas and scopes do not ask together.
pub(crate) const PROBE_EVERY: Span = Span::from_millis(250);

type Probe = Pin<Box<dyn Future<Output = Result<Loaded, StoreError>> + Send>>;

/// A stretch without the store.
pub(crate) struct Outage {
    since: Instant,
    probe_at: Instant,
    probe: Option<Probe>,
}

impl Outage {
    fn new(rng: &mut impl Rng) -> Self {
        let now = Instant::now();
        Self { since: now, probe_at: now + probe_gap(rng), probe: None }
    }

    /// When the store is to be asked next; `None` while it is being asked.
    pub(crate) fn next_probe(&self) -> Option<Instant> {
        self.probe.is_none().then_some(self.probe_at)
    }

    /// What the store said when it was asked; pends for ever while nobody asks.
    pub(crate) async fn answered(outage: &mut Option<Self>) -> Result<Loaded, StoreError> {
        match outage.as_mut().and_then(|outage| outage.probe.as_mut()) {
            Some(probe) => probe.await,
            None => std::future::pending().await,
        }
    }
}

fn probe_gap(rng: &mut impl Rng) -> Duration {
    PROBE_EVERY.to_duration() * rng.random_range(80..120) / 100
}

impl<S: Store> Actor<S> {
    /// Goes on alone.
    pub(crate) fn lose_store(&mut self, state: &mut State, error: &StoreError) {
        let flights = state.air.take_all();
        self.lose_commits(state, flights, error);
    }

    /// Goes on alone after these commits, of which nobody knows whether they were written: what they granted counts as spent.
    pub(crate) fn lose_commits(&mut self, state: &mut State, flights: Vec<Flight>, error: &StoreError) {
        let target = self.scope.target();
        tracing::debug!(provider = target.provider, account = target.account, %error, "decided without the store from now on");
        let now = self.inner.store.now();
        for flight in flights.into_iter().rev() {
            let value = codec::decode(&flight.bytes, now).ok().map(|decoded| decoded.value);
            let (replies, events) = self.scope.land_alone(flight.fx, LostCommit::new(flight.lineage, value), now);
            self.answer(state, replies, flight.decided_at);
            events.into_iter().for_each(|event| self.recorder.record(event, now));
        }
        self.begin_unread(state, now);
        let written = state.memory.as_ref().and_then(|memory| memory.value(now)).unwrap_or_default();
        self.scope.go_alone(written, self.inner.among(), now);
        if self.gauges.set_degraded(true) {
            let target = self.scope.target();
            self.inner.note(Happened {
                who: "the store".to_owned(),
                why: error.to_string(),
                after: format!("this replica decides with its part of each limit, one of {}, or denies", self.inner.among()),
                ..Happened::new(now, Kind::StoreLost)
            });
            tracing::warn!(
                provider = target.provider, account = target.account, among = self.inner.among(), %error,
                "the store does not answer; this replica goes on with its part of each limit, or denies where `on_store_down: closed` \
                 (the first account is named, `paceline_degraded` counts them)"
            );
        }
        state.outage = Some(Outage::new(&mut state.rng));
        state.wake_at = Some(now);
    }

    /// Asks whether the store is back, when it is time to.
    pub(crate) fn probe(&self, state: &mut State) {
        let Some(outage) = state.outage.as_mut().filter(|outage| outage.probe.is_none()) else { return };
        if Instant::now() < outage.probe_at {
            return;
        }
        let (inner, scope) = (self.inner.clone(), self.key);
        outage.probe = Some(Box::pin(async move {
            // One that answers and takes nothing is away still: what was begun alone must not begin anew with each try.
            inner.store.try_writing(&scope).await?;
            inner.store.load(&scope).await
        }));
    }

    /// The store has answered, or still does not.
    pub(crate) fn answers_again(&mut self, state: &mut State, stored: Result<Loaded, StoreError>) {
        let Some(outage) = state.outage.as_mut() else { return };
        outage.probe = None;
        outage.probe_at = Instant::now() + probe_gap(&mut state.rng);
        let since = outage.since;
        let now = self.inner.store.now();
        let taken = stored.map_err(Trouble::from).and_then(|loaded| Ok((self.take_over(state, &loaded, now)?, loaded.value)));
        match taken {
            Ok((taken, bytes)) => {
                self.adopt(state, taken, bytes);
                let is_last = self.gauges.set_degraded(false);
                state.outage = None;
                // What was done alone is written at once.
                state.wake_at = Some(now);
                let target = self.scope.target();
                tracing::debug!(provider = target.provider, account = target.account, "decided with the store again");
                if is_last {
                    let after = Span::from_micros(i64::try_from(since.elapsed().as_micros()).unwrap_or(i64::MAX));
                    self.inner.note(Happened {
                        who: "the store".to_owned(),
                        why: "it answers again".to_owned(),
                        before: format!("away for {after}"),
                        ..Happened::new(now, Kind::StoreBack)
                    });
                    tracing::info!(after = ?since.elapsed(), "the store answers again; no account is decided without it any more");
                }
            }
            Err(error) => {
                self.lead.keep(now);
                tracing::debug!(scope = %self.key, %error, "the store still does not answer");
            }
        }
    }
}
