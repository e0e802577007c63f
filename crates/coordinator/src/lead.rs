//! Who decides about a scope: this replica, or another one to which its calls are to be sent on.

use std::sync::{Arc, Mutex, PoisonError};

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
#[derive(Debug, Default)]
pub(crate) struct LeadCell(Mutex<Option<Leader>>);

impl LeadCell {
    pub(crate) fn see(&self, leader: Option<&Leader>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.as_ref() != leader {
            *seen = leader.cloned();
        }
    }

    /// Whether this replica leads the scope, or did until a moment ago.
    pub(crate) fn is_led(&self, replica: u32, now: FleetTime) -> bool {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.as_ref().is_some_and(|leader| leader.replica == replica && now < leader.until + KNOWN_FOR)
    }

    /// The store does not answer, so nobody can tell whether another replica still leads: it is asked first all the same, because
    /// it may reach the store.
    pub(crate) fn keep(&self, now: FleetTime) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(leader) = seen.as_mut() {
            leader.until = leader.until.max(now);
        }
    }

    /// Who leads, or did a moment ago, whoever that is.
    pub(crate) fn known(&self, now: FleetTime) -> Option<Leader> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.as_ref().filter(|leader| now < leader.until + KNOWN_FOR).cloned()
    }

    pub(crate) fn lead(&self, replica: u32, now: FleetTime) -> Lead {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.as_ref() {
            Some(leader) if leader.replica == replica => Lead::Here,
            Some(leader) if now < leader.until + KNOWN_FOR => {
                Lead::At { replica: leader.replica, address: leader.address.clone() }
            }
            _ => Lead::Unknown,
        }
    }
}
