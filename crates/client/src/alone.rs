//! What a worker does when nobody makes it wait: the service is off or only watches, or the worker does not ask at all. Then it
//! waits between attempts as SDKs do by themselves, so that switching us off never means hammering the provider.

use std::time::{Duration, SystemTime};

use paceline_proto::v1::{Grant, Outcome, ReportRequest, ReportResponse, Signal, Verdict};

use crate::timing;

/// How often a call is sent at most by a worker that does not ask.
const ATTEMPTS: u32 = 3;
/// The first backoff, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(8));
/// The longest wait named by the provider that is waited for; a longer one ends the call.
const LONGEST: Duration = Duration::from_secs(60);

/// A slot that nobody gave is never too late.
const USE_WITHIN: Duration = Duration::from_secs(31 * 86_400);

/// The grant of a worker that does not ask: send now.
pub(crate) fn grant() -> Grant {
    let (wait, use_within) = (Some(timing::to_proto(Duration::ZERO)), Some(timing::to_proto(USE_WITHIN)));
    Grant { wait, use_within, ..Grant::default() }
}

/// What becomes of a call that nobody was told of; `now` by the wall clock, for answers with a date.
pub(crate) fn judge(report: &ReportRequest, attempt: u32, now: SystemTime) -> ReportResponse {
    let wait = retry_after(report, now);
    let was_not_run = is_refusal(report) || report.outcome() == Outcome::ConnectionFailed;
    let is_again = was_not_run && attempt < ATTEMPTS && wait.is_none_or(|wait| wait <= LONGEST);
    let verdict = match (report.r#final, is_again, report.status < 400) {
        (false, ..) => Verdict::Unspecified,
        (true, true, _) => Verdict::Retry,
        (true, false, is_ok) if is_ok && report.outcome() == Outcome::Response => Verdict::Done,
        _ => Verdict::GiveUp,
    };
    let signal = wait.map(|wait| Signal { retry_after: Some(timing::to_proto(wait)), ..Signal::default() });
    ReportResponse { applied: true, verdict: verdict.into(), signal, ..ReportResponse::default() }
}

/// Whether the provider pushed back.
pub(crate) fn is_refusal(report: &ReportRequest) -> bool {
    let is_pushed_back =
        matches!(report.status, 429 | 503 | 529) || report.grpc_status.is_some_and(|code| code == 8 || code == 14);
    report.outcome() == Outcome::Response && is_pushed_back
}

/// How long to wait before the next attempt: what the provider said, else more each time; `random` in 0..1. `None`: it said
/// longer than anybody waits.
pub(crate) fn wait(signal: Option<&Signal>, attempt: u32, random: f64) -> Option<Duration> {
    let said = signal.and_then(|signal| signal.retry_after.as_ref()).map(timing::length);
    let (first, longest) = BACKOFF;
    match said.filter(|said| !said.is_zero()) {
        // Never before, and not all at once.
        Some(said) if said > LONGEST => None,
        Some(said) => Some(said + part((said / 4).min(Duration::from_secs(1)), random)),
        None => Some(part(first.saturating_mul(1 << attempt.saturating_sub(1).min(8)).min(longest), random)),
    }
}

/// A part of a length, from nothing (0) to all of it (1).
fn part(length: Duration, share: f64) -> Duration {
    // From float to integer `as` saturates.
    Duration::from_micros((length.as_secs_f64() * 1e6 * share.clamp(0.0, 1.0)) as u64)
}

/// `retry-after-ms`, else `retry-after` in seconds or as a date (RFC 9110, section 10.2.3). A date is compared with the provider's own
/// `date`, where it gives one: clocks of workers are wrong.
fn retry_after(report: &ReportRequest, now: SystemTime) -> Option<Duration> {
    let header = |name: &str| {
        let header = report.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        Some(header.value.trim())
    };
    let number = |name: &str| header(name)?.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    let date = |name: &str| httpdate::parse_http_date(header(name)?).ok();
    if let Some(seconds) = number("retry-after-ms").map(|millis| millis / 1e3).or_else(|| number("retry-after")) {
        return Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    }
    let until = date("retry-after")?;
    until.duration_since(date("date").unwrap_or(now)).ok().filter(|wait| !wait.is_zero())
}

