//! The same meaning is read the same way: every case of `tests/cases` again, sent as other servers, proxies and clocks would
//! have sent it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod support;

use std::time::{Duration, SystemTime};

use jiff::{SignedDuration, Timestamp};
use support::{Case, Figures, cases, figures};

/// Compares the reading of every case with that of a changed one; a change that does not apply is `None`.
fn same(what: &str, change: impl Fn(&Case) -> Option<Case>) {
    let mut tried = 0;
    let mut wrong = Vec::new();
    for case in cases() {
        let Some(changed) = change(&case) else { continue };
        tried += 1;
        let (as_sent, now): (Figures, Figures) = (figures(&case.read()), figures(&changed.read()));
        if as_sent != now {
            wrong.push(format!("{} ({})\n  as sent {as_sent:?}\n  changed {now:?}", case.id, case.why));
        }
    }
    assert!(tried > 0, "{what}: nothing to try");
    assert!(wrong.is_empty(), "{what}: {} of {tried} are read differently:\n{}", wrong.len(), wrong.join("\n"));
}

fn has(case: &Case, wanted: &str) -> bool {
    case.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted))
}

#[test]
fn casing() {
    same("casing", |case| {
        let mixed = |name: &str| {
            let pick = |(index, c): (usize, char)| if index % 2 == 0 { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
            name.chars().enumerate().map(pick).collect()
        };
        Some(case.with_headers(|name, value| (mixed(name), value.to_owned())))
    });
}

#[test]
fn blanks_around_values() {
    same("blanks", |case| Some(case.with_headers(|name, value| (name.to_owned(), format!(" \t{value}  ")))));
}

#[test]
fn every_line_twice() {
    let is_repeated = |case: &Case| {
        let count = |wanted: &str| case.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted)).count();
        case.headers.iter().any(|(name, _)| count(name) > 1)
    };
    same("every line twice", |case| {
        let headers = case.headers.iter().flat_map(|line| [line.clone(), line.clone()]).collect();
        // What is repeated with other figures may describe several buckets: then the count of lines has a meaning.
        (!is_repeated(case)).then(|| Case { headers, ..case.clone() })
    });
    same("the whole head twice", |case| {
        let headers = case.headers.iter().chain(&case.headers).cloned().collect();
        (!is_repeated(case)).then(|| Case { headers, ..case.clone() })
    });
}

#[test]
fn order_of_names() {
    same("order", |case| {
        let mut headers = case.headers.clone();
        // Stable: lines of one name keep their order.
        headers.sort_by_key(|(name, _)| std::cmp::Reverse(name.to_ascii_lowercase()));
        Some(Case { headers, ..case.clone() })
    });
}

#[test]
fn unrelated_headers() {
    let unrelated = [
        ("server", "nginx"),
        ("via", "1.1 proxy"),
        ("cache-control", "max-age=0, no-store"),
        ("set-cookie", "remaining=0; Max-Age=600; reset=9"),
        ("strict-transport-security", "max-age=31536000"),
        ("last-modified", "Fri, 01 Jan 2027 00:00:00 GMT"),
        ("expires", "Fri, 01 Jan 2027 00:00:00 GMT"),
        ("x-runtime", "0.25"),
        ("content-length", "0"),
    ];
    same("unrelated headers", |case| {
        let owned = unrelated.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let headers = owned.chain(case.headers.clone()).collect();
        Some(Case { headers, ..case.clone() })
    });
}

#[test]
fn unusable_neighbours() {
    for (name, value) in
        [("retry-after-ms", "soon"), ("x-ms-retry-after-ms", ""), ("x-amz-retry-after", "-1"), ("ratelimit-policy", ";;")]
    {
        same(name, |case| {
            let mut headers = case.headers.clone();
            headers.push((name.to_owned(), value.to_owned()));
            (!has(case, name)).then(|| Case { headers, ..case.clone() })
        });
    }
}

/// `Date` is the clock; without it, a caller whose clock is right reads the same.
#[test]
fn without_a_date() {
    same("without Date", |case| {
        let date = case.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("date"))?;
        let received_at = Timestamp::try_from(httpdate::parse_http_date(&date.1).ok()?).ok()?;
        let headers = case.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("date")).cloned().collect();
        (!has(case, "age")).then(|| Case { headers, received_at, ..case.clone() })
    });
}

