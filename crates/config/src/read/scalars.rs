//! Single values: numbers with units, words, addresses.

use std::net::SocketAddr;

use paceline_core::units::Span;

use crate::model::Written;
use crate::problem::{Problem, Problems, suggest};
use crate::quantity::{self, Bad, LARGEST_AMOUNT, Share};
use crate::redact;
use crate::tree::{Node, Value};

fn report(bad: Bad, node: &Node, path: &str, problems: &mut Problems) {
    problems.add(Problem::at(node.pos, path, bad.message).help(bad.help));
}

/// Reads a scalar with one of the functions of [`quantity`]; lists, maps and nothing are problems.
fn quantity<T>(
    node: &Node,
    path: &str,
    wanted: &str,
    read: impl Fn(&str) -> Result<T, Bad>,
    problems: &mut Problems,
) -> Option<T> {
    let Some(text) = node.scalar().filter(|_| !matches!(node.value, Value::Bool(_))) else {
        problems.add(Problem::at(node.pos, path, format!("{} where {wanted} is due", node.kind())));
        return None;
    };
    read(&text).map_err(|bad| report(bad, node, path, problems)).ok()
}

/// A length of time.
pub(super) fn span(node: &Node, path: &str, problems: &mut Problems) -> Option<Span> {
    quantity(node, path, "a length of time such as 90s", quantity::span, problems)
}

/// A window.
pub(super) fn window(node: &Node, path: &str, problems: &mut Problems) -> Option<Span> {
    quantity(node, path, "a window such as min, 10s or day", quantity::window, problems)
}

/// A part of the whole.
pub(super) fn share(node: &Node, path: &str, problems: &mut Problems) -> Option<Share> {
    quantity(node, path, "a share such as 50%", quantity::share, problems)
}

/// A count of units, at least one.
pub(super) fn amount(node: &Node, path: &str, problems: &mut Problems) -> Option<u64> {
    let units = match node.value {
        // A whole number needs no detour through text, and a float such as 1e3 is one too.
        Value::Float(number) if number >= 1.0 && number.fract() == 0.0 && number <= LARGEST_AMOUNT as f64 => number as u64,
        _ => quantity(node, path, "an amount such as 500 or 50k", quantity::amount, problems)?,
    };
    if units == 0 {
        let message = "a limit of 0 lets nothing through";
        problems.add(Problem::at(node.pos, path, message).help("write at least 1, or remove the line"));
        return None;
    }
    Some(units)
}

/// An amount, or a share of `whole` (rounded down, at least one).
pub(super) fn amount_of(node: &Node, whole: Option<u64>, path: &str, problems: &mut Problems) -> Option<u64> {
    if !node.scalar().is_some_and(|text| text.trim_end().ends_with('%')) {
        return amount(node, path, problems);
    }
    let part = share(node, path, problems)?;
    if part == Share::NONE {
        problems.add(Problem::at(node.pos, path, "0% lets nothing through").help("write at least 1%, or remove the line"));
        return None;
    }
    whole.map(|whole| part.of(whole))
}

/// An amount per time.
pub(super) fn rate(node: &Node, path: &str, problems: &mut Problems) -> Option<(u64, Span)> {
    quantity(node, path, "an amount per time", quantity::rate, problems)
}

/// A number of tries.
pub(super) fn tries(node: &Node, path: &str, problems: &mut Problems) -> Option<u32> {
    match node.value {
        Value::Int(number @ 1..=1_000) => u32::try_from(number).ok(),
        _ => {
            let shown = node.scalar().map_or_else(|| node.kind().to_owned(), |text| format!("`{text}`"));
            let message = format!("{shown} is not a number of tries");
            problems.add(Problem::at(node.pos, path, message).help("write a whole number from 1 to 1000"));
            None
        }
    }
}

/// `true` or `false`.
pub(super) fn flag(node: &Node, path: &str, problems: &mut Problems) -> Option<Written<bool>> {
    if let Value::Bool(value) = node.value {
        return Some(Written { value, pos: node.pos });
    }
    let shown = node.scalar().map_or_else(|| node.kind().to_owned(), |text| format!("`{text}`"));
    problems.add(Problem::at(node.pos, path, format!("{shown} is neither true nor false")).help("write true or false"));
    None
}

/// One of a few words.
pub(super) fn word<T: Copy>(node: &Node, path: &str, words: &[(&str, T)], problems: &mut Problems) -> Option<T> {
    let text = node.scalar();
    if let Some((_, value)) = text.as_deref().and_then(|text| words.iter().find(|(word, _)| *word == text)) {
        return Some(*value);
    }
    let list: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
    let shown = text.as_deref().map_or_else(|| node.kind().to_owned(), |text| format!("`{text}`"));
    let meant = text.as_deref().and_then(|text| suggest(text, words.iter().map(|(word, _)| *word)));
    let help = match meant {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("write {}", list.join(" or ")),
    };
    problems.add(Problem::at(node.pos, path, format!("{shown} is not one of {}", list.join(", "))).help(help));
    None
}

/// A name as a plain text (a number such as a tier's counts as one).
pub(super) fn text(node: &Node, path: &str, wanted: &str, problems: &mut Problems) -> Option<Written<String>> {
    match node.scalar() {
        Some(value) if !value.is_empty() => Some(Written { value, pos: node.pos }),
        _ => {
            problems.add(Problem::at(node.pos, path, format!("{} where {wanted} is due", node.kind())));
            None
        }
    }
}

/// A list of names, or a single one.
pub(super) fn names<'n>(node: &'n Node, path: &str, wanted: &str, problems: &mut Problems) -> Vec<(String, &'n Node)> {
    let items = match &node.value {
        Value::List(items) => items.as_slice(),
        _ => std::slice::from_ref(node),
    };
    let mut out: Vec<(String, &Node)> = Vec::with_capacity(items.len());
    for item in items {
        let Some(name) = text(item, path, wanted, problems) else { continue };
        if out.iter().any(|(earlier, _)| *earlier == name.value) {
            problems.add(Problem::at(item.pos, path, format!("`{}` is written twice", redact::name(&name.value))));
        } else {
            out.push((name.value, item));
        }
    }
    out
}

/// An address to listen on.
pub(crate) fn socket_addr(node: &Node, path: &str, problems: &mut Problems) -> Option<SocketAddr> {
    let text = node.scalar().unwrap_or_default();
    if let Ok(addr) = text.parse() {
        return Some(addr);
    }
    let port = text.rsplit(':').next().filter(|port| port.parse::<u16>().is_ok());
    let help = match port {
        Some(port) => format!("write 127.0.0.1:{port} for this machine only, 0.0.0.0:{port} for everybody"),
        None => "write an IP address and a port: 127.0.0.1:7070; port 0 picks a free one".to_owned(),
    };
    let shown = if text.is_empty() { node.kind().to_owned() } else { format!("`{}`", redact::line(&text)) };
    problems.add(Problem::at(node.pos, path, format!("{shown} is not an address to listen on")).help(help));
    None
}
