//! What changed: Admin tells it by scope, kind and time, also of files that were refused.

use paceline_proto::v1::{FleetEvent, ListEventsRequest, ListEventsResponse, Selector};
use tonic::{Code, Status};

use crate::support::{CONFIG, Service, ask, fields, granted, report, until};

async fn list(service: &Service, asked: ListEventsRequest) -> Result<ListEventsResponse, Status> {
    service.admin().await.list_events(asked).await.map(tonic::Response::into_inner)
}

async fn kinds(service: &Service, asked: ListEventsRequest) -> Vec<String> {
    list(service, asked).await.unwrap().events.into_iter().map(|event| event.kind).collect()
}

#[tokio::test]
async fn what_changed_is_told_by_scope_and_kind() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let answer = limiter.acquire(ask("a", "m")).await.unwrap().into_inner();
    let refused = report(&granted(&answer).lease_id, 429);
    let header = paceline_proto::v1::Header { name: "retry-after".into(), value: "90".into() };
    limiter.report(paceline_proto::v1::ReportRequest { headers: vec![header], ..refused }).await.unwrap();
    service.folder.write("paceline.yaml", "unknown: 1\n");
    until("it is refused", async || kinds(&service, ListEventsRequest::default()).await.contains(&"config_refused".into()))
        .await;
    service.folder.write("paceline.yaml", &CONFIG.replace("requests: 60/min", "requests: 90/min"));
    until("it is applied", async || kinds(&service, ListEventsRequest::default()).await.contains(&"config_applied".into()))
        .await;

    let all = list(&service, ListEventsRequest::default()).await.unwrap();
    assert_eq!((all.not_told, all.store_away.as_str()), (0, ""));
    let find = |kind: &str| all.events.iter().find(|event| event.kind == kind).cloned().unwrap_or_default();
    let floor = find("floor_set");
    let FleetEvent { provider, who, why, after, .. } = &floor;
    assert_eq!((provider.as_str(), who.as_str(), why.as_str()), ("acme", "the provider", "Retry-After"), "{floor:?}");
    assert!(after.contains("nothing is sent for"), "{after}");
    assert!(find("config_refused").why.contains("unknown key"), "{:?}", find("config_refused"));

    let only = |kind: &str| ListEventsRequest { kinds: vec![kind.to_owned()], ..ListEventsRequest::default() };
    assert_eq!(kinds(&service, only("floor_set")).await, ["floor_set"]);
    let of = |provider: &str| ListEventsRequest {
        selector: Some(Selector { provider: provider.to_owned(), ..Selector::default() }),
        ..ListEventsRequest::default()
    };
    assert_eq!(kinds(&service, of("ac*")).await, ["floor_set"], "what concerns the fleet is of no scope");
    assert_eq!(kinds(&service, of("other")).await, Vec::<String>::new());
    let error = list(&service, only("floor")).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(fields(&error)["kinds"].contains("floor_set, floor_lifted"), "{error:?}");
}
