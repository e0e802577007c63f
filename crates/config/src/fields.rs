//! Reads a map key by key, and says what is wrong with the keys nobody asked for.

use crate::problem::{Pos, Problem, Problems, join, suggest};
use crate::redact;
use crate::tree::{Entry, Node, Value};

/// Where keys of the contract belong, for those who wrote one at the wrong level.
const WHERE: [(&str, &str); 35] = [
    ("accounts", "in a provider"),
    ("advertise", "in `listen`"),
    ("aliases", "in an account"),
    ("attempts", "in `classes.CLASS`, or in a provider, an account or a group"),
    ("burst", "beside `limit` in one meter's limit"),
    ("capacity", "beside `limit` in one meter's limit"),
    ("classes", "at the top of the file"),
    ("concurrency", "in a group, an account, a provider or a shared bucket"),
    ("dialect", "in a provider"),
    ("each", "in a group of `models`"),
    ("expected_replicas", "at the top of the file"),
    ("extends", "in a provider"),
    ("guarantee", "in `classes.CLASS`"),
    ("honor_cap", "in `classes.CLASS`, or in a provider, an account or a group"),
    ("limits", "in a group, an account, a provider or a shared bucket"),
    ("listen", "at the top of the file"),
    ("max_priority", "in `tenants.NAME`"),
    ("max_share", "in `classes.CLASS`"),
    ("max_wait", "in `classes.CLASS`, or in a provider, an account or a group"),
    ("metrics", "at the top of the file"),
    ("mode", "at the top of the file, in a provider, an account, a group or a tenant"),
    ("models", "in an account or a provider"),
    ("on_store_down", "in a provider, an account or a group"),
    ("per", "beside `limit` in one meter's limit"),
    ("providers", "at the top of the file"),
    ("refill", "beside `limit` in one meter's limit"),
    ("retries", "at the top of the file, or in a provider, an account or a group"),
    ("shared", "in an account or a provider"),
    ("store", "at the top of the file"),
    ("tenants", "at the top of the file"),
    ("tier", "in a provider, an account or a group"),
    ("unknown_accounts", "in a provider"),
    ("uses", "in a group of `models`"),
    ("weight", "in `tenants.NAME`"),
    ("zone", "beside `limit` in one meter's limit"),
];

/// The keys of one map while they are read.
pub(crate) struct Fields<'n> {
    /// The dotted path of the map.
    pub(crate) path: String,
    left: Vec<&'n Entry>,
    asked: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    /// Opens a map; nothing at all (`key:` with no value) is an empty one. Anything else is a problem, with `shape` as advice.
    pub(crate) fn open(node: &'n Node, path: &str, shape: &str, problems: &mut Problems) -> Option<Self> {
        let entries = match &node.value {
            Value::Map(entries) => entries.as_slice(),
            Value::Null => &[],
            _ => {
                let what = if path.is_empty() { "the file" } else { "this" };
                let message = format!("{what} must be a map, not {}", node.kind());
                problems.add(Problem::at(node.pos, path, message).help(format!("write {shape}")));
                return None;
            }
        };
        let left = without_duplicates(entries, path, problems);
        Some(Self { path: path.to_owned(), left, asked: Vec::new() })
    }

    /// The entry of a key, if it is written.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<&'n Entry> {
        self.asked.push(key);
        let at = self.left.iter().position(|entry| entry.key == key)?;
        Some(self.left.swap_remove(at))
    }

    /// The path of a key of this map.
    pub(crate) fn join(&self, key: &str) -> String {
        join(&self.path, key)
    }

    /// Reports a key that belongs to the contract and has no effect yet, unless its value says what happens anyhow.
    pub(crate) fn not_yet(&mut self, key: &'static str, instead: &str, accepted: fn(&Value) -> bool, problems: &mut Problems) {
        let Some(entry) = self.take(key) else { return };
        if accepted(&entry.node.value) {
            return;
        }
        problems.add(not_available(entry, &self.path, instead));
    }

    /// Reports the keys that nobody asked for.
    pub(crate) fn close(self, problems: &mut Problems) {
        for entry in &self.left {
            problems.add(self.unknown(entry));
        }
    }

    fn unknown(&self, entry: &Entry) -> Problem {
        let problem = Problem::at(entry.key_pos, &self.path, format!("unknown key `{}`", redact::name(&entry.key)));
        if let Some((key, place)) = WHERE.iter().find(|(key, _)| *key == entry.key) {
            return problem.help(format!("`{key}` belongs {place}"));
        }
        if let Some(meant) = suggest(&entry.key, self.asked.iter().copied()) {
            return problem.help(format!("did you mean `{meant}`?"));
        }
        let mut known = self.asked.clone();
        known.sort_unstable();
        problem.help(format!("known here: {}", known.join(", ")))
    }
}

/// A key of the contract that this version does nothing with: said, so that nobody believes it works.
pub(crate) fn not_available(entry: &Entry, path: &str, instead: &str) -> Problem {
    let message = format!("`{}` is known, but not available in this version", entry.key);
    Problem::at(entry.key_pos, path, message).help(instead)
}

/// The entries of a map whose keys are names a person chose (providers, accounts, patterns, meters).
pub(crate) fn named<'n>(node: &'n Node, path: &str, shape: &str, problems: &mut Problems) -> Vec<&'n Entry> {
    match Fields::open(node, path, shape, problems) {
        Some(fields) => fields.left,
        None => Vec::new(),
    }
}

/// The first entry of each key, in the order of the file; later ones are problems.
fn without_duplicates<'n>(entries: &'n [Entry], path: &str, problems: &mut Problems) -> Vec<&'n Entry> {
    let mut first: std::collections::HashMap<&str, Pos> = std::collections::HashMap::with_capacity(entries.len());
    let mut kept = Vec::with_capacity(entries.len());
    for entry in entries {
        match first.get(entry.key.as_str()) {
            Some(pos) => {
                let message = format!("`{}` is written twice", redact::name(&entry.key));
                problems.add(Problem::at(entry.key_pos, path, message).help(format!("the first one is in line {}", pos.line)));
            }
            None => {
                first.insert(&entry.key, entry.key_pos);
                kept.push(entry);
            }
        }
    }
    kept
}
