//! Scopes as JSON for programs: names as in the contract, lengths of time in milliseconds.

use paceline_proto::convert;
use paceline_proto::v1::{
    Bucket, Degraded, Evidence, Floor, GetScopeResponse, Group, Lane, Leader, LearnedUsage, ListScopesResponse, Mode,
    ModeShare, OnStoreDown, Priority, Refill, Replica, ScopeSummary, Store, UnreadHeader,
};
use prost_types::Duration;
use serde_json::{Value, json};

use crate::commands::controls::to_json;

/// `{"store": {...}, "controls": [...], "replicas": [...], "scopes": [...]}`.
pub(super) fn scopes(list: &ListScopesResponse, scopes: &[GetScopeResponse]) -> Value {
    json!({
        "store": list.store.as_ref().map(store),
        "controls": list.controls.iter().map(to_json).collect::<Vec<_>>(),
        "replicas": list.replicas.iter().map(replica).collect::<Vec<_>>(),
        "scopes": scopes.iter().map(scope).collect::<Vec<_>>(),
    })
}

/// `degraded`: it does not answer.
fn store(store: &Store) -> Value {
    json!({
        "address": store.address,
        "degraded": store.away_for.is_some(),
        "away_for_ms": millis(store.away_for.as_ref()),
        "problem": store.problem,
        "among": store.among,
    })
}

fn replica(replica: &Replica) -> Value {
    json!({
        "id": replica.id,
        "address": replica.address,
        "version": replica.version,
        "schema": replica.schema,
        "heartbeat_age_ms": millis(replica.heartbeat_age.as_ref()),
        "config_hash": replica.config_hash,
        "asked": replica.asked,
        "answers": replica.answers,
    })
}

fn leader(leader: &Leader) -> Value {
    json!({
        "replica": leader.replica,
        "address": leader.address,
        "asked": leader.asked,
        "answers": leader.answers,
        "commit_age_ms": millis(leader.commit_age.as_ref()),
    })
}

fn degraded(one: &Degraded) -> Value {
    json!({
        "replica": one.replica,
        "lasts_ms": millis(one.lasts.as_ref()),
        "among": one.among,
        "on_store_down": match one.on_store_down() {
            OnStoreDown::Unspecified => None,
            OnStoreDown::Local => Some("local"),
            OnStoreDown::Closed => Some("closed"),
        },
    })
}

/// The same when nothing matches: `{"scopes": [], "live": ["openai/prod", ...]}`.
pub(super) fn nothing(live: &[ScopeSummary]) -> Value {
    let live = live.iter().map(|scope| format!("{}/{}", scope.provider, scope.account)).collect::<Vec<_>>();
    json!({ "scopes": [], "live": live })
}

fn scope(scope: &GetScopeResponse) -> Value {
    json!({
        "provider": scope.provider,
        "account": scope.account,
        "mode": word(Mode::try_from(scope.mode).map(|mode| mode.as_str_name()), "MODE_"),
        "modes": modes(&scope.modes),
        "watched": scope.watched.as_ref().map(|calls| json!({
            "asks": calls.asks,
            "would_wait": calls.would_wait,
            "would_deny": calls.would_deny,
            "prevented": calls.prevented,
        })),
        "organisations": scope.organisations,
        "leader": scope.leader.as_ref().map(leader),
        "degraded": scope.degraded.iter().map(degraded).collect::<Vec<_>>(),
        "waiting": scope.lanes.iter().map(|lane| lane.depth).sum::<u64>(),
        "in_flight": scope.in_flight,
        "floor": scope.floor.as_ref().map(floor),
        "buckets": scope.buckets.iter().map(bucket).collect::<Vec<_>>(),
        "groups": scope.groups.iter().map(group).collect::<Vec<_>>(),
        "lanes": scope.lanes.iter().map(lane).collect::<Vec<_>>(),
        "unread": scope.unread.iter().map(unread).collect::<Vec<_>>(),
        "usage": scope.usage.iter().map(usage).collect::<Vec<_>>(),
    })
}

