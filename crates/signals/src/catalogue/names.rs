//! From a header's name to the rule that reads it, without allocating for the many headers that no rule reads.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::bucket::Bucket;
use super::facts::Vocabulary;

/// What a header name stands for. The numbers are positions in the provider's merged facts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Target<'p> {
    /// `Date`: the server's clock.
    Date,
    /// `Age`: how long ago `Date` was, for an answer from a cache.
    Age,
    /// `grpc-status`.
    GrpcStatus,
    /// A wait.
    Wait(usize),
    /// A flag about sending again.
    Flag,
    /// A part of a family, for a bucket.
    Part {
        /// Which family.
        family: usize,
        /// Which of its parts.
        part: &'p str,
        /// Which bucket.
        bucket: BucketRef<'p>,
    },
    /// An IETF RateLimit field.
    RateLimit,
    /// An IETF RateLimit-Policy field.
    Policy,
    /// Names the bucket that refused.
    Refusal(usize),
    /// The time until the window of the bucket that refused ends.
    RefusalReset(usize),
    /// Looks like a limit, says nothing to act on.
    Known,
}

/// A bucket that the catalogue lists, or one made from the words of a header's name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BucketRef<'p> {
    Listed(&'p Bucket),
    Inferred(Box<Bucket>),
}

impl BucketRef<'_> {
    pub(crate) fn get(&self) -> &Bucket {
        match self {
            Self::Listed(bucket) => bucket,
            Self::Inferred(bucket) => bucket,
        }
    }
}

/// The compiled names of one provider.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameIndex {
    /// Exact names by hash: a look-up never allocates.
    exact: HashMap<u64, Vec<Exact>, BuildHasherDefault<AsIs>>,
    patterns: Vec<Pattern>,
    hints: Hints,
}

#[derive(Clone, Debug)]
struct Exact {
    name: String,
    stored: Stored,
}

/// A [`Target`] that owns what it names.
#[derive(Clone, Debug)]
pub(crate) enum Stored {
    Date,
    Age,
    GrpcStatus,
    Wait(usize),
    Flag,
    Part { family: usize, part: String, bucket: Box<Bucket> },
    RateLimit,
    Policy,
    Refusal(usize),
    RefusalReset(usize),
    Known,
}

/// A name with parts that vary.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) family: usize,
    pub(crate) part: String,
    /// The bucket of names without `{bucket}`.
    pub(crate) bucket: Bucket,
    /// Whether its buckets count on their own, whatever meter their words end in.
    pub(crate) apart: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Literal(String),
    Bucket,
    Vendor,
}

/// The longest header name that is looked at; longer ones carry nothing for us.
const LONGEST_NAME: usize = 128;

impl NameIndex {
    /// Adds an exact name, lower case. The first entry of a name counts.
    pub(crate) fn add(&mut self, name: &str, stored: Stored) {
        let known = self.exact.entry(hash(name)).or_default();
        if !known.iter().any(|known| known.name == name) {
            known.push(Exact { name: name.to_owned(), stored });
        }
    }

    /// Adds a pattern; the first that fits counts.
    pub(crate) fn add_pattern(&mut self, pattern: Pattern) {
        self.patterns.push(pattern);
    }

    /// Sets the parts of names that make a header look like a limit.
    pub(crate) fn set_hints(&mut self, hints: &[String]) {
        self.hints = Hints::new(hints);
    }

    /// What a header is to us, in any casing.
    pub(crate) fn find<'p>(&'p self, name: &str, vocabulary: &Vocabulary) -> Lookup<'p> {
        let of_hash = self.exact.get(&hash(name)).into_iter().flatten();
        if let Some(exact) = of_hash.into_iter().find(|known| known.name.eq_ignore_ascii_case(name)) {
            return Lookup::Rule(exact.stored.target());
        }
        if name.len() > LONGEST_NAME || !self.hints.are_in(name) {
            return Lookup::Unrelated;
        }
        let name = name.to_ascii_lowercase();
        let target = self.patterns.iter().find_map(|pattern| pattern.target(&name, vocabulary));
        target.map_or(Lookup::LooksLikeLimit, Lookup::Rule)
    }
}

/// What a header's name says to us.
pub(crate) enum Lookup<'p> {
    /// A rule reads it.
    Rule(Target<'p>),
    /// No rule reads it, but it looks as if it spoke of limits.
    LooksLikeLimit,
    /// It speaks of something else.
    Unrelated,
}

impl Stored {
    fn target(&self) -> Target<'_> {
        match self {
            Self::Date => Target::Date,
            Self::Age => Target::Age,
            Self::GrpcStatus => Target::GrpcStatus,
            Self::Wait(wait) => Target::Wait(*wait),
            Self::Flag => Target::Flag,
            Self::Part { family, part, bucket } => Target::Part { family: *family, part, bucket: BucketRef::Listed(bucket) },
            Self::RateLimit => Target::RateLimit,
            Self::Policy => Target::Policy,
            Self::Refusal(refusal) => Target::Refusal(*refusal),
            Self::RefusalReset(refusal) => Target::RefusalReset(*refusal),
            Self::Known => Target::Known,
        }
    }
}

impl Pattern {
    fn target(&self, name: &str, vocabulary: &Vocabulary) -> Option<Target<'_>> {
        let words = fit(&self.pieces, name)?;
        let bucket = if words.is_empty() {
            BucketRef::Listed(&self.bucket)
        } else {
            let bucket = Bucket::from_words(words, vocabulary, self.bucket.reset_means);
            let meter = if self.apart { bucket.name.clone() } else { bucket.meter };
            BucketRef::Inferred(Box::new(Bucket { meter, ..bucket }))
        };
        Some(Target::Part { family: self.family, part: &self.part, bucket })
    }
}

