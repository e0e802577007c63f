//! The life of a call, for whoever asks why it waits: from the line, from its record, from its token, and from what is
//! remembered of the last calls that ended.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use paceline_core::delays::{Cause, DelayPart, RunnerUp};
use paceline_core::denial::Denial;
use paceline_core::mode::Mode;
use paceline_core::plan::Class;
use paceline_core::report::Outcome;
use paceline_core::retry::Verdict;
use paceline_core::signal::Source;
use paceline_core::units::{FleetTime, Span};
use paceline_store::{RecordKey, ScopeKey, Store};

use crate::api::Target;
use crate::front::Coordinator;
use crate::inputs::{open_lease, open_place};
use crate::record::{CallKey, Kept, Record};
use crate::scope::{Input, Reply};
use crate::wire::{self, LeaseWire, TicketWire};

/// So many calls that ended, and as many that went away with a ticket, are remembered.
const MOST_REMEMBERED: usize = 10_000;

/// What is known of one attempt of a call. It holds no header, no body, no label and no token.
#[derive(Clone, Debug, PartialEq)]
pub struct Life {
    /// Names the attempt.
    pub key: CallKey,
    /// Who asked; empty: anonymous, or not known.
    pub identity: String,
    /// Its name; empty: not known, as a ticket does not hold it.
    pub request_id: String,
    /// For whom.
    pub tenant: String,
    /// From 1; 0: not known.
    pub attempt: u32,
    /// Where it goes.
    pub target: Target,
    /// How urgent; `None`: not known.
    pub class: Option<Class>,
    /// What is done with it.
    pub mode: Mode,
    /// When the attempt was first asked for.
    pub asked_at: FleetTime,
    /// When this was so.
    pub known_at: FleetTime,
    /// How long it waited, so far or in all.
    pub waited: Span,
    /// The same by cause; empty where that is not remembered.
    pub delays: Vec<DelayPart>,
    /// What else would have held it up, while it waits.
    pub runner_up: Option<RunnerUp>,
    /// Where it stands.
    pub stands: Stands,
    /// Nobody remembers it: this is what its lease or ticket says itself.
    pub is_from_token: bool,
}

/// Where a call stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Stands {
    /// Its caller went away with a ticket.
    Away {
        /// What it waited for then.
        cause: Cause,
        /// When it was to come back; `None`: not known.
        back_by: Option<FleetTime>,
        /// How many were before it in its lane.
        ahead: u64,
        /// How long it was to wait, from then.
        expected: Option<Span>,
    },
    /// In line.
    Waiting {
        /// For what.
        cause: Cause,
        /// How many are before it in its lane, those away included.
        ahead: u64,
        /// How long, from now.
        expected: Span,
        /// When it is denied at the latest.
        until: FleetTime,
    },
    /// It has a slot.
    Granted {
        /// When it may be sent.
        send_at: FleetTime,
        /// When its lease ends without a further report.
        ends_at: FleetTime,
        /// Whether anything was reported of it.
        is_sent: bool,
    },
    /// Its lease ended without a report.
    Expired {
        /// When.
        at: FleetTime,
    },
    /// It was reported to its end.
    Settled {
        /// How it went; `None`: only the verdict is remembered.
        ended: Option<Ended>,
        /// What its worker was told to do.
        verdict: Verdict,
    },
    /// Its slot was given back unused.
    GivenBack,
    /// It got no slot.
    Denied(Denial),
}

/// How an attempt went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub outcome: Outcome,
    /// HTTP status; 0: none.
    pub status: u32,
    /// Where in the answer a wait was read.
    pub source: Source,
    /// For how long others are held back because of it.
    pub honored: Span,
}

/// Which call is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// All attempts under this name.
    Name(String),
    /// One attempt.
    Key(CallKey),
}

impl Asked {
    fn means(&self, life: &Life) -> bool {
        match self {
            Self::Name(name) => life.request_id == *name,
            Self::Key(key) => life.key == *key,
        }
    }
}

/// What a scope knows of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Those that wait.
    pub waiting: Vec<Life>,
    /// The records to look through.
    pub records: Vec<Arc<Record>>,
}

/// The last calls that ended here, or went away with a ticket.
#[derive(Debug, Default)]
pub(crate) struct Lives(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    ended: VecDeque<Life>,
    away: VecDeque<Life>,
}

impl Lives {
    /// Remembers one.
    pub(crate) fn note(&self, life: Life) {
        let mut remembered = self.remembered();
        let is_away = matches!(life.stands, Stands::Away { .. });
        let ring = if is_away { &mut remembered.away } else { &mut remembered.ended };
        let oldest = if ring.len() < MOST_REMEMBERED { None } else { ring.pop_front() };
        ring.push_back(life);
        drop(remembered);
        // It is freed when nobody waits for the lock.
        drop(oldest);
    }

