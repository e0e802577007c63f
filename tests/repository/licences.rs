//! Every dependency's licence is one that `deny.toml` allows, and every source is crates.io.

use std::collections::BTreeSet;

use paceline_tests::{Tree, expect_none, read};

#[test]
fn every_dependency_has_an_allowed_licence() {
    let allowed = allowed();
    let tree = Tree::load();
    let refused = tree.foreign().filter(|package| !permits(&package.license, &allowed));
    let findings: Vec<String> =
        refused.map(|package| format!("{} {}: {:?}", package.name, package.version, package.license)).collect();
    expect_none(&findings, "Take another crate, or add the licence to [licenses] allow in deny.toml after reading it.");
}

#[test]
fn every_allowed_licence_is_one_that_somebody_needs() {
    let tree = Tree::load();
    let all = allowed();
    let needed = |licence: &&String| {
        let without: BTreeSet<String> = all.iter().filter(|other| other != licence).cloned().collect();
        tree.foreign().any(|package| permits(&package.license, &all) && !permits(&package.license, &without))
    };
    let findings: Vec<String> = all.iter().filter(|licence| !needed(licence)).cloned().collect();
    expect_none(&findings, "No dependency needs these any more: take them out of deny.toml.");
}

#[test]
fn every_dependency_comes_from_crates_io() {
    let tree = Tree::load();
    let elsewhere = tree
        .foreign()
        .filter(|package| package.source.as_deref() != Some("registry+https://github.com/rust-lang/crates.io-index"));
    let findings: Vec<String> = elsewhere.map(|package| format!("{} from {:?}", package.name, package.source)).collect();
    expect_none(&findings, "Git and path dependencies cannot be built by others: use a release from crates.io.");
}

#[test]
fn our_own_packages_carry_our_licence_and_are_not_published_by_accident() {
    let tree = Tree::load();
    let findings: Vec<String> =
        tree.members().filter(|member| member.license != "Apache-2.0").map(|member| member.name.clone()).collect();
    expect_none(&findings, "Write `license.workspace = true` in the manifest.");
}

#[test]
fn expressions_are_read_as_spdx_means_them() {
    let allowed: BTreeSet<String> = ["MIT", "Apache-2.0", "BSD-3-Clause"].map(str::to_owned).into();
    for (expression, expected) in [
        ("MIT", true),
        ("MIT OR GPL-3.0", true),
        ("GPL-3.0 OR MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR GPL-3.0) AND BSD-3-Clause", true),
        ("MIT/Apache-2.0", true),
        ("Apache-2.0 WITH LLVM-exception", false),
        ("GPL-3.0 AND (MIT OR Apache-2.0)", false),
        ("MIT OR (GPL-3.0 AND MIT)", true),
        ("", false),
    ] {
        assert_eq!(permits(expression, &allowed), expected, "{expression}");
    }
}

/// `[licenses] allow` of deny.toml, one per line.
fn allowed() -> BTreeSet<String> {
    let deny = read("deny.toml");
    let list = deny.split("\nallow = [").nth(1).and_then(|rest| rest.split(']').next()).expect("deny.toml lists licences");
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether an SPDX expression can be satisfied with these licences. `/` is the old spelling of OR; AND binds tighter.
fn permits(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words: Vec<String> = Vec::new();
    for word in spaced.split_whitespace() {
        // `X WITH Y` is a licence of its own.
        match words.last_mut() {
            Some(last) if word == "WITH" || last.ends_with(" WITH") => last.extend([" ", word]),
            _ => words.push(word.to_owned()),
        }
    }
    let mut rest = words.as_slice();
    !rest.is_empty() && any_of(&mut rest, allowed) && rest.is_empty()
}

fn any_of(rest: &mut &[String], allowed: &BTreeSet<String>) -> bool {
    let mut permitted = all_of(rest, allowed);
    while let Some((word, tail)) = rest.split_first()
        && word == "OR"
    {
        *rest = tail;
        permitted |= all_of(rest, allowed);
    }
    permitted
}

fn all_of(rest: &mut &[String], allowed: &BTreeSet<String>) -> bool {
    let mut permitted = one(rest, allowed);
    while let Some((word, tail)) = rest.split_first()
        && word == "AND"
    {
        *rest = tail;
        permitted &= one(rest, allowed);
    }
    permitted
}

fn one(rest: &mut &[String], allowed: &BTreeSet<String>) -> bool {
    let Some((word, tail)) = rest.split_first() else { return false };
    *rest = tail;
    if word != "(" {
        return allowed.contains(word);
    }
    let permitted = any_of(rest, allowed);
    // The closing bracket; without it the expression is broken and `permits` finds words left over or missing.
    *rest = rest.split_first().map_or(&[][..], |(_, tail)| tail);
    permitted
}
