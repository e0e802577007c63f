//! The scenarios about reading, as tables. The ids (HP01, ...) are those of the list of scenarios that the product must handle.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use paceline_core::signal::{AnswerKind, ResetMeans, Signal, Source};
use paceline_core::units::{FleetTime, Span};
use paceline_signals::{Answer, LONGEST_READ, catalogue, read};

/// Fri, 06 Feb 2026 12:00:00 GMT.
const NOW: FleetTime = FleetTime::from_secs(1_770_379_200);

/// Names and values.
type Headers<'a> = &'a [(&'a str, &'a str)];

fn answer(provider: &str, status: u16, headers: Headers<'_>, body: &str) -> Signal {
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    let answer = Answer { status, headers: &headers, body: body.as_bytes(), received_at: Some(NOW), ..Answer::default() };
    read(catalogue().get_or_generic(provider), &answer)
}

fn millis(signal: &Signal) -> Option<i64> {
    signal.retry_after.map(Span::as_millis_ceil)
}

#[test]
fn hp01_a_date_is_never_half_read() {
    for reset in ["2026-02-06T12:00:05Z", "2026-02-06T14:00:05+02:00"] {
        let headers = [("anthropic-ratelimit-requests-remaining", "0"), ("anthropic-ratelimit-requests-reset", reset)];
        let signal = answer("anthropic", 429, &headers, "");
        assert_eq!((millis(&signal), signal.source), (Some(5_000), Source::ResetHeader), "{reset}");
    }
}

#[test]
fn hp02_resets_in_every_form() {
    for (value, expected, is_malformed) in [
        ("17ms", Some(17), false),
        ("1s", Some(1_000), false),
        ("1.5s", Some(1_500), false),
        ("6m0s", Some(360_000), false),
        ("1m30s", Some(90_000), false),
        ("2m59.56s", Some(179_560), false),
        ("7.66s", Some(7_660), false),
        ("23h47m36.648s", Some(85_656_648), false),
        ("60", Some(60_000), false),
        ("1770379230", Some(30_000), false),
        ("1770379230.5", Some(30_500), false),
        ("1m", Some(60_000), false),
        ("0s", Some(0), false),
        ("", None, false),
        ("soon", None, true),
        ("1s later", None, true),
        ("2026-02", None, true),
    ] {
        for name in ["x-ratelimit-reset-requests", "x-ratelimit-reset-tokens"] {
            let signal = answer("openai", 429, &[(name, value)], "");
            assert_eq!(millis(&signal), expected, "{name}: {value}");
            assert_eq!(signal.malformed_headers == [name], is_malformed, "{name}: {value}");
            assert!(signal.buckets.iter().all(|bucket| bucket.reset_means == ResetMeans::Full));
        }
    }
}

#[test]
fn hp03_no_number_harms() {
    for (value, expected) in [
        ("-3", None),
        ("-0", None),
        ("NaN", None),
        ("inf", None),
        ("1e400", None),
        ("99999999999999999999", Some(LONGEST_READ)),
        ("1e3", Some(Span::from_secs(1_000))),
        ("18446744073709551616", Some(LONGEST_READ)),
    ] {
        let signal = answer("generic", 429, &[("retry-after", value)], "");
        assert_eq!(signal.retry_after, expected, "{value}");
        assert_eq!(signal.malformed_headers.is_empty(), expected.is_some(), "{value}");
        for body in [format!("{{\"retry_after\": {value}}}"), format!("{{\"error\": {{\"retry_after\": \"{value}\"}}}}")] {
            let signal = answer("generic", 429, &[], &body);
            assert_eq!(signal.retry_after, expected, "{body}");
            assert!(signal.retryable);
        }
    }
}

