//! What a situation is made of: what the service says, what the provider answers, what has to be seen. Data only.

use std::time::Duration;

use paceline_proto::v1::{Mode, NotApplied, Verdict};

/// Grants are good for so long after their wait, unless the situation is about that: longer than a busy machine stalls.
pub(super) const AMPLE: Duration = Duration::from_secs(60);
/// Leases live so long, unless the situation is about that.
pub(super) const LONG_TTL: Duration = Duration::from_secs(120);

/// The account of all jobs but those that are about accounts.
pub(super) const ACCOUNT: &str = "kit";

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// An answer to an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Say {
    Grant {
        after: Duration,
        wait: Duration,
        use_within: Duration,
        ttl: Duration,
        mode: Mode,
    },
    Queue {
        come_back_in: Duration,
    },
    /// With this `reason`, which a newer service may have made up, and a time after which it could work.
    Deny {
        reason: i32,
        is_for_ever: bool,
    },
    Unavailable,
    /// UNAVAILABLE, and again to whoever asks within so long.
    Away {
        lasts: Duration,
    },
}

impl Say {
    /// A grant after this wait.
    pub(super) const fn grant(wait: Duration) -> Self {
        Self::Grant { after: Duration::ZERO, wait, use_within: AMPLE, ttl: LONG_TTL, mode: Mode::Enforce }
    }
}

/// An answer of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Answer {
        after: Duration,
        status: u16,
        retry_after: Option<Duration>,
    },
    /// A head and a first event at once, the rest after this time.
    Stream {
        rest_after: Duration,
        is_cut: bool,
    },
}

impl Reply {
    pub(super) const OK: Self = Self::error(200);
    pub(super) const REFUSAL: Self =
        Self::Answer { after: Duration::ZERO, status: 429, retry_after: Some(Duration::from_secs(6)) };

    /// At once, and without a word on when to come back.
    pub(super) const fn error(status: u16) -> Self {
        Self::Answer { after: Duration::ZERO, status, retry_after: None }
    }
}

/// An answer to a report, other than that a call still runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tell {
    /// With the next slot after this wait, where the worker asks for it.
    Verdict {
        after: Duration,
        verdict: Verdict,
        next: Option<Duration>,
    },
    Unavailable {
        after: Duration,
    },
    /// UNAVAILABLE, and again to whoever reports within so long.
    Away {
        lasts: Duration,
    },
    /// `applied` is false; the verdict is what was said before, if anything.
    NotApplied {
        why: NotApplied,
        verdict: Verdict,
    },
}

/// Something that must be seen, or the situation says nothing of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// So many calls at the provider.
    Calls(usize),
    /// So many asks.
    Asks(usize),
    /// A report that says that the call still runs; not where a Session renews leases by itself.
    Running,
    /// A report with the outcome that it was never sent.
    NeverSent,
    /// A report that came twice under one number.
    RepeatedReport,
    /// Two reports about one lease.
    TwoReports,
}

/// Something that is done to the worker's process, where the kit has started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// So long after its first grant it stands still for a while.
    StandStill { after: Duration, length: Duration },
    /// It is killed while its first call is at the provider, and started again.
    Kill,
}

/// How a job is to end for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    Answered(u16),
    /// As the worker likes: with this answer, or sent again and with a 200.
    Either(u16),
    Denied,
    Failed,
    /// Its caller leaves before it is sent; not every adapter can do that.
    Left,
    /// Not at all: the process is killed.
    Killed,
}

/// One situation: a job, and what is answered to whatever the worker does about it.
#[derive(Clone, Debug)]
pub(super) struct Situation {
    pub(super) id: &'static str,
    /// What is tried, in a few words.
    pub(super) title: &'static str,
    pub(super) account: &'static str,
    pub(super) is_stream: bool,
    /// So long after the job was fetched its caller leaves.
    pub(super) leaves_after: Option<Duration>,
    /// Whether the provider of this job is nobody: a port where nothing listens.
    pub(super) is_unreachable: bool,
    /// Whether answers name everything that they can name, and what only a newer service has.
    pub(super) has_every_word: bool,
    /// To each ask its answer, in order; the last one to all further ones.
    pub(super) asks: Vec<Say>,
    pub(super) replies: Vec<Reply>,
    /// As `asks`; when there are none left, a final report is DONE.
    pub(super) reports: Vec<Tell>,
    pub(super) needs: Vec<Need>,
    pub(super) ends: Ends,
    pub(super) act: Option<Act>,
}

impl Situation {
    pub(super) fn new(id: &'static str, title: &'static str, asks: Vec<Say>) -> Self {
        Self {
            id,
            title,
            asks,
            account: ACCOUNT,
            has_every_word: false,
            is_stream: false,
            leaves_after: None,
            is_unreachable: false,
            replies: vec![Reply::OK],
            reports: Vec::new(),
            needs: vec![Need::Calls(1)],
            ends: Ends::Answered(200),
            act: None,
        }
    }

    /// Whether it may remain unseen: not every adapter can do what it takes.
    pub(super) fn is_optional(&self) -> bool {
        self.ends == Ends::Left
    }

    pub(super) fn replies(self, replies: Vec<Reply>) -> Self {
        Self { replies, ..self }
    }

    pub(super) fn reports(self, reports: Vec<Tell>) -> Self {
        Self { reports, ..self }
    }

    pub(super) fn needs(self, needs: Vec<Need>) -> Self {
        Self { needs, ..self }
    }

    pub(super) fn ends(self, ends: Ends) -> Self {
        Self { ends, ..self }
    }
}
