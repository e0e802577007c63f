//! Where the state lives: in this process, or at an address that the store reads itself.

use crate::model::{Config, StoreAddress};
use crate::problem::{ConfigErrors, FLAGS, Problem, Problems, suggest};
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
    let meant = meant(&text).map_or_else(String::new, |meant| format!("did you mean {meant}? Else "));
    let help = "write `store: memory`: the state lives in this one process; or where Redis or Valkey is: redis://HOST:6379, \
                rediss://, unix://, redis+cluster://A,B,C, redis+sentinel://A,B,C/NAME";
    problems.add(Problem::at(node.pos, path, message).help(meant + help));
    None
}

/// What an address most likely should have been: a scheme that is one of ours but for a letter or two, or none before a host and port.
fn meant(text: &str) -> Option<String> {
    match text.split_once("://") {
        Some((scheme, _)) => suggest(&scheme.to_lowercase(), SCHEMES).map(|meant| format!("{meant}://")),
        None => {
            let (host, port) = text.rsplit_once(':')?;
            let is_plain = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
            (is_plain && port.parse::<u16>().is_ok()).then(|| format!("redis://{host}:{port}"))
        }
    }
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
            None => (FLAGS.to_owned(), "".into()),
        };
        problems.into_result(self, &file, &text)
    }
}
