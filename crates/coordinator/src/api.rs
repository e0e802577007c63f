//! What callers ask and are answered: the contract of `paceline.v1` in the core's types, checked for shape already.

use std::collections::BTreeMap;

use paceline_core::amounts::Amounts;
use paceline_core::delays::{Cause, DelayPart, RunnerUp};
use paceline_core::denial::{Denial, Reason};
use paceline_core::lease::Repeat;
use paceline_core::mode::Mode;
use paceline_core::plan::Class;
use paceline_core::report::Outcome;
use paceline_core::retry::Verdict;
use paceline_core::signal::{Signal, Source};
use paceline_core::units::Span;

/// The most bytes of an error body that are read.
pub const MOST_BODY_BYTES: usize = 8 * 1024;
/// The most targets that a call names besides its own.
pub const MOST_FALLBACKS: usize = 8;
/// How long an ask without a ticket is held at most.
pub const FIRST_HOLD: Span = Span::from_secs(1);
/// How long an ask is held when it does not say.
pub const DEFAULT_HOLD: Span = Span::from_secs(10);
/// How long after `wait` a slot may still be used.
pub const USE_WITHIN: Span = Span::from_secs(2);
/// A lease's life without a report, when nothing else is known.
pub const DEFAULT_TTL: Span = Span::from_secs(60);
/// The longest life without a report.
pub const LONGEST_TTL: Span = Span::from_secs(30 * 60);

/// The tenant of asks that name none.
pub const DEFAULT_TENANT: &str = "default";

/// Where a call goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Target {
    /// Catalogue or configured name; case-insensitive.
    pub provider: String,
    /// Whose quota; exact.
    pub account: String,
    /// Whatever the provider meters apart; may be empty.
    pub model: String,
}

/// "May I send?"
#[derive(Clone, Debug, Default)]
pub struct AcquireRequest {
    /// Who asks, as authenticated; empty: anonymous.
    pub identity: String,
    /// Names one logical call.
    pub request_id: String,
    /// From 1.
    pub attempt: u32,
    /// Where the worker means to send.
    pub target: Target,
    /// Where else it may be sent, in order of preference.
    pub fallbacks: Vec<Target>,
    /// Expected units per meter.
    pub cost: Amounts,
    /// Whether the cost is a guess.
    pub cost_estimated: bool,
    /// The longest wait in all attempts; `None`: the class's.
    pub max_wait: Option<Span>,
    /// From now until the caller stops caring.
    pub deadline: Option<Span>,
    /// How long the answer may be held back.
    pub hold: Span,
    /// How long it may run without a report.
    pub run_time: Option<Span>,
    /// How urgent.
    pub class: Class,
    /// Among whom capacity is shared.
    pub tenant: String,
    /// Attribution.
    pub labels: BTreeMap<String, String>,
    /// The enclosing call.
    pub parent: String,
    /// A place kept by an earlier answer.
    pub ticket: Option<Vec<u8>>,
    /// The attempt before.
    pub previous_lease_id: Option<String>,
    /// Whether it may be sent twice.
    pub repeat: Repeat,
    /// Decide it here, whichever replica leads: another one has sent it, or the leader does not answer.
    pub decide_here: bool,
    /// The number of the replica that sent it on.
    pub sent_on_by: Option<u32>,
}

/// The answer to an ask.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Send after `wait`.
    Granted(Box<Grant>),
    /// Come back with the ticket.
    Queued(Box<Queued>),
    /// No.
    Denied(Box<Denied>),
}

impl Answer {
    /// Where the call is to be sent, once that is known.
    pub fn target(&self) -> Option<&Target> {
        match self {
            Self::Granted(grant) => Some(&grant.target),
            Self::Queued(_) | Self::Denied(_) => None,
        }
    }
}

/// A slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// The lease's token.
    pub lease_id: String,
    /// Where to send.
    pub target: Target,
    /// Send after this long, jitter included.
    pub wait: Span,
    /// After `wait`; later than that ask again.
    pub use_within: Span,
    /// Unreported longer than this, the lease ends.
    pub ttl: Span,
    /// What is reserved, per meter.
    pub reserved: BTreeMap<String, u64>,
    /// Meters that the service filled in.
    pub estimated: Vec<String>,
    /// Whether an earlier place could not be kept.
    pub place_lost: bool,
    /// The whole wait by cause.
    pub delays: Vec<DelayPart>,
    /// What else would have held it up.
    pub runner_up: Option<RunnerUp>,
    /// What is done with the call.
    pub mode: Mode,
    /// Of a call that is only watched: what would have been.
    pub shadow: Option<Box<Watched>>,
}

