//! Laws of reading messages: no message makes it panic, and what is let through is within its bounds.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use paceline_coordinator::api::{LONGEST_TTL, MOST_BODY_BYTES};
use paceline_core::units::{LONGEST_FLOOR, Span};
use paceline_proto::v1;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use tonic::{Code, Request};
use tonic_types::StatusExt as _;

use super::bounds::{MOST_ID_CHARS, MOST_METERS, MOST_NAME_BYTES, MOST_UNITS_USED};
use super::{read, write};

/// Mostly ordinary, sometimes empty, long, or with control characters.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-z0-9-]{1,20}", 1 => Just(String::new()), 1 => "\\PC{0,300}", 1 => any::<String>()]
}

fn duration() -> impl Strategy<Value = Option<prost_types::Duration>> {
    let number = prop_oneof![3 => 0..100_i64, 1 => any::<i64>()];
    let nanos = prop_oneof![3 => 0..1_000_000_000_i32, 1 => any::<i32>()];
    option::of((number, nanos).prop_map(|(seconds, nanos)| prost_types::Duration { seconds, nanos }))
}

fn units() -> impl Strategy<Value = BTreeMap<String, u64>> {
    btree_map(text(), prop_oneof![0..10_u64, any::<u64>()], 0..40)
}

fn enumerated() -> impl Strategy<Value = i32> {
    prop_oneof![4 => 0..6_i32, 1 => any::<i32>()]
}

fn target() -> impl Strategy<Value = Option<v1::Target>> {
    option::weighted(
        0.9,
        (text(), text(), text()).prop_map(|(provider, account, model)| v1::Target { provider, account, model }),
    )
}

prop_compose! {
    fn ask()(
        (request_id, attempt, target, fallbacks) in (text(), any::<u32>(), target(), vec(Just(v1::Target::default()), 0..2)),
        (cost, cost_estimated, labels) in (units(), any::<bool>(), btree_map(text(), text(), 0..40)),
        (max_wait, deadline, hold, run_time) in (duration(), duration(), duration(), duration()),
        (priority, repeat) in (enumerated(), enumerated()),
        (tenant, parent, ticket, previous_lease_id) in (text(), text(), vec(any::<u8>(), 0..9), text()),
    ) -> v1::AcquireRequest {
        v1::AcquireRequest {
            request_id, attempt, target, fallbacks, cost, cost_estimated, max_wait, deadline, hold, run_time, priority, tenant,
            labels, parent, ticket, previous_lease_id, repeat,
        }
    }
}

