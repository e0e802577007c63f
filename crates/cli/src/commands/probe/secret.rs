//! The user's key: read from the environment, put into one header, and kept out of everything that is printed (I-12).

use std::ffi::OsString;
use std::fmt;

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use paceline_config::looks_like_a_key;

use super::ProbeError;

/// What stands where a key stood.
const HIDDEN: &str = "[key]";
/// So many letters in a row in common with the key, and a word is taken to be a part of it.
const TELLING: usize = 6;
/// The shortest key that is looked for inside of other text.
const LEAST_TO_SCRUB: usize = 8;
/// So many letters and digits of the key in a header are no chance.
const SURELY_FROM_KEY: usize = 12;

/// A key and the variable that it is from. Has no way to be printed.
pub(super) struct Key {
    text: String,
    variable: String,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(hidden)")
    }
}

impl Key {
    /// The key in an environment variable. Blanks around it are no part of it.
    ///
    /// # Errors
    /// No such variable; none of the messages repeats what was given as its name, which may be the key itself.
    pub(super) fn from_variable(variable: &str, value: Option<OsString>) -> Result<Self, ProbeError> {
        if looks_like_a_key(variable) {
            return Err(ProbeError::KeyAsVariable);
        }
        let value = value.ok_or(ProbeError::NoVariable)?;
        let text = value.to_str().map(str::trim).ok_or(ProbeError::NoKey)?;
        if text.is_empty() || text.chars().any(|c| c.is_control() || c.is_whitespace() || !c.is_ascii()) {
            return Err(ProbeError::NoKey);
        }
        Ok(Self { text: text.to_owned(), variable: variable.to_owned() })
    }

    /// The variable's name.
    pub(super) fn variable(&self) -> &str {
        &self.variable
    }

    /// The value of the header that carries it; marked, so that no library prints it.
    pub(super) fn header_value(&self, before: &str) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("{before}{}", self.text)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Whether the text holds the key.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.text.len() >= LEAST_TO_SCRUB && text.contains(&self.text)
    }

    /// What a provider wrote, without the key: providers like to repeat a part of it ("Incorrect API key provided: sk-ab***yz").
    pub(super) fn hide(&self, text: &str) -> String {
        let is_end =
            |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ',' | ';' | '(' | ')' | '<' | '>' | '=' | ':');
        let mut shown = String::with_capacity(text.len());
        for piece in text.split_inclusive(is_end) {
            let word = piece.trim_end_matches(is_end);
            let end = piece.get(word.len()..).unwrap_or("");
            shown.push_str(if self.is_part(word) { HIDDEN } else { word });
            shown.push_str(end);
        }
        self.scrub(&shown)
    }

    /// Takes out of an answer's head every header whose name or value holds the key or much of it, before anything reads them. Names
    /// come in lower case, and become names of meters, with other separators: neither matters here.
    pub(super) fn strip(&self, headers: &mut HeaderMap) {
        let holds = |text: &[u8]| self.shows_in(&String::from_utf8_lossy(text));
        let is_told = |name: &HeaderName| {
            holds(name.as_str().as_bytes()) || headers.get_all(name).iter().any(|value| holds(value.as_bytes()))
        };
        let names: Vec<HeaderName> = headers.keys().filter(|name| is_told(name)).cloned().collect();
        for name in names {
            headers.remove(name);
        }
    }

    /// Whether much of the key is in the text, whatever its case and separators.
    fn shows_in(&self, text: &str) -> bool {
        let (key, text) = (letters(&self.text), letters(text));
        let length = key.len().min(SURELY_FROM_KEY);
        self.text.len() >= LEAST_TO_SCRUB && length > 0 && key.windows(length).any(|part| is_within(part, &text))
    }

    /// The text without the whole key, whatever its case and whichever separators it has.
    pub(super) fn scrub(&self, text: &str) -> String {
        let text = if self.is_in(text) { text.replace(&self.text, HIDDEN) } else { text.to_owned() };
        let key = letters(&self.text);
        if key.len() < LEAST_TO_SCRUB {
            return text;
        }
        // Where the letters of the text are: separators inside of a word are passed over, all else ends it.
        let (mut shown, mut rest) = (String::with_capacity(text.len()), text.as_str());
        while let Some((start, end)) = find_letters(&key, rest) {
            shown.push_str(rest.get(..start).unwrap_or_default());
            shown.push_str(HIDDEN);
            rest = rest.get(end..).unwrap_or_default();
        }
        shown.push_str(rest);
        shown
    }

    fn is_part(&self, word: &str) -> bool {
        let masked = word.contains("**") || word.contains('\u{2026}') || word.trim_end_matches('.').contains("...");
        let key = self.text.as_bytes();
        let shares =
            key.windows(TELLING.min(key.len())).any(|part| word.as_bytes().windows(part.len()).any(|seen| seen == part));
        masked || (shares && word.len() >= TELLING.min(key.len()))
    }
}

