//! How a provider tells a caller what its meters say: status, headers and body, in the forms that real ones use.

mod body;
mod headers;

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use paceline_core::units::{FleetTime, Span};

use crate::error::SimError;
use crate::gate::Shortage;
use crate::meter::Reading;
use crate::parse::choose;
use crate::provider::{Call, FirstCalls, ProviderConfig};

/// Whose way of answering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// `x-ratelimit-{limit,remaining,reset}-{requests,tokens}` with the reset as a Go duration until full, `retry-after-ms` and
    /// `retry-after`, and an error whose text says when to try again (OpenAI, guide "Rate limits").
    #[default]
    OpenAi,
    /// `x-ratelimit-{limit,remaining,reset}` with the reset in epoch seconds, and `retry-after` (GitHub and many others).
    Generic,
    /// `RateLimit` and `RateLimit-Policy` as lists (draft-ietf-httpapi-ratelimit-headers-08 and later), and `Retry-After`.
    Ietf,
    /// `RateLimit-Limit`, `-Remaining` and `-Reset` in seconds (the same draft up to -06), and `Retry-After`.
    IetfTrio,
    /// Only `retry-after`, and only with a refusal.
    RetryAfter,
    /// A status and nothing else.
    Bare,
}

impl Dialect {
    /// Every dialect with its name on the command line.
    pub const ALL: [(&'static str, Self); 6] = [
        ("openai", Self::OpenAi),
        ("generic", Self::Generic),
        ("ietf", Self::Ietf),
        ("ietf-trio", Self::IetfTrio),
        ("retry-after", Self::RetryAfter),
        ("bare", Self::Bare),
    ];
}

impl FromStr for Dialect {
    type Err = SimError;
    fn from_str(text: &str) -> Result<Self, SimError> {
        choose(text, "dialect", &Self::ALL)
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL.iter().find(|(_, dialect)| dialect == self).map_or("?", |(name, _)| name))
    }
}

/// Which of its dialect's headers a provider sends at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderPolicy {
    /// All of them.
    #[default]
    All,
    /// None.
    None,
    /// Limits, remaining and resets, but not when to try again.
    LimitsOnly,
    /// Only when to try again.
    RetryAfterOnly,
    /// All of them, but only with refusals.
    RefusalsOnly,
}

impl HeaderPolicy {
    /// Every policy with its name on the command line.
    pub const ALL: [(&'static str, Self); 5] = [
        ("all", Self::All),
        ("none", Self::None),
        ("limits-only", Self::LimitsOnly),
        ("retry-after-only", Self::RetryAfterOnly),
        ("refusals-only", Self::RefusalsOnly),
    ];

    fn sends_limits(self, refused: bool) -> bool {
        matches!(self, Self::All | Self::LimitsOnly) || (refused && self == Self::RefusalsOnly)
    }

    fn sends_retry_after(self) -> bool {
        matches!(self, Self::All | Self::RetryAfterOnly | Self::RefusalsOnly)
    }
}

impl FromStr for HeaderPolicy {
    type Err = SimError;
    fn from_str(text: &str) -> Result<Self, SimError> {
        choose(text, "choice of headers", &Self::ALL)
    }
}

/// How much of an answer is written out. What the meters decide does not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Telling {
    /// All of it.
    #[default]
    Everything,
    /// All but the bodies of calls that passed, for callers that never look at them.
    NoCompletions,
    /// Status and when to come back, for callers that look at nothing else.
    WaitsOnly,
}

/// What is to be told about one call.
pub(crate) struct Facts<'a> {
    /// The call's number, from 1: what its id is made of.
    pub(crate) number: u64,
    /// When it arrived.
    pub(crate) now: FleetTime,
    /// The call.
    pub(crate) call: &'a Call,
    /// Why it was refused, if it was.
    pub(crate) refusal: Option<&'a Refusal>,
    /// What its meters say afterwards.
    pub(crate) readings: Vec<Reading>,
    /// How much of that is told.
    pub(crate) telling: Telling,
}

/// Why a call was refused.
pub(crate) enum Refusal {
    /// For now.
    Short(Shortage),
    /// For ever.
    TooLarge(Shortage),
}

