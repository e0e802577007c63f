//! The catalogue of providers: facts as data, one YAML file each, embedded in the binary.

mod body_facts;
mod bucket;
mod built_in;
mod facts;
mod limit;
mod matching;
mod names;
mod provenance;
mod provider;

use std::sync::LazyLock;

use built_in::FILES;
pub use facts::Repeat;
pub use limit::{Limit, Window};
pub use provenance::{Day, Provenance, Sure};
pub use provider::{Meter, ModelLimits, Provider};

pub(crate) use body_facts::{BodyBucketFact, BodyFacts, BucketListFact, QuotaFact};
pub(crate) use bucket::{Bucket, NamedBy, words_of};
pub(crate) use facts::{AnswerFact, PartFact, Quantity, RefusalFact, Unusable, WaitFact};
pub(crate) use matching::BodyPath;
pub(crate) use names::{BucketRef, Target};

/// The provider whose file holds what everybody does; every other file extends it.
pub(crate) const GENERIC: &str = "generic";

/// Why a provider's file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// Not YAML, an unknown key, or a value that does not fit; line and column are in the text.
    #[error("provider file `{name}`: {problem}")]
    Unreadable {
        /// The provider.
        name: String,
        /// What is wrong and where.
        problem: String,
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
    /// The provider of that name (any casing), or of which it is another name.
    pub fn get(&self, name: &str) -> Option<&Provider> {
        self.providers().find(|provider| {
            provider.name().eq_ignore_ascii_case(name)
                || provider.also_called().iter().any(|other| other.eq_ignore_ascii_case(name))
        })
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

/// The built-in catalogue.
pub fn catalogue() -> &'static Catalogue {
    #[expect(clippy::expect_used, reason = "the files are part of the binary; a test reads them all")]
    static BUILT_IN: LazyLock<Catalogue> =
        LazyLock::new(|| Catalogue::built_in().expect("the built-in provider files are valid"));
    &BUILT_IN
}
