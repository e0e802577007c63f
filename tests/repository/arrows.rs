//! Arrows between crates go one way, and the pure ones stay pure.

use std::collections::BTreeSet;

use paceline_tests::{Tree, expect_none, read, texts};

/// A crate of ours, what of ours it may use, and what it must not name in its manifest.
struct Rule {
    name: &'static str,
    may_use: &'static [&'static str],
    never: &'static [&'static str],
}

/// The map of `docs/ARCHITECTURE.md`; a new crate gets its line here and there.
const RULES: &[Rule] = &[
    Rule { name: "core", may_use: &[], never: &["tokio", "redis", "tonic", "axum", "hyper", "serde"] },
    Rule { name: "signals", may_use: &["core"], never: &["tokio", "redis", "tonic"] },
    Rule { name: "config", may_use: &["core", "signals"], never: &["tokio", "redis", "tonic"] },
    Rule { name: "proto", may_use: &["core"], never: &["redis"] },
    Rule { name: "store", may_use: &["core"], never: &["tonic"] },
    Rule { name: "telemetry", may_use: &["core"], never: &["redis", "tonic"] },
    Rule {
        name: "coordinator",
        may_use: &["core", "config", "signals", "store", "telemetry"],
        never: &["redis", "tonic", "axum"],
    },
    Rule { name: "server", may_use: &["core", "config", "coordinator", "proto", "signals", "store", "telemetry"], never: &[] },
    Rule { name: "client", may_use: &["proto", "signals"], never: &["redis"] },
    Rule { name: "provider-sim", may_use: &["core", "signals"], never: &["redis", "tonic"] },
    Rule {
        name: "fleet-sim",
        may_use: &["core", "config", "coordinator", "signals", "store", "provider-sim"],
        never: &["redis", "tonic", "tokio"],
    },
    Rule {
        name: "paceline",
        may_use: &[
            "core",
            "config",
            "coordinator",
            "client",
            "proto",
            "fleet-sim",
            "provider-sim",
            "server",
            "signals",
            "store",
            "telemetry",
        ],
        never: &[],
    },
    Rule { name: "tests", may_use: &[], never: &["tokio", "redis", "tonic"] },
];

/// Not even through others may these end up in the crates that hold no I/O.
const PURE: &[&str] = &["core", "signals", "config"];

#[test]
fn every_member_has_a_rule_and_follows_it() {
    let tree = Tree::load();
    let mut findings = Vec::new();
    for member in tree.members() {
        let name = short(&member.name);
        let Some(rule) = RULES.iter().find(|rule| rule.name == name) else {
            findings.push(format!("{} has no rule", member.name));
            continue;
        };
        let ours = member.uses.iter().filter_map(|used| used.strip_prefix("paceline-"));
        findings.extend(ours.filter(|used| !rule.may_use.contains(used)).map(|used| format!("{name} -> {used}")));
        findings.extend(rule.never.iter().filter(|no| member.uses.contains(**no)).map(|no| format!("{name} -> {no}")));
    }
    expect_none(&findings, "Turn the arrow round, or change the map in docs/ARCHITECTURE.md and RULES here together.");
}

#[test]
fn every_rule_has_a_member_and_a_line_on_the_map() {
    let tree = Tree::load();
    let members: BTreeSet<&str> = tree.members().map(|member| short(&member.name)).collect();
    let map = read("docs/ARCHITECTURE.md");
    let mut findings = Vec::new();
    for rule in RULES {
        if !members.contains(rule.name) {
            findings.push(format!("a rule for {}, which is not a member", rule.name));
        }
        let package = tree.members().find(|member| short(&member.name) == rule.name);
        let folder = package.map_or_else(String::new, |package| package.folder.clone());
        if !map.contains(&format!("`{folder}`")) {
            findings.push(format!("`{folder}` is not on the map"));
        }
    }
    expect_none(&findings, "Keep docs/ARCHITECTURE.md, RULES and the workspace's members the same.");
}

#[test]
fn pure_crates_reach_no_runtime_store_or_transport() {
    let tree = Tree::load();
    let mut findings = Vec::new();
    for member in tree.members().filter(|member| PURE.contains(&short(&member.name))) {
        let reached = tree.reached_from(member);
        let impure = ["tokio", "redis", "tonic", "hyper", "axum", "mio", "socket2"];
        findings.extend(impure.iter().filter(|no| reached.contains(**no)).map(|no| format!("{} ... {no}", member.name)));
    }
    expect_none(&findings, "`cargo tree -p <crate> -i <what>` shows the way it comes in.");
}

#[test]
fn the_core_reads_no_clock_draws_no_global_randomness_and_does_no_io() {
    let banned = [
        "SystemTime",
        "Instant::now",
        "std::time::Instant",
        "thread_rng",
        "rand::rng(",
        "rand::random",
        "from_os_rng",
        "SysRng",
        "std::fs",
        "std::net",
        "std::env",
        "std::thread",
        "std::io",
        "println!",
        // The zones of the machine, and jiff's clocks.
        "Zoned::now",
        "Timestamp::now",
        "TimeZone::get",
        "TimeZone::system",
        "from_env",
    ];
    let mut findings = Vec::new();
    for (path, source) in texts("rs").into_iter().filter(|(path, _)| path.starts_with("crates/core/src/")) {
        for (number, line) in source.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let found = banned.iter().filter(|word| code.contains(**word));
            findings.extend(found.map(|word| format!("{path}:{}: {word}", number + 1)));
        }
    }
    expect_none(&findings, "Take time and randomness as arguments (`FleetTime`, `&mut impl Rng`).");
}

/// The part of a member's name that tells it from the others.
fn short(name: &str) -> &str {
    name.strip_prefix("paceline-").unwrap_or(name)
}
