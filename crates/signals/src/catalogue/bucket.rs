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
    /// Whether it only sums up the other buckets of its family.
    pub(crate) sums_up: bool,
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
            sums_up: fact.sums_up,
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
            sums_up: false,
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

/// What the name of a quota says, whose words stand in the middle of others:
/// `GenerateContentInputTokensPerModelPerMinute-FreeTier` counts input tokens per minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phrase<'v> {
    /// The longest known meter among the words.
    pub(crate) meter: Option<&'v str>,
    /// The first window among the words.
    pub(crate) window: Option<Window>,
}

impl Vocabulary {
    /// Takes the name of a quota apart.
    pub(crate) fn phrase(&self, words: &[String]) -> Phrase<'_> {
        let runs = (1..=words.len()).rev().flat_map(|length| words.windows(length));
        let meter = runs.map(|run| run.join("_")).find_map(|run| self.meter(&run));
        Phrase { meter, window: words.iter().find_map(|word| self.window(word)) }
    }

    fn meter(&self, phrase: &str) -> Option<&str> {
        let known = self.meters.iter().find(|(meter, words)| *meter == phrase || words.iter().any(|word| word == phrase));
        known.map(|(meter, _)| meter.as_str())
    }

    fn window(&self, word: &str) -> Option<Window> {
        self.windows.iter().find(|(_, words)| words.iter().any(|known| known == word)).map(|(window, _)| *window)
    }
}

/// The words of a name in lower case: `PerDayPerProject-FreeTier` is `per day per project free tier`.
pub(crate) fn words_of(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut previous = ' ';
    for character in name.chars().take(4 * LONGEST_NAME) {
        if character.is_ascii_alphanumeric() {
            let starts =
                !previous.is_ascii_alphanumeric() || (character.is_ascii_uppercase() && !previous.is_ascii_uppercase());
            if starts {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.push(character.to_ascii_lowercase());
            }
        }
        previous = character;
    }
    words
}

fn shortened(name: &str) -> String {
    name.chars().take(LONGEST_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_say_what_they_count_and_per_how_long() {
        let generic = &crate::catalogue::catalogue().generic().facts().vocabulary;
        for (name, meter, window) in [
            ("GenerateContentInputTokensPerModelPerMinute-FreeTier", Some("input_tokens"), Some(Window::MINUTE)),
            ("GenerateRequestsPerDayPerProjectPerModel-FreeTier", Some("requests"), Some(Window::DAY)),
            ("generativelanguage.googleapis.com/generate_content_free_tier_input_token_count", Some("input_tokens"), None),
            ("Read requests per minute per user", Some("requests"), Some(Window::MINUTE)),
            ("UserConcurrentRequests", Some("concurrency"), None),
            ("UserByModelByDay", None, Some(Window::DAY)),
            ("defaultPerMinutePerProject", None, Some(Window::MINUTE)),
            ("", None, None),
        ] {
            assert_eq!(generic.phrase(&words_of(name)), Phrase { meter, window }, "{name}");
        }
    }
}
