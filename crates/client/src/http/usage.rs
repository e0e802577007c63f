//! What an answer used, read out of its body as it passes by.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{header, response};
use serde::Deserialize;

use crate::report::Report;

/// The longest body, or line of a stream, that is looked into.
const LONGEST: usize = 16 * 1024 * 1024;

/// Reads a body as it passes by.
pub trait ReadUsage: Send + Sync {
    /// A piece of the body, in order.
    fn read(&mut self, piece: &Bytes);

    /// What the call used, as far as it was read; `None`: unknown. `is_whole` is false when the caller left, or the connection broke,
    /// before the end.
    fn usage(&mut self, is_whole: bool) -> Option<Usage>;

    /// Whether the answer itself said that it is over: many callers leave then, without reading on to the end of the body.
    fn is_over(&self) -> bool {
        false
    }

    /// An error that the answer holds although its status is a good one, as it was received.
    fn error(&self) -> Option<&[u8]> {
        None
    }
}

/// Units that a call used, by meter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Meter -> units.
    pub units: BTreeMap<String, u64>,
    /// Whether they are counted by us instead of told by the provider.
    pub is_estimated: bool,
}

impl Usage {
    pub(crate) fn onto(self, report: Report) -> Report {
        let report = if self.is_estimated { report.usage_is_estimated() } else { report };
        self.units.into_iter().fold(report, |report, (meter, units)| report.usage(meter, units))
    }
}

/// Reads `usage` as OpenAI (chat completions, responses, embeddings), Anthropic and Gemini write it, in a JSON body or in the events of a
/// stream. The input is what their limits count: cached input is in OpenAI's and not in Anthropic's; `cached_input_tokens` tells it apart.
/// Of a stream that does not say (OpenAI's without `stream_options.include_usage`, or one that was cut off) the output is counted, a
/// token for each event with content, and marked as estimated. An error among the events is reported as the body of one.
pub fn llm_usage(answer: &response::Parts) -> Option<Box<dyn ReadUsage>> {
    let is_packed = answer.headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity");
    let kind = answer.headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    match (is_packed, kind.contains("event-stream"), kind.contains("json")) {
        (false, true, _) => Some(Box::new(Events::default())),
        (false, false, true) => Some(Box::new(Whole::default())),
        _ => None,
    }
}

/// A JSON body.
#[derive(Default)]
struct Whole {
    read: Vec<u8>,
    is_too_long: bool,
}

impl ReadUsage for Whole {
    fn read(&mut self, piece: &Bytes) {
        self.is_too_long |= self.read.len().saturating_add(piece.len()) > LONGEST;
        if self.is_too_long {
            self.read = Vec::new();
        } else {
            self.read.extend_from_slice(piece);
        }
    }

    fn usage(&mut self, is_whole: bool) -> Option<Usage> {
        let mut tokens = Tokens::default();
        tokens.add(serde_json::from_slice::<Said>(&self.read).ok().filter(|_| is_whole)?);
        let units = tokens.units();
        (!units.is_empty()).then_some(Usage { units, is_estimated: false })
    }
}

/// The events of a stream, line by line.
#[derive(Default)]
struct Events {
    line: Vec<u8>,
    tokens: Tokens,
    /// Events that carried something.
    contents: u64,
    is_over: bool,
    error: Option<Vec<u8>>,
}

impl Events {
    fn line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let Some(data) = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii) else { return };
        self.is_over |= data == b"[DONE]";
        let Ok(said) = serde_json::from_slice::<Said>(data) else { return };
        self.is_over |= matches!(said.kind.as_deref(), Some("message_stop" | "response.completed" | "response.incomplete"));
        if self.error.is_none() && said.is_error() {
            self.error = Some(data.to_vec());
        }
        let has_content =
            said.usage.is_none() && said.usage_metadata.is_none() && said.message.is_none() && said.response.is_none();
        self.contents += u64::from(has_content);
        self.tokens.add(said);
    }
}

