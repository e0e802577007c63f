//! `mode:`: one for all calls, or a part of the calls for each.

use paceline_core::mode::{Mode, Modes};

use super::scalars::{share, word};
use crate::fields::Fields;
use crate::model::Written;
use crate::problem::{Problem, Problems};
use crate::quantity::Share;
use crate::tree::{Node, Value};

/// Reads `enforce`, or `{enforce: 20%, shadow: 80%}`.
pub(crate) fn modes(node: &Node, path: &str, problems: &mut Problems) -> Option<Written<Modes>> {
    let value = match node.value {
        Value::Map(_) => split(node, path, problems)?,
        _ => Modes::all(word(node, path, &Mode::ALL.map(|mode| (mode.name(), mode)), problems)?),
    };
    Some(Written { value, pos: node.pos })
}

/// The parts of a map; together they are all calls, so that nobody has to guess what the rest is in.
fn split(node: &Node, path: &str, problems: &mut Problems) -> Option<Modes> {
    let mut fields = Fields::open(node, path, "{enforce: 20%, shadow: 80%}", problems)?;
    let mut parts = [Share::NONE; Mode::ALL.len()];
    let mut is_readable = true;
    for (mode, part) in Mode::ALL.into_iter().zip(&mut parts) {
        if let Some(entry) = fields.take(mode.name()) {
            match share(&entry.node, &fields.join(mode.name()), problems) {
                Some(read) => *part = read,
                None => is_readable = false,
            }
        }
    }
    fields.close(problems);
    let [off, shadow, enforce] = parts.map(Share::as_millionths);
    let sum = off + shadow + enforce;
    if is_readable && sum != Share::WHOLE.as_millionths() {
        let message = format!("the parts add up to {}%, not to 100%", f64::from(sum) / 1e4);
        problems.add(Problem::at(node.pos, path, message).help("say what every call is in: {enforce: 20%, shadow: 80%}"));
        return None;
    }
    is_readable.then(|| Modes::split(enforce, shadow))
}
