//! What a scope knows of a call that somebody asks about, and what is remembered of those that leave it.

use std::sync::Arc;

use paceline_core::delays::{self, DelayPart};
use paceline_core::denial::Denial;
use paceline_core::mode::Mode;
use paceline_core::outlook;
use paceline_core::plan::Class;
use paceline_core::queue::AskId;
use paceline_core::report::Reported;
use paceline_core::retry::Verdict;
use paceline_core::signal::Source;
use paceline_core::units::FleetTime;

use super::{AskInput, Effects, Event, ReplyId, ReportInput, Scope};
use crate::api::Queued;
use crate::lives::{self, Asked, Ended, Found, Life, Stands};
use crate::record::Record;
use crate::wire::LeaseWire;

impl Scope {
    /// Calls that wait under this name or key, and the records that may be of it: these are looked through elsewhere.
    pub(super) fn find(&mut self, asked: &Asked, now: FleetTime) -> Found {
        let (ids, records): (Vec<AskId>, Vec<Arc<Record>>) = match asked {
            Asked::Key(key) => {
                (self.by_key.get(key).copied().into_iter().collect(), self.records.get(key).cloned().into_iter().collect())
            }
            Asked::Name(name) => {
                let named = self.calls.iter().filter(|(_, call)| call.input.request.request_id == *name);
                (named.map(|(id, _)| *id).collect(), self.records.values().cloned().collect())
            }
        };
        Found { waiting: ids.into_iter().filter_map(|id| self.life_in_line(id, now)).collect(), records }
    }

    fn life_in_line(&mut self, id: AskId, now: FleetTime) -> Option<Life> {
        let waiting = self.queue.get(id)?;
        let (ask, first_seen) = (waiting.ask.clone(), waiting.runner_up.clone());
        let binding = self.value.bind(&ask.plan, now);
        let seen = outlook::outlook(&self.value, &binding, &ask, now, true);
        let standing = self.queue.standing(id);
        let cause = self.queue.cause_of(id)?;
        let delays = self.queue.waited(id, now)?;
        let expected = self.estimate(&binding, &ask, &seen, standing.ahead, now);
        let stands = Stands::Waiting { cause, ahead: standing.ahead, expected, until: ask.wait_until };
        let input = &self.calls.get(&id)?.input;
        let life = of_ask(input, ask.class, delays, stands, now);
        Some(Life { asked_at: ask.asked_at, runner_up: first_seen.or(seen.runner_up), ..life })
    }
}

/// A call that is denied.
pub(super) fn denied(input: &AskInput, class: Class, denial: &Denial, parts: &[DelayPart], now: FleetTime) -> Event {
    Event::Left(Box::new(of_ask(input, class, parts.to_vec(), Stands::Denied(denial.clone()), now)))
}

/// A call that goes away with a ticket.
pub(super) fn sent_away(input: &AskInput, class: Class, queued: &Queued, now: FleetTime) -> Event {
    let stands = Stands::Away {
        cause: queued.binding.clone(),
        back_by: Some(now + queued.come_back_in),
        ahead: queued.ahead,
        expected: Some(queued.estimated_wait),
    };
    let life = of_ask(input, class, queued.delays.clone(), stands, now);
    Event::Left(Box::new(Life { runner_up: queued.runner_up.clone(), ..life }))
}

/// An attempt that was reported to its end.
pub(super) fn settled(
    input: &ReportInput,
    wire: &LeaseWire,
    record: Option<&Record>,
    done: &Reported,
    verdict: Verdict,
    now: FleetTime,
) -> Event {
    let ended = Ended {
        outcome: input.request.outcome,
        status: input.request.status,
        source: input.signal.as_ref().map_or(Source::None, |signal| signal.source),
        honored: done.honored,
    };
    Event::Left(Box::new(Life {
        known_at: now,
        delays: record.map(|record| record.delays.clone()).unwrap_or_default(),
        stands: Stands::Settled { ended: Some(ended), verdict },
        is_from_token: false,
        ..lives::of_lease(wire, now)
    }))
}

/// A slot that was given back.
pub(super) fn given_back(record: &Record, now: FleetTime) -> Event {
    Event::Left(Box::new(Life { known_at: now, stands: Stands::GivenBack, ..lives::of_record(record, now) }))
}

/// A lease of which nobody said how it ended: whoever saw the end knows better, so that it counts from its grant.
pub(super) fn forgotten(record: &Record, now: FleetTime) -> Option<Event> {
    (!record.is_over).then(|| Event::Left(Box::new(lives::of_record(record, now))))
}

impl Effects {
    /// Remembers what the answer to `reply` makes of its call: at once, unless the answer depends on the commit.
    pub(super) fn remember(&mut self, reply: ReplyId, event: Event) {
        if self.is_bound(reply) {
            self.events_on_commit.push(event);
        } else {
            self.events.push(event);
        }
    }
}

fn of_ask(input: &AskInput, class: Class, parts: Vec<DelayPart>, stands: Stands, now: FleetTime) -> Life {
    let request = &input.request;
    let waited = delays::total(&parts);
    Life {
        key: input.key,
        identity: request.identity.clone(),
        request_id: request.request_id.clone(),
        tenant: request.tenant.clone(),
        attempt: request.attempt.max(1),
        target: request.target.clone(),
        class: Some(class),
        mode: Mode::Enforce,
        asked_at: now - waited,
        known_at: now,
        waited,
        delays: parts,
        runner_up: None,
        stands,
        is_from_token: false,
    }
}
