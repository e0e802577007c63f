//! Reads what a call costs from its HTTP request: what the test states, else what a real provider would reserve.

use axum::http::HeaderMap;
use serde_json::Value;

use crate::limit::MOST_UNITS;
use crate::provider::{Call, Cost, Endpoint};

/// The prefix of headers that state a cost: `x-mock-cost-tokens: 1250`.
const COST_HEADER: &str = "x-mock-cost-";
/// The model of a request that names none.
const NO_MODEL: &str = "mock-model";
/// The longest model name kept, in characters.
const MOST_MODEL_CHARS: usize = 200;
/// What an answer is reckoned at where the request sets no limit to it, in tokens.
const USUAL_OUTPUT_TOKENS: u64 = 256;
/// Rule of thumb for English text (OpenAI, "What are tokens and how to count them?").
const CHARS_PER_TOKEN: u64 = 4;

/// The call in a request; an error is a sentence for the caller.
pub(crate) fn read_call(path: &str, headers: &HeaderMap, body: &[u8]) -> Result<Call, String> {
    // Whatever is no JSON has no model and no cost of its own: any client may call any path.
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    let endpoint = match path.trim_end_matches('/') {
        path if path.ends_with("/chat/completions") => Endpoint::ChatCompletions,
        path if path.ends_with("/messages") => Endpoint::Messages,
        _ => Endpoint::Other,
    };
    let model: String = json.get("model").and_then(Value::as_str).unwrap_or(NO_MODEL).chars().take(MOST_MODEL_CHARS).collect();
    let stream = json.get("stream").and_then(Value::as_bool).unwrap_or(false);
    let mut cost = if endpoint == Endpoint::Other { Cost::one() } else { reserved(&json) };
    cost = stated_in_body(cost, &json)?;
    cost = stated_in_headers(cost, headers)?;
    let used = stated_use(&cost, &json)?;
    Ok(Call { model: model.as_str().into(), cost, used, takes: None, endpoint, stream })
}

/// Input by length, output by what the request allows at most: counted on arrival, as OpenAI does.
fn reserved(json: &Value) -> Cost {
    let text = json.get("messages").map_or(0, text_chars) + json.get("system").map_or(0, text_chars);
    let input = text.div_ceil(CHARS_PER_TOKEN);
    let most = ["max_completion_tokens", "max_tokens"].iter().find_map(|field| json.get(field).and_then(Value::as_u64));
    let output = most.unwrap_or(USUAL_OUTPUT_TOKENS).min(MOST_UNITS);
    Cost::one().with("input_tokens", input).with("output_tokens", output).with("tokens", input.saturating_add(output))
}

/// Characters of all text in a message or list of messages; names of fields and encoded images do not count.
fn text_chars(value: &Value) -> u64 {
    match value {
        Value::String(text) => u64::try_from(text.chars().count()).unwrap_or(u64::MAX),
        Value::Array(parts) => parts.iter().map(text_chars).fold(0, u64::saturating_add),
        Value::Object(fields) => ["content", "text"].iter().filter_map(|field| fields.get(*field)).map(text_chars).sum(),
        _ => 0,
    }
}

/// `"mock_cost": 1250` (tokens) or `"mock_cost": {"tokens": 1250, "requests": 1}`.
fn stated_in_body(cost: Cost, json: &Value) -> Result<Cost, String> {
    match json.get("mock_cost") {
        None | Some(Value::Null) => Ok(cost),
        Some(Value::Object(fields)) => with_all(cost, "mock_cost", fields),
        Some(value) => Ok(cost.with("tokens", units("mock_cost", "tokens", value)?)),
    }
}

/// What is said to be used in the end: `"mock_used": 300` (of the output) or `"mock_used": {"output_tokens": 300}`.
fn stated_use(cost: &Cost, json: &Value) -> Result<Option<Cost>, String> {
    let used = match json.get("mock_used") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(fields)) => with_all(cost.clone(), "mock_used", fields)?,
        Some(value) => {
            let output = units("mock_used", "output_tokens", value)?;
            let others = cost.of("tokens").saturating_sub(cost.of("output_tokens"));
            cost.clone().with("output_tokens", output).with("tokens", others.saturating_add(output))
        }
    };
    Ok(Some(used))
}

fn with_all(mut cost: Cost, field: &str, fields: &serde_json::Map<String, Value>) -> Result<Cost, String> {
    for (meter, value) in fields {
        cost = cost.with(meter, units(field, meter, value)?);
    }
    Ok(cost)
}

