//! What calls used: remembered for those that do not say, and counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use paceline_core::charge::{is_stock, used_in};
use paceline_core::lease::Lease;
use paceline_core::plan::{BucketPlan, CONCURRENCY, GroupPlan};
use paceline_core::report::Outcome;
use paceline_core::signal::AnswerKind;
use paceline_core::units::{FleetTime, Span};
use paceline_core::usage::{CallKind, Form, LABEL};

use super::effects::tenant_or_default;
use super::{Effects, Event, ReportInput, Scope, UnitsOf};
use crate::api::{AcquireRequest, DEFAULT_TTL, LONGEST_TTL};
use crate::wire::{self, LeaseWire};

impl Scope {
    /// How long a lease of this call lives without a report: as it asks, else as long as a stock is held, else as learned of its
    /// model, else a minute.
    pub(super) fn ttl_of(&self, request: &AcquireRequest, plan: &GroupPlan) -> Span {
        let is_put_in = |bucket: &BucketPlan| is_stock(bucket) && request.cost.of(&bucket.meter).is_some();
        let into_stock = self.value.buckets_of(plan).any(is_put_in);
        let default = match into_stock {
            true => LONGEST_TTL,
            false => self.value.usage.lease_ttl(&request.target.model).unwrap_or(DEFAULT_TTL),
        };
        request.run_time.map_or(default, |asked| asked.max(Span::from_secs(1))).min(LONGEST_TTL)
    }

    /// Learns from the last report of a call, and counts what it used. One that comes after its lease has ended tells how long the
    /// call ran all the same: calls longer than their leases would never be heard of otherwise.
    pub(super) fn learn_use(
        &mut self,
        lease: &Lease,
        wire: &LeaseWire,
        input: &ReportInput,
        is_open: bool,
        now: FleetTime,
        fx: &mut Effects,
    ) {
        let answered = input.request.outcome == Outcome::Response;
        let went_well = answered && input.signal.as_ref().is_none_or(|signal| signal.kind == AnswerKind::Ok);
        if went_well || input.request.outcome == Outcome::Timeout {
            let ran = (now - input.request.age).since(lease.send_at);
            // What is held for hours says nothing about the calls that wait for an answer.
            if !lease.puts_into_stock() {
                self.value.usage.note_run(&Arc::from(wire.model.as_str()), ran, now);
            }
        }
        let was_sent = input.request.outcome != Outcome::ConnectionFailed;
        let was_refused =
            input.signal.as_ref().is_some_and(|signal| matches!(signal.kind, AnswerKind::Throttled | AnswerKind::Overloaded));
        if !is_open || !was_sent {
            return;
        }
        let mode = wire::mode_of(wire);
        if was_refused {
            fx.events_on_commit.push(Event::Spoilt { mode, units: self.spoilt(lease, input) });
            return;
        }
        let usage = &input.request.usage;
        if !usage.is_empty()
            && !input.request.usage_estimated
            && !lease.puts_into_stock()
            && let Ok(plan) = self.plan(&wire.model)
        {
            let stated = wire.cost.iter().map(|(meter, units)| (meter.as_str(), *units));
            let form = Form::of(&paceline_core::amounts::Amounts::from_pairs(stated)).max(Form::of(usage));
            self.value.note_usage(&kind_of(&wire.model, &wire.labels), &plan, form, usage, now);
        }
        fx.events_on_commit.push(Event::Used {
            model: Arc::from(wire.model.as_str()),
            tenant: Arc::from(tenant_or_default(&wire.tenant)),
            mode,
            is_retry: lease.attempt > 1,
            units: self.units(lease, input),
        });
    }

    /// Per meter what a refused call used all the same: one request, and what its report says.
    fn spoilt(&self, lease: &Lease, input: &ReportInput) -> Vec<UnitsOf> {
        let of = |units: UnitsOf| {
            let used = used_in(&input.request.usage, &units.meter).or((&*units.meter == REQUESTS).then_some(1))?;
            (used > 0).then_some(UnitsOf { used, overrun: 0, ..units })
        };
        self.units(lease, input).into_iter().filter_map(of).collect()
    }

    /// Per meter what was used (as reported, else as reserved), and what of it went beyond the reservation.
    fn units(&self, lease: &Lease, input: &ReportInput) -> Vec<UnitsOf> {
        let mut reserved: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        for charge in lease.charges.iter().filter(|charge| !(charge.held && &*charge.bucket.name == CONCURRENCY)) {
            let bucket = self.value.position(&charge.bucket).and_then(|index| self.value.buckets.get(index));
            let Some(meter) = bucket.map(|bucket| bucket.plan.meter.clone()) else { continue };
            let most = reserved.entry(meter).or_default();
            *most = charge.amount.as_units_floor().max(*most);
        }
        let units = reserved.into_iter().map(|(meter, reserved)| {
            let used = used_in(&input.request.usage, &meter).unwrap_or(reserved);
            UnitsOf { meter, used, overrun: used.saturating_sub(reserved) }
        });
        units.collect()
    }
}

/// The meter of the calls themselves.
const REQUESTS: &str = "requests";

/// The kind of a call.
pub(super) fn kind_of(model: &str, labels: &BTreeMap<String, String>) -> CallKind {
    CallKind::new(model, labels.get(LABEL).map_or("", String::as_str))
}
