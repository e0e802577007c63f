//! Nested calls in a scope: their families are read with each ask and written with each outcome.

use std::collections::HashMap;

use paceline_core::denial::Reason;
use paceline_core::plan::Class;
use paceline_core::retry::Verdict;
use paceline_core::units::FleetTime;

use super::{AskInput, Effects, ReportInput, Scope};
use crate::api::{AcquireRequest, Denied};
use crate::family::Family;
use crate::record::{CallKey, Kept};
use crate::wire::LeaseWire;

/// So many families are remembered between reads of the store.
const MOST_KNOWN: usize = 10_000;

/// The families that a replica has read or written; the store has them all.
#[derive(Debug, Default)]
pub(super) struct Families(HashMap<CallKey, Option<Family>>);

impl Families {
    pub(super) fn know(&mut self, key: CallKey, family: Family) {
        if self.0.len() >= MOST_KNOWN {
            self.0.clear();
        }
        self.0.insert(key, Some(family));
    }

    /// The store has none under this key.
    pub(super) fn know_none(&mut self, key: CallKey) {
        if self.0.len() < MOST_KNOWN {
            self.0.entry(key).or_insert(None);
        }
    }

    pub(super) fn knows(&self, key: &CallKey) -> bool {
        self.0.contains_key(key)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn get(&self, key: CallKey) -> Option<&Family> {
        self.0.get(&key)?.as_ref()
    }
}

/// The family of the call that encloses this one, if one is named.
fn parent_of(request: &AcquireRequest) -> Option<CallKey> {
    let is_named = !request.parent.is_empty() && request.parent != request.request_id;
    is_named.then(|| CallKey::of_family(&request.identity, &request.tenant, &request.parent))
}

impl AskInput {
    /// The families that an ask is bounded by: that of its parent, and of the calls made for its earlier attempts.
    pub(super) fn families(&self) -> [Option<CallKey>; 2] {
        let request = &self.request;
        let own = || CallKey::of_family(&request.identity, &request.tenant, &request.request_id);
        [parent_of(request), (request.attempt > 1).then(own)]
    }
}

impl ReportInput {
    /// The families that an outcome counts in, and those that the next attempt is bounded by.
    pub(super) fn families(&self) -> Vec<CallKey> {
        let Some(lease) = &self.lease else { return Vec::new() };
        let own = || CallKey::of_family(&lease.identity, &lease.tenant, &lease.request_id);
        above(lease).chain(self.request.retry.is_some().then(own)).collect()
    }
}

/// The families a lease's call belongs to, nearest first.
fn above(lease: &LeaseWire) -> impl Iterator<Item = CallKey> {
    lease.above.iter().filter_map(|key| CallKey::from_bytes(key))
}

impl Scope {
    /// Why a call gets no further attempt because of what nested layers have tried already, if so.
    pub(super) fn tried_in_layers(&self, input: &AskInput, most: u32) -> Option<Denied> {
        let request = &input.request;
        let [parent, own] = input.families();
        let class = request.class.name();
        let of_parent = parent.and_then(|key| self.families.get(key)).map_or(0, Family::spent);
        if of_parent >= most {
            let detail = format!(
                "{of_parent} attempts in a row made for the parent call {:?} have failed, over all layers, and a {class} call \
                 is sent {most} times at most",
                request.parent
            );
            return Some(Denied::at_once(Reason::AttemptsExhausted, None, detail));
        }
        let nested = own.and_then(|key| self.families.get(key)).map_or(0, |family| family.failures);
        let tried = nested.saturating_add(request.attempt.saturating_sub(1));
        (nested > 0 && tried >= most).then(|| {
            let detail = format!(
                "it is the parent of calls that failed {nested} times in a row, and with its own attempts a {class} call is \
                 sent {most} times at most"
            );
            Denied::at_once(Reason::AttemptsExhausted, None, detail)
        })
    }

    /// The families of a call that is granted a slot, nearest first; a first attempt also begins its own family, so that calls
    /// made for it count in those as well.
    pub(super) fn join_family(&mut self, request: &AcquireRequest, now: FleetTime, fx: &mut Effects) -> Vec<CallKey> {
        let Some(parent) = parent_of(request) else { return Vec::new() };
        let family = Family::below(parent, self.families.get(parent), now);
        let above = family.above.clone();
        if request.attempt <= 1 {
            let own = CallKey::of_family(&request.identity, &request.tenant, &request.request_id);
            self.keep_family(own, family, fx);
        }
        above
    }

    /// Counts an attempt that ended in the families it belongs to. Returns the verdict with that taken into account.
    pub(super) fn note_outcome(
        &mut self,
        class: Class,
        lease: &LeaseWire,
        verdict: Verdict,
        now: FleetTime,
        fx: &mut Effects,
    ) -> Verdict {
        if lease.above.is_empty() {
            return verdict;
        }
        let most = self.plan(&lease.model).map_or(u32::MAX, |plan| plan.class(class).attempts);
        let has_failed = verdict != Verdict::Done;
        let mut worst = 0;
        for key in above(lease).collect::<Vec<_>>() {
            let mut family = self.families.get(key).cloned().unwrap_or_default();
            let has_changed = family.note(has_failed, now);
            worst = worst.max(family.spent());
            if has_changed {
                self.keep_family(key, family, fx);
            }
        }
        match verdict {
            Verdict::Retry | Verdict::FailOver if worst >= most => Verdict::GiveUp(Reason::AttemptsExhausted),
            verdict => verdict,
        }
    }

    fn keep_family(&mut self, key: CallKey, family: Family, fx: &mut Effects) {
        self.families.know(key, family.clone());
        fx.write(key, Kept::Family(family), false);
    }
}
