//! Compares what was answered with what is written.

use std::collections::BTreeMap;

use paceline_coordinator::api::{Answer, CallError, NotApplied, ReportAnswer};
use paceline_coordinator::scope::Reply;
use paceline_core::delays::{self, DelayPart, RunnerUp};
use paceline_core::retry::Verdict;
use paceline_core::units::Span;
use paceline_tests::transcript::{Between, Step, Words};

use crate::run::{Got, Mismatch};

/// How exact times are.
pub(crate) const SLACK_US: u64 = 2_000;

/// Each call's answers in their order against the lines written for it.
pub(crate) fn compare(steps: &[Step], mut got: BTreeMap<String, Vec<Got>>) -> Vec<Mismatch> {
    let mut wrong = Vec::new();
    for step in steps.iter().filter(|step| step.is_answer) {
        let answers = got.entry(step.who.clone()).or_default();
        if answers.is_empty() {
            let what = format!("{} gets no answer, but {} is written", step.who, step.words.verb);
            wrong.push(Mismatch { line: step.line, what });
            continue;
        }
        let answer = answers.remove(0);
        wrong.extend(differences(step, &answer).into_iter().map(|what| Mismatch { line: step.line, what }));
    }
    for (who, answers) in got {
        for answer in answers {
            let what = format!("{who} is answered at {} with {}, which is not written", answer.at, verb(&answer.reply));
            wrong.push(Mismatch { line: answer.asked_in, what });
        }
    }
    wrong.sort_by_key(|mismatch| mismatch.line);
    wrong
}

fn differences(step: &Step, got: &Got) -> Vec<String> {
    let mut wrong = Vec::new();
    if verb(&got.reply) != step.words.verb {
        return vec![format!("{} is answered with {}, but {} is written", step.who, in_words(&got.reply), step.words.verb)];
    }
    if !step.at.holds(micros(got.at), SLACK_US) {
        wrong.push(format!("it comes at {} s", got.at.as_secs_f64()));
    }
    wrong.extend(fields(&step.words, got, &got.reply));
    if let Reply::Report(Ok(report)) = &got.reply {
        let then = step.more.iter().find_map(|line| line.strip_prefix("then "));
        match (then.map(|words| Words::parse(words.split_whitespace()).unwrap()), &report.next) {
            (None, None) => {}
            (Some(words), Some(next)) => {
                let next = Reply::Answer(Ok(next.clone()));
                if verb(&next) == words.verb {
                    wrong.extend(fields(&words, got, &next));
                } else {
                    wrong.push(format!("then {}, but {} is written", in_words(&next), words.verb));
                }
            }
            (None, Some(next)) => wrong.push(format!("then {next:?}, which is not written")),
            (Some(words), None) => wrong.push(format!("then nothing, but {} is written", words.verb)),
        }
    }
    wrong
}

/// What differs in the fields that are written, and whether a grant's delays add up.
fn fields(words: &Words, got: &Got, reply: &Reply) -> Vec<String> {
    let mut wrong = Vec::new();
    // A lease that is told again was checked when it was told first.
    if let Reply::Answer(Ok(Answer::Granted(grant))) = reply
        && got.lease_before.as_ref() != Some(&grant.lease_id)
    {
        let wait = got.at + grant.wait - got.counts_from;
        let sum = delays::total(&grant.delays);
        if sum != wait {
            wrong.push(format!("the delays add up to {sum}, but it waited {wait}: {:?}", grant.delays));
        }
    }
    for (name, expected) in &words.fields {
        match actual(name, got, reply) {
            None => wrong.push(format!("there is no {name} in {}", in_words(reply))),
            Some(actual) if actual.agrees(name, expected) => {}
            Some(actual) => wrong.push(format!("{name} is {}, but {expected} is written", actual.told())),
        }
    }
    let operand = words.operands.first();
    if let (Reply::Released(released), Some(expected)) = (reply, operand) {
        let told = if *released { "yes" } else { "no" };
        if told != expected {
            wrong.push(format!("released is {told}, but {expected} is written"));
        }
    }
    if let (Reply::Answer(Err(error)) | Reply::Report(Err(error)), Some(expected)) = (reply, operand)
        && code(error) != expected
    {
        wrong.push(format!("the error is {} ({error}), but {expected} is written", code(error)));
    }
    wrong
}

/// A field's value.
enum Actual {
    Time(Span),
    Text(String),
}

impl Actual {
    fn agrees(&self, name: &str, expected: &str) -> bool {
        match self {
            Self::Time(span) => Between::parse(expected).is_some_and(|between| between.holds(micros(*span), SLACK_US)),
            Self::Text(text) if name.ends_with('~') => text.contains(expected),
            Self::Text(text) => text == expected,
        }
    }

    fn told(&self) -> String {
        match self {
            Self::Time(span) if *span == Span::ZERO => "0 s".to_owned(),
            Self::Time(span) => format!("{} s", span.as_secs_f64()),
            Self::Text(text) => text.clone(),
        }
    }
}

fn text(text: impl ToString) -> Option<Actual> {
    Some(Actual::Text(text.to_string()))
}

fn yes(holds: bool) -> Option<Actual> {
    text(if holds { "yes" } else { "no" })
}

