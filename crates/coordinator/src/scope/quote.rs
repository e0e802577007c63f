//! What a scope would say to a call, without giving it a place; and what it knows of an attempt that was made here.

use std::sync::Arc;

use paceline_core::denial::{Denial, Reason};
use paceline_core::fallback_share;
use paceline_core::lease::Serial;
use paceline_core::mode::Mode;
use paceline_core::outlook;
use paceline_core::queue::Ask;
use paceline_core::retry::Verdict;
use paceline_core::units::{FleetTime, Span};
use paceline_core::verdict;

use super::ask::{Met, Standing, meaning};
use super::bounds::refusal;
use super::view::count;
use super::{AskInput, Scope};
use crate::api::{CallError, Denied};
use crate::record::{CallKey, Record};

/// What a scope would say to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Quote {
    /// It waits here, or has a slot here: any other scope would be a second one.
    Here,
    /// It would be sent after about this long.
    Wait(Span),
    /// It would be denied.
    Denied(Box<Denied>),
    /// Its key cannot be used (any more).
    Refused(CallError),
}

/// What is known of an attempt by the scope it was made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// Whether it may have run there.
    pub(crate) may_have_run: bool,
    /// Attempts of the call that may have been paid for, that one included.
    pub(crate) paid_attempts: u32,
    /// Why no other attempt is allowed anywhere, if none is.
    pub(crate) gave_up: Option<Reason>,
}

impl Elsewhere {
    /// What an attempt has come to whose outcome is known.
    pub(crate) fn of(record: &Record) -> Self {
        Self {
            may_have_run: record.may_have_run(),
            paid_attempts: record.paid_attempts,
            // Billing is that provider's affair.
            gave_up: record.gave_up().filter(|reason| *reason != Reason::QuotaExhausted),
        }
    }

    /// An attempt that nobody has heard of since it was granted.
    pub(crate) fn unknown(paid_before: u32) -> Self {
        Self { may_have_run: true, paid_attempts: paid_before.saturating_add(1), gave_up: None }
    }
}

impl Record {
    /// Whether the attempt may have run at the provider: it went through, it may have been paid for, or nobody knows.
    pub(crate) fn may_have_run(&self) -> bool {
        match self.verdict {
            Some(Verdict::Done) => true,
            Some(_) => self.paid_attempts > self.lease.paid_before,
            None => !self.was_released,
        }
    }
}

impl Scope {
    /// What is known here of an attempt; `None`: nothing (any more).
    pub(super) fn recall(&self, key: CallKey, serial: Serial) -> Option<Elsewhere> {
        let record = self.records.get(&key)?;
        let is_meant = record.lease.serial == serial;
        is_meant.then(|| Elsewhere::of(record))
    }

    /// What the call would be told here. Nothing is charged and no place is taken.
    pub(super) fn quote(&mut self, input: &Arc<AskInput>, now: FleetTime) -> Quote {
        let plan = match self.plan(&input.request.target.model) {
            Ok(plan) => plan,
            Err(error) => return Quote::Refused(error),
        };
        if let Some(known) = self.known_here(input, now) {
            return known;
        }
        if self.mode_of(&input.request) != Mode::Enforce {
            return Quote::Wait(Span::ZERO); // it is not made to wait
        }
        let past = self.past_of(input, now);
        let class = Standing::of(input, &*self.settings).class;
        let policy = *plan.class(class);
        let denied = |denial: Denial| Quote::Denied(Box::new(Denied { denial, delays: Vec::new() }));
        if let Some(refused) = refusal(&self.target.provider, input, class, &policy, &past)
            .or_else(|| self.tried_in_layers(input, policy.attempts))
        {
            return Quote::Denied(Box::new(refused));
        }
        let bounds = self.bounds(input, &policy, &past, now);
        let ask = self.line_up(input, plan, &policy, past, &bounds, now);
        if let Some(denial) = self.turned_away(input, &ask, now).or_else(|| verdict::hopeless(&mut self.value, &ask, now)) {
            return denied(denial);
        }
        let binding = self.value.bind(&ask.plan, now);
        let fallbacks = self.queue.kinds_of_group(&ask.plan.key).fallbacks;
        if ask.sent.is_fallback && input.ticket.is_none() && !fallback_share::has_room(&self.value, &binding, fallbacks, now) {
            return denied(Denial {
                reason: Reason::QueueFull,
                retry_after: Some(Span::from_secs(1)),
                detail: "it is near its own limit and takes a tenth of its rate from calls meant for others".to_owned(),
            });
        }
        let ahead = self.before(&ask);
        let seen = outlook::outlook(&self.value, &binding, &ask, now, ahead > 0);
        let wait = self.estimate(&binding, &ask, &seen, ahead, now);
        if now + wait > ask.wait_until {
            return denied(Denial {
                reason: Reason::Deadline,
                retry_after: Some(wait),
                detail: format!("with {ahead} calls before it, it would wait about {wait}, longer than it may"),
            });
        }
        Quote::Wait(wait)
    }

    /// Whether the call has a place or a slot here, or has used its key up.
    fn known_here(&self, input: &AskInput, now: FleetTime) -> Option<Quote> {
        if let Some(call) = self.by_key.get(&input.key).and_then(|id| self.calls.get(id))
            && call.input.print == input.print
        {
            return Some(Quote::Here);
        }
        let record = self.records.get(&input.key)?;
        match meaning(record, input, now) {
            Met::Free => None,
            Met::Usable | Met::Missed => Some(Quote::Here),
            Met::Refused(error) => Some(Quote::Refused(error)),
        }
    }

    /// How many calls of its group come before it: those of its class that are away with a ticket will be back.
    fn before(&self, ask: &Ask) -> u64 {
        let lanes = self.queue.lanes().filter(|(key, _)| key.group == ask.plan.key && key.class <= ask.class);
        let before = lanes.map(|(key, lane)| match key.class < ask.class {
            true => lane.waiting.len(),
            false => lane.before(ask.stamp),
        });
        count(before.sum())
    }
}
