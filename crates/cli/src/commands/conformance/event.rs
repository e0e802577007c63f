//! What happened between the kit and a worker, in order, with times: all that the judge goes by.

use std::time::Duration;

use paceline_proto::v1::{AcquireRequest, Mode, NotApplied, ReportRequest, Verdict};

/// Something that happened, so long after the start of the kit.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) at: Duration,
    /// The job it was about; empty where the worker named none that exists.
    pub(super) job: String,
    pub(super) what: What,
}

/// How something came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Unary,
    Batch,
    Session,
}

/// What happened.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// The worker took the job.
    Handed,
    /// "May I send?"
    Asked { way: Way, request: Box<AcquireRequest> },
    /// The answer to the last ask, or a later word on it.
    Answered(Answer),
    /// A call of the worker is at the provider.
    Arrived { call: u32 },
    /// The provider has answered it: the head of its answer went out.
    Replied { call: u32, status: u16, retry_after: Option<Duration> },
    /// The whole answer went out, or it broke off.
    Ended { call: u32, is_cut: bool },
    /// "This is what the provider said." Numbered, to find its answer.
    Reported { number: u64, way: Way, request: Box<ReportRequest> },
    /// What it was answered.
    Told { number: u64, said: Said },
    /// "I will not use it": a lease, or a place when empty.
    Released { lease: String },
    /// The worker's process was killed.
    Killed,
    /// How the worker says that the job ended.
    Done { outcome: String, status: u16 },
}

/// A reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) lease: String,
    pub(super) wait: Duration,
    pub(super) use_within: Duration,
    pub(super) mode: Mode,
}

/// What an ask was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Granted(Granted),
    Queued {
        ticket: Vec<u8>,
        come_back_in: Duration,
    },
    Denied {
        reason: i32,
        is_for_ever: bool,
    },
    /// UNAVAILABLE.
    Failed,
}

/// What a report was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Verdict(Verdict, Option<Granted>),
    /// Not applied, and the verdict of before, if there was one.
    NotApplied(NotApplied, Verdict),
    /// UNAVAILABLE.
    Failed,
}
