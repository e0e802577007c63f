//! Who decides about a scope: this replica, or another one to which its calls are to be sent on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paceline_core::leader::Leader;
use paceline_core::units::{FleetTime, Span};

/// So long after its end a lead still says where calls go first: an idle leader takes it up again with the first one.
pub(crate) const KNOWN_FOR: Span = Span::from_secs(10);

/// Which replica decides about a scope, as far as this one knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lead {
    /// This one.
    Here,
    /// Another one.
    At {
        /// Its number.
        replica: u32,
        /// Where it is reached: `host:port`.
        address: Arc<str>,
    },
    /// Nobody that is known of.
    Unknown,
}

/// What a scope's actor last saw of its leader, for those who are about to call it.
#[derive(Debug)]
pub(crate) struct LeadCell {
    replica: u32,
    seen: Mutex<Option<Leader>>,
    others: Arc<AtomicBool>,
}

impl LeadCell {
    /// Of this replica; `others` becomes true when another one was seen to lead.
    pub(crate) fn new(replica: u32, others: Arc<AtomicBool>) -> Self {
        Self { replica, seen: Mutex::new(None), others }
    }

    pub(crate) fn see(&self, leader: Option<&Leader>) {
        let mut seen = self.seen();
        if seen.as_ref() != leader {
            *seen = leader.cloned();
        }
        if leader.is_some_and(|leader| leader.replica != self.replica) {
            self.others.store(true, Ordering::Release);
        }
    }

    /// Whether this replica leads the scope, or did until a moment ago.
    pub(crate) fn is_led(&self, now: FleetTime) -> bool {
        self.seen().as_ref().is_some_and(|leader| leader.replica == self.replica && now < leader.until + KNOWN_FOR)
    }

    /// Whether another replica was the last that was seen to lead, and so is the one to tell what the scope's state is.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.seen().as_ref().is_some_and(|leader| leader.replica != self.replica)
    }

    /// The store does not answer, so nobody can tell whether another replica still leads: it is asked first all the same, because
    /// it may reach the store.
    pub(crate) fn keep(&self, now: FleetTime) {
        if let Some(leader) = self.seen().as_mut() {
            leader.until = leader.until.max(now);
        }
    }

    /// Who leads, or did a moment ago, whoever that is.
    pub(crate) fn known(&self, now: FleetTime) -> Option<Leader> {
        self.seen().as_ref().filter(|leader| now < leader.until + KNOWN_FOR).cloned()
    }

    pub(crate) fn lead(&self, now: FleetTime) -> Lead {
        match self.seen().as_ref() {
            Some(leader) if leader.replica == self.replica => Lead::Here,
            Some(leader) if now < leader.until + KNOWN_FOR => {
                Lead::At { replica: leader.replica, address: leader.address.clone() }
            }
            _ => Lead::Unknown,
        }
    }

    fn seen(&self) -> MutexGuard<'_, Option<Leader>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
