//! Reports: of every call that was sent, with all that belongs to it, in order, and without secrets.

use std::collections::BTreeSet;
use std::time::Duration;

use paceline_proto::v1::{Header, Outcome, ReportRequest};

use super::super::event::{Answer, Event, Said, Way, What};
use super::super::script::Situation;
use super::super::web::{MARK, SECRET, USED_TOKENS};
use super::{Findings, Rule, Step, time};

/// Names of headers that carry secrets.
const SECRETS: [&str; 6] = ["authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key"];
/// Two clocks and a busy machine do not disagree by more.
const CLOCKS: Duration = Duration::from_secs(2);

/// What a report takes on its way, and what rounding takes of an age.
const JITTER: Duration = Duration::from_millis(20);

/// One report and what became of it.
struct Report<'e> {
    at: Duration,
    way: Way,
    request: &'e ReportRequest,
    /// When its answer went out; `None`: not yet.
    answered: Option<Duration>,
    is_failed: bool,
}

/// One call at the provider, and the lease that it was sent under.
struct Call {
    number: u32,
    lease: Option<String>,
    status: Option<u16>,
    replied: Option<Duration>,
    ended: Option<Duration>,
    is_cut: bool,
}

/// Checks what was reported.
pub(super) fn check(situation: &Situation, events: &[&Event], findings: &mut Findings) {
    let all = reports(events);
    for report in &all {
        secrets(report.request, findings);
    }
    if let Some(first) = all.iter().find(|report| !is_running(report.request)) {
        let outcome = first.request.outcome();
        if situation.is_unreachable && matches!(outcome, Outcome::Response | Outcome::Timeout | Outcome::Abandoned) {
            let seen =
                format!("nobody could be reached, and the report says {}: the call stays charged", outcome.as_str_name());
            findings.add(Rule::Step(Step::Report), seen);
        }
    }
    let of = |lease: &str| -> Vec<&Report<'_>> { all.iter().filter(|report| report.request.lease_id == lease).collect() };
    let leases: BTreeSet<&str> = all.iter().map(|report| report.request.lease_id.as_str()).collect();
    for lease in leases {
        sequence(&of(lease), findings);
    }
    for call in calls(events) {
        let Some(lease) = &call.lease else { continue };
        let own = of(lease);
        of_call(situation, events, &call, &own, findings);
    }
}

/// Whether some report says that the call still runs.
pub(super) fn says_running(events: &[&Event]) -> bool {
    reports(events).iter().any(|report| report.request.outcome() == Outcome::Running)
}

/// Whether some report says that the call was never sent.
pub(super) fn says_never_sent(events: &[&Event]) -> bool {
    reports(events).iter().any(|report| report.request.outcome() == Outcome::ConnectionFailed)
}

/// Whether some report came twice under one number.
pub(super) fn is_repeated(events: &[&Event]) -> bool {
    let all = reports(events);
    all.iter().enumerate().any(|(index, report)| all.iter().skip(index + 1).any(|other| is_same(report.request, other.request)))
}

/// How many different reports there are, other than that a call still runs.
pub(super) fn different(events: &[&Event]) -> usize {
    let all = reports(events);
    let is_first =
        |index: usize, report: &Report<'_>| !all.iter().take(index).any(|other| is_same(report.request, other.request));
    all.iter().enumerate().filter(|(index, report)| !is_running(report.request) && is_first(*index, report)).count()
}

fn is_same(one: &ReportRequest, other: &ReportRequest) -> bool {
    one.lease_id == other.lease_id && one.seq == other.seq && !is_running(one) && !is_running(other)
}

fn is_running(request: &ReportRequest) -> bool {
    request.outcome() == Outcome::Running
}

/// Whether nothing more is to come after it.
fn is_final(request: &ReportRequest) -> bool {
    request.r#final || matches!(request.outcome(), Outcome::Timeout | Outcome::ConnectionFailed | Outcome::Abandoned)
}