fn actual(name: &str, got: &Got, reply: &Reply) -> Option<Actual> {
    match reply {
        Reply::Answer(Ok(answer)) => of_answer(name, got, answer),
        Reply::Report(Ok(report)) => of_report(name, report),
        _ => None,
    }
}

fn of_answer(name: &str, got: &Got, answer: &Answer) -> Option<Actual> {
    let (delays, binding, runner_up) = match answer {
        Answer::Granted(grant) => {
            let binding = delays::governing(&grant.delays).map(|part| part.cause.bucket.clone());
            (&grant.delays, binding, &grant.runner_up)
        }
        Answer::Queued(queued) => (&queued.delays, Some(queued.binding.bucket.clone()), &queued.runner_up),
        Answer::Denied(denied) => (&denied.delays, None, &None),
    };
    match name {
        "binding" => return text(binding?),
        "runner_up" => return text(&runner_up.as_ref()?.cause.bucket),
        "free_in" => return runner_up.as_ref().map(|RunnerUp { free_in, .. }| Actual::Time(*free_in)),
        _ => {}
    }
    if let Some(source) = name.strip_prefix("delay.") {
        let parts: Vec<DelayPart> = delays.iter().filter(|part| part.cause.source.name() == source).cloned().collect();
        return Some(Actual::Time(delays::total(&parts)));
    }
    match answer {
        Answer::Granted(grant) => match name {
            "wait" => Some(Actual::Time(grant.wait)),
            "send" => Some(Actual::Time(got.at + grant.wait)),
            "use_within" => Some(Actual::Time(grant.use_within)),
            "ttl" => Some(Actual::Time(grant.ttl)),
            "estimated" => text(grant.estimated.join(",")),
            "place_lost" => yes(grant.place_lost),
            "lease" => text(if got.lease_before.as_ref() == Some(&grant.lease_id) { "same" } else { "new" }),
            _ => text(grant.reserved.get(name.strip_prefix("reserved.")?)?),
        },
        Answer::Queued(queued) => match name {
            "ahead" => text(queued.ahead),
            "estimated_wait" => Some(Actual::Time(queued.estimated_wait)),
            "come_back_in" => Some(Actual::Time(queued.come_back_in)),
            "place_lost" => yes(queued.place_lost),
            _ => None,
        },
        Answer::Denied(denied) => match (name, denied.denial.retry_after) {
            ("reason", _) => text(denied.denial.reason.name().to_uppercase()),
            ("retry_after", None) => text("never"),
            ("retry_after", Some(after)) => Some(Actual::Time(after)),
            ("detail~", _) => text(&denied.denial.detail),
            _ => None,
        },
    }
}

fn of_report(name: &str, report: &ReportAnswer) -> Option<Actual> {
    match name {
        "applied" => yes(report.not_applied.is_none()),
        "not_applied" => text(match report.not_applied? {
            NotApplied::LeaseUnknown => "LEASE_UNKNOWN",
            NotApplied::LeaseExpired => "LEASE_EXPIRED",
            NotApplied::LeaseSettled => "LEASE_SETTLED",
            NotApplied::Repeated => "REPEATED",
        }),
        "verdict" => text(report.verdict.map_or("unspecified", Verdict::name).to_uppercase()),
        "reason" => match report.verdict? {
            Verdict::GiveUp(reason) => text(reason.name().to_uppercase()),
            _ => None,
        },
        "kind" => text(format!("{:?}", report.signal.kind).to_uppercase()),
        "source" => text(report.signal.source.name().to_uppercase()),
        "retry_after" => report.signal.retry_after.map(Actual::Time),
        "honored" => Some(Actual::Time(report.honored)),
        "ttl" => Some(Actual::Time(report.ttl)),
        _ => None,
    }
}

fn verb(reply: &Reply) -> &'static str {
    match reply {
        Reply::Answer(Ok(Answer::Granted(_))) => "granted",
        Reply::Answer(Ok(Answer::Queued(_))) => "queued",
        Reply::Answer(Ok(Answer::Denied(_))) => "denied",
        Reply::Report(Ok(_)) => "reported",
        Reply::Released(_) => "released",
        Reply::Answer(Err(_)) | Reply::Report(Err(_)) => "error",
        Reply::View(_) | Reply::Found(_) | Reply::Quote(_) | Reply::Recalled(_) | Reply::Forgotten(_) => "shown",
    }
}

fn in_words(reply: &Reply) -> String {
    match reply {
        Reply::Answer(Ok(Answer::Denied(denied))) => {
            format!("denied reason={} ({})", denied.denial.reason.name().to_uppercase(), denied.denial.detail)
        }
        Reply::Answer(Err(error)) | Reply::Report(Err(error)) => format!("error {} ({error})", code(error)),
        other => verb(other).to_owned(),
    }
}

fn code(error: &CallError) -> &'static str {
    match error {
        CallError::Invalid { .. } => "INVALID_ARGUMENT",
        CallError::UnknownProvider(_) => "NOT_FOUND",
        CallError::AlreadyExists(_) => "ALREADY_EXISTS",
        CallError::Unavailable(_) | CallError::Moved { .. } => "UNAVAILABLE",
    }
}

fn micros(span: Span) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(0)
}
