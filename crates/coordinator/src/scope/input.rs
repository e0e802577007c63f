//! What a scope is told.

use std::sync::Arc;

use paceline_core::lease::Serial;
use paceline_core::signal::Signal;

use crate::api::{AcquireRequest, ReportRequest, Target};
use crate::record::CallKey;
use crate::scope::ReplyId;
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
    /// The caller of this went away.
    Leave(ReplyId),
    /// The store has a record of this key although the call waits here.
    Taken(CallKey),
    /// The configuration changed.
    Settings(Arc<dyn Settings>),
    /// The replica is shutting down: everyone gets a ticket, nobody is held any more.
    Drain,
    /// Somebody wants to see the scope.
    Inspect(ReplyId),
}

impl Input {
    /// Who waits for its answer.
    pub fn reply(&self) -> Option<ReplyId> {
        match self {
            Self::Ask(reply, _) | Self::Report(reply, _) | Self::Release(reply, _) | Self::Inspect(reply) => Some(*reply),
            Self::Leave(_) | Self::Taken(_) | Self::Settings(_) | Self::Drain => None,
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
    pub(crate) ticket: Option<TicketWire>,
    /// Whether a ticket came that cannot be honoured.
    pub(crate) place_lost: bool,
    pub(crate) previous: Option<LeaseWire>,
    /// When nobody cares any more, where that was fixed by an earlier attempt.
    pub deadline_at: Option<paceline_core::units::FleetTime>,
    /// The key of the attempt before.
    pub previous_key: Option<CallKey>,
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
}

/// A release whose token has been opened.
#[derive(Clone, Debug)]
pub struct ReleaseInput {
    /// The scope; its model is empty.
    pub target: Target,
    /// The key of the lease or place.
    pub key: Option<CallKey>,
    pub(crate) what: GivenBack,
}

/// What a release names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenBack {
    /// A lease, by its serial.
    Lease(Serial),
    /// A place in line, by its stamp.
    Place(Serial),
}
