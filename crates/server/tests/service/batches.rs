//! Many asks and reports in one message.

use paceline_core::units::Span;
use paceline_proto::v1::acquire_batch_item::Result as Asked;
use paceline_proto::v1::acquire_response::Outcome;
use paceline_proto::v1::report_batch_item::Result as Reported;
use paceline_proto::v1::{
    AcquireBatchRequest, AcquireRequest, AcquireResponse, Header, Outcome as Went, ReportBatchRequest, ReportRequest, RetryAsk,
};
use tonic::Code;

use crate::support::{Service, ask, fields, granted, length, queued, report, secs, until};

fn asks(items: Vec<AcquireRequest>) -> AcquireBatchRequest {
    AcquireBatchRequest { items, hold: None }
}

fn answer(result: Option<&Asked>) -> &AcquireResponse {
    let Some(Asked::Answer(answer)) = result else { panic!("{result:?}") };
    answer
}

#[tokio::test]
async fn each_item_is_answered_on_its_own_and_in_its_place() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let items = vec![
        ask("a", "slow"),
        AcquireRequest { request_id: String::new(), ..ask("", "slow") },
        ask("b", "slow"),
        ask("a", "slow"), // the first one again: one of the two has the slot
        AcquireRequest { cost: [("requests".to_owned(), 2)].into(), ..ask("a", "slow") },
        ask("c", "slow"),
        AcquireRequest { ticket: vec![7; 50], ..ask("d", "m") },
        ask("e", "m"),
    ];
    let told = limiter.acquire_batch(asks(items)).await.unwrap().into_inner();
    let told: Vec<_> = told.items.iter().map(|item| item.result.as_ref()).collect();
    let code = |at: usize| match told[at] {
        Some(Asked::Error(error)) => Code::from_i32(error.code),
        other => panic!("{other:?}"),
    };
    let slots = [0, 3].into_iter().filter(|at| matches!(answer(told[*at]).outcome, Some(Outcome::Grant(_)))).count();
    assert_eq!(slots, 1, "{told:?}");
    assert_eq!((code(1), code(4), code(6)), (Code::InvalidArgument, Code::AlreadyExists, Code::InvalidArgument));
    assert_eq!((queued(answer(told[2])).ahead, queued(answer(told[5])).ahead), (0, 1), "in their order");
    granted(answer(told[7]));
    assert_eq!(service.scope().await.in_flight, 2);
}

#[tokio::test]
async fn a_batch_is_held_until_all_are_firm() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let told = limiter.acquire_batch(asks(vec![ask("a", "slow"), ask("b", "slow")])).await.unwrap().into_inner();
    granted(answer(told.items[0].result.as_ref()));
    let ticket = queued(answer(told.items[1].result.as_ref())).ticket.clone();
    let items = vec![AcquireRequest { ticket, ..ask("b", "slow") }, ask("c", "m")];
    let held = tokio::spawn(async move {
        limiter.acquire_batch(AcquireBatchRequest { items, hold: Some(secs(60)) }).await.unwrap().into_inner()
    });
    until("it waits", async || service.waiting().await == 1).await;
    assert!(!held.is_finished());
    service.advance(Span::from_secs(10));
    until("it is decided", async || service.waiting().await == 0).await;
    let told = held.await.unwrap();
    assert!(told.items.iter().all(|item| length(granted(answer(item.result.as_ref())).wait.as_ref()) == Span::ZERO));

    // Who hangs up leaves the line with all items.
    let mut limiter = service.limiter().await;
    let hangs_up = tokio::spawn(async move {
        let items = (0..20).map(|number| ask(&format!("gone{number}"), "slow")).collect();
        limiter.acquire_batch(AcquireBatchRequest { items, hold: Some(secs(1)) }).await
    });
    until("they wait", async || service.waiting().await == 20).await;
    hangs_up.abort();
    until("they have left", async || service.waiting().await == 0).await;
}

