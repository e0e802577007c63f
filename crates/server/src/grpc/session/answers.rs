//! The answers of a stream on their way out: a bounded number of them, then how it ended.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use paceline_proto::v1::SessionResponse;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::Status;

/// Answers that wait for the caller to read.
pub(crate) const OUTBOX: usize = 256;

/// Where a stream's answers are put; its copies are the same outbox.
#[derive(Clone)]
pub(super) struct Outbox {
    sender: mpsc::Sender<SessionResponse>,
    end: Arc<Mutex<Option<Status>>>,
}

/// The answers as the transport takes them.
pub(crate) struct Answers {
    receiver: mpsc::Receiver<SessionResponse>,
    end: Arc<Mutex<Option<Status>>>,
}

pub(super) fn channel() -> (Outbox, Answers) {
    let (sender, receiver) = mpsc::channel(OUTBOX);
    let end = Arc::new(Mutex::new(None));
    (Outbox { sender, end: end.clone() }, Answers { receiver, end })
}

impl Outbox {
    /// Puts an answer in, once there is room. False: nobody will read it.
    pub(super) async fn send(&self, answer: SessionResponse) -> bool {
        self.sender.send(answer).await.is_ok()
    }

    /// Completes when the caller is gone.
    pub(super) async fn gone(&self) {
        self.sender.closed().await;
    }

    /// What the stream ends with, once all that is in here was read and every copy is dropped.
    pub(super) fn end(&self, status: Status) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    }
}

impl Stream for Answers {
    type Item = Result<SessionResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match ready!(self.receiver.poll_recv(context)) {
            Some(answer) => Poll::Ready(Some(Ok(answer))),
            None => Poll::Ready(self.end.lock().unwrap_or_else(PoisonError::into_inner).take().map(Err)),
        }
    }
}
