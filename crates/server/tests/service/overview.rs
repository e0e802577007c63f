//! Why does this call wait? Any replica tells, whichever leads.

use std::time::Duration;

use paceline_coordinator::token::{Keyring, Kind};
use paceline_proto::v1::admin_client::AdminClient;
use paceline_proto::v1::{AcquireRequest, GetScopeRequest, GetScopeResponse, ListScopesRequest, ListScopesResponse};
use paceline_store::Store as _;
use tokio::time::Instant;
use tonic::metadata::BinaryMetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};

use crate::support::fleet::{Fleet, Replica};
use crate::support::{CONFIG, Folder, Service, ask, granted, until};

const SLOW: &str = "
providers:
  acme:
    extends: generic
    accounts: {prod: {models: {slow: {limits: {requests: {limit: 6, per: 1m, burst: 1}}, start_level: full}}}}
";

async fn admin(replica: &Replica) -> AdminClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", replica.grpc)).unwrap();
    AdminClient::new(endpoint.connect().await.expect("it answers"))
}

async fn list(replica: &Replica) -> ListScopesResponse {
    admin(replica).await.list_scopes(ListScopesRequest::default()).await.unwrap().into_inner()
}

async fn scope(replica: &Replica) -> GetScopeResponse {
    let asked = GetScopeRequest { provider: "acme".into(), account: "prod".into() };
    admin(replica).await.get_scope(asked).await.unwrap().into_inner()
}

/// A fleet whose first replica leads and has `count` calls waiting; nobody has asked the last replica for anything.
async fn with_waiting(count: usize) -> Fleet {
    let fleet = Fleet::patient(3, SLOW, Some(Duration::from_secs(20))).await;
    let mut limiter = fleet.limiter(0).await;
    granted(&limiter.acquire(ask("first", "slow")).await.unwrap().into_inner());
    for number in 0..count {
        let mut limiter = limiter.clone();
        let held = AcquireRequest { hold: None, ..ask(&format!("held{number}"), "slow") };
        tokio::spawn(async move { limiter.acquire(held).await });
    }
    let know_all = async || {
        let mut seen = true;
        for replica in &fleet.replicas {
            seen &= list(replica).await.replicas.len() == 3;
        }
        seen
    };
    until("they know each other", know_all).await;
    fleet
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_replica_tells_what_the_leader_knows() {
    let fleet = with_waiting(2).await;
    for (number, replica) in fleet.replicas.iter().enumerate() {
        until("they wait", async || scope(replica).await.lanes.iter().map(|lane| lane.depth).sum::<u64>() == 2).await;
        let list = list(replica).await;
        let listed = list.scopes.first().expect("it is live somewhere");
        assert_eq!((list.scopes.len(), listed.waiting, listed.in_flight), (1, 2, 1), "{listed:?}");
        let leader = listed.leader.as_ref().expect("one leads");
        let expected = (fleet.replicas[0].number, fleet.replicas[0].grpc.to_string());
        assert_eq!((leader.replica, leader.address.clone()), expected);
        assert_eq!((leader.asked, leader.answers), (number == 0, true));
        assert!(list.replicas.iter().all(|one| one.answers && one.schema > 0 && one.heartbeat_age.is_some()), "{list:?}");
        assert_eq!(list.replicas.iter().filter(|one| one.asked).map(|one| one.id).collect::<Vec<_>>(), [replica.number]);
        let store = list.store.expect("it has one");
        assert_eq!((store.address.as_str(), store.away_for), ("memory", None));
        let scope = scope(replica).await;
        assert_eq!(scope.leader.as_ref().map(|leader| leader.replica), Some(expected.0));
        let bucket = scope.buckets.iter().find(|bucket| bucket.label == "requests").expect("it is the leader's");
        assert!(bucket.level.is_some_and(|level| level < 6.0), "one has been granted: {bucket:?}");
        let page = replica.page().await;
        assert!(page.contains("2 waiting, 1 in flight") && page.contains(&format!("led by {}", expected.0)), "{page}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_does_not_answer_is_named_at_once() {
    let mut fleet = Fleet::start(2, SLOW).await;
    for (replica, call) in [(0, "a"), (1, "b")] {
        fleet.limiter(replica).await.acquire(ask(call, "slow")).await.unwrap();
    }
    until("the other one knows who leads", async || list(&fleet.replicas[1]).await.replicas.len() == 2).await;
    fleet.replicas[0].freeze();
    let asked_at = Instant::now();
    let told = list(&fleet.replicas[1]).await;
    assert!(asked_at.elapsed() < Duration::from_secs(2), "{:?}", asked_at.elapsed());
    let leader = told.scopes.first().and_then(|scope| scope.leader.clone()).expect("it is still the leader");
    assert_eq!((leader.replica, leader.answers), (fleet.replicas[0].number, false));
    let silent: Vec<u32> = told.replicas.iter().filter(|one| !one.answers).map(|one| one.id).collect();
    assert_eq!(silent, [fleet.replicas[0].number]);
    let page = fleet.replicas[1].page().await;
    assert!(page.contains("which does not answer: calls that wait there are not shown"), "{page}");
    assert!(page.contains("does not answer: what waits there is not counted"), "{page}");
    fleet.replicas[0].thaw();
}

/// Replicas tell each other on any listener; nobody else is told on one that is open to others.
#[tokio::test]
async fn only_a_replica_is_told_on_an_open_listener() {
    let folder = Folder::new();
    folder.write("paceline.yaml", CONFIG);
    let service = Service::start_in(folder, "0.0.0.0:0").await;
    granted(&service.limiter().await.acquire(ask("a", "m")).await.unwrap().into_inner());
    let keys = service.store.token_keys().await.unwrap();
    let asked_with = async |proof: Vec<u8>| {
        let mut request = Request::new(ListScopesRequest::default());
        request.metadata_mut().insert_bin("paceline-peer-bin", BinaryMetadataValue::from_bytes(&proof));
        service.admin().await.list_scopes(request).await.map(tonic::Response::into_inner)
    };
    let now = service.store.now().as_micros();
    let body = [&7_u32.to_be_bytes()[..], &service.replica.to_be_bytes(), &now.to_be_bytes()].concat();
    let proof = Keyring::new(keys).seal(Kind::Peer, &body);
    let told = asked_with(proof.clone()).await.expect("it is one of the fleet");
    assert!(told.scopes.len() == 1 && told.replicas.is_empty(), "only what it knows itself: {told:?}");
    let mut forged = proof;
    forged[12] ^= 1;
    assert_eq!(asked_with(forged).await.unwrap_err().code(), Code::PermissionDenied);
}