#[test]
fn hp05_milliseconds_and_seconds() {
    let cases: [(Headers<'_>, i64, Source); 7] = [
        (&[("retry-after", "20")], 20_000, Source::RetryAfterSeconds),
        (&[("retry-after-ms", "19500")], 19_500, Source::RetryAfterMs),
        (&[("retry-after", "20"), ("retry-after-ms", "19500")], 19_500, Source::RetryAfterMs),
        (&[("retry-after", "20"), ("retry-after-ms", "19000")], 20_000, Source::RetryAfterSeconds),
        (&[("retry-after", "20"), ("retry-after-ms", "20001")], 20_001, Source::RetryAfterMs),
        (&[("retry-after", "20"), ("retry-after-ms", "0")], 20_000, Source::RetryAfterSeconds),
        (&[("x-ms-retry-after-ms", "500")], 500, Source::RetryAfterMs),
    ];
    for (headers, expected, source) in cases {
        let signal = answer("generic", 429, headers, "");
        assert_eq!((millis(&signal), signal.source), (Some(expected), source), "{headers:?}");
        assert!(headers.iter().any(|(name, _)| *name == signal.field), "{headers:?} says {}", signal.field);
    }
}

#[test]
fn hp08_a_fraction_is_rounded_up() {
    assert_eq!(millis(&answer("generic", 429, &[("retry-after", "292.052427053")], "")), Some(292_053));
}

#[test]
fn hp10_minus_one_means_unknown() {
    let headers =
        [("x-ratelimit-limit-tokens", "-1"), ("x-ratelimit-remaining-tokens", "-1"), ("x-ratelimit-reset-tokens", "0")];
    for (status, kind) in [(200, AnswerKind::Ok), (429, AnswerKind::Throttled)] {
        let signal = answer("openai", status, &headers, "");
        assert_eq!((signal.kind, signal.retry_after, signal.source), (kind, None, Source::None));
        assert_eq!(signal.buckets, [], "nothing was said about the bucket");
    }
}

#[test]
fn hp11_limits_as_lists() {
    for (limit, expected, window, is_malformed) in [
        (";w=21600", None, None, true),
        ("100;w=60", Some(100), Some(60), false),
        ("10;w=10, 15;w=20", Some(10), None, false),
        ("100, 100;w=60, 1000;w=3600", Some(100), Some(60), false),
        ("100, 50;w=60", Some(100), None, false),
    ] {
        let headers = [("ratelimit-limit", limit), ("ratelimit-remaining", "1"), ("ratelimit-reset", "4")];
        let signal = answer("generic", 200, &headers, "");
        let bucket = &signal.buckets[0];
        assert_eq!((bucket.limit, bucket.window), (expected, window.map(Span::from_secs)), "{limit}");
        assert_eq!((bucket.remaining, bucket.reset_in), (Some(1), Some(Span::from_secs(4))), "{limit}");
        assert_eq!(!signal.malformed_headers.is_empty(), is_malformed, "{limit}");
    }
}

#[test]
fn hp13_casing_and_repeats() {
    for name in ["Retry-After", "retry-after", "RETRY-AFTER"] {
        assert_eq!(millis(&answer("generic", 429, &[(name, "20")], "")), Some(20_000), "{name}");
    }
    for headers in [
        &[("Retry-After", "5"), ("retry-after", "20")][..],
        &[("Retry-After", "20"), ("retry-after", "5")],
        &[("Retry-After", "5, 20")],
    ] {
        assert_eq!(millis(&answer("generic", 429, headers, "")), Some(20_000), "{headers:?}");
    }
}

/// HM06: a reset as an instant and as a length of time: the length counts, to the tenth of a second. (The scenario takes the later of
/// both; an instant is only as good as two clocks, and one that is ten seconds wrong would hold everybody up for ten seconds. The
/// margin behind it is the core's: jitter after a floor, and a guard after a window's end.)
#[test]
fn hm06_a_time_from_now_beats_an_instant() {
    for (after, waits) in [("30.5", 30_500), ("29.7", 29_700), ("20", 20_000), ("45", 45_000)] {
        let headers = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1770379230"), ("x-ratelimit-reset-after", after)];
        assert_eq!(millis(&answer("generic", 429, &headers, "")), Some(waits), "{after}");
    }
}

#[test]
fn ck04_a_reset_that_is_over() {
    let past = ("x-ratelimit-reset", "1770379199");
    let refused = answer("generic", 429, &[past], "");
    assert_eq!((refused.retry_after, refused.retryable), (Some(Span::ZERO), true));
    let served = answer("generic", 200, &[past, ("x-ratelimit-remaining", "0")], "");
    assert_eq!((served.buckets[0].remaining, served.buckets[0].reset_in), (None, Some(Span::ZERO)));
}

#[test]
fn qc02_prose_is_a_hint() {
    let exceeded = r#"{"error": {"message": "You exceeded your current quota"}}"#;
    let signal = answer("generic", 429, &[("retry-after", "7")], exceeded);
    assert_eq!((signal.kind, millis(&signal), signal.retryable), (AnswerKind::Throttled, Some(7_000), true));
    let bad = answer("generic", 400, &[], r#"{"error": {"message": "quota"}}"#);
    assert_eq!((bad.kind, bad.retry_after, bad.retryable), (AnswerKind::Rejected, None, false));
    let billing = r#"{"error": {"message": "You exceeded your current quota, please check your plan and billing details."}}"#;
    let signal = answer("generic", 429, &[], billing);
    assert_eq!((signal.kind, signal.retryable), (AnswerKind::QuotaExhausted, false));
}

#[test]
fn a_limit_of_zero_is_not_passed_on() {
    let signal = answer("generic", 429, &[("x-ratelimit-limit", "0"), ("x-ratelimit-remaining", "0")], "");
    assert_eq!((signal.buckets[0].limit, signal.buckets[0].remaining), (None, Some(0)));
}

#[test]
fn what_nothing_reads_is_told_by_name_only() {
    let headers =
        [("X-Throttle-Wait", "30"), ("X-Quota-Info", "secret"), ("x-quota-info", "2"), ("content-type", "text/plain")];
    let signal = answer("generic", 429, &headers, "");
    assert_eq!(signal.unread_headers, ["x-throttle-wait", "x-quota-info"]);
}

#[test]
fn a_window_that_is_stated_is_passed_on() {
    let cases: [(Headers<'_>, &str, i64); 4] = [
        (&[("x-ratelimit-remaining-tokens-minute", "5")], "tokens", 60),
        (&[("x-ratelimit-remaining-requests-day", "5")], "requests_day", 86_400),
        (&[("x-ratelimit-remaining-requests", "5"), ("x-ratelimit-renewalperiod-requests", "10")], "requests", 10),
        (&[("RateLimit", "\"default\";r=5"), ("RateLimit-Policy", "\"default\";q=9;w=30")], "default", 30),
    ];
    for (headers, name, secs) in cases {
        let signal = answer("generic", 200, headers, "");
        assert_eq!((signal.buckets[0].name.as_str(), signal.buckets[0].window), (name, Some(Span::from_secs(secs))));
    }
}

#[test]
fn dates_without_any_clock_say_nothing() {
    let headers: [(&str, &[u8]); 1] = [("retry-after", b"Fri, 06 Feb 2026 12:02:00 GMT")];
    let signal = read(catalogue().generic(), &Answer { status: 429, headers: &headers, ..Answer::default() });
    assert_eq!((signal.retry_after, signal.retryable), (None, true));
}

#[test]
fn the_callers_clock_is_set_back_by_the_age() {
    let headers: [(&str, &[u8]); 1] = [("retry-after", b"Fri, 06 Feb 2026 12:02:00 GMT")];
    let answer =
        Answer { status: 429, headers: &headers, received_at: Some(NOW), age: Span::from_secs(5), ..Answer::default() };
    assert_eq!(millis(&read(catalogue().generic(), &answer)), Some(125_000));
}

/// The draft's unit is requests where none is told; a policy that bears a meter's name is taken at that word.
#[test]
fn a_policy_without_a_unit_counts_what_its_name_says() {
    for (policy, field, expected) in [
        ("\"tokens\";q=30000;w=60", "\"tokens\";r=29000;t=20", "tokens"),
        ("\"tokens\";q=30000;w=60;qu=\"requests\"", "\"tokens\";r=29000;t=20", "requests"),
        ("\"default\";q=30000;w=60;qu=\"tokens\"", "\"default\";r=29000;t=20", "tokens"),
        ("\"default\";q=30000;w=60", "\"default\";r=29000;t=20", "requests"),
        ("\"tokens\";q=30000;w=60", "", "tokens"),
        ("", "\"tokens\";r=29000;t=20", "tokens"),
        ("", "\"burst\";r=29000;t=20", "requests"),
    ] {
        let signal = answer("acme", 200, &[("ratelimit-policy", policy), ("ratelimit", field)], "");
        let meters: Vec<&str> = signal.buckets.iter().map(|bucket| bucket.meter.as_ref()).collect();
        assert_eq!(meters, [expected], "{policy} {field}");
    }
}
