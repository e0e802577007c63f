//! What a request to a provider of language models costs, by a look at its body.

use http::Method;
use serde_json::Value;

use crate::ask::Ask;
use crate::http::Outgoing;

/// Bytes of text that count as a token: a little much for most languages.
const BYTES_PER_TOKEN: u64 = 4;
/// Roles and separators around a message.
const TOKENS_PER_MESSAGE: u64 = 4;
/// An image, a sound or a file: about what a page of text costs.
const TOKENS_PER_FILE: u64 = 1_000;
/// Fields whose text is no part of the prompt.
const NO_TEXT: [&str; 11] =
    ["model", "role", "type", "id", "tool_call_id", "tool_use_id", "call_id", "media_type", "mimeType", "format", "user"];
/// Fields that hold a file, or name one.
const FILES: [&str; 7] = ["data", "b64_json", "file_data", "fileUri", "file_id", "signature", "encrypted_content"];
/// Names of the most that may be answered.
const MOST_OUTPUT: [&str; 4] = ["max_completion_tokens", "max_output_tokens", "max_tokens", "maxOutputTokens"];

/// The ask of a request as OpenAI, Anthropic and Gemini take it: a POST of JSON that names a `model`, or whose path does. The input is
/// estimated from its text, four bytes a token; the output is the most it may be (`max_tokens` and its other names, times `n`). What
/// cannot be seen (an answer without a bound, a conversation that the provider keeps) is not stated: the service charges what such calls
/// cost lately. Counting tokens costs none and is not asked for.
pub fn llm_ask(provider: &str, request: &Outgoing<'_>) -> Option<Ask> {
    let path = request.uri.path();
    if request.method != Method::POST || path.ends_with("/count_tokens") || path.ends_with(":countTokens") {
        return None;
    }
    let body: Value = serde_json::from_slice(request.body?).ok()?;
    let model = body.get("model").and_then(Value::as_str).or_else(|| model_in(path))?;
    let mut ask = Ask::new(provider).model(model).cost_is_estimated();
    let is_kept_there =
        ["previous_response_id", "conversation", "cachedContent"].iter().any(|name| body.get(name).is_some_and(is_set));
    if !is_kept_there {
        ask = ask.cost("input_tokens", input(&body));
    }
    let is_without_output = path.ends_with("/embeddings") || path.ends_with(":embedContent");
    match most_output(&body) {
        _ if is_without_output => Some(ask.cost("output_tokens", 0)),
        Some(tokens) => Some(ask.cost("output_tokens", tokens)),
        None => Some(ask),
    }
}

/// `/v1beta/models/NAME:generateContent`.
fn model_in(path: &str) -> Option<&str> {
    let (model, _) = path.rsplit_once("/models/")?.1.split_once(':')?;
    Some(model).filter(|model| !model.is_empty())
}

fn is_set(value: &Value) -> bool {
    !matches!(value, Value::Null) && value.as_str() != Some("")
}

fn most_output(body: &Value) -> Option<u64> {
    let parts = [Some(body), body.get("generationConfig")];
    let most = parts.into_iter().flatten().find_map(|part| MOST_OUTPUT.iter().find_map(|name| part.get(name)?.as_u64()))?;
    Some(most.saturating_mul(body.get("n").and_then(Value::as_u64).unwrap_or(1).max(1)))
}

fn input(body: &Value) -> u64 {
    let mut found = Found::default();
    found.add("", body);
    found.bytes.div_ceil(BYTES_PER_TOKEN).saturating_add(found.tokens).max(1)
}

/// What is in a body: text, and what counts as tokens without being any.
#[derive(Default)]
struct Found {
    bytes: u64,
    tokens: u64,
}

