//! Callers that go without a word, on real streams: no place in line and no lease stays behind, and who comes back soon finds its place.

use std::time::Duration;

use paceline_proto::v1::rate_limiter_client::RateLimiterClient;
use paceline_proto::v1::session_request::Call;
use paceline_proto::v1::session_response::Answer;
use paceline_proto::v1::{AcquireBatchRequest, AcquireRequest, Cancel, SessionRequest};
use tonic::Code;
use tonic::transport::Endpoint;

use crate::support::fleet::Fleet;
use crate::support::stream::{Stream, is_granted};
use crate::support::{Service, ask, granted, queued, secs, until};

/// `m` lets many through, `slow` one in ten seconds.
const CONFIG: &str = "
providers:
  acme:
    extends: generic
    accounts:
      prod:
        models:
          m: {limits: {requests: 600000/min}, start_level: full}
          slow: {limits: {requests: {limit: 6, per: 1m, burst: 1}}, start_level: full}
";

fn patient(request_id: &str, model: &str) -> AcquireRequest {
    AcquireRequest { max_wait: Some(secs(3_600)), ..ask(request_id, model) }
}

fn said(correlation_id: u64, call: Call) -> SessionRequest {
    SessionRequest { correlation_id, call: Some(call), ..SessionRequest::default() }
}

/// Somebody has the only slot of `slow`.
async fn service() -> Service {
    let service = Service::start_with(CONFIG).await;
    granted(&service.limiter().await.acquire(ask("first", "slow")).await.unwrap().into_inner());
    service
}

/// Nobody is counted in line, and nothing but the calls that are in use is in flight.
async fn nothing_but(service: &Service, in_use: u64) {
    until("nobody is counted in line", async || service.waiting().await == 0).await;
    until("nothing else is in flight", async || service.scope().await.in_flight == in_use).await;
}

#[tokio::test]
async fn a_cancel_that_comes_before_the_first_answer_leaves_nothing() {
    let service = service().await;
    let mut stream = Stream::open(&service).await;
    for round in 0..40 {
        let (id, model) = (round + 1, if round % 2 == 0 { "slow" } else { "m" });
        let (asks, cancels) = (said(id, Call::Acquire(patient(&format!("{round}"), model))), said(id, Call::Cancel(Cancel {})));
        if round % 4 < 2 {
            stream.says.send(asks).await.unwrap();
            stream.says.send(cancels).await.unwrap();
        } else {
            let bundle = SessionRequest { more: vec![cancels], ..asks };
            stream.says.send(bundle).await.unwrap();
        }
        loop {
            match stream.hear().await {
                (told, Answer::Error(error)) if told == id => break assert_eq!(Code::from_i32(error.code), Code::Cancelled),
                // It may have been decided, and even told, before the cancel was read.
                (told, Answer::Acquire(answer)) if told == id && is_granted(&answer) => break,
                (told, Answer::Acquire(answer)) if told == id => drop(queued(&answer).ticket.clone()),
                other => panic!("{other:?}"),
            }
        }
    }
    // The slots that crossed a cancel are given back as the stream ends, should nobody have done so.
    drop(stream);
    nothing_but(&service, 1).await;
}

#[tokio::test]
async fn a_stream_that_breaks_among_cancels_leaves_nothing() {
    let service = service().await;
    for round in 0..10 {
        let stream = Stream::open(&service).await;
        for call in 0..30 {
            let model = if call % 3 == 0 { "m" } else { "slow" };
            stream.ask(call, patient(&format!("{round}.{call}"), model)).await;
        }
        for call in 0..30 {
            stream.cancel(call).await;
        }
        drop(stream);
    }
    until("nobody is counted in line", async || service.waiting().await == 0).await;
}

#[tokio::test]
async fn slots_that_nobody_has_read_are_given_back_as_their_stream_breaks() {
    const CALLS: u64 = 300;
    let service = service().await;
    // What it does not read stays with the service.
    let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap().initial_stream_window_size(4_096);
    let stream = Stream::over(RateLimiterClient::new(endpoint.connect().await.unwrap())).await;
    for call in 0..CALLS {
        stream.ask(call, ask(&format!("call{call}"), "m")).await;
    }
    until("all are decided", async || service.scope().await.in_flight == CALLS + 1).await;
    drop(stream);
    // But for those that had gone into the connection, some 64 KiB: of them nobody knows.
    until("the others are given back", async || service.scope().await.in_flight < CALLS / 2).await;
    until("nobody is counted in line", async || service.waiting().await == 0).await;
    // They were not used: the same calls get slots again.
    let mut stream = Stream::open(&service).await;
    for call in 0..CALLS {
        stream.ask(call, ask(&format!("call{call}"), "m")).await;
        granted(&stream.hear_of(call).await);
    }
    assert_eq!(service.scope().await.in_flight, CALLS + 1);
}

