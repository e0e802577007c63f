//! What was said, for programs: names as in the contract, lengths of time in milliseconds.

use paceline_proto::convert;
use paceline_proto::v1::{Control, ControlKind, ControlResponse, ForgetResponse, Selector, Touched};
use prost_types::Duration;
use serde_json::{Value, json};

use super::people::{mode, priority};

pub(super) fn list(controls: &[Control]) -> Value {
    json!({ "controls": controls.iter().map(control).collect::<Vec<_>>() })
}

pub(super) fn response(response: &ControlResponse, is_trial: bool) -> Value {
    json!({
        "dry_run": is_trial,
        "control": response.control.as_ref().map(control),
        "ended": response.ended.iter().map(control).collect::<Vec<_>>(),
        "touched": response.touched.as_ref().map(touched),
        "undo": response.undo.lines().collect::<Vec<_>>(),
    })
}

pub(super) fn forgotten(response: &ForgetResponse, is_trial: bool) -> Value {
    let scopes = response.scopes.iter().map(|scope| {
        json!({
            "provider": scope.provider,
            "account": scope.account,
            "floors": scope.floors,
            "learned": scope.learned,
            "breakers": scope.breakers,
            "quotas": scope.quotas,
        })
    });
    json!({ "dry_run": is_trial, "scopes": scopes.collect::<Vec<_>>(), "looked_at": response.looked_at })
}

/// One control.
pub(crate) fn control(control: &Control) -> Value {
    json!({
        "id": control.id,
        "kind": match control.kind() {
            ControlKind::Mode => Some("mode"),
            ControlKind::Pause => Some("pause"),
            ControlKind::Limit => Some("limit"),
            ControlKind::Unspecified => None,
        },
        "selector": control.selector.as_ref().map(selector),
        "mode": Some(control.mode()).filter(|_| control.kind() == ControlKind::Mode).map(mode),
        "limit": control.limit.as_ref().map(|limit| json!({
            "bucket": limit.bucket,
            "units": limit.units,
            "per_ms": millis(limit.per.as_ref()),
        })),
        "ends_in_ms": millis(control.ends_in.as_ref()),
        "age_ms": millis(control.age.as_ref()),
        "reason": control.reason,
        "who": control.who,
        "undo": control.undo,
    })
}

fn selector(selector: &Selector) -> Value {
    json!({
        "provider": selector.provider,
        "account": selector.account,
        "model": selector.model,
        "tenant": selector.tenant,
        "priority": priority(selector),
    })
}

fn touched(touched: &Touched) -> Value {
    let scopes = touched.scopes.iter().map(|scope| {
        json!({ "provider": scope.provider, "account": scope.account, "groups": scope.groups, "waiting": scope.waiting })
    });
    let limits = touched.limits.iter().map(|limit| {
        json!({
            "provider": limit.provider,
            "account": limit.account,
            "group": limit.group,
            "bucket": limit.bucket,
            "before": limit.before,
            "after": limit.after,
            "window_ms": millis(limit.window.as_ref()),
        })
    });
    json!({
        "scopes": scopes.collect::<Vec<_>>(),
        "groups": touched.groups,
        "waiting": touched.waiting,
        "limits": limits.collect::<Vec<_>>(),
        "silent_replicas": touched.silent_replicas,
    })
}

fn millis(duration: Option<&Duration>) -> Option<i64> {
    let span = convert::span("", duration?).ok()?;
    Some(span.as_micros() / 1_000)
}
