//! `paceline simulate` as people and programs run it: the same bytes for the same seed, pictures that are pictures, calls of the
//! past, and every wrong input told with what to do.

use serde_json::Value;

use crate::process::{Folder, run};
use crate::provider_files::block_of;

/// A small fleet on a small limit: a fraction of a second.
const SMALL: &str = "about: A small fleet.\n\
    provider: {limits: {requests: 120/min, tokens: 60k/min}, latency: 300ms}\n\
    fleet: {workers: 40, calls: 200, cost: {tokens: 50..300}}\n";

const CALLS: &str = "time,model,class,tenant,tokens,duration,note\n\
    0,gpt-4o,interactive,ads,300,500ms,\n\
    0.5,gpt-4o,batch,search,900,1s,\"a, b\"\n\
    1,gpt-4o,batch,search,1200,1s,\n\
    1.5,gpt-4o-mini,,,50,,\n";

fn lines(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_others() {
    let folder = Folder::new("simulate-seed");
    let file = folder.write("small.yaml", SMALL);
    let with = |seed: &str, threads: &str| {
        let own = ["--scenario", &file, "--strategy", "paceline", "--strategy", "full-jitter", "--seeds", "2", "--json"];
        let (status, out, errors) = run(&[&["simulate", "--first-seed", seed, "--threads", threads], &own[..]].concat());
        assert_eq!((status, errors.as_str()), (Some(0), ""), "nothing on stderr when that is no terminal");
        out
    };
    let once = with("7", "1");
    assert_eq!(with("7", "4"), once, "on any number of threads");
    assert_ne!(with("9", "1"), once);
    let rows = lines(&once);
    let said: Vec<(&str, u64)> =
        rows.iter().map(|row| (row["strategy"].as_str().unwrap(), row["seed"].as_u64().unwrap())).collect();
    assert_eq!(said, [("paceline", 7), ("paceline", 8), ("full-jitter", 7), ("full-jitter", 8)]);
    for row in &rows {
        for key in ["makespan_s", "clairvoyant_s", "rejected_share", "calls_per_job", "wait_p50_s", "wait_p99_s", "jain"] {
            assert!(row[key].is_number(), "{key} in {row}");
        }
        assert!(row["pass"].is_boolean() && row["delay_s_by_source"].is_object() && row["scenario"] == "small", "{row}");
    }
}

#[test]
fn a_table_says_what_was_expected_and_missed() {
    let folder = Folder::new("simulate-table");
    let file = folder.write("small.yaml", &format!("{SMALL}expect: {{wait_p99: 1s}}\n"));
    let (status, out, errors) = run(&["simulate", "--scenario", &file, "--strategy", "paceline", "--seeds", "1"]);
    assert_eq!(status, Some(1), "{out}");
    assert!(out.contains("small: A small fleet.") && out.contains("missed by 1 of 1 seeds: p99 wait"), "{out}");
    assert_eq!(errors, "error: Paceline missed what is expected in 1 of 1 runs: small\n");
}

#[test]
fn the_scenario_of_the_manual_is_met() {
    let folder = Folder::new("simulate-manual");
    let file = folder.write("mine.yaml", &block_of("simulate", "yaml"));
    let (status, out, errors) = run(&["simulate", "--scenario", &file, "--strategy", "paceline", "--seeds", "2"]);
    assert_eq!(status, Some(0), "{out}{errors}");
    assert!(out.contains("mine: Interactive calls and a batch on one small limit, and an outage."), "{out}");
}

/// Width and height of a PNG, all of whose chunks were walked to the end.
fn png_size(bytes: &[u8]) -> (u32, u32) {
    assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut names) = (8, Vec::new());
    while at < bytes.len() {
        names.push(String::from_utf8(bytes[at + 4..at + 8].to_vec()).unwrap());
        at += usize::try_from(number(at)).unwrap() + 12;
    }
    assert_eq!(at, bytes.len(), "the last chunk ends where the file does");
    assert!(names.first().is_some_and(|name| name == "IHDR") && names.last().is_some_and(|name| name == "IEND"), "{names:?}");
    (number(16), number(20))
}

#[test]
fn plots_are_pictures_and_the_same_again() {
    let folder = Folder::new("simulate-plot");
    let file = folder.write("small.yaml", SMALL);
    let draw = |name: &str| {
        let path = format!("{}/{name}", folder.path());
        let args = [
            "simulate",
            "--scenario",
            &file,
            "--strategy",
            "paceline",
            "--strategy",
            "header-jitter",
            "--seeds",
            "1",
            "--plot",
        ];
        let (status, _, errors) = run(&[&args[..], &[&path]].concat());
        assert_eq!((status, errors.as_str()), (Some(0), ""));
        std::fs::read(path).unwrap()
    };
    let svg = draw("one.svg");
    assert_eq!(draw("two.svg"), svg);
    let text = String::from_utf8(svg).unwrap();
    assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{}", &text[..200]);
    for words in [
        "small: A small fleet",
        ">sent<",
        ">rejected or failed<",
        "requests left",
        "callers waiting",
        "time (s)",
        ">header-jitter<",
    ] {
        assert!(text.contains(words), "`{words}` is in the picture");
    }
    let png = draw("one.png");
    assert_eq!(draw("two.png"), png);
    let (width, height) = png_size(&png);
    assert!(width > 1_000 && height > 600, "{width} x {height}: two columns, twice as many pixels as units");
}