impl ReadUsage for Events {
    fn read(&mut self, piece: &Bytes) {
        for byte in piece {
            match byte {
                b'\n' => self.line(),
                byte if self.line.len() < LONGEST => self.line.push(*byte),
                _ => {}
            }
        }
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn error(&self) -> Option<&[u8]> {
        self.error.as_deref()
    }

    fn usage(&mut self, is_whole: bool) -> Option<Usage> {
        let mut units = self.tokens.units();
        let told = units.get("output_tokens").copied();
        // Anthropic says at the start that there is one token of output, and the truth at the end.
        let is_estimated = told.is_none() || !is_whole && !self.is_over && told < Some(self.contents);
        if is_estimated && self.contents > 0 {
            units.insert("output_tokens".into(), self.contents);
        }
        (!units.is_empty()).then_some(Usage { units, is_estimated })
    }
}

/// Where providers write usage: at the top, in the message of an event, in the response of an event.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Said {
    #[serde(rename = "type")]
    kind: Option<String>,
    error: Option<serde::de::IgnoredAny>,
    usage: Option<Tokens>,
    #[serde(rename = "usageMetadata")]
    usage_metadata: Option<Tokens>,
    message: Option<Within>,
    response: Option<Within>,
}

impl Said {
    fn is_error(&self) -> bool {
        self.error.is_some() || matches!(self.kind.as_deref(), Some("error" | "response.failed"))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Within {
    usage: Option<Tokens>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tokens {
    #[serde(alias = "promptTokenCount")]
    prompt_tokens: Option<u64>,
    #[serde(alias = "candidatesTokenCount")]
    completion_tokens: Option<u64>,
    #[serde(rename = "thoughtsTokenCount")]
    thoughts: Option<u64>,
    #[serde(rename = "cachedContentTokenCount")]
    cached_content: Option<u64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    prompt_tokens_details: Option<Cached>,
    input_tokens_details: Option<Cached>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cached {
    cached_tokens: Option<u64>,
}

impl Tokens {
    /// What was said later counts.
    fn add(&mut self, said: Said) {
        let within = [said.message, said.response].into_iter().flatten().filter_map(|within| within.usage);
        for later in within.chain(said.usage).chain(said.usage_metadata) {
            let Self { prompt_tokens, completion_tokens, input_tokens, output_tokens, .. } = later;
            self.prompt_tokens = prompt_tokens.or(self.prompt_tokens);
            self.completion_tokens = completion_tokens.or(self.completion_tokens);
            self.input_tokens = input_tokens.or(self.input_tokens);
            self.output_tokens = output_tokens.or(self.output_tokens);
            self.prompt_tokens_details = later.prompt_tokens_details.or(self.prompt_tokens_details.take());
            self.input_tokens_details = later.input_tokens_details.or(self.input_tokens_details.take());
            self.thoughts = later.thoughts.or(self.thoughts);
            self.cached_content = later.cached_content.or(self.cached_content);
            self.cache_read_input_tokens = later.cache_read_input_tokens.or(self.cache_read_input_tokens);
            self.cache_creation_input_tokens = later.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        }
    }

    fn units(&self) -> BTreeMap<String, u64> {
        let details = self.prompt_tokens_details.as_ref().or(self.input_tokens_details.as_ref());
        let cached = self.cache_read_input_tokens.or(self.cached_content);
        let cached = cached.or(details.and_then(|details| details.cached_tokens));
        let written = self.cache_creation_input_tokens.unwrap_or(0);
        let input = self.input_tokens.or(self.prompt_tokens).map(|input| input.saturating_add(written));
        let output = self.output_tokens.or(self.completion_tokens);
        let units = [
            ("input_tokens", input),
            ("output_tokens", output.map(|output| output.saturating_add(self.thoughts.unwrap_or(0)))),
            ("cached_input_tokens", cached.filter(|cached| *cached > 0)),
        ];
        units.into_iter().filter_map(|(meter, units)| Some((meter.to_owned(), units?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: &str, pieces: &[&str], is_whole: bool) -> Option<Usage> {
        let (parts, ()) = http::Response::builder().header("content-type", kind).body(()).unwrap().into_parts();
        let mut usage = llm_usage(&parts)?;
        for piece in pieces {
            usage.read(&Bytes::copy_from_slice(piece.as_bytes()));
        }
        usage.usage(is_whole)
    }

    fn units(input: u64, output: u64, cached: u64) -> BTreeMap<String, u64> {
        let all = [("input_tokens", input), ("output_tokens", output), ("cached_input_tokens", cached)];
        all.into_iter().filter(|(_, units)| *units > 0).map(|(meter, units)| (meter.to_owned(), units)).collect()
    }

    #[test]
    fn bodies_say_what_they_used_in_each_providers_words() {
        for (body, expected) in [
            (r#"{"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}"#, units(9, 4, 0)),
            (
                r#"{"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":8}}}"#,
                units(9, 4, 8),
            ),
            (r#"{"usage":{"input_tokens":9,"output_tokens":4,"input_tokens_details":{"cached_tokens":8}}}"#, units(9, 4, 8)),
            (
                r#"{"usage":{"input_tokens":3,"cache_read_input_tokens":80,"cache_creation_input_tokens":6,"output_tokens":4}}"#,
                units(9, 4, 80),
            ),
            (r#"{"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3,"thoughtsTokenCount":1}}"#, units(9, 4, 0)),
        ] {
            let (start, end) = body.split_at(12);
            assert_eq!(
                read("application/json", &[start, end], true),
                Some(Usage { units: expected, is_estimated: false }),
                "{body}"
            );
        }
        assert_eq!(read("application/json", &["{\"data\":[]}"], true), None);
        assert_eq!(read("application/json", &["{\"usage\":{\"prompt_tok"], false), None);
        assert_eq!(read("image/png", &["\u{1}"], true), None);
    }

    const CHAT: &[&str] = &[
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\nda",
        "ta: {\"choices\":[{\"delta\":{\"content\":\"b\"}}],\"usage\":null}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n",
    ];
    const MESSAGES: &[&str] = &[
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n",
        "event: content_block_delta\r\ndata: {\"delta\":{\"text\":\"a\"}}\r\n\r\ndata: {\"delta\":{\"text\":\"b\"}}\r\n\r\n",
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":7}}\n\n",
    ];

    #[test]
    fn streams_say_it_at_their_end() {
        for (stream, output) in [(CHAT, 2), (MESSAGES, 7)] {
            let usage = read("text/event-stream; charset=utf-8", stream, true).unwrap();
            assert_eq!(usage, Usage { units: units(9, output, 0), is_estimated: false });
        }
        let response =
            "data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":9,\"output_tokens\":3}}}\n\n";
        assert_eq!(read("text/event-stream", &[response], true).unwrap().units, units(9, 3, 0));
    }

    #[test]
    fn what_a_stream_does_not_say_is_counted_and_called_an_estimate() {
        let cut = |stream: &[&str]| read("text/event-stream", &stream[..2], false).unwrap();
        assert_eq!(cut(CHAT), Usage { units: units(0, 2, 0), is_estimated: true });
        assert_eq!(cut(MESSAGES), Usage { units: units(9, 2, 0), is_estimated: true });
        let silent = read("text/event-stream", &CHAT[..2], true).unwrap();
        assert_eq!(silent, Usage { units: units(0, 2, 0), is_estimated: true }, "without include_usage");
        assert_eq!(read("text/event-stream", &[], false), None);
    }

    #[test]
    fn a_stream_says_that_it_is_over_and_what_went_wrong() {
        let read = |events: &[&str]| {
            let mut read = Events::default();
            events.iter().for_each(|event| read.read(&Bytes::copy_from_slice(event.as_bytes())));
            (read.is_over(), read.error().map(|error| String::from_utf8_lossy(error).into_owned()))
        };
        assert_eq!((read(CHAT), read(&CHAT[..2])), ((true, None), (false, None)));
        assert_eq!(read(&["data: {\"type\": \"message_stop\"}\n"]), (true, None));
        let overloaded = "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}";
        assert_eq!(read(&["event: error\ndata: ", overloaded, "\n\n"]), (false, Some(overloaded.to_owned())));
    }
}