/// What would have become of a call that is only watched.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched {
    /// How long it would have waited; zero when it would have been denied.
    pub wait: Span,
    /// How it would have been denied.
    pub denial: Option<Denial>,
    /// The wait by cause.
    pub delays: Vec<DelayPart>,
}

/// A place in line.
#[derive(Clone, Debug, PartialEq)]
pub struct Queued {
    /// Keeps the place, on any replica.
    pub ticket: Vec<u8>,
    /// When to ask again.
    pub come_back_in: Span,
    /// Our best guess at the whole wait from now.
    pub estimated_wait: Span,
    /// Requests before it in its lane.
    pub ahead: u64,
    /// Whether an earlier place could not be kept.
    pub place_lost: bool,
    /// The wait so far by cause.
    pub delays: Vec<DelayPart>,
    /// What it waits for now.
    pub binding: Cause,
    /// What else would hold it up.
    pub runner_up: Option<RunnerUp>,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq)]
pub struct Denied {
    /// Why, and when it could work.
    pub denial: Denial,
    /// The wait so far by cause.
    pub delays: Vec<DelayPart>,
}

/// "This is what the provider said."
#[derive(Clone, Debug)]
pub struct ReportRequest {
    /// Who reports, as authenticated.
    pub identity: String,
    /// The lease's token.
    pub lease_id: String,
    /// Rises per lease from 1; 0 with [`Outcome::Running`] renews the lease and takes no number.
    pub seq: u32,
    /// What happened.
    pub outcome: Outcome,
    /// HTTP status of a response; 0: none given.
    pub status: u32,
    /// gRPC status of a response.
    pub grpc_status: Option<u32>,
    /// Headers and trailers.
    pub headers: Vec<(String, String)>,
    /// The start of an error body.
    pub body: Vec<u8>,
    /// Actual units.
    pub usage: Amounts,
    /// Whether the usage is a guess: it settles, and nothing is learned from it.
    pub usage_estimated: bool,
    /// Nothing more will come.
    pub is_final: bool,
    /// Time since the response arrived at the worker.
    pub age: Span,
    /// Who really answered, when a gateway sent the call elsewhere: `provider`, `provider/account` or `provider/account/model`.
    pub served_by: String,
    /// Ask for the next slot in the same call.
    pub retry: Option<RetryAsk>,
    /// Take it here, whichever replica leads.
    pub decide_here: bool,
}

/// The next attempt, asked for within a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RetryAsk {
    /// The longest wait in all attempts; `None`: as before.
    pub max_wait: Option<Span>,
    /// Expected units; empty: as before.
    pub cost: Amounts,
    /// Where else it may be sent; empty: as before.
    pub fallbacks: Vec<Target>,
    /// How long the answer may be held back for the slot; `None`: as long as a first ask.
    pub hold: Option<Span>,
}

/// Why a report's usage and place were not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotApplied {
    /// We do not know this lease (any more).
    LeaseUnknown,
    /// It ended by itself.
    LeaseExpired,
    /// It was settled or released before.
    LeaseSettled,
    /// This `seq` was seen before.
    Repeated,
}

/// The answer to a report.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportAnswer {
    /// `None`: usage and place were settled (or renewed) now.
    pub not_applied: Option<NotApplied>,
    /// Until when the lease lives without a further report; zero when it is over.
    pub ttl: Span,
    /// What to do; `None` while the call runs.
    pub verdict: Option<Verdict>,
    /// What was read.
    pub signal: Signal,
    /// The floor really set.
    pub honored: Span,
    /// Where that came from.
    pub honored_source: Source,
    /// The next slot, when asked for.
    pub next: Option<Answer>,
}

/// What cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// A field is wrong: its name, and what is wrong with it.
    #[error("{field}: {problem}")]
    Invalid {
        /// As in the contract, such as `target.account`.
        field: &'static str,
        /// What is wrong and what to do.
        problem: String,
    },
    /// Neither in the catalogue nor in the configuration.
    #[error("{0}")]
    UnknownProvider(String),
    /// The same key with another cost or target, or of a call that is over.
    #[error("{0}")]
    AlreadyExists(String),
    /// The store does not answer.
    #[error("the store does not answer: {0}")]
    Unavailable(String),
    /// Another replica leads the scope: to be sent on to it, and never shown to a worker.
    #[error("another replica decides about this account")]
    Moved {
        /// The place in line, if it has one already.
        ticket: Option<Vec<u8>>,
    },
}

impl Denied {
    /// A refusal before any waiting.
    pub fn at_once(reason: Reason, retry_after: Option<Span>, detail: impl Into<String>) -> Self {
        Self { denial: Denial { reason, retry_after, detail: detail.into() }, delays: Vec::new() }
    }
}