#[test]
fn a_csv_of_past_calls_meets_one_configuration_or_two() {
    let folder = Folder::new("simulate-calls");
    let calls = folder.write("calls.csv", CALLS);
    let (status, out, errors) = run(&["simulate", "--calls", &calls, "--limit", "requests=1200/min,tokens=90k/min"]);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert!(out.contains("4 calls that came within 1.5 s") && out.contains("nothing was read from: note"), "{out}");
    let config = |limit: &str| {
        format!(
            "providers: {{openai: {{accounts: {{prod: {{start_level: full, models: {{\"*\": {{limits: {{requests: {limit}}}}}}}}}}}}}}}\n"
        )
    };
    let (new, old) = (folder.write("new.yaml", &config("2/min")), folder.write("old.yaml", &config("1200/min")));
    let both = ["simulate", "--calls", &calls, "--limit", "1200/min", "--config", &new, "--against", &old];
    let (status, out, errors) = run(&both);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert!(out.contains("change") && out.contains("all over after"), "{out}");
    let (_, out, _) = run(&[&both[..], &["--json"]].concat());
    let rows = lines(&out);
    let makespan = |nth: usize| rows[nth]["makespan_s"].as_f64().unwrap();
    assert!(rows.len() == 2 && makespan(0) > makespan(1) + 10.0, "two a minute take longer: {out}");
}

#[test]
fn what_cannot_be_run_is_told_with_what_to_do() {
    let folder = Folder::new("simulate-wrong");
    let small = folder.write("small.yaml", SMALL);
    let bad = folder.write("bad.yaml", &SMALL.replace("workers: 40", "workers: many"));
    let calls = folder.write("calls.csv", CALLS);
    let no_time = folder.write("no-time.csv", "model,tokens\ngpt-4o,12\n");
    let bad_cost = folder.write("bad-cost.csv", "time,tokens\n0,12\n1,lots\n");
    let config = folder.write("mine.yaml", "providrs: {}\n");
    let nowhere = format!("{}/none/plot.svg", folder.path());
    let quick = ["--strategy", "paceline", "--seeds", "1"];
    for (args, words) in [
        (vec!["--scenario", "windowx"], vec!["no scenario `windowx`", "did you mean `window`?", "--list"]),
        (vec!["--scenario", "./gone.yaml"], vec!["./gone.yaml", "cannot be read"]),
        (vec!["--scenario", &small, "--strategy", "jitter"], vec!["no strategy `jitter`", "--list"]),
        (vec!["--scenario", &bad], vec!["bad.yaml", "line 3", "workers"]),
        (vec!["--calls", &calls], vec!["say what the provider of these calls limits", "--limit requests=1200/min"]),
        (vec!["--calls", "gone.csv", "--limit", "60/min"], vec!["gone.csv cannot be read"]),
        (
            vec!["--calls", &no_time, "--limit", "60/min"],
            vec!["no-time.csv", "no column says when calls came", "model, tokens"],
        ),
        (vec!["--calls", &bad_cost, "--limit", "60/min"], vec!["bad-cost.csv, line 3, column 2 (tokens): `lots` is no cost"]),
        (vec!["--calls", &calls, "--limit", "tokens=1k/min"], vec!["cost 1200 tokens", "1000 at most", "is its limit right?"]),
        (vec!["--calls", &calls, "--limit", "60/min", "--config", &config], vec!["mine.yaml", "providrs", "providers"]),
        (vec!["--calls", &calls, "--limit", "60/min", "--account", "prod"], vec!["PROVIDER/ACCOUNT", "openai/prod"]),
        (
            [&["--scenario", &small, "--plot", &nowhere], &quick[..]].concat(),
            vec!["the plot", "none/plot.svg cannot be written"],
        ),
    ] {
        let (status, _, errors) = run(&[&["simulate"], &args[..]].concat());
        assert_eq!(status, Some(1), "{args:?}: {errors}");
        assert!(errors.starts_with("error: ") && words.iter().all(|word| errors.contains(word)), "{args:?}\n{errors}");
    }
    for (args, words) in [
        (vec!["--scenario", &small, "--plot", "plot.jpeg"], "end its name with .svg or .png"),
        (vec!["--calls", &calls, "--trace", &calls, "--limit", "60/min"], "cannot be used with"),
        (vec!["--limit", "60/min"], "required"),
        (vec!["--scenario", "window", "--seeds", "0"], "1..=10000"),
    ] {
        let (status, _, errors) = run(&[&["simulate"], &args[..]].concat());
        assert!(status == Some(2) && errors.contains(words), "{args:?}: {status:?} {errors}");
    }
}
