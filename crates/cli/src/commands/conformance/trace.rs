//! What happened in a situation, a line each: for whoever has to find out why their worker did what it did.

use std::fmt::Write as _;
use std::time::Duration;

use paceline_proto::v1::{AcquireRequest, Mode, Reason, ReportRequest};

use super::event::{Answer, Event, Granted, Said, What};

/// The story of one job, each line with the time since the first.
pub(super) fn trace(job: &str, events: &[Event]) -> String {
    let mut text = String::new();
    let own = || events.iter().filter(|event| event.job == job);
    let Some(began) = own().next().map(|event| event.at) else { return text };
    for event in own() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "    {:>9.3} s  {}", (event.at - began).as_secs_f64(), line(&event.what));
    }
    text
}

fn line(what: &What) -> String {
    match what {
        What::Handed => "the job is fetched".to_owned(),
        What::Asked { way, request } => format!("worker   asks ({way:?}): {}", ask(request)),
        What::Answered(answer) => format!("service  {}", self::answer(answer)),
        What::Arrived { call } => format!("worker   sends call {call}"),
        What::Replied { call, status, retry_after } => {
            let wait = retry_after.map(|wait| format!(", retry-after {}", wait.as_secs())).unwrap_or_default();
            format!("provider answers call {call}: {status}{wait}")
        }
        What::Ended { call, is_cut } => {
            format!("provider {} call {call}", if *is_cut { "breaks off" } else { "has ended" })
        }
        What::Reported { number, request, .. } => format!("worker   reports (#{number}): {}", report(request)),
        What::Told { number, said } => format!("service  on report #{number}: {}", told(said)),
        What::Released { lease } if lease.is_empty() => "worker   releases its place".to_owned(),
        What::Released { lease } => format!("worker   releases {lease}"),
        What::Killed => "the worker's process is killed".to_owned(),
        What::Done { outcome, status: 0 } => format!("the job is done: {outcome}"),
        What::Done { outcome, status } => format!("the job is done: {outcome} {status}"),
    }
}

fn ask(request: &AcquireRequest) -> String {
    let mut text = format!("request_id {}, attempt {}", request.request_id, request.attempt);
    if !request.ticket.is_empty() {
        let _ = write!(text, ", \"{}\"", String::from_utf8_lossy(&request.ticket));
    }
    if !request.previous_lease_id.is_empty() {
        let _ = write!(text, ", previous lease {}", request.previous_lease_id);
    }
    if let Some(deadline) = &request.deadline {
        let _ = write!(text, ", deadline {}", time(Some(deadline)));
    }
    text
}

fn answer(answer: &Answer) -> String {
    match answer {
        Answer::Granted(granted) => grant(granted),
        Answer::Queued { ticket, come_back_in } => {
            format!("queued: come back in {} ms with \"{}\"", come_back_in.as_millis(), String::from_utf8_lossy(ticket))
        }
        Answer::Denied { reason, .. } => {
            let name = Reason::try_from(*reason).map_or("of a newer service", |reason| reason.as_str_name());
            format!("denial {}", name.trim_start_matches("REASON_"))
        }
        Answer::Failed => "UNAVAILABLE".to_owned(),
    }
}

fn grant(granted: &Granted) -> String {
    let Granted { lease, wait, use_within, mode } = granted;
    let mode = match mode {
        Mode::Shadow => ", only watching",
        Mode::Off => ", switched off",
        _ => "",
    };
    format!("grants {lease}: wait {} ms, use within {} ms{mode}", wait.as_millis(), use_within.as_millis())
}

fn report(request: &ReportRequest) -> String {
    let outcome = request.outcome().as_str_name();
    let mut text = format!("{}, seq {}, {}", request.lease_id, request.seq, outcome.trim_start_matches("OUTCOME_"));
    if request.status != 0 {
        let _ = write!(text, " {}", request.status);
    }
    let _ = write!(text, ", {} headers, age {}", request.headers.len(), time(request.age.as_ref()));
    for (is, name) in [
        (request.r#final, ", final"),
        (request.retry.as_ref().is_some_and(|retry| retry.wanted), ", wants the next slot"),
        (request.usage_estimated, ", usage estimated"),
    ] {
        text.push_str(if is { name } else { "" });
    }
    for (meter, units) in &request.usage {
        let _ = write!(text, ", {units} {meter}");
    }
    text
}

fn told(said: &Said) -> String {
    match said {
        Said::Verdict(verdict, next) => {
            let next = next.as_ref().map(|next| format!(", {}", grant(next))).unwrap_or_default();
            format!("{}{next}", verdict.as_str_name().trim_start_matches("VERDICT_"))
        }
        Said::NotApplied(why, verdict) => {
            let names = (why.as_str_name(), verdict.as_str_name());
            format!("not applied, {}; {}", names.0.trim_start_matches("NOT_APPLIED_"), names.1.trim_start_matches("VERDICT_"))
        }
        Said::Failed => "UNAVAILABLE".to_owned(),
    }
}

fn time(duration: Option<&prost_types::Duration>) -> String {
    let read = duration.and_then(|duration| Duration::try_from(*duration).ok());
    read.map_or_else(|| "none".to_owned(), |read| format!("{} ms", read.as_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_reads_from_top_to_bottom() {
        let event = |millis, job: &str, what| Event { at: Duration::from_millis(millis), job: job.to_owned(), what };
        let queued = Answer::Queued { ticket: b"ticket 1".to_vec(), come_back_in: Duration::from_millis(700) };
        let events = [
            event(5, "other", What::Handed),
            event(10, "queued", What::Handed),
            event(12, "queued", What::Answered(queued)),
            event(900, "queued", What::Done { outcome: "answered".to_owned(), status: 200 }),
        ];
        let lines: Vec<String> = trace("queued", &events).lines().map(|line| line.trim().to_owned()).collect();
        assert_eq!(
            lines,
            [
                "0.000 s  the job is fetched",
                "0.002 s  service  queued: come back in 700 ms with \"ticket 1\"",
                "0.890 s  the job is done: answered 200",
            ]
        );
    }
}