#[cfg(test)]
mod tests {
    use paceline_proto::v1::Header;

    use super::*;

    fn said(outcome: Outcome, status: u32, headers: &[(&str, &str)]) -> ReportRequest {
        let headers = headers.iter().map(|(name, value)| Header { name: (*name).into(), value: (*value).into() });
        ReportRequest { outcome: outcome.into(), status, headers: headers.collect(), r#final: true, ..ReportRequest::default() }
    }

    #[test]
    fn only_what_was_refused_is_sent_again_and_three_times_at_most() {
        let now = SystemTime::UNIX_EPOCH;
        for (outcome, status, attempt, expected) in [
            (Outcome::Response, 200, 1, Verdict::Done),
            (Outcome::Response, 429, 1, Verdict::Retry),
            (Outcome::Response, 529, 2, Verdict::Retry),
            (Outcome::Response, 429, 3, Verdict::GiveUp),
            (Outcome::Response, 400, 1, Verdict::GiveUp),
            (Outcome::Response, 500, 1, Verdict::GiveUp),
            (Outcome::ConnectionFailed, 0, 1, Verdict::Retry),
            (Outcome::Timeout, 0, 1, Verdict::GiveUp),
        ] {
            assert_eq!(judge(&said(outcome, status, &[]), attempt, now).verdict(), expected, "{outcome:?} {status} {attempt}");
        }
        let long = said(Outcome::Response, 429, &[("Retry-After", "3600")]);
        assert_eq!(judge(&long, 1, now).verdict(), Verdict::GiveUp, "an hour is not waited for");
    }

    #[test]
    fn never_before_the_provider_says_so() {
        let now = SystemTime::UNIX_EPOCH;
        for (headers, millis) in
            [(vec![("Retry-After", "2")], 2_000), (vec![("retry-after-ms", "1500"), ("retry-after", "2")], 1_500)]
        {
            let response = judge(&said(Outcome::Response, 429, &headers), 1, now);
            for random in [0.0, 0.5, 0.999] {
                let wait = wait(response.signal.as_ref(), 1, random).unwrap();
                assert!(wait >= Duration::from_millis(millis) && wait <= Duration::from_millis(millis + 1_000), "{wait:?}");
            }
        }
        assert_eq!(wait(None, 1, 1.0), Some(Duration::from_millis(500)));
        assert_eq!(wait(None, 40, 1.0), Some(Duration::from_secs(8)));
        assert_eq!(retry_after(&said(Outcome::Response, 429, &[("retry-after", "soon")]), now), None);
        assert_eq!(retry_after(&said(Outcome::Response, 429, &[("retry-after", "1e300")]), now), Some(Duration::MAX));
    }

    #[test]
    fn a_date_counts_from_the_providers_clock_else_from_ours() {
        let date = |seconds: u64| httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let wait = |headers: &[(&str, &str)]| retry_after(&said(Outcome::Response, 429, headers), now);
        let (until, theirs) = (date(1_000_000_012), date(1_000_000_007));
        assert_eq!(wait(&[("Retry-After", &until)]), Some(Duration::from_secs(12)));
        assert_eq!(wait(&[("Retry-After", &until), ("Date", &theirs)]), Some(Duration::from_secs(5)));
        assert_eq!(wait(&[("Retry-After", "Sunday, 09-Sep-01 01:46:52 GMT")]), Some(Duration::from_secs(12)), "the old form");
        for past in [date(1_000_000_000), date(999_999_999), "Sun, 99 Sep 2001 01:46:52 GMT".to_owned()] {
            assert_eq!(wait(&[("Retry-After", &past)]), None, "{past} tells no wait");
        }
    }
}
