//! The life of a call as JSON for programs: names as in the contract, lengths of time in milliseconds.

use paceline_proto::convert;
use paceline_proto::v1::{CallLife, Delay, WhyResponse};
use prost_types::Duration;
use serde_json::{Value, json};

/// `{"lives": [...], "silent_replicas": 0}`, the last attempt first.
pub(super) fn told(told: &WhyResponse) -> Value {
    json!({ "lives": told.lives.iter().map(life).collect::<Vec<_>>(), "silent_replicas": told.silent_replicas })
}

fn life(life: &CallLife) -> Value {
    let target = life.target.clone().unwrap_or_default();
    json!({
        "request_id": life.request_id,
        "attempt": life.attempt,
        "tenant": life.tenant,
        "identity": life.identity,
        "provider": target.provider,
        "account": target.account,
        "model": target.model,
        "priority": word(life.priority().as_str_name(), "PRIORITY_"),
        "mode": word(life.mode().as_str_name(), "MODE_"),
        "state": word(life.state().as_str_name(), "CALL_STATE_"),
        "known_age_ms": millis(life.known_age.as_ref()),
        "asked_age_ms": millis(life.asked_age.as_ref()),
        "waited_ms": millis(life.waited.as_ref()),
        "delays": life.delays.iter().map(delay).collect::<Vec<_>>(),
        "from_token": life.from_token,
        "ahead": life.ahead,
        "expected_ms": millis(life.expected.as_ref()),
        "back_in_ms": millis(life.back_in.as_ref()),
        "denied_in_ms": millis(life.denied_in.as_ref()),
        "send_in_ms": millis(life.send_in.as_ref()),
        "lease_ends_in_ms": millis(life.lease_ends_in.as_ref()),
        "sent": life.sent,
        "outcome": word(life.outcome().as_str_name(), "OUTCOME_"),
        "status": life.status,
        "verdict": word(life.verdict().as_str_name(), "VERDICT_"),
        "reason": word(life.reason().as_str_name(), "REASON_"),
        "signal_source": convert::source(life.signal_source).name(),
        "honored_ms": millis(life.honored.as_ref()),
        "retry_after_ms": millis(life.retry_after.as_ref()),
        "detail": life.detail,
        "replica": life.replica,
    })
}

fn delay(delay: &Delay) -> Value {
    json!({
        "source": convert::source(delay.source).name(),
        "bucket": delay.bucket,
        "duration_ms": millis(delay.duration.as_ref()),
        "binding": delay.binding,
        "free_in_ms": millis(delay.free_in.as_ref()),
    })
}

/// Lower snake case; nothing where it is not said.
fn word(name: &str, prefix: &str) -> Option<String> {
    let word = name.strip_prefix(prefix).unwrap_or(name).to_lowercase();
    (word != "unspecified").then_some(word)
}

fn millis(duration: Option<&Duration>) -> Option<f64> {
    duration.map(|duration| {
        let seconds = std::time::Duration::new(duration.seconds.unsigned_abs(), duration.nanos.unsigned_abs());
        let sign = if duration.seconds < 0 || duration.nanos < 0 { -1.0 } else { 1.0 };
        sign * seconds.as_secs_f64() * 1_000.0
    })
}
