//! The demo as a person or a program runs it: a small fleet, in a few seconds. What is asserted leaves room for slow machines; the
//! figures themselves are in `docs/demo.md`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::process::{Command, Output};

use serde_json::Value;

fn demo(args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_paceline")).arg("demo").args(args.split_whitespace()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_same_fleet_with_and_without_paceline() {
    let output = demo("--json --workers 16 --jobs 48 --limit 900/min --tokens none --latency 60ms --seed 3");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [ours, alone] = &lines[..] else { panic!("two lines, one per run: {lines:?}") };

    for (line, strategy) in [(ours, "paceline"), (alone, "alone")] {
        let names: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = [
            "scenario",
            "strategy",
            "seed",
            "makespan_s",
            "clairvoyant_s",
            "rejected_share",
            "calls_per_job",
            "wait_p50_s",
            "wait_p99_s",
            "jain",
            "pass",
            "delay_s_by_source",
        ];
        assert_eq!(names, expected);
        assert_eq!((line["scenario"].as_str(), line["strategy"].as_str()), (Some("demo"), Some(strategy)));
        assert_eq!(line["seed"].as_u64(), Some(3));
        let figure = |name: &str| line[name].as_f64().unwrap();
        // 48 calls at 15 a second, of which 18 were left.
        assert!((1.8..2.4).contains(&figure("clairvoyant_s")), "{line}");
        assert!(figure("makespan_s") > figure("clairvoyant_s") * 0.95, "nobody beats it by more than clocks differ: {line}");
        assert!((0.0..=1.0).contains(&figure("jain")) && figure("wait_p50_s") <= figure("wait_p99_s"), "{line}");
    }
    let figure = |line: &Value, name: &str| line[name].as_f64().unwrap();
    assert!(figure(ours, "rejected_share") <= 0.05, "{ours}");
    assert!(figure(ours, "makespan_s") <= figure(ours, "clairvoyant_s") + 4.0, "{ours}");
    assert!(figure(alone, "rejected_share") > 2.0 * figure(ours, "rejected_share") + 0.2, "{alone}");
    assert!(figure(alone, "calls_per_job") > figure(ours, "calls_per_job"), "{alone}");
}

#[test]
fn people_see_it_run_and_what_it_came_to() {
    let output = demo("--only paceline --provider bare --workers 4 --jobs 8 --limit 20/s --tokens none --latency 10ms");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for part in [
        "4 workers with 8 calls share one account",
        "Paceline is told the limits, since this provider tells none.",
        "with Paceline: 8 of 8 calls",
        "all calls answered after",
        "Try next:",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in:\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "no terminal, no control sequences:\n{shown}");
}

#[test]
fn what_cannot_be_run_says_why_and_prints_nothing_else() {
    for (args, status, says) in [
        ("--json --limit 1/min", 1, "raise --limit"),
        ("--json --call-tokens 9M", 1, "lower --call-tokens"),
        ("--json --limit 2400", 2, "the window is missing"),
        ("--json --workers 0", 2, "--workers"),
    ] {
        let output = demo(args);
        assert_eq!(output.status.code(), Some(status), "{args}");
        assert!(output.stdout.is_empty(), "{args}");
        assert!(text(&output.stderr).contains(says), "{args}: {}", text(&output.stderr));
    }
}