impl Found {
    fn add(&mut self, name: &str, value: &Value) {
        match value {
            Value::String(text) => self.add_text(name, text),
            // Tokens already, as embeddings take them.
            Value::Array(values) if values.iter().all(Value::is_u64) => self.tokens += as_u64(values.len()),
            Value::Array(values) => values.iter().for_each(|value| self.add(name, value)),
            Value::Object(fields) => {
                self.tokens += if fields.contains_key("role") { TOKENS_PER_MESSAGE } else { 0 };
                fields.iter().for_each(|(name, value)| self.add(name, value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn add_text(&mut self, name: &str, text: &str) {
        let is_address = matches!(name, "url" | "image_url") && text.starts_with("http");
        if FILES.contains(&name) || text.starts_with("data:") || is_address {
            self.tokens += TOKENS_PER_FILE;
        } else if !NO_TEXT.contains(&name) {
            self.bytes += as_u64(text.len());
        }
    }
}

fn as_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use http::{HeaderMap, Uri};
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::ask::Defaults;

    fn ask(method: Method, path: &str, body: &Value) -> Option<(String, BTreeMap<String, u64>)> {
        let (uri, body) = (path.parse::<Uri>().unwrap(), body.to_string());
        let request = Outgoing { method: &method, uri: &uri, headers: &HeaderMap::new(), body: Some(body.as_bytes()) };
        let request = llm_ask("openai", &request)?.start(&Defaults::default()).request_at(Instant::now());
        assert!(request.cost_estimated);
        Some((request.target.unwrap().model, request.cost))
    }

    fn cost(path: &str, body: &Value) -> BTreeMap<String, u64> {
        ask(Method::POST, path, body).unwrap().1
    }

    #[test]
    fn a_chat_costs_its_text_and_the_most_it_may_answer() {
        let chat = "/v1/chat/completions";
        let mut body = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "x".repeat(400)}], "max_tokens": 50});
        let (model, found) = ask(Method::POST, chat, &body).unwrap();
        assert_eq!((model.as_str(), found["input_tokens"], found["output_tokens"]), ("gpt-4o", 104, 50));
        body["n"] = json!(3);
        assert_eq!(cost(chat, &body)["output_tokens"], 150);
        body["max_tokens"] = Value::Null;
        assert!(!cost(chat, &body).contains_key("output_tokens"), "the service learns it");
    }

    #[test]
    fn every_kind_of_body_is_looked_into() {
        let responses = json!({"model": "m", "input": "y".repeat(800), "max_output_tokens": 9});
        assert_eq!(cost("/v1/responses", &responses), [("input_tokens".into(), 200), ("output_tokens".into(), 9)].into());
        let goes_on = json!({"model": "m", "input": "and?", "previous_response_id": "resp_1"});
        assert!(cost("/v1/responses", &goes_on).is_empty(), "nobody here sees what was said before");
        let texts = json!({"model": "m", "input": ["a".repeat(40), "b".repeat(40)]});
        assert_eq!(cost("/v1/embeddings", &texts), [("input_tokens".into(), 20), ("output_tokens".into(), 0)].into());
        let tokens = json!({"model": "m", "input": [1, 2, 3, 4]});
        assert_eq!(cost("/v1/embeddings", &tokens)["input_tokens"], 4);
        let image =
            json!({"model": "m", "max_tokens": 1, "messages": [{"content": [{"source": {"data": "iVBO".repeat(5_000)}}]}]});
        assert_eq!(cost("/v1/messages", &image)["input_tokens"], TOKENS_PER_FILE);
        let gemini = json!({"contents": [{"parts": [{"text": "z".repeat(40)}]}], "generationConfig": {"maxOutputTokens": 7}});
        let (model, found) = ask(Method::POST, "/v1beta/models/gemini-2.5-pro:generateContent", &gemini).unwrap();
        assert_eq!((model.as_str(), found["input_tokens"], found["output_tokens"]), ("gemini-2.5-pro", 10, 7));
    }

    #[test]
    fn what_is_no_call_of_a_model_is_not_asked_for() {
        let body = json!({"model": "m", "messages": []});
        assert!(ask(Method::GET, "/v1/models", &body).is_none());
        assert!(ask(Method::POST, "/v1/messages/count_tokens", &body).is_none());
        assert!(ask(Method::POST, "/v1/files", &json!({"purpose": "batch"})).is_none());
        let request = Outgoing { method: &Method::POST, uri: &Uri::from_static("/x"), headers: &HeaderMap::new(), body: None };
        assert!(llm_ask("openai", &request).is_none());
    }
}
