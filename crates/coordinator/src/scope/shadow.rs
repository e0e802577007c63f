//! Calls that are only watched: sent at once, charged with what they take, and told what would have been.

use std::sync::Arc;

use paceline_core::delays::{Cause, DelayPart};
use paceline_core::lease::Lease;
use paceline_core::mode::Mode;
use paceline_core::queue::{Ask, AskId};
use paceline_core::report::{self, Outcome};
use paceline_core::shadow::{self, Would};
use paceline_core::signal::{AnswerKind, Source};
use paceline_core::units::{FleetTime, Milli, Span};

use super::{AskInput, Call, Effects, Event, ReportInput, Scope};
use crate::api::Watched;
use crate::wire::{self, LeaseWire};

/// What has become of the calls that were only watched, since this replica has looked after the scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Asks that were let through.
    pub asks: u64,
    /// Of these: would have waited. Further attempts that would not have been needed are not counted again.
    pub would_wait: u64,
    /// Of these: would have been denied; likewise.
    pub would_deny: u64,
    /// Of these: the provider refused them, and they would not have been sent then.
    pub prevented: u64,
}

impl Scope {
    /// Lets a watched call go: judged as if it stood in line, charged as what it is.
    pub(super) fn watch(&mut self, id: AskId, now: FleetTime, fx: &mut Effects) {
        let ahead = self.queue.standing(id).present_ahead;
        let Some((waiting, parts)) = self.queue.remove(id, now) else { return };
        let Some(call) = self.forget_call(id) else { return };
        let would = self.would(&waiting.ask, &call, ahead, now);
        // It was counted with the attempt that would have waited instead of being refused.
        let is_needless = is_needless_retry(&call.input);
        let is_new = !is_needless;
        let mut slot = shadow::charge(&mut self.value, &waiting.ask, is_new, now);
        slot.delays = parts;
        self.watched.asks += 1;
        self.watched.would_wait += u64::from(is_new && would.wait > Span::ZERO);
        self.watched.would_deny += u64::from(is_new && would.denial.is_some());
        let event = Event::Watched {
            model: Arc::from(call.input.request.target.model.as_str()),
            wait: if is_new { would.wait } else { Span::ZERO },
            denied: would.denial.as_ref().filter(|_| is_new).map(|denial| denial.reason.name()),
            is_needless,
        };
        let delays =
            if would.wait > Span::ZERO { vec![DelayPart { cause: would.cause, length: would.wait }] } else { Vec::new() };
        let watched = Watched { wait: would.wait, denial: would.denial, delays };
        self.granted(waiting.ask, call, slot, Some(watched), now, fx);
        fx.events_on_commit.push(event);
    }

    /// What would become of a call behind those who really wait.
    fn would(&mut self, ask: &Ask, call: &Call, ahead: u64, now: FleetTime) -> Would {
        if is_needless_retry(&call.input) {
            return self.would_still(&call.input, now);
        }
        if let Some(denial) = &call.would_deny {
            return Would { wait: Span::ZERO, cause: Cause::plain(Source::None), denial: Some(denial.clone()) };
        }
        self.line.join(&mut self.value, ask, ahead, now)
    }

    /// What is left at `now` of what would have become of the call when its attempt before was sent: it has its place in the line, or
    /// was denied, so a further attempt takes none.
    fn would_still(&self, input: &AskInput, now: FleetTime) -> Would {
        let before = input.previous.as_ref().zip(input.previous_key.and_then(|key| self.records.get(&key)));
        let before = before.filter(|(lease, record)| record.lease.serial == wire::serial_of(lease));
        let Some((lease, watched)) = before.and_then(|(lease, record)| Some((lease, record.shadow.as_deref()?))) else {
            return Would { wait: Span::ZERO, cause: Cause::plain(Source::None), denial: None };
        };
        let slot = FleetTime::from_micros(lease.granted_at) + watched.wait;
        let cause = watched.delays.first().map_or_else(|| Cause::plain(Source::None), |part| part.cause.clone());
        Would { wait: slot.since(now).at_least_zero(), cause, denial: watched.denial.clone() }
    }

    /// A refusal that enforce would have prevented has been taken: the call used nothing, and may ask again in a world in which it
    /// need not; nobody in the line waits for what the provider said to it.
    pub(super) fn was_needless(&mut self, lease: &Lease, wire: &LeaseWire, now: FleetTime, fx: &mut Effects) {
        report::release(&mut self.value, lease);
        self.line.disregard_floors_of(&self.value, now);
        self.watched.prevented += 1;
        fx.events_on_commit.push(Event::Prevented { model: Arc::from(wire.model.as_str()) });
    }

    /// Gives the line back what an ended call reserved and did not use. A call that was sent before its turn keeps its place when it was
    /// not served: it would still wait there, or have been served by now.
    pub(super) fn settle_line(&mut self, lease: &Lease, wire: &LeaseWire, input: &ReportInput, now: FleetTime) {
        let is_unused = input.request.outcome == Outcome::ConnectionFailed;
        if is_needless(wire, input) || (is_unused && wire.held_back) {
            return;
        }
        for charge in lease.charges.iter().filter(|charge| !charge.held) {
            let meter = self.value.position(&charge.bucket).and_then(|index| self.value.buckets.get(index));
            let used = meter.and_then(|bucket| input.request.usage.of(&bucket.plan.meter)).map(Milli::from_units);
            let unused = match used {
                _ if is_unused => charge.amount,
                Some(used) => charge.amount - used,
                None => continue,
            };
            self.line.give_back(&self.value, &charge.bucket, lease.class, unused, now);
        }
    }
}

/// Whether this is a further attempt of a call that enforce would have sent later instead of letting it be refused: in that world it is
/// the first one. (After a time-out of a call that would have waited there would be a retry too; those are few.)
pub(super) fn is_needless_retry(input: &AskInput) -> bool {
    input.previous.as_ref().is_some_and(|previous| previous.held_back)
}

/// Whether the provider refused a call that enforce would not have sent then.
pub(super) fn is_needless(wire: &LeaseWire, input: &ReportInput) -> bool {
    let is_refusal = |kind| matches!(kind, AnswerKind::Throttled | AnswerKind::Overloaded);
    let was_refused = input.signal.as_ref().is_some_and(|signal| is_refusal(signal.kind));
    wire.held_back && wire::mode_of(wire) == Mode::Shadow && was_refused
}
