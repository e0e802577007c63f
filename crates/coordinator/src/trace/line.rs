//! A trace as text: a line that says what the file is, and one JSON object per attempt.

use std::collections::BTreeMap;

use paceline_core::denial::Reason;
use paceline_core::plan::Class;
use paceline_core::report::Outcome;
use paceline_core::retry::Verdict;
use paceline_core::units::{FleetTime, Span};
use serde::{Deserialize, Serialize};

use super::{Ended, Traced};
use crate::api::Target;

/// The form of the lines that this release writes and reads.
pub const FORM: u32 = 1;

/// The first line, and one after each restart of what writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heading {
    /// Which form the lines below have.
    pub paceline_trace: u32,
}

/// One attempt. Keys stay as they are within a form; readers leave out those they do not know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// When the attempt was first asked for, in microseconds since the Unix epoch.
    pub at_us: i64,
    /// Stands for the call, in hexadecimal digits: the same for all its attempts.
    pub call: String,
    /// From 1.
    pub attempt: u32,
    /// Where it was sent.
    pub provider: String,
    /// Whose quota.
    pub account: String,
    /// For which model.
    pub model: String,
    /// `interactive`, `normal` or `batch`.
    pub class: String,
    /// For whom.
    pub tenant: String,
    /// What its caller said it costs, in units per meter.
    #[serde(default)]
    pub stated: BTreeMap<String, u64>,
    /// What it used, in units per meter.
    #[serde(default)]
    pub used: BTreeMap<String, u64>,
    /// From its first ask until its slot, or until it was denied, in microseconds.
    pub waited_us: i64,
    /// From its slot until the answer, in microseconds; null: never sent.
    pub took_us: Option<i64>,
    /// `denied`, or how it went: `response`, `timeout`, `connection_failed`, `abandoned`.
    pub outcome: String,
    /// HTTP status of a response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u32>,
    /// What its worker was told to do: `done`, `retry`, `fail_over`, `give_up`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// Why it was denied or given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Heading {
    /// The one that this release writes.
    pub const OWN: Self = Self { paceline_trace: FORM };
}

impl Line {
    /// Whether the provider answered the attempt with what was asked for.
    pub fn went_well(&self) -> bool {
        self.outcome == outcome_name(Outcome::Response) && self.verdict.as_deref() == Some(Verdict::Done.name())
    }

    /// When it was asked for.
    pub fn at(&self) -> FleetTime {
        FleetTime::from_micros(self.at_us)
    }

    /// How long it took, where it was sent.
    pub fn took(&self) -> Option<Span> {
        self.took_us.map(Span::from_micros)
    }

    /// The class by its name; `None`: there is none of that name.
    pub fn class(&self) -> Option<Class> {
        [Class::Interactive, Class::Normal, Class::Batch].into_iter().find(|class| class.name() == self.class)
    }
}

impl From<Traced> for Line {
    fn from(traced: Traced) -> Self {
        let Target { provider, account, model } = traced.target;
        let (outcome, status, verdict, reason) = match traced.ended {
            Ended::Denied(reason) => ("denied", None, None, Some(reason)),
            Ended::Sent { outcome, status, verdict } => {
                (outcome_name(outcome), Some(status).filter(|status| *status > 0), Some(verdict), reason_of(verdict))
            }
        };
        Self {
            at_us: traced.asked_at.as_micros(),
            call: format!("{:016x}", traced.call),
            attempt: traced.attempt,
            provider,
            account,
            model,
            class: traced.class.name().to_owned(),
            tenant: traced.tenant,
            stated: traced.stated,
            used: traced.used,
            waited_us: traced.waited.as_micros(),
            took_us: traced.took.map(Span::as_micros),
            outcome: outcome.to_owned(),
            status,
            verdict: verdict.map(|verdict| verdict.name().to_owned()),
            reason: reason.map(|reason| reason.name().to_owned()),
        }
    }
}

const fn reason_of(verdict: Verdict) -> Option<Reason> {
    match verdict {
        Verdict::GiveUp(reason) => Some(reason),
        Verdict::Done | Verdict::Retry | Verdict::FailOver => None,
    }
}

const fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Response => "response",
        Outcome::Running => "running",
        Outcome::Timeout => "timeout",
        Outcome::ConnectionFailed => "connection_failed",
        Outcome::Abandoned => "abandoned",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traced(ended: Ended) -> Traced {
        Traced {
            call: 0x2f,
            attempt: 2,
            asked_at: FleetTime::from_secs(1_800_000_000),
            target: Target { provider: "openai".into(), account: "prod".into(), model: "gpt-4o".into() },
            class: Class::Batch,
            tenant: "ads".into(),
            stated: BTreeMap::from([("tokens".to_owned(), 900)]),
            used: BTreeMap::new(),
            waited: Span::from_millis(20),
            took: matches!(ended, Ended::Sent { .. }).then_some(Span::from_millis(700)),
            ended,
        }
    }

    #[test]
    fn lines_are_as_documented() {
        let sent = Ended::Sent { outcome: Outcome::Response, status: 429, verdict: Verdict::GiveUp(Reason::RetryBudget) };
        assert_eq!(
            serde_json::to_string(&Line::from(traced(sent))).unwrap_or_default(),
            r#"{"at_us":1800000000000000,"call":"000000000000002f","attempt":2,"provider":"openai","account":"prod","model":"gpt-4o","class":"batch","tenant":"ads","stated":{"tokens":900},"used":{},"waited_us":20000,"took_us":700000,"outcome":"response","status":429,"verdict":"give_up","reason":"retry_budget"}"#
        );
        let denied = Line::from(traced(Ended::Denied(Reason::Deadline)));
        assert_eq!((denied.outcome.as_str(), denied.took(), denied.reason.as_deref()), ("denied", None, Some("deadline")));
        assert_eq!(serde_json::to_string(&Heading::OWN).unwrap_or_default(), r#"{"paceline_trace":1}"#);
    }

    #[test]
    fn a_line_reads_back_with_keys_that_this_release_does_not_know() {
        let line = Line::from(traced(Ended::Sent { outcome: Outcome::Response, status: 200, verdict: Verdict::Done }));
        let text = serde_json::to_string(&line).unwrap_or_default().replacen('{', r#"{"colour":"red","#, 1);
        let read: Line = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(read == line && read.went_well() && read.class() == Some(Class::Batch));
    }
}
