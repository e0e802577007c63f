//! Words of provider files that stand for types of the core, which knows nothing of serde.

use paceline_core::plan::Refill;
use paceline_core::signal::{AnswerKind, ObservedOwner, ResetMeans};
use serde::Deserialize;

/// Reads an optional word of a fixed set into a type of the core.
macro_rules! words {
    ($name:ident -> $type:ty { $($word:literal => $value:expr,)* }) => {
        pub(super) fn $name<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
            let word = String::deserialize(deserializer)?;
            match word.as_str() {
                $($word => Ok($value),)*
                _ => Err(serde::de::Error::unknown_variant(&word, &[$($word),*])),
            }
        }
    };
}

words!(refill -> Option<Refill> {
    "continuous" => Some(Refill::Continuous),
    "window" => Some(Refill::Window),
    "held" => Some(Refill::Held),
});

words!(reset_means -> Option<ResetMeans> {
    "full" => Some(ResetMeans::Full),
    "window" => Some(ResetMeans::Window),
});

words!(owner -> Option<ObservedOwner> {
    "group" => Some(ObservedOwner::Group),
    "account" => Some(ObservedOwner::Account),
});

words!(kind -> AnswerKind {
    "ok" => AnswerKind::Ok,
    "throttled" => AnswerKind::Throttled,
    "overloaded" => AnswerKind::Overloaded,
    "quota-exhausted" => AnswerKind::QuotaExhausted,
    "impossible" => AnswerKind::Impossible,
    "failed" => AnswerKind::Failed,
    "rejected" => AnswerKind::Rejected,
});
