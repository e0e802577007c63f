//! `explain` as text: what people see, and the contract of each line for programs.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use clap::Parser;
use serde_json::Value;

use super::*;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: ExplainArgs,
}

fn explain(args: &[&str], input: impl AsRef<[u8]>) -> Result<String, ExplainError> {
    let args = Cli::try_parse_from(std::iter::once("explain").chain(args.iter().copied())).unwrap().args;
    let mut out = Vec::new();
    run(&args, &mut input.as_ref(), &mut out, false).map(|()| String::from_utf8(out).unwrap())
}

fn lines(input: &str) -> Vec<Value> {
    explain(&["--jsonl"], input).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const THROTTLED: &str = "HTTP/2 429 \r\ndate: Wed, 11 Mar 2026 17:20:05 GMT\r\nretry-after-ms: 823\r\nretry-after: 1\r\n\
    x-ratelimit-limit-tokens: 30000\r\nx-ratelimit-remaining-tokens: 0\r\nx-ratelimit-reset-tokens: 823ms\r\n\
    x-quota-mood: bad\r\nx-ratelimit-reset-requests: soon\r\n\r\n{\"error\": {}}";

#[test]
fn people_get_a_screenful() {
    let text = explain(&["--provider", "openai"], THROTTLED).unwrap();
    let expected = "\
429  the rate limit refused it (read as OpenAI). The same call is worth sending again later.

Wait
  823 ms  from retry-after-ms
  milliseconds and seconds agree: the finer one

Buckets
  tokens  0 of 30000 left, full again in 823 ms
    x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens

The fleet would
  - send nothing that uses `tokens` for 823 ms, then in turn, not all at once
  - take `tokens` to hold 0, and take its limit to be at most 30000 per window

Not read
  x-quota-mood  looks like a limit, and no rule reads it

Not understood
  x-ratelimit-reset-requests  a rule reads it, and the value fits no form: as if it were absent
";
    assert_eq!(text, expected);
}

#[test]
fn colour_is_for_terminals_only() {
    let args = Cli::try_parse_from(["explain", "--provider", "openai"]).unwrap().args;
    let mut coloured = Vec::new();
    run(&args, &mut THROTTLED.as_bytes(), &mut coloured, true).unwrap();
    let coloured = String::from_utf8(coloured).unwrap();
    assert!(coloured.contains("\u{1b}[1m"));
    let mut plain = coloured;
    for code in ["1", "2", "31", "32", "33", "0"] {
        plain = plain.replace(&format!("\u{1b}[{code}m"), "");
    }
    assert_eq!(plain, explain(&["--provider", "openai"], THROTTLED).unwrap());
}

#[test]
fn every_kind_of_answer_says_what_follows() {
    for (head, parts) in [
        ("HTTP/1.1 200 OK", &["it went through", "go on"][..]),
        ("HTTP/1.1 202 Accepted\nRetry-After: 10", &["start no further call of this group for 10 s"]),
        ("HTTP/1.1 429 Too Many Requests", &["none: nothing usable was said", "BACKOFF"]),
        (
            "HTTP/1.1 429 Too Many Requests\nRetry-After: 90",
            &["1 min 30 s  from retry-after", "nothing of this group for 1 min 30 s"],
        ),
        (
            "HTTP/1.1 429 X\nRetry-After: 2\nX-RateLimit-Limit: 9\nX-RateLimit-Remaining: 5",
            &["hold this call back for 2 s; others go on"],
        ),
        ("HTTP/1.1 503 Unavailable", &["not your limit", "single probes"]),
        ("HTTP/1.1 503 Unavailable\nx-should-retry: false", &["pointless", "the provider forbids it"]),
        ("HTTP/1.1 500 Oops", &["may have run"]),
        ("HTTP/1.1 413 Too Large", &["it has to become smaller"]),
        ("HTTP/1.1 402 Payment Required", &["no wait cures it"]),
        ("HTTP/1.1 404 Not Found", &["change no limit"]),
        (
            "HTTP/1.1 429 X\nDate: Fri, 06 Feb 2026 12:00:00 GMT\nRetry-After: Fri, 06 Feb 2026 12:01:00 GMT",
            &["1 min  from", "own Date"],
        ),
    ] {
        let text = explain(&["--provider", "acme"], head).unwrap();
        for part in parts.iter().chain(&["`acme` is not in the catalogue"]) {
            assert!(text.contains(part), "{head}\n{text}");
        }
    }
}

#[test]
fn the_clock_is_named_where_it_matters() {
    let reset = |value: &str| format!("HTTP/2 429\nx-ratelimit-remaining: 0\nx-ratelimit-reset: {value}");
    let at_noon = ["--received-at", "2026-02-06T12:00:00Z"];
    assert!(!explain(&at_noon, reset("5")).unwrap().contains("measured"));
    assert!(explain(&at_noon, reset("1770379205")).unwrap().contains("5 s  from x-ratelimit-reset\n"));
    assert!(explain(&at_noon, reset("1770379205")).unwrap().contains("measured from --received-at"));
    assert!(explain(&[], reset("1770379205")).unwrap().contains("none: nothing usable"));
}

#[test]
fn what_curl_prints_is_understood() {
    for (input, status, headers, body) in [
        ("HTTP/1.1 429 Too Many Requests\nA: 1\n\nbody\n", 429, 1, "body\n"),
        ("HTTP/1.1 200 Connection established\r\n\r\nHTTP/2 429\r\na: 1\r\nb: 2\r\n\r\n", 429, 2, ""),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 X\r\n\r\n{}", 503, 0, "{}"),
        ("HTTP/2 429\na: 1\n folded\nno colon\n:status: 429", 429, 2, ""),
        ("* Trying\n> GET / HTTP/2\n>\n< HTTP/2 429\n< retry-after: 5\n<\n{}", 429, 1, "{}\n"),
        ("\u{feff}\n HTTP/2 429", 429, 0, ""),
    ] {
        let pasted = input::Pasted::parse(input.as_bytes()).unwrap();
        let found = (pasted.status, pasted.headers.len(), String::from_utf8(pasted.body).unwrap());
        assert_eq!(found, (status, headers, body.to_owned()), "{input}");
    }
    for (input, part) in [
        ("", "empty"),
        ("retry-after: 5", "status line"),
        ("HTTP/2 many", "`HTTP/2 many` is no status line"),
        ("HTTP/2 \u{1b}[31m", "no status line"),
    ] {
        let error = explain(&[], input).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("curl -si") && !error.contains('\u{1b}'), "{input}: {error}");
    }
}

