//! From the tree to the model: one function per level of the file. Each goes on after a mistake.

mod fleet;
pub(crate) mod limits;
mod modes;
mod provider;
mod retries;
mod scalars;
mod settings;
mod store;
mod tenants;

use std::path::Path;
use std::sync::Arc;

use crate::facts::Catalogue;
use crate::fields::Fields;
use crate::model::{Config, Listen};
use crate::problem::{ConfigErrors, Pos, Problem, Problems};
use crate::tree::{self, Node, Value};

pub(crate) use fleet::{advertised, replicas};
pub(crate) use modes::modes;
pub(crate) use scalars::socket_addr;
pub(crate) use store::store;

/// The longest name of a provider, account or shared bucket, in bytes.
const LONGEST_NAME: usize = 256;

impl Config {
    /// Parses a file's text. `file` is its name, for messages.
    ///
    /// # Errors
    /// Everything that is wrong with the text as far as it can be told without the catalogue, in the order of the file. See
    /// [`Config::check`] for the rest.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigErrors> {
        let (config, problems) = Self::read(text, file);
        problems.into_result(config, file, text)
    }

    /// Parses a file's text and checks the names in it, as [`Config::parse`] and [`Config::check`] do.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the file: a mistake in one place hides none in another.
    pub fn parse_checked(text: &str, file: &str, catalogue: &dyn Catalogue) -> Result<Self, ConfigErrors> {
        let (config, mut problems) = Self::read(text, file);
        config.check_names(catalogue, &mut problems);
        problems.into_result(config, file, text)
    }

    /// As much of it as can be read.
    fn read(text: &str, file: &str) -> (Self, Problems) {
        let mut problems = Problems::default();
        let mut config = Self { file: file.to_owned(), text: Arc::from(text), ..Self::default() };
        match tree::parse(text) {
            Ok(root) => top(&root, &mut config, &mut problems),
            Err(problem) => problems.add(problem),
        }
        (config, problems)
    }

    /// Reads, parses and checks a file.
    ///
    /// # Errors
    /// As [`Config::parse_checked`], and a single problem without a place when the file cannot be read.
    pub fn load(path: &Path, catalogue: &dyn Catalogue) -> Result<Self, ConfigErrors> {
        let file = path.display().to_string();
        match std::fs::read(path) {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Self::parse_checked(&text, &file, catalogue),
                Err(_) => Err(unreadable(&file, "the file is not UTF-8 text", "save it as UTF-8")),
            },
            Err(error) => {
                let message = format!("the file cannot be read: {error}");
                Err(unreadable(&file, &message, "check the path and its permissions; without --config no file is needed"))
            }
        }
    }
}

fn unreadable(file: &str, message: &str, help: &str) -> ConfigErrors {
    ConfigErrors { file: file.to_owned(), problems: vec![Problem::nowhere("", message).help(help)], not_shown: 0 }
}

fn top(root: &Node, config: &mut Config, problems: &mut Problems) {
    let Some(mut fields) = Fields::open(root, "", "`providers:` and the like at the top", problems) else { return };
    if let Some(entry) = fields.take("listen") {
        config.listen = listen(&entry.node, problems);
    }
    if let Some(entry) = fields.take("store") {
        config.store = store(&entry.node, "store", problems).unwrap_or_default();
        config.store_at = Some(entry.node.pos);
    }
    if let Some(entry) = fields.take("mode") {
        config.mode = modes(&entry.node, "mode", problems);
    }
    if let Some(entry) = fields.take("expected_replicas") {
        config.expected_replicas = replicas(&entry.node, "expected_replicas", problems).unwrap_or(1);
    }
    if let Some(entry) = fields.take("classes") {
        config.classes = settings::classes(&entry.node, problems);
    }
    if let Some(entry) = fields.take("retries") {
        config.retries = retries::retries(&entry.node, "retries", &mut config.classes, problems);
    }
    if let Some(entry) = fields.take("providers") {
        config.providers = provider::providers(&entry.node, problems);
    }
    if let Some(entry) = fields.take("tenants") {
        config.tenants = tenants::tenants(&entry.node, problems);
    }
    fields.not_yet("metrics", "remove it; metrics are served on the HTTP listener all the same", is_nothing, problems);
    fields.not_yet("prices", "remove it; `usd` is no meter yet", is_nothing, problems);
    fields.close(problems);
}

fn listen(node: &Node, problems: &mut Problems) -> Listen {
    let mut listen = Listen::default();
    let shape = "listen: {grpc: 127.0.0.1:7070, http: 127.0.0.1:7071}";
    let Some(mut fields) = Fields::open(node, "listen", shape, problems) else { return listen };
    for (key, slot) in [("grpc", &mut listen.grpc), ("http", &mut listen.http)] {
        if let Some(entry) = fields.take(key)
            && let Some(addr) = socket_addr(&entry.node, &fields.join(key), problems)
        {
            *slot = addr;
        }
    }
    if let Some(entry) = fields.take("advertise") {
        listen.advertise = advertised(&entry.node, &fields.join("advertise"), problems);
    }
    fields.not_yet("admin", "remove it", is_nothing, problems);
    fields.close(problems);
    listen
}

/// Whether a value is absent in all but name.
fn is_nothing(value: &Value) -> bool {
    matches!(value, Value::Null) || matches!(value, Value::Map(entries) if entries.is_empty())
}

/// Checks a name a person chose; `what` is "a provider" and the like.
fn check_name(name: &str, what: &str, entry_pos: Pos, path: &str, problems: &mut Problems) -> bool {
    let (message, help) = if name.is_empty() {
        (format!("{what}'s name is empty"), "give it a name")
    } else if name.len() > LONGEST_NAME {
        (format!("{what}'s name is longer than {LONGEST_NAME} bytes"), "give it a shorter name")
    } else if name.chars().any(char::is_control) {
        (format!("{what}'s name has control characters in it"), "use printable characters")
    } else {
        return true;
    };
    problems.add(Problem::at(entry_pos, path, message).help(help));
    false
}
