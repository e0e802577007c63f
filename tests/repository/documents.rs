//! Documents: every page can be found, and every link leads somewhere.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use paceline_tests::transcript::Transcript;
use paceline_tests::{expect_none, read, root, texts};

#[test]
fn every_page_is_linked_from_the_index() {
    let index = read("docs/index.md");
    let linked: BTreeSet<String> = links(&index).into_iter().map(|(_, link)| page_of("docs/index.md", &link)).collect();
    let pages = texts("md").into_iter().map(|(path, _)| path);
    let lost = pages.filter(|path| path.starts_with("docs/") && path != "docs/index.md" && !linked.contains(path));
    expect_none(&lost.collect::<Vec<_>>(), "Link each page from docs/index.md with a line that says what it answers.");
}

#[test]
fn every_transcript_is_linked_from_its_index() {
    let index = "docs/transcripts/README.md";
    let linked: BTreeSet<String> = links(&read(index)).into_iter().map(|(_, link)| page_of(index, &link)).collect();
    let lost =
        texts("txt").into_iter().map(|(path, _)| path).filter(|path| path.starts_with("docs/") && !linked.contains(path));
    expect_none(&lost.collect::<Vec<_>>(), &format!("Add a line to {index}."));
}

#[test]
fn every_transcript_can_be_read() {
    let conversations = texts("txt").into_iter().filter(|(path, _)| path.starts_with("docs/transcripts/"));
    let findings: Vec<String> =
        conversations.filter_map(|(path, text)| Some(format!("{path}: {}", Transcript::parse(&text).err()?))).collect();
    expect_none(&findings, "docs/transcripts/README.md explains the language.");
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut findings = Vec::new();
    for (path, text) in texts("md") {
        for (line, link) in links(&text) {
            let target = page_of(&path, &link);
            let anchor = link.split_once('#').map(|(_, anchor)| anchor);
            let is_there = root().join(&target).exists();
            if !is_there || anchor.is_some_and(|anchor| target.ends_with(".md") && !anchors(&read(&target)).contains(anchor)) {
                findings.push(format!("{path}:{line}: {link}"));
            }
        }
    }
    expect_none(&findings, "Correct the path or the heading after `#`; a link is relative to the page that holds it.");
}

#[test]
fn anchors_are_those_of_the_usual_renderers() {
    let page = "# One, two (3)\n```\n# not a heading\n```\n## `serve` and --help\n## One, two (3)\n";
    let expected = ["one-two-3", "one-two-3-1", "serve-and---help"];
    assert_eq!(anchors(page).iter().map(String::as_str).collect::<Vec<_>>(), expected);
    assert_eq!(page_of("docs/a/b.md", "../c.md#x"), "docs/c.md");
    assert_eq!(page_of("docs/a.md", "#x"), "docs/a.md");
}

/// The relative links of a page, outside of code blocks, with their line.
fn links(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(page) {
        for rest in line.split("](").skip(1) {
            let link = rest.split([')', ' ']).next().unwrap_or_default();
            if !link.is_empty() && !link.contains("://") && !link.starts_with("mailto:") {
                found.push((number, link.to_owned()));
            }
        }
    }
    found
}

/// The file that a link on a page leads to, by its path from the top.
fn page_of(page: &str, link: &str) -> String {
    let file = link.split('#').next().unwrap_or_default();
    if file.is_empty() {
        return page.to_owned();
    }
    let mut path = PathBuf::new();
    for part in Path::new(page).parent().unwrap().join(file).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path.to_string_lossy().into_owned()
}

/// What may follow `#` in a link to this page.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in prose(page).into_iter().filter(|(_, line)| line.starts_with('#')) {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
        let slug: String = kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect();
        let again = (1..).map(|count| format!("{slug}-{count}")).find(|name| !found.contains(name));
        if !found.insert(slug) {
            found.extend(again);
        }
    }
    found
}

/// The lines of a page that are not in a code block, with their number.
fn prose(page: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (index, line) in page.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push((index + 1, line));
        }
    }
    lines
}
