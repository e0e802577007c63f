//! A store that is wrong, and one that is away: what the command and its status say.

use std::time::{Duration, Instant};

use paceline_tests::servers::{Options, Server, free_port, wait_until};
use serde_json::Value;

use crate::process::{Serving, run};

const FREE: [&str; 4] = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"];

fn serving(store: &str) -> Serving {
    Serving::start(&[&FREE[..], &["--store", store]].concat(), &[])
}

fn status(addr: &str) -> (String, Value) {
    let (code, text, errors) = run(&["status", "--addr", addr]);
    assert_eq!(code, Some(0), "{errors}");
    let (_, told, _) = run(&["status", "--addr", addr, "--json"]);
    (text, serde_json::from_str(&told).expect("one JSON object"))
}

/// The status as soon as it is as it should be.
fn until(what: &str, addr: &str, is_so: impl Fn(&str, &Value) -> bool) -> (String, Value) {
    let mut seen = status(addr);
    wait_until(what, Duration::from_secs(20), || {
        seen = status(addr);
        is_so(&seen.0, &seen.1)
    });
    seen
}

#[test]
fn a_store_that_will_never_do_ends_it_with_two() {
    let server = Server::start(Options::new().line("requirepass secret"));
    let port = server.port();
    for (store, said) in [
        (format!("redis://127.0.0.1:{port}"), "wants a password; give one as"),
        (format!("redis://:hunter2@127.0.0.1:{port}"), "does not take the password"),
        (format!("redis://:secret@127.0.0.1:{port}/77"), "has no database 77"),
        (format!("redis+cluster://:secret@127.0.0.1:{port}"), "is no cluster: write redis://"),
        (format!("rediss://:secret@127.0.0.1:{port}"), "answers without TLS"),
        (format!("redis://127.0.0.1:{port}?password_file=/nowhere/pw"), "cannot read the password file /nowhere/pw"),
        ("redis://127.0.0.1:port".to_owned(), "a port is a number"),
    ] {
        let (code, out, errors) = run(&[&["serve"], &FREE[..], &["--store", &store]].concat());
        assert_eq!((code, out.as_str()), (Some(2), ""), "{store}: {errors}");
        assert!(errors.contains("error: ") && errors.contains(said), "{store}: {errors}");
        assert!(!errors.contains("hunter2") && !errors.contains("secret"), "{errors}");
    }
}

#[test]
fn a_port_of_something_else_is_told_in_one_line() {
    let other = serving("memory");
    for scheme in ["redis", "rediss"] {
        let (code, out, errors) = run(&[&["serve"], &FREE[..], &["--store", &format!("{scheme}://{}", other.grpc)]].concat());
        assert_eq!((code, out.as_str()), (Some(2), ""), "{errors}");
        assert!(errors.contains("is no Redis") && errors.contains("is that the right port?"), "{errors}");
        assert_eq!(errors.trim_end().lines().filter(|line| line.contains("error: ")).count(), 1, "{errors}");
        assert!(!errors.contains("Unexpected"), "{errors}");
    }
}

#[test]
fn a_store_that_is_away_is_waited_for_and_the_status_says_so() {
    let port = free_port();
    let words = "replicas that nobody has seen yet may each take the whole limit: set expected_replicas";
    let one = serving(&format!("redis://127.0.0.1:{port}"));
    let away = |text: &str, told: &Value| {
        text.starts_with("DEGRADED: the store redis://127.0.0.1:") && told["store"]["degraded"] == true
    };
    let (text, told) = until("it is away", &one.grpc, away);
    assert!(text.contains("Limits are divided among 1"), "{text}");
    assert!(told["store"]["away_for_ms"].as_f64().is_some_and(|millis| millis > 0.0), "{told}");
    let server = Server::start(Options::new().port(port));
    let other = serving(&server.url());
    let well = |text: &str, told: &Value| {
        told["store"]["degraded"] == false
            && told["replicas"].as_array().is_some_and(|all| all.len() == 2)
            && !text.contains("DEGRADED")
    };
    let (text, told) = until("it is there", &one.grpc, well);
    assert!(text.starts_with("REPLICA") && text.contains(&other.grpc), "{text}");
    assert!(told["replicas"].as_array().unwrap().iter().all(|one| one["answers"] == true), "{told}");
    one.signal("TERM");
    let (ended, log) = one.ended();
    assert!(
        ended.success() && log.contains("the store does not answer yet; starting without it") && log.contains(words),
        "{log}"
    );
    assert!(!log.contains("the store is not available"), "{log}");
}

/// Two lines for two changes, however many connections and attempts there are between them.
#[test]
fn the_log_says_once_that_the_store_is_lost_and_found() {
    let mut server = Server::redis();
    let one = Serving::start(&[&FREE[..], &["--store", &format!("{}?connections=3", server.url())]].concat(), &[]);
    until("it is well", &one.grpc, |_, told| told["replicas"].as_array().is_some_and(|all| all.len() == 1));
    server.kill();
    until("it is away", &one.grpc, |_, told| told["store"]["degraded"] == true);
    server.start_again();
    until("it is there", &one.grpc, |_, told| told["store"]["degraded"] == false);
    one.signal("TERM");
    let (_, log) = one.ended();
    let lines = |words: &str| log.lines().filter(|line| line.contains(words)).count();
    let still = lines("still no connection to Redis");
    assert_eq!((lines("no connection to Redis") - still, lines("connected to Redis again")), (1, 1), "{log}");
    assert!(log.contains("connections=\"3 of 3\"") && still <= 3, "{log}");
}

#[test]
fn a_process_that_stood_still_says_so() {
    let one = serving("memory");
    one.signal("STOP");
    let since = Instant::now();
    wait_until("long enough to be no accident", Duration::from_secs(60), || since.elapsed() > Duration::from_secs(4));
    one.signal("CONT");
    let (code, _, errors) = run(&["status", "--addr", &one.grpc]);
    assert_eq!(code, Some(0), "{errors}");
    // The next beat comes within a second.
    let since = Instant::now();
    wait_until("it has beaten", Duration::from_secs(60), || since.elapsed() > Duration::from_secs(2));
    one.signal("TERM");
    let (_, log) = one.ended();
    assert_eq!(log.lines().filter(|line| line.contains("this process did not run for")).count(), 1, "{log}");
}
