//! Golden texts: what a person is told about each kind of bad configuration (`tests/problems.md`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use paceline_config::{Catalogue, Config, ConfigErrors, ProviderFacts};

const PAGE: &str = include_str!("problems.md");

/// The page's catalogue, where a provider is found under any casing as in the built-in one.
struct AnyCasing(support::TestCatalogue);

impl Catalogue for AnyCasing {
    fn names(&self) -> Vec<String> {
        self.0.names()
    }

    fn provider(&self, name: &str) -> Option<ProviderFacts> {
        self.0.provider(&name.to_ascii_lowercase())
    }
}

fn refuse(text: &str) -> ConfigErrors {
    let catalogue = AnyCasing(support::catalogue());
    Config::parse_checked(text, "paceline.yaml", &catalogue).map(|_| ()).expect_err(&format!("this is accepted:\n{text}"))
}

#[test]
fn every_problem_says_what_where_and_what_to_do() {
    let mut page = String::new();
    let mut wrong = Vec::new();
    let blocks = support::blocks(PAGE);
    let mut rest = PAGE;
    for pair in blocks.chunks(2) {
        let [given, expected] = pair else { panic!("a file without its problems") };
        let said = format!("{}\n", refuse(&given.text));
        if said != expected.text {
            wrong.push(format!("line {}:\n{}\n--- said now:\n{said}", given.line, given.text));
        }
        let (before, after) = rest.split_once("```problems\n").unwrap();
        page.push_str(before);
        page.push_str(&format!("```problems\n{said}```\n"));
        rest = after.split_once("```\n").unwrap().1;
    }
    page.push_str(rest);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/problems.md"), page).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(blocks.len() >= 2 * 25);
}

#[test]
fn no_message_shows_a_secret() {
    for text in support::blocks(PAGE).iter().filter(|block| block.tag == "yaml").map(|block| &block.text) {
        let errors = refuse(text);
        for said in [errors.to_string(), errors.to_json().to_string()] {
            for secret in ["hunter2", "abcdefghijklmnopqrstuvwxyz"] {
                assert!(!said.contains(secret), "{said}");
            }
        }
    }
}

#[test]
fn programs_get_place_path_message_and_help() {
    let errors = refuse("providers:\n  openai:\n    accounts: {prod: {tier: 9}}\n");
    let expected = serde_json::json!([{
        "file": "paceline.yaml",
        "line": 3,
        "column": 29,
        "path": "providers.openai.accounts.prod.tier",
        "message": "the catalogue has no tier `9` of this provider",
        "help": "it has: 1, 4",
    }]);
    assert_eq!(errors.to_json(), expected);
}

#[test]
fn a_file_full_of_mistakes_is_told_in_a_hundred() {
    let text: String = (0..1_000).map(|n| format!("what{n}: 1\n")).collect();
    let errors = refuse(&text);
    assert_eq!((errors.problems.len(), errors.not_shown), (100, 900));
    assert!(errors.to_string().ends_with("1000 problems in paceline.yaml (100 shown)"));
}

#[test]
fn a_file_that_cannot_be_read_says_so() {
    let errors = Config::load(std::path::Path::new("/nowhere/paceline.yaml"), &support::catalogue()).unwrap_err();
    assert!(errors.to_string().starts_with("error: the file cannot be read: No such file"), "{errors}");
}
