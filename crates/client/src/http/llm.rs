//! What a request to a provider of language models costs, by a look at its body.

use http::Method;
use serde_json::Value;

use crate::ask::Ask;
use crate::http::Outgoing;

/// Text as models count it: about four letters a token where they are of the Latin alphabet, one each elsewhere.
const LETTERS_PER_TOKEN: u64 = 4;
/// What a message costs besides its words.
const TOKENS_PER_MESSAGE: u64 = 4;
/// An image or a file inside the body: about what one costs.
const TOKENS_PER_FILE: u64 = 1_000;
/// A word longer than this is no word: it is a file in base64.
const LONGEST_WORD: usize = 1_024;

/// The ask of a request as OpenAI and Anthropic take it: a POST of JSON that names a `model`. The input is estimated from its text
/// (`messages`, `input`, `prompt`, `system`, `tools` and whatever else it holds), the output is the most it may be (`max_tokens` and its
/// other names, times `n`). Without such a bound the output is left to the service, which learns it. Counting tokens costs nothing and
/// is not asked for.
pub fn llm_ask(provider: &str, request: &Outgoing<'_>) -> Option<Ask> {
    if request.method != Method::POST || request.uri.path().ends_with("/count_tokens") {
        return None;
    }
    let body: Value = serde_json::from_slice(request.body?).ok()?;
    let model = body.get("model")?.as_str()?;
    let ask = Ask::new(provider).model(model).cost("input_tokens", input(&body)).cost_is_estimated();
    let is_without_output = request.uri.path().ends_with("/embeddings");
    match most_output(&body) {
        Some(tokens) => Some(ask.cost("output_tokens", tokens)),
        None if is_without_output => Some(ask.cost("output_tokens", 0)),
        None => Some(ask),
    }
}

fn most_output(body: &Value) -> Option<u64> {
    let names = ["max_completion_tokens", "max_output_tokens", "max_tokens"];
    let most = names.iter().find_map(|name| body.get(name)?.as_u64())?;
    Some(most.saturating_mul(body.get("n").and_then(Value::as_u64).unwrap_or(1).max(1)))
}

fn input(body: &Value) -> u64 {
    let messages = ["messages", "input"].iter().filter_map(|name| body.get(name)?.as_array()).map(Vec::len).sum::<usize>();
    let mut text = Text::default();
    text.add(body);
    let words = text.letters.div_ceil(LETTERS_PER_TOKEN).saturating_add(text.signs);
    let messages = u64::try_from(messages).unwrap_or(u64::MAX).saturating_mul(TOKENS_PER_MESSAGE);
    words.saturating_add(messages).saturating_add(text.files.saturating_mul(TOKENS_PER_FILE)).max(1)
}

/// What is in a body's strings.
#[derive(Default)]
struct Text {
    letters: u64,
    signs: u64,
    files: u64,
}

impl Text {
    fn add(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.add_string(text),
            Value::Array(values) => values.iter().for_each(|value| self.add(value)),
            Value::Object(fields) => fields.values().for_each(|value| self.add(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn add_string(&mut self, text: &str) {
        if text.len() > LONGEST_WORD && !text.contains(char::is_whitespace) && text.is_ascii() {
            self.files += 1;
            return;
        }
        for sign in text.chars() {
            if sign.is_ascii() {
                self.letters += 1;
            } else {
                self.signs += 1;
            }
        }
    }
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

    #[test]
    fn a_chat_costs_its_text_and_the_most_it_may_answer() {
        let mut body = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "x".repeat(400)}], "max_tokens": 50});
        let (model, cost) = ask(Method::POST, "/v1/chat/completions", &body).unwrap();
        assert_eq!((model.as_str(), cost["output_tokens"]), ("gpt-4o", 50));
        assert!((100..120).contains(&cost["input_tokens"]), "{cost:?}");
        body["n"] = json!(3);
        assert_eq!(ask(Method::POST, "/v1/chat/completions", &body).unwrap().1["output_tokens"], 150);
        body["max_tokens"] = Value::Null;
        assert!(
            !ask(Method::POST, "/v1/chat/completions", &body).unwrap().1.contains_key("output_tokens"),
            "the service learns it"
        );
    }

    #[test]
    fn every_kind_of_body_is_looked_into() {
        let cost = |path: &str, body: Value| ask(Method::POST, path, &body).unwrap().1;
        let responses = cost("/v1/responses", json!({"model": "m", "input": "y".repeat(800), "max_output_tokens": 9}));
        assert!((200..210).contains(&responses["input_tokens"]) && responses["output_tokens"] == 9, "{responses:?}");
        let embeddings = cost("/v1/embeddings", json!({"model": "m", "input": ["a".repeat(40), "b".repeat(40)]}));
        assert_eq!(embeddings["output_tokens"], 0);
        let chinese =
            cost("/v1/messages", json!({"model": "m", "max_tokens": 1, "messages": [{"content": "\u{4f60}".repeat(100)}]}));
        assert!((100..110).contains(&chinese["input_tokens"]), "{chinese:?}");
        let image =
            json!({"model": "m", "max_tokens": 1, "messages": [{"content": [{"source": {"data": "iVBO".repeat(50_000)}}]}]});
        assert!((1_000..1_010).contains(&cost("/v1/messages", image)["input_tokens"]));
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
