//! What a worker did wrong: events with times in, findings out. Pure: reads no clock and asks nobody.
//!
//! Times are those of the kit. A wait is counted from when its answer went out, which is before the worker has it, so a call
//! that the kit calls early is early by the worker's clock too; what is called late or slow is so by a margin that a busy machine
//! does not reach.

mod asks;
mod hammer;
mod reports;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::event::{Event, Way, What};
use super::script::{Ends, Need, Situation};

/// Timers fire a little before their time on some systems, and a length of time may be cut to milliseconds.
const EARLY: Duration = Duration::from_millis(5);

/// A rule of docs/workers.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    /// One of the ten rules of a good worker.
    Number(u8),
    /// A step of the protocol.
    Step(Step),
}

/// A step of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Ask,
    Report,
    Verdict,
    Job,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Number(1) => "rule 1, the SDK's own retries are off",
            Self::Number(2) => "rule 2, never send early",
            Self::Number(3) => "rule 3, never send late",
            Self::Number(4) => "rule 4, report every answer, without secrets",
            Self::Number(5) => "rule 5, do not compute waits yourself",
            Self::Number(6) => "rule 6, give back what you will not use",
            Self::Number(7) => "rule 7, one call, one request_id",
            Self::Number(8) => "rule 8, repeat what got no answer",
            Self::Number(9) => "rule 9, a denial is an answer",
            Self::Number(10) => "rule 10, a retry is not a resume",
            Self::Number(_) => "the rules",
            Self::Step(Step::Ask) => "the protocol, Ask",
            Self::Step(Step::Report) => "the protocol, Report",
            Self::Step(Step::Verdict) => "the protocol, Do as the verdict says",
            Self::Step(Step::Job) => "the kit's job protocol",
        };
        f.write_str(name)
    }
}

/// Something that a worker did wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) rule: Rule,
    /// What was seen.
    pub(super) seen: String,
}

/// What a situation says of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Ok,
    Wrong,
    NotSeen,
}

/// One situation, judged.
#[derive(Clone, Debug)]
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    pub(super) findings: Vec<Finding>,
    /// What was not seen, where nothing was wrong.
    pub(super) missing: Vec<String>,
}

/// Collects findings; the same one once.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, rule: Rule, seen: impl Into<String>) {
        let finding = Finding { rule, seen: seen.into() };
        if !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }
}

/// Judges every situation. Findings about no job in particular come second.
pub(super) fn judge(situations: &[Situation], events: &[Event]) -> (Vec<Judgement>, Vec<Finding>) {
    let mut stray = Findings::default();
    if events.iter().any(|event| event.job.is_empty() && matches!(event.what, What::Asked { .. })) {
        stray.add(Rule::Step(Step::Ask), "asked for a slot whose target.model is the `model` of no job");
    }
    if events.iter().any(|event| event.job.is_empty() && matches!(event.what, What::Reported { .. })) {
        stray.add(Rule::Step(Step::Report), "reported a lease_id that was never given");
    }
    let shared = shared_ids(events);
    let judged = situations.iter().map(|situation| {
        let own: Vec<&Event> = events.iter().filter(|event| event.job == situation.id).collect();
        one(situation, &own, &shared)
    });
    (judged.collect(), stray.0)
}

/// Names of calls that more than one job was asked for under.
fn shared_ids(events: &[Event]) -> Vec<String> {
    let mut jobs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for event in events {
        if let What::Asked { request, .. } = &event.what {
            let of = jobs.entry(&request.request_id).or_default();
            if !of.contains(&event.job.as_str()) {
                of.push(&event.job);
            }
        }
    }
    jobs.into_iter().filter(|(_, of)| of.len() > 1).map(|(id, _)| id.to_owned()).collect()
}

/// Judges one situation by its events.
fn one(situation: &Situation, events: &[&Event], shared: &[String]) -> Judgement {
    let mut findings = Findings::default();
    asks::check(situation, events, &mut findings);
    hammer::check(events, &mut findings);
    reports::check(situation, events, &mut findings);
    let is_shared = |event: &&Event| matches!(&event.what, What::Asked { request, .. } if shared.contains(&request.request_id));
    if events.iter().any(is_shared) {
        findings.add(Rule::Number(7), "another job was asked for under the same request_id");
    }
    ending(situation, events, &mut findings);
    let missing = missing(situation, events);
    let verdict = match (findings.0.is_empty(), missing.is_empty()) {
        (false, _) => Verdict::Wrong,
        (true, true) => Verdict::Ok,
        (true, false) => Verdict::NotSeen,
    };
    Judgement { verdict, findings: findings.0, missing }
}

