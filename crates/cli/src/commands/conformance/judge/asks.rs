//! Asking and sending: one walk over the events of a job, with what the worker may do next in hand.

use std::collections::BTreeMap;
use std::time::Duration;

use paceline_proto::v1::{AcquireRequest, Mode, Outcome, ReportRequest, Verdict};

use super::super::event::{Answer, Event, Granted, Said, What};
use super::super::script::Situation;
use super::super::web::{PROVIDER, SECRET};
use super::{EARLY, Findings, Rule, Step, time};

/// A call that is sent so long after its grant was over was surely not on its way by then.
const SURELY_LATE: Duration = Duration::from_secs(2);
/// A held answer may be asked for anew after this: a reply may have been lost.
const HELD: Duration = Duration::from_secs(3);
/// Who is only watched goes at once: by this time at the latest.
const AT_ONCE: Duration = Duration::from_secs(3);

/// What was said last.
#[derive(Clone, Debug)]
enum Now {
    /// Nothing yet.
    Nothing,
    /// The worker asked, and has no answer.
    Asked {
        at: Duration,
    },
    Granted {
        at: Duration,
        grant: Granted,
        sent: u32,
    },
    Queued {
        at: Duration,
        ticket: Vec<u8>,
        come_back_in: Duration,
    },
    Denied,
    Failed,
    /// To be sent again; the slot has to be asked for. Or may be, where nobody judged what the provider refused.
    Again {
        at: Duration,
        lease: String,
        is_free: bool,
    },
    /// Done, given up or given back, after so many calls under the last grant.
    Over {
        lease: String,
        end: End,
        sent: u32,
    },
}

/// How a grant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Done,
    GivenUp,
    GivenBack,
    /// Nobody judged it, and it may have run.
    Lost,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            Self::Done => "after DONE",
            Self::GivenUp => "after GIVE_UP",
            Self::GivenBack => "for what it had given back",
            Self::Lost => "although the call may have run, and nobody said that it may be sent again",
        }
    }
}

/// The walk.
struct Walk<'f> {
    /// Whose slots the job is about.
    account: &'static str,
    now: Now,
    /// The last ask.
    asked: Option<AcquireRequest>,
    /// Since the last slot came with a report's answer, the attempt is one more than the last ask's.
    attempt: u32,
    /// The provider's last answer: when, its status, and how long it said to stay away.
    replied: Option<(Duration, u16, Option<Duration>)>,
    /// The leases of reports, by their numbers.
    leases: BTreeMap<u64, String>,
    findings: &'f mut Findings,
}

/// Checks asks and calls.
pub(super) fn check(situation: &Situation, events: &[&Event], findings: &mut Findings) {
    let mut walk = Walk {
        account: situation.account,
        now: Now::Nothing,
        asked: None,
        attempt: 1,
        replied: None,
        leases: BTreeMap::new(),
        findings,
    };
    for event in events {
        walk.step(event.at, &event.what);
    }
    walk.end(events);
}

