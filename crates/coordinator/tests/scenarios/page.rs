//! The page about the scenarios is true: each is there once, and each test that it names exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn every_test_on_the_page_exists() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(crates.join("../docs/internals/scenarios.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| id ")).collect();
    let rows: Vec<&str> = rows.into_iter().filter(|row| !row.starts_with("| --")).collect();
    let ids: BTreeSet<&str> = rows.iter().map(|row| row.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(rows.len(), ids.len(), "each scenario has one row");
    // Those about retries and targets (CA) stand beside the ninety.
    assert_eq!(ids.iter().filter(|id| !id.starts_with("CA")).count(), 90);
    let beyond = page.lines().filter(|line| line.starts_with("- "));
    for row in rows.into_iter().chain(beyond) {
        let tests: Vec<&str> = row.split('`').filter(|part| part.contains(".rs::")).collect();
        assert!(!tests.is_empty() || row.contains("*later"), "neither a test nor a reason: {row}");
        for test in tests {
            let (file, name) = test.split_once("::").unwrap();
            let text = fs::read_to_string(crates.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            assert!(text.contains(&format!("fn {name}(")), "no {name} in crates/{file}");
        }
        let id = row.split_whitespace().nth(1).unwrap();
        for table in row.split('`').filter(|part| part.ends_with(".txt")) {
            let text = fs::read_to_string(crates.join(table)).unwrap_or_else(|error| panic!("{table}: {error}"));
            assert!(text.contains(id), "no case in crates/{table} names {id}");
        }
    }
}
