//! What tests of other packages need of the world: real [`servers`], and a [`proxy`] with faults.
//!
//! The repository as its own rules see it: tracked files, workspace members, the resolved tree of dependencies; and the
//! [`transcript`] language of `docs/transcripts`.
//!
//! The rules are tests in `tests/repository/`; run them alone with `cargo test -p paceline-tests`. This crate reads nothing
//! but files, `git ls-files` and `cargo metadata`, and uses nothing of Paceline, so that it builds in seconds and can name
//! what is wrong before anything else compiles.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "only tests call this, and a broken repository is a failed test"
)]

#[expect(clippy::disallowed_methods, reason = "threads of its own, whose work it is to be late")]
pub mod proxy;
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "there is no runtime here; other people's processes are waited for by looking")]
pub mod servers;
pub mod transcript;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The top of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package lies one level below the top").to_path_buf()
}

/// The text of a file, by its path from the top.
pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("cannot read {path}: {error}"))
}

/// Every file that is tracked, or new and not ignored, by its path from the top.
pub fn files() -> Vec<String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
    let listed = output(&mut git);
    let paths: BTreeSet<String> = listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    // A file deleted and not yet committed is listed still.
    paths.into_iter().filter(|path| root().join(path).is_file()).collect()
}

/// The files of [`files`] with this extension, with their text.
pub fn texts(extension: &str) -> Vec<(String, String)> {
    let wanted = |path: &String| Path::new(path).extension().is_some_and(|found| found == extension);
    files().into_iter().filter(wanted).map(|path| (path.clone(), read(&path))).collect()
}

/// One package of the resolved tree.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The SPDX expression of its manifest; empty when it has none.
    pub license: String,
    /// Where it comes from; `None` for a path in this repository.
    pub source: Option<String>,
    /// The folder of its manifest, from the top; only of use for members.
    pub folder: String,
    /// What its manifest names in `[dependencies]` and `[build-dependencies]`, on any platform.
    pub uses: BTreeSet<String>,
    /// What its manifest names in `[dev-dependencies]`.
    pub tests_use: BTreeSet<String>,
}

/// The workspace and everything it depends on, as `cargo metadata` resolves it for all platforms.
pub struct Tree {
    packages: BTreeMap<String, Package>,
    members: Vec<String>,
    /// By id: the ids of normal and build dependencies.
    edges: BTreeMap<String, Vec<String>>,
}

impl Tree {
    /// Asks cargo; the lock file must be up to date.
    pub fn load() -> Self {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["metadata", "--format-version", "1", "--locked"]);
        let json: Value = serde_json::from_str(&output(&mut cargo)).expect("cargo metadata writes JSON");
        let packages = list(&json, "packages").map(|package| (text(package, "id"), to_package(package))).collect();
        let members = list(&json, "workspace_members").filter_map(Value::as_str).map(str::to_owned).collect();
        let nodes = json.get("resolve").expect("cargo metadata resolves");
        let edges = list(nodes, "nodes").map(|node| (text(node, "id"), needs(node))).collect();
        Self { packages, members, edges }
    }

    /// The packages of this repository.
    pub fn members(&self) -> impl Iterator<Item = &Package> {
        self.members.iter().filter_map(|id| self.packages.get(id))
    }

    /// The packages of other people.
    pub fn foreign(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|(id, _)| !self.members.contains(id)).map(|(_, package)| package)
    }

    /// Every package that ends up in a build of this member, by name (tests of the member not counted).
    pub fn reached_from(&self, member: &Package) -> BTreeSet<String> {
        let start = self.members.iter().find(|id| self.packages.get(*id).is_some_and(|found| found.name == member.name));
        let mut open: Vec<&String> = start.into_iter().collect();
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                open.extend(self.edges.get(id).into_iter().flatten());
            }
        }
        seen.into_iter().filter_map(|id| self.packages.get(id)).map(|package| package.name.clone()).collect()
    }
}

/// Fails with all the findings at once and what to do about them; passes when there are none.
pub fn expect_none(findings: &[String], what_to_do: &str) {
    assert!(findings.is_empty(), "{} found:\n  {}\n{what_to_do}\n", findings.len(), findings.join("\n  "));
}

fn to_package(json: &Value) -> Package {
    let manifest = PathBuf::from(text(json, "manifest_path"));
    let folder = manifest.parent().and_then(|folder| folder.strip_prefix(root()).ok()).unwrap_or(Path::new(""));
    let named = |in_tests: bool| {
        let wanted = move |dependency: &&Value| (dependency.get("kind").and_then(Value::as_str) == Some("dev")) == in_tests;
        list(json, "dependencies").filter(wanted).map(|dependency| text(dependency, "name")).collect()
    };
    Package {
        name: text(json, "name"),
        version: text(json, "version"),
        license: text(json, "license"),
        source: json.get("source").and_then(Value::as_str).map(str::to_owned),
        folder: folder.to_string_lossy().into_owned(),
        uses: named(false),
        tests_use: named(true),
    }
}

fn needs(node: &Value) -> Vec<String> {
    let built = |edge: &&Value| list(edge, "dep_kinds").any(|kind| kind.get("kind").and_then(Value::as_str) != Some("dev"));
    list(node, "deps").filter(built).map(|edge| text(edge, "pkg")).collect()
}

fn list<'a>(json: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    json.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn text(json: &Value, key: &str) -> String {
    json.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn output(command: &mut Command) -> String {
    let ran = command.current_dir(root()).output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(ran.status.success(), "{command:?} failed:\n{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("the output is UTF-8")
}
