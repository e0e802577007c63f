//! One Session to one replica: calls go out numbered, answers are handed to whoever waits for that number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use paceline_proto::v1;
use paceline_proto::v1::acquire_response::Outcome;
use paceline_proto::v1::admin_client::AdminClient;
use paceline_proto::v1::rate_limiter_client::RateLimiterClient;
use paceline_proto::v1::session_request::Call as Said;
use paceline_proto::v1::session_response::Answer;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::BinaryMetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

use super::proof::METADATA;
use crate::grpc::bounds::MOST_MESSAGE_BYTES;
use crate::grpc::unheard::Holds as _;

/// Calls that may wait to be written before those that come then wait for room.
const OUTBOX: usize = 1_024;
/// A replica is asked for a sign of life this often ...
const PING_EVERY: Duration = Duration::from_millis(500);
/// ... and is gone when none comes within this time, so that its calls go on within two seconds.
const PING_TIMEOUT: Duration = Duration::from_millis(750);
/// What may be under way before it is read: more than a fleet in one place ever needs, so that no call waits for another's bytes.
const WINDOW_BYTES: u32 = 4 * 1024 * 1024;
/// h2 ends a connection when more small messages lie unread than half of its window stands for: never those of one Session.
const CONNECTION_BYTES: u32 = 4 * WINDOW_BYTES;

/// An open Session.
pub(super) struct Wire {
    says: mpsc::Sender<v1::SessionRequest>,
    calls: Arc<Calls>,
    next_id: AtomicU64,
    channel: Channel,
}

/// Who waits for which answer; `None` once the Session is over.
struct Calls(Mutex<Option<HashMap<u64, Waiter>>>);

enum Waiter {
    /// Somebody listens.
    Listening(mpsc::UnboundedSender<Answer>),
    /// The caller is gone: a slot or place that comes for it is given back.
    Gone,
}

/// A call on the way. Dropped before its last answer, it is cancelled.
pub(super) struct Call {
    wire: Arc<Wire>,
    id: u64,
    hears: mpsc::UnboundedReceiver<Answer>,
    is_over: bool,
    /// Whether a slot that comes too late is left to whoever asks again with the same key.
    leaves_slots: bool,
}

impl Wire {
    /// Connects, and opens the Session with a proof of what this replica is.
    pub(super) async fn open(address: &str, proof: &[u8]) -> Result<Arc<Self>, Status> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|error| Status::invalid_argument(format!("{address} is no address of a replica: {error}")))?
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_BYTES);
        let channel = endpoint.connect().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let mut client = RateLimiterClient::new(channel.clone()).max_decoding_message_size(MOST_MESSAGE_BYTES);
        let (says, said) = mpsc::channel(OUTBOX);
        let mut request = Request::new(ReceiverStream::new(said));
        request.metadata_mut().insert_bin(METADATA, BinaryMetadataValue::from_bytes(proof));
        let hears = client.session(request).await?.into_inner();
        let calls = Arc::new(Calls(Mutex::new(Some(HashMap::new()))));
        tokio::spawn(listen(hears, calls.clone(), says.downgrade(), client));
        Ok(Arc::new(Self { says, calls, next_id: AtomicU64::new(1), channel }))
    }

    /// Whether answers can still come.
    pub(super) fn is_open(&self) -> bool {
        self.calls.lock().is_some()
    }

    /// Asks the replica itself, on the same connection.
    pub(super) fn admin(&self) -> AdminClient<Channel> {
        AdminClient::new(self.channel.clone()).max_decoding_message_size(MOST_MESSAGE_BYTES)
    }

    /// Says something on behalf of a caller; `None`: the Session is over.
    pub(super) async fn say(self: &Arc<Self>, caller: v1::Forwarded, said: Said) -> Option<Call> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (hear, hears) = mpsc::unbounded_channel();
        // A caller that goes while there is no room has said nothing.
        let room = self.says.reserve().await.ok()?;
        self.calls.lock().as_mut()?.insert(id, Waiter::Listening(hear));
        let (call, forwarded) = (Some(said), Some(caller));
        room.send(v1::SessionRequest { correlation_id: id, call, forwarded, ..v1::SessionRequest::default() });
        Some(Call { wire: self.clone(), id, hears, is_over: false, leaves_slots: false })
    }
}

