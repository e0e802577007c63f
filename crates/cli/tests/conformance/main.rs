//! `paceline conformance` with workers of all sorts: good ones pass, each bad one is caught with the rule that it breaks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod client;
mod http;
mod kit;
mod plain;

use kit::{Desk, Kit};
use plain::Habits;
use serde_json::Value;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_with_our_client_passes() {
    let kit = Kit::start();
    client::work(&kit.desk).await;
    let judged = kit.judged();
    assert_eq!(judged["pass"], true, "{judged:#}");
    let all_seen = judged["situations"].as_array().unwrap().iter().all(|one| one["verdict"] == "ok");
    assert!(all_seen, "{judged:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_with_our_middleware_passes() {
    let kit = Kit::start();
    http::work(&kit.desk).await;
    let judged = kit.judged();
    assert_eq!(judged["pass"], true, "{judged:#}");
    let all_seen = judged["situations"].as_array().unwrap().iter().all(|one| one["verdict"] == "ok");
    assert!(all_seen, "{judged:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_loop_of_the_manual_passes() {
    let kit = Kit::start();
    plain::work(&kit.desk, Habits::default()).await;
    let judged = kit.judged();
    assert_eq!(judged["pass"], true, "{judged:#}");
    let all_seen = judged["situations"].as_array().unwrap().iter().all(|one| one["verdict"] == "ok");
    assert!(all_seen, "{judged:#}");
}

/// The rules that a worker breaks in a situation.
fn rules(judged: &Value, situation: &str) -> Vec<String> {
    let situations = judged["situations"].as_array().expect("situations");
    let one = situations.iter().find(|one| one["id"] == situation).unwrap_or_else(|| panic!("no {situation}"));
    let findings = one["findings"].as_array().expect("findings");
    findings.iter().map(|finding| finding["rule"].as_str().unwrap().to_owned()).collect()
}

/// What a worker with this habit is told of a situation.
async fn caught(habits: Habits, expected: &[(&str, &str)]) {
    let names: Vec<&str> = expected.iter().map(|(situation, _)| *situation).collect();
    let kit = Kit::start_with(&["--only", &names.join(",")]);
    plain::work(&kit.desk, habits.clone()).await;
    let judged = kit.judged();
    assert_eq!(judged["pass"], false, "{habits:?}");
    for (situation, rule) in expected {
        let rules = rules(&judged, situation);
        assert!(rules.iter().any(|found| found.starts_with(rule)), "{habits:?} in {situation}: {rules:?}\n{judged:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sends_early_is_caught() {
    caught(Habits { sends_early: true, ..Habits::default() }, &[("wait", "rule 2"), ("held", "rule 2")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_ignores_its_ticket_is_caught() {
    caught(Habits { ignores_tickets: true, ..Habits::default() }, &[("queued", "the protocol, Ask")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_retries_by_itself_is_caught() {
    let expected = [("retry", "rule 1"), ("retry-ask", "rule 1"), ("give-up", "rule 1")];
    caught(Habits { retries_itself: true, ..Habits::default() }, &expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reports_nothing_is_caught() {
    caught(Habits { reports: false, ..Habits::default() }, &[("plain", "rule 4"), ("stream", "rule 4")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_wakes_late_and_sends_all_the_same_is_caught() {
    caught(Habits { minds_lateness: false, ..Habits::default() }, &[("late", "rule 3")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaks_keys_is_caught() {
    caught(Habits { leaks: true, ..Habits::default() }, &[("plain", "rule 4"), ("retry", "rule 4")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gives_up_or_makes_new_calls_is_caught() {
    caught(
        Habits { new_names: true, ..Habits::default() },
        &[("away", "rule 8"), ("retry-ask", "rule 7"), ("queued", "rule 7")],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sends_what_was_denied_is_caught() {
    caught(Habits { ignores_denials: true, ..Habits::default() }, &[("denied", "rule 9")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_again_at_once_is_caught() {
    let expected = [("away-long", "rule 8"), ("report-away", "rule 8")];
    caught(Habits { hammers: true, ..Habits::default() }, &expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_for_another_account_is_caught() {
    caught(Habits { knows_one_account: true, ..Habits::default() }, &[("account", "the protocol, Ask")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gives_nothing_back_is_caught() {
    let expected = [("leave-line", "rule 6"), ("leave-slot", "rule 6")];
    caught(Habits { leaves_things: true, ..Habits::default() }, &expected).await;
}

/// What is found about a worker in a process of its own: this test program again, in [`worker_process`].
#[cfg(unix)]
fn in_a_process(habit: &str, only: &str) -> Value {
    let this = std::env::current_exe().unwrap();
    let worker = [this.to_str().unwrap(), "--ignored", "--exact", "worker_process", "--nocapture"];
    let args = [&["--only", only, "--worker"][..], &worker].concat();
    tokio::task::block_in_place(|| Kit::start_in(&args, &[("HABIT", habit)]).judged())
}

/// The worker that [`in_a_process`] has the kit start; nothing in any other run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it is the worker of other tests"]
async fn worker_process() {
    let Some(desk) = Desk::from_env() else { return };
    let habit = std::env::var("HABIT").unwrap_or_default();
    let habits = Habits { minds_lateness: habit != "late", counts_names: habit == "counts", ..Habits::default() };
    plain::work(&desk, habits).await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_may_stand_still_and_may_be_killed() {
    let judged = in_a_process("none", "stopped,killed,after");
    assert_eq!(judged["pass"], true, "{judged:#}");
    let all_seen = judged["situations"].as_array().unwrap().iter().all(|one| one["verdict"] == "ok");
    assert!(all_seen, "{judged:#}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sends_after_it_stood_still_is_caught() {
    let judged = in_a_process("late", "stopped");
    assert!(rules(&judged, "stopped").iter().any(|rule| rule.starts_with("rule 3")), "{judged:#}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_begins_to_count_anew_is_caught() {
    let judged = in_a_process("counts", "killed,after");
    assert!(rules(&judged, "after").iter().any(|rule| rule.starts_with("rule 7")), "{judged:#}");
}

#[test]
fn who_never_comes_passes_nothing() {
    let judged = Kit::start_with(&["--patience", "1s"]).judged();
    assert_eq!(judged["pass"], false);
    let situations = judged["situations"].as_array().unwrap();
    assert!(situations.iter().all(|one| one["verdict"] == "not_seen"), "{judged:#}");
}

/// A port that clients of browsers and Node connect to (they refuse 1, and many others below 11,000), where nobody listens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_at_an_ordinary_port() {
    let kit = Kit::start_with(&["--only", "unreachable"]);
    let job = kit.desk.job().await.expect("a job");
    let port = job.url.strip_prefix("http://127.0.0.1:").and_then(|rest| rest.split('/').next()).unwrap();
    assert!(port.parse::<u16>().unwrap() > 11_000, "{}", job.url);
    assert!(matches!(kit::send(&job).await, Err(kit::Broken::NeverSent)));
    assert!(std::net::TcpListener::bind(format!("127.0.0.1:{port}")).is_err(), "nobody else may take it");
}

#[cfg(unix)]
#[test]
fn who_ends_the_kit_ends_the_worker_and_what_it_started() {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};
    let run = |command: &str| Command::new("sh").args(["-c", command]).stderr(Stdio::null()).status().unwrap().success();
    for name in ["TERM", "INT"] {
        let worker = ["--worker", "sh", "-c", "sleep 600 & echo child $! >&2; wait"];
        let mut kit = Command::new(env!("CARGO_BIN_EXE_paceline"));
        kit.arg("conformance").args(worker).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut kit = kit.spawn().unwrap();
        let mut lines = BufReader::new(kit.stderr.take().unwrap()).lines().map(Result::unwrap);
        let child = lines.find_map(|line| line.strip_prefix("child ").map(str::to_owned)).expect("the worker runs");
        assert!(run(&format!("kill -0 {child}")) && run(&format!("kill -{name} {}", kit.id())));
        assert_eq!(kit.wait().unwrap().code(), Some(1));
        // Who is dead and not yet taken note of counts as gone.
        let gone = format!(
            "for i in $(seq 300); do kill -0 {child} || exit 0; grep -q '^State:.*[ZX]' /proc/{child}/status && exit 0; sleep 0.1; done; exit 1"
        );
        assert!(run(&gone), "{name} left the worker's process {child} behind");
    }
}
