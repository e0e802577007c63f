//! What operators ask, and what the service says about itself.

use std::collections::BTreeSet;

use paceline_core::units::Span;
use paceline_proto::v1::{
    AcquireRequest, AnswerKind, ExplainRequest, GetConfigRequest, GetScopeRequest, Header, ListScopesRequest, Priority,
    ReportRequest, Selector, Source, Target,
};
use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic_reflection::pb::{v1, v1alpha};

use crate::support::{Service, ask, fields, granted, length, queued, report};

fn selector(provider: &str, account: &str) -> ListScopesRequest {
    ListScopesRequest { selector: Some(Selector { provider: provider.into(), account: account.into(), ..Selector::default() }) }
}

#[tokio::test]
async fn scopes_are_listed_by_glob_with_the_busiest_first() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    for account in ["team-a", "team-b"] {
        let target = Some(Target { provider: "OpenAI".into(), account: account.into(), model: "m".into() });
        granted(&limiter.acquire(AcquireRequest { target, ..ask("a", "m") }).await.unwrap().into_inner());
    }
    granted(&limiter.acquire(ask("a", "slow")).await.unwrap().into_inner());
    let mut admin = service.admin().await;
    for (asked, expected) in [
        (selector("", ""), vec!["acme/prod", "openai/team-a", "openai/team-b"]),
        (selector("OPEN*", "*-b"), vec!["openai/team-b"]),
        (selector("nobody", ""), vec![]),
        (ListScopesRequest::default(), vec!["acme/prod", "openai/team-a", "openai/team-b"]),
    ] {
        let listed = admin.list_scopes(asked).await.unwrap().into_inner().scopes;
        let names: Vec<String> = listed.iter().map(|scope| format!("{}/{}", scope.provider, scope.account)).collect();
        assert_eq!(names, expected);
        assert!(listed.iter().all(|scope| scope.in_flight == 1 && scope.oldest_wait.is_none()));
    }
    let wrong = fields(&admin.list_scopes(selector(&"x".repeat(300), "\u{1b}[2J")).await.unwrap_err());
    assert_eq!(wrong.into_keys().collect::<Vec<_>>(), ["selector.account", "selector.provider"]);
}

#[tokio::test]
async fn a_scope_tells_its_buckets_floors_and_lanes() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let first = limiter.acquire(ask("a", "slow")).await.unwrap().into_inner();
    let headers = vec![Header { name: "Retry-After".into(), value: "30".into() }];
    limiter.report(ReportRequest { headers, ..report(&granted(&first).lease_id, 429) }).await.unwrap();
    let waiting = AcquireRequest { hold: None, priority: Priority::Batch.into(), ..ask("b", "slow") };
    let mut other = limiter.clone();
    let held = tokio::spawn(async move { other.acquire(waiting).await });
    crate::support::until("it waits", async || service.waiting().await == 1).await;

    service.advance(Span::from_millis(400));
    let scope = service.scope().await;
    let bucket = scope.buckets.iter().find(|bucket| bucket.group == "slow").unwrap();
    assert_eq!((bucket.label.as_str(), bucket.limit_configured, bucket.limit_effective), ("requests", Some(6), Some(6)));
    assert_eq!(length(bucket.window.as_ref()), Span::from_secs(60));
    assert!(bucket.level.unwrap() < 6.0 && bucket.limit_learned.is_none());
    let lane = &scope.lanes[0];
    assert_eq!((lane.group.as_str(), lane.priority(), lane.depth), ("slow", Priority::Batch, 1));
    assert_eq!((length(lane.oldest_wait.as_ref()), lane.waits_for()), (Span::from_millis(400), Source::RetryAfterSeconds));
    let group = scope.groups.iter().find(|group| group.key == "slow").unwrap();
    let floor = group.floor.as_ref().unwrap();
    assert_eq!((floor.source(), length(floor.age.as_ref())), (Source::RetryAfterSeconds, Span::from_millis(400)));
    assert_eq!(length(floor.ends_in.as_ref()), Span::from_millis(29_600));
    assert_eq!((scope.in_flight, group.waiting), (0, 1));

    let listed = service.admin().await.list_scopes(ListScopesRequest::default()).await.unwrap().into_inner().scopes;
    assert_eq!((listed[0].waiting, listed[0].floor.as_ref().unwrap().source()), (1, Source::RetryAfterSeconds));
    held.abort();
}

