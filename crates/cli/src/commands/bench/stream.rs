//! Calls that share one stream: the worker's side of a Session.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use paceline_client::Channel;
use paceline_proto::v1::acquire_response::Outcome as Decision;
use paceline_proto::v1::rate_limiter_client::RateLimiterClient;
use paceline_proto::v1::session_request::Call;
use paceline_proto::v1::session_response::Answer;
use paceline_proto::v1::{AcquireRequest, AcquireResponse, ReportRequest, SessionRequest, SessionResponse};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

/// Messages that may wait to be written.
const WAITING: usize = 1_024;

/// One stream and those who wait for answers on it.
pub(super) struct Stream {
    says: mpsc::Sender<SessionRequest>,
    next: AtomicU64,
    waiting: Arc<Waiting>,
}

/// Who waits for the last answer to which message; `None` once the stream has ended.
type Waiting = Mutex<Option<HashMap<u64, Asked>>>;

struct Asked {
    answer: oneshot::Sender<Answer>,
    /// How often a Queued came.
    tickets: u64,
}

impl Stream {
    /// Opens it.
    pub(super) async fn open(mut client: RateLimiterClient<Channel>) -> Result<Self, Status> {
        let (says, messages) = mpsc::channel(WAITING);
        let answers = client.session(ReceiverStream::new(messages)).await?.into_inner();
        let waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        tokio::spawn(hear(answers, waiting.clone()));
        Ok(Self { says, next: AtomicU64::new(1), waiting })
    }

    /// Asks for a slot and waits until the answer is firm.
    pub(super) async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResponse, Status> {
        match self.say(Call::Acquire(request)).await? {
            Answer::Acquire(answer) => Ok(answer),
            other => Err(unexpected(&other)),
        }
    }

    /// Reports a call.
    pub(super) async fn report(&self, request: ReportRequest) -> Result<(), Status> {
        match self.say(Call::Report(request)).await? {
            Answer::Report(_) => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    async fn say(&self, call: Call) -> Result<Answer, Status> {
        let correlation_id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let ended = || Status::unavailable("the session ended");
        match lock(&self.waiting).as_mut() {
            Some(waiting) => waiting.insert(correlation_id, Asked { answer, tickets: 0 }),
            None => return Err(ended()),
        };
        let message = SessionRequest { correlation_id, call: Some(call), ..SessionRequest::default() };
        self.says.send(message).await.map_err(|_| ended())?;
        answered.await.map_err(|_| ended())
    }
}

/// Hands answers to those who wait for them, until the stream ends.
async fn hear(mut answers: Streaming<SessionResponse>, waiting: Arc<Waiting>) {
    while let Ok(Some(SessionResponse { correlation_id, answer: Some(answer), .. })) = answers.message().await {
        let mut waiting = lock(&waiting);
        let Some(waiting) = waiting.as_mut() else { return };
        if let (true, Some(asked)) = (is_queued(&answer), waiting.get_mut(&correlation_id)) {
            asked.tickets += 1;
            // The decision follows, unless this is the second: then the call is not held any more.
            if asked.tickets == 1 {
                continue;
            }
        }
        if let Some(asked) = waiting.remove(&correlation_id) {
            // Whoever asked may have gone.
            let _ = asked.answer.send(answer);
        }
    }
    lock(&waiting).take();
}

fn is_queued(answer: &Answer) -> bool {
    matches!(answer, Answer::Acquire(AcquireResponse { outcome: Some(Decision::Queued(_)), .. }))
}

fn unexpected(answer: &Answer) -> Status {
    match answer {
        Answer::Error(error) => Status::new(Code::from_i32(error.code), error.message.clone()),
        _ => Status::internal("an answer to something else"),
    }
}

fn lock(waiting: &Waiting) -> std::sync::MutexGuard<'_, Option<HashMap<u64, Asked>>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
