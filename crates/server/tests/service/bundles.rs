//! Several calls in a message of a Session, and several answers.

use std::collections::BTreeSet;

use paceline_proto::v1::session_request::Call;
use paceline_proto::v1::session_response::Answer;
use paceline_proto::v1::{AcquireRequest, SessionRequest, SessionResponse};
use paceline_server::bounds::MOST_ITEMS;
use tonic::Code;

use crate::support::stream::Stream;
use crate::support::{Service, ask, granted, queued, until};

fn says(correlation_id: u64, ask: AcquireRequest) -> SessionRequest {
    SessionRequest { correlation_id, call: Some(Call::Acquire(ask)), ..SessionRequest::default() }
}

/// The answers in a message, in their order.
fn parts(message: SessionResponse) -> Vec<SessionResponse> {
    let SessionResponse { more, .. } = message.clone();
    [SessionResponse { more: Vec::new(), ..message }].into_iter().chain(more).collect()
}

#[tokio::test]
async fn calls_of_one_message_are_taken_in_their_order_and_answered_in_few() {
    const CALLS: u64 = 64;
    let service = Service::start().await;
    let mut stream = Stream::open(&service).await;
    let more: Vec<_> = (1..CALLS).map(|id| says(id, ask(&format!("call{id}"), "slow"))).collect();
    let bundle = SessionRequest { more, takes_more: true, ..says(0, ask("call0", "slow")) };
    stream.says.send(bundle).await.unwrap();

    let (mut ahead, mut messages) = (Vec::new(), 0);
    while ahead.len() < CALLS as usize {
        let message = stream.next().await.unwrap().expect("the stream lives");
        assert!(message.takes_more, "it says that it reads them");
        messages += 1;
        for part in parts(message) {
            let Some(Answer::Acquire(answer)) = part.answer else { panic!("no error: {part:?}") };
            // The first has the slot; the others stand in the order of the message.
            if part.correlation_id == 0 {
                granted(&answer);
                ahead.push((0, 0));
            } else {
                ahead.push((part.correlation_id, queued(&answer).ahead + 1));
            }
        }
    }
    ahead.sort_unstable();
    assert_eq!(ahead, (0..CALLS).map(|id| (id, id)).collect::<Vec<_>>());
    assert!(messages < CALLS / 2, "{messages} messages for {CALLS} answers");
    until("the others wait", async || service.waiting().await == CALLS - 1).await;
}

#[tokio::test]
async fn whoever_does_not_say_so_hears_one_answer_in_a_message() {
    let service = Service::start().await;
    let mut stream = Stream::open(&service).await;
    let more = (1..32).map(|id| says(id, ask(&format!("call{id}"), "slow"))).collect();
    stream.says.send(SessionRequest { more, ..SessionRequest::default() }).await.unwrap();
    let mut heard = BTreeSet::new();
    while heard.len() < 31 {
        let message = stream.next().await.unwrap().expect("the stream lives");
        assert!(message.more.is_empty() && !message.takes_more);
        heard.insert(message.correlation_id);
    }
    assert_eq!(heard, (1..32).collect());
}

#[tokio::test]
async fn a_message_that_only_says_what_its_sender_reads_is_not_answered() {
    let service = Service::start().await;
    let mut stream = Stream::open(&service).await;
    stream.says.send(SessionRequest { takes_more: true, ..SessionRequest::default() }).await.unwrap();
    stream.ask(5, ask("a", "fast")).await;
    let message = stream.next().await.unwrap().expect("the stream lives");
    assert!(message.correlation_id == 5 && message.takes_more, "{message:?}");
}

#[tokio::test]
async fn too_many_in_a_message_or_within_each_other_end_the_stream() {
    let service = Service::start().await;
    let nested = SessionRequest { more: vec![says(2, ask("b", "fast"))], ..says(1, ask("a", "fast")) };
    let within = SessionRequest { more: vec![nested], ..SessionRequest::default() };
    let many = vec![SessionRequest::default(); MOST_ITEMS + 1];
    for (bundle, names) in [(within, "without `more`"), (SessionRequest { more: many, ..SessionRequest::default() }, "1001")] {
        let mut stream = Stream::open(&service).await;
        stream.says.send(bundle).await.unwrap();
        let end = stream.next().await.unwrap_err();
        assert!(end.code() == Code::InvalidArgument && end.message().contains(names), "{end:?}");
    }
}
