//! `--jsonl` and `--json`: for programs. The keys of a line are a contract; new ones may be added to `--json` only.

use std::io::{self, BufRead, BufReader, Read, Write};

use paceline_core::signal::{AnswerKind, Source};
use paceline_core::units::{FleetTime, Span};
use paceline_signals::{BucketReading, Provider, Reading, catalogue};
use serde::Deserialize;
use serde_json::{Value, json};

use super::ExplainError;

/// A longer line is answered with an error, in bytes.
const LONGEST_LINE: u64 = 16 << 20;

/// Answers each line with a line, in order; one that cannot be read is answered with what is wrong with it.
pub(super) fn run(input: &mut dyn Read, out: &mut dyn Write) -> Result<(), ExplainError> {
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = (&mut input).take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(ExplainError::Input)?;
        if length == 0 {
            return Ok(());
        }
        let is_cut = !line.ends_with(b"\n") && length as u64 == LONGEST_LINE;
        if is_cut {
            skip_line(&mut input).map_err(ExplainError::Input)?;
        }
        if !line.trim_ascii().is_empty() {
            let answer = if is_cut { failure(&Value::Null, "the line is too long") } else { explain(&line) };
            write_line(out, &answer).map_err(ExplainError::Output)?;
        }
    }
}

/// Writes one object on a line of its own, at once: the reader may be waiting for it.
pub(super) fn write_line(out: &mut dyn Write, object: &Value) -> io::Result<()> {
    writeln!(out, "{object}")?;
    out.flush()
}

/// Everything about one answer.
pub(super) fn full(asked: &str, provider: &Provider, status: u16, reading: &Reading) -> Value {
    let mut object = summary(&Value::Null, reading);
    if let Some(members) = object.as_object_mut() {
        members.shift_remove("id");
        members.insert("provider".to_owned(), asked.into());
        members.insert("read_as".to_owned(), provider.name().into());
        members.insert("status".to_owned(), status.into());
        members.insert("kind".to_owned(), kind(reading.signal.kind).into());
        members.insert("field".to_owned(), reading.signal.field.as_str().into());
        members.insert("rule".to_owned(), reading.rule.to_string().into());
        let fields: Vec<Value> = reading.buckets.iter().map(|bucket| json!(bucket.fields)).collect();
        members.insert("bucket_fields".to_owned(), fields.into());
    }
    object
}

/// One line of input; unknown keys are left alone, so that a line may carry more than is read.
#[derive(Deserialize)]
struct Line {
    provider: Option<String>,
    status: u16,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default)]
    body: Option<Value>,
    #[serde(default)]
    received_at: Option<String>,
}

fn explain(line: &[u8]) -> Value {
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => return failure(&Value::Null, &format!("the line is no JSON object: {error}")),
    };
    let id = value.get("id").cloned().unwrap_or(Value::Null);
    match parse(value) {
        Ok(reading) => summary(&id, &reading),
        Err(problem) => failure(&id, &problem),
    }
}

fn parse(value: Value) -> Result<Reading, String> {
    let line: Line = serde_json::from_value(value).map_err(|error| {
        format!("{error}; a line is {{\"id\", \"provider\", \"status\", \"headers\": [[name, value], ...], \"body\", \"received_at\"}}")
    })?;
    let received_at: Option<FleetTime> = line.received_at.as_deref().map(super::parse_time).transpose()?;
    let headers: Vec<(String, Vec<u8>)> = line.headers.into_iter().map(|(name, value)| (name, value.into_bytes())).collect();
    let body = match line.body {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
    };
    let provider = catalogue().get_or_generic(line.provider.as_deref().unwrap_or("generic"));
    Ok(super::read(provider, line.status, &headers, body.as_bytes(), received_at))
}

fn summary(id: &Value, reading: &Reading) -> Value {
    let signal = &reading.signal;
    json!({
        "id": id,
        "retry_after_ms": signal.retry_after.map(Span::as_millis_ceil),
        "source": source(signal.source),
        "buckets": reading.buckets.iter().map(bucket).collect::<Vec<_>>(),
        "retryable": signal.retryable,
        "unread_headers": signal.unread_headers,
        "malformed_headers": signal.malformed_headers,
    })
}

fn bucket(bucket: &BucketReading) -> Value {
    json!({
        "name": bucket.name,
        "limit": bucket.limit,
        "remaining": bucket.remaining,
        "reset_ms": bucket.reset_in.map(Span::as_millis_ceil),
    })
}

fn failure(id: &Value, problem: &str) -> Value {
    json!({"id": id, "error": problem})
}

/// The words of the contract, which are older than the metric labels.
fn source(source: Source) -> &'static str {
    match source {
        Source::RetryAfterMs => "retry-after-ms",
        Source::RetryAfterSeconds => "retry-after-seconds",
        Source::RetryAfterDate => "retry-after-date",
        Source::ResetHeader => "reset-header",
        Source::ErrorBody => "error-body",
        _ => "none",
    }
}

/// The words of provider files.
pub(super) fn kind(kind: AnswerKind) -> &'static str {
    match kind {
        AnswerKind::Ok => "ok",
        AnswerKind::Throttled => "throttled",
        AnswerKind::Overloaded => "overloaded",
        AnswerKind::QuotaExhausted => "quota-exhausted",
        AnswerKind::Impossible => "impossible",
        AnswerKind::Failed => "failed",
        AnswerKind::Rejected => "rejected",
    }
}

fn skip_line(input: &mut dyn BufRead) -> io::Result<()> {
    loop {
        let buffered = input.fill_buf()?;
        let end = buffered.iter().position(|byte| *byte == b'\n');
        let (length, is_over) = (end.map_or(buffered.len(), |end| end + 1), end.is_some() || buffered.is_empty());
        input.consume(length);
        if is_over {
            return Ok(());
        }
    }
}
