//! The body of a refusal: codes, sentences, and waits in either.

use std::borrow::Cow;

use paceline_core::signal::Source;
use paceline_core::units::Span;
use serde_json::Value;

use super::clock::Clock;
use super::reading::Rule;
use super::waits::{Wait, usable};
use crate::answer::{Answer, BODY_BYTES_READ};
use crate::catalogue::{BodyFacts, BodyPath, Provider};
use crate::value::duration;
use crate::value::number::Number;
use crate::value::time::TimeForm;

/// What of a body is worth reading.
pub(super) enum Body<'p> {
    /// Empty, a success that no rule looks into, a page for a browser, or no text.
    Nothing,
    /// A sentence.
    Text(String),
    /// Fields.
    Json(Value, &'p BodyFacts),
}

impl<'p> Body<'p> {
    /// Looks at the start of the body. What is not JSON is a sentence, unless it is a page for a browser.
    pub(super) fn parse(provider: &'p Provider, answer: &Answer<'_>, grpc: Option<u32>) -> Self {
        let is_success = (200..400).contains(&answer.status) && grpc.unwrap_or(0) == 0;
        let start = answer.body.get(..BODY_BYTES_READ).unwrap_or(answer.body);
        let text = String::from_utf8_lossy(start);
        let text = text.trim();
        if text.is_empty() || text.starts_with('<') || (is_success && !provider.looks_into_successes()) {
            return Self::Nothing;
        }
        if !text.starts_with(['{', '[']) {
            return Self::Text(text.to_owned());
        }
        match serde_json::from_str(text).or_else(|_| serde_json::from_str(&closed(text))) {
            Ok(value) => Self::Json(value, &provider.facts().body),
            Err(_) => Self::Text(text.to_owned()),
        }
    }

    /// The first usable wait of the rules.
    pub(super) fn wait(&self, provider: &Provider, clock: &Clock) -> Option<Wait> {
        provider.facts().body.waits.iter().find_map(|fact| {
            let field = fact.fields.iter().find_map(|path| self.field_wait(path, &fact.forms, clock));
            field.or_else(|| fact.after.iter().find_map(|phrase| self.sentence_wait(phrase, clock)))
        })
    }

    /// The number at a place; the first one when there are several.
    pub(super) fn number(&self, path: &BodyPath) -> Option<Number> {
        let Self::Json(value, _) = self else { return None };
        let mut first = None;
        path.visit(value, &mut |scalar| {
            first = first.or_else(|| text_of(scalar).and_then(|text| Number::parse(text.trim())));
        });
        first
    }

    /// Whether a code of the body is one of these.
    pub(super) fn has_code(&self, codes: &[String]) -> bool {
        self.any(|facts| &facts.codes, |found| codes.iter().any(|code| bare_code(found).eq_ignore_ascii_case(code)))
    }

    /// Whether a sentence of the body contains one of these.
    pub(super) fn has_text(&self, parts: &[String]) -> bool {
        let contains = |text: &str| {
            let text = text.to_ascii_lowercase();
            parts.iter().any(|part| text.contains(&part.to_ascii_lowercase()))
        };
        match self {
            Self::Text(text) => contains(text),
            _ => self.any(|facts| &facts.texts, contains),
        }
    }

    fn any(&self, paths: impl Fn(&BodyFacts) -> &Vec<BodyPath>, mut is_it: impl FnMut(&str) -> bool) -> bool {
        let Self::Json(value, facts) = self else { return false };
        let mut found = false;
        for path in paths(facts) {
            path.visit(value, &mut |scalar| found = found || text_of(scalar).is_some_and(|text| is_it(&text)));
        }
        found
    }

    fn field_wait(&self, path: &BodyPath, forms: &[TimeForm], clock: &Clock) -> Option<Wait> {
        let Self::Json(value, _) = self else { return None };
        let mut longest: Option<Span> = None;
        path.visit(value, &mut |scalar| {
            let read = text_of(scalar).and_then(|text| usable(text.trim(), forms, clock));
            longest = longest.max(read.map(|(span, _)| span));
        });
        Some(Wait { span: longest?, source: Source::ErrorBody, field: format!("body {path}"), rule: Rule::BodyField })
    }

