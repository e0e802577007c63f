//! Every recorded and made-up answer in `tests/cases`, read and compared figure by figure. A line is one answer and what must be
//! read out of it; a provider's file is worth nothing without lines of its own.

mod support;

use std::collections::BTreeSet;

use paceline_core::units::Span;
use paceline_signals::catalogue;

use support::{cases, expected, figures, folder, stems};

#[test]
fn every_answer_is_read_right() {
    let mut wrong = Vec::new();
    for case in cases() {
        let reading = case.read();
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
        let reading = case.read();
        if let (Some(read), Some(due)) = (reading.signal.retry_after, case.expect.retry_after_ms) {
            assert!(read >= Span::from_millis(due), "{} is read {} early", case.id, Span::from_millis(due) - read);
        }
    }
}

#[test]
fn names_are_read_in_any_casing() {
    for case in cases() {
        let in_casing = |casing: fn(&str) -> String| case.with_headers(|name, value| (casing(name), value.to_owned())).read();
        assert_eq!(in_casing(str::to_ascii_uppercase), case.read(), "{}", case.id);
        assert_eq!(in_casing(str::to_ascii_lowercase), case.read(), "{}", case.id);
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
fn every_built_in_fact_has_a_source_and_a_day_and_says_how_sure_it_is() {
    for provider in catalogue().providers() {
        assert!(provider.version().is_some(), "{} has no `version:`", provider.name());
        for (what, provenance) in provider.provenances() {
            let is_known = provenance.source.is_some_and(|source| !source.is_empty())
                && provenance.checked.is_some()
                && provenance.sure.is_some();
            assert!(is_known, "{}: {what} has no `source:`, no `checked:` day or no `sure:`", provider.name());
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

/// A provider's file that leaves a limit of its own answers unread is not finished. What nobody knows is for the generic reading.
#[test]
fn no_file_leaves_a_limit_unread() {
    for case in cases().into_iter().filter(|case| case.provider != "generic") {
        assert!(case.read().signal.unread_headers.is_empty(), "{}: {:?}", case.id, case.read().signal.unread_headers);
    }
}
