//! Which replica decides about a scope: one at a time, so that order is exact and nobody's commit is in another's way.
//!
//! A lead makes nothing safe by itself: every commit is fenced by the version it was decided on. Who believes to lead while
//! another does only costs order and a second try.

use std::sync::Arc;

use crate::units::{FleetTime, Span};

/// A lead lasts this long after the leader's last commit.
pub const LEADS_FOR: Span = Span::from_secs(1);

/// The replica that leads a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Its number.
    pub replica: u32,
    /// Where other replicas reach it: `host:port`.
    pub address: Arc<str>,
    /// Until when, unless it commits again.
    pub until: FleetTime,
}

impl Leader {
    /// Whether it leads at `now`.
    pub fn holds_at(&self, now: FleetTime) -> bool {
        now < self.until
    }
}

/// Who leads after a commit by `replica` at `now`: itself, unless another one does; a replica without an address cannot lead.
pub fn after_commit(standing: Option<&Leader>, replica: u32, address: Option<&Arc<str>>, now: FleetTime) -> Option<Leader> {
    match (standing.filter(|leader| leader.replica != replica && leader.holds_at(now)), address) {
        (Some(other), _) => Some(other.clone()),
        (None, Some(address)) => Some(Leader { replica, address: address.clone(), until: now + LEADS_FOR }),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: FleetTime = FleetTime::from_secs(1_800_000_000);

    #[test]
    fn a_lead_is_taken_renewed_kept_from_others_and_inherited() {
        let (mine, theirs): (Arc<str>, Arc<str>) = (Arc::from("a:1"), Arc::from("b:1"));
        let first = after_commit(None, 1, Some(&mine), NOW).unwrap();
        assert_eq!((first.replica, first.until), (1, NOW + LEADS_FOR));
        let half = NOW + Span::from_millis(500);
        assert_eq!(after_commit(Some(&first), 2, Some(&theirs), half).unwrap(), first, "a commit of another takes nothing");
        let renewed = after_commit(Some(&first), 1, Some(&mine), half).unwrap();
        assert_eq!(renewed.until, half + LEADS_FOR);
        assert_eq!(after_commit(Some(&first), 2, Some(&theirs), NOW + LEADS_FOR).unwrap().replica, 2, "its time is over");
        assert_eq!(after_commit(None, 2, None, NOW), None, "nobody could reach it");
    }
}