    fn sentence_wait(&self, phrase: &str, clock: &Clock) -> Option<Wait> {
        let (field, span) = match self {
            Self::Nothing => None,
            Self::Text(text) => wait_after(text, phrase).map(|span| ("body".to_owned(), span)),
            Self::Json(value, facts) => facts.texts.iter().find_map(|path| {
                let mut longest: Option<Span> = None;
                path.visit(value, &mut |scalar| {
                    longest = longest.max(scalar.as_str().and_then(|text| wait_after(text, phrase)));
                });
                longest.map(|span| (format!("body {path}"), span))
            }),
        }?;
        let span = clock.until(crate::value::time::When::In(span))?;
        Some(Wait { span, source: Source::ErrorBody, field, rule: Rule::BodySentence })
    }
}

/// Strings and numbers.
fn text_of(scalar: &Value) -> Option<Cow<'_, str>> {
    match scalar {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        _ => None,
    }
}

/// `com.amazon.coral#ThrottlingException` and `ThrottlingException:http://...` are `ThrottlingException`.
pub(super) fn bare_code(code: &str) -> &str {
    let after = code.rsplit_once('#').map_or(code, |(_, after)| after);
    after.split_once(':').map_or(after, |(before, _)| before).trim()
}

/// The wait that a sentence states after a phrase: `try again in 6.12s`, `resets in ~5s`, `replenished in 00:30:02`. A bare
/// number is seconds when the sentence ends with it.
fn wait_after(text: &str, phrase: &str) -> Option<Span> {
    // Lower case of ASCII keeps every byte's place.
    let lower = text.to_ascii_lowercase();
    let mut longest = None;
    for (position, _) in lower.match_indices(phrase) {
        let rest = lower.get(position + phrase.len()..)?.trim_start_matches([' ', '~', ':', '"', '\'']);
        let rest = rest.strip_prefix("about ").or_else(|| rest.strip_prefix("approximately ")).unwrap_or(rest);
        let stated = duration::leading_clock(rest).or_else(|| duration::leading(rest)).map(|(span, _)| span);
        longest = longest.max(stated.or_else(|| bare_seconds(rest)));
    }
    longest
}

fn bare_seconds(text: &str) -> Option<Span> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, rest) = text.split_at_checked(end)?;
    let number = Number::parse(number.trim_end_matches('.'))?;
    rest.trim_start()
        .starts_with(|c: char| c.is_alphanumeric())
        .then_some(())
        .map_or(Some(number.as_span(1_000_000)), |()| None)
}

/// A JSON text that was cut off, closed after its last complete member, so that what came before the cut can be read.
fn closed(text: &str) -> String {
    let mut closers: Vec<char> = Vec::new();
    let mut complete = (0, Vec::new());
    let (mut in_string, mut escaped) = (false, false);
    for (position, character) in text.char_indices() {
        match (in_string, character) {
            (true, _) if escaped => escaped = false,
            (true, '\\') => escaped = true,
            (_, '"') => in_string = !in_string,
            (true, _) => {}
            (false, '{') => closers.push('}'),
            (false, '[') => closers.push(']'),
            (false, ',') => complete = (position, closers.clone()),
            (false, '}' | ']') => {
                closers.pop();
                complete = (position + 1, closers.clone());
            }
            _ => {}
        }
    }
    let (end, closers) = complete;
    let mut closed = text.get(..end).unwrap_or("").to_owned();
    closed.extend(closers.iter().rev());
    closed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences() {
        for (text, phrase, millis) in [
            ("Please try again in 6.12s. Visit", "try again in", Some(6_120)),
            ("Please try again in 28ms.", "try again in", Some(28)),
            ("Please Try Again In 1m30.5s.", "try again in", Some(90_500)),
            ("retry after 33 seconds", "retry after", Some(33_000)),
            ("Too Many Requests: retry after 9", "retry after", Some(9_000)),
            ("retry after 9.", "retry after", Some(9_000)),
            ("retry after 9 lives", "retry after", None),
            ("resets in ~5s.", "resets in", Some(5_000)),
            ("replenished in 00:30:02.", "replenished in", Some(1_802_000)),
            ("replenished in 2.12 days.", "replenished in", Some(183_168_000)),
            ("try again in a while", "try again in", None),
            ("try again in 5s or try again in 7s", "try again in", Some(7_000)),
            ("", "try again in", None),
        ] {
            assert_eq!(wait_after(text, phrase).map(Span::as_millis_ceil), millis, "{text}");
        }
    }

    #[test]
    fn a_cut_body_is_read_up_to_the_cut() {
        for (text, expected) in [
            (r#"{"error": {"code": "x", "message": "lo"#, r#"{"error": {"code": "x"}}"#),
            (r#"{"a": [{"b": 1}, {"c"#, r#"{"a": [{"b": 1}]}"#),
            (r#"{"a": "b, c"#, ""),
        ] {
            assert_eq!(closed(text), expected);
        }
    }
}
