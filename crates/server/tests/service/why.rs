//! The life of a call: whichever replica is asked, by its name, its lease or its ticket.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use paceline_core::units::Span;
use paceline_proto::v1::admin_client::AdminClient;
use paceline_proto::v1::release_request::What;
use paceline_proto::v1::{
    AcquireRequest, CallLife, CallState, Header, Outcome, Reason, ReleaseRequest, ReportRequest, Source, Verdict, WhyRequest,
    WhyResponse,
};
use tonic::Code;
use tonic::transport::Channel;

use crate::support::fleet::Fleet;
use crate::support::{CONFIG, Folder, Service, ask, fields, granted, length, queued, report, secs, until};

async fn why(admin: &mut AdminClient<Channel>, call: &str) -> WhyResponse {
    admin.why(WhyRequest { call: call.into(), ..WhyRequest::default() }).await.unwrap().into_inner()
}

/// The only attempt that is known.
async fn life(service: &Service, call: &str) -> CallLife {
    let told = why(&mut service.admin().await, call).await;
    assert_eq!((told.lives.len(), told.silent_replicas), (1, 0), "{told:?}");
    told.lives.into_iter().next().unwrap()
}

fn source_of_binding(life: &CallLife) -> Source {
    life.delays.iter().find(|delay| delay.binding).expect("one governs").source()
}

#[tokio::test]
async fn a_call_that_waits_says_for_what_and_behind_how_many() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    granted(&limiter.acquire(ask("first", "slow")).await.unwrap().into_inner());
    for name in ["second", "third"] {
        let mut limiter = limiter.clone();
        tokio::spawn(async move { limiter.acquire(AcquireRequest { hold: Some(secs(30)), ..ask(name, "slow") }).await });
        let admin = service.admin().await;
        until("it waits", async || {
            why(&mut admin.clone(), name).await.lives.iter().any(|life| life.state() == CallState::Waiting)
        })
        .await;
    }
    let third = life(&service, "third").await;
    assert_eq!((third.state(), third.ahead, third.attempt), (CallState::Waiting, 1, 1), "{third:?}");
    assert!(length(third.expected.as_ref()) > Span::ZERO && third.denied_in.is_some() && !third.from_token, "{third:?}");
    assert_eq!(third.target.as_ref().map(|target| target.model.as_str()), Some("slow"));
    assert_ne!(source_of_binding(&third), Source::Unspecified);
}

#[tokio::test]
async fn a_call_is_told_from_its_slot_to_its_end() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let answer = limiter.acquire(ask("a", "m")).await.unwrap().into_inner();
    let lease = granted(&answer).lease_id.clone();
    for call in ["a", lease.as_str()] {
        let life = life(&service, call).await;
        assert_eq!((life.state(), life.request_id.as_str(), life.from_token), (CallState::Granted, "a", false), "{call}");
        assert!(length(life.lease_ends_in.as_ref()) > Span::ZERO && !life.sent, "{life:?}");
    }
    service.advance(Span::from_secs(3));
    let header = Header { name: "retry-after".into(), value: "20".into() };
    limiter.report(ReportRequest { headers: vec![header], ..report(&lease, 429) }).await.unwrap();
    service.advance(Span::from_secs(5));
    for call in ["a", lease.as_str()] {
        let life = life(&service, call).await;
        assert_eq!((life.state(), life.outcome(), life.status), (CallState::Settled, Outcome::Response, 429), "{life:?}");
        assert_eq!((life.verdict(), life.signal_source()), (Verdict::Retry, Source::RetryAfterSeconds));
        assert_eq!((length(life.honored.as_ref()), length(life.known_age.as_ref())), (Span::from_secs(20), Span::from_secs(5)));
    }
    // Its record is gone by then, and what is remembered is not.
    service.advance(Span::from_secs(600));
    granted(&limiter.acquire(ask("b", "m")).await.unwrap().into_inner());
    assert_eq!(life(&service, "a").await.state(), CallState::Settled);
}

#[tokio::test]
async fn attempts_are_told_the_last_first_and_can_be_chosen() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let first = granted(&limiter.acquire(ask("a", "m")).await.unwrap().into_inner()).lease_id.clone();
    limiter.report(report(&first, 503)).await.unwrap();
    service.advance(Span::from_secs(30));
    let next = AcquireRequest { attempt: 2, previous_lease_id: first, ..ask("a", "m") };
    let second = granted(&limiter.acquire(next).await.unwrap().into_inner()).lease_id.clone();
    limiter.release(ReleaseRequest { what: Some(What::LeaseId(second)) }).await.unwrap();
    let mut admin = service.admin().await;
    let told = why(&mut admin, "a").await;
    let states: Vec<_> = told.lives.iter().map(|life| (life.attempt, life.state())).collect();
    assert_eq!(states, [(2, CallState::GivenBack), (1, CallState::Settled)]);
    let only = WhyRequest { call: "a".into(), attempt: 1, ..WhyRequest::default() };
    assert_eq!(admin.why(only).await.unwrap().into_inner().lives.len(), 1);
    for (tenant, known) in [("web", 0), ("default", 2)] {
        let of_tenant = WhyRequest { call: "a".into(), tenant: tenant.into(), ..WhyRequest::default() };
        assert_eq!(admin.why(of_tenant).await.unwrap().into_inner().lives.len(), known, "{tenant}");
    }
}

