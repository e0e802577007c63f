//! `paceline serve` as a process: its first line, its signals, its logs; and `paceline status` beside it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::process::{Serving, run};

const FREE: [&str; 4] = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"];

fn get(addr: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(addr).expect("HTTP answers");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn it_serves_until_it_is_told_to_stop() {
    let serving = Serving::start(&FREE, &[]);
    assert!(get(&serving.http, "/readyz").starts_with("HTTP/1.1 200"));
    let (status, out, errors) = run(&["status", "--addr", &serving.grpc]);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert!(out.contains("Nobody has asked"), "{out}");
    let (status, out, _) = run(&["status", "--json", "--addr", &serving.grpc]);
    let told: serde_json::Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!((status, &told["scopes"], &told["store"]["degraded"]), (Some(0), &serde_json::json!([]), &false.into()));
    for asked in ["openai/prod", "openai", "a*/b"] {
        let (status, out, errors) = run(&["status", asked, "--addr", &serving.grpc]);
        assert_eq!((status, out.as_str()), (Some(1), ""));
        let said = format!("error: no live scope matches `{asked}`; nobody has asked for a slot in the last two minutes\n");
        assert_eq!(errors, said);
        let (status, out, errors) = run(&["status", asked, "--json", "--addr", &serving.grpc]);
        let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((status, shown, errors), (Some(1), serde_json::json!({"scopes": [], "live": []}), said));
    }
    let (status, _, errors) = run(&["status", "--addr", &serving.http]);
    assert!(status == Some(1) && errors.contains("the gRPC port is meant"), "{errors}");
    // Nothing to reload is no reason to stop.
    serving.signal("HUP");
    assert!(get(&serving.http, "/healthz").ends_with("ok\n"));
    serving.signal("TERM");
    let (status, log) = serving.ended();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("paceline status --addr") && log.contains("every caller got an answer"), "{log}");
}

/// Elsewhere `Admin` is denied: no hint that cannot work.
#[test]
fn the_status_is_named_where_it_is_answered() {
    let serving = Serving::start(&["--grpc", "0.0.0.0:0", "--http", "127.0.0.1:0"], &[]);
    serving.signal("TERM");
    let (_, log) = serving.ended();
    assert!(log.contains("open http://127.0.0.1:") && !log.contains("paceline status"), "{log}");
}

#[test]
fn variables_set_what_flags_do_not_and_logs_can_be_json() {
    let free = "127.0.0.1:0";
    let variables =
        [("PACELINE_SERVE_GRPC", "not an address"), ("PACELINE_SERVE_HTTP", free), ("PACELINE_SERVE_LOG_FORMAT", "json")];
    let serving = Serving::start(&["--grpc", free], &variables);
    serving.signal("INT");
    let (status, log) = serving.ended();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(
        log.lines().count() >= 2 && log.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()),
        "{log}"
    );
}

#[test]
fn every_flag_is_in_the_manual() {
    let manual = include_str!("../../../../docs/operating/running.md");
    let (_, help, _) = run(&["serve", "--help"]);
    let flags = help.lines().filter_map(|line| line.trim().strip_prefix("--")?.split([' ', '=']).next());
    let flags: Vec<&str> = flags.collect();
    assert!(flags.len() >= 6, "{help}");
    for flag in flags {
        assert!(manual.contains(&format!("`--{flag} ")), "--{flag} is missing from docs/operating/running.md");
    }
}

#[test]
fn a_taken_port_is_told() {
    let first = Serving::start(&FREE, &[]);
    let (status, _, errors) = run(&["serve", "--grpc", &first.grpc, "--http", "127.0.0.1:0"]);
    assert!(status == Some(1) && errors.contains("another paceline") && errors.contains("--grpc 127.0.0.1:0"), "{errors}");
}

/// A call whose message never comes, by hand: a client's preface and settings, and the headers of one request (RFC 9113, and
/// RFC 7541 for the header block: literal fields that are not indexed).
fn half_a_call(addr: &str) -> TcpStream {
    let mut stream = TcpStream::connect(addr).expect("gRPC answers");
    let mut block = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/paceline.v1.RateLimiter/Acquire"),
        (":authority", "paceline"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        block.extend([vec![0x10], text(name), text(value)].concat());
    }
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
    };
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&frame(4, 0, 0, &[])).unwrap(); // SETTINGS
    stream.write_all(&frame(1, 4, 1, &block)).unwrap(); // HEADERS, END_HEADERS
    // The answer to a ping proves that what came before it was read.
    stream.write_all(&frame(6, 0, 0, b"are you?")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut read = Vec::new();
    while !read.windows(8).any(|bytes| bytes == b"are you?") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("the service answers pings");
        read.extend(byte);
    }
    stream
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let serving = Serving::start(&FREE, &[]);
    let call = half_a_call(&serving.grpc);
    let begun = Instant::now();
    serving.signal("TERM");
    while !get(&serving.http, "/readyz").contains("draining") {
        assert!(begun.elapsed() < Duration::from_secs(9), "it drains");
    }
    serving.signal("TERM");
    let (status, log) = serving.ended();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("stopped at once"), "{log}");
    drop(call);
}

#[test]
fn a_changed_file_and_sighup_are_told_in_the_log() {
    let file = std::env::temp_dir().join(format!("paceline-cli-{}.yaml", std::process::id()));
    std::fs::write(&file, "providers: {openai: {limits: {requests: 100/min}}}\n").unwrap();
    let path = file.to_str().unwrap();
    let serving = Serving::start(&[&FREE[..], &["--config", path]].concat(), &[]);
    std::fs::write(&file, "providers: {openai: {limits: {requests: 100}}}\n").unwrap();
    serving.signal("HUP");
    let begun = Instant::now();
    while get(&serving.http, "/metrics").contains("config_reloads_total{result=\"refused\"} 0") {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is refused");
    }
    serving.signal("TERM");
    let (status, log) = serving.ended();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains(".yaml:1:") && log.contains("the old one stays in force"), "{log}");
}
