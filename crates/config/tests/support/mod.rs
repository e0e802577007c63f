//! A small catalogue for tests, read from the page `docs/reference/configurations.md`.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use paceline_config::{AliasFacts, Catalogue, GroupFacts, LimitFacts, MeterFacts, ProviderFacts};
use paceline_core::calendar::Zone;
use paceline_core::plan::Refill;
use paceline_core::units::Span;
use serde_json::Value;

/// The page with real configurations.
pub(crate) const PAGE: &str = include_str!("../../../../docs/reference/configurations.md");

/// Providers by name.
pub(crate) struct TestCatalogue(BTreeMap<String, ProviderFacts>);

impl Catalogue for TestCatalogue {
    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn provider(&self, name: &str) -> Option<ProviderFacts> {
        self.0.get(name).cloned()
    }
}

/// The catalogue that the page assumes.
pub(crate) fn catalogue() -> TestCatalogue {
    let block = blocks(PAGE).into_iter().find(|block| block.tag == "yaml catalogue").expect("the page has a catalogue");
    let parsed: Value = serde_saphyr::from_str(&block.text).expect("the page's catalogue is YAML");
    let providers = parsed.as_object().unwrap().iter();
    TestCatalogue(providers.map(|(name, facts)| (name.clone(), provider(name, facts))).collect())
}

fn provider(name: &str, facts: &Value) -> ProviderFacts {
    let members = |key: &str| facts.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
    ProviderFacts {
        name: name.to_owned(),
        meters: members("meters").iter().map(|(meter, how)| meter_facts(meter, how.as_str().unwrap())).collect(),
        groups: groups(&Value::Object(members("groups"))),
        tiers: members("tiers").iter().map(|(tier, models)| (tier.clone(), groups(models))).collect(),
        aliases: members("aliases").iter().map(|(model, names)| alias(model, names)).collect(),
        min_backoff: facts.get("min_backoff").map_or(Span::ZERO, |text| seconds(text.as_str().unwrap())),
    }
}

fn meter_facts(meter: &str, how: &str) -> MeterFacts {
    let refill = match how.split(' ').next().unwrap() {
        "continuous" => Some(Refill::Continuous),
        "window" => Some(Refill::Window),
        "held" => Some(Refill::Held),
        "unknown" => None,
        other => panic!("unknown refill {other}"),
    };
    let zone = how.split_once("days end in ").map(|(_, zone)| Zone::named(zone).unwrap());
    MeterFacts { meter: Arc::from(meter), per: None, refill, zone, account_wide: how.ends_with("by the account") }
}

fn alias(model: &str, names: &Value) -> AliasFacts {
    let names = names.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned());
    AliasFacts { model: model.to_owned(), names: names.collect() }
}

fn groups(models: &Value) -> Vec<GroupFacts> {
    let limit = |(meter, rate): (&String, &Value)| {
        let (units, per) = rate.as_str().unwrap().split_once('/').unwrap();
        let (number, factor) = match units.strip_suffix(['k', 'M']) {
            Some(number) => (number, if units.ends_with('k') { 1_000 } else { 1_000_000 }),
            None => (units, 1),
        };
        LimitFacts { meter: Arc::from(meter.as_str()), limit: number.parse::<u64>().unwrap() * factor, per: Some(seconds(per)) }
    };
    let group = |(pattern, limits): (&String, &Value)| GroupFacts {
        pattern: pattern.clone(),
        limits: limits.as_object().unwrap().iter().map(limit).collect(),
    };
    models.as_object().unwrap().iter().map(group).collect()
}

fn seconds(text: &str) -> Span {
    Span::from_secs(match text {
        "min" => 60,
        "h" => 3_600,
        "day" => 86_400,
        other => other.strip_suffix('s').unwrap().parse().unwrap(),
    })
}

/// A fenced block of a page.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// What stands after the opening fence.
    pub(crate) tag: String,
    pub(crate) text: String,
    /// The line of the opening fence.
    pub(crate) line: usize,
}

/// The fenced blocks of a page, in order.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut out: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (index, line) in page.lines().enumerate() {
        match line.strip_prefix("```") {
            Some(tag) if !is_open => {
                out.push(Block { tag: tag.to_owned(), text: String::new(), line: index + 1 });
                is_open = true;
            }
            Some(_) => is_open = false,
            None if is_open => {
                let block = out.last_mut().unwrap();
                block.text.push_str(line);
                block.text.push('\n');
            }
            None => {}
        }
    }
    out
}
