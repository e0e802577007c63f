//! Laws of the configuration, for any file: order never matters, equal keys mean equal plans, nearer layers win, nothing panics.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::collections::BTreeMap;

use paceline_config::{Config, ConfigErrors, Explanation};
use paceline_core::plan::Owner;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};

const MODELS: [&str; 9] = ["", "m", "m-1", "m-1-mini", "m-2", "n", "n-1", "o", "{m-1,n*}"];
const PATTERNS: [&str; 9] = ["*", "m*", "m-1*", "m-1", "m-?", "{m-1,n*}", "n", "o*", "*-mini"];

fn limit() -> impl Strategy<Value = Value> {
    let rate = (1_u64..1_000, select(vec!["s", "10s", "min", "h", "day"])).prop_map(|(n, per)| json!(format!("{n}/{per}")));
    let map = (1_u64..1_000, select(vec!["1m", "hour", "week"]), any::<bool>()).prop_map(|(n, per, window)| {
        json!({"limit": n, "per": per, "burst": "50%", "refill": if window { "window" } else { "continuous" }})
    });
    let one = prop_oneof![rate.clone(), map];
    prop_oneof![4 => one, 1 => (rate.clone(), rate).prop_map(|(a, b)| json!([a, b]))]
}

fn limits() -> impl Strategy<Value = Value> {
    btree_map(select(vec!["requests", "tokens", "images"]), limit(), 0..3).prop_map(|limits| json!(limits))
}

/// Settings and limits that may stand at any level.
fn level() -> impl Strategy<Value = Map<String, Value>> {
    let settings =
        btree_map(select(vec!["use", "learn_above", "start_level", "tier", "max_wait", "attempts"]), 0_usize..3, 0..3);
    (settings, limits(), prop::option::of(1_u32..99)).prop_map(|(settings, limits, concurrency)| {
        let mut out = Map::new();
        for (key, choice) in settings {
            let choices = match key {
                "use" => [json!("50%"), json!("100%"), json!("33.3%")],
                "learn_above" => [json!(true), json!(false), json!(true)],
                "start_level" => [json!("full"), json!("cautious"), json!("full")],
                "tier" => [json!(1), json!("4"), json!(4)],
                "max_wait" => [json!("10s"), json!({"batch": "1h", "normal": "90s"}), json!("1h30m")],
                _ => [json!(1), json!({"interactive": 7}), json!(9)],
            };
            out.insert(key.to_owned(), choices[choice].clone());
        }
        out.insert("limits".to_owned(), limits);
        if let Some(concurrency) = concurrency {
            out.insert("concurrency".to_owned(), json!(concurrency));
        }
        out
    })
}

fn group() -> impl Strategy<Value = Value> {
    (level(), any::<bool>(), any::<bool>()).prop_map(|(mut level, each, uses)| {
        level.insert("each".to_owned(), json!(each));
        if uses {
            level.insert("uses".to_owned(), json!(["common"]));
        }
        Value::Object(level)
    })
}

fn block() -> impl Strategy<Value = Map<String, Value>> {
    (level(), subsequence(PATTERNS.to_vec(), 0..4), vec(group(), 4)).prop_map(|(mut level, patterns, groups)| {
        let models: BTreeMap<&str, Value> = patterns.into_iter().zip(groups).collect();
        level.insert("models".to_owned(), json!(models));
        level.insert("shared".to_owned(), json!({"common": {"limits": {"tokens": "90/min"}}}));
        level
    })
}

fn config() -> impl Strategy<Value = Value> {
    (block(), block(), block(), any::<bool>()).prop_map(|(mut provider, prod, dev, allow)| {
        provider.insert("accounts".to_owned(), json!({"prod": prod, "dev": dev}));
        provider.insert("unknown_accounts".to_owned(), json!(if allow { "allow" } else { "deny" }));
        json!({"providers": {"openai": provider, "vllm": {"concurrency": 3}}, "classes": {"batch": {"attempts": 4}}})
    })
}

