//! Whether a further attempt of a reported call could come in time: what its buckets, floors and bounds say now.

use std::sync::Arc;

use paceline_core::amounts::Amounts;
use paceline_core::denial::{Denial, Reason};
use paceline_core::lease::{CallFloor, Lease};
use paceline_core::plan::{ClassPolicy, GroupPlan};
use paceline_core::queue::Ask;
use paceline_core::tally::Sent;
use paceline_core::units::{FleetTime, Span};
use paceline_core::verdict;

use super::used::kind_of;
use super::{ReportInput, Scope};
use crate::wire::LeaseWire;

impl Scope {
    /// Why the next attempt would be pointless even if nobody else wanted anything, if it would be. `policy` with the call's own
    /// `max_wait`.
    pub(super) fn pointless(
        &mut self,
        (lease, wire): (&Lease, &LeaseWire),
        input: &ReportInput,
        plan: Arc<GroupPlan>,
        policy: &ClassPolicy,
        call_floor: Option<CallFloor>,
        now: FleetTime,
    ) -> Option<Denial> {
        let run = self.typical_run(&wire.model);
        let retry = input.request.retry.as_ref();
        let max_wait = retry.and_then(|retry| retry.max_wait).unwrap_or(policy.max_wait);
        let by_max_wait = now + (max_wait - lease.history.waited - lease.waited()).at_least_zero();
        let by_deadline = lease.deadline.map(|deadline| deadline - run);
        let pause = self.pause_of(&wire.model, &wire.tenant, lease.class);
        let as_before = || Amounts::from_pairs(wire.cost.iter().map(|(meter, units)| (meter.as_str(), *units)));
        let next = Ask {
            id: 0,
            stamp: lease.stamp,
            sent: Sent { is_retry: true, is_fallback: false },
            class: lease.class,
            tenant: Arc::from(wire.tenant.as_str()),
            weight: self.settings.tenant(&wire.tenant).weight,
            plan,
            cost: retry.map(|retry| &retry.cost).filter(|cost| !cost.is_empty()).cloned().unwrap_or_else(as_before),
            kind: kind_of(&wire.model, &wire.labels),
            cost_estimated: wire.cost_estimated,
            asked_at: now,
            entered_at: now,
            wait_until: by_deadline.map_or(by_max_wait, |latest| latest.min(by_max_wait)),
            until_deadline: by_deadline.is_some_and(|latest| latest < by_max_wait),
            run,
            honor_cap: policy.honor_cap,
            not_before: call_floor,
            pause,
            ttl: Span::from_secs(1),
            prior: Vec::new(),
        };
        // One that is too large is told so in words, as the answer to its ask.
        verdict::hopeless(&mut self.value, &next, now).filter(|denial| denial.reason != Reason::CostExceedsCapacity)
    }
}
