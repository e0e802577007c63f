//! Buckets as headers name them, in Paceline's terms.

use paceline_core::signal::{ObservedOwner, ResetMeans};
use paceline_core::units::Span;

use super::facts::{BucketFact, FamilyFact, MeterFact, Vocabulary};
use super::limit::Window;

/// A bucket that a header speaks of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bucket {
    pub(crate) name: String,
    pub(crate) meter: String,
    pub(crate) window: Option<Span>,
    pub(crate) owner: ObservedOwner,
    pub(crate) reset_means: ResetMeans,
    /// How the header's name led to this bucket.
    pub(crate) named_by: NamedBy,
}

/// How a header's name led to a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedBy {
    /// The catalogue lists it, or its words are in the vocabulary.
    Known,
    /// The name has no words for a bucket: it may be one that other headers name.
    Nothing,
    /// Words nobody knows: perhaps no bucket at all.
    Guess,
}

/// The longest name of a bucket that a provider's answer can make up.
const LONGEST_NAME: usize = 64;

impl Bucket {
    /// The bucket a file lists: what it does not say comes from its family, then from its meter.
    pub(crate) fn from_fact(fact: &BucketFact, family: Option<&FamilyFact>, meter: Option<&MeterFact>) -> Self {
        let suffix = fact.window.map_or("", Window::suffix);
        Self {
            name: fact.name.clone().unwrap_or_else(|| format!("{}{suffix}", fact.meter)),
            meter: fact.meter.clone(),
            window: fact.window.or(meter.and_then(|meter| meter.window)).map(Window::span),
            owner: fact.owner.or(meter.and_then(|meter| meter.owner)).unwrap_or_default(),
            reset_means: fact
                .reset_means
                .or(family.and_then(|family| family.reset_means))
                .or(meter.and_then(|meter| meter.reset_means))
                .unwrap_or_default(),
            named_by: NamedBy::Known,
        }
    }

    /// A bucket of requests that nothing is known of.
    pub(crate) fn requests() -> Self {
        Self::named("requests", "requests")
    }

    /// A bucket that nothing is known of but its name and meter.
    pub(crate) fn named(name: &str, meter: &str) -> Self {
        Self {
            name: shortened(name),
            meter: shortened(meter),
            window: None,
            owner: ObservedOwner::default(),
            reset_means: ResetMeans::default(),
            named_by: NamedBy::Nothing,
        }
    }

    /// Takes the words of a header's name apart: `tokens-minute` is tokens per minute, `project-tokens` counts tokens.
    pub(crate) fn from_words(words: &str, vocabulary: &Vocabulary, reset_means: ResetMeans) -> Self {
        let mut window = None;
        let mut rest: Vec<&str> = Vec::new();
        for word in words.split(['-', '_']).filter(|word| !word.is_empty()) {
            match vocabulary.window(word) {
                Some(found) if window.is_none() => window = Some(found),
                _ => rest.push(word),
            }
        }
        // The whole phrase first (`input_tokens`), else its longest known end (`priority_input_tokens`, `project_tokens`).
        let phrase = rest.join("_");
        let whole = if phrase.is_empty() { Some("requests") } else { vocabulary.meter(&phrase) };
        let end = (1..rest.len()).find_map(|skipped| vocabulary.meter(&rest.get(skipped..)?.join("_")));
        let meter = whole.or(end);
        let suffix = window.map_or("", Window::suffix);
        let named_by = if meter.is_some() { NamedBy::Known } else { NamedBy::Guess };
        let bucket = Self::named(&format!("{}{suffix}", whole.unwrap_or(&phrase)), meter.unwrap_or(&phrase));
        Self { window: window.map(Window::span), reset_means, named_by, ..bucket }
    }
}

impl Vocabulary {
    fn meter(&self, phrase: &str) -> Option<&str> {
        let known = self.meters.iter().find(|(meter, words)| *meter == phrase || words.iter().any(|word| word == phrase));
        known.map(|(meter, _)| meter.as_str())
    }

    fn window(&self, word: &str) -> Option<Window> {
        self.windows.iter().find(|(_, words)| words.iter().any(|known| known == word)).map(|(window, _)| *window)
    }
}

fn shortened(name: &str) -> String {
    name.chars().take(LONGEST_NAME).collect()
}