impl Call {
    /// The next answer; `None`: the Session broke.
    pub(super) async fn hear(&mut self) -> Option<Answer> {
        let answer = self.hears.recv().await;
        self.is_over = answer.as_ref().is_none_or(is_last);
        answer
    }

    /// From now on a slot that comes for it is not given back: whoever asks again with the same key gets that very slot.
    pub(super) fn leave_slots(mut self) -> Self {
        self.leaves_slots = true;
        self
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if let Some(calls) = self.wire.calls.lock().as_mut() {
            match self.leaves_slots {
                true => calls.remove(&self.id),
                false => calls.insert(self.id, Waiter::Gone),
            };
        }
        // What was heard meanwhile and not looked at.
        while let Ok(answer) = self.hears.try_recv() {
            if is_last(&answer) {
                if let Some(calls) = self.wire.calls.lock().as_mut() {
                    calls.remove(&self.id);
                }
                if !self.leaves_slots {
                    give_back(&self.wire.says, &answer);
                }
                return;
            }
        }
        let cancel = Some(Said::Cancel(v1::Cancel {}));
        say_later(
            &self.wire.says,
            v1::SessionRequest {
                correlation_id: self.id,
                call: cancel,
                forwarded: Some(v1::Forwarded::default()),
                ..v1::SessionRequest::default()
            },
        );
    }
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, Option<HashMap<u64, Waiter>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over an answer. False: nobody listens, and what it holds is to be given back.
    fn hand_over(&self, id: u64, answer: &Answer) -> bool {
        let mut calls = self.lock();
        let Some(calls) = calls.as_mut() else { return true };
        let waiter = match is_last(answer) {
            true => calls.remove(&id),
            false => return calls.get(&id).is_none_or(|waiter| waiter.hand_over(answer)),
        };
        waiter.is_none_or(|waiter| waiter.hand_over(answer))
    }
}

impl Waiter {
    fn hand_over(&self, answer: &Answer) -> bool {
        match self {
            Self::Listening(hear) => hear.send(answer.clone()).is_ok(),
            Self::Gone => false,
        }
    }
}

/// Hands answers over until the Session ends; then nobody waits any more. The client keeps the connection open meanwhile.
async fn listen(
    mut hears: Streaming<v1::SessionResponse>,
    calls: Arc<Calls>,
    says: mpsc::WeakSender<v1::SessionRequest>,
    _client: RateLimiterClient<Channel>,
) {
    while let Ok(Some(v1::SessionResponse { correlation_id, answer: Some(answer), .. })) = hears.message().await {
        if !calls.hand_over(correlation_id, &answer)
            && let Some(says) = says.upgrade()
        {
            give_back(&says, &answer);
        }
    }
    calls.lock().take();
}

/// Whether nothing follows an answer of another replica: all but the word that the call has arrived, which is a Queued without a
/// ticket.
fn is_last(answer: &Answer) -> bool {
    match answer {
        Answer::Acquire(answer) => is_last_to_ask(answer),
        _ => true,
    }
}

/// The same of an answer to an ask.
pub(super) fn is_last_to_ask(answer: &v1::AcquireResponse) -> bool {
    !matches!(&answer.outcome, Some(Outcome::Queued(queued)) if queued.ticket.is_empty())
}

/// Gives back the slot or place in an answer that nobody hears.
fn give_back(says: &mpsc::Sender<v1::SessionRequest>, answer: &Answer) {
    for left in answer.left() {
        // Nobody waits for its answer, so its number needs to be nobody's only.
        let correlation_id = u64::MAX - u64::from(rand::random::<u32>());
        let call = Some(Said::Release(left.into()));
        let forwarded = Some(v1::Forwarded { unheard: true, ..v1::Forwarded::default() });
        say_later(says, v1::SessionRequest { correlation_id, call, forwarded, ..v1::SessionRequest::default() });
    }
}

/// Says something without waiting; where there is no room, as soon as there is.
fn say_later(says: &mpsc::Sender<v1::SessionRequest>, request: v1::SessionRequest) {
    if let (Err(TrySendError::Full(request)), Ok(runtime)) = (says.try_send(request), tokio::runtime::Handle::try_current()) {
        let says = says.clone();
        runtime.spawn(async move { says.send(request).await });
    }
}