prop_compose! {
    fn answer()(
        (lease_id, seq, outcome) in (text(), any::<u32>(), enumerated()),
        (status, grpc_status) in (prop_oneof![200..600_u32, any::<u32>()], option::of(any::<u32>())),
        headers in vec((text(), text()).prop_map(|(name, value)| v1::Header { name, value }), 0..5),
        body in vec(any::<u8>(), 0..3).prop_map(|bytes| bytes.repeat(6_000)),
        (usage, usage_estimated, last) in (units(), any::<bool>(), any::<bool>()),
        (age, served_by) in (duration(), text()),
        retry in option::of((any::<bool>(), duration(), units())),
    ) -> v1::ReportRequest {
        let retry = retry.map(|(wanted, max_wait, cost)| v1::RetryAsk { wanted, max_wait, cost, fallbacks: Vec::new() });
        v1::ReportRequest {
            lease_id, seq, outcome, status, grpc_status, headers, body, usage, usage_estimated, r#final: last, age, served_by,
            retry,
        }
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= MOST_NAME_BYTES && !name.chars().any(char::is_control)
}

fn is_length(span: Option<Span>) -> bool {
    span.is_none_or(|span| (Span::ZERO..=LONGEST_FLOOR).contains(&span))
}

/// A refusal is INVALID_ARGUMENT, names a field, and fits into the trailers that clients take.
fn check_refusal(status: &tonic::Status) -> Result<(), TestCaseError> {
    prop_assert_eq!(status.code(), Code::InvalidArgument);
    let violations = status.get_details_bad_request().map(|details| details.field_violations).unwrap_or_default();
    prop_assert!(!violations.is_empty() && violations.iter().all(|violation| !violation.field.is_empty()));
    prop_assert!(status.details().len() < 6_000, "{} bytes of details", status.details().len());
    Ok(())
}

proptest! {
    #[test]
    fn asks_that_pass_are_within_their_bounds(message in ask()) {
        match read::acquire(message) {
            Ok(ask) => {
                prop_assert!(!ask.request_id.is_empty() && ask.request_id.chars().count() <= MOST_ID_CHARS);
                prop_assert!(!ask.target.provider.is_empty());
                prop_assert!([&ask.target.provider, &ask.target.account, &ask.target.model, &ask.tenant].into_iter().all(|name| is_name(name)));
                prop_assert!(ask.cost.iter().count() <= MOST_METERS && ask.cost.iter().all(|(meter, _)| is_name(meter)));
                prop_assert!(ask.cost.stated("requests") != Some(0));
                prop_assert!([ask.max_wait, ask.deadline, ask.run_time, Some(ask.hold)].into_iter().all(is_length));
                prop_assert!(ask.run_time.is_none_or(|time| time <= LONGEST_TTL));
                let again = read::acquire(write::acquire_request(ask.clone()));
                prop_assert_eq!(format!("{:?}", again.ok()), format!("{:?}", Some(ask)), "written, it reads the same");
            }
            Err(status) => check_refusal(&status)?,
        }
    }

    #[test]
    fn reports_that_pass_are_within_their_bounds(message in answer()) {
        match read::report(message) {
            Ok(report) => {
                prop_assert!(!report.lease_id.is_empty() && report.body.len() <= MOST_BODY_BYTES);
                prop_assert!(report.usage.iter().all(|(meter, units)| is_name(meter) && units <= MOST_UNITS_USED));
                prop_assert!(report.headers.iter().all(|(name, _)| !name.is_empty() && is_name(name)));
                prop_assert!(is_length(Some(report.age)));
                prop_assert!(report.status == 0 || (100..1_000).contains(&report.status));
            }
            Err(status) => check_refusal(&status)?,
        }
    }

    #[test]
    fn no_deadline_of_a_caller_panics(text in "\\PC{0,12}|[0-9]{0,20}[HMSmun]?") {
        let mut request = Request::new(());
        if let Ok(value) = text.parse() {
            request.metadata_mut().insert("grpc-timeout", value);
        }
        let _ = read::longest_hold_of(&request);
    }
}

#[test]
fn the_deadline_of_a_call_ends_its_hold_a_little_earlier() {
    let hold = |timeout: Option<&str>, hold: Option<i64>| {
        let mut request = Request::new(v1::AcquireRequest {
            request_id: "a".into(),
            target: Some(v1::Target { provider: "openai".into(), ..v1::Target::default() }),
            hold: hold.map(|seconds| prost_types::Duration { seconds, nanos: 0 }),
            ..v1::AcquireRequest::default()
        });
        if let Some(timeout) = timeout {
            request.metadata_mut().insert("grpc-timeout", timeout.parse().unwrap());
        }
        let longest = read::longest_hold_of(&request);
        read::acquire(request.into_inner()).unwrap().hold.min(longest)
    };
    for (timeout, asked, expected_millis) in [
        (None, None, 10_000),
        (None, Some(0), 0),
        (None, Some(3_600), 3_600_000),
        (Some("5S"), None, 4_800),
        (Some("1000m"), None, 900),
        (Some("500000u"), None, 450),
        (Some("1M"), None, 10_000),
        (Some("1H"), Some(3_600), 3_599_800),
        (Some("2000000n"), None, 2),
        (Some("0S"), None, 0),
        (Some("5S"), Some(2), 2_000),
        (Some("never"), None, 10_000),
    ] {
        assert_eq!(hold(timeout, asked).as_millis_ceil(), expected_millis, "{timeout:?} {asked:?}");
    }
}
