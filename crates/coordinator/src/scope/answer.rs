//! Slots and places as answers: leases and tickets are made here.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use paceline_core::decide::Slot;
use paceline_core::delays::{DelayPart, RunnerUp};
use paceline_core::lease::{CallFloor, Charge};
use paceline_core::mode::Mode;
use paceline_core::outlook;
use paceline_core::plan::{CONCURRENCY, Class};
use paceline_core::queue::{Ask, AskId};
use paceline_core::units::{FleetTime, Span};
use prost::Message;

use super::effects::{Granted, Undo};
use super::shadow::is_needless_retry;
use super::undo::waited_so_far;
use super::view::count;
use super::{Call, Effects, Event, Scope, from_now, reply_to};
use crate::api::{Answer, Grant, Queued, Target, USE_WITHIN, Watched};
use crate::lease_body::LeaseBody;
use crate::record::Record;
use crate::scope::DecidedAs;
use crate::token::Kind;
use crate::wire::{self, ChargeWire, LeaseWire, PartWire, TargetWire, TicketWire};

impl Scope {
    /// Answers a call with its slot; `watched`: it is only watched, and this would have been.
    pub(super) fn granted(
        &mut self,
        ask: Ask,
        call: Call,
        slot: Slot,
        watched: Option<Watched>,
        now: FleetTime,
        fx: &mut Effects,
    ) {
        self.usual.note_costs(&slot.charges);
        let above = self.join_family(&call.input.request, now, fx);
        let mode = if watched.is_some() { Mode::Shadow } else { Mode::Enforce };
        let lease = LeaseWire {
            above: above.into_iter().map(|key| key.0.to_vec()).collect(),
            held_back: watched
                .as_ref()
                .is_some_and(|would| would.wait > Span::ZERO || would.denial.is_some() || is_needless_retry(&call.input)),
            ..self.lease(&ask, &call, &slot, mode, now)
        };
        let (record, grant) = self.record(&lease, &ask, &call, &slot, watched, now);
        self.move_flight(ask.class, None, Some(slot.hold_until));
        let event = Event::decided(&call.input.request, ask.class, mode, DecidedAs::Granted, slot.delays.clone());
        // A key that was given back has a record already; any other must be new, which is sure where all records are known.
        let must_be_new = !self.records.contains_key(&call.input.key) && self.may_meet_strangers(now);
        let record = Arc::new(record);
        self.know_record(call.input.key, record.clone());
        fx.write(call.input.key, record, must_be_new);
        let reply = reply_to(call.report.clone(), Ok(Answer::Granted(Box::new(grant))));
        fx.answer_on_commit(call.reply, reply, event);
        let waited = waited_so_far(slot.delays, slot.send_at.since(now));
        fx.undo.push(Undo::Ask(Box::new(Granted { ask, call, hold_until: slot.hold_until, waited })));
    }

    /// What is kept of a slot, and its grant.
    pub(super) fn record(
        &self,
        lease: &LeaseWire,
        ask: &Ask,
        call: &Call,
        slot: &Slot,
        watched: Option<Watched>,
        now: FleetTime,
    ) -> (Record, Grant) {
        let record = Record {
            lease: LeaseBody::of(lease),
            print: call.input.print,
            is_over: false,
            was_released: false,
            told_again: 0,
            seq: 0,
            answered: false,
            has_begun: false,
            hold_until: slot.hold_until,
            ends_at: slot.send_at + ask.ttl,
            call_floor: None,
            paid_attempts: call.history.paid_attempts,
            verdict: None,
            delays: slot.delays.clone(),
            shadow: watched.map(Box::new),
        };
        let mut grant = self.grant(&record, lease, &slot.charges, now);
        grant.estimated = estimated(ask, slot, &grant);
        grant.place_lost = call.place_lost;
        grant.runner_up = slot.runner_up.clone();
        (record, grant)
    }

    /// The grant that a record stands for, with `wait` counted from now.
    pub(super) fn grant_again(&self, record: &Record, now: FleetTime) -> Grant {
        let lease = record.lease.wire();
        self.grant(record, &lease, &wire::lease_of(&lease).charges, now)
    }

    fn grant(&self, record: &Record, lease: &LeaseWire, charges: &[Charge], now: FleetTime) -> Grant {
        let mut reserved: BTreeMap<String, u64> = BTreeMap::new();
        for charge in charges.iter().filter(|charge| !charge.held || &*charge.bucket.name != CONCURRENCY) {
            let units = charge.amount.as_units_floor();
            let meter = self.value.position(&charge.bucket).and_then(|index| self.value.buckets.get(index));
            let meter = meter.map_or_else(|| charge.bucket.name.to_string(), |bucket| bucket.plan.meter.to_string());
            let most = reserved.entry(meter).or_default();
            *most = units.max(*most);
        }
        let send_at = FleetTime::from_micros(lease.send_at);
        Grant {
            lease_id: URL_SAFE_NO_PAD.encode(self.keyring.seal(Kind::Lease, record.lease.bytes())),
            target: Target { provider: lease.provider.clone(), account: lease.account.clone(), model: lease.model.clone() },
            wait: from_now(send_at, now),
            // From the slot on, or from now where that has passed: a repeated grant is no longer good than the first.
            use_within: from_now(record.lease.use_by, now.max(send_at)),
            ttl: Span::from_micros(lease.ttl),
            reserved,
            estimated: Vec::new(),
            place_lost: false,
            delays: record.delays.clone(),
            runner_up: None,
            mode: record.lease.mode,
            shadow: record.shadow.clone(),
        }
    }

