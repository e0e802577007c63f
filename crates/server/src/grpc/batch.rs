//! Many asks or reports in one message, each on its own.

use futures_util::future::join_all;
use paceline_core::units::Span;
use paceline_proto::v1;
use paceline_store::Store;
use prost::Message as _;
use tokio::task::unconstrained;
use tonic::Status;

use super::desk::{Caller, Desk, Held};
use super::unheard::{Holds, Untold};
use super::{read, status};

/// The bytes of details of all items' errors together; clients read 4 MiB, and a thousand items can be wrong in a dozen ways each.
const MOST_DETAIL_BYTES: usize = 1024 * 1024;

/// A batch of asks.
pub(super) async fn acquire<S: Store>(
    desk: &Desk<S>,
    caller: &Caller,
    batch: v1::AcquireBatchRequest,
    longest: Span,
) -> Result<v1::AcquireBatchResponse, Status> {
    let hold = read::batch(batch.items.len(), batch.hold.as_ref())?.min(longest);
    // Looked at in their order for the first time, and none yields to the others then: so they stand in line in it.
    let one = async |item: v1::AcquireRequest| {
        // Only in a batch that is traced: each by itself would be a trace of its own.
        let is_traced = caller.parent.is_some();
        let span = is_traced.then(|| desk.traces().acquire("paceline.v1.RateLimiter/AcquireBatch item", caller.parent, &item));
        let answer = desk.acquire(caller, item, Held::For(hold)).await;
        span.flatten().into_iter().for_each(|span| span.acquired(answer.as_ref()));
        answer
    };
    let answers = all(desk, batch.items.into_iter().map(one)).await;
    let mut details = Details::default();
    let item = |answer| v1::AcquireBatchItem {
        result: Some(match answer {
            Ok(answer) => v1::acquire_batch_item::Result::Answer(answer),
            Err(error) => v1::acquire_batch_item::Result::Error(details.bounded(&error)),
        }),
    };
    Ok(v1::AcquireBatchResponse { items: answers.into_iter().map(item).collect() })
}

/// A batch of reports.
pub(super) async fn report<S: Store>(
    desk: &Desk<S>,
    caller: &Caller,
    batch: v1::ReportBatchRequest,
    longest: Span,
) -> Result<v1::ReportBatchResponse, Status> {
    let hold = read::batch(batch.items.len(), batch.hold.as_ref())?.min(longest);
    let one = async |item: v1::ReportRequest| {
        let is_traced = caller.parent.is_some();
        let span = is_traced.then(|| desk.traces().rpc("paceline.v1.RateLimiter/ReportBatch item", caller.parent));
        let answer = desk.report(caller, item, Some(hold)).await;
        span.flatten().into_iter().for_each(|span| span.reported(answer.as_ref()));
        answer
    };
    let answers = all(desk, batch.items.into_iter().map(one)).await;
    let mut details = Details::default();
    let item = |answer| v1::ReportBatchItem {
        result: Some(match answer {
            Ok(answer) => v1::report_batch_item::Result::Answer(answer),
            Err(error) => v1::report_batch_item::Result::Error(details.bounded(&error)),
        }),
    };
    Ok(v1::ReportBatchResponse { items: answers.into_iter().map(item).collect() })
}

/// The answers of all, once the last one is there. Should the caller be gone by then, what the first ones hold is given back.
async fn all<S: Store, A: Holds>(
    desk: &Desk<S>,
    calls: impl Iterator<Item = impl Future<Output = Result<A, Status>>>,
) -> Vec<Result<A, Status>> {
    let kept = async |call| {
        let answer: Result<A, Status> = unconstrained(call).await;
        let untold = answer.as_ref().ok().and_then(|answer| Untold::of(desk, answer));
        (answer, untold)
    };
    let told = |(answer, untold): (_, Option<Untold>)| {
        untold.iter().for_each(Untold::told);
        answer
    };
    join_all(calls.map(kept)).await.into_iter().map(told).collect()
}

/// What the details of errors have taken so far.
#[derive(Default)]
struct Details {
    bytes: usize,
}

impl Details {
    /// An error as a message; without its details once those before it took all the room.
    fn bounded(&mut self, error: &Status) -> tonic_types::Status {
        let mut told = status::as_message(error);
        self.bytes = self.bytes.saturating_add(told.encoded_len());
        if self.bytes > MOST_DETAIL_BYTES {
            told.details.clear();
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::status::Problems;

    #[test]
    fn a_thousand_items_that_are_all_wrong_fit_into_an_answer() {
        let mut problems = Problems::default();
        (0..20).for_each(|number| problems.add(format!("headers[{number}].name"), "x".repeat(1_000)));
        let error = problems.into_status();
        let mut details = Details::default();
        let told: Vec<_> = (0..1_000).map(|_| details.bounded(&error)).collect();
        assert!(told.iter().map(prost::Message::encoded_len).sum::<usize>() < 2 * MOST_DETAIL_BYTES);
        assert!(told.iter().all(|told| !told.message.is_empty() && told.code == 3));
        assert!(!told[0].details.is_empty() && told[999].details.is_empty());
    }
}
