//! Slots and places that nobody hears of: what an answer holds is given back, unless the answer was handed to the transport.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::Bytes;
use axum::http::Response;
use http_body::{Frame, SizeHint};
use paceline_proto::v1;
use paceline_proto::v1::acquire_response::Outcome;
use paceline_proto::v1::release_request::What;
use paceline_proto::v1::session_response::Answer;
use paceline_store::Store;
use tonic::Status;
use tonic::body::Body;

use super::desk::Desk;

/// What stays behind when an answer gets lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// A slot, by its lease.
    Slot(String),
    /// A place in line, by its ticket.
    Place(Vec<u8>),
}

impl From<Left> for v1::ReleaseRequest {
    fn from(left: Left) -> Self {
        let what = match left {
            Left::Slot(lease_id) => What::LeaseId(lease_id),
            Left::Place(ticket) => What::Ticket(ticket),
        };
        Self { what: Some(what) }
    }
}

/// An answer that may hold a slot or a place.
pub(crate) trait Holds {
    /// What it holds.
    fn left(&self) -> Vec<Left>;
}

impl Holds for v1::AcquireResponse {
    fn left(&self) -> Vec<Left> {
        match &self.outcome {
            // What is let through unseen holds nothing.
            Some(Outcome::Grant(grant)) if self.mode() != v1::Mode::Off => vec![Left::Slot(grant.lease_id.clone())],
            Some(Outcome::Queued(queued)) if !queued.ticket.is_empty() => vec![Left::Place(queued.ticket.clone())],
            _ => Vec::new(),
        }
    }
}

impl Holds for v1::ReportResponse {
    fn left(&self) -> Vec<Left> {
        self.next.as_ref().map_or_else(Vec::new, Holds::left)
    }
}

impl Holds for v1::AcquireBatchResponse {
    fn left(&self) -> Vec<Left> {
        let answers = self.items.iter().filter_map(|item| match &item.result {
            Some(v1::acquire_batch_item::Result::Answer(answer)) => Some(answer),
            _ => None,
        });
        answers.flat_map(Holds::left).collect()
    }
}

impl Holds for v1::ReportBatchResponse {
    fn left(&self) -> Vec<Left> {
        let answers = self.items.iter().filter_map(|item| match &item.result {
            Some(v1::report_batch_item::Result::Answer(answer)) => Some(answer),
            _ => None,
        });
        answers.flat_map(Holds::left).collect()
    }
}

impl Holds for Answer {
    fn left(&self) -> Vec<Left> {
        match self {
            Self::Acquire(answer) => answer.left(),
            Self::Report(answer) => answer.left(),
            Self::Release(_) | Self::Error(_) => Vec::new(),
        }
    }
}

/// Gives things back beside everything else.
pub(crate) type GiveBack = Arc<dyn Fn(Vec<Left>) + Send + Sync>;

/// An answer that was not told yet. Dropped before it is, what it holds is given back; its copies are the same.
#[derive(Clone)]
pub(crate) struct Untold(Arc<Inner>);

struct Inner {
    left: Mutex<Vec<Left>>,
    give_back: Box<dyn Fn(Vec<Left>) + Send + Sync>,
}

impl Untold {
    /// `None`: nothing stays behind when this answer gets lost.
    pub(crate) fn of<S: Store>(desk: &Desk<S>, answer: &impl Holds) -> Option<Self> {
        let left = answer.left();
        if left.is_empty() {
            return None;
        }
        let desk = desk.clone();
        Some(Self(Arc::new(Inner { left: Mutex::new(left), give_back: Box::new(move |left| desk.give_back(left)) })))
    }

    /// From now on somebody else answers for it.
    pub(crate) fn told(&self) {
        self.0.take();
    }
}

impl Inner {
    fn take(&self) -> Vec<Left> {
        std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let left = self.take();
        if !left.is_empty() {
            (self.give_back)(left);
        }
    }
}

/// Watches over the body of a response that holds something until the transport has taken all of it.
pub(crate) fn watch_over(mut response: Response<Body>) -> Response<Body> {
    match response.extensions_mut().remove::<Untold>() {
        Some(untold) => response.map(|body| Body::new(Watched { body, untold })),
        None => response,
    }
}

/// The body of an answer that was not told yet.
struct Watched {
    body: Body,
    untold: Untold,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        // Without its trailers no client takes an answer for one.
        if frame.as_ref().is_none_or(|frame| frame.as_ref().is_ok_and(Frame::is_trailers)) {
            self.untold.told();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn untold() -> (Untold, Arc<Mutex<Vec<Left>>>) {
        let given: Arc<Mutex<Vec<Left>>> = Arc::default();
        let back = given.clone();
        let give_back = Box::new(move |left: Vec<Left>| back.lock().unwrap().extend(left));
        (Untold(Arc::new(Inner { left: Mutex::new(vec![Left::Slot("a".into())]), give_back })), given)
    }

    /// A body of one message and trailers.
    struct Frames(Vec<Frame<Bytes>>);

    impl http_body::Body for Frames {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Ready(self.0.pop().map(Ok))
        }
    }

    fn read(frames: usize) -> Vec<Left> {
        let (untold, given) = untold();
        let body = vec![Frame::trailers(axum::http::HeaderMap::new()), Frame::data(Bytes::from_static(b"answer"))];
        let mut response = Response::new(Body::new(Frames(body)));
        response.extensions_mut().insert(untold);
        let mut body = watch_over(response).into_body();
        for _ in 0..frames {
            let polled = http_body::Body::poll_frame(Pin::new(&mut body), &mut Context::from_waker(Waker::noop()));
            assert!(polled.is_ready());
        }
        drop(body);
        given.lock().unwrap().clone()
    }

    #[test]
    fn what_the_transport_has_not_taken_to_the_end_is_given_back() {
        assert_eq!(read(0), [Left::Slot("a".into())]);
        assert_eq!(read(1), [Left::Slot("a".into())], "a client waits for the trailers");
        assert!(read(2).is_empty());
        assert!(read(3).is_empty());
    }

    #[test]
    fn copies_are_one_answer() {
        let (untold, given) = untold();
        let copy = untold.clone();
        drop(untold);
        assert!(given.lock().unwrap().is_empty());
        copy.told();
        drop(copy);
        assert!(given.lock().unwrap().is_empty());
    }
}