/// Fits a whole name to the pieces and returns the words in place of `{bucket}`, empty when there is none.
fn fit<'n>(pieces: &[Piece], name: &'n str) -> Option<&'n str> {
    let Some((piece, rest)) = pieces.split_first() else { return name.is_empty().then_some("") };
    match piece {
        Piece::Literal(literal) => fit(rest, name.strip_prefix(literal.as_str())?),
        Piece::Bucket | Piece::Vendor => {
            // Names are short and patterns have two gaps at most, so trying every end is cheap.
            (1..=name.len()).filter_map(|end| name.split_at_checked(end)).find_map(|(words, after)| match piece {
                Piece::Vendor => (!words.contains('-')).then(|| fit(rest, after)).flatten(),
                _ => fit(rest, after).map(|_| words),
            })
        }
    }
}

/// The same for names that differ in casing only (and for few others).
fn hash(name: &str) -> u64 {
    let (chunks, rest) = name.as_bytes().as_chunks::<8>();
    let mut last = [0_u8; 8];
    last.iter_mut().zip(rest).for_each(|(place, byte)| *place = *byte);
    chunks.iter().chain([&last]).fold(name.len() as u64, |hash, chunk| {
        let mixed = (hash ^ (u64::from_le_bytes(*chunk) | 0x2020_2020_2020_2020)).wrapping_mul(0x517c_c1b7_2722_0a95);
        mixed ^ (mixed >> 32)
    })
}

/// Takes a number for its own hash.
#[derive(Clone, Copy, Debug, Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// Parts of names, searched for all at once: two letters decide whether any of them may begin here.
#[derive(Clone, Debug, Default)]
struct Hints {
    /// By first letter, what may follow it.
    by_first: [Begins; 32],
}

#[derive(Clone, Debug, Default)]
struct Begins {
    /// A bit for each second letter.
    seconds: u32,
    words: Vec<String>,
}

impl Hints {
    fn new(words: &[String]) -> Self {
        let mut hints = Self::default();
        for word in words {
            let mut letters = word.bytes().map(folded);
            let (Some(first), second) = (letters.next(), letters.next()) else { continue };
            if let Some(begins) = hints.by_first.get_mut(first) {
                begins.seconds |= second.map_or(u32::MAX, |second| 1 << second);
                begins.words.push(word.to_ascii_lowercase());
            }
        }
        hints
    }

    fn are_in(&self, name: &str) -> bool {
        let bytes = name.as_bytes();
        bytes.array_windows::<2>().enumerate().any(|(at, [first, second])| {
            self.by_first.get(folded(*first)).is_some_and(|begins| {
                begins.seconds >> folded(*second) & 1 == 1 && begins.any_at(bytes.get(at..).unwrap_or_default())
            })
        })
    }
}

impl Begins {
    fn any_at(&self, rest: &[u8]) -> bool {
        self.words.iter().any(|word| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes())))
    }
}

/// A letter's place in the alphabet in any casing; other characters share the places.
fn folded(byte: u8) -> usize {
    usize::from(byte & 0x1f)
}

/// Takes a template such as `x-ratelimit-{part}-{bucket}` apart, with a word in place of `{part}`.
pub(crate) fn pieces(template: &str, part: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let filled = template.replace("{part}", part);
    let mut rest = filled.as_str();
    while let Some((literal, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or_else(|| format!("`{template}` has `{{` without `}}`"))?;
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal.to_owned()));
        }
        pieces.push(match name {
            "bucket" => Piece::Bucket,
            "vendor" => Piece::Vendor,
            _ => return Err(format!("`{{{name}}}` in `{template}` is not {{part}}, {{bucket}} or {{vendor}}")),
        });
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Literal(rest.to_owned()));
    }
    if pieces.iter().filter(|piece| **piece == Piece::Bucket).count() > 1 {
        return Err(format!("`{template}` has {{bucket}} twice"));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn words(template: &str, part: &str, name: &str) -> Option<String> {
        fit(&pieces(template, part).unwrap(), name).map(str::to_owned)
    }

    #[test]
    fn hints_are_found_anywhere_in_any_casing() {
        let hints = Hints::new(&["limit".to_owned(), "Retry".to_owned(), "é".to_owned()]);
        for (name, expected) in [
            ("x-ratelimit", true),
            ("X-RateLIMIT-Left", true),
            ("retry", true),
            ("limi", false),
            ("x-lim-it", false),
            ("\u{c}imit", false),
            ("r", false),
            ("", false),
            ("caf\u{e9}", true),
        ] {
            assert_eq!(hints.are_in(name), expected, "{name}");
        }
    }

    #[test]
    fn templates_fit_whole_names() {
        for (template, part, name, expected) in [
            ("x-ratelimit-{part}-{bucket}", "limit", "x-ratelimit-limit-api-units", Some("api-units")),
            ("x-ratelimit-{bucket}-{part}", "limit", "x-ratelimit-api-units-limit", Some("api-units")),
            ("x-ratelimit-{part}-{bucket}", "limit", "x-ratelimit-limit-", None),
            ("x-ratelimit-{part}-{bucket}", "limit", "x-ratelimit-reset-tokens", None),
            ("{vendor}-ratelimit-{part}", "limit", "acme-ratelimit-limit", Some("")),
            ("{vendor}-ratelimit-{bucket}-{part}", "reset", "acme-ratelimit-input-tokens-reset", Some("input-tokens")),
            ("{vendor}-ratelimit-{part}", "limit", "llm_provider-x-ratelimit-limit", None),
        ] {
            assert_eq!(words(template, part, name).as_deref(), expected, "{name}");
        }
        for bad in ["x-{bucket", "x-{thing}", "{bucket}-{bucket}"] {
            assert!(pieces(bad, "").is_err(), "{bad}");
        }
    }
}
