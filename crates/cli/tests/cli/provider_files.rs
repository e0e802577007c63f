//! `--providers`: the guide to adding a provider, followed with the binary; and every provider of the catalogue resolves.

use std::fs;

use crate::process::{Folder, run};

/// The first block of a guide in a language.
pub(crate) fn block_of(guide: &str, language: &str) -> String {
    let guide = fs::read_to_string(format!("{}/../../docs/{guide}.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
    guide.split(&format!("```{language}\n")).nth(1).unwrap().split("```").next().unwrap().to_owned()
}

fn block(language: &str) -> String {
    block_of("adding-a-provider", language)
}

#[test]
fn the_guide_to_migrating_is_a_valid_configuration() {
    let folder = Folder::new("migrating");
    let file = folder.write("paceline.yaml", &block_of("migrating-a-provider", "yaml"));
    let (status, out, err) = run(&["check-config", &file, "--resolve", "anthropic/prod/claude-sonnet-4"]);
    assert_eq!(status, Some(0), "{err}");
    assert!(out.contains("40000") && !out.contains("warning"), "a tenth of what was bought: {out}");
}

#[test]
fn a_provider_of_ones_own_is_explained_and_resolved() {
    let folder = Folder::new("own");
    folder.write("brightwell.yaml", &block("yaml"));
    folder.write("notes.txt", "not a provider");
    let answer = folder.write("answer", &block("text"));

    let (status, out, err) = run(&["explain", "--providers", folder.path(), "--provider", "brightwell", "--json", &answer]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    for part in [r#""read_as":"brightwell""#, r#""retry_after_ms":1250"#, r#""remaining":10"#, r#""unread_headers":[]"#] {
        assert!(out.contains(part), "no {part} in {out}");
    }
    let (status, out, err) = run(&["check-config", "--providers", folder.path(), "--resolve", "brightwell/prod/"]);
    assert_eq!(status, Some(0), "{err}");
    assert!(out.contains("credits"), "{out}");
    let (status, _, err) = run(&["check-config", "--resolve", "brightwell/prod/"]);
    assert_eq!(status, Some(1));
    assert!(err.contains("brightwell"), "without the folder nobody knows it: {err}");
}

#[test]
fn files_that_cannot_be_used_say_where_and_why() {
    let folder = Folder::new("wrong");
    let path = folder.write("acme.yaml", "version: 1\ntitel: Acme");
    for command in ["explain", "check-config", "serve"] {
        let (status, out, err) = run(&[command, "--providers", folder.path()]);
        assert_eq!((status, out.as_str()), (Some(1), ""), "{command}");
        let said = format!(
            "error: unknown key `titel`\n  --> {path}:2:1\n   2 | titel: Acme\n     | ^\n     = did you mean `title`?\n"
        );
        assert_eq!(err, said, "{command}");
    }
}

#[test]
fn a_folder_that_is_none_gets_a_hint() {
    let folder = Folder::new("hint");
    let file = folder.write("acme.yaml", "title: Acme");
    let hints = [("/nowhere/at/all", "there is no such folder; name one"), (file.as_str(), "this is a file; name the folder")];
    for command in ["explain", "check-config", "serve"] {
        for (path, hint) in hints {
            let (status, out, err) = run(&[command, "--providers", path]);
            assert_eq!((status, out.as_str()), (Some(1), ""), "{command}");
            assert!(err.starts_with(&format!("error: --providers {path}: {hint}")), "{command}: {err}");
        }
    }
}

#[test]
fn every_provider_of_the_catalogue_resolves() {
    for provider in paceline_signals::catalogue().providers().filter(|provider| provider.name() != "generic") {
        for name in std::iter::once(provider.name()).chain(provider.also_called().iter().map(String::as_str)) {
            let config = paceline_config::Config::default();
            let plan = config.resolve(paceline_signals::catalogue(), name, "prod", "some-model").unwrap();
            for meter in provider.meters() {
                assert!(plan.buckets.iter().any(|bucket| &*bucket.meter == meter.name), "{name}: no bucket of {}", meter.name);
            }
        }
    }
    let (status, out, err) = run(&["check-config", "--resolve", "github/prod/core", "--resolve", "x-twitter/prod/"]);
    assert_eq!(status, Some(0), "{err}");
    assert!(out.contains("requests"), "{out}");
}
