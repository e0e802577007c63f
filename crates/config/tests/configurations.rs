//! Executes `docs/reference/configurations.md`: each file is parsed and checked, each table compared with what it resolves to.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use paceline_config::{Catalogue, Config, Explanation};
use paceline_core::plan::{BucketPlan, Class, Refill, StartLevel};

/// Writes a resolution as the page does; only the optional lines that the page shows are compared.
fn render(explanation: &Explanation, expected: &str) -> String {
    let plan = &explanation.plan;
    let mut out = String::new();
    if expected.contains("account: ") {
        out.push_str(&format!("account: {}\n", explanation.account));
    }
    out.push_str(&format!("group: {}{}\n", plan.key, if plan.is_each { " (each)" } else { "" }));
    out.push_str("| bucket | limit | per | refill | capacity | burst | start | above |\n");
    out.push_str("| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    plan.buckets.iter().for_each(|bucket| out.push_str(&row(bucket)));
    for class in Class::ALL {
        if expected.contains(&format!("{}: ", class.name())) {
            let policy = plan.class(class);
            out.push_str(&format!(
                "{}: max_wait {}, honor_cap {}, attempts {}, paid_attempts {}\n",
                class.name(),
                policy.max_wait,
                policy.honor_cap,
                policy.attempts,
                policy.paid_attempts
            ));
        }
    }
    if expected.contains("min_backoff: ") {
        out.push_str(&format!("min_backoff: {}\n", plan.min_backoff));
    }
    out
}

fn row(bucket: &BucketPlan) -> String {
    let or = |amount: Option<u64>, otherwise: &str| {
        amount.map_or(otherwise.to_owned(), |units| bucket.ours.most_of_units(units).to_string())
    };
    let per = match (&bucket.calendar, bucket.per, bucket.refill) {
        (Some(calendar), ..) => format!("{} in {}", calendar.unit.name(), calendar.zone.name()),
        (None, Some(per), _) => per.to_string(),
        (None, None, Some(Refill::Held)) => "-".to_owned(),
        (None, None, _) => "?".to_owned(),
    };
    let refill = match bucket.refill {
        Some(Refill::Continuous) => "continuous",
        Some(Refill::Window) => "window",
        Some(Refill::Held) => "held",
        None => "?",
    };
    let start = if bucket.start == StartLevel::Full { "full" } else { "cautious" };
    format!(
        "| {} | {} | {per} | {refill} | {} | {} | {start} | {} |\n",
        bucket.id.label(),
        or(bucket.limit, "?"),
        or(bucket.capacity, "="),
        or(bucket.burst, "="),
        if bucket.learn_above { "yes" } else { "no" },
    )
}

#[test]
fn the_page_is_true() {
    let catalogue = support::catalogue();
    let mut config = Config::default();
    let mut resolved = 0;
    for block in support::blocks(support::PAGE) {
        if block.tag == "yaml config" {
            config = Config::parse(&block.text, "page").unwrap_or_else(|errors| panic!("line {}:\n{errors}", block.line));
            config.check(&catalogue).unwrap_or_else(|errors| panic!("line {}:\n{errors}", block.line));
        }
        let Some(target) = block.tag.strip_prefix("resolve ") else { continue };
        let parts: Vec<&str> = target.splitn(3, '/').collect();
        let found = match config.explain(&catalogue, parts[0], parts[1], parts[2]) {
            Ok(explanation) => render(&explanation, &block.text),
            Err(error) => format!("error: {error}\n"),
        };
        assert_eq!(found, block.text, "line {} of the page: {target}", block.line);
        resolved += 1;
    }
    assert!(resolved >= 30, "the page lost its examples: {resolved}");
}

/// What the page says of the built-in catalogue is true: it has the page's providers, and they resolve to the same.
#[test]
fn the_page_holds_for_the_built_in_catalogue() {
    let built_in = paceline_signals::catalogue();
    for name in support::catalogue().names() {
        assert!(built_in.get(&name).is_some(), "the page speaks of {name}, which is not built in");
    }
    let mut config = Config::default();
    for block in support::blocks(support::PAGE) {
        if block.tag == "yaml config" {
            config = Config::parse(&block.text, "page").unwrap();
        }
        let Some(target) = block.tag.strip_prefix("resolve ") else { continue };
        let parts: Vec<&str> = target.splitn(3, '/').collect();
        if block.text.starts_with("error") {
            continue;
        }
        let found = config.explain(built_in, parts[0], parts[1], parts[2]).unwrap();
        assert_eq!(render(&found, &block.text), block.text, "line {} of the page: {target}", block.line);
    }
}

#[test]
fn every_file_of_the_page_reads_back_from_its_effective_form() {
    let catalogue = support::catalogue();
    for block in support::blocks(support::PAGE).iter().filter(|block| block.tag == "yaml config") {
        let config = Config::parse(&block.text, "page").unwrap();
        let text = config.effective_yaml();
        let again = Config::parse(&text, "effective").unwrap_or_else(|errors| panic!("line {}:\n{text}\n{errors}", block.line));
        again.check(&catalogue).unwrap();
        assert_eq!(again.effective_json(), config.effective_json(), "line {}", block.line);
        assert_eq!(again.hash(), config.hash(), "line {}", block.line);
    }
}

#[test]
fn parsing_a_file_twice_gives_the_same() {
    for block in support::blocks(support::PAGE).iter().filter(|block| block.tag == "yaml config") {
        let once = Config::parse(&block.text, "page").unwrap();
        assert_eq!(once, Config::parse(&block.text, "page").unwrap());
        assert_eq!(once.hash(), once.clone().hash());
    }
}

/// The reference: its examples are valid (or refused, where it says so), and every key that is read has a line in it.
#[test]
fn the_reference_is_true_and_complete() {
    const REFERENCE: &str = include_str!("../../../docs/reference/configuration.md");
    for block in support::blocks(REFERENCE).iter().filter(|block| block.tag.starts_with("yaml")) {
        let checked = Config::parse(&block.text, "reference")
            .and_then(|config| config.check(paceline_signals::catalogue()).map(|()| config));
        match (&checked, block.tag.as_str()) {
            (Ok(_), "yaml") | (Err(_), "yaml refused") => {}
            _ => panic!("line {} of the reference: {checked:?}", block.line),
        }
    }
    let errors = ["", "providers: {openai: ", "providers: {openai: {accounts: {a: ", "providers: {openai: {models: {a: "];
    let mut keys = Vec::new();
    for before in errors {
        let closing = "}".repeat(before.matches('{').count());
        let said = Config::parse(&format!("{before}{{qqqqqqqqqqqq: 1}}{closing}"), "keys").unwrap_err();
        let known = said.problems[0].help.clone().unwrap();
        keys.extend(known.strip_prefix("known here: ").unwrap().split(", ").map(str::to_owned).collect::<Vec<_>>());
    }
    assert!(keys.len() > 40, "{keys:?}");
    for key in keys {
        assert!(REFERENCE.contains(&format!("`{key}")), "the reference says nothing of `{key}`");
    }
}