#[tokio::test]
async fn a_batch_whose_caller_goes_leaves_nothing() {
    let service = service().await;
    let mut limiter = service.limiter().await;
    // The first ask is held for a second of fleet time, which stands still.
    let items = vec![ask("at once", "m"), ask("held", "slow"), ask("at once too", "m")];
    let batch = AcquireBatchRequest { items, hold: Some(secs(60)) };
    let asking = tokio::spawn(async move { limiter.acquire_batch(batch).await });
    until("one waits", async || service.waiting().await == 1).await;
    assert_eq!(service.scope().await.in_flight, 3);
    asking.abort();
    nothing_but(&service, 1).await;
}

#[tokio::test]
async fn who_comes_back_on_another_stream_stands_where_it_stood() {
    let service = service().await;
    let mut stream = Stream::open(&service).await;
    stream.ask(1, patient("A", "slow")).await;
    queued(&stream.hear_of(1).await);
    let mut other = Stream::open(&service).await;
    other.ask(1, patient("B", "slow")).await;
    assert_eq!(queued(&other.hear_of(1).await).ahead, 1);
    drop(stream);
    until("it has left", async || service.waiting().await == 1).await;
    // With the same key and no ticket, as one that has not heard its first answer.
    let mut stream = Stream::open(&service).await;
    stream.ask(1, patient("A", "slow")).await;
    assert_eq!(queued(&stream.hear_of(1).await).ahead, 0, "before B");
    until("both wait", async || service.waiting().await == 2).await;
    service.advance(paceline_core::units::Span::from_secs(10));
    until("one is decided", async || service.waiting().await == 1).await;
    granted(&stream.hear_of(1).await);
    // Cancelled and asked for again, it is the same call: no second slot, one place.
    other.cancel(1).await;
    assert_eq!(Code::from_i32(other.hear_error(1).await.code), Code::Cancelled);
    other.ask(2, patient("B", "slow")).await;
    assert_eq!(queued(&other.hear_of(2).await).ahead, 0);
    until("it waits once", async || service.waiting().await == 1).await;
    drop((stream, other));
    until("all have left", async || service.waiting().await == 0).await;
}

/// The same through a replica that does not lead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sent_on_to_another_replica_leaves_nothing_there() {
    let fleet = Fleet::patient(2, CONFIG, Some(Duration::from_secs(20))).await;
    for replica in 0..2 {
        let first = AcquireRequest { hold: Some(secs(1)), ..ask(&format!("first{replica}"), "m") };
        granted(&fleet.limiter(replica).await.acquire(first).await.unwrap().into_inner());
    }
    granted(&fleet.limiter(0).await.acquire(ask("first", "slow")).await.unwrap().into_inner());
    let in_flight = async || {
        let asked = paceline_proto::v1::GetScopeRequest { provider: "acme".into(), account: "prod".into() };
        fleet.replicas[0].admin().await.get_scope(asked).await.unwrap().into_inner().in_flight
    };
    let depth = async || fleet.replicas[0].counted_of("paceline_queue_depth").await;
    assert_eq!(in_flight().await, 3);
    for round in 0..5 {
        let stream = Stream::over(fleet.limiter(1).await).await;
        for call in 0..40 {
            let model = if call % 4 == 0 { "m" } else { "slow" };
            stream.ask(call, patient(&format!("{round}.{call}"), model)).await;
            stream.cancel(call).await;
        }
        drop(stream);
        let mut limiter = fleet.limiter(1).await;
        let held = AcquireRequest { hold: None, ..patient(&format!("{round}"), "slow") };
        let unary = tokio::spawn(async move { limiter.acquire(held).await });
        until("it waits", async || depth().await >= 1.0).await;
        unary.abort();
    }
    until("nobody is counted in line", async || depth().await < 1.0).await;
    // A slot whose cancel came when it was on the wire to a caller that has gone is known by its silence only: seldom one or two.
    until("nearly nothing else is in flight", async || in_flight().await <= 3 + 3).await;
}
