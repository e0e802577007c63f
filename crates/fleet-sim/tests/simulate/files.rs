//! Scenario files: those that come with us are right, and wrong ones are told where.

use std::path::Path;

use paceline_fleet_sim::scenario::{SUITE, Selection, read, select};
use paceline_fleet_sim::{SimulateError, known_strategy, run};

#[test]
fn every_scenario_of_the_suite_reads_and_says_what_it_is() {
    let scenarios = select(&Selection::Suite, |_| unreachable!("nothing is read")).unwrap();
    assert_eq!(scenarios.len(), SUITE.len());
    for (scenario, (_, text)) in scenarios.iter().zip(SUITE) {
        assert!(scenario.about.ends_with('.'), "{}", scenario.name);
        assert!(text.lines().count() <= 16, "{}: ten lines, not {}", scenario.name, text.lines().count());
        assert!(text.contains("expect:"), "{} expects nothing", scenario.name);
    }
}

#[test]
fn wrong_files_are_told_where_and_what() {
    let provider = "provider: {limits: {requests: 60/min}}\n";
    let fleet = "fleet: {workers: 1, calls: 1}\n";
    for (text, words) in [
        (format!("{provider}flet: {{workers: 1, calls: 1}}\n"), ["flet", "line 2"]),
        (format!("{provider}fleet: {{workers: 1, calls: 1, colour: red}}\n"), ["colour", "line 2"]),
        (format!("provider: {{limits: {{requests: 60/fortnight}}}}\n{fleet}"), ["fortnight", "line 1"]),
        (format!("provider: {{limits: {{requests: 60/min}}, dialect: klingon}}\n{fleet}"), ["klingon", "line 1"]),
        (format!("{provider}{fleet}expect: {{rejected_share: 110%}}\n"), ["110%", "line 3"]),
        (format!("{provider}{fleet}events: [{{at: soon}}]\n"), ["soon", "line 3"]),
        (format!("{provider}{fleet}events: [{{at: 3s}}]\n"), ["says nothing that happens", "3 s"]),
        (format!("{provider}{fleet}events: [{{at: 3s, replica_lost: 4}}]\n"), ["replica 4", "from 0"]),
        (format!("{provider}fleet: {{workers: 0, calls: 1}}\n"), ["nobody", "workers"]),
        (format!("{provider}fleet: {{workers: 1, calls: 1, cost: {{requests: 61}}}}\n"), ["61", "60"]),
        (format!("{provider}fleet: {{workers: 1, calls: 1, cost: {{tokens: 9..3}}}}\n"), ["9..3", "above its end"]),
        (fleet.to_owned(), ["provider", "missing"]),
    ] {
        let error = read("mine", "mine.yaml", &text).expect_err(&text).to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{text}\n{error}");
        assert!(error.contains("mine"), "{error}");
    }
}

#[test]
fn a_wrong_configuration_of_the_service_is_told_like_any_other() {
    let text = "provider: {limits: {requests: 60/min}}\nfleet: {workers: 1, calls: 1}\nservice: {config: 'providrs: {}'}\n";
    let scenario = read("mine", "mine.yaml", text).unwrap();
    let error = run(&scenario, "paceline", 1).expect_err("it is wrong").to_string();
    assert!(error.contains("providers") && error.contains("mine"), "{error}");
}

#[test]
fn names_that_do_not_exist_are_answered_with_near_ones() {
    let nothing = |_: &Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    let error = select(&Selection::Named(vec!["named-buket".to_owned()]), nothing).unwrap_err();
    assert!(error.to_string().contains("did you mean `named-bucket`"), "{error}");
    let error = select(&Selection::Named(vec!["./mine.yaml".to_owned()]), nothing).unwrap_err();
    assert!(matches!(&error, SimulateError::File { .. }) && error.to_string().contains("./mine.yaml"), "{error}");
    assert!(known_strategy("full-jiter").unwrap_err().to_string().contains("did you mean `full-jitter`"));
}