#[test]
fn a_line_has_exactly_the_keys_of_the_contract() {
    let line = r#"{"id": 7, "provider": "openai", "status": 429, "headers": [["x-ratelimit-limit-tokens", "6000"],
        ["x-ratelimit-remaining-tokens", "-412"], ["x-ratelimit-reset-tokens", "4.12s"], ["x-backoff", "1"], ["retry-after", "soon"]],
        "body": null, "received_at": "2026-02-06T12:00:00Z", "expect": {}}"#;
    let answers = lines(&line.replace('\n', " "));
    let expected = serde_json::json!({
        "id": 7,
        "retry_after_ms": 4120,
        "source": "reset-header",
        "buckets": [{"name": "tokens", "limit": 6000, "remaining": -412, "reset_ms": 4120}],
        "retryable": true,
        "unread_headers": ["x-backoff"],
        "malformed_headers": ["retry-after"],
    });
    assert_eq!(answers, [expected]);
    let keys: Vec<_> = answers[0].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["id", "retry_after_ms", "source", "buckets", "retryable", "unread_headers", "malformed_headers"]);
}

#[test]
fn a_bad_line_is_answered_and_does_not_stop_the_run() {
    let input = concat!(
        "{\"id\": \"a\", \"provider\": \"nobody\", \"status\": 429, \"headers\": [[\"Retry-After\", \"2\"]]}\n",
        "\n",
        "not json\n",
        "{\"id\": \"b\", \"status\": \"often\"}\n",
        "{\"id\": \"c\", \"status\": 99999}\n",
        "{\"id\": \"d\", \"status\": 429, \"received_at\": \"yesterday\"}\n",
        "[]\n",
        "{\"id\": {\"n\": 1}, \"status\": 429, \"body\": {\"retry_after\": 3}}",
    );
    let answers = lines(input);
    let ids: Vec<String> = answers.iter().map(|answer| answer["id"].to_string()).collect();
    assert_eq!(ids, ["\"a\"", "null", "\"b\"", "\"c\"", "\"d\"", "null", "{\"n\":1}"]);
    assert_eq!(answers[0]["retry_after_ms"], 2_000);
    assert_eq!(answers[6]["retry_after_ms"], 3_000);
    for answer in &answers[1..6] {
        let keys: Vec<_> = answer.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["id", "error"], "{answer}");
    }
    assert!(answers[4]["error"].as_str().unwrap().contains("2026-02-06T12:00:00Z"));
}

#[test]
fn bytes_that_are_no_text_are_answered() {
    let out = explain(&["--jsonl"], b"\xff\xfe\n{\"id\": 2, \"status\": 200}\n").unwrap();
    assert_eq!(out.lines().count(), 2);
    assert!(out.lines().next().unwrap().contains("\"error\""));
}

#[test]
fn json_says_more() {
    let answer: Value = serde_json::from_str(&explain(&["--provider", "openai", "--json"], THROTTLED).unwrap()).unwrap();
    assert_eq!(answer["kind"], "throttled");
    assert_eq!(answer["read_as"], "openai");
    assert_eq!(answer["field"], "retry-after-ms");
    assert_eq!(answer["bucket_fields"][0][0], "x-ratelimit-limit-tokens");
    assert_eq!(answer["retry_after_ms"], 823);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = explain(&["/no/such/answer.txt"], "").unwrap_err().to_string();
    assert!(error.contains("/no/such/answer.txt"), "{error}");
}
