//! Executes the conversations of `docs/transcripts` against the coordinator's step in virtual time: what is written there is
//! what happens.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../support/mod.rs"]
mod support;

mod check;
mod run;

use paceline_tests::transcript::Transcript;

/// Jitter and backoff differ from run to run; what is written must hold in each.
const SEEDS: u64 = 30;

#[test]
fn every_transcript_happens_as_written() {
    let texts = paceline_tests::texts("txt").into_iter().filter(|(path, _)| path.starts_with("docs/transcripts/"));
    let mut wrong = Vec::new();
    let mut count = 0;
    for (path, text) in texts {
        count += 1;
        let transcript = Transcript::parse(&text).unwrap_or_else(|problem| panic!("{path}: {problem}"));
        for seed in 0..SEEDS {
            let mismatches = run::run(&transcript, seed);
            if !mismatches.is_empty() {
                let told =
                    mismatches.iter().map(|mismatch| format!("{path}:{} (seed {seed}): {}", mismatch.line, mismatch.what));
                wrong.extend(told);
                break;
            }
        }
    }
    assert!(count >= 19, "only {count} transcripts were found");
    assert!(wrong.is_empty(), "{} differ:\n{}\n", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_transcript_that_is_wrong_is_told_so() {
    let text = "config:\n  providers: {acme: {extends: generic, accounts: {prod: {}}}}\n\nat 0s A acquire acme/prod/m\n\
                at 0s A < granted wait=1s\nat 1s B acquire acme/prod/m\nat 2s C < queued\n";
    let told = run::run(&Transcript::parse(text).unwrap(), 0);
    let told: Vec<String> = told.iter().map(|mismatch| format!("{}: {}", mismatch.line, mismatch.what)).collect();
    assert_eq!(
        told,
        [
            "5: wait is 0 s, but 1s is written",
            "6: B is answered at 1 s with granted, which is not written",
            "7: C gets no answer, but queued is written"
        ]
    );
}