/// The same maps with their keys in another order.
fn shuffled(value: &Value, seed: u64) -> Value {
    match value {
        Value::Object(members) => {
            let mut keys: Vec<&String> = members.keys().collect();
            keys.sort_by_key(|key| {
                key.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23))
            });
            Value::Object(keys.into_iter().map(|key| (key.clone(), shuffled(&members[key], seed))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| shuffled(item, seed)).collect()),
        other => other.clone(),
    }
}

fn parse(value: &Value) -> Result<Config, ConfigErrors> {
    let config = Config::parse(&serde_saphyr::to_string(value).unwrap(), "generated")?;
    config.check(&support::catalogue())?;
    Ok(config)
}

fn explain(config: &Config, account: &str, model: &str) -> Explanation {
    config.explain(&support::catalogue(), "openai", account, model).unwrap()
}

/// What is wrong, without the places.
fn complaints(errors: &ConfigErrors) -> Vec<String> {
    let mut out: Vec<String> = errors.problems.iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect();
    out.sort();
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_a_file_never_matters(value in config(), seed in any::<u64>()) {
        match (parse(&value), parse(&shuffled(&value, seed))) {
            (Ok(one), Ok(other)) => {
                prop_assert_eq!(one.effective_json(), other.effective_json());
                prop_assert_eq!(one.hash(), other.hash());
                for model in MODELS {
                    prop_assert_eq!(explain(&one, "prod", model).plan, explain(&other, "prod", model).plan);
                }
            }
            (Err(one), Err(other)) => prop_assert_eq!(complaints(&one), complaints(&other)),
            (one, other) => prop_assert!(false, "{one:?} but {other:?}"),
        }
    }

    #[test]
    fn equal_keys_mean_equal_plans(value in config()) {
        let Ok(config) = parse(&value) else { return Ok(()) };
        for account in ["prod", "dev"] {
            let mut by_key = BTreeMap::new();
            let mut by_bucket = BTreeMap::new();
            for model in MODELS {
                let plan = explain(&config, account, model).plan;
                for bucket in &plan.buckets {
                    let known = by_bucket.entry(bucket.id.clone()).or_insert_with(|| bucket.clone());
                    prop_assert_eq!(&*known, bucket, "one bucket of {}, two plans", account);
                }
                let known = by_key.entry(plan.key.clone()).or_insert_with(|| plan.clone());
                prop_assert_eq!(&*known, &plan, "one key of {}, two plans", account);
            }
        }
    }

    #[test]
    fn what_the_account_names_for_a_group_wins(value in config()) {
        let Ok(config) = parse(&value) else { return Ok(()) };
        let models = value["providers"]["openai"]["accounts"]["prod"]["models"].as_object().unwrap();
        for (pattern, group) in models.iter().filter(|(_, group)| group["each"] == json!(false)) {
            // The group under its own name: every meter it names is its own, in as many windows as it wrote.
            let plan = explain(&config, "prod", pattern).plan;
            prop_assert_eq!(&*plan.key, pattern.as_str());
            for (meter, written) in group["limits"].as_object().unwrap() {
                let own = plan.buckets.iter().filter(|bucket| {
                    &*bucket.meter == meter.as_str() && matches!(bucket.id.owner, Owner::Group(_)) && bucket.limit.is_some()
                });
                prop_assert_eq!(own.count(), written.as_array().map_or(1, Vec::len));
            }
        }
    }

    #[test]
    fn bucket_ids_are_unique_and_account_wide_limits_always_apply(value in config()) {
        let Ok(config) = parse(&value) else { return Ok(()) };
        let account = value["providers"]["openai"]["accounts"]["prod"]["limits"].as_object().unwrap();
        for model in MODELS {
            let plan = explain(&config, "prod", model).plan;
            prop_assert!(plan.buckets.windows(2).all(|pair| pair[0].id < pair[1].id), "sorted and unique");
            for meter in account.keys() {
                prop_assert!(plan.buckets.iter().any(|bucket| bucket.id.owner == Owner::Account && *bucket.meter == **meter));
            }
        }
    }

    #[test]
    fn nothing_is_zero_and_nothing_exceeds_its_capacity(value in config()) {
        let Ok(config) = parse(&value) else { return Ok(()) };
        for model in MODELS {
            for bucket in explain(&config, "dev", model).plan.buckets {
                let capacity = bucket.capacity.or(bucket.limit);
                prop_assert!(bucket.limit != Some(0) && capacity != Some(0) && bucket.burst != Some(0));
                prop_assert!(bucket.burst.is_none() || bucket.burst <= capacity);
            }
        }
    }

    #[test]
    fn the_effective_form_has_the_same_effect(value in config()) {
        let Ok(config) = parse(&value) else { return Ok(()) };
        let again = Config::parse(&config.effective_yaml(), "effective").unwrap();
        prop_assert_eq!(again.hash(), config.hash());
        for model in MODELS {
            prop_assert_eq!(explain(&again, "dev", model).plan, explain(&config, "dev", model).plan);
        }
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = Config::parse(&text, "any").map_err(|errors| errors.to_string());
    }

    #[test]
    fn no_yaml_panics(parts in vec(select(vec![
        "providers", "openai", "accounts", "models", "limits", "requests", "tokens", "classes", "batch", "use", "shared", "uses",
        "\"*\"", "*a", "&a ", ": ", ":\n  ", "\n", "  ", "{", "}", "[", "]", ", ", "500/min", "50%", "~", "true", "-1", "1e9", "- ",
        "<<", "!x ", "|", ">", "\t", "#", "'", "\"", "---\n", "\u{0}", "é", "limit", "per", "zone",
    ]), 0..60)) {
        let _ = Config::parse(&parts.concat(), "any").map_err(|errors| (errors.to_string(), errors.to_json()));
    }

    #[test]
    fn no_value_at_any_place_panics(value in config(), at in any::<prop::sample::Index>(), put in select(vec![
        json!(null), json!([]), json!({}), json!(-1), json!(1e300), json!(true), json!("x"), json!([[1]]), json!({"a": {"b": 1}}),
    ])) {
        let mut value = value;
        let mut places = Vec::new();
        pointers(&value, String::new(), &mut places);
        *value.pointer_mut(&places[at.index(places.len())]).unwrap() = put;
        let _ = parse(&value).map_err(|errors| errors.to_string());
    }

    #[test]
    fn no_name_panics(provider in "\\PC{0,20}", account in "\\PC{0,20}", model in "\\PC{0,40}") {
        let config = Config::default();
        let _ = config.explain(&support::catalogue(), &provider, &account, &model).map(|found| found.to_string());
        let found = config.explain(&support::catalogue(), "openai", &account, &model).unwrap();
        prop_assert!(found.plan.is_each && *found.plan.key == *model);
    }
}

/// The JSON pointers of every value.
fn pointers(value: &Value, at: String, out: &mut Vec<String>) {
    let below: Vec<(String, &Value)> = match value {
        Value::Object(members) => {
            members.iter().map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        Value::Array(items) => items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (key, value) in below {
        pointers(value, format!("{at}/{key}"), out);
    }
    out.push(at);
}

#[test]
fn deep_and_large_files_are_refused() {
    assert!(Config::parse(&"[".repeat(10_000), "deep").is_err());
    assert!(Config::parse(&"{a: ".repeat(5_000), "deep").is_err());
    assert!(Config::parse(&"#".repeat(2 << 20), "large").unwrap_err().to_string().contains("larger than 1024 KiB"));
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
                d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n\
                g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n";
    assert!(Config::parse(bomb, "bomb").is_err());
    let comments = "# a comment\n".repeat(500);
    assert!(Config::parse(&format!("{comments}providers:\n{comments}  openai:\n{comments}    tier: 4\n"), "comments").is_ok());
}
