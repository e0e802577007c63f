//! Where the state lives: in this process, or at an address that the store reads itself.

use crate::model::StoreAddress;
use crate::problem::{Problem, Problems};
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
