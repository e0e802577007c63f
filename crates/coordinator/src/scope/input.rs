//! What a scope is told.

use std::sync::Arc;

use paceline_core::controls::Whom;
use paceline_core::forget::Forget;
use paceline_core::lease::Serial;
use paceline_core::plan::Class;
use paceline_core::signal::Signal;
use paceline_core::units::{FleetTime, Span};

use crate::api::{AcquireRequest, ReportRequest, Target};
use crate::lives::Asked;
use crate::record::CallKey;
use crate::scope::{Elsewhere, ReplyId};
use crate::settings::Settings;
use crate::wire::{LeaseWire, TicketWire};

/// One thing told to a scope.
#[derive(Clone, Debug)]
pub enum Input {
    /// A call wants a slot.
    Ask(ReplyId, Arc<AskInput>),
    /// A worker reports.
    Report(ReplyId, Arc<ReportInput>),
    /// A worker gives a slot or a place back.
    Release(ReplyId, Box<ReleaseInput>),
    /// The caller of this went away without a word. Told once, and only while it has not been answered.
    Leave(ReplyId),
    /// The store has a record of this key although the call waits here.
    Taken(CallKey),
    /// The configuration changed.
    Settings(Arc<dyn Settings>),
    /// The replica is shutting down: everyone gets a ticket, nobody is held any more.
    Drain,
    /// What would this call be told? Takes no place.
    Quote(ReplyId, Arc<AskInput>),
    /// What is known of an attempt that was made here?
    Recall(ReplyId, CallKey, Serial),
    /// An answer came from here for a call that was sent elsewhere.
    Teach(Box<TeachInput>),
    /// Another replica, which is reached there, is to lead.
    HandOver(u32, Arc<str>),
    /// Somebody wants to see the scope.
    Inspect(ReplyId),
    /// A person wants something forgotten.
    Forget(ReplyId, Box<ForgetInput>),
    /// Somebody wants to know what became of a call.
    Find(ReplyId, Box<Asked>),
}

impl Input {
    /// Who waits for its answer.
    pub fn reply(&self) -> Option<ReplyId> {
        match self {
            Self::Ask(reply, _)
            | Self::Report(reply, _)
            | Self::Release(reply, _)
            | Self::Quote(reply, _)
            | Self::Recall(reply, ..)
            | Self::Forget(reply, _)
            | Self::Find(reply, _)
            | Self::Inspect(reply) => Some(*reply),
            Self::Leave(_) | Self::Taken(_) | Self::Teach(_) | Self::Settings(_) | Self::Drain | Self::HandOver(..) => None,
        }
    }
}

/// An ask whose tokens have been opened.
#[derive(Clone, Debug)]
pub struct AskInput {
    /// As asked, with the canonical target.
    pub request: AcquireRequest,
    /// Its idempotency key.
    pub key: CallKey,
    /// A hash of target and cost.
    pub print: [u8; 16],
    pub(crate) ticket: Option<Box<TicketWire>>,
    /// Whether a ticket came that cannot be honoured.
    pub(crate) place_lost: bool,
    pub(crate) previous: Option<Box<LeaseWire>>,
    /// When nobody cares any more, where that was fixed by an earlier attempt.
    pub deadline_at: Option<paceline_core::units::FleetTime>,
    /// The key of the attempt before.
    pub previous_key: Option<CallKey>,
    /// All targets in order of preference, where there are several.
    pub(crate) candidates: Vec<Target>,
    /// Whether this target is not the one the caller prefers.
    pub(crate) is_fallback: bool,
    /// What is known of the attempt before, where that was made in another scope.
    pub(crate) elsewhere: Option<Elsewhere>,
}

/// A report whose lease token has been opened and whose answer has been read.
#[derive(Clone, Debug)]
pub struct ReportInput {
    /// As reported.
    pub request: ReportRequest,
    pub(crate) lease: Option<LeaseWire>,
    /// Whether the token is authentic; only then anything is learned.
    pub(crate) is_authentic: bool,
    /// The key of the lease's record.
    pub key: Option<CallKey>,
    /// What was read; `None` when the report carries no answer.
    pub signal: Option<Signal>,
    /// The organisation that the answer named.
    pub(crate) organisation: Option<String>,
    /// Who answered, if not the target the call was sent to.
    pub(crate) served: Served,
    /// All targets in order of preference, where there are several: then the next attempt is asked for by whoever can compare
    /// them, not here.
    pub(crate) candidates: Vec<Target>,
}

/// Who answered a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Served {
    /// The target it was sent to.
    #[default]
    AsSent,
    /// Another one.
    At(Target),
    /// Another one that we know nothing of.
    Unknown,
}

/// An answer that teaches a scope although no lease of it was used: a gateway chose it.
#[derive(Clone, Debug)]
pub struct TeachInput {
    /// Who answered.
    pub(crate) target: Target,
    pub(crate) signal: Signal,
    pub(crate) sent_at: FleetTime,
    /// From the answer's arrival until the report.
    pub(crate) age: Span,
    pub(crate) class: Class,
    pub(crate) attempt: u32,
}

/// What a person wants forgotten.
#[derive(Clone, Debug)]
pub struct ForgetInput {
    pub(crate) what: Forget,
    /// Of which models.
    pub(crate) whom: Whom,
    /// It is only counted.
    pub(crate) is_trial: bool,
}

/// A release whose token has been opened.
#[derive(Clone, Debug)]
pub struct ReleaseInput {
    /// The scope; its model is empty.
    pub target: Target,
    /// The key of the lease or place.
    pub key: Option<CallKey>,
    pub(crate) what: GivenBack,
    /// The ticket that a place is named by.
    pub(crate) place: Option<Box<TicketWire>>,
    /// Nobody heard of the slot or place here: it is given back unless it was told or asked for again since, and where its call stood is
    /// kept for a moment.
    pub(crate) is_unheard: bool,
}

impl ReleaseInput {
    /// The record that it is about; a place that nobody heard of has none.
    pub(crate) fn needs(&self) -> Option<CallKey> {
        self.key.filter(|_| !self.is_unheard || matches!(self.what, GivenBack::Lease(_)))
    }
}

/// What a release names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenBack {
    /// A lease, by its serial.
    Lease(Serial),
    /// A place in line, by its stamp.
    Place(Serial),
}