#[tokio::test]
async fn a_thousand_items_are_taken_and_one_more_is_not() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let many = |count: usize| (0..count).map(|number| ask(&format!("{count}-{number}"), "slow")).collect::<Vec<_>>();
    assert!(limiter.acquire_batch(asks(Vec::new())).await.unwrap().into_inner().items.is_empty());
    assert_eq!(limiter.acquire_batch(asks(many(1))).await.unwrap().into_inner().items.len(), 1);
    let before = service.scope().await;
    let long = |ask: AcquireRequest| AcquireRequest { tenant: "t".repeat(50), ..ask };
    // 100,000 of them are more than 4 MiB; empty ones are not, so it is their number that is wrong.
    for (items, code) in [
        (many(1_001), Code::InvalidArgument),
        (many(100_000).into_iter().map(long).collect(), Code::ResourceExhausted),
        (vec![AcquireRequest::default(); 100_000], Code::InvalidArgument),
    ] {
        let error = limiter.acquire_batch(asks(items)).await.unwrap_err();
        assert_eq!(error.code(), code, "{error:?}");
        if code == Code::InvalidArgument {
            assert!(fields(&error)["items"].contains("at most 1000"), "{error:?}");
        }
        assert_eq!(service.scope().await, before, "none was asked");
    }
    let told = limiter.acquire_batch(asks(many(1_000))).await.unwrap().into_inner();
    assert_eq!(told.items.len(), 1_000);
    let ahead: Vec<u64> = told.items.iter().map(|item| queued(answer(item.result.as_ref())).ahead).collect();
    assert!(ahead.is_sorted(), "in the order of the message");
    let wrong = AcquireBatchRequest { items: many(1), hold: Some(secs(-1)) };
    assert!(fields(&limiter.acquire_batch(wrong).await.unwrap_err()).contains_key("hold"));
}

#[tokio::test]
async fn reports_settle_one_by_one_and_a_wrong_one_harms_nobody() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let told = limiter.acquire_batch(asks((0..9).map(|n| ask(&format!("a{n}"), "m")).collect())).await.unwrap().into_inner();
    let leases: Vec<String> = told.items.iter().map(|item| granted(answer(item.result.as_ref())).lease_id.clone()).collect();
    assert_eq!(service.scope().await.in_flight, 9);
    let mut items: Vec<ReportRequest> = leases.iter().map(|lease_id| report(lease_id, 200)).collect();
    items[1].outcome = 0;
    items[2].lease_id = "forged".into();
    // A megabyte of headers: each is within its bound, so they are read.
    let header = |number: usize| Header { name: format!("x-filler-{number}"), value: "v".repeat(40_000) };
    items[3].headers = (0..26).map(header).collect();
    items[4].headers = vec![Header { name: "x".into(), value: "v".into() }; 513];
    items.push(report(&leases[0], 200)); // the first one again
    let hold = None;
    let told = limiter.report_batch(ReportBatchRequest { items, hold }).await.unwrap().into_inner();
    let applied: Vec<Option<bool>> = told
        .items
        .iter()
        .map(|item| match item.result.as_ref().unwrap() {
            Reported::Answer(answer) => Some(answer.applied),
            Reported::Error(error) => {
                assert_eq!(Code::from_i32(error.code), Code::InvalidArgument);
                None
            }
        })
        .collect();
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(applied, [yes, None, None, yes, None, yes, yes, yes, yes, no]);
    assert_eq!(service.scope().await.in_flight, 3);
    let too_many = ReportBatchRequest { items: vec![report(&leases[1], 200); 1_001], hold: None };
    assert!(fields(&limiter.report_batch(too_many).await.unwrap_err()).contains_key("items"));
    assert_eq!(service.scope().await.in_flight, 3, "none was applied");
}

#[tokio::test]
async fn the_next_attempts_of_a_batch_are_held_as_long_as_it_says() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let first = limiter.acquire(ask("a", "slow")).await.unwrap().into_inner();
    let retry = Some(RetryAsk { wanted: true, ..RetryAsk::default() });
    let failed = ReportRequest { outcome: Went::ConnectionFailed.into(), retry, ..report(&granted(&first).lease_id, 0) };
    // Fleet time stands still: with no hold it is answered all the same.
    let told = limiter.report_batch(ReportBatchRequest { items: vec![failed], hold: None }).await.unwrap().into_inner();
    let Some(Reported::Answer(told)) = &told.items[0].result else { panic!("{told:?}") };
    queued(told.next.as_ref().expect("a place in line"));
}