/// Status, headers and body of an answer.
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// The answer of the meters.
pub(crate) fn told(config: &ProviderConfig, facts: &Facts<'_>) -> Told {
    let dialect = config.dialect;
    let status = match facts.refusal {
        None => 200,
        Some(Refusal::Short(_)) => 429,
        // OpenAI answers 429 to what can never pass ("Request too large"); RFC 9110 has 413 for it.
        Some(Refusal::TooLarge(_)) => {
            if dialect == Dialect::OpenAi {
                429
            } else {
                413
            }
        }
    };
    if facts.telling == Telling::WaitsOnly {
        return Told { status, headers: waits(config, facts), body: String::new() };
    }
    let body = match facts.refusal {
        None => body::success(facts),
        Some(_) if dialect == Dialect::Bare => body::Body::plain(""),
        Some(refusal) => body::refusal(dialect, facts, refusal, !config.mute_body),
    };
    let mut headers = common_headers(facts.number, facts.now, body.content_type);
    if config.headers.sends_limits(facts.refusal.is_some()) {
        headers.extend(headers::limits(dialect, facts.now, &facts.readings));
    }
    headers.extend(waits(config, facts));
    Told { status, headers, body: body.text }
}

/// The headers that say when to come back.
fn waits(config: &ProviderConfig, facts: &Facts<'_>) -> Vec<(String, String)> {
    match facts.refusal {
        Some(Refusal::Short(shortage)) if config.headers.sends_retry_after() => {
            headers::retry_after(config.dialect, shortage.wait)
        }
        _ => Vec::new(),
    }
}

/// The answer of a script, which no meter was asked for.
pub(crate) fn scripted(number: u64, now: FleetTime, call: &Call, dialect: Dialect, first: &FirstCalls) -> Told {
    let facts = Facts { number, now, call, refusal: None, readings: Vec::new(), telling: Telling::Everything };
    let mut body = match first.status {
        200..400 => body::success(&facts),
        _ if dialect == Dialect::Bare => body::Body::plain(""),
        status => body::failure(&facts, status),
    };
    if let Some(text) = &first.body {
        body.text.clone_from(text);
    }
    let mut headers = common_headers(number, now, body.content_type);
    headers.extend(first.retry_after.into_iter().flat_map(headers::scripted_retry_after));
    // What the script states replaces what we would have sent under the same name.
    headers.retain(|(name, _)| !first.headers.iter().any(|(stated, _)| stated.eq_ignore_ascii_case(name)));
    headers.extend(first.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())));
    Told { status: first.status, headers, body: body.text }
}

/// The answer of a provider that is down.
pub(crate) fn down(number: u64, now: FleetTime, call: &Call, dialect: Dialect, status: u16, wait: Option<Span>) -> Told {
    let facts = Facts { number, now, call, refusal: None, readings: Vec::new(), telling: Telling::Everything };
    let body = if dialect == Dialect::Bare { body::Body::plain("") } else { body::failure(&facts, status) };
    let mut headers = common_headers(number, now, body.content_type);
    // Whoever configures an outage's Retry-After wants it sent, in a dialect that has none of its own too.
    headers.extend(wait.into_iter().flat_map(|wait| headers::told_wait(dialect, wait)));
    Told { status, headers, body: body.text }
}

/// Refuses a header that HTTP cannot carry, or that would break the answer's framing.
pub fn validate_header(name: &str, value: &str) -> Result<(), SimError> {
    let bad = |problem| SimError::BadHeader { text: format!("{name}: {value}"), problem };
    // RFC 9110, section 5.6.2: token.
    let is_token_char = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(is_token_char) {
        return Err(bad("the name is no header name"));
    }
    if ["content-length", "transfer-encoding", "connection"].iter().any(|framing| name.eq_ignore_ascii_case(framing)) {
        return Err(bad("this one is set by the server itself"));
    }
    if !value.chars().all(|c| c == '\t' || (' '..='~').contains(&c)) {
        return Err(bad("the value is not printable ASCII"));
    }
    Ok(())
}

fn common_headers(number: u64, now: FleetTime, content_type: &str) -> Vec<(String, String)> {
    let since_epoch = Duration::from_micros(u64::try_from(now.as_micros()).unwrap_or(0));
    let date = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since_epoch.min(LAST_DATE));
    vec![
        ("date".into(), date),
        ("content-type".into(), content_type.into()),
        ("x-request-id".into(), format!("req_mock_{number:08}")),
    ]
}

/// The end of the year 9999: HTTP-dates end there.
const LAST_DATE: Duration = Duration::from_secs(253_402_300_799);

/// Whole seconds, rounded up: what is told is never too early.
pub(crate) fn ceil_secs(span: Span) -> i64 {
    let micros = span.at_least_zero().as_micros();
    micros / 1_000_000 + i64::from(micros % 1_000_000 != 0)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
