//! The situations that a worker is led through: what the service says, what the provider answers, what has to be seen. Data only.

use std::time::Duration;

use paceline_proto::v1::Verdict;

/// Grants are good for so long after their wait, unless the situation is about that: longer than a busy machine stalls.
const AMPLE: Duration = Duration::from_secs(60);
/// Leases live so long, unless the situation is about that.
const LONG_TTL: Duration = Duration::from_secs(120);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// An answer to an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Say {
    Grant { after: Duration, wait: Duration, use_within: Duration, ttl: Duration, is_shadow: bool },
    Queue { come_back_in: Duration },
    Deny,
    Unavailable,
}

impl Say {
    /// A grant after this wait.
    const fn grant(wait: Duration) -> Self {
        Self::Grant { after: Duration::ZERO, wait, use_within: AMPLE, ttl: LONG_TTL, is_shadow: false }
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
    const OK: Self = Self::Answer { after: Duration::ZERO, status: 200, retry_after: None };
    const REFUSAL: Self = Self::Answer { after: Duration::ZERO, status: 429, retry_after: Some(Duration::from_secs(6)) };
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
    LeaseUnknown,
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
    pub(super) is_stream: bool,
    /// So long after the job was fetched its caller leaves.
    pub(super) leaves_after: Option<Duration>,
    /// Whether the provider of this job is nobody: a port where nothing listens.
    pub(super) is_unreachable: bool,
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
    fn new(id: &'static str, title: &'static str, asks: Vec<Say>) -> Self {
        Self {
            id,
            title,
            asks,
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

    fn replies(self, replies: Vec<Reply>) -> Self {
        Self { replies, ..self }
    }

    fn reports(self, reports: Vec<Tell>) -> Self {
        Self { reports, ..self }
    }

    fn needs(self, needs: Vec<Need>) -> Self {
        Self { needs, ..self }
    }

    fn ends(self, ends: Ends) -> Self {
        Self { ends, ..self }
    }
}

/// All situations, in the order in which jobs are handed out; with those that need a process that the kit has started.
pub(super) fn situations() -> Vec<Situation> {
    let mut all = asking();
    all.extend(reporting());
    all.extend(refusals());
    all.extend(leaving());
    all.extend(accidents());
    all
}

/// A caller that leaves before its call is sent.
fn leaving() -> Vec<Situation> {
    let leaves = |id, title, asks| Situation {
        leaves_after: Some(ms(1_000)),
        ..Situation::new(id, title, asks).needs(vec![Need::Asks(1)]).ends(Ends::Left)
    };
    let at_once = Say::grant(Duration::ZERO);
    vec![
        leaves(
            "leave-line",
            "a caller that leaves while it waits in line",
            vec![Say::Queue { come_back_in: ms(3_000) }, at_once],
        ),
        leaves("leave-slot", "a caller that leaves before its slot is due", vec![Say::grant(ms(3_000))]),
    ]
}

/// What happens to a process.
fn accidents() -> Vec<Situation> {
    let at_once = || Say::grant(Duration::ZERO);
    let short = Say::Grant { after: Duration::ZERO, wait: ms(1_500), use_within: ms(300), ttl: LONG_TTL, is_shadow: false };
    let stopped = Situation::new("stopped", "a process that stands still while it waits", vec![short, Say::grant(ms(100))]);
    let killed = Situation::new("killed", "a process that is killed in the middle of a call", vec![at_once()])
        .replies(vec![Reply::Answer { after: ms(5_000), status: 200, retry_after: None }])
        .ends(Ends::Killed);
    vec![
        Situation { act: Some(Act::StandStill { after: ms(1_000), length: ms(4_000) }), ..stopped }
            .needs(vec![Need::Asks(2), Need::Calls(1)]),
        Situation { act: Some(Act::Kill), ..killed },
        Situation::new("after", "the first call of the next process", vec![at_once()]),
    ]
}

/// Asking and sending.
fn asking() -> Vec<Situation> {
    let at_once = || Say::grant(Duration::ZERO);
    vec![
        Situation::new("plain", "a grant at once", vec![at_once()]),
        Situation::new("wait", "a grant after a second", vec![Say::grant(ms(1_000))]),
        Situation::new(
            "late",
            "a grant that is over when the worker wakes",
            vec![
                Say::Grant {
                    after: Duration::ZERO,
                    wait: ms(200),
                    use_within: Duration::ZERO,
                    ttl: LONG_TTL,
                    is_shadow: false,
                },
                Say::grant(ms(100)),
            ],
        )
        .needs(vec![Need::Asks(2), Need::Calls(1)]),
        Situation::new(
            "queued",
            "in line twice, then a grant",
            vec![Say::Queue { come_back_in: ms(700) }, Say::Queue { come_back_in: ms(300) }, at_once()],
        )
        .needs(vec![Need::Asks(2), Need::Calls(1)]),
        Situation::new(
            "held",
            "an answer that is held for a second",
            vec![Say::Grant { after: ms(1_000), wait: ms(100), use_within: AMPLE, ttl: LONG_TTL, is_shadow: false }],
        ),
        Situation::new("away", "a replica that answers UNAVAILABLE, then works", vec![Say::Unavailable, at_once()])
            .needs(vec![Need::Asks(2), Need::Calls(1)]),
        Situation::new("denied", "a denial", vec![Say::Deny]).needs(vec![Need::Asks(1)]).ends(Ends::Denied),
        Situation::new(
            "shadow",
            "a service that only watches",
            vec![Say::Grant { after: Duration::ZERO, wait: Duration::ZERO, use_within: AMPLE, ttl: LONG_TTL, is_shadow: true }],
        ),
    ]
}

/// Reporting what was answered.
fn reporting() -> Vec<Situation> {
    let at_once = || Say::grant(Duration::ZERO);
    let quick = |verdict| Tell::Verdict { after: Duration::ZERO, verdict, next: None };
    let unreachable = Situation {
        is_unreachable: true,
        ..Situation::new("unreachable", "a provider that nobody reaches", vec![at_once()])
            .reports(vec![quick(Verdict::GiveUp)])
            .needs(vec![Need::Asks(1), Need::NeverSent])
            .ends(Ends::Failed)
    };
    let stream = |id, title, is_cut| Situation {
        is_stream: true,
        ..Situation::new(id, title, vec![at_once()])
            .replies(vec![Reply::Stream { rest_after: ms(900), is_cut }])
            // Answered after the stream has ended: whoever does not wait for that overtakes it. And before a worker's patience ends.
            .reports(vec![Tell::Verdict { after: ms(1_600), verdict: Verdict::Unspecified, next: None }])
    };
    vec![
        Situation::new("report-again", "a report that nobody answers", vec![at_once()])
            .reports(vec![Tell::Unavailable { after: ms(800) }])
            .needs(vec![Need::Calls(1), Need::RepeatedReport]),
        Situation::new("report-late", "a report for a lease that the service lost", vec![at_once()])
            .reports(vec![Tell::LeaseUnknown]),
        stream("stream", "a stream", false).needs(vec![Need::Calls(1), Need::TwoReports]),
        stream("stream-cut", "a stream that breaks off", true).ends(Ends::Failed),
        Situation::new(
            "long",
            "a call that runs longer than its lease",
            vec![Say::Grant {
                after: Duration::ZERO,
                wait: Duration::ZERO,
                use_within: AMPLE,
                ttl: ms(1_000),
                is_shadow: false,
            }],
        )
        .replies(vec![Reply::Answer { after: ms(3_000), status: 200, retry_after: None }])
        .needs(vec![Need::Calls(1), Need::Running]),
        unreachable,
    ]
}

/// What follows a refusal of the provider.
fn refusals() -> Vec<Situation> {
    let at_once = || Say::grant(Duration::ZERO);
    let verdict = |verdict, next| Tell::Verdict { after: Duration::ZERO, verdict, next };
    vec![
        Situation::new("retry", "a 429, and the next slot with the report's answer", vec![at_once()])
            .replies(vec![Reply::REFUSAL, Reply::OK])
            .reports(vec![verdict(Verdict::Retry, Some(ms(300)))])
            .needs(vec![Need::Calls(2)]),
        Situation::new("retry-ask", "a 429, and the next slot to be asked for", vec![at_once(), Say::grant(ms(100))])
            .replies(vec![Reply::REFUSAL, Reply::OK])
            .reports(vec![verdict(Verdict::Retry, None)])
            .needs(vec![Need::Calls(2), Need::Asks(2)]),
        Situation::new("give-up", "a 429, and the call is given up", vec![at_once()])
            .replies(vec![Reply::REFUSAL])
            .reports(vec![verdict(Verdict::GiveUp, None)])
            .ends(Ends::Answered(429)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_can_stand_in_a_lease() {
        let all = situations();
        let mut names: Vec<&str> = all.iter().map(|situation| situation.id).collect();
        assert!(names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().all(|situation| !situation.asks.is_empty() && !situation.replies.is_empty()));
    }
}