#[tokio::test]
async fn a_denied_call_says_why() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let cost = std::collections::BTreeMap::from([("tokens".to_owned(), 5_000)]).into_iter().collect();
    limiter.acquire(AcquireRequest { cost, ..ask("big", "m") }).await.unwrap();
    let late = AcquireRequest { deadline: Some(secs(0)), ..ask("late", "m") };
    limiter.acquire(late).await.unwrap();
    for (call, reason) in [("big", Reason::CostExceedsCapacity), ("late", Reason::Deadline)] {
        let life = life(&service, call).await;
        assert_eq!((life.state(), life.reason()), (CallState::Denied, reason), "{life:?}");
        assert!(!life.detail.is_empty(), "{life:?}");
    }
}

#[tokio::test]
async fn a_call_away_with_its_ticket_is_found_by_both() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    granted(&limiter.acquire(ask("first", "slow")).await.unwrap().into_inner());
    let answer = limiter.acquire(ask("away", "slow")).await.unwrap().into_inner();
    let ticket = STANDARD.encode(&queued(&answer).ticket);
    for call in ["away", ticket.as_str()] {
        let life = life(&service, call).await;
        assert_eq!((life.state(), life.request_id.as_str(), life.from_token), (CallState::Away, "away", false), "{life:?}");
        assert!(life.back_in.is_some() && life.expected.is_some(), "{life:?}");
    }
}

/// A replica that starts again remembers nothing, and by then the store has forgotten the call too.
#[tokio::test]
async fn a_token_tells_its_story_when_nobody_remembers() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let lease = granted(&limiter.acquire(ask("a", "slow")).await.unwrap().into_inner()).lease_id.clone();
    let answer = limiter.acquire(ask("b", "slow")).await.unwrap().into_inner();
    let ticket = STANDARD.encode(&queued(&answer).ticket);
    service.advance(Span::from_secs(3_600));
    let other = service.beside(CONFIG).await;
    let mut admin = other.admin().await;
    drop((limiter, service));
    let of_lease = why(&mut admin, &lease).await.lives;
    assert_eq!(of_lease.iter().map(|life| (life.state(), life.from_token)).collect::<Vec<_>>(), [(CallState::Expired, true)]);
    assert_eq!((of_lease[0].request_id.as_str(), of_lease[0].attempt), ("a", 1));
    let of_ticket = why(&mut admin, &ticket).await.lives;
    assert_eq!(of_ticket.iter().map(|life| (life.state(), life.from_token)).collect::<Vec<_>>(), [(CallState::Away, true)]);
    assert_eq!(of_ticket[0].target.as_ref().map(|target| target.model.as_str()), Some("slow"));
    assert!(why(&mut admin, "b").await.lives.is_empty(), "a ticket does not hold the name");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_replica_tells_of_a_call_that_waits_at_another() {
    let fleet = Fleet::patient(2, CONFIG, Some(std::time::Duration::from_secs(20))).await;
    let mut limiter = fleet.limiter(0).await;
    granted(&limiter.acquire(ask("first", "slow")).await.unwrap().into_inner());
    tokio::spawn(async move { limiter.acquire(AcquireRequest { hold: Some(secs(60)), ..ask("held", "slow") }).await });
    let mut admin = fleet.replicas[1].admin().await;
    until("the other one tells", async || {
        why(&mut admin.clone(), "held").await.lives.iter().any(|life| life.state() == CallState::Waiting)
    })
    .await;
    let told = why(&mut admin, "held").await;
    assert_eq!(told.lives[0].replica, fleet.replicas[0].number);
}

#[tokio::test]
async fn only_an_operator_is_told_and_a_call_must_be_named() {
    let service = Service::start().await;
    let mut admin = service.admin().await;
    let error = admin.why(WhyRequest::default()).await.unwrap_err();
    assert!(error.code() == Code::InvalidArgument && fields(&error)["call"].contains("request_id"), "{error:?}");
    assert_eq!(why(&mut admin, "nobody").await, WhyResponse::default());
    let folder = Folder::new();
    folder.write("paceline.yaml", CONFIG);
    let open = Service::start_in(folder, "0.0.0.0:0").await;
    let asked = WhyRequest { call: "a".into(), ..WhyRequest::default() };
    assert_eq!(open.admin().await.why(asked).await.unwrap_err().code(), Code::PermissionDenied);
}
