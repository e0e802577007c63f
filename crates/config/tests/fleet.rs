//! What concerns a fleet: how many replicas, where one is reached, what happens while the store is away.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use paceline_config::{Config, Explanation, Overrides, Scalar};
use paceline_core::plan::StoreDown;

const FILE: &str = "\
expected_replicas: 3
listen: {grpc: 0.0.0.0:7070, advertise: pod-0.paceline:7070}
providers:
  openai:
    on_store_down: closed
    models: {\"o*\": {on_store_down: local}}
    accounts:
      prod:
        on_store_down: local
        models: {\"gpt-4*\": {on_store_down: closed}}
      dev: {}
  github: {}
";

fn parse(text: &str) -> Config {
    Config::parse(text, "paceline.yaml").unwrap_or_else(|errors| panic!("{errors}"))
}

fn explain(config: &Config, account: &str, model: &str) -> Explanation {
    config.explain(&support::catalogue(), "openai", account, model).unwrap()
}

#[test]
fn the_nearest_level_says_what_happens_while_the_store_is_away() {
    let config = parse(FILE);
    for (account, model, expected) in [
        ("prod", "gpt-4o", StoreDown::Closed),
        ("prod", "other", StoreDown::Local),
        // The account comes before the provider's group, as for every other setting.
        ("prod", "o1", StoreDown::Local),
        ("dev", "o1", StoreDown::Local),
        ("dev", "gpt-4o", StoreDown::Closed),
    ] {
        assert_eq!(explain(&config, account, model).plan.store_down, expected, "{account}/{model}");
    }
    let elsewhere = config.resolve(&support::catalogue(), "github", "me", "core").unwrap();
    assert_eq!(elsewhere.store_down, StoreDown::Local, "the default");
}

#[test]
fn an_explanation_names_the_line_and_only_what_is_written() {
    let config = parse(FILE);
    let found = explain(&config, "prod", "gpt-4o");
    let said = found.to_string();
    assert!(said.contains("  on_store_down closed <- paceline.yaml:10:44 (group)\n"), "{said}");
    let json = found.to_json();
    assert_eq!(
        (&json["on_store_down"], &json["on_store_down_from"]),
        (&"closed".into(), &"paceline.yaml:10:44 (group)".into())
    );
    let plain = explain(&Config::default(), "prod", "gpt-4o");
    assert!(!plain.to_string().contains("on_store_down"));
    assert_eq!(plain.to_json()["on_store_down"], "local");
}

#[test]
fn it_reads_back_and_counts_for_the_hash() {
    let config = parse(FILE);
    assert_eq!((config.expected_replicas(), config.listen().advertise.as_deref()), (3, Some("pod-0.paceline:7070")));
    let effective = config.effective_json();
    assert_eq!(
        (&effective["expected_replicas"], &effective["listen"]["advertise"]),
        (&3.into(), &"pod-0.paceline:7070".into())
    );
    let again = parse(&config.effective_yaml());
    assert_eq!((again.effective_json(), again.hash()), (effective, config.hash()));
    for (changed, is_same) in [
        (FILE.replace("pod-0", "pod-1"), true),
        (format!("store: redis://store.other-zone:6379\n{FILE}"), true),
        (format!("mode: shadow\n{FILE}"), false),
        (format!("tenants: {{ads: {{weight: 2}}}}\n{FILE}"), false),
        (format!("retries: {{share: 21%}}\n{FILE}"), false),
        (FILE.replace("expected_replicas: 3", "expected_replicas: 4"), false),
        (FILE.replace("on_store_down: closed", "on_store_down: local"), false),
    ] {
        assert_eq!(parse(&changed).hash() == config.hash(), is_same, "{changed}");
    }
}

#[test]
fn flags_and_variables_set_them() {
    let variables = [("PACELINE_SERVE_EXPECTED_REPLICAS", "5"), ("PACELINE_SERVE_ADVERTISE", "10.0.0.7:7070")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let by_variable = parse(FILE).with_overrides(&Overrides::from_variables(variables.clone())).unwrap();
    assert_eq!((by_variable.expected_replicas(), by_variable.listen().advertise.as_deref()), (5, Some("10.0.0.7:7070")));
    let overrides = Overrides::from_variables(variables).flag(Scalar::Advertise, Some("[fd00::7]:7070"));
    let by_flag = parse(FILE).with_overrides(&overrides.flag(Scalar::ExpectedReplicas, Some("7"))).unwrap();
    assert_eq!((by_flag.expected_replicas(), by_flag.listen().advertise.as_deref()), (7, Some("[fd00::7]:7070")));
    let wrong = Overrides::default().flag(Scalar::Advertise, Some("0.0.0.0:7070")).flag(Scalar::ExpectedReplicas, Some("0"));
    let said = Config::default().with_overrides(&wrong).unwrap_err().to_string();
    assert!(said.contains("`0.0.0.0:7070` cannot be called\n  --> --advertise"), "{said}");
    assert!(said.contains("this is not a number of replicas\n  --> --expected-replicas"), "{said}");
}