/// Whether the job ended for its caller as it had to.
fn ending(situation: &Situation, events: &[&Event], findings: &mut Findings) {
    let Some((outcome, status)) = events.iter().find_map(|event| match &event.what {
        What::Done { outcome, status } => Some((outcome.as_str(), *status)),
        _ => None,
    }) else {
        return;
    };
    let said = || if outcome == "answered" { format!("answered with {status}") } else { outcome.to_owned() };
    match situation.ends {
        Ends::Answered(expected) if outcome == "answered" && status == expected => {}
        Ends::Either(expected) if outcome == "answered" && (status == expected || status == 200) => {}
        Ends::Denied if outcome == "denied" => {}
        Ends::Failed if outcome == "failed" => {}
        // An adapter that cannot do it; what else it did wrong is found all the same.
        Ends::Left => {}
        // It may have got that far before it was killed.
        Ends::Killed => {}
        Ends::Answered(expected) if expected >= 400 => findings.add(
            Rule::Step(Step::Verdict),
            format!("the call was given up, and its caller got {} in place of the provider's last answer, {expected}", said()),
        ),
        Ends::Answered(expected) | Ends::Either(expected) => {
            findings.add(Rule::Step(Step::Job), format!("the provider answered {expected}, and the job ended: {}", said()))
        }
        Ends::Denied => findings.add(Rule::Number(9), format!("the call was denied, and its caller was told: {}", said())),
        Ends::Failed => findings.add(Rule::Step(Step::Job), format!("the call failed, and the job ended: {}", said())),
    }
}

/// What should have been seen and was not.
fn missing(situation: &Situation, events: &[&Event]) -> Vec<String> {
    let count = |is_it: fn(&What) -> bool| events.iter().filter(|event| is_it(&event.what)).count();
    let asks = count(|what| matches!(what, What::Asked { .. }));
    let calls = count(|what| matches!(what, What::Arrived { .. }));
    let on_session = events.iter().any(|event| matches!(event.what, What::Asked { way: Way::Session, .. }));
    let mut missing = Vec::new();
    if count(|what| matches!(what, What::Handed)) == 0 {
        return vec!["the job was not fetched".to_owned()];
    }
    for need in &situation.needs {
        let lacks = match need {
            Need::Calls(least) if calls < *least => {
                format!("{calls} of {least} call{} came to the provider", if *least == 1 { "" } else { "s" })
            }
            Need::Asks(least) if asks < *least && !(on_session && asks > 0 && calls > 0) => {
                format!("{asks} of {least} ask{} came", if *least == 1 { "" } else { "s" })
            }
            Need::Running if !on_session && !reports::says_running(events) => {
                "no report said that the call still runs".to_owned()
            }
            Need::NeverSent if !reports::says_never_sent(events) => "no report said that the call was never sent".to_owned(),
            Need::RepeatedReport if !reports::is_repeated(events) => "the report did not come again".to_owned(),
            Need::TwoReports if reports::different(events) < 2 => "only one report came".to_owned(),
            _ => continue,
        };
        missing.push(lacks);
    }
    let ended = match situation.ends {
        Ends::Killed => count(|what| matches!(what, What::Killed)),
        _ => count(|what| matches!(what, What::Done { .. })),
    };
    let has_left = count(|what| matches!(what, What::Done { outcome, .. } if outcome == "cancelled")) > 0;
    if situation.ends == Ends::Left && ended > 0 && !has_left {
        missing.push("the adapter does not know cancel_after_ms".to_owned());
    }
    if ended == 0 {
        missing.push("the job did not end".to_owned());
    }
    missing
}

/// `1.25 s`, `300 ms`.
fn time(span: Duration) -> String {
    if span < Duration::from_secs(1) { format!("{} ms", span.as_millis()) } else { format!("{:.2} s", span.as_secs_f64()) }
}