#[tokio::test]
async fn a_scope_nobody_uses_is_not_found_and_an_unknown_provider_is_told() {
    let service = Service::start().await;
    let mut admin = service.admin().await;
    let asked = |provider: &str, account: &str| GetScopeRequest { provider: provider.into(), account: account.into() };
    let quiet = admin.get_scope(asked("acme", "prod")).await.unwrap_err();
    assert!(quiet.code() == Code::NotFound && quiet.message().contains("ListScopes"), "{quiet:?}");
    assert_eq!(admin.get_scope(asked("opneai", "x")).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(admin.get_scope(asked("acme", "prdo")).await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn the_configuration_in_force_reads_back() {
    let service = Service::start().await;
    let told = service.admin().await.get_config(GetConfigRequest {}).await.unwrap().into_inner();
    let again = paceline_config::Config::parse(&told.yaml, "again").expect("it reads back");
    assert_eq!(again.hash(), told.hash);
    assert!(told.age.is_some());
}

#[tokio::test]
async fn an_answer_is_explained_and_no_state_is_touched() {
    let service = Service::start().await;
    granted(&service.limiter().await.acquire(ask("a", "m")).await.unwrap().into_inner());
    let before = service.scope().await;
    let asked = ExplainRequest {
        provider: "openai".into(),
        status: 429,
        headers: vec![
            Header { name: "X-RateLimit-Remaining-Requests".into(), value: "0".into() },
            Header { name: "x-ratelimit-limit-requests".into(), value: "500".into() },
            Header { name: "x-ratelimit-reset-requests".into(), value: "1m30s".into() },
            Header { name: "x-ratelimit-wonder".into(), value: "5".into() },
        ],
        ..ExplainRequest::default()
    };
    let mut admin = service.admin().await;
    let signal = admin.explain(asked.clone()).await.unwrap().into_inner().signal.unwrap();
    assert_eq!((signal.kind(), signal.retryable), (AnswerKind::Throttled, true));
    let bucket = signal.buckets.iter().find(|bucket| bucket.name == "requests").unwrap();
    assert_eq!((bucket.limit, bucket.remaining), (Some(500), Some(0)));
    assert_eq!(length(bucket.reset_in.as_ref()), Span::from_secs(90));
    assert_eq!(signal.unread_headers, ["x-ratelimit-wonder"]);
    assert!(signal.honored.is_none(), "nothing was set");
    let unknown = ExplainRequest { provider: "nobody-knows".into(), ..asked.clone() };
    assert!(admin.explain(unknown).await.is_ok(), "the generic reading");
    let wrong = ExplainRequest { age: Some(crate::support::secs(-1)), headers: vec![Header::default(); 600], ..asked };
    assert_eq!(fields(&admin.explain(wrong).await.unwrap_err()).into_keys().collect::<Vec<_>>(), ["age", "headers"]);
    assert_eq!(service.scope().await, before);
}

#[tokio::test]
async fn reflection_describes_every_service_in_both_versions() {
    let service = Service::start().await;
    let expected: BTreeSet<&str> = [
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
        "paceline.v1.Admin",
        "paceline.v1.RateLimiter",
    ]
    .into();

    let ask = v1::server_reflection_request::MessageRequest::ListServices(String::new());
    let asks = tokio_stream::iter([v1::ServerReflectionRequest { message_request: Some(ask), ..Default::default() }]);
    let mut client = v1::server_reflection_client::ServerReflectionClient::new(service.channel().await);
    let answer = client.server_reflection_info(asks).await.unwrap().into_inner().next().await.unwrap().unwrap();
    let Some(v1::server_reflection_response::MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}")
    };
    assert_eq!(list.service.iter().map(|service| service.name.as_str()).collect::<BTreeSet<_>>(), expected);

    let by_symbol = |symbol: &str| v1alpha::ServerReflectionRequest {
        message_request: Some(v1alpha::server_reflection_request::MessageRequest::FileContainingSymbol(symbol.into())),
        ..Default::default()
    };
    // The details of errors are described too, so that stock tools can show them.
    let asks = tokio_stream::iter(["paceline.v1.RateLimiter", "google.rpc.BadRequest"].map(by_symbol));
    let mut client = v1alpha::server_reflection_client::ServerReflectionClient::new(service.channel().await);
    let mut answers = client.server_reflection_info(asks).await.unwrap().into_inner();
    for _ in 0..2 {
        let answer = answers.next().await.unwrap().unwrap();
        let Some(v1alpha::server_reflection_response::MessageResponse::FileDescriptorResponse(files)) = answer.message_response
        else {
            panic!("{answer:?}")
        };
        assert!(!files.file_descriptor_proto.is_empty());
    }
}

#[tokio::test]
async fn what_waits_is_told_to_the_caller_too() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    granted(&limiter.acquire(ask("a", "slow")).await.unwrap().into_inner());
    let answer = limiter.acquire(ask("b", "slow")).await.unwrap().into_inner();
    assert_eq!(queued(&answer).ahead, 0);
    let binding: Vec<_> = answer.delays.iter().filter(|delay| delay.binding).map(|delay| delay.bucket.as_str()).collect();
    assert_eq!(binding, ["requests"]);
}
