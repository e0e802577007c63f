//! Calls made for an enclosing call: their failures count against one bound, however many layers retry.
//!
//! Each layer that retries five times makes five times as many attempts of the layer below; three layers make 125 of one. So a
//! failed attempt of a nested call counts in the family of every call that encloses it, and a family whose failures reach the
//! bound gets no further attempt. A success clears them: what is bounded are failures in a row, not the work of a parent that
//! makes many calls and meets a refusal now and then.

use paceline_core::units::{FleetTime, Span};

use crate::record::CallKey;
use crate::wire::FamilyWire;

/// The most enclosing calls that are known of one call, nearest first.
const MOST_LAYERS: usize = 8;
/// How long a family is remembered after its last change: longer than any pause between two attempts of one call is useful.
const KEPT_FOR: Span = Span::from_secs(1_800);

/// What is kept about the calls made for one enclosing call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Family {
    /// The families that this enclosing call itself belongs to, nearest first.
    pub(crate) above: Vec<CallKey>,
    /// Failures that the enclosing call's own parent had met when it was granted.
    pub(crate) inherited: u32,
    /// Attempts of nested calls that failed since the last success.
    pub(crate) failures: u32,
    /// When it was last changed.
    pub(crate) changed_at: FleetTime,
}

impl CallKey {
    /// The key of the family of an enclosing call.
    pub(crate) fn of_family(identity: &str, tenant: &str, request_id: &str) -> Self {
        let identity = if identity.is_empty() { "anonymous" } else { identity };
        // One part more than the key of an attempt, so that the two never meet.
        let parts = [identity.as_bytes(), tenant.as_bytes(), request_id.as_bytes(), b"", b"family"];
        Self(crate::record::digest(&parts))
    }
}

impl Family {
    /// Failures that count against the next attempt of a nested call.
    pub(crate) fn spent(&self) -> u32 {
        self.failures.saturating_add(self.inherited)
    }

    /// The family of a call that is itself nested in the one with this key, as it begins.
    pub(crate) fn below(parent: CallKey, of_parent: Option<&Self>, now: FleetTime) -> Self {
        let above = of_parent.map(|family| family.above.as_slice()).unwrap_or_default();
        Self {
            above: std::iter::once(parent).chain(above.iter().copied()).take(MOST_LAYERS).collect(),
            inherited: of_parent.map_or(0, Self::spent),
            failures: 0,
            changed_at: now,
        }
    }

    /// Takes an attempt of a nested call that ended. Returns whether that changed anything.
    pub(crate) fn note(&mut self, has_failed: bool, now: FleetTime) -> bool {
        let before = (self.failures, self.inherited);
        (self.failures, self.inherited) = match has_failed {
            true => (self.failures.saturating_add(1), self.inherited),
            false => (0, 0),
        };
        let has_changed = before != (self.failures, self.inherited);
        if has_changed {
            self.changed_at = now;
        }
        has_changed
    }

    /// Until when it is kept.
    pub(crate) fn keep_until(&self) -> FleetTime {
        self.changed_at + KEPT_FOR
    }
}

impl From<&Family> for FamilyWire {
    fn from(family: &Family) -> Self {
        Self {
            above: family.above.iter().map(|key| key.0.to_vec()).collect(),
            inherited: family.inherited,
            failures: family.failures,
            changed_at: family.changed_at.as_micros(),
        }
    }
}

impl From<FamilyWire> for Family {
    fn from(wire: FamilyWire) -> Self {
        Self {
            above: wire.above.iter().filter_map(|key| CallKey::from_bytes(key)).take(MOST_LAYERS).collect(),
            inherited: wire.inherited,
            failures: wire.failures,
            changed_at: FleetTime::from_micros(wire.changed_at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_know_those_above_them_within_bounds() {
        let mut family = Family::default();
        for layer in 0..20_u8 {
            let parent = CallKey([layer; 16]);
            family = Family::below(parent, Some(&family), FleetTime::ZERO);
            assert_eq!(family.above[0], parent);
        }
        assert_eq!(family.above.len(), MOST_LAYERS);
    }

    #[test]
    fn a_success_clears_what_failed_before() {
        let mut family = Family { inherited: 1, ..Family::default() };
        assert!(family.note(true, FleetTime::from_secs(1)) && family.spent() == 2);
        assert!(family.note(false, FleetTime::from_secs(2)) && family.spent() == 0);
        assert!(!family.note(false, FleetTime::from_secs(9)), "nothing to write");
        assert_eq!(family.changed_at, FleetTime::from_secs(2));
    }

    #[test]
    fn a_family_is_no_attempt() {
        let family = CallKey::of_family("", "t", "A");
        assert!((0..9).all(|attempt| CallKey::new("", "t", "A", attempt) != family));
        assert_ne!(family, CallKey::of_family("me", "t", "A"));
    }
}
