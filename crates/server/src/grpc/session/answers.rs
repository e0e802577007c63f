//! The answers of a stream on their way out: a bounded number of them, then how it ended.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use paceline_proto::v1::SessionResponse;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio::sync::mpsc::Permit;
use tokio::sync::mpsc::error::TrySendError;
use tokio_stream::Stream;
use tonic::Status;

use crate::grpc::unheard::{GiveBack, Holds};

/// Answers that wait for the caller to read.
pub(crate) const OUTBOX: usize = 256;

/// A message with more answers than one is not filled beyond this many bytes.
const FULL: usize = 256 * 1024;

/// Where a stream's answers are put; its copies are the same outbox. What is in here when nobody reads any more is given back.
#[derive(Clone)]
pub(super) struct Outbox {
    sender: mpsc::Sender<SessionResponse>,
    about: Arc<About>,
}

/// What both sides of an outbox know of the stream.
#[derive(Default)]
struct About {
    end: Mutex<Option<Status>>,
    takes_more: AtomicBool,
}

/// The answers as the transport takes them.
pub(crate) struct Answers {
    receiver: mpsc::Receiver<SessionResponse>,
    about: Arc<About>,
    give_back: GiveBack,
}

pub(super) fn channel(give_back: GiveBack) -> (Outbox, Answers) {
    let (sender, receiver) = mpsc::channel(OUTBOX);
    let about = Arc::new(About::default());
    (Outbox { sender, about: about.clone() }, Answers { receiver, about, give_back })
}

impl Outbox {
    /// Room for an answer, once there is some. `None`: nobody will read it.
    pub(super) async fn room(&self) -> Option<Permit<'_, SessionResponse>> {
        self.sender.reserve().await.ok()
    }

    /// Room for an answer, where there is some now.
    pub(super) fn room_now(&self) -> Result<Permit<'_, SessionResponse>, TrySendError<()>> {
        self.sender.try_reserve()
    }

    /// Completes when the caller is gone.
    pub(super) async fn gone(&self) {
        self.sender.closed().await;
    }

    /// What the stream ends with, once all that is in here was read and every copy is dropped.
    pub(super) fn end(&self, status: Status) {
        *self.about.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    }

    /// The caller reads several answers in a message.
    pub(super) fn takes_more(&self) {
        self.about.takes_more.store(true, Ordering::Relaxed);
    }
}

impl Answers {
    /// Puts what is ready into the message of the first: a message costs its reader more than an answer in it.
    fn fill(&mut self, first: &mut SessionResponse) {
        first.takes_more = true;
        let mut bytes = first.encoded_len();
        while bytes < FULL
            && let Ok(next) = self.receiver.try_recv()
        {
            bytes += next.encoded_len();
            first.more.push(next);
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        // Closed, it still gets what somebody has room for already.
        self.receiver.close();
        let (_, closed) = mpsc::channel(1);
        let mut unread = std::mem::replace(&mut self.receiver, closed);
        let give_back = self.give_back.clone();
        let giving = async move {
            let mut left = Vec::new();
            while let Some(unread) = unread.recv().await {
                left.extend(unread.answer.iter().flat_map(Holds::left));
            }
            give_back(left);
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(giving);
        }
    }
}

impl Stream for Answers {
    type Item = Result<SessionResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match ready!(self.receiver.poll_recv(context)) {
            Some(mut answer) => {
                if self.about.takes_more.load(Ordering::Relaxed) {
                    self.fill(&mut answer);
                }
                Poll::Ready(Some(Ok(answer)))
            }
            None => Poll::Ready(self.about.end.lock().unwrap_or_else(PoisonError::into_inner).take().map(Err)),
        }
    }
}
