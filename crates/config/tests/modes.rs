//! `mode`: which level holds, what tenants add, and that the guide's examples are what it says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use paceline_config::{Config, Overrides, Scalar};
use paceline_core::mode::{Mode, Modes};

fn parse(text: &str) -> Config {
    Config::parse(text, "paceline.yaml").unwrap_or_else(|errors| panic!("{errors}"))
}

fn modes(config: &Config, target: &str) -> Modes {
    let mut names = target.splitn(3, '/');
    let mut next = || names.next().unwrap();
    config.resolve(&support::catalogue(), next(), next(), next()).unwrap().modes
}

const LEVELS: &str = "\
mode: shadow
providers:
  openai:
    mode: {enforce: 10%, shadow: 90%}
    models: {\"o*\": {mode: off}}
    accounts:
      prod:
        mode: enforce
        models: {\"gpt-4*\": {mode: {enforce: 25.5%, off: 74.5%}}}
      dev: {}
  github: {}
";

#[test]
fn the_nearest_level_holds() {
    let config = parse(LEVELS);
    for (target, expected) in [
        ("openai/prod/gpt-4o", Modes::split(255_000, 0)),
        ("openai/prod/other", Modes::all(Mode::Enforce)),
        // The account comes before the provider's group, as for every other setting.
        ("openai/prod/o1", Modes::all(Mode::Enforce)),
        ("openai/dev/o1", Modes::all(Mode::Off)),
        ("openai/dev/gpt-4o", Modes::split(100_000, 900_000)),
        ("github/me/core", Modes::all(Mode::Shadow)),
        ("anthropic/me/claude", Modes::all(Mode::Shadow)),
    ] {
        assert_eq!(modes(&config, target), expected, "{target}");
    }
    assert_eq!(modes(&Config::default(), "openai/prod/gpt-4o"), Modes::all(Mode::Enforce));
    let account = |account| config.modes(&support::catalogue(), "openai", account).unwrap();
    assert_eq!((account("prod"), account("dev")), (Modes::all(Mode::Enforce), Modes::split(100_000, 900_000)));
}

#[test]
fn an_explanation_names_the_line() {
    let text = format!("{LEVELS}tenants: {{ads: {{mode: shadow}}}}\n");
    let found = parse(&text).explain(&support::catalogue(), "openai", "prod", "gpt-4o").unwrap();
    let said = found.to_string();
    assert!(said.contains("mode     enforce 25.5%, off 74.5% <- paceline.yaml:9:"), "{said}");
    assert!(said.contains("mode     shadow 25.5%, off 74.5% for tenant \"ads\" <- paceline.yaml:"), "{said}");
    let json = found.to_json();
    assert_eq!(json["mode"], "enforce 25.5%, off 74.5%");
    assert_eq!(json["mode_of_tenants"]["ads"], "shadow 25.5%, off 74.5%");
}

#[test]
fn tenants_add_to_that() {
    let config = parse("tenants: {ads: {mode: enforce}, default: {mode: off}, \"*\": {mode: shadow}}");
    for (tenant, mode) in [("ads", Mode::Enforce), ("", Mode::Off), ("default", Mode::Off), ("else", Mode::Shadow)] {
        assert_eq!(config.tenant_modes(tenant), Modes::all(mode), "{tenant:?}");
    }
    assert_eq!(parse("tenants: {ads: {mode: off}}").tenant_modes("else"), Modes::all(Mode::Enforce));
}

#[test]
fn what_is_in_force_reads_back_and_tells_modes_apart() {
    let config = parse(&format!("{LEVELS}tenants: {{ads: {{mode: {{shadow: 50%, off: 50%}}}}}}\n"));
    let again = parse(&config.effective_yaml());
    assert_eq!(again.hash(), config.hash());
    assert_eq!(again.tenant_modes("ads"), Modes::split(0, 500_000));
    assert_eq!(modes(&again, "openai/prod/gpt-4o"), Modes::split(255_000, 0));
    assert_ne!(parse("mode: shadow").hash(), parse("mode: off").hash());
}

#[test]
fn a_flag_sets_the_mode_at_the_top() {
    let flag = |mode| Overrides::default().flag(Scalar::Mode, Some(mode));
    let config = parse(LEVELS).with_overrides(&flag("off")).unwrap();
    assert_eq!(modes(&config, "github/me/core"), Modes::all(Mode::Off));
    assert_eq!(modes(&config, "openai/prod/other"), Modes::all(Mode::Enforce), "nearer levels still win");
    let said = Config::default().with_overrides(&flag("on")).unwrap_err().to_string();
    assert!(said.contains("`on` is not one of `off`, `shadow`, `enforce`") && said.contains("--mode"), "{said}");
}

/// Every example of the guide is a configuration, and the three of its roll-out do what it says.
#[test]
fn the_guides_examples_hold() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/shadow.md");
    let page = std::fs::read_to_string(path).unwrap();
    let blocks = support::blocks(&page);
    let configs: Vec<Config> = blocks.iter().filter(|block| block.tag == "yaml").map(|block| parse(&block.text)).collect();
    let [watch, tenants, account] = configs.as_slice() else { panic!("{} examples", configs.len()) };
    assert_eq!(modes(watch, "openai/prod/m"), Modes::all(Mode::Shadow));
    // What the page's `sed` makes of the first.
    let percent = "mode: {enforce: 10%, shadow: 90%}";
    assert!(page.contains(percent));
    assert_eq!(modes(&parse(percent), "openai/prod/m"), Modes::split(100_000, 900_000));
    assert_eq!(tenants.tenant_modes("ingestion"), Modes::all(Mode::Enforce));
    assert_eq!(tenants.tenant_modes("web"), Modes::all(Mode::Shadow));
    assert_eq!(modes(account, "openai/staging/m"), Modes::all(Mode::Enforce));
    assert_eq!(
        modes(account, "openai/prod/m"),
        Modes::all(Mode::Shadow),
        "an account that is not written is watched as before"
    );
    assert_eq!(modes(account, "github/me/core"), Modes::all(Mode::Shadow));
}
