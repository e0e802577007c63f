//! Where a fact is from, when somebody last looked, and how sure it is.

use serde::Deserialize;

/// Where a fact is from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// A page, an RFC's section, a recorded answer.
    pub source: Option<String>,
    /// The day somebody last looked, `YYYY-MM-DD`.
    pub checked: Option<Day>,
    /// How sure it is.
    pub sure: Option<Sure>,
}

/// How sure a fact is: what kind of source it has, the surest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sure {
    /// The vendor's or a standard's document.
    Document,
    /// The source of the vendor's SDK.
    Sdk,
    /// An answer that somebody recorded.
    Recorded,
    /// Measured by somebody who says so.
    Measured,
    /// Only tests or write-ups of third parties.
    ThirdParty,
    /// Memory or a guess.
    Unsure,
}

impl Sure {
    /// The word of provider files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Sdk => "sdk",
            Self::Recorded => "recorded",
            Self::Measured => "measured",
            Self::ThirdParty => "third-party",
            Self::Unsure => "unsure",
        }
    }
}

/// A day as `YYYY-MM-DD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Day(jiff::civil::Date);

impl TryFrom<String> for Day {
    type Error = String;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self).map_err(|_| format!("`{text}` is not a day; write it as 2026-11-05"))
    }
}

impl std::fmt::Display for Day {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Declares the struct of one fact with its provenance beside it (serde cannot flatten into a strict struct).
macro_rules! fact {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            $($(#[$field_meta])* pub(crate) $field: $type,)*
            #[serde(default)]
            source: Option<String>,
            #[serde(default)]
            checked: Option<$crate::catalogue::provenance::Day>,
            #[serde(default)]
            sure: Option<$crate::catalogue::provenance::Sure>,
        }

        impl $name {
            /// Where the fact is from.
            pub(crate) fn provenance(&self) -> $crate::catalogue::provenance::Provenance {
                $crate::catalogue::provenance::Provenance {
                    source: self.source.clone(),
                    checked: self.checked,
                    sure: self.sure,
                }
            }

            /// Takes from its file what it does not say itself.
            pub(crate) fn stamp(&mut self, file: &$crate::catalogue::provenance::Provenance) {
                self.checked = self.checked.or(file.checked);
                self.sure = self.sure.or(file.sure);
            }
        }
    };
}

pub(crate) use fact;
