//! Every recorded and made-up answer in `tests/cases`, read and compared figure by figure. A line is one answer and what must be
//! read out of it; a provider's file is worth nothing without lines of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use paceline_core::units::{FleetTime, Span};
use paceline_signals::{Answer, Reading, catalogue, read_in_full};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    provider: String,
    status: u16,
    headers: Vec<(String, String)>,
    body: Option<String>,
    received_at: String,
    expect: Expected,
    /// What the case shows.
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    retry_after_ms: Option<i64>,
    source: String,
    buckets: Vec<ExpectedBucket>,
    retryable: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedBucket {
    #[expect(dead_code, reason = "names are ours to choose; a bucket is known by its figures")]
    name: String,
    limit: Option<i64>,
    remaining: Option<i64>,
    reset_ms: Option<i64>,
}

#[test]
fn every_answer_is_read_right() {
    let mut wrong = Vec::new();
    for case in cases() {
        let reading = read(&case, |name| name.to_owned());
        let (found, expected) = (figures(&reading), expected(&case.expect));
        if found != expected {
            wrong.push(format!("{} ({})\n  read     {found:?}\n  expected {expected:?}", case.id, case.why));
        }
    }
    assert!(wrong.is_empty(), "{} answers are read wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn none_is_read_too_early() {
    for case in cases() {
        let reading = read(&case, |name| name.to_owned());
        if let (Some(read), Some(due)) = (reading.signal.retry_after, case.expect.retry_after_ms) {
            assert!(read >= Span::from_millis(due), "{} is read {} early", case.id, Span::from_millis(due) - read);
        }
    }
}

#[test]
fn names_are_read_in_any_casing() {
    for case in cases() {
        let as_sent = read(&case, |name| name.to_owned());
        assert_eq!(read(&case, str::to_ascii_uppercase), as_sent, "{}", case.id);
        assert_eq!(read(&case, str::to_ascii_lowercase), as_sent, "{}", case.id);
    }
}

#[test]
fn every_provider_file_is_built_in_and_has_cases() {
    let files: BTreeSet<String> = stems(&folder("catalogue"), "yaml");
    let built_in: BTreeSet<String> = catalogue().providers().map(|provider| provider.name().to_owned()).collect();
    assert_eq!(files, built_in, "list every file of crates/signals/catalogue in catalogue::FILES");
    let with_cases: BTreeSet<String> = cases().into_iter().map(|case| case.provider).collect();
    let without: Vec<_> = built_in.difference(&with_cases).collect();
    assert!(without.is_empty(), "no case in crates/signals/tests/cases for {without:?}");
}

#[test]
fn every_built_in_fact_has_a_source_and_a_day() {
    for provider in catalogue().providers() {
        for (what, provenance) in provider.provenances() {
            let is_known = provenance.source.is_some_and(|source| !source.is_empty()) && provenance.checked.is_some();
            assert!(is_known, "{}: {what} has no source or no `checked:` day", provider.name());
        }
    }
}

#[test]
fn every_case_has_an_id_of_its_own() {
    let mut ids = BTreeSet::new();
    for case in cases() {
        assert!(ids.insert(case.id.clone()), "{} is there twice", case.id);
    }
}

fn read(case: &Case, casing: impl Fn(&str) -> String) -> Reading {
    let names: Vec<String> = case.headers.iter().map(|(name, _)| casing(name)).collect();
    let headers: Vec<(&str, &[u8])> =
        names.iter().zip(&case.headers).map(|(name, (_, value))| (name.as_str(), value.as_bytes())).collect();
    let received_at: jiff::Timestamp = case.received_at.parse().unwrap();
    let answer = Answer {
        status: case.status,
        grpc_status: None,
        headers: &headers,
        body: case.body.as_deref().unwrap_or("").as_bytes(),
        received_at: Some(FleetTime::from_micros(received_at.as_microsecond())),
        age: Span::ZERO,
    };
    read_in_full(catalogue().get_or_generic(&case.provider), &answer)
}

type Figures = (Option<i64>, String, Vec<(Option<i64>, Option<i64>, Option<i64>)>, bool);

fn figures(reading: &Reading) -> Figures {
    let millis = |span: Option<Span>| span.map(Span::as_millis_ceil);
    let mut buckets: Vec<_> =
        reading.buckets.iter().map(|bucket| (bucket.limit, bucket.remaining, millis(bucket.reset_in))).collect();
    buckets.sort_unstable();
    let signal = &reading.signal;
    (millis(signal.retry_after), signal.source.name().replace('_', "-"), buckets, signal.retryable)
}

fn expected(expected: &Expected) -> Figures {
    let mut buckets: Vec<_> = expected.buckets.iter().map(|bucket| (bucket.limit, bucket.remaining, bucket.reset_ms)).collect();
    buckets.sort_unstable();
    (expected.retry_after_ms, expected.source.clone(), buckets, expected.retryable)
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for file in stems(&folder("tests/cases"), "jsonl") {
        let text = fs::read_to_string(folder("tests/cases").join(format!("{file}.jsonl"))).unwrap();
        for (index, line) in text.lines().enumerate() {
            cases.push(serde_json::from_str(line).unwrap_or_else(|error| panic!("{file}.jsonl, line {}: {error}", index + 1)));
        }
    }
    assert!(!cases.is_empty());
    cases
}

fn stems(folder: &Path, extension: &str) -> BTreeSet<String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of_that_kind = files.filter(|path| path.extension().is_some_and(|found| found == extension));
    of_that_kind.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}