fn units(field: &str, meter: &str, value: &Value) -> Result<u64, String> {
    let units = value.as_u64().filter(|units| *units <= MOST_UNITS);
    units.ok_or_else(|| format!("{field}: {value} is no cost in {meter}; write a whole number from 0 to 10^15"))
}

fn stated_in_headers(mut cost: Cost, headers: &HeaderMap) -> Result<Cost, String> {
    for (name, value) in headers {
        let Some(meter) = name.as_str().strip_prefix(COST_HEADER) else { continue };
        let units = value.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok()).filter(|units| *units <= MOST_UNITS);
        let units = units.ok_or_else(|| format!("{name}: not a cost; write a whole number from 0 to 10^15"))?;
        cost = cost.with(&meter.replace('-', "_"), units);
    }
    Ok(cost)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn chat_costs_prompt_and_allowed_output() {
        let body = br#"{"model":"gpt-4o","max_tokens":100,"messages":[{"role":"user","content":"12345678"},
            {"role":"user","content":[{"type":"text","text":"1234"},{"type":"image_url","image_url":{"url":"data:xxxx"}}]}]}"#;
        let call = read_call("/v1/chat/completions", &HeaderMap::new(), body).unwrap();
        assert_eq!(&*call.model, "gpt-4o");
        assert_eq!(call.endpoint, Endpoint::ChatCompletions);
        assert_eq!(
            ["requests", "input_tokens", "output_tokens", "tokens", "images"].map(|meter| call.cost.of(meter)),
            [1, 3, 100, 103, 0]
        );
    }

    #[test]
    fn stated_costs_win_and_headers_have_the_last_word() {
        let body = br#"{"mock_cost":{"tokens":7,"requests":2},"stream":true}"#;
        let call = read_call("/v1/messages", &headers(&[("x-mock-cost-input-tokens", "9")]), body).unwrap();
        assert_eq!(["requests", "tokens", "input_tokens"].map(|meter| call.cost.of(meter)), [2, 7, 9]);
        assert!(call.stream && call.endpoint == Endpoint::Messages);
        let call = read_call("/x", &headers(&[("x-mock-cost-tokens", "5")]), br#"{"mock_cost":1250}"#).unwrap();
        assert_eq!(["requests", "tokens", "output_tokens"].map(|meter| call.cost.of(meter)), [1, 5, 0]);
    }

    #[test]
    fn what_is_used_in_the_end() {
        let body = br#"{"max_tokens":100,"mock_used":30,"messages":[{"content":"12345678"}]}"#;
        let call = read_call("/v1/messages", &HeaderMap::new(), body).unwrap();
        assert_eq!(["output_tokens", "tokens"].map(|meter| call.used().of(meter)), [30, 32]);
        assert_eq!(["output_tokens", "tokens"].map(|meter| call.cost.of(meter)), [100, 102]);
        let call = read_call("/x", &HeaderMap::new(), br#"{"mock_used":{"images":3}}"#).unwrap();
        assert_eq!((call.used().of("images"), call.used().of("requests")), (3, 1));
        assert!(read_call("/x", &HeaderMap::new(), br#"{"mock_used":"few"}"#).unwrap_err().contains("mock_used"));
    }

    #[test]
    fn bad_costs_are_refused_and_bad_bodies_are_not() {
        for body in [r#"{"mock_cost":-1}"#, r#"{"mock_cost":{"tokens":"many"}}"#, r#"{"mock_cost":1e300}"#] {
            let error = read_call("/", &HeaderMap::new(), body.as_bytes()).unwrap_err();
            assert!(error.contains("whole number"), "{error}");
        }
        let error = read_call("/", &headers(&[("x-mock-cost-tokens", "many")]), b"").unwrap_err();
        assert!(error.contains("x-mock-cost-tokens"), "{error}");
        for body in [&b""[..], b"{", b"\xff\xfe", b"[[[[", br#"{"model":5}"#] {
            assert_eq!(&*read_call("/", &HeaderMap::new(), body).unwrap().model, NO_MODEL);
        }
        let long = format!(r#"{{"model":"{}"}}"#, "m".repeat(10_000));
        assert_eq!(read_call("/", &HeaderMap::new(), long.as_bytes()).unwrap().model.len(), MOST_MODEL_CHARS);
    }
}
