//! The life of a call as lines for people.

use paceline_core::delays::{Cause, describe};
use paceline_core::units::Span;
use paceline_proto::convert;
use paceline_proto::v1::{CallLife, CallState, Delay, Outcome, Priority, Reason, Verdict, WhyResponse};
use prost_types::Duration;

use crate::commands::status::printable;

/// Of so many earlier attempts a line each is told.
const MOST_EARLIER: usize = 5;

/// The last attempt in full, and a line for each of those before.
pub(super) fn told(told: &WhyResponse) -> String {
    let Some((last, earlier)) = told.lives.split_first() else { return String::new() };
    let mut lines = in_full(last);
    for life in earlier.iter().take(MOST_EARLIER) {
        lines.push(format!("before     {}: {}", attempt(life), stands(life)));
    }
    if let Some(more) = earlier.len().checked_sub(MOST_EARLIER).filter(|more| *more > 0) {
        lines.push(format!("           and {more} more: --attempt N tells of one, --json of all"));
    }
    if told.silent_replicas > 0 {
        lines.push(format!("           {} did not answer: what only they know is missing", replicas(told.silent_replicas)));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

pub(super) fn replicas(count: u32) -> String {
    if count == 1 { "1 replica".to_owned() } else { format!("{count} replicas") }
}

fn in_full(life: &CallLife) -> Vec<String> {
    let name = if life.request_id.is_empty() { "a ticket, which does not hold its call's name" } else { &life.request_id };
    let mut lines = vec![format!("call       {} ({})", printable(name), attempt(life))];
    lines.push(format!("to         {}", target(life)));
    lines.push(format!("asked      {} ago{}", long(life.asked_age.as_ref()), who(life)));
    lines.push(format!("now        {}", stands(life)));
    lines.extend(goes_on(life).map(|line| format!("           {line}")));
    let is_waiting = matches!(life.state(), CallState::Waiting | CallState::Away);
    let waited = span(life.waited.as_ref());
    if waited == Span::ZERO && !is_waiting {
        lines.push("waited     not at all".to_owned());
    } else {
        let parts = parts(&life.delays);
        let by = if parts.is_empty() { "; for what is not remembered" } else { ":" };
        lines.push(format!("waited     {waited}{}{by}", if is_waiting { " so far" } else { "" }));
        lines.extend(parts);
    }
    lines.extend(runner_up(&life.delays));
    if life.state() == CallState::Settled {
        lines.push(format!("taught     {}", taught(life)));
    }
    if life.from_token {
        lines.push("known      from the token alone: no replica remembers the call".to_owned());
    }
    lines
}

fn attempt(life: &CallLife) -> String {
    if life.attempt == 0 { "attempt not known".to_owned() } else { format!("attempt {}", life.attempt) }
}

fn target(life: &CallLife) -> String {
    let target = life.target.clone().unwrap_or_default();
    let class = match life.priority() {
        Priority::Unspecified => "",
        Priority::Interactive => ", interactive",
        Priority::Normal => ", normal",
        Priority::Batch => ", batch",
    };
    let model = if target.model.is_empty() { String::new() } else { format!(" {}", target.model) };
    format!("{}{class}", printable(&format!("{}/{}{model}", target.provider, target.account)))
}

fn who(life: &CallLife) -> String {
    let part = |word: &str, name: &str| if name.is_empty() { String::new() } else { format!("{word}{}", printable(name)) };
    part(" by ", &life.identity) + &part(" for tenant ", &life.tenant)
}

/// Where it stands, in a sentence.
fn stands(life: &CallLife) -> String {
    let ago = || format!("{} ago", long(life.known_age.as_ref()));
    let cause = binding(&life.delays).map_or_else(|| "its turn".to_owned(), |delay| printable(&describe(&cause(delay))));
    match life.state() {
        CallState::Waiting => format!("waits for {cause}, behind {} in its lane", calls(life.ahead)),
        CallState::Away if life.from_token => format!("went away with this ticket {}; waited for {cause} then", ago()),
        CallState::Away => {
            format!("away with a ticket since {}; waited for {cause}, behind {} in its lane", ago(), calls(life.ahead))
        }
        CallState::Granted if span(life.send_in.as_ref()) > Span::ZERO => {
            format!("has a slot since {}, to be sent in {}", ago(), long(life.send_in.as_ref()))
        }
        CallState::Granted if life.sent => format!("granted {}, sent and running", ago()),
        CallState::Granted => format!("granted {}; nothing has been reported of it", ago()),
        CallState::Expired => format!("granted, and its lease ended {} ago without a final report", past(life)),
        CallState::Settled => format!("{}{}", ended(life), verdict(life)),
        CallState::GivenBack => format!("its slot was given back{}", ended_ago(life)),
        CallState::Denied => format!("denied {}: {}", ago(), reason(life.reason())),
        CallState::Unspecified => "in a state that only a newer release of this command knows".to_owned(),
    }
}

/// What comes next, or what is to be added.
fn goes_on(life: &CallLife) -> Option<String> {
    let length = |duration: &Option<Duration>| long(duration.as_ref());
    match life.state() {
        CallState::Waiting => {
            Some(format!("expected in about {}; denied at the latest in {}", length(&life.expected), length(&life.denied_in)))
        }
        CallState::Away => life.back_in.as_ref().map(|back_in| match span(Some(back_in)) {
            late if late < Span::ZERO => {
                format!(
                    "it was to come back {} ago: its worker is late, or has gone, and its place is not kept for long",
                    Span::ZERO - late
                )
            }
            back_in => format!("it is to come back in {back_in}; expected then in about {}", length(&life.expected)),
        }),
        CallState::Granted => Some(format!("its lease ends in {} without a report", length(&life.lease_ends_in))),
        CallState::Denied => {
            let again = life.retry_after.as_ref().map_or_else(
                || "asking again is of no use".to_owned(),
                |after| format!("asking again could work {} after that", span(Some(after))),
            );
            let detail = printable(&life.detail);
            Some(if detail.is_empty() { again } else { format!("{detail}; {again}") })
        }
        CallState::Expired => {
            Some("its worker died, lost its connection or does not report; its place was free from then on".to_owned())
        }
        CallState::Settled | CallState::GivenBack | CallState::Unspecified => None,
    }
}

fn ended(life: &CallLife) -> String {
    let ago = format!("{} ago", long(life.known_age.as_ref()));
    match life.outcome() {
        Outcome::Response if life.status > 0 => format!("answered {ago} with status {}", life.status),
        Outcome::Response | Outcome::Running => format!("answered {ago}"),
        Outcome::Timeout => format!("ended {ago} without an answer in time"),
        Outcome::ConnectionFailed => format!("ended {ago}: the connection failed before it was sent"),
        Outcome::Abandoned => format!("ended {ago}: its worker stopped caring after it was sent"),
        Outcome::Unspecified => "ended; how is not remembered".to_owned(),
    }
}

/// Only who saw it knows when.
fn ended_ago(life: &CallLife) -> String {
    if life.from_token { String::new() } else { format!(" (known for {})", long(life.known_age.as_ref())) }
}

fn verdict(life: &CallLife) -> String {
    match life.verdict() {
        Verdict::Unspecified => String::new(),
        Verdict::Done => "; it is done".to_owned(),
        Verdict::Retry => "; told to ask for the next attempt".to_owned(),
        Verdict::FailOver => "; told to ask for the next attempt at another provider".to_owned(),
        Verdict::GiveUp => format!("; told to give up: {}", reason(life.reason())),
    }
}

/// What the answer taught the fleet.
fn taught(life: &CallLife) -> String {
    let source = match convert::source(life.signal_source) {
        paceline_core::signal::Source::None => None,
        source => Some(source.name().replace('_', " ")),
    };
    match (span(life.honored.as_ref()), source) {
        (honored, Some(source)) if honored > Span::ZERO => format!("nothing is sent for {honored} after it ({source})"),
        (honored, None) if honored > Span::ZERO => format!("nothing is sent for {honored} after it (our guess)"),
        (_, Some(source)) => format!("its answer named a wait ({source}); nobody is held back by it"),
        (_, None) if life.outcome() == Outcome::Unspecified => "not remembered".to_owned(),
        (_, None) => "no wait was named; limits and levels that it told are in `paceline status`".to_owned(),
    }
}

/// The wait by cause, the binding one marked.
fn parts(delays: &[Delay]) -> Vec<String> {
    let spent = delays.iter().filter(|delay| delay.free_in.is_none() && span(delay.duration.as_ref()) > Span::ZERO);
    let line = |delay: &Delay| {
        let mark = if delay.binding { "  <- this one governs" } else { "" };
        format!("           {} for {}{mark}", span(delay.duration.as_ref()), printable(&describe(&cause(delay))))
    };
    spent.map(line).collect()
}

/// What would have held it up otherwise.
fn runner_up(delays: &[Delay]) -> Option<String> {
    let other = delays.iter().find(|delay| delay.free_in.is_some())?;
    let free_in = span(other.free_in.as_ref());
    Some(format!("else       {} would have held it up, for {free_in} from its first look", printable(&describe(&cause(other)))))
}

fn binding(delays: &[Delay]) -> Option<&Delay> {
    delays.iter().find(|delay| delay.binding)
}

fn cause(delay: &Delay) -> Cause {
    Cause { source: convert::source(delay.source), bucket: delay.bucket.as_str().into() }
}

fn calls(count: u64) -> String {
    if count == 1 { "1 call".to_owned() } else { format!("{count} calls") }
}

/// How long ago its lease ended.
fn past(life: &CallLife) -> String {
    (Span::ZERO - span(life.lease_ends_in.as_ref())).at_least_zero().to_string()
}

fn reason(reason: Reason) -> String {
    let name = reason.as_str_name();
    name.strip_prefix("REASON_").unwrap_or(name).to_lowercase().replace('_', " ")
}

fn long(duration: Option<&Duration>) -> String {
    duration.map_or_else(|| "an unknown time".to_owned(), |duration| span(Some(duration)).to_string())
}

fn span(duration: Option<&Duration>) -> Span {
    duration.map_or(Span::ZERO, |duration| {
        Span::from_secs(duration.seconds).saturating_add(Span::from_micros(i64::from(duration.nanos) / 1_000))
    })
}
