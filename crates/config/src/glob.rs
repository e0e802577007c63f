//! Patterns of model names: `*`, `?`, `[a-z]`, `{this,that}`, `\` to take a character literally.
//!
//! Beside matching a name, two questions about patterns themselves decide a configuration before any call is seen: does one
//! pattern cover another (then a group may inherit from it), and do two equally specific ones meet (then the file is wrong).

mod meeting;

use meeting::Meeting;

/// The longest pattern, in characters, and the most alternatives its braces may spell out.
const LONGEST: usize = 256;
const MOST_ALTERNATIVES: usize = 100;

/// How specific a match is: an exact name beats every pattern, then the longer literal text wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    exact: bool,
    literal: usize,
}

/// A pattern with its braces spelled out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob {
    alternatives: Vec<Pattern>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    tokens: Vec<Token>,
    rank: Rank,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Char(char),
    AnyChar,
    AnyText,
    OneOf { negated: bool, ranges: Vec<(char, char)> },
}

impl Glob {
    /// Parses a pattern, or says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("a pattern cannot be empty; `*` matches every model".to_owned());
        }
        if text.chars().count() > LONGEST {
            return Err(format!("a pattern has at most {LONGEST} characters"));
        }
        let mut alternatives = Vec::new();
        for plain in expand(text)? {
            let tokens = tokens(&plain)?;
            let literal = tokens.iter().filter(|token| matches!(token, Token::Char(_))).count();
            alternatives.push(Pattern { rank: Rank { exact: literal == tokens.len(), literal }, tokens });
        }
        Ok(Self { alternatives })
    }

    /// The pattern that matches exactly this name, whatever characters it has.
    pub(crate) fn literal(name: &str) -> Self {
        let tokens: Vec<Token> = name.chars().map(Token::Char).collect();
        let rank = Rank { exact: true, literal: tokens.len() };
        Self { alternatives: vec![Pattern { tokens, rank }] }
    }

    /// How specifically this covers *everything* that `subject` matches; `None` when it does not.
    ///
    /// Sound, and complete for patterns people write: a `?` beside a `*` may be refused where it could be allowed.
    pub(crate) fn covers(&self, subject: &Self) -> Option<Rank> {
        let best = |wanted: &Pattern| {
            self.alternatives.iter().filter(|own| covers(&own.tokens, &wanted.tokens)).map(|own| own.rank).max()
        };
        subject.alternatives.iter().map(best).min().flatten()
    }

    /// A name that both match with the same rank: the proof of a tie.
    pub(crate) fn tie(&self, other: &Self) -> Option<String> {
        let pairs = self.alternatives.iter().flat_map(|own| other.alternatives.iter().map(move |their| (own, their)));
        pairs
            .filter(|(own, their)| own.rank == their.rank)
            .find_map(|(own, their)| Meeting::new(&own.tokens, &their.tokens).witness())
    }

    /// Whether every name matches.
    pub(crate) fn matches_everything(&self) -> bool {
        self.alternatives.iter().any(|own| own.tokens == [Token::AnyText])
    }
}

/// Spells out braces: `a{b,c}` becomes `ab` and `ac`. Backslashes are kept for [`tokens`].
fn expand(text: &str) -> Result<Vec<String>, String> {
    let mut done = Vec::new();
    let mut open = vec![text.to_owned()];
    while let Some(next) = open.pop() {
        match split_braces(&next)? {
            None => done.push(next),
            Some((before, choices, after)) => {
                open.extend(choices.iter().map(|choice| format!("{before}{choice}{after}")));
            }
        }
        if open.len() + done.len() > MOST_ALTERNATIVES {
            return Err(format!("the braces spell out more than {MOST_ALTERNATIVES} patterns"));
        }
    }
    Ok(done)
}

/// The text before the first pair of braces, the choices inside, and the text after.
fn split_braces(text: &str) -> Result<Option<(String, Vec<String>, String)>, String> {
    let mut chars = text.char_indices();
    let (mut depth, mut start, mut from) = (0_u32, 0, 0);
    let mut choices = Vec::new();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                chars.next();
            }
            '{' => {
                if depth == 0 {
                    (start, from) = (at, at + 1);
                }
                depth += 1;
            }
            ',' if depth == 1 => {
                choices.push(text.get(from..at).unwrap_or_default().to_owned());
                from = at + 1;
            }
            '}' if depth == 1 => {
                choices.push(text.get(from..at).unwrap_or_default().to_owned());
                let before = text.get(..start).unwrap_or_default().to_owned();
                return Ok(Some((before, choices, text.get(at + 1..).unwrap_or_default().to_owned())));
            }
            '}' if depth == 0 => return Err("there is a `}` without its `{`; write `\\}` for the character".to_owned()),
            '}' => depth -= 1,
            _ => {}
        }
    }
    if depth > 0 { Err("there is a `{` without its `}`; write `\\{` for the character".to_owned()) } else { Ok(None) }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut out = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let token = match c {
            '*' if out.last() == Some(&Token::AnyText) => continue,
            '*' => Token::AnyText,
            '?' => Token::AnyChar,
            '[' => class(&mut chars)?,
            '\\' => Token::Char(chars.next().ok_or("a pattern cannot end with a single backslash")?),
            literal => Token::Char(literal),
        };
        out.push(token);
    }
    Ok(out)
}

