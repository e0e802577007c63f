//! The body of a refusal: codes, sentences, and waits in either.

use std::borrow::Cow;

use paceline_core::signal::Source;
use paceline_core::units::Span;
use serde_json::{Map, Value};

use super::clock::Clock;
use super::reading::Rule;
use super::sentence::wait_after;
use super::waits::{Wait, usable};
use crate::answer::{Answer, BODY_BYTES_READ};
use crate::catalogue::{BodyFacts, BodyPath, Provider};
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
        if text.is_empty() || text.starts_with('<') || (is_success && !provider.looks_into_success(text)) {
            return Self::Nothing;
        }
        let text = event_with_error(text).unwrap_or(text);
        if !text.starts_with(['{', '[']) {
            // What a model says may speak of limits, too.
            return if is_success { Self::Nothing } else { Self::Text(text.to_owned()) };
        }
        match serde_json::from_str(text).or_else(|_| serde_json::from_str(&closed(text))) {
            Ok(value) => Self::Json(value, &provider.facts().body),
            Err(_) => Self::Text(text.to_owned()),
        }
    }

    /// The first usable wait of the rules; the longest of one rule's fields.
    pub(super) fn wait(&self, provider: &Provider, clock: &Clock) -> Option<Wait> {
        provider.facts().body.waits.iter().find_map(|fact| {
            let fields = fact.fields.iter().filter_map(|path| self.field_wait(path, &fact.forms, clock));
            // The first of equals: `max_by_key` would take the last.
            let longest = fields.reduce(|one, other| if other.span > one.span { other } else { one });
            longest.or_else(|| fact.after.iter().find_map(|phrase| self.sentence_wait(phrase, clock)))
        })
    }

    /// Calls `found` with every object at this place.
    pub(super) fn objects(&self, path: &BodyPath, found: &mut dyn FnMut(&Map<String, Value>)) {
        let Self::Json(value, _) = self else { return };
        path.visit(value, &mut |place| {
            if let Value::Object(object) = place {
                found(object);
            }
        });
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
        path.visit(value, &mut |found| {
            let text = text_of(found).or_else(|| seconds_and_nanos(found).map(Cow::Owned));
            let read = text.and_then(|text| usable(text.trim(), forms, clock));
            longest = longest.max(read.map(|(span, _)| span));
        });
        Some(Wait { span: longest?, source: Source::ErrorBody, field: format!("body {path}"), rule: Rule::BodyField })
    }

    fn sentence_wait(&self, phrase: &str, clock: &Clock) -> Option<Wait> {
        let (field, span) = match self {
            Self::Nothing => None,
            Self::Text(text) => wait_after(text, phrase, clock).map(|span| ("body".to_owned(), span)),
            Self::Json(value, facts) => facts.texts.iter().find_map(|path| {
                let mut longest: Option<Span> = None;
                path.visit(value, &mut |scalar| {
                    longest = longest.max(scalar.as_str().and_then(|text| wait_after(text, phrase, clock)));
                });
                longest.map(|span| (format!("body {path}"), span))
            }),
        }?;
        Some(Wait { span, source: Source::ErrorBody, field, rule: Rule::BodySentence })
    }
}

/// google.protobuf.Duration as some clients write it: `{"seconds": 34, "nanos": 500000000}`.
fn seconds_and_nanos(value: &Value) -> Option<String> {
    let part = |name: &str| value.get(name).map_or(Some(0), |part| text_of(part)?.parse::<u64>().ok());
    let has_either = value.get("seconds").is_some() || value.get("nanos").is_some();
    let nanos = part("nanos").filter(|nanos| *nanos < 1_000_000_000)?;
    has_either.then_some(format!("{}.{nanos:09}s", part("seconds")?))
}

/// Strings and numbers.
pub(super) fn text_of(scalar: &Value) -> Option<Cow<'_, str>> {
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

/// The last error in a stream of events (`data: {"error": ...}`), which is how a refusal ends an answer that had begun.
fn event_with_error(text: &str) -> Option<&str> {
    let mut payloads = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    payloads.rfind(|payload| payload.starts_with('{') && payload.contains("\"error\""))
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
