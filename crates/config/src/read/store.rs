//! Where the state lives: in this process, or at an address that the store reads itself.

use crate::model::{Config, StoreAddress};
use crate::problem::{ConfigErrors, Problem, Problems};
use crate::redact;
use crate::tree::Node;

/// What an address of a store begins with.
const SCHEMES: [&str; 8] =
    ["redis", "rediss", "unix", "redis+unix", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel"];

/// `memory`, or an address; `None`: neither.
pub(crate) fn store(node: &Node, path: &str, problems: &mut Problems) -> Option<StoreAddress> {
    let text = node.scalar().unwrap_or_default();
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    let message = match scheme {
        None if text == "memory" => return Some(StoreAddress::default()),
        Some(scheme) if SCHEMES.contains(&scheme) => return Some(StoreAddress::at(&text)),
        _ if text.is_empty() => format!("{} where a store is due", node.kind()),
        _ => format!("`{}` is not a store", redact::line(&text)),
    };
    let help = "write `store: memory`: the state lives in this one process; or where Redis or Valkey is: redis://HOST:6379, \
                rediss://, unix://, redis+cluster://A,B,C, redis+sentinel://A,B,C/NAME";
    problems.add(Problem::at(node.pos, path, message).help(help));
    None
}

impl Config {
    /// The same configuration, when its store has no problems: what an address means, and the files it names, only the store
    /// itself can tell.
    ///
    /// # Errors
    /// The problems, at the line of `store`, or without a place where a flag or a variable gave it.
    pub fn with_problems_of_store(self, found: impl IntoIterator<Item = String>) -> Result<Self, ConfigErrors> {
        let mut problems = Problems::default();
        for message in found {
            let problem = match self.store_at {
                Some(pos) => Problem::at(pos, "store", message),
                None => Problem::nowhere("--store", message),
            };
            problems.add(problem.help("docs/operating/redis.md has every form of an address"));
        }
        let (file, text) = match self.store_at {
            Some(_) => (self.file.clone(), self.text.clone()),
            None => ("flags and variables".to_owned(), "".into()),
        };
        problems.into_result(self, &file, &text)
    }
}
