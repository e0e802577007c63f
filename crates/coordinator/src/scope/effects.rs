//! What a step brings about: answers, records, events, and what must be done again when the commit is refused.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use paceline_core::delays::DelayPart;
use paceline_core::denial::Reason;
use paceline_core::forget::Forgotten;
use paceline_core::journal::Changed;
use paceline_core::mode::Mode;
use paceline_core::plan::Class;
use paceline_core::queue::Ask;
use paceline_core::report::Outcome;
use paceline_core::signal::Source;
use paceline_core::units::{FleetTime, Span};

use super::lost::Return;
use super::{Call, Elsewhere, Input, Quote, ScopeView};
use crate::api::{AcquireRequest, Answer, CallError, DEFAULT_TENANT, ReportAnswer};
use crate::lives::{Found, Life};
use crate::record::{CallKey, Kept};

/// Names a caller that waits for an answer; given by the loop.
pub type ReplyId = u64;

/// What a caller is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// To an ask.
    Answer(Result<Answer, CallError>),
    /// To a report.
    Report(Result<Box<ReportAnswer>, CallError>),
    /// To a release: whether there was something to give back.
    Released(bool),
    /// To a quote.
    Quote(Box<Quote>),
    /// To a recall: what is known of the attempt, if anything.
    Recalled(Option<Elsewhere>),
    /// To an inspection.
    View(Box<ScopeView>),
    /// To what a person wants forgotten: how much was.
    Forgotten(Result<Forgotten, CallError>),
    /// To who asks about a call.
    Found(Box<Found>),
}

impl Reply {
    /// Counts a slot's `wait` down by the time that passed between deciding and answering.
    pub fn age_by(&mut self, late: Span) {
        let answer = match self {
            Self::Answer(Ok(answer)) => Some(answer),
            Self::Report(Ok(report)) => report.next.as_mut(),
            _ => None,
        };
        if let Some(Answer::Granted(grant)) = answer {
            grant.wait = (grant.wait - late).at_least_zero();
        }
    }

    /// The slot it grants, if it does.
    pub fn lease_id(&self) -> Option<&str> {
        match self.to_ask()? {
            Answer::Granted(grant) => Some(&grant.lease_id),
            Answer::Queued(_) | Answer::Denied(_) => None,
        }
    }

    /// The place it tells, if it does.
    pub fn ticket(&self) -> Option<&[u8]> {
        match self.to_ask()? {
            Answer::Queued(queued) => Some(&queued.ticket),
            Answer::Granted(_) | Answer::Denied(_) => None,
        }
    }

    fn to_ask(&self) -> Option<&Answer> {
        match self {
            Self::Answer(Ok(answer)) => Some(answer),
            Self::Report(Ok(report)) => report.next.as_ref(),
            _ => None,
        }
    }
}

/// A record to be written with the value.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordChange {
    /// Which.
    pub key: CallKey,
    /// Its new content.
    pub record: Kept,
    /// Whether it must not exist yet: another replica may have granted the same key.
    pub must_be_new: bool,
}

/// Something worth counting or telling.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A slot was granted to, or refused to, a call.
    Decided {
        /// For which model.
        model: Arc<str>,
        /// Whose.
        tenant: Arc<str>,
        /// In which class.
        class: Class,
        /// What is done with calls like it.
        mode: Mode,
        /// Whether it was not the first attempt.
        is_retry: bool,
        /// What.
        outcome: DecidedAs,
        /// The wait by cause.
        delays: Vec<DelayPart>,
    },
    /// A report came.
    Reported(Box<ReportEvent>),
    /// Leases ended without a report.
    LeasesExpired(u64),
    /// A slot was used after it had been given up.
    LateUse {
        /// For which model.
        model: Arc<str>,
    },
    /// A rise of a limit was contradicted.
    LimitFlapped {
        /// For which model.
        model: Arc<str>,
    },
    /// A call ended that was sent.
    Used {
        /// For which model.
        model: Arc<str>,
        /// Whose.
        tenant: Arc<str>,
        /// What was done with it.
        mode: Mode,
        /// Whether it was not the first attempt.
        is_retry: bool,
        /// What it used.
        units: Vec<UnitsOf>,
    },
    /// The provider refused a call that was sent.
    Spoilt {
        /// What was done with it.
        mode: Mode,
        /// What it used all the same.
        units: Vec<UnitsOf>,
    },
    /// Answers of the account name another organisation than before.
    AccountMixed {
        /// What tells them apart.
        organisations: Vec<String>,
    },
    /// Something changed that somebody may ask about tomorrow.
    Changed(Changed),
    /// A call left: denied, ended, or away with a ticket.
    Left(Box<Life>),
    /// A call was only watched.
    Watched {
        /// For which model.
        model: Arc<str>,
        /// How long it would have waited.
        wait: Span,
        /// Why it would have been denied.
        denied: Option<&'static str>,
        /// It is a further attempt of a call that enforce would have sent later instead of letting it be refused.
        is_needless: bool,
    },
    /// The provider refused a watched call that would not have been sent then.
    Prevented {
        /// For which model.
        model: Arc<str>,
    },
    /// Fields of the value were out of bounds and were pulled back.
    Repaired(u64),
}

/// What a call used of one meter, in units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitsOf {
    /// The meter.
    pub meter: Arc<str>,
    /// In all.
    pub used: u64,
    /// Of that, what its reservation did not cover.
    pub overrun: u64,
}