    pub(super) fn lease(&mut self, ask: &Ask, call: &Call, slot: &Slot, mode: Mode, now: FleetTime) -> LeaseWire {
        let request = &call.input.request;
        LeaseWire {
            serial: Some(self.next_serial(now).into()),
            stamp: Some(ask.stamp.into()),
            provider: self.target.provider.clone(),
            account: self.target.account.clone(),
            model: request.target.model.clone(),
            group: slot.group.to_string(),
            group_mark: slot.group_mark,
            charges: slot.charges.iter().map(ChargeWire::from).collect(),
            class: u32::try_from(ask.class.index()).unwrap_or(1),
            attempt: request.attempt.max(1),
            asked_at: ask.asked_at.as_micros(),
            granted_at: now.as_micros(),
            send_at: slot.send_at.as_micros(),
            use_by: (slot.send_at + USE_WITHIN).as_micros(),
            ttl: ask.ttl.as_micros(),
            hold_until: slot.hold_until.as_micros(),
            deadline: call.deadline.map(FleetTime::as_micros),
            repeat: wire::repeat_number(request.repeat),
            waited: call.history.waited.as_micros(),
            paid_attempts: call.history.paid_attempts,
            key: call.input.key.0.to_vec(),
            request_id: request.request_id.clone(),
            tenant: request.tenant.clone(),
            cost: request.cost.iter().map(|(meter, units)| (meter.to_string(), units)).collect(),
            cost_estimated: request.cost_estimated,
            max_wait: request.max_wait.map_or(-1, Span::as_micros),
            labels: request.labels.clone(),
            parent: request.parent.clone(),
            identity: request.identity.clone(),
            mode: wire::mode_number(mode),
            held_back: false,
            above: Vec::new(),
            ran_at: call.ran_at.clone(),
            candidates: call.input.candidates.iter().map(TargetWire::from).collect(),
        }
    }

    /// Takes a waiting call out of line with a ticket for its place.
    pub(super) fn queue_ticket(&mut self, id: AskId, now: FleetTime) -> Option<(Queued, Class)> {
        let waiting = self.queue.get(id)?;
        let ask = waiting.ask.clone();
        let binding = self.value.bind(&ask.plan, now);
        let seen = outlook::outlook(&self.value, &binding, &ask, now, true);
        let standing = self.queue.standing(id);
        let lane = self.queue.lane_of(id)?;
        let absent_ahead = standing.ahead.saturating_sub(count(lane.waiting.range(..ask.stamp).count()));
        let cause = self.queue.cause_of(id)?;
        let runner_up: Option<RunnerUp> = waiting.runner_up.clone().or(seen.runner_up.clone());
        let estimated = self.estimate(&binding, &ask, &seen, standing.present_ahead + absent_ahead, now);
        let charges = binding.buckets.iter().map(|index| outlook::charge_for(&self.value, &ask, *index).0).collect();
        let lead = Span::from_micros(estimated.as_micros() / 10).max(Span::from_secs(1));
        // Whoever is away when its time in line ends has waited for nothing: it comes back before.
        let until_back = estimated.min(ask.wait_until.since(now)) - lead;
        // Who is paused is told at once when somebody ends the pause: it waits here, not elsewhere.
        let stays = self.is_draining || ask.pause.as_ref().is_some_and(|pause| pause.until > now);
        let come_back_in = if stays { Span::ZERO } else { until_back.at_least_zero().min(Span::from_secs(30)) };
        let (waiting, parts) = self.queue.leave(id, now, now + come_back_in + Span::from_secs(2), charges)?;
        let call = self.calls.get(&id)?;
        let ask = &waiting.ask;
        let floor: Option<CallFloor> = ask.not_before;
        let ticket = TicketWire {
            key: call.input.key.0.to_vec(),
            stamp: Some(ask.stamp.into()),
            asked_at: ask.asked_at.as_micros(),
            left_at: now.as_micros(),
            parts: parts.iter().map(PartWire::from).collect(),
            waiting_for: Some(PartWire::from(&DelayPart { cause: cause.clone(), length: Span::ZERO })),
            call_floor: floor.map(|floor| floor.until.as_micros()),
            call_floor_source: floor.map_or(0, |floor| u32::from(floor.source as u8)),
            waited: call.history.waited.as_micros(),
            paid_attempts: call.history.paid_attempts,
            provider: self.target.provider.clone(),
            account: self.target.account.clone(),
            ran_at: call.ran_at.clone(),
            model: call.input.request.target.model.clone(),
            is_first: false,
        };
        let queued = Queued {
            ticket: self.keyring.seal(Kind::Ticket, &ticket.encode_to_vec()),
            come_back_in,
            estimated_wait: estimated,
            ahead: standing.ahead,
            place_lost: call.place_lost,
            delays: parts,
            binding: cause,
            runner_up,
        };
        Some((queued, ask.class))
    }
}

/// The meters that were filled in, or cut to what fits.
fn estimated(ask: &Ask, slot: &Slot, grant: &Grant) -> Vec<String> {
    let filled_in = slot.estimated.iter().map(|(meter, _)| meter.to_string());
    let is_cut = |meter: &str, units: u64| ask.cost.of(meter).is_some_and(|stated| units < stated);
    let cut = grant.reserved.iter().filter(|(meter, units)| is_cut(meter, **units)).map(|(meter, _)| meter.clone());
    let mut meters: Vec<String> = filled_in.chain(cut).collect();
    meters.sort();
    meters.dedup();
    meters
}
