//! Dependencies: each has a reason, is used where it is declared, and is there in one version.

use std::collections::{BTreeMap, BTreeSet};

use paceline_tests::{Tree, expect_none, read, texts};

/// Declared for code that a macro or a build script writes, so that no source file names them.
const NAMED_BY_GENERATED_CODE: &[(&str, &str)] = &[("paceline-proto", "tonic-prost")];

#[test]
fn no_crate_is_there_in_two_versions_without_a_reason() {
    let tree = Tree::load();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in tree.foreign() {
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    let double: BTreeSet<String> =
        versions.iter().filter(|(_, all)| all.len() > 1).map(|(name, _)| (*name).to_owned()).collect();
    let excused = excused();
    let new = double.difference(&excused).map(|name| format!("{name}: {:?}", versions[name.as_str()]));
    let gone = excused.difference(&double).map(|name| format!("{name} is excused and there is only one of it"));
    let findings: Vec<String> = new.chain(gone).collect();
    expect_none(&findings, "Bring both users to one version, or give the reason in [bans] skip of deny.toml.");
}

#[test]
fn every_shared_dependency_has_a_reason_and_a_user() {
    let tree = Tree::load();
    let used: BTreeSet<&String> = tree.members().flat_map(|member| member.uses.iter().chain(&member.tests_use)).collect();
    let declared = declared();
    let page = read("docs/dependencies.md");
    let explained: BTreeSet<String> = page.lines().filter_map(|line| quoted(line.strip_prefix("| ")?)).collect();
    let mut findings = Vec::new();
    findings.extend(declared.difference(&explained).map(|name| format!("{name} has no line in docs/dependencies.md")));
    findings.extend(explained.difference(&declared).map(|name| format!("docs/dependencies.md explains {name}: not there")));
    findings.extend(declared.iter().filter(|name| !used.contains(name)).map(|name| format!("{name}: no crate uses it")));
    expect_none(&findings, "Keep [workspace.dependencies] and docs/dependencies.md the same, without idle entries.");
}

#[test]
fn every_crate_takes_versions_from_the_workspace_and_uses_what_it_declares() {
    let tree = Tree::load();
    let sources = texts("rs");
    let mut findings = Vec::new();
    for member in tree.members() {
        let manifest = read(&format!("{}/Cargo.toml", member.folder));
        let named: String = sources
            .iter()
            .filter(|(path, _)| path.starts_with(&format!("{}/", member.folder)))
            .map(|(_, source)| source.as_str())
            .collect();
        for dependency in member.uses.iter().chain(&member.tests_use) {
            let is_excused = NAMED_BY_GENERATED_CODE.contains(&(member.name.as_str(), dependency.as_str()));
            if !is_excused && !named.contains(&dependency.replace('-', "_")) {
                findings.push(format!("{} declares {dependency} and never names it", member.name));
            }
            let is_shared = [" = { workspace = true", ".workspace = true"]
                .iter()
                .any(|form| manifest.contains(&format!("\n{dependency}{form}")));
            if !is_shared {
                findings.push(format!("{} gives {dependency} a version of its own", member.name));
            }
        }
    }
    expect_none(&findings, "Remove what is not used; versions belong into the top's [workspace.dependencies].");
}

/// The names under `[workspace.dependencies]`, ours left out.
fn declared() -> BTreeSet<String> {
    let manifest = read("Cargo.toml");
    let section = manifest.split("[workspace.dependencies]").nth(1).and_then(|rest| rest.split("\n[").next()).unwrap();
    let names = section.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split(" =").next());
    names.filter(|name| !name.is_empty() && !name.starts_with("paceline")).map(str::to_owned).collect()
}

/// The crates that `[bans] skip` of deny.toml excuses; each line must give its reason.
fn excused() -> BTreeSet<String> {
    let deny = read("deny.toml");
    let list = deny.split("\nskip = [\n").nth(1).and_then(|rest| rest.split("\n]").next()).expect("deny.toml has a skip list");
    let entry = |line: &str| {
        let name = line.split('"').nth(1).and_then(|spec| spec.split('@').next()).unwrap_or_default();
        assert!(line.contains("reason = \"") && !name.is_empty(), "deny.toml: no crate or reason in {line:?}");
        name.to_owned()
    };
    list.lines().filter(|line| !line.trim().is_empty()).map(entry).collect()
}

/// The text between the first two backticks at the start of a cell.
fn quoted(cell: &str) -> Option<String> {
    cell.strip_prefix('`')?.split('`').next().map(str::to_owned)
}