fn reports<'e>(events: &[&'e Event]) -> Vec<Report<'e>> {
    let told = |wanted: u64| {
        events.iter().find_map(|event| match &event.what {
            What::Told { number, said } if *number == wanted => Some((event.at, *said == Said::Failed)),
            _ => None,
        })
    };
    let read = |event: &&'e Event| match &event.what {
        What::Reported { number, way, request } => {
            let answer = told(*number);
            let (answered, is_failed) = (answer.map(|(at, _)| at), answer.is_some_and(|(_, failed)| failed));
            Some(Report { at: event.at, way: *way, request, answered, is_failed })
        }
        _ => None,
    };
    events.iter().filter_map(read).collect()
}

/// The calls, each with the lease that was in hand when it came.
fn calls(events: &[&Event]) -> Vec<Call> {
    let mut lease: Option<String> = None;
    let mut calls: Vec<Call> = Vec::new();
    for event in events {
        match &event.what {
            What::Answered(Answer::Granted(grant)) => lease = Some(grant.lease.clone()),
            What::Told { said: Said::Verdict(_, Some(grant)), .. } => lease = Some(grant.lease.clone()),
            What::Arrived { call } => {
                let number = *call;
                calls.push(Call { number, lease: lease.take(), status: None, replied: None, ended: None, is_cut: false });
            }
            What::Replied { call, status, .. } => {
                if let Some(call) = calls.iter_mut().find(|known| known.number == *call) {
                    (call.status, call.replied) = (Some(*status), Some(event.at));
                }
            }
            What::Ended { call, is_cut } => {
                if let Some(call) = calls.iter_mut().find(|known| known.number == *call) {
                    (call.ended, call.is_cut) = (Some(event.at), *is_cut);
                }
            }
            _ => {}
        }
    }
    calls
}

fn secrets(request: &ReportRequest, findings: &mut Findings) {
    let is_secret =
        |header: &&Header| SECRETS.iter().any(|name| header.name.eq_ignore_ascii_case(name)) || header.value.contains(SECRET);
    for header in request.headers.iter().filter(is_secret) {
        findings.add(Rule::Number(4), format!("reported the header {}, which carries a secret", header.name.to_lowercase()));
    }
    if request.body.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()) {
        findings.add(Rule::Number(4), "reported a body that holds the provider's key");
    }
}

/// Numbers rise, what got no answer comes again, and no report overtakes another.
fn sequence(own: &[&Report<'_>], findings: &mut Findings) {
    shared_number(own, findings);
    let own: Vec<&&Report<'_>> = own.iter().filter(|report| !is_running(report.request)).collect();
    if own.iter().any(|report| report.request.seq == 0) {
        findings.add(Rule::Step(Step::Report), "a report has seq 0; numbers begin at 1");
    }
    for pair in own.windows(2) {
        let [before, after] = pair else { continue };
        let is_repeat = after.request.seq == before.request.seq;
        if before.is_failed && !is_repeat {
            findings.add(
                Rule::Number(8),
                format!("report {} got no answer, and came again as {}", before.request.seq, after.request.seq),
            );
        } else if after.request.seq < before.request.seq {
            findings.add(Rule::Step(Step::Report), format!("report {} came after {}", after.request.seq, before.request.seq));
        } else if is_repeat && before.request.r#final != after.request.r#final {
            findings.add(Rule::Step(Step::Report), format!("two different reports have the seq {}", after.request.seq));
        }
        if !is_repeat && !before.is_failed && is_final(before.request) {
            findings.add(
                Rule::Step(Step::Report),
                format!("report {} came after the last one, {}", after.request.seq, before.request.seq),
            );
        }
        // The messages of a Session keep their order; single calls may overtake each other.
        if !is_repeat && after.way == Way::Unary && before.answered.is_none_or(|answered| answered > after.at) {
            let seen = format!("report {} was sent before report {} was answered", after.request.seq, before.request.seq);
            findings.add(Rule::Step(Step::Report), seen);
        }
    }
    if let Some(last) = own.last().filter(|last| last.is_failed) {
        findings.add(Rule::Number(8), format!("report {} got no answer, and did not come again", last.request.seq));
    }
}

