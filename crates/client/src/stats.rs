//! Counters of a limiter, as plain numbers for whatever metrics a worker has.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Who gave a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Path {
    /// The service.
    Served,
    /// Nobody answers: the client's own recent share.
    Local,
    /// Nobody, and nothing paces the call: the client is off, or the service has been away for too long.
    Bypass,
}

impl Path {
    /// As a metric's label: `served`, `local` or `bypass`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::Local => "local",
            Self::Bypass => "bypass",
        }
    }
}

/// What a limiter did since it was made; every number only grows, except `is_away`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Slots given by the service.
    pub served: u64,
    /// Slots given by the client itself, from its recent share.
    pub local: u64,
    /// Slots that nothing paced.
    pub bypass: u64,
    /// Asks that were denied, by the service or by the client itself.
    pub denied: u64,
    /// Time from asks to their slots, added up.
    pub waited: Duration,
    /// Slots that were woken up for too late, and asked for again.
    pub late_wakes: u64,
    /// RPCs that a replica did not answer and that were sent again, here or elsewhere.
    pub failovers: u64,
    /// Whether no replica answers just now, and calls go on without the service.
    pub is_away: bool,
}

/// The counters while they count.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    served: AtomicU64,
    local: AtomicU64,
    bypass: AtomicU64,
    denied: AtomicU64,
    waited_us: AtomicU64,
    late_wakes: AtomicU64,
    failovers: AtomicU64,
}

impl Counters {
    pub(crate) fn slot(&self, path: Path, waited: Duration) {
        let calls = match path {
            Path::Served => &self.served,
            Path::Local => &self.local,
            Path::Bypass => &self.bypass,
        };
        add(calls, 1);
        add(&self.waited_us, u64::try_from(waited.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn denied(&self) {
        add(&self.denied, 1);
    }

    pub(crate) fn late_wake(&self) {
        add(&self.late_wakes, 1);
    }

    pub(crate) fn failover(&self) {
        add(&self.failovers, 1);
    }

    pub(crate) fn read(&self, is_away: bool) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            served: read(&self.served),
            local: read(&self.local),
            bypass: read(&self.bypass),
            denied: read(&self.denied),
            waited: Duration::from_micros(read(&self.waited_us)),
            late_wakes: read(&self.late_wakes),
            failovers: read(&self.failovers),
            is_away,
        }
    }
}

fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
