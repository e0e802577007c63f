//! Tidiness: short files, no unfinished marks, no machine's paths, nothing unexpected at the top.

use std::collections::BTreeSet;

use paceline_tests::{Tree, expect_none, files, read, root, texts};

/// A file should hold one idea and fit in a head: 400 lines is the aim, this the bound.
const LONGEST_FILE: usize = 600;

/// Files that may be longer, each with the reason.
const LONGER: &[(&str, &str)] = &[];

/// What may lie at the top besides files that start with a dot.
const TOP_LEVEL: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "proto",
    "crates",
    "deploy",
    "tests",
    "docs",
    "clients",
    "README.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "LICENSE",
    "rustfmt.toml",
    "clippy.toml",
    "deny.toml",
    "typos.toml",
];

#[test]
fn the_top_level_holds_what_it_should_and_nothing_else() {
    let top: BTreeSet<String> = files().iter().filter_map(|path| path.split('/').next()).map(str::to_owned).collect();
    let odd = top.iter().filter(|name| !name.starts_with('.') && !TOP_LEVEL.contains(&name.as_str())).cloned();
    expect_none(&odd.collect::<Vec<_>>(), "Put it into one of the folders; a file of yours alone goes into .git/info/exclude.");
}

#[test]
fn no_source_file_is_too_long() {
    let mut findings = Vec::new();
    for (path, source) in texts("rs") {
        let is_listed = LONGER.iter().any(|(listed, _)| *listed == path);
        match (source.lines().count() > LONGEST_FILE, is_listed) {
            (true, false) => findings.push(format!("{path}: {} lines", source.lines().count())),
            (false, true) => findings.push(format!("{path} is listed in LONGER and is not")),
            _ => {}
        }
    }
    expect_none(&findings, &format!("A file holds one idea in about 400 lines, at most {LONGEST_FILE}: split it by idea."));
}

#[test]
fn nothing_is_left_unfinished() {
    // Written in two parts, so that this file does not find itself.
    let marks = [["to", "do!("], ["unimple", "mented!("], ["TO", "DO"], ["FIX", "ME"], ["XX", "X"], ["#[ign", "ore]"]]
        .map(|two| two.concat());
    let mut findings = Vec::new();
    for path in files().into_iter().filter(|path| !path.ends_with(".lock")) {
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else { continue };
        for (number, line) in text.lines().enumerate() {
            let found = marks.iter().filter(|mark| has_word(line, mark));
            findings.extend(found.map(|mark| format!("{path}:{}: {mark}", number + 1)));
        }
    }
    expect_none(&findings, "Finish it or open an issue; an ignored test states its reason: #[ignore = \"why\"].");
}

#[test]
fn no_file_names_a_machine() {
    let here = root().to_string_lossy().into_owned();
    let homes = [["/ho", "me/"], ["/Us", "ers/"], ["/ro", "ot/"], ["C:", "\\Users"]].map(|two| two.concat());
    let mut findings = Vec::new();
    for path in files() {
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else { continue };
        for (number, line) in text.lines().enumerate() {
            if line.contains(&here) || homes.iter().any(|home| line.contains(home)) {
                findings.push(format!("{path}:{}", number + 1));
            }
        }
    }
    expect_none(&findings, "Use a path from the top of the repository, or a name everybody has.");
}

#[test]
fn every_source_file_says_what_it_is() {
    let mut findings = Vec::new();
    for (path, source) in texts("rs") {
        if !source.starts_with("//! ") {
            findings.push(path);
        }
    }
    expect_none(&findings, "Begin the file with a line `//! ...` that says what it holds.");
}

#[test]
fn every_crate_begins_with_a_paragraph_for_newcomers() {
    let mut findings = Vec::new();
    for member in Tree::load().members() {
        let roots = ["src/lib.rs", "src/main.rs"].map(|file| format!("{}/{file}", member.folder));
        let root = roots.iter().find(|path| root().join(path).exists()).expect("a crate has a root");
        let lines = read(root).lines().take_while(|line| line.starts_with("//!")).count();
        if lines < 3 {
            findings.push(format!("{root}: {lines} lines"));
        }
    }
    expect_none(
        &findings,
        "Say in three lines or more what the crate is, what it leaves to others, and where to start reading.",
    );
}

#[test]
fn words_are_found_as_words() {
    assert!(has_word("a TAG: b", "TAG") && has_word("TAG", "TAG"));
    assert!(!has_word("STAGE", "TAG") && !has_word("a_TAG", "TAG"));
}

/// Whether `word` stands in `line` with no letter, digit or underscore right before or after it.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    let is_open_ended = word.ends_with(|last: char| !last.is_alphanumeric());
    line.match_indices(word).any(|(at, _)| {
        let after = line.get(at + word.len()..).and_then(|rest| rest.chars().next());
        let before = line.get(..at).and_then(|rest| rest.chars().next_back());
        !is_part(before) && (is_open_ended || !is_part(after))
    })
}