/// A word that the call still runs has a number too: a later report under that number is taken for a repetition, and lost.
fn shared_number(own: &[&Report<'_>], findings: &mut Findings) {
    let mut alive = 0;
    for report in own.iter().map(|report| report.request) {
        if is_running(report) {
            alive = alive.max(report.seq);
        } else if report.seq > 0 && report.seq <= alive {
            let seen = format!("report {} came after RUNNING had the number {alive}: it is taken for a repetition", report.seq);
            findings.add(Rule::Step(Step::Report), seen);
        }
    }
}

/// What must be in the reports of one call.
fn of_call(situation: &Situation, events: &[&Event], call: &Call, own: &[&Report<'_>], findings: &mut Findings) {
    let is_done = events.iter().any(|event| matches!(event.what, What::Done { .. }));
    let said: Vec<&ReportRequest> = own.iter().map(|report| report.request).filter(|request| !is_running(request)).collect();
    let Some(first) = said.first() else {
        if is_done && call.ended.is_some() {
            findings.add(Rule::Number(4), "a call was sent and answered, and nothing was reported of it");
        }
        return;
    };
    if is_done && !said.iter().any(|request| is_final(request)) {
        findings.add(Rule::Number(4), "no report of the call is final");
    }
    ages(call, own, findings);
    let Some(status) = call.status else { return };
    if first.outcome() != Outcome::Response && !call.is_cut {
        let seen = format!("the provider answered {status}, and the report says {}", first.outcome().as_str_name());
        findings.add(Rule::Number(4), seen);
        return;
    }
    if first.outcome() == Outcome::Response {
        if first.status != u32::from(status) {
            findings.add(Rule::Number(4), format!("the provider answered {status}, and the report says {}", first.status));
        }
        if !has_mark(first) {
            findings.add(Rule::Number(4), format!("the report of the {status} lacks the answer's headers, such as {MARK}"));
        }
    }
    let is_wrong = |request: &&ReportRequest| {
        let told = request.usage.get("tokens").is_some_and(|told| *told != USED_TOKENS);
        told && !request.usage_estimated
    };
    if status < 400 && !call.is_cut && said.iter().any(is_wrong) {
        let seen = format!("the provider said that {USED_TOKENS} tokens were used, and the report says something else");
        findings.add(Rule::Step(Step::Report), seen);
    }
    if status >= 400 && first.body.is_empty() {
        findings.add(Rule::Number(4), format!("the report of the {status} lacks the start of its body"));
    }
    if situation.is_stream {
        stream(call, own, &said, findings);
    }
}

fn has_mark(request: &ReportRequest) -> bool {
    request.headers.iter().any(|header| header.name.eq_ignore_ascii_case(MARK))
}

/// The head at the first byte, the rest at the end.
fn stream(call: &Call, own: &[&Report<'_>], said: &[&ReportRequest], findings: &mut Findings) {
    let first = own.iter().find(|report| !is_running(report.request));
    if let (Some(first), Some(ended)) = (first, call.ended)
        && first.at >= ended
    {
        let seen = "the head of a stream was reported when it had ended: the fleet learns too late what it said";
        findings.add(Rule::Step(Step::Report), seen);
    }
    let Some(last) = said.last().filter(|last| said.len() > 1 && last.seq != said.first().map_or(0, |first| first.seq)) else {
        return;
    };
    if has_mark(last) {
        findings.add(Rule::Step(Step::Report), "the end of a stream was reported with the head's headers again");
    }
    if !call.is_cut && last.usage.is_empty() {
        findings.add(Rule::Step(Step::Report), "the end of a stream was reported without the usage that its last event told");
    }
}

/// An answer is as old as it is, also when its report is repeated.
fn ages(call: &Call, own: &[&Report<'_>], findings: &mut Findings) {
    let Some(replied) = call.replied else { return };
    for (index, report) in own.iter().enumerate() {
        let true_age = report.at.saturating_sub(replied);
        let told = report.request.age.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default();
        if told > true_age + CLOCKS {
            findings.add(
                Rule::Step(Step::Report),
                format!("a report said an age of {}; the answer was {} old", time(told), time(true_age)),
            );
        }
        let is_repeat = own.iter().take(index).any(|before| is_same(before.request, report.request));
        let began_stream = call.ended.is_some_and(|ended| ended > replied + Duration::from_millis(500));
        if is_repeat && !began_stream && told + JITTER < true_age / 2 {
            let seen =
                format!("a repeated report said an age of {}; the answer was {} old by then", time(told), time(true_age));
            findings.add(Rule::Step(Step::Report), seen);
        }
    }
}
