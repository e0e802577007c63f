//! YAML text into a tree that remembers where everything stands.
//!
//! Typed deserialisation stops at the first mistake; a person wants to see them all. So the text becomes a tree first, and
//! the modules beside this one read settings out of it and go on after a mistake.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Location, Spanned};

use crate::problem::{Pos, Problem};

/// The largest file that is read; a ConfigMap holds no more.
const LARGEST_FILE: usize = 1 << 20;
/// The deepest nesting; a configuration needs about ten.
const DEEPEST: usize = 40;
/// The most values that aliases (`*name`) may expand to: they may stand for any number.
const MOST_EXPANDED: usize = 50_000;

/// A value and where it begins.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) pos: Pos,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key of a map, where it stands, and its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_pos: Pos,
    pub(crate) node: Node,
}

impl Node {
    /// What this is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Int(_) | Value::Float(_) => "a bare number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// A scalar as it may be written in a message or read as a name; `None` for lists, maps and nothing.
    pub(crate) fn scalar(&self) -> Option<String> {
        match &self.value {
            Value::Bool(flag) => Some(flag.to_string()),
            Value::Int(number) => Some(number.to_string()),
            Value::Float(number) => Some(number.to_string()),
            Value::Text(text) => Some(text.clone()),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }
}

/// Parses one YAML document; an empty text is [`Value::Null`].
pub(crate) fn parse(text: &str) -> Result<Node, Problem> {
    if text.len() > LARGEST_FILE {
        return Err(Problem::nowhere("", format!("the file is larger than {} KiB", LARGEST_FILE >> 10)));
    }
    let mut limits = serde_saphyr::options::AliasLimits::default();
    limits.max_total_replayed_events = MOST_EXPANDED;
    let options = serde_saphyr::options! {
        // Aliases are bounded by what they expand to; a hundred models may share one anchor.
        budget: serde_saphyr::budget! { max_depth: DEEPEST, enforce_alias_anchor_ratio: false, },
        alias_limits: limits,
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        strict_booleans: true,
        null_as_string: true,
        with_snippet: false,
        emit_comments: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| syntax_problem(&error))
}

fn syntax_problem(error: &serde_saphyr::Error) -> Problem {
    let location = error.location();
    let said = error.without_snippet().to_string();
    // The place is shown apart; the parser's own mention of it would only repeat it.
    let mut message = said.split(" at line ").next().unwrap_or(&said).to_owned();
    let mut help = None;
    if message.starts_with("multiple YAML documents") {
        message = "a configuration is one YAML document, and here begins a second".to_owned();
        help = Some("remove the `---`");
    } else if message.contains("expected string scalar") {
        message = "a key must be a plain text".to_owned();
        help = Some("quote keys that begin with *, {, [ or &");
    } else if message.starts_with("alias replay") {
        message = format!("the aliases here (`*name`) expand to more than {MOST_EXPANDED} values");
        help = Some("write the values out; a configuration needs few anchors");
    } else if message.contains("unknown anchor") {
        help = Some("a value that begins with * names an anchor; quote it if it is a pattern: \"*\"");
    }
    let problem = match location {
        Some(location) if location != Location::UNKNOWN => Problem::at(pos(&location), "", message),
        _ => Problem::nowhere("", message),
    };
    match help {
        Some(help) => problem.help(help),
        None => problem,
    }
}

fn pos(location: &Location) -> Pos {
    let clamp = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Pos { line: clamp(location.line()), column: clamp(location.column()) }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { value: spanned.value, pos: pos(&spanned.referenced) })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Int(number.into()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Int(number.into()))
    }

    fn visit_i128<E: de::Error>(self, number: i128) -> Result<Value, E> {
        Ok(Value::Int(number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Float(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some((key, node)) = entries.next_entry::<Spanned<String>, Node>()? {
            map.push(Entry { key_pos: pos(&key.referenced), key: key.value, node });
        }
        Ok(Value::Map(map))
    }
}
