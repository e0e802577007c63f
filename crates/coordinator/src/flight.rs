//! Commits on their way: the next batch is decided on the value that the last one will have written, and sent behind it. When one
//! is refused, those behind it are void too, because they expect its version.

use std::collections::{HashSet, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use paceline_core::units::FleetTime;
use paceline_store::{Committed, StoreError};

use crate::record::CallKey;
use crate::scope::Effects;

/// More would only wait in the store's queue.
const MOST_IN_THE_AIR: usize = 8;

/// What a commit came to.
pub(crate) type Outcome = Result<Committed, StoreError>;
pub(crate) type Landing = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A step whose commit is on its way.
pub(crate) struct Flight {
    pub(crate) fx: Effects,
    pub(crate) decided_at: FleetTime,
    /// What it writes.
    pub(crate) bytes: Bytes,
    pub(crate) lineage: paceline_core::lineage::Lineage,
    pub(crate) until: FleetTime,
    landing: Landing,
}

impl Flight {
    pub(crate) fn new(
        fx: Effects,
        decided_at: FleetTime,
        bytes: Bytes,
        (lineage, until): (paceline_core::lineage::Lineage, FleetTime),
        landing: Landing,
    ) -> Self {
        Self { fx, decided_at, bytes, lineage, until, landing }
    }
}

/// The commits on their way, in the order in which they were decided.
#[derive(Default)]
pub(crate) struct Air {
    flights: VecDeque<Flight>,
    keys: HashSet<CallKey>,
}

impl Air {
    /// Sends a commit off: it is polled once, so that the store has it before the next.
    pub(crate) async fn send(&mut self, mut flight: Flight) -> Option<(Flight, Outcome)> {
        let first = poll_fn(|cx| Poll::Ready(flight.landing.as_mut().poll(cx))).await;
        match first {
            Poll::Ready(outcome) if self.flights.is_empty() => return Some((flight, outcome)),
            Poll::Ready(outcome) => flight.landing = Box::pin(std::future::ready(outcome)),
            Poll::Pending => {}
        }
        self.keys.extend(flight.fx.records.iter().map(|change| change.key));
        self.flights.push_back(flight);
        None
    }

    /// The next commit that is done; pends for ever when there is none.
    pub(crate) async fn next(&mut self) -> (Flight, Outcome) {
        let outcome = poll_fn(|cx| match self.flights.front_mut() {
            Some(flight) => flight.landing.as_mut().poll(cx),
            None => Poll::Pending,
        })
        .await;
        let Some(flight) = self.flights.pop_front() else { return std::future::pending().await };
        if self.flights.is_empty() {
            self.keys.clear();
        }
        (flight, outcome)
    }

    /// All that are on their way, whatever becomes of them.
    pub(crate) fn take_all(&mut self) -> Vec<Flight> {
        self.keys.clear();
        self.flights.drain(..).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.flights.len() < MOST_IN_THE_AIR
    }

    /// Whether one of these records is about to be written: what depends on it must wait until that is done.
    pub(crate) fn concerns(&self, keys: impl IntoIterator<Item = CallKey>) -> bool {
        !self.keys.is_empty() && keys.into_iter().any(|key| self.keys.contains(&key))
    }
}