/// The part of all calls in each mode: `{"enforce": 0.2, "shadow": 0.8}`.
fn modes(shares: &[ModeShare]) -> Value {
    let named = shares.iter().filter_map(|share| {
        let name = word(Mode::try_from(share.mode).map(|mode| mode.as_str_name()), "MODE_")?;
        Some((name, json!(share.share)))
    });
    Value::Object(named.collect())
}

fn unread(header: &UnreadHeader) -> Value {
    json!({
        "name": header.name,
        "count": header.count,
        "sample": header.sample,
        "malformed": header.malformed,
        "age_ms": millis(header.age.as_ref()),
    })
}

fn bucket(bucket: &Bucket) -> Value {
    json!({
        "label": bucket.label,
        "group": bucket.group,
        "meter": bucket.meter,
        "limit_configured": bucket.limit_configured,
        "limit_learned": bucket.limit_learned,
        "limit_effective": bucket.limit_effective,
        "window_ms": millis(bucket.window.as_ref()),
        "refill": word(Refill::try_from(bucket.refill).map(|refill| refill.as_str_name()), "REFILL_"),
        "level": bucket.level,
        "observed_remaining": bucket.observed_remaining,
        "observed_age_ms": millis(bucket.observed_age.as_ref()),
        "floor": bucket.floor.as_ref().map(floor),
        "foreign_drain_per_min": bucket.foreign_drain,
        "limit_measured_per_min": bucket.limit_measured,
        "at_once": bucket.at_once,
        "use": bucket.r#use,
        "share": bucket.share,
        "evidence": {
            "level": bucket.level_evidence.as_ref().map(evidence),
            "limit_learned": bucket.limit_evidence.as_ref().map(evidence),
            "foreign_drain": bucket.foreign_drain_evidence.as_ref().map(evidence),
            "limit_measured": bucket.limit_measured_evidence.as_ref().map(evidence),
            "at_once": bucket.at_once_evidence.as_ref().map(evidence),
        },
    })
}

/// What speaks for a learned value.
fn evidence(evidence: &Evidence) -> Value {
    json!({ "age_ms": millis(evidence.age.as_ref()), "reports": evidence.reports, "confidence": evidence.confidence })
}

fn usage(seen: &LearnedUsage) -> Value {
    json!({
        "model": seen.model,
        "label": seen.label,
        "media": seen.media,
        "meter": seen.meter,
        "median": seen.median,
        "likely": seen.likely,
        "calls": seen.calls,
        "age_ms": millis(seen.age.as_ref()),
    })
}

fn group(group: &Group) -> Value {
    json!({
        "key": group.key,
        "floor": group.floor.as_ref().map(floor),
        "in_flight": group.in_flight,
        "waiting": group.waiting,
        "modes": modes(&group.modes),
    })
}

fn lane(lane: &Lane) -> Value {
    json!({
        "group": lane.group,
        "priority": word(Priority::try_from(lane.priority).map(|priority| priority.as_str_name()), "PRIORITY_"),
        "tenant": lane.tenant,
        "depth": lane.depth,
        "oldest_wait_ms": millis(lane.oldest_wait.as_ref()),
        "waits_for": convert::source(lane.waits_for).name(),
    })
}

fn floor(floor: &Floor) -> Value {
    json!({
        "ends_in_ms": millis(floor.ends_in.as_ref()),
        "source": convert::source(floor.source).name(),
        "age_ms": millis(floor.age.as_ref()),
    })
}

/// A value of an enum in lower case without its prefix; `null` for one of a newer contract.
fn word<E>(name: Result<&'static str, E>, prefix: &str) -> Option<String> {
    name.ok().map(|name| name.strip_prefix(prefix).unwrap_or(name).to_lowercase())
}

fn millis(duration: Option<&Duration>) -> Option<f64> {
    duration.map(|duration| duration.seconds as f64 * 1e3 + f64::from(duration.nanos) / 1e6)
}