    fn find(&self, asked: &Asked) -> Vec<Life> {
        let remembered = self.remembered();
        remembered.ended.iter().chain(&remembered.away).filter(|life| asked.means(life)).cloned().collect()
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Store> Coordinator<S> {
    /// What is known here of a call, given its name, its lease or its ticket (in base64): every piece, those of one attempt in no
    /// order. Empty: it was never asked for here, or longer ago than is remembered.
    pub async fn lives(&self, call: &str) -> Vec<Life> {
        let now = self.now();
        let (asked, own) = self.meant(call, now);
        let live = self.live_targets();
        let (only, mut lives) = match own {
            Some(own) => (Some(ScopeKey::new(&own.target.provider, &own.target.account)), vec![own]),
            None => (None, Vec::new()),
        };
        for target in live {
            let scope = ScopeKey::new(&target.provider, &target.account);
            if only.is_none_or(|only| only == scope)
                && let Ok(Reply::Found(found)) = self.call(&target, |id| Input::Find(id, Box::new(asked.clone()))).await
            {
                lives.extend(found.waiting);
                lives.extend(found.records.iter().map(|record| of_record(record, now)).filter(|life| asked.means(life)));
            }
        }
        if let (Some(scope), Asked::Key(key)) = (only, &asked) {
            lives.extend(self.stored(&scope, *key, now).await);
        }
        // Last: what ended while the others were asked is among them.
        lives.extend(self.inner().lives.find(&asked));
        lives
    }

    async fn stored(&self, scope: &ScopeKey, key: CallKey, now: FleetTime) -> Option<Life> {
        let found = self.inner().store.records(scope, &[RecordKey(key.0)]).await.ok()?;
        match Record::decode(&found.into_iter().flatten().next()?)? {
            Kept::Call(record) => Some(of_record(&record, now)),
            Kept::Family(_) => None,
        }
    }

    /// Which call these words mean, and what they say of it themselves if they are a token.
    fn meant(&self, call: &str, now: FleetTime) -> (Asked, Option<Life>) {
        if let Ok((Some(lease), true)) = open_lease(call, self.keyring()) {
            let life = of_lease(&lease, now);
            return (Asked::Key(life.key), Some(life));
        }
        let bytes = STANDARD.decode(call).or_else(|_| URL_SAFE_NO_PAD.decode(call.trim_end_matches('=')));
        if let Some(ticket) = bytes.ok().and_then(|bytes| open_place(&bytes, self.keyring())) {
            let life = of_ticket(ticket);
            return (Asked::Key(life.key), Some(life));
        }
        (Asked::Name(call.to_owned()), None)
    }
}

/// What a lease says of its call.
pub(crate) fn of_lease(wire: &LeaseWire, now: FleetTime) -> Life {
    let [asked_at, granted_at, send_at] = [wire.asked_at, wire.granted_at, wire.send_at].map(FleetTime::from_micros);
    let ends_at = send_at + Span::from_micros(wire.ttl);
    let stands =
        if ends_at <= now { Stands::Expired { at: ends_at } } else { Stands::Granted { send_at, ends_at, is_sent: false } };
    Life {
        key: CallKey::from_bytes(&wire.key).unwrap_or(CallKey([0; 16])),
        identity: wire.identity.clone(),
        request_id: wire.request_id.clone(),
        tenant: wire.tenant.clone(),
        attempt: wire.attempt,
        target: Target { provider: wire.provider.clone(), account: wire.account.clone(), model: wire.model.clone() },
        class: usize::try_from(wire.class).ok().and_then(|class| Class::ALL.get(class)).copied(),
        mode: wire::mode_of(wire),
        asked_at,
        known_at: granted_at,
        waited: send_at.since(asked_at).at_least_zero(),
        delays: Vec::new(),
        runner_up: None,
        stands,
        is_from_token: true,
    }
}

/// What a ticket says of its call; it does not hold its name.
fn of_ticket(ticket: TicketWire) -> Life {
    let left_at = FleetTime::from_micros(ticket.left_at);
    let asked_at = FleetTime::from_micros(ticket.asked_at);
    let cause = ticket.waiting_for.map_or_else(|| Cause::plain(Source::None), |part| DelayPart::from(part).cause);
    Life {
        key: CallKey::from_bytes(&ticket.key).unwrap_or(CallKey([0; 16])),
        identity: String::new(),
        request_id: String::new(),
        tenant: String::new(),
        attempt: 0,
        target: Target { provider: ticket.provider, account: ticket.account, model: ticket.model },
        class: None,
        mode: Mode::Enforce,
        asked_at,
        known_at: left_at,
        waited: left_at.since(asked_at).at_least_zero(),
        delays: ticket.parts.into_iter().map(DelayPart::from).collect(),
        runner_up: None,
        stands: Stands::Away { cause, back_by: None, ahead: 0, expected: None },
        is_from_token: true,
    }
}

/// What a record says of its call. It does not hold when its call ended, so whoever saw the end knows better.
pub(crate) fn of_record(record: &Record, now: FleetTime) -> Life {
    let life = of_lease(&record.lease.wire(), now);
    let granted = |send_at| Stands::Granted { send_at, ends_at: record.ends_at, is_sent: record.answered };
    let stands = match (record.verdict, life.stands) {
        (Some(verdict), _) if record.is_over => Stands::Settled { ended: None, verdict },
        _ if record.is_over => Stands::GivenBack,
        _ if record.ends_at <= now => Stands::Expired { at: record.ends_at },
        (_, Stands::Granted { send_at, .. }) => granted(send_at),
        // It was renewed, so that it was sent long ago.
        _ => granted(life.asked_at + life.waited),
    };
    Life { stands, delays: record.delays.clone(), is_from_token: false, ..life }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(number: usize) -> Life {
        let lease = LeaseWire { request_id: number.to_string(), attempt: 1, ..LeaseWire::default() };
        Life { stands: Stands::GivenBack, ..of_lease(&lease, FleetTime::from_micros(0)) }
    }

    #[test]
    fn so_many_are_remembered_and_the_oldest_go() {
        let lives = Lives::default();
        (0..=MOST_REMEMBERED).for_each(|number| lives.note(ended(number)));
        let found = |number: usize| lives.find(&Asked::Name(number.to_string())).len();
        assert_eq!([found(0), found(1), found(MOST_REMEMBERED)], [0, 1, 1]);
        let cause = Cause::plain(Source::Pacing);
        let stands = Stands::Away { cause, back_by: None, ahead: 0, expected: None };
        lives.note(Life { stands, ..ended(1) });
        assert_eq!(found(1), 2, "those away with a ticket push nobody out");
    }
}
