//! Bodies: a plausible completion for a call that passed, an error in the API's own shape for one that did not.

use paceline_core::units::Span;
use serde_json::{Value, json};

use super::headers::go_duration;
use super::{Dialect, Facts, Refusal, Telling};
use crate::provider::{Call, Endpoint};

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const TEXT: &str = "This is a mock answer: the call passed its limits.";

/// A body and its media type.
pub(super) struct Body {
    pub(super) content_type: &'static str,
    pub(super) text: String,
}

impl Body {
    pub(super) fn plain(text: &str) -> Self {
        Self { content_type: "text/plain; charset=utf-8", text: text.to_owned() }
    }

    fn json(value: &Value) -> Self {
        Self { content_type: JSON, text: value.to_string() }
    }

    /// Server-sent events, each with a name where the API names them.
    fn events(events: &[(Option<&str>, Value)], end: &str) -> Self {
        let mut text = String::new();
        for (name, data) in events {
            if let Some(name) = name {
                text.push_str(&format!("event: {name}\n"));
            }
            text.push_str(&format!("data: {data}\n\n"));
        }
        text.push_str(end);
        Self { content_type: EVENTS, text }
    }
}

/// What a call that passed gets.
pub(super) fn success(facts: &Facts<'_>) -> Body {
    if facts.telling == Telling::NoCompletions {
        let content_type = if facts.call.stream { EVENTS } else { JSON };
        return Body { content_type, text: String::new() };
    }
    match (facts.call.endpoint, facts.call.stream) {
        (Endpoint::ChatCompletions, false) => Body::json(&chat_completion(facts)),
        (Endpoint::ChatCompletions, true) => chat_completion_events(facts),
        (Endpoint::Messages, false) => Body::json(&message(facts)),
        (Endpoint::Messages, true) => message_events(facts),
        (Endpoint::Other, _) => Body::json(&json!({"ok": true, "id": format!("mock-{:08}", facts.number)})),
    }
}

/// What a refused call gets.
pub(super) fn refusal(dialect: Dialect, facts: &Facts<'_>, refusal: &Refusal, with_hint: bool) -> Body {
    let (shortage, kind) = match refusal {
        Refusal::Short(shortage) => (shortage, "rate_limit_error"),
        Refusal::TooLarge(shortage) => (shortage, "request_too_large"),
    };
    let meter = &shortage.reading.meter;
    let per = per(shortage.reading.window);
    let (limit, cost) = (shortage.reading.limit, shortage.cost);
    let model = &facts.call.model;
    let message = match refusal {
        Refusal::TooLarge(_) => {
            let most = shortage.most;
            format!("Request too large for {model} on {meter} per {per}: at most {most} fit at once, requested {cost}.")
        }
        Refusal::Short(_) => {
            let used = limit.saturating_sub(shortage.reading.remaining);
            let hint = if with_hint { format!(" Please try again in {}.", go_duration(shortage.wait)) } else { String::new() };
            format!("Rate limit reached for {model} on {meter} per {per}: Limit {limit}, Used {used}, Requested {cost}.{hint}")
        }
    };
    match (facts.call.endpoint, dialect) {
        (Endpoint::Messages, _) => Body::json(&anthropic_error(kind, &message)),
        (_, Dialect::OpenAi) => Body::json(&openai_error(meter, "rate_limit_exceeded", &message)),
        _ => Body::json(&json!({"error": {"code": kind, "message": message}})),
    }
}

/// What a scripted failure or an outage's gets: nothing that says how long to wait.
pub(super) fn failure(facts: &Facts<'_>, status: u16) -> Body {
    let (kind, message) = match status {
        429 => ("rate_limit_error", "Rate limit reached."),
        503 | 529 => ("overloaded_error", "The server is overloaded."),
        500.. => ("api_error", "The server had an error."),
        _ => ("invalid_request_error", "The request was rejected."),
    };
    match facts.call.endpoint {
        Endpoint::Messages => Body::json(&anthropic_error(kind, message)),
        _ => {
            let code = if status == 429 { "rate_limit_exceeded" } else { kind };
            let kind = if status == 429 { "requests" } else { kind };
            Body::json(&openai_error(kind, code, message))
        }
    }
}

