//! Messages that mean nothing: each gets a typed answer that names the fields, and changes nothing.

use std::collections::BTreeSet;

use paceline_proto::v1::rate_limiter_client::RateLimiterClient;
use paceline_proto::v1::{AcquireRequest, Header, ReleaseRequest, ReportRequest, RetryAsk, Target};
use prost_types::Duration;
use tonic::transport::Channel;
use tonic::{Code, Request};

use crate::support::{Service, ask, fields, granted, report, secs};

fn target(provider: &str, account: &str, model: &str) -> Option<Target> {
    Some(Target { provider: provider.into(), account: account.into(), model: model.into() })
}

fn cost(meter: &str, units: u64) -> std::collections::BTreeMap<String, u64> {
    [(meter.to_owned(), units)].into()
}

/// Asks that are wrong, and the fields that are to be named.
fn wrong_asks() -> Vec<(&'static str, AcquireRequest, &'static [&'static str])> {
    let long = "x".repeat(300);
    let bell = "a\u{7}b";
    let ok = || ask("wrong", "m");
    vec![
        ("no id", AcquireRequest { request_id: String::new(), ..ok() }, &["request_id"]),
        ("long id", AcquireRequest { request_id: "é".repeat(129), ..ok() }, &["request_id"]),
        ("id that rings", AcquireRequest { request_id: bell.into(), ..ok() }, &["request_id"]),
        ("no target", AcquireRequest { target: None, ..ok() }, &["target"]),
        ("no provider", AcquireRequest { target: target("", "prod", "m"), ..ok() }, &["target.provider"]),
        (
            "long names",
            AcquireRequest { target: target(&long, &long, &long), tenant: long.clone(), ..ok() },
            &["target.provider", "target.account", "target.model", "tenant"],
        ),
        (
            "names that ring",
            AcquireRequest { target: target(bell, bell, bell), tenant: bell.into(), parent: bell.into(), ..ok() },
            &["target.provider", "target.account", "target.model", "tenant", "parent"],
        ),
        ("unknown account", AcquireRequest { target: target("acme", "prdo", "m"), ..ok() }, &["target.account"]),
        ("no account", AcquireRequest { target: target("acme", "", "m"), ..ok() }, &["target.account"]),
        ("no request", AcquireRequest { cost: cost("requests", 0), ..ok() }, &["cost.requests"]),
        ("nameless meter", AcquireRequest { cost: cost("", 1), ..ok() }, &["cost"]),
        ("long meter", AcquireRequest { cost: cost(&long, 1), ..ok() }, &["cost"]),
        (
            "many meters",
            AcquireRequest { cost: (0..33).map(|number| (format!("meter{number}"), 1)).collect(), ..ok() },
            &["cost"],
        ),
        (
            "negative times",
            AcquireRequest {
                max_wait: Some(secs(-1)),
                deadline: Some(Duration { seconds: 0, nanos: -1 }),
                hold: Some(secs(i64::MIN)),
                run_time: Some(secs(-5)),
                ..ok()
            },
            &["max_wait", "deadline", "hold", "run_time"],
        ),
        (
            "absurd times",
            AcquireRequest {
                max_wait: Some(secs(i64::MAX)),
                deadline: Some(secs(40 * 86_400)),
                hold: Some(Duration { seconds: 31 * 86_400, nanos: 1_000 }),
                ..ok()
            },
            &["max_wait", "deadline", "hold"],
        ),
        (
            "times that are none",
            AcquireRequest {
                max_wait: Some(Duration { seconds: 1, nanos: -1 }),
                run_time: Some(Duration { seconds: 0, nanos: 1_000_000_000 }),
                ..ok()
            },
            &["max_wait", "run_time"],
        ),
        ("unknown enums", AcquireRequest { priority: 99, repeat: -7, ..ok() }, &["priority", "repeat"]),
        ("fallbacks", AcquireRequest { fallbacks: vec![Target::default()], ..ok() }, &["fallbacks[0].provider"]),
        ("many fallbacks", AcquireRequest { fallbacks: vec![Target::default(); 9], ..ok() }, &["fallbacks"]),
        ("a label without a name", AcquireRequest { labels: [(String::new(), "a".into())].into(), ..ok() }, &["labels"]),
        ("a long label", AcquireRequest { labels: [("run".into(), long)].into(), ..ok() }, &["labels"]),
        (
            "many labels",
            AcquireRequest { labels: (0..33).map(|number| (number.to_string(), String::new())).collect(), ..ok() },
            &["labels"],
        ),
        ("a ticket that is none", AcquireRequest { ticket: vec![7; 100], ..ok() }, &["ticket"]),
        ("a large ticket", AcquireRequest { ticket: vec![1; 1 << 20], ..ok() }, &["ticket"]),
        (
            "everything at once",
            AcquireRequest {
                request_id: String::new(),
                target: target("", "", ""),
                cost: cost("requests", 0),
                max_wait: Some(secs(-1)),
                priority: 9,
                ..ok()
            },
            &["request_id", "target.provider", "cost.requests", "max_wait", "priority"],
        ),
    ]
}

/// Reports that are wrong, and the fields that are to be named.
fn wrong_reports(lease_id: &str) -> Vec<(&'static str, ReportRequest, &'static [&'static str])> {
    let ok = || report(lease_id, 429);
    let header = |name: &str, value: &str| Header { name: name.into(), value: value.into() };
    let retry = |retry| Some(RetryAsk { wanted: true, ..retry });
    vec![
        ("no lease", ReportRequest { lease_id: String::new(), ..ok() }, &["lease_id"]),
        ("no outcome", ReportRequest { outcome: 0, ..ok() }, &["outcome"]),
        ("unknown outcome", ReportRequest { outcome: 77, ..ok() }, &["outcome"]),
        ("no status of HTTP", ReportRequest { status: 42, ..ok() }, &["status"]),
        ("a huge status", ReportRequest { status: u32::MAX, ..ok() }, &["status"]),
        ("10,000 headers", ReportRequest { headers: vec![header("retry-after", "2"); 10_000], ..ok() }, &["headers"]),
        (
            "headers without names",
            ReportRequest { headers: vec![header("retry-after", "2"), header("", "2")], ..ok() },
            &["headers[1].name"],
        ),
        (
            "headers with long names and values",
            ReportRequest { headers: vec![header(&"h".repeat(300), "2"), header("a", &"v".repeat(70_000))], ..ok() },
            &["headers[0].name", "headers[1].value"],
        ),
        ("a header that rings", ReportRequest { headers: vec![header("a\r\nb", "2")], ..ok() }, &["headers[0].name"]),
        ("usage that nobody has", ReportRequest { usage: cost("tokens", u64::MAX), ..ok() }, &["usage.tokens"]),
        ("usage of nothing", ReportRequest { usage: cost("", 5), ..ok() }, &["usage"]),
        ("a negative age", ReportRequest { age: Some(secs(-1)), ..ok() }, &["age"]),
        ("an absurd age", ReportRequest { age: Some(secs(40 * 86_400)), ..ok() }, &["age"]),
        ("a long gateway", ReportRequest { served_by: "g".repeat(300), ..ok() }, &["served_by"]),
        (
            "a retry that asks for nothing",
            ReportRequest {
                retry: retry(RetryAsk { cost: cost("requests", 0), max_wait: Some(secs(-3)), ..RetryAsk::default() }),
                ..ok()
            },
            &["retry.cost.requests", "retry.max_wait"],
        ),
        (
            "a retry with fallbacks",
            ReportRequest { retry: retry(RetryAsk { fallbacks: vec![Target::default()], ..RetryAsk::default() }), ..ok() },
            &["retry.fallbacks[0].provider"],
        ),
    ]
}

/// A service with one call in flight, so that there is something to change.
async fn service() -> (Service, RateLimiterClient<Channel>, String) {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let lease_id = granted(&limiter.acquire(ask("first", "m")).await.unwrap().into_inner()).lease_id.clone();
    (service, limiter, lease_id)
}

#[tokio::test]
async fn asks_that_mean_nothing_name_every_field_and_change_nothing() {
    let (service, mut limiter, _) = service().await;
    let before = service.scope().await;
    for (what, message, expected) in wrong_asks() {
        let refused = limiter.acquire(message).await.expect_err(what);
        let named = fields(&refused);
        assert_eq!(named.keys().map(String::as_str).collect::<BTreeSet<_>>(), expected.iter().copied().collect(), "{what}");
        assert!(named.values().all(|problem| problem.len() > 7), "{what}: {named:?}");
        assert!(refused.message().contains(expected[0]), "{what}: {}", refused.message());
    }
    assert_eq!(service.scope().await, before);
}

#[tokio::test]
async fn reports_that_mean_nothing_name_every_field_and_change_nothing() {
    let (service, mut limiter, lease_id) = service().await;
    let before = service.scope().await;
    for (what, message, expected) in wrong_reports(&lease_id) {
        let named = fields(&limiter.report(message).await.expect_err(what));
        assert_eq!(named.keys().map(String::as_str).collect::<BTreeSet<_>>(), expected.iter().copied().collect(), "{what}");
    }
    assert!(fields(&limiter.release(ReleaseRequest { what: None }).await.unwrap_err()).contains_key("lease_id"));
    assert_eq!(service.scope().await, before);
    // The lease is as good as before.
    assert!(limiter.report(report(&lease_id, 200)).await.unwrap().into_inner().applied);
}

#[tokio::test]
async fn unknown_providers_are_not_found_with_a_suggestion() {
    let (service, mut limiter, _) = service().await;
    let before = service.scope().await;
    let refused = limiter.acquire(AcquireRequest { target: target("opneai", "x", "m"), ..ask("a", "m") }).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert!(refused.message().contains("did you mean `openai`"), "{}", refused.message());
    assert_eq!(service.scope().await, before);
}

#[tokio::test]
async fn long_run_times_are_cut_and_a_large_body_is_read_at_its_start() {
    let (service, mut limiter, lease_id) = service().await;
    let long = AcquireRequest { run_time: Some(secs(i64::MAX)), ..ask("long", "m") };
    let answer = limiter.acquire(long).await.unwrap().into_inner();
    assert_eq!(granted(&answer).ttl, Some(secs(30 * 60)));
    // The reading is in the first 8 KiB; a mebibyte follows.
    let mut body = br#"{"error": {"message": "slow down", "retry_after": 7}}"#.to_vec();
    body.resize(1 << 20, b' ');
    let told = limiter.report(ReportRequest { body, ..report(&lease_id, 429) }).await.unwrap().into_inner();
    assert!(told.applied, "{told:?}");
    assert!(service.scope().await.in_flight == 1);
}

#[tokio::test]
async fn the_largest_message_that_is_allowed_is_a_call_like_any_other() {
    let (service, mut limiter, _) = service().await;
    let long = |number: usize| format!("{number:0>256}");
    let largest = AcquireRequest {
        request_id: "é".repeat(128),
        target: target("acme", "prod", &long(0)),
        cost: (0..32).map(|number| (long(number), u64::MAX)).collect(),
        labels: (0..32).map(|number| (long(number), long(number))).collect(),
        tenant: long(0),
        parent: "ü".repeat(128),
        ..ask("", "")
    };
    let answer = limiter.acquire(largest).await.unwrap().into_inner();
    let header = Header { name: "x".repeat(256), value: "y".repeat(4_096) };
    let largest = ReportRequest {
        headers: vec![header; 512],
        body: vec![0xff; 1 << 20],
        usage: (0..32).map(|number| (long(number), 1_000_000_000_000_000)).collect(),
        served_by: long(0),
        ..report(&granted(&answer).lease_id, 200)
    };
    assert!(limiter.report(largest).await.unwrap().into_inner().applied);
    assert_eq!(service.scope().await.in_flight, 1);
}

#[tokio::test]
async fn a_message_beyond_the_limit_is_told_the_limit() {
    let (service, mut limiter, lease_id) = service().await;
    let before = service.scope().await;
    let huge = ReportRequest { body: vec![b'x'; 5 << 20], ..report(&lease_id, 429) };
    let refused = limiter.report(huge).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert!(refused.message().contains("4 MiB") && refused.message().contains("8 KiB"), "{}", refused.message());
    assert_eq!(service.scope().await, before);
}

/// What a program sends whose proto file is another one.
#[derive(Clone, PartialEq, prost::Message)]
struct Stranger {
    #[prost(uint64, tag = "1")]
    request_id: u64,
    #[prost(string, tag = "3")]
    target: String,
}

#[tokio::test]
async fn bytes_that_are_no_message_are_an_invalid_argument() {
    let (service, _, _) = service().await;
    let before = service.scope().await;
    let mut client = tonic::client::Grpc::new(service.channel().await);
    for method in ["Acquire", "Report", "Release"] {
        client.ready().await.unwrap();
        let path = format!("/paceline.v1.RateLimiter/{method}").parse().unwrap();
        let codec = tonic_prost::ProstCodec::<Stranger, Stranger>::default();
        let stranger = Stranger { request_id: u64::MAX, target: "\u{0}\u{7f}x".into() };
        let refused = client.unary(Request::new(stranger), path, codec).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{method}: {refused:?}");
        assert!(refused.message().contains("paceline.v1"), "{}", refused.message());
    }
    assert_eq!(service.scope().await, before);
}
