//! What became of calls: any replica tells it for the whole fleet, and it is there after all of them have started again.

use paceline_core::history::Hourly;
use paceline_core::mode::Mode;
use paceline_core::units::Span;
use paceline_proto::history::read_hour;
use paceline_proto::v1::{GetHistoryRequest, GetHistoryResponse, ReportRequest, Selector};
use tonic::Code;

use crate::support::fleet::Fleet;
use crate::support::{Service, ask, fields, granted, report, until};

const WATCHED: &str = "
mode: shadow
providers:
  acme: {extends: generic, accounts: {prod: {models: {m: {limits: {requests: 60/min}, start_level: full}}}}}
";

fn sum(told: &GetHistoryResponse) -> Hourly {
    let mut sum = Hourly::default();
    told.scopes.iter().flat_map(|scope| &scope.hours).for_each(|hour| sum.add(&read_hour(hour)));
    sum
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_replica_tells_what_all_have_seen_to_the_last_call() {
    let fleet = Fleet::patient(3, WATCHED, Some(std::time::Duration::from_secs(20))).await;
    for replica in &fleet.replicas {
        let mut admin = replica.admin().await;
        let know_all = async || {
            let list = admin.clone().list_scopes(paceline_proto::v1::ListScopesRequest::default()).await.unwrap();
            list.into_inner().replicas.len() == 3
        };
        until("they know each other", know_all).await;
        admin.get_history(GetHistoryRequest::default()).await.unwrap();
    }
    for n in 0..9 {
        let mut limiter = fleet.limiter(n % 2).await;
        let answer = limiter.acquire(ask(&n.to_string(), "m")).await.unwrap().into_inner();
        let status = if n == 0 { 429 } else { 200 };
        limiter.report(ReportRequest { headers: Vec::new(), ..report(&granted(&answer).lease_id, status) }).await.unwrap();
    }
    let mut admin = fleet.replicas[2].admin().await;
    let told = admin.get_history(GetHistoryRequest::default()).await.unwrap().into_inner();
    assert_eq!(told.silent_replicas, 0, "all have written");
    let sums = sum(&told);
    let counts = sums.mode(Mode::Shadow);
    assert_eq!((counts.asks, counts.answers, counts.all_refused(), counts.silent), (9, 9, 1, 9), "{counts:?}");
    let scope = told.scopes[0].scope.as_ref().expect("its limits come along");
    assert!(scope.buckets.iter().any(|bucket| bucket.limit_configured == Some(60)), "{scope:?}");
}

#[tokio::test]
async fn hours_are_told_by_scope_and_for_as_long_as_asked() {
    let service = Service::start_with(WATCHED).await;
    for _ in 0..3 {
        let mut limiter = service.limiter().await;
        granted(&limiter.acquire(ask(&service.http.to_string(), "m")).await.unwrap().into_inner());
        service.advance(Span::from_secs(3_600));
    }
    let mut admin = service.admin().await;
    let mut hours = async |selector: Option<Selector>, since: Option<i64>| {
        let since = since.map(|seconds| prost_types::Duration { seconds, nanos: 0 });
        let told = admin.get_history(GetHistoryRequest { selector, since }).await.unwrap().into_inner();
        told.scopes.iter().map(|scope| (scope.account.clone(), scope.hours.len(), scope.scope.is_some())).collect::<Vec<_>>()
    };
    let prod = |hours| vec![("prod".to_owned(), hours, true)];
    assert_eq!(hours(None, None).await, prod(3));
    assert_eq!(hours(None, Some(2 * 3_600)).await, prod(2), "the hour in which it begins is told whole");
    let select = |provider: &str, account: &str| {
        Some(Selector { provider: provider.into(), account: account.into(), ..Selector::default() })
    };
    assert_eq!(hours(select("AC*", "p?od"), Some(31 * 86_400)).await, prod(3));
    assert_eq!(hours(select("acme", "other"), None).await, vec![]);
    let negative = Some(prost_types::Duration { seconds: -1, nanos: 0 });
    let wrong = GetHistoryRequest { selector: select("\u{1b}", ""), since: negative };
    let error = admin.get_history(wrong).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(fields(&error).into_keys().collect::<Vec<_>>(), ["selector.provider", "since"]);
}

/// A new process on the same store knows what was before, and what limits there are although nobody has asked it for anything.
#[tokio::test]
async fn it_outlives_the_replica_that_counted() {
    let mut first = Service::start_with(WATCHED).await;
    let mut limiter = first.limiter().await;
    granted(&limiter.acquire(ask("a", "m")).await.unwrap().into_inner());
    let second = first.beside(WATCHED).await;
    first.stop();
    first.ended().await;
    let told = second.admin().await.get_history(GetHistoryRequest::default()).await.unwrap().into_inner();
    assert_eq!(sum(&told).mode(Mode::Shadow).asks, 1, "written when it stopped");
    let scope = told.scopes[0].scope.as_ref().expect("looked up in the store");
    assert!(scope.buckets.iter().any(|bucket| bucket.limit_configured == Some(60)), "{scope:?}");
}
