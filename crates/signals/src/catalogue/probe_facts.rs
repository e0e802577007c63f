//! What a provider's file says about its cheapest call: what `paceline probe` sends to see the provider's limits.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::provenance::{Provenance, fact};

/// Stands for the model in paths and bodies.
const MODEL: &str = "{model}";

fact!(
    /// The cheapest call that shows limits.
    ProbeFact {
        /// Where the provider answers. Of this file only: a file that extends this one may be of somebody else, who must not get
        /// the key.
        #[serde(default)]
        base_url: Option<String>,
        /// The model that is asked for unless the user names one. Of this file only.
        #[serde(default)]
        model: Option<String>,
        /// Where the key goes.
        #[serde(default)]
        key: Option<KeyFact>,
        /// Further headers that the provider wants.
        #[serde(default)]
        headers: BTreeMap<String, String>,
        /// What is sent.
        #[serde(default)]
        call: Option<CallFact>,
    }
);

/// The header that carries the key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyFact {
    /// Its name, lower case.
    pub(crate) header: String,
    /// What stands before the key: `"Bearer "`.
    #[serde(default)]
    pub(crate) before: String,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallFact {
    /// What follows the base address; `{model}` stands for the model.
    pub(crate) path: String,
    /// The JSON that is posted; `{model}` stands for the model. Absent: a GET.
    #[serde(default)]
    pub(crate) body: Option<Value>,
    /// The most tokens that it takes, prompt and answer together; 0: it is free. Absent: not known.
    #[serde(default)]
    pub(crate) most_tokens: Option<u64>,
}

impl ProbeFact {
    /// This fact where it says something, else the base's; base address and model are never the base's.
    pub(crate) fn over(mut self, base: &Self) -> Self {
        self.key = self.key.or_else(|| base.key.clone());
        for (name, value) in &base.headers {
            self.headers.entry(name.clone()).or_insert_with(|| value.clone());
        }
        self.call = self.call.or_else(|| base.call.clone());
        self
    }

    /// What a file that does not mention probing has from the one it extends.
    pub(crate) fn for_others(&self) -> Self {
        Self { base_url: None, model: None, ..self.clone() }
    }

    /// Base address and model too: the file only adds to the one of its own name.
    pub(crate) fn of_same(mut self, base: &Self) -> Self {
        self.base_url = self.base_url.or_else(|| base.base_url.clone());
        self.model = self.model.or_else(|| base.model.clone());
        self
    }
}

/// The cheapest call of a provider that shows its limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe<'p> {
    /// Where the provider answers; `None`: only the user knows.
    pub base_url: Option<&'p str>,
    /// What follows that address, with `{model}` in place of the model.
    pub path: &'p str,
    /// The JSON that is posted, with `{model}` in place of the model; `None`: it is a GET.
    pub body: Option<&'p Value>,
    /// The header that carries the key, and what stands before the key in it.
    pub key: (&'p str, &'p str),
    /// Further headers that the provider wants.
    pub headers: Vec<(&'p str, &'p str)>,
    /// The model that is asked for unless somebody names one.
    pub model: Option<&'p str>,
    /// The most tokens that one call takes; 0: it is free; `None`: not known.
    pub most_tokens: Option<u64>,
    /// Where that is from.
    pub provenance: Provenance,
}

impl<'p> Probe<'p> {
    /// `None` when the fact names no call, or no place for the key.
    pub(crate) fn of(fact: &'p ProbeFact) -> Option<Self> {
        let (call, key) = (fact.call.as_ref()?, fact.key.as_ref()?);
        Some(Self {
            base_url: fact.base_url.as_deref(),
            path: &call.path,
            body: call.body.as_ref(),
            key: (&key.header, &key.before),
            headers: fact.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
            model: fact.model.as_deref(),
            most_tokens: call.most_tokens,
            provenance: fact.provenance(),
        })
    }

    /// Whether the call names a model.
    pub fn needs_model(&self) -> bool {
        self.path.contains(MODEL) || self.body.is_some_and(|body| body.to_string().contains(MODEL))
    }

    /// The path for a model, percent-encoded where a path needs it; slashes of a model's name stay.
    pub fn path_for(&self, model: &str) -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:@".contains(&byte);
        let encoded = model.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") });
        self.path.replace(MODEL, &encoded.collect::<String>())
    }

    /// The JSON for a model; `None`: it is a GET.
    pub fn body_for(&self, model: &str) -> Option<Value> {
        self.body.map(|body| filled(body, model))
    }
}

/// The same value with the model in every text.
fn filled(value: &Value, model: &str) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace(MODEL, model)),
        Value::Array(items) => items.iter().map(|item| filled(item, model)).collect(),
        Value::Object(fields) => fields.iter().map(|(name, item)| (name.clone(), filled(item, model))).collect(),
        other => other.clone(),
    }
}

/// Whether what the file says can be sent.
pub(crate) fn check(fact: &ProbeFact) -> Result<(), String> {
    let names = fact.key.iter().map(|key| key.header.as_str()).chain(fact.headers.keys().map(String::as_str));
    for name in names {
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase());
        if !is_name {
            return Err(format!("probe: `{name}` is no header name in lower case"));
        }
    }
    let starts_well = |url: &String| url.starts_with("https://") || url.starts_with("http://");
    match fact.base_url.as_ref().filter(|url| !starts_well(url)) {
        Some(url) => Err(format!("probe: base_url `{url}` does not begin with https://")),
        None => Ok(()),
    }
}
