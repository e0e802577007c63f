//! The catalogue of providers: facts as data, one YAML file each, embedded in the binary.

mod answer_facts;
mod body_facts;
mod bucket;
mod built_in;
mod facts;
mod header_facts;
mod limit;
mod matching;
mod meter_facts;
mod mistake;
mod names;
mod probe_facts;
mod provenance;
mod provider;
#[cfg(test)]
mod reference;
mod words;

use std::sync::OnceLock;

use built_in::FILES;
pub use facts::{Charge, Repeat};
pub use limit::{Limit, Window};
pub use mistake::Mistake;
pub use probe_facts::Probe;
pub use provenance::{Day, Provenance, Sure};
pub use provider::{Meter, ModelLimits, Provider};

pub(crate) use bucket::{Bucket, NamedBy, words_of};
pub(crate) use facts::{
    AnswerFact, BodyBucketFact, BodyFacts, BucketListFact, PartFact, Quantity, QuotaFact, RefusalFact, Unusable, WaitFact,
};
pub(crate) use matching::BodyPath;
pub(crate) use names::{BucketRef, Lookup, Target};

/// The provider whose file holds what everybody does; every other file extends it.
pub(crate) const GENERIC: &str = "generic";

/// Why a provider's file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// Not YAML, an unknown key, or a value that does not fit.
    #[error("{}", mistake.in_file(&format!("{name}.yaml")))]
    Unreadable {
        /// The provider.
        name: String,
        /// What is wrong, where, and what to write instead.
        mistake: Box<Mistake>,
    },
    /// It extends a provider that is not there.
    #[error(
        "provider file `{name}` extends `{base}`, which is not in the catalogue; `paceline explain --help` lists the names"
    )]
    UnknownBase {
        /// The provider.
        name: String,
        /// The provider it extends.
        base: String,
    },
    /// Files were added too late.
    #[error("provider files must be added before the catalogue is used")]
    InUse,
    /// It reads well and means nothing.
    #[error("provider file `{name}`: {problem}")]
    Unusable {
        /// The provider.
        name: String,
        /// What is wrong.
        problem: String,
    },
}

/// Providers by name.
#[derive(Clone, Debug)]
pub struct Catalogue {
    generic: Provider,
    others: Vec<Provider>,
}

impl Catalogue {
    /// The provider of that name (any casing, `-` and `_` alike), or of which it is another name.
    pub fn get(&self, name: &str) -> Option<&Provider> {
        let by_name = |provider: &&Provider| is_same_name(provider.name(), name);
        let by_other = |provider: &&Provider| provider.also_called().iter().any(|other| is_same_name(other, name));
        self.providers().find(by_name).or_else(|| self.providers().find(by_other))
    }

    /// The provider of that name, or the reading for any provider that is not in the catalogue.
    pub fn get_or_generic(&self, name: &str) -> &Provider {
        self.get(name).unwrap_or(&self.generic)
    }

    /// The reading for any provider that is not in the catalogue.
    pub fn generic(&self) -> &Provider {
        &self.generic
    }

    /// All of them, `generic` first.
    pub fn providers(&self) -> impl Iterator<Item = &Provider> {
        std::iter::once(&self.generic).chain(&self.others)
    }

    /// This catalogue with files (name and text) of one's own: each adds a provider or takes the place of the one of that name,
    /// which it may extend. Files may extend each other, in any order.
    ///
    /// # Errors
    /// A file cannot be used, or extends what neither the catalogue nor another file has.
    pub fn with_files(&self, files: &[(String, String)]) -> Result<Self, CatalogueError> {
        let mut extended = self.clone();
        let mut waiting: Vec<&(String, String)> = files.iter().collect();
        while let Some(next) = next_file(&waiting)? {
            let (name, yaml) = waiting.remove(next);
            extended.put(Provider::parse(yaml, name, &extended)?);
        }
        Ok(extended)
    }

    /// In front, so that its other names win over built-in ones.
    fn put(&mut self, provider: Provider) {
        if provider.name() == GENERIC {
            self.generic = provider;
            return;
        }
        self.others.retain(|known| !known.name().eq_ignore_ascii_case(provider.name()));
        self.others.insert(0, provider);
    }

    fn built_in() -> Result<Self, CatalogueError> {
        let mut files = FILES.iter();
        let (name, yaml) = files.next().copied().unwrap_or((GENERIC, ""));
        let generic = Provider::compile(name, provider::parse_facts(yaml, name)?)?;
        let mut catalogue = Self { generic, others: Vec::new() };
        for (name, yaml) in files {
            let provider = Provider::parse(yaml, name, &catalogue)?;
            catalogue.others.push(provider);
        }
        Ok(catalogue)
    }
}

/// The first of the files that extends none of the others that wait; `None` when no file waits.
fn next_file(waiting: &[&(String, String)]) -> Result<Option<usize>, CatalogueError> {
    let is_waiting = |base: &str| waiting.iter().any(|(name, _)| name.eq_ignore_ascii_case(base));
    for (index, (name, yaml)) in waiting.iter().enumerate() {
        let base = provider::parse_facts(yaml, name)?.extends.unwrap_or_else(|| GENERIC.to_owned());
        if base.eq_ignore_ascii_case(name) || !is_waiting(&base) {
            return Ok(Some(index));
        }
    }
    let in_a_circle = |(name, _): &&(String, String)| CatalogueError::Unusable {
        name: name.clone(),
        problem: "it extends a file that extends it in turn".to_owned(),
    };
    waiting.first().map_or(Ok(None), |file| Err(in_a_circle(file)))
}

static IN_USE: OnceLock<Catalogue> = OnceLock::new();

/// The catalogue in use: the built-in one, with the files that [`use_files`] added.
pub fn catalogue() -> &'static Catalogue {
    IN_USE.get_or_init(built_in)
}

/// Adds files of one's own (name and text) to the catalogue of this process. Must come before anything asks for [`catalogue()`].
///
/// # Errors
/// A file cannot be used, or the catalogue is in use already.
pub fn use_files(files: &[(String, String)]) -> Result<(), CatalogueError> {
    let extended = built_in().with_files(files)?;
    IN_USE.set(extended).map_err(|_| CatalogueError::InUse)
}

#[expect(clippy::expect_used, reason = "the files are part of the binary; a test reads them all")]
fn built_in() -> Catalogue {
    Catalogue::built_in().expect("the built-in provider files are valid")
}

/// Whether two names are the same to people: in any casing, with hyphens, underscores or blanks between the words.
fn is_same_name(one: &str, other: &str) -> bool {
    let plain = |byte: u8| if matches!(byte, b'_' | b' ') { b'-' } else { byte.to_ascii_lowercase() };
    one.bytes().map(plain).eq(other.bytes().map(plain))
}