/// The letters and digits of a text, in lower case.
fn letters(text: &str) -> Vec<u8> {
    text.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase()).collect()
}

fn is_within(part: &[u8], text: &[u8]) -> bool {
    text.windows(part.len()).any(|seen| seen == part)
}

/// Where these letters stand in a text, in any case and with any of the separators of names between them: first byte, and behind
/// the last.
fn find_letters(wanted: &[u8], text: &str) -> Option<(usize, usize)> {
    let is_separator = |byte: u8| matches!(byte, b'-' | b'_' | b'.');
    (0..text.len()).find_map(|start| {
        let mut left = wanted.iter();
        let mut next = left.next()?;
        for (index, byte) in text.as_bytes().iter().enumerate().skip(start) {
            if byte.eq_ignore_ascii_case(next) {
                match left.next() {
                    Some(further) => next = further,
                    None => return Some((start, index + 1)),
                }
            } else if index == start || !is_separator(*byte) {
                return None;
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn key(text: &str) -> Key {
        Key::from_variable("A_KEY", Some(text.into())).unwrap()
    }

    #[test]
    fn what_a_provider_repeats_of_a_key_is_hidden() {
        let key = key("sk-proj-Xq81bCdEfGhIjKlM");
        for (said, shown) in [
            ("Incorrect API key provided: sk-proj-Xq81bCdEfGhIjKlM.", "Incorrect API key provided: [key]"),
            ("Incorrect API key provided: sk-pr***jKlM. You can find it", "Incorrect API key provided: [key] You can find it"),
            ("key 'Xq81bC...' is not valid", "key '[key]' is not valid"),
            ("bearer=sk-proj-Xq81bCdEfGhIjKlM", "bearer=[key]"),
            ("The project does not exist", "The project does not exist"),
            ("Wait... then try", "Wait... then try"),
        ] {
            assert_eq!(key.hide(said), shown);
        }
        assert_eq!(format!("{key:?}"), "Key(hidden)");
        assert_eq!(format!("{:?}", key.header_value("Bearer ").unwrap()), "Sensitive");
    }

    #[test]
    fn a_key_is_found_in_any_case_and_with_any_separators() {
        let key = key("sk-proj-Xq81bCdEfGhIjKlM");
        for said in
            ["SK_PROJ_XQ81BCDEFGHIJKLM", "sk-proj-xq81bcdefghijklm", "skprojXq81bCdEfGhIjKlM", "sk.proj.xq81bcdefghijklm"]
        {
            assert_eq!(key.scrub(&format!("x-{said}, \u{e9}")), "x-[key], \u{e9}");
            assert!(key.shows_in(&format!("x-ratelimit-limit-{said}")));
        }
        assert_eq!(key.scrub("sk-proj, Xq81"), "sk-proj, Xq81");

        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-ratelimit-limit-sk-proj-xq81bcdefghijklm", "60"),
            ("x-ratelimit-remaining-sk_proj_xq81bcdefghijklm", "59"),
            ("x-ratelimit-limit-xq81bcdefghi", "60"),
            ("x-ratelimit-reset", "SK-PROJ-XQ81BCDEFGHIJKLM"),
            ("x-ratelimit-limit-project", "60"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        key.strip(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-ratelimit-limit-project"]);
    }

    #[test]
    fn a_short_key_does_not_eat_other_words() {
        assert_eq!(key("none").hide("none of it, nonetheless: key none"), "[key] of it, [key]: key [key]");
        assert_eq!(key("a").scrub("a banana"), "a banana");
    }

    #[test]
    fn a_key_in_place_of_a_variable_is_never_repeated() {
        let secret = "sk-live-0123456789abcdefghij";
        for value in [None, Some(OsString::from("x"))] {
            let error = Key::from_variable(secret, value).unwrap_err();
            assert!(!error.to_string().contains("0123"), "{error}");
        }
        let error = Key::from_variable("gone", None).unwrap_err();
        assert!(error.to_string().contains("not set") && !error.to_string().contains("gone"), "{error}");
        for wrong in ["", "  ", "two words", "l\u{e9}", "a\u{7}b"] {
            assert!(matches!(Key::from_variable("A_KEY", Some(wrong.into())), Err(ProbeError::NoKey)), "{wrong:?}");
        }
        assert_eq!(key(" padded-key\n").header_value("").unwrap(), "padded-key");
    }
}
