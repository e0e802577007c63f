//! Limit headers and `Retry-After`, dialect by dialect. Every time is rounded up to the precision of its form.

use paceline_core::units::{FleetTime, Span};

use super::{Dialect, ceil_secs};
use crate::meter::Reading;

type Headers = Vec<(String, String)>;

/// The headers that tell what meters hold.
pub(super) fn limits(dialect: Dialect, now: FleetTime, readings: &[Reading]) -> Headers {
    match dialect {
        Dialect::OpenAi => tightest_by_meter(readings).into_iter().flat_map(openai).collect(),
        Dialect::Generic => generic(now, readings),
        Dialect::Ietf => ietf_list(readings),
        Dialect::IetfTrio => ietf_trio(readings),
        Dialect::RetryAfter | Dialect::Bare => Vec::new(),
    }
}

/// The headers that tell a refused call when to come back.
pub(super) fn retry_after(dialect: Dialect, wait: Span) -> Headers {
    if dialect == Dialect::Bare { Vec::new() } else { told_wait(dialect, wait) }
}

/// The same, whether the dialect has such headers or not.
pub(super) fn told_wait(dialect: Dialect, wait: Span) -> Headers {
    let seconds = header("retry-after", ceil_secs(wait));
    if dialect == Dialect::OpenAi { vec![header("retry-after-ms", wait.as_millis_ceil()), seconds] } else { vec![seconds] }
}

/// As a person asked for: seconds alone where they say it all.
pub(super) fn scripted_retry_after(wait: Span) -> Headers {
    let seconds = header("retry-after", ceil_secs(wait));
    if wait.as_micros() % 1_000_000 == 0 {
        vec![seconds]
    } else {
        vec![header("retry-after-ms", wait.as_millis_ceil()), seconds]
    }
}

fn openai(reading: &Reading) -> Headers {
    let meter = reading.meter.replace('_', "-");
    vec![
        header(format!("x-ratelimit-limit-{meter}"), reading.limit),
        header(format!("x-ratelimit-remaining-{meter}"), reading.remaining),
        header(format!("x-ratelimit-reset-{meter}"), go_duration(reading.reset_in)),
    ]
}

/// One meter goes without a name, several carry theirs.
fn generic(now: FleetTime, readings: &[Reading]) -> Headers {
    let tightest = tightest_by_meter(readings);
    let named = tightest.len() > 1;
    let mut headers = Vec::new();
    for reading in tightest {
        let suffix = if named { format!("-{}", reading.meter.replace('_', "-")) } else { String::new() };
        let reset_at = ceil_secs((now + reading.reset_in) - FleetTime::ZERO);
        headers.push(header(format!("x-ratelimit-limit{suffix}"), reading.limit));
        headers.push(header(format!("x-ratelimit-remaining{suffix}"), reading.remaining));
        headers.push(header(format!("x-ratelimit-reset{suffix}"), reset_at));
    }
    headers
}

fn ietf_list(readings: &[Reading]) -> Headers {
    if readings.is_empty() {
        return Vec::new();
    }
    let names = policy_names(readings);
    let policies = names.iter().zip(readings).map(|(name, r)| format!("\"{name}\";q={};w={}", r.limit, ceil_secs(r.window)));
    let states =
        names.iter().zip(readings).map(|(name, r)| format!("\"{name}\";r={};t={}", r.remaining, ceil_secs(r.reset_in)));
    vec![
        header("ratelimit-policy", policies.collect::<Vec<_>>().join(", ")),
        header("ratelimit", states.collect::<Vec<_>>().join(", ")),
    ]
}

/// One limit only, the one closest to its end (draft -03, section 3.1), with all quotas listed behind it.
fn ietf_trio(readings: &[Reading]) -> Headers {
    let Some(tightest) = readings.iter().reduce(tighter) else { return Vec::new() };
    let policies = readings.iter().map(|r| format!("{};w={}", r.limit, ceil_secs(r.window))).collect::<Vec<_>>().join(", ");
    vec![
        header("ratelimit-limit", format!("{}, {policies}", tightest.limit)),
        header("ratelimit-remaining", tightest.remaining),
        header("ratelimit-reset", ceil_secs(tightest.reset_in)),
    ]
}

/// A unique name per meter: `requests`, and `requests-day` where several count the same.
fn policy_names(readings: &[Reading]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for reading in readings {
        let plain = readings.iter().filter(|other| other.meter == reading.meter).count() == 1;
        let mut name =
            if plain { reading.meter.to_string() } else { format!("{}{}", reading.meter, window_suffix(reading.window)) };
        while names.contains(&name) {
            name.push_str("-account");
        }
        names.push(name);
    }
    names
}

fn window_suffix(window: Span) -> String {
    match ceil_secs(window) {
        60 => String::new(),
        1 => "-second".into(),
        3_600 => "-hour".into(),
        86_400 => "-day".into(),
        secs => format!("-{secs}s"),
    }
}

/// One reading per meter, in order of first appearance: where several count the same, the one with the least left.
fn tightest_by_meter(readings: &[Reading]) -> Vec<&Reading> {
    let mut tightest: Vec<&Reading> = Vec::new();
    for reading in readings {
        match tightest.iter_mut().find(|known| known.meter == reading.meter) {
            Some(known) => *known = tighter(known, reading),
            None => tightest.push(reading),
        }
    }
    tightest
}

/// The one with the smaller part of its limit left.
fn tighter<'a>(a: &'a Reading, b: &'a Reading) -> &'a Reading {
    let left = |reading: &Reading, other: &Reading| u128::from(reading.remaining) * u128::from(other.limit.max(1));
    if left(b, a) < left(a, b) { b } else { a }
}

fn header(name: impl Into<String>, value: impl ToString) -> (String, String) {
    (name.into(), value.to_string())
}

/// `0s`, `106ms`, `1.5s`, `6m0s`, `1h2m3.5s`: as Go prints a duration, rounded up to milliseconds.
pub(super) fn go_duration(span: Span) -> String {
    let millis = span.at_least_zero().as_millis_ceil();
    if millis == 0 {
        return "0s".into();
    }
    if millis < 1_000 {
        return format!("{millis}ms");
    }
    let (hours, minutes, rest) = (millis / 3_600_000, millis / 60_000 % 60, millis % 60_000);
    let mut seconds = format!("{}.{:03}", rest / 1_000, rest % 1_000);
    seconds.truncate(seconds.trim_end_matches('0').trim_end_matches('.').len().max(1));
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}