/// The rest of `[...]` after its bracket.
fn class(chars: &mut std::str::Chars<'_>) -> Result<Token, String> {
    let unclosed = "there is a `[` without its `]`; write `\\[` for the character";
    let mut inside: Vec<char> = Vec::new();
    loop {
        match chars.next().ok_or(unclosed)? {
            ']' if !inside.is_empty() && inside != ['!'] && inside != ['^'] => break,
            c => inside.push(c),
        }
    }
    let (negated, members) = match inside.split_first() {
        Some(('!' | '^', rest)) => (true, rest),
        _ => (false, inside.as_slice()),
    };
    let mut ranges = Vec::new();
    let mut rest = members;
    loop {
        rest = match rest {
            [] => return Ok(Token::OneOf { negated, ranges }),
            [low, '-', high, tail @ ..] => {
                if low > high {
                    return Err(format!("`{low}-{high}` is written backwards"));
                }
                ranges.push((*low, *high));
                tail
            }
            [single, tail @ ..] => {
                ranges.push((*single, *single));
                tail
            }
        };
    }
}

impl Token {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Char(own) => *own == c,
            Self::AnyChar => true,
            Self::AnyText => false,
            Self::OneOf { negated, ranges } => ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated,
        }
    }

    /// Whether this single-character token takes everything that `other` stands for.
    fn covers(&self, other: &Self) -> bool {
        match other {
            Self::Char(c) => self.takes(*c),
            Self::AnyText => false,
            Self::AnyChar | Self::OneOf { .. } => matches!(self, Self::AnyChar) || self == other,
        }
    }

    /// Characters among which there is one that this and any other token both take, if there is one at all: the ends of
    /// every range and their neighbours.
    fn samples(&self) -> Vec<char> {
        match self {
            Self::Char(c) => vec![*c],
            Self::AnyChar | Self::AnyText => vec!['x'],
            Self::OneOf { ranges, .. } => {
                let ends = ranges.iter().flat_map(|(low, high)| [*low, *high]);
                let near = |c: char| {
                    let number = u32::from(c);
                    [char::from_u32(number.wrapping_sub(1)), Some(c), char::from_u32(number + 1)]
                };
                ends.flat_map(near).flatten().chain(['x']).collect()
            }
        }
    }

    /// A character that both take.
    fn common(&self, other: &Self) -> Option<char> {
        self.samples().into_iter().chain(other.samples()).find(|c| self.takes(*c) && other.takes(*c))
    }
}

