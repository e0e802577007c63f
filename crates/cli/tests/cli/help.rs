//! Help is compared with `tests/golden`: a changed flag is seen in review. `UPDATE=1 cargo test -p paceline --test cli` writes it.

use std::path::Path;

use crate::process::run;

/// The commands, in the order of the help.
const COMMANDS: [&str; 19] = [
    "serve",
    "demo",
    "simulate",
    "status",
    "why",
    "events",
    "report",
    "mode",
    "pause",
    "resume",
    "limit",
    "forget",
    "controls",
    "explain",
    "check-config",
    "probe",
    "mock-provider",
    "conformance",
    "bench",
];

fn compare(name: &str, args: &[&str]) {
    let (status, help, errors) = run(args);
    assert_eq!((status, errors.as_str()), (Some(0), ""), "{args:?}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, help).expect("the golden file can be written");
        return;
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        golden == help,
        "the help of {args:?} changed; if that is meant: UPDATE=1 cargo test -p paceline --test cli\n{help}"
    );
}

#[test]
fn help_is_as_written() {
    compare("help", &["--help"]);
    for command in COMMANDS {
        compare(command, &[command, "--help"]);
    }
}

#[test]
fn every_command_shows_examples_that_parse() {
    for command in COMMANDS {
        let (_, help, _) = run(&[command, "--help"]);
        let examples = help.split_once("Examples:").unwrap_or_else(|| panic!("{command} has no examples")).1;
        let calls = examples.lines().filter_map(|line| line.trim().rsplit_once("paceline ").map(|(_, call)| call));
        let calls: Vec<&str> = calls.filter(|call| call.starts_with(command)).collect();
        assert!(!calls.is_empty(), "{command}: {examples}");
        for call in calls {
            // Up to the first word of a shell, or of another command. `--help` last keeps it from running, and does not keep a wrong flag from being told.
            let words = shell_words(call).into_iter().take_while(|word| !["|", "<", ">", "--worker"].contains(&word.as_str()));
            let words: Vec<String> = words.chain(["--help".to_owned()]).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let (status, _, errors) = run(&words);
            assert_eq!(status, Some(0), "{call}: {errors}");
        }
    }
}

/// What stands between single quotes is a part of one word.
fn shell_words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (at, part) in line.split('\'').enumerate() {
        for (nth, word) in if at % 2 == 1 { vec![part] } else { part.split(' ').collect() }.into_iter().enumerate() {
            if nth > 0 {
                words.push(String::new());
            }
            words.last_mut().expect("there is one").push_str(word);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn the_version_is_told_and_wrong_command_lines_end_with_two() {
    let (status, version, _) = run(&["--version"]);
    assert_eq!((status, version), (Some(0), format!("paceline {}\n", env!("CARGO_PKG_VERSION"))));
    for (args, words) in [
        (&[][..], "Usage: paceline"),
        (&["srve"][..], "serve"),
        (&["serve", "--prot", "1"][..], "--prot"),
        (&["serve", "--log-format", "xml"][..], "`text` or `json`"),
        (&["status", "a", "b"][..], "unexpected"),
        (&["report"][..], "--shadow"),
        (&["report", "--shadow", "--since", "24"][..], "such as 24h"),
        (&["report", "--shadow", "--since", "01.02.2026"][..], "such as 24h"),
        (&["report", "--shadow", "--since", "2999-01-01T00:00:00Z"][..], "still to come"),
        (&["report", "--shadow", "--price", "tokens"][..], "tokens=3/1M"),
        (&["report", "--shadow", "--addr", "nowhere"][..], "HOST:PORT"),
        (&["bench", "--rate", "10", "--in-flight", "2"][..], "cannot be used with"),
        (&["mock-provider", "--latency", "-5ms"][..], "it must not be negative"),
        (&["mock-provider", "--latency-jitter", "-1s"][..], "it must not be negative"),
        (&["mock-provider", "--refusal-latency", "-1s"][..], "it must not be negative"),
        (&["mock-provider", "--phase", "-15s"][..], "it must not be negative"),
        (&["mock-provider", "--first", "1", "--retry-after", "-2"][..], "it must not be negative"),
        (&["mock-provider", "--first", "1", "--retry-after", "-2s"][..], "it must not be negative"),
        (&["mock-provider", "--first", "-1"][..], "at least 1"),
        (&["mock-provider", "--seed", "-1"][..], "not negative"),
        (&["mock-provider", "--limit", "-5/min"][..], "between 1 and 10^15"),
        (&["mock-provider", "--limit", "requests=-5/min"][..], "between 1 and 10^15"),
        (&["mock-provider", "--limit", "60/-1min"][..], "is no window"),
        (&["mock-provider", "--other-consumer", "-30%"][..], "above 0"),
        (&["serve", "--grpc", "7070"][..], "127.0.0.1:7070"),
        (&["serve", "--store", "sqlite://state.db"][..], "memory"),
        (&["serve", "--store", "reddis://127.0.0.1:17500"][..], "did you mean redis://?"),
        (&["serve", "--store", "127.0.0.1:17500"][..], "did you mean redis://127.0.0.1:17500?"),
        (&["serve", "--advertise", "http://a:7070"][..], "write only the host and the port"),
        (&["serve", "--expected-replicas", "many"][..], "not a number of replicas"),
    ] {
        let (status, _, errors) = run(args);
        assert!(status == Some(2) && errors.contains(words), "{args:?}: {status:?} {errors}");
    }
}

/// A script that waits for a trial tells a service that is away from a trial that is too young.
#[test]
fn a_report_that_cannot_be_had_ends_with_three() {
    let (status, out, errors) = run(&["report", "--shadow", "--addr", "127.0.0.1:1"]);
    assert!(
        status == Some(3) && out.is_empty() && errors.contains("is `paceline serve` running there?"),
        "{status:?} {errors}"
    );
}

#[test]
fn what_fails_ends_with_one_and_says_what_to_do() {
    for (args, words) in [
        (&["status", "--addr", "127.0.0.1:1"][..], "is `paceline serve` running there?"),
        (&["status", "--addr", "nowhere"][..], "HOST:PORT"),
        (&["bench", "--addr", "127.0.0.1:1"][..], "start a service with `paceline serve`"),
        (&["bench", "--addr", "nowhere"][..], "HOST:PORT"),
        (&["serve", "--config", "/nowhere/paceline.yaml"][..], "check the path"),
        (&["serve", "--log-filter", "paceline=loud"][..], "crate=level"),
    ] {
        let (status, out, errors) = run(args);
        assert!(status == Some(1) && errors.contains(words) && out.is_empty(), "{args:?}: {status:?} {out} {errors}");
        assert!(errors.starts_with("error: "), "{errors}");
    }
}