impl Walk<'_> {
    fn step(&mut self, at: Duration, what: &What) {
        match what {
            What::Asked { request, .. } => self.asked(at, request),
            What::Answered(answer) => self.answered(at, answer),
            What::Arrived { .. } => self.arrived(at),
            What::Replied { status, retry_after, .. } => self.replied = Some((at, *status, *retry_after)),
            What::Reported { number, request, .. } => self.reported(at, *number, request),
            What::Told { number, said } => self.told(at, *number, said),
            What::Released { lease } => self.released(lease),
            What::Handed | What::Ended { .. } | What::Killed | What::Done { .. } => {}
        }
    }

    fn asked(&mut self, at: Duration, request: &AcquireRequest) {
        self.check_names(request);
        let same_call = self.asked.as_ref().is_none_or(|before| before.request_id == request.request_id);
        let attempt = request.attempt.max(1);
        let same = same_call && attempt == self.attempt;
        let (call, protocol) = (Rule::Number(7), Rule::Step(Step::Ask));
        match self.now.clone() {
            Now::Nothing if attempt != 1 => self.findings.add(call, format!("the first attempt is number {attempt}")),
            Now::Nothing => {}
            Now::Asked { at: before } if !same => self.findings.add(
                call,
                format!("asked under another request_id or attempt {} after an ask that was held", time(at - before)),
            ),
            Now::Asked { at: before } if at - before < HELD => self.findings.add(
                protocol,
                format!("asked again after {}, while the answer was held; it comes within the hold and 3 s", time(at - before)),
            ),
            Now::Queued { at: told, ticket, come_back_in } => self.came_back(at - told, request, same, &ticket, come_back_in),
            Now::Failed if !same => {
                self.findings.add(Rule::Number(8), "after UNAVAILABLE it asked under another request_id or attempt")
            }
            Now::Granted { grant, .. } if !same => self.findings.add(
                call,
                format!("a grant (wait {}) was given, and the next ask has another request_id or attempt", time(grant.wait)),
            ),
            Now::Again { at: told, lease, .. } => self.next_attempt(at, told, request, same_call, &lease),
            Now::Denied => self.findings.add(Rule::Number(9), "asked again after the denial"),
            Now::Over { end, .. } => {
                let rule = if end == End::GivenBack { protocol } else { Rule::Step(Step::Verdict) };
                self.findings.add(rule, format!("asked again {}", end.name()));
            }
            Now::Asked { .. } | Now::Failed | Now::Granted { .. } => {}
        }
        self.attempt = attempt;
        self.asked = Some(request.clone());
        self.now = Now::Asked { at };
    }

    fn check_names(&mut self, request: &AcquireRequest) {
        let length = request.request_id.chars().count();
        if !(1..=128).contains(&length) {
            self.findings.add(Rule::Number(7), format!("a request_id has 1 to 128 characters, this one {length}"));
        }
        let target = request.target.clone().unwrap_or_default();
        if target.provider != PROVIDER {
            let seen = format!("asked for a slot of the provider `{}`; the job says `{PROVIDER}`", target.provider);
            self.findings.add(Rule::Step(Step::Ask), seen);
        }
        if target.account != self.account && !target.account.contains(SECRET) {
            let seen = format!("asked for a slot of the account `{}`; the job says `{}`", target.account, self.account);
            self.findings.add(Rule::Step(Step::Ask), seen);
        }
        let mut texts = [("account", &target.account), ("tenant", &request.tenant)].to_vec();
        texts.extend(request.labels.values().map(|value| ("labels", value)));
        for (name, _) in texts.into_iter().filter(|(_, text)| text.contains(SECRET)) {
            self.findings.add(Rule::Number(4), format!("the {name} of an ask holds the provider's key"));
        }
        let deadlines = (self.asked.as_ref().and_then(|before| before.deadline), request.deadline);
        if let (Some(before), Some(now)) = deadlines
            && (now.seconds, now.nanos) >= (before.seconds, before.nanos)
        {
            self.findings
                .add(Rule::Step(Step::Ask), "the deadline did not shrink between two asks: it is a length of time from now");
        }
    }

    /// Back from the line.
    fn came_back(&mut self, after: Duration, request: &AcquireRequest, same: bool, ticket: &[u8], come_back_in: Duration) {
        if !same {
            self.findings.add(Rule::Number(7), "came back from the line under another request_id or attempt");
        }
        if request.ticket.is_empty() {
            self.findings.add(Rule::Step(Step::Ask), "came back from the line without its ticket: its place is lost");
        } else if request.ticket[..] != *ticket {
            self.findings.add(Rule::Step(Step::Ask), "came back with another ticket than the last answer's");
        }
        if after + EARLY < come_back_in {
            let (after, told) = (time(after), time(come_back_in));
            self.findings.add(Rule::Step(Step::Ask), format!("came back after {after}; come_back_in was {told}"));
        } else if after > come_back_in + SURELY_LATE {
            let (after, told) = (time(after), time(come_back_in));
            let seen = format!("came back after {after}; come_back_in was {told}, and who is not there misses its turn");
            self.findings.add(Rule::Step(Step::Ask), seen);
        }
    }

    /// The verdict was RETRY, and no slot came with it.
    fn next_attempt(&mut self, at: Duration, told: Duration, request: &AcquireRequest, same_call: bool, lease: &str) {
        let expected = self.attempt + 1;
        if !same_call {
            self.findings.add(Rule::Number(7), "the next attempt was asked for under another request_id");
        } else if request.attempt.max(1) == self.attempt {
            let seen = format!("the next attempt was asked for under the number of the last, {} (0 reads as 1)", self.attempt);
            self.findings.add(Rule::Number(7), seen);
        } else if request.attempt != expected {
            let seen = format!("after attempt {} it asked for attempt {}", self.attempt, request.attempt);
            self.findings.add(Rule::Number(7), seen);
        }
        if request.previous_lease_id != lease {
            self.findings.add(Rule::Step(Step::Verdict), "the next attempt was asked for without previous_lease_id");
        }
        self.slept(at - told, Duration::ZERO, "asked for the next attempt");
    }

    fn answered(&mut self, at: Duration, answer: &Answer) {
        self.now = match answer {
            Answer::Granted(grant) => Now::Granted { at, grant: grant.clone(), sent: 0 },
            Answer::Queued { ticket, come_back_in } => Now::Queued { at, ticket: ticket.clone(), come_back_in: *come_back_in },
            Answer::Denied { .. } => Now::Denied,
            Answer::Failed => Now::Failed,
        };
    }

    fn arrived(&mut self, at: Duration) {
        match self.now.clone() {
            Now::Granted { at: granted, grant, sent: 0 } => {
                self.first_call(at.saturating_sub(granted), &grant);
                self.now = Now::Granted { at: granted, grant, sent: 1 };
            }
            Now::Granted { at: granted, grant, sent } => {
                self.own_retry(at);
                self.now = Now::Granted { at: granted, grant, sent: sent + 1 };
            }
            Now::Nothing => self.findings.add(Rule::Step(Step::Ask), "sent without asking"),
            Now::Asked { .. } if self.replied.is_some() => self.own_retry(at),
            Now::Asked { .. } | Now::Failed => self.findings.add(Rule::Step(Step::Ask), "sent without an answer"),
            Now::Queued { .. } => self.findings.add(Rule::Step(Step::Ask), "sent although it was told to wait in line"),
            Now::Denied => self.findings.add(Rule::Number(9), "sent although the answer was a denial"),
            Now::Again { .. } => self.findings.add(Rule::Step(Step::Verdict), "sent again without a slot for the next attempt"),
            Now::Over { end: End::GivenBack, .. } => {
                self.findings.add(Rule::Number(6), "sent under a lease that it had given back")
            }
            // Its report, which came too early, was found already.
            Now::Over { sent: 0, .. } => {}
            Now::Over { end, .. } => {
                self.findings.add(Rule::Number(1), format!("sent again {}", end.name()));
            }
        }
    }

    fn first_call(&mut self, after: Duration, grant: &Granted) {
        let (took, wait, within) = (time(after), time(grant.wait), time(grant.use_within));
        if after + EARLY < grant.wait {
            self.findings.add(Rule::Number(2), format!("sent {took} after the answer that said to wait {wait}"));
        }
        let over = grant.wait + grant.use_within;
        let margin = if grant.use_within.is_zero() { Duration::ZERO } else { SURELY_LATE };
        if after > over + margin {
            let seen = format!("sent {took} after an answer with wait {wait} and use_within {within}, and did not ask again");
            self.findings.add(Rule::Number(3), seen);
        }
        if grant.mode != Mode::Enforce && after > AT_ONCE {
            let seen = format!("waited {took}, although the service makes nobody wait and said to go at once");
            self.findings.add(Rule::Step(Step::Ask), seen);
        }
        self.slept(after, grant.wait, "sent the next attempt");
    }

    /// More calls than grants.
    fn own_retry(&mut self, at: Duration) {
        match self.replied {
            Some((replied, status, _)) if status >= 400 => {
                let after = time(at.saturating_sub(replied));
                self.findings.add(Rule::Number(1), format!("sent again by itself, {after} after the provider's {status}"));
            }
            Some(_) => self.findings.add(Rule::Number(10), "sent again by itself after the answer had begun"),
            None => self.findings.add(Rule::Number(1), "sent twice under one grant"),
        }
    }

    /// Whether the worker took the provider's time for its own.
    fn slept(&mut self, after: Duration, told: Duration, did: &str) {
        let Some((_, status, Some(stay_away))) = self.replied else { return };
        if after > told + stay_away / 2 {
            let (after, stay_away, told) = (time(after), time(stay_away), time(told));
            let seen = format!("{did} {after} after the answer that said {told}; the provider's {status} had said {stay_away}");
            self.findings.add(Rule::Number(5), seen);
        }
    }

    fn reported(&mut self, at: Duration, number: u64, request: &ReportRequest) {
        let lease = request.lease_id.as_str();
        self.leases.insert(number, lease.to_owned());
        let is_this = matches!(&self.now, Now::Granted { grant, .. } if grant.lease == lease);
        let is_unsent = matches!(&self.now, Now::Granted { sent: 0, .. });
        if is_this && is_unsent && request.outcome() == Outcome::Response {
            self.findings.add(Rule::Step(Step::Report), "reported an answer to a call that was not sent yet");
        }
        if let (true, Some((replied, status, Some(stay_away)))) = (is_this, self.replied)
            && at.saturating_sub(replied) > stay_away / 2
        {
            let (after, stay_away) = (time(at.saturating_sub(replied)), time(stay_away));
            let seen = format!("reported the provider's {status} {after} after it came; it had said {stay_away}");
            self.findings.add(Rule::Number(5), seen);
        }
    }

    fn told(&mut self, at: Duration, number: u64, said: &Said) {
        // What is said again on a report that was repeated changes nothing, nor does a word on an earlier attempt.
        let Now::Granted { grant, sent, .. } = &self.now else { return };
        let (lease, sent) = (grant.lease.clone(), *sent);
        if self.leases.get(&number).is_some_and(|of| *of != lease) {
            return;
        }
        self.now = match said {
            Said::Verdict(Verdict::Retry | Verdict::FailOver, Some(grant)) => {
                self.attempt += 1;
                Now::Granted { at, grant: grant.clone(), sent: 0 }
            }
            Said::Verdict(Verdict::Retry | Verdict::FailOver, None)
            | Said::NotApplied(_, Verdict::Retry | Verdict::FailOver) => Now::Again { at, lease, is_free: false },
            Said::Verdict(Verdict::Done, _) | Said::NotApplied(_, Verdict::Done) => Now::Over { lease, end: End::Done, sent },
            Said::Verdict(Verdict::GiveUp, _) | Said::NotApplied(_, Verdict::GiveUp) => {
                Now::Over { lease, end: End::GivenUp, sent }
            }
            Said::NotApplied(_, Verdict::Unspecified) => match self.replied {
                Some((_, 429 | 503, _)) => Now::Again { at, lease, is_free: true },
                _ => Now::Over { lease, end: End::Lost, sent },
            },
            Said::Verdict(Verdict::Unspecified, _) | Said::Failed => return,
        };
    }

    fn released(&mut self, lease: &str) {
        match &self.now {
            Now::Granted { grant, sent, .. } if *sent > 0 && grant.lease == lease => self
                .findings
                .add(Rule::Number(6), "released the lease of a call that was sent: the provider has probably counted it"),
            Now::Over { lease: ended, end: End::Done | End::GivenUp | End::Lost, sent } if *sent > 0 && ended == lease => {
                self.findings.add(Rule::Number(6), "released the lease of a call that was sent and reported")
            }
            Now::Granted { grant, sent: 0, .. } if grant.lease == lease => self.give_back(lease),
            Now::Queued { .. } if lease.is_empty() => self.give_back(lease),
            _ => {}
        }
    }

    fn give_back(&mut self, lease: &str) {
        self.now = Now::Over { lease: lease.to_owned(), end: End::GivenBack, sent: 0 };
    }

    /// What is left when the job is over.
    fn end(&mut self, events: &[&Event]) {
        let Some(outcome) = events.iter().find_map(|event| match &event.what {
            What::Done { outcome, .. } => Some(outcome.as_str()),
            _ => None,
        }) else {
            return;
        };
        match &self.now {
            Now::Granted { sent: 0, grant, .. } if !is_reported(events, &grant.lease) => {
                self.findings.add(Rule::Number(6), "the job ended with a grant that was neither used nor released")
            }
            Now::Queued { .. } if outcome == "cancelled" => {
                self.findings.add(Rule::Number(6), "its caller left the line, and its place was not given back")
            }
            Now::Queued { .. } => self
                .findings
                .add(Rule::Step(Step::Ask), "the job ended while it was in line: it did not come back with its ticket"),
            Now::Failed => self.findings.add(Rule::Number(8), "gave up after one UNAVAILABLE"),
            Now::Again { is_free: false, .. } => {
                self.findings.add(Rule::Step(Step::Verdict), "the verdict was RETRY, and the next attempt was not asked for")
            }
            _ => {}
        }
    }
}

fn is_reported(events: &[&Event], lease: &str) -> bool {
    events.iter().any(|event| matches!(&event.what, What::Reported { request, .. } if request.lease_id == lease))
}