/// Matches the tokens of `subject` as if they were characters; only `*` takes a `*`.
fn covers(own: &[Token], subject: &[Token]) -> bool {
    let (mut at, mut seen) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    loop {
        match (own.get(at), subject.get(seen)) {
            (Some(Token::AnyText), _) => {
                back = Some((at, seen));
                at += 1;
                continue;
            }
            (Some(token), Some(wanted)) if token.covers(wanted) => {
                at += 1;
                seen += 1;
                continue;
            }
            (None, None) => return true,
            _ => {}
        }
        // Let the last `*` take one more and try again from there.
        match back {
            Some((star, from)) if from < subject.len() => {
                back = Some((star, from + 1));
                (at, seen) = (star + 1, from + 1);
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn glob(text: &str) -> Glob {
        Glob::parse(text).unwrap()
    }

    fn matches(pattern: &str, name: &str) -> bool {
        glob(pattern).covers(&Glob::literal(name)).is_some()
    }

    #[test]
    fn patterns_match() {
        for (pattern, name, expected) in [
            ("gpt-4o-20*", "gpt-4o-2024-11-20", true),
            ("gpt-4o-20*", "gpt-4o-mini", false),
            ("*", "", true),
            ("*", "meta-llama/Llama-3", true),
            ("gpt-?", "gpt-4", true),
            ("gpt-?", "gpt-4o", false),
            ("*-haiku*", "claude-3-5-haiku-latest", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("{m,m-20*}", "m", true),
            ("{m,m-20*}", "m-2026", true),
            ("{m,m-20*}", "m2", false),
            ("x{a,b{c,d}}y", "xbdy", true),
            ("o[1-4]", "o3", true),
            ("o[!1-4]", "o3", false),
            ("o[!1-4]", "o5", true),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
            ("Gpt*", "gpt-4", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} on {name:?}");
        }
    }

    #[test]
    fn exact_beats_patterns_and_then_literal_text_counts() {
        let rank = |pattern: &str| glob(pattern).covers(&Glob::literal("gpt-4o-mini")).unwrap();
        let ascending = ["*", "gpt-*", "gpt-4o*", "gpt-4o-min?", "gpt-4o-mini"];
        for pair in ascending.windows(2) {
            assert!(rank(pair[0]) < rank(pair[1]), "{pair:?}");
        }
        assert!(rank("gpt-4o-mini*") < rank("gpt-4o-mini"), "an exact name beats a pattern of the same length");
        assert!(rank("{gpt-4o-mini,other}").exact);
    }

    #[test]
    fn covering_is_about_everything_a_pattern_matches() {
        for (wide, narrow, expected) in [
            ("gpt-4o*", "gpt-4o-20*", true),
            ("gpt-4o-20*", "gpt-4o*", false),
            ("*", "*", true),
            ("gpt-*", "{gpt-4o,gpt-5*}", true),
            ("gpt-4*", "{gpt-4o,gpt-5*}", false),
            ("{gpt-4*,gpt-5*}", "{gpt-4o,gpt-5*}", true),
            ("o?", "o[1-4]", true),
            ("o[1-4]", "o?", false),
            ("*-mini", "gpt-*", false),
        ] {
            assert_eq!(glob(wide).covers(&glob(narrow)).is_some(), expected, "{wide} over {narrow}");
        }
    }

    #[test]
    fn ties_are_proved_by_a_name() {
        for (one, other) in
            [("claude-*", "*-sonnet"), ("a*b", "*ab"), ("o[1-4]", "o[4-9]"), ("a?", "?a"), ("{x,y*}", "{y?,z}"), ("a", "a")]
        {
            let name = glob(one).tie(&glob(other)).unwrap();
            assert!(matches(one, &name) && matches(other, &name), "{one} and {other}: {name}");
        }
        for (one, other) in [("gpt-*", "o1-*"), ("gpt-4*", "gpt-*"), ("o[1-4]", "o[5-9]"), ("gpt-a", "gpt-*"), ("[a]", "[!a]")]
        {
            assert_eq!(glob(one).tie(&glob(other)), None, "{one} and {other}");
        }
    }

    #[test]
    fn broken_patterns_say_why() {
        for text in ["", "{a", "a}", "[a", "[z-a]", "a\\", "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"] {
            assert!(Glob::parse(text).is_err(), "{text}");
        }
        assert!(Glob::parse(&"a".repeat(257)).is_err());
    }

    proptest! {
        #[test]
        fn no_pattern_panics(text in "\\PC{0,30}", other in "[a-c*?{},\\[\\]!\\\\-]{0,12}", name in "[a-c]{0,6}") {
            if let (Ok(one), Ok(two)) = (Glob::parse(&text), Glob::parse(&other)) {
                let _ = (one.tie(&two), one.covers(&two), two.covers(&Glob::literal(&name)));
            }
        }

        #[test]
        fn what_covers_a_pattern_matches_all_its_names(
            wide in "[ab*?]{1,6}", narrow in "[ab*?]{1,6}", name in "[abc]{0,6}",
        ) {
            if glob(&wide).covers(&glob(&narrow)).is_some() && matches(&narrow, &name) {
                prop_assert!(matches(&wide, &name));
            }
        }

        #[test]
        fn two_patterns_that_match_one_name_with_one_rank_tie(
            one in "[ab*?]{1,6}", other in "[ab*?]{1,6}", name in "[ab]{0,6}",
        ) {
            let subject = Glob::literal(&name);
            let ranks = (glob(&one).covers(&subject), glob(&other).covers(&subject));
            if ranks.0.is_some() && ranks.0 == ranks.1 {
                let witness = glob(&one).tie(&glob(&other));
                prop_assert!(witness.is_some());
                let witness = witness.unwrap();
                prop_assert!(matches(&one, &witness) && matches(&other, &witness));
            }
        }
    }
}