/// With a `Date`, the caller's clock says nothing.
#[test]
fn a_caller_whose_clock_is_wrong() {
    for hours in [-30, -1, 1, 1_000] {
        same("the caller's clock", |case| {
            let received_at = case.received_at + SignedDuration::from_hours(hours);
            has(case, "date").then(|| Case { received_at, ..case.clone() })
        });
    }
}

/// All clocks later by the same length: nothing changes but the digits.
#[test]
fn another_day() {
    for secs in [1, 59, 86_400, 3_600_001, 31_536_000] {
        same("another day", |case| shifted(case, secs));
    }
}

#[test]
fn layout_of_the_body() {
    same("layout of the body", |case| {
        let body: serde_json::Value = serde_json::from_str(case.body.as_deref()?).ok()?;
        let body = Some(format!("\n{}\n\n", serde_json::to_string_pretty(&body).unwrap()));
        Some(Case { body, ..case.clone() })
    });
}

/// Another number of seconds under the same name is that many seconds.
#[test]
fn other_numbers() {
    let mut tried = 0;
    for case in cases() {
        let reading = case.read();
        let governs = |name: &str| name.eq_ignore_ascii_case("retry-after") && reading.signal.field == "retry-after";
        let mut lines = case.headers.iter().filter(|(name, _)| governs(name));
        let (Some((_, value)), None) = (lines.next(), lines.next()) else { continue };
        let has_millis = case.headers.iter().any(|(name, _)| name.to_ascii_lowercase().ends_with("-ms"));
        if has_millis || value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        for secs in [0_i64, 1, 2, 59, 61, 3_599, 86_401, 2_000_000] {
            let changed = case
                .with_headers(|name, value| (name.to_owned(), if governs(name) { secs.to_string() } else { value.to_owned() }));
            let signal = changed.read().signal;
            assert_eq!(signal.retry_after.map(|wait| wait.as_micros()), Some(secs * 1_000_000), "{}", case.id);
            tried += 1;
        }
    }
    assert!(tried > 100, "{tried}");
}

/// The same answer so many seconds later; `None` when it holds a time in a form that this test cannot write.
fn shifted(case: &Case, secs: u64) -> Option<Case> {
    let span = SignedDuration::from_secs(i64::try_from(secs).unwrap());
    // A body with an instant, or one whose day ends somewhere.
    let body = case.body.as_deref().unwrap_or("");
    if body.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() >= 10)
        || body.contains("Z\"")
        || body.contains("PerDay")
    {
        return None;
    }
    let mut headers = Vec::new();
    for (name, value) in &case.headers {
        headers.push((name.clone(), later(name, value, secs, span)?));
    }
    Some(Case { headers, received_at: case.received_at + span, ..case.clone() })
}

fn later(name: &str, value: &str, secs: u64, span: SignedDuration) -> Option<String> {
    let text = value.trim();
    if let Ok(date) = httpdate::parse_http_date(text) {
        let is_written_so = httpdate::fmt_http_date(date) == text;
        return is_written_so.then(|| httpdate::fmt_http_date(date + Duration::from_secs(secs)));
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) && text.contains(['T', 't']) {
        return text.parse::<Timestamp>().ok().map(|at| (at + span).to_string());
    }
    // What an intermediary joined is moved part by part.
    if text.contains(", ") && text.split(", ").all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())) {
        let parts: Option<Vec<String>> = text.split(", ").map(|part| later(name, part, secs, span)).collect();
        return parts.map(|parts| parts.join(", "));
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if name.to_ascii_lowercase().contains("reset") && whole.len() >= 10 && whole.bytes().all(|byte| byte.is_ascii_digit()) {
        let unit = match whole.len() {
            10 => 1,
            13 => 1_000,
            19 => 1_000_000_000,
            _ => return None,
        };
        let moved = whole.parse::<u128>().ok()? + u128::from(secs) * unit;
        return Some(if fraction.is_empty() { moved.to_string() } else { format!("{moved}.{fraction}") });
    }
    // Dates that others write: JavaScript's, RFC 850's, asctime's, broken ones.
    let looks_like_a_date = text.matches(':').count() == 2 && text.contains(' ');
    (!looks_like_a_date).then(|| value.to_owned())
}

#[test]
fn the_tests_own_clock() {
    let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(1_770_379_200);
    let moved = later("date", &httpdate::fmt_http_date(noon), 61, SignedDuration::from_secs(61));
    assert_eq!(moved.as_deref(), Some("Fri, 06 Feb 2026 12:01:01 GMT"));
    assert_eq!(later("x-reset", "1770379200.5", 1, SignedDuration::from_secs(1)).as_deref(), Some("1770379201.5"));
}
