//! The YAML configuration: parsed, checked, resolved to what the core acts on.
//!
//! [`Config::parse`] reads a text and reports everything that is wrong with it at once, each with its place and what to write
//! instead. [`Config::check`] adds what only the catalogue knows (a misspelt provider, an unknown tier).
//! [`Config::resolve`] then answers, for a provider, an account and a model, which buckets a call is charged in, and
//! [`Config::explain`] from which line or layer each of them comes.
//!
//! The order of a file never matters: everything is sorted once it is read, the most specific pattern wins, and two equally
//! specific patterns that meet are an error. `docs/reference/configuration.md` is the contract of the format,
//! `docs/reference/configurations.md` shows real files with what they resolve to (and is executed as a test).

mod check;
mod effective;
mod embedded;
mod explain;
mod facts;
mod fields;
mod glob;
mod identify;
mod model;
mod overrides;
mod problem;
mod quantity;
mod read;
mod redact;
mod resolve;
mod tree;

pub use explain::{BucketOrigin, Explanation, Origin, SettingOrigin};
pub use facts::{AliasFacts, Catalogue, GroupFacts, LimitFacts, MeterFacts, ProviderFacts};
pub use identify::ResolveError;
pub use model::{Config, Listen, StoreAddress};
pub use overrides::{Overrides, Scalar};
pub use problem::{ConfigErrors, Pos, Problem};
pub use quantity::Share;
pub use redact::looks_like_a_key;