/// How an ask ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedAs {
    /// With a slot.
    Granted,
    /// With a ticket.
    Queued,
    /// With a refusal.
    Denied(Reason),
}

/// What a report said, for metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportEvent {
    /// For which model.
    pub model: Arc<str>,
    /// How the attempt went.
    pub outcome: Outcome,
    /// HTTP status; 0: none.
    pub status: u32,
    /// gRPC status.
    pub grpc_status: Option<u32>,
    /// The verdict's name, or `none` while the call runs.
    pub verdict: &'static str,
    /// For refusals: where the wait was read.
    pub refusal_source: Option<Source>,
    /// Headers that nothing read.
    pub unread: Vec<String>,
    /// How the attempt ended; `None`: it goes on, or its end is known already.
    pub ended: Option<EndedAs>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedAs {
    /// What was done with it.
    pub mode: Mode,
    /// Whether the provider refused it for its rate or its load.
    pub is_refused: bool,
    /// Whether the answer told anything about limits: a bucket, or how long to wait.
    pub tells: bool,
}

/// A tenant as it is counted; who names none is `default`.
pub(super) fn tenant_or_default(tenant: &str) -> &str {
    if tenant.is_empty() { DEFAULT_TENANT } else { tenant }
}

impl Event {
    /// How an ask ended.
    pub(super) fn decided(
        request: &AcquireRequest,
        class: Class,
        mode: Mode,
        outcome: DecidedAs,
        delays: Vec<DelayPart>,
    ) -> Self {
        let model = Arc::from(request.target.model.as_str());
        let tenant = Arc::from(tenant_or_default(&request.tenant));
        Self::Decided { model, tenant, class, mode, is_retry: request.attempt > 1, outcome, delays }
    }
}

/// What a step brought about. Whatever follows from a change of the value waits for its commit.
#[derive(Debug, Default)]
pub struct Effects {
    /// Answers that hold whatever becomes of the commit.
    pub replies: Vec<(ReplyId, Reply)>,
    /// Answers that hold once the value is committed.
    pub replies_on_commit: Vec<(ReplyId, Reply)>,
    /// Records to be written with the value.
    pub records: Vec<RecordChange>,
    /// Whether the value changed and must be committed.
    pub changed: bool,
    /// When to step again without any input.
    pub wake_at: Option<FleetTime>,
    /// What to count whatever becomes of the commit.
    pub events: Vec<Event>,
    /// What to count once the value is committed.
    pub events_on_commit: Vec<Event>,
    /// Asks that are about to be refused although nobody has looked whether their key was granted before: to be taken again
    /// with their records read.
    pub unread: Vec<Input>,
    /// Keys of calls that wait, whose records are to be read meanwhile; each is then told as [`Input::Taken`].
    pub to_read: Vec<CallKey>,
    pub(super) undo: Vec<Undo>,
    /// Where among `records` the one of a key is.
    places: HashMap<CallKey, usize>,
    /// Callers whose input changed the value: it is taken again when the commit is refused, so they must not hear before.
    bound: HashSet<ReplyId>,
}

/// What must be done again when the commit is refused.
#[derive(Debug)]
pub(super) enum Undo {
    /// A call that was granted a slot goes back in line.
    Ask(Box<Granted>),
    /// An input that changed the value is taken again.
    Input(Input),
    /// Records that were written late wait again.
    Pending(Vec<RecordChange>),
    /// What was done alone is joined with the newer value.
    Return(Box<Return>),
}

/// A call that was granted a slot.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) ask: Ask,
    pub(super) call: Call,
    /// The expiry slot of its held units.
    pub(super) hold_until: FleetTime,
    /// The wait until the decision, by cause.
    pub(super) waited: Vec<DelayPart>,
}

impl Effects {
    /// From here on the answer to `reply` depends on the commit; `input` is taken again when that is refused.
    pub(super) fn bind(&mut self, reply: ReplyId, input: Input) {
        if self.bound.insert(reply) {
            self.undo.push(Undo::Input(input));
        }
        self.changed = true;
    }

    /// Takes `input` again when the commit is refused; nobody waits for its answer.
    pub(super) fn take_again(&mut self, input: Input) {
        self.undo.push(Undo::Input(input));
    }

    /// Whether the answer to `reply` depends on the commit.
    pub(super) fn is_bound(&self, reply: ReplyId) -> bool {
        self.bound.contains(&reply)
    }

    /// Answers, and counts: at once, unless the answer depends on the commit.
    pub(super) fn answer(&mut self, id: ReplyId, reply: Reply, event: Option<Event>) {
        if self.is_bound(id) {
            self.replies_on_commit.push((id, reply));
            self.events_on_commit.extend(event);
        } else {
            self.replies.push((id, reply));
            self.events.extend(event);
        }
    }

    /// Answers with something that the commit makes true.
    pub(super) fn answer_on_commit(&mut self, id: ReplyId, reply: Reply, event: Event) {
        self.replies_on_commit.push((id, reply));
        self.events_on_commit.push(event);
    }

    /// The record of `key` is `record` from the commit on.
    pub(super) fn write(&mut self, key: CallKey, record: impl Into<Kept>, must_be_new: bool) {
        let record = record.into();
        self.changed = true;
        match self.places.get(&key).and_then(|place| self.records.get_mut(*place)) {
            Some(change) => change.record = record,
            None => {
                self.places.insert(key, self.records.len());
                self.records.push(RecordChange { key, record, must_be_new });
            }
        }
    }
}