fn openai_error(kind: &str, code: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

fn anthropic_error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

fn chat_completion(facts: &Facts<'_>) -> Value {
    let (input, output) = usage(facts.call);
    json!({
        "id": format!("chatcmpl-mock-{:08}", facts.number),
        "object": "chat.completion",
        "created": created(facts),
        "model": &*facts.call.model,
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": TEXT, "refusal": null},
            "logprobs": null,
            "finish_reason": "stop",
        }],
        "usage": {"prompt_tokens": input, "completion_tokens": output, "total_tokens": input.saturating_add(output)},
    })
}

fn chat_completion_events(facts: &Facts<'_>) -> Body {
    let (input, output) = usage(facts.call);
    let chunk = |choices: Value, usage: Value| {
        (
            None,
            json!({
                "id": format!("chatcmpl-mock-{:08}", facts.number),
                "object": "chat.completion.chunk",
                "created": created(facts),
                "model": &*facts.call.model,
                "choices": choices,
                "usage": usage,
            }),
        )
    };
    let delta = |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
    let events = [
        chunk(delta(json!({"role": "assistant", "content": ""}), Value::Null), Value::Null),
        chunk(delta(json!({"content": TEXT}), Value::Null), Value::Null),
        chunk(delta(json!({}), json!("stop")), Value::Null),
        chunk(
            json!([]),
            json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input.saturating_add(output)}),
        ),
    ];
    Body::events(&events, "data: [DONE]\n\n")
}

fn message(facts: &Facts<'_>) -> Value {
    let (input, output) = usage(facts.call);
    json!({
        "id": format!("msg_mock_{:08}", facts.number),
        "type": "message",
        "role": "assistant",
        "model": &*facts.call.model,
        "content": [{"type": "text", "text": TEXT}],
        "stop_reason": "end_turn",
        "stop_sequence": null,
        "usage": {"input_tokens": input, "output_tokens": output},
    })
}

fn message_events(facts: &Facts<'_>) -> Body {
    let (input, output) = usage(facts.call);
    let start = json!({
        "id": format!("msg_mock_{:08}", facts.number),
        "type": "message",
        "role": "assistant",
        "model": &*facts.call.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": {"input_tokens": input, "output_tokens": 1},
    });
    let event = |name: &'static str, mut data: Value| {
        if let Some(fields) = data.as_object_mut() {
            fields.insert("type".into(), name.into());
        }
        (Some(name), data)
    };
    let events = [
        event("message_start", json!({"message": start})),
        event("content_block_start", json!({"index": 0, "content_block": {"type": "text", "text": ""}})),
        event("content_block_delta", json!({"index": 0, "delta": {"type": "text_delta", "text": TEXT}})),
        event("content_block_stop", json!({"index": 0})),
        event(
            "message_delta",
            json!({"delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": output}}),
        ),
        event("message_stop", json!({})),
    ];
    Body::events(&events, "")
}

/// Input and output tokens, which add up to what was charged as `tokens` where that alone is known.
fn usage(call: &Call) -> (u64, u64) {
    let used = call.used();
    let (input, output, total) = (used.of("input_tokens"), used.of("output_tokens"), used.of("tokens"));
    if input == 0 && output == 0 { (total, 0) } else { (input, output) }
}

fn created(facts: &Facts<'_>) -> i64 {
    facts.now.as_micros() / 1_000_000
}

fn per(window: Span) -> String {
    match window.as_micros() {
        1_000_000 => "sec".into(),
        60_000_000 => "min".into(),
        3_600_000_000 => "hour".into(),
        86_400_000_000 => "day".into(),
        _ => window.to_string(),
    }
}
