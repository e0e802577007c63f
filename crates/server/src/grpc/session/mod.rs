//! Everything one caller says and hears on one stream.
//!
//! One task per stream: it takes messages in their order, waits for all calls at once, and writes answers. A call is a future
//! here and no task of its own, so calls stand in line in the order in which they came, and all of them leave it when the stream
//! ends. Nothing piles up: at most [`MOST_SESSION_CALLS`] calls, a bounded number of answers; beyond that the caller is
//! told, or is not read from until it reads.

mod answers;
mod call;
mod renewals;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use paceline_proto::v1;
use paceline_proto::v1::session_request::Call;
use paceline_proto::v1::session_response::Answer;
use paceline_store::Store;
use tokio::sync::{oneshot, watch};
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::{Status, Streaming};

pub(crate) use self::answers::Answers;
use self::answers::{OUTBOX, Outbox};
use self::call::{Ended, Running, run};
use self::renewals::Renewals;
use super::bounds::{MOST_ITEMS, MOST_SESSION_CALLS};
use super::desk::{Caller, Desk};
use super::status;
use super::unheard::{Holds as _, Left};
use crate::listener::stopped;

/// Answers that nobody reads for this long end the stream.
const MOST_STALL: Duration = Duration::from_secs(30);
/// How long calls that wait get for their tickets when the service leaves.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);
/// The most calls that another replica has waiting here: as many as a replica holds.
const MOST_PEER_CALLS: usize = 100_000;
/// Leases that are renewed at a time.
const MOST_RENEWALS: usize = 64;

/// Serves a stream in a task of its own, until the caller ends it or is gone.
pub(super) fn open<S: Store>(desk: Desk<S>, caller: Caller, requests: Streaming<v1::SessionRequest>) -> Answers {
    let back = desk.clone();
    let (outbox, answers) = answers::channel(Arc::new(move |left| back.give_back(left)));
    let draining = desk.draining();
    let session = Session {
        desk,
        caller,
        outbox,
        calls: HashMap::new(),
        running: FuturesUnordered::new(),
        late: VecDeque::new(),
        renewals: Renewals::default(),
    };
    tokio::spawn(session.serve(requests, draining));
    answers
}

struct Session<S> {
    desk: Desk<S>,
    caller: Caller,
    outbox: Outbox,
    /// What cancels each call that has not had its last answer.
    calls: HashMap<u64, Option<oneshot::Sender<()>>>,
    running: FuturesUnordered<Running>,
    /// What came of calls while an answer waited for room.
    late: VecDeque<Ended>,
    renewals: Renewals,
}

/// Why a stream ends.
enum End {
    /// The caller has said all and heard all, or is gone.
    Done,
    /// With this as its last word.
    With(Status),
}

impl<S: Store> Session<S> {
    async fn serve(mut self, mut requests: Streaming<v1::SessionRequest>, draining: watch::Receiver<bool>) {
        let end = self.turn(&mut requests, draining).await;
        self.leave_nothing_behind();
        if let Err(End::With(status)) = end {
            self.outbox.end(status);
        }
    }

    /// Gives back what nobody is told any more, and slots that crossed their cancel and were not given back.
    fn leave_nothing_behind(&mut self) {
        let unsaid = self.late.drain(..).flat_map(|ended| match ended {
            Ended::Call { answer, .. } => answer.left(),
            Ended::Renewed { .. } | Ended::Nothing => Vec::new(),
        });
        let crossed = self.renewals.left_behind().map(|lease_id| Left::Slot(lease_id.to_string()));
        self.desk.give_back(unsaid.chain(crossed).collect());
    }

    /// The loop; it only ever ends with a reason.
    async fn turn(&mut self, requests: &mut Streaming<v1::SessionRequest>, draining: watch::Receiver<bool>) -> Result<(), End> {
        let mut draining = pin!(stopped(draining));
        let mut has_said_all = false;
        loop {
            while let Some(ended) = self.late.pop_front() {
                self.ended(ended).await?;
            }
            if has_said_all && self.calls.is_empty() {
                return Err(End::Done);
            }
            tokio::select! {
                () = self.outbox.gone() => return Err(End::Done),
                () = &mut draining => return Err(self.leave().await),
                said = requests.message(), if !has_said_all => match said {
                    Ok(Some(message)) => self.take(message).await?,
                    Ok(None) => has_said_all = true,
                    Err(_) => return Err(End::Done), // it is gone, or speaks another protocol
                },
                Some(ended) = self.running.next() => {
                    self.ended(ended).await?;
                    self.others_ended().await?;
                }
                () = sleep_until(self.renewals.next_at().unwrap_or_else(Instant::now)), if self.renewals.next_at().is_some() => {
                    self.renew();
                }
            }
        }
    }

    /// One message, and what came with it.
    async fn take(&mut self, mut message: v1::SessionRequest) -> Result<(), End> {
        let more = std::mem::take(&mut message.more);
        if more.len() > MOST_ITEMS || more.iter().any(|each| !each.more.is_empty()) {
            let said = format!("holds {} messages; say up to {MOST_ITEMS}, without `more` in them", more.len());
            return Err(End::With(status::invalid("more", said)));
        }
        if message.takes_more {
            self.outbox.takes_more();
        }
        let is_frame = message.call.is_none() && (message.takes_more || !more.is_empty());
        let own = (!is_frame).then_some(message);
        for each in own.into_iter().chain(more) {
            self.take_one(each).await?;
        }
        Ok(())
    }

    async fn take_one(&mut self, message: v1::SessionRequest) -> Result<(), End> {
        let id = message.correlation_id;
        let Some(call) = message.call else {
            let said = format!("is not set in the message with correlation_id {id}; say acquire, report, release or cancel");
            return Err(End::With(status::invalid("call", said)));
        };
        let caller = match message.forwarded {
            Some(v1::Forwarded { identity, unheard }) if self.caller.is_sent_on => {
                Caller { identity, is_unheard: unheard, ..self.caller.clone() }
            }
            None if !self.caller.is_sent_on => self.caller.clone(),
            Some(_) => {
                return self.refuse(id, &status::invalid("forwarded", "is said between replicas only; leave it out")).await;
            }
            None => {
                return self
                    .refuse(id, &status::invalid("forwarded", "is not set; another replica says whom a call is from"))
                    .await;
            }
        };
        if matches!(call, Call::Cancel(_)) {
            // One that has had its last answer is not answered again.
            match self.calls.get_mut(&id) {
                Some(call) => {
                    if let Some(cancel) = call.take() {
                        let _ = cancel.send(());
                    }
                }
                None => self.renewals.cancelled(id),
            }
            return Ok(());
        }
        let most = if caller.is_sent_on { MOST_PEER_CALLS } else { MOST_SESSION_CALLS };
        if self.calls.len() >= most {
            let said = format!("{most} calls of this stream wait for their last answer; no more are taken until some have it");
            return self.refuse(id, &status::too_many(said)).await;
        }
        let Entry::Vacant(free) = self.calls.entry(id) else {
            let said = format!("is {id}, which names a call that has not had its last answer; that call goes on");
            return self.refuse(id, &status::invalid("correlation_id", said)).await;
        };
        let (cancel, cancelled) = oneshot::channel();
        free.insert(Some(cancel));
        // It does not yield before it stands in line: else those behind it would stand before it.
        self.running.push(Box::pin(unconstrained(run(self.desk.clone(), caller, self.outbox.clone(), id, call, cancelled))));
        Ok(())
    }

    /// A call had its last answer, or a lease was renewed.
    async fn ended(&mut self, ended: Ended) -> Result<(), End> {
        match ended {
            Ended::Call { id, answer, lease } => {
                self.calls.remove(&id);
                // Another replica renews what its callers hold.
                if !self.caller.is_sent_on {
                    self.renewals.note(id, lease, &answer, Instant::now());
                }
                self.tell(id, *answer).await
            }
            Ended::Renewed { lease_id, ttl } => {
                self.renewals.renewed(&lease_id, ttl, Instant::now());
                Ok(())
            }
            Ended::Nothing => Ok(()),
        }
    }

    /// What else is there already, told in one go: what is decided together is heard together.
    async fn others_ended(&mut self) -> Result<(), End> {
        for _ in 0..OUTBOX {
            let Some(Some(ended)) = self.running.next().now_or_never() else { break };
            self.ended(ended).await?;
        }
        Ok(())
    }

    fn renew(&mut self) {
        for lease_id in self.renewals.due(Instant::now(), MOST_RENEWALS) {
            self.running.push(Box::pin(call::renew(self.desk.clone(), self.caller.clone(), lease_id)));
        }
    }

    async fn refuse(&mut self, id: u64, error: &Status) -> Result<(), End> {
        self.tell(id, Answer::Error(status::as_message(error))).await
    }

    async fn tell(&mut self, id: u64, answer: Answer) -> Result<(), End> {
        if let Ok(room) = self.outbox.room_now() {
            room.send(v1::SessionResponse { correlation_id: id, answer: Some(answer), ..v1::SessionResponse::default() });
            return Ok(());
        }
        // Boxed: most answers need no room for it.
        Box::pin(self.tell_when_read(id, answer)).await
    }

    /// Calls go on meanwhile: they wait for room too, and who is given some and is not awake would keep it from everybody.
    async fn tell_when_read(&mut self, id: u64, answer: Answer) -> Result<(), End> {
        let Self { outbox, running, late, .. } = self;
        let mut room = pin!(timeout(MOST_STALL, outbox.room()));
        let room = loop {
            tokio::select! {
                biased;
                room = &mut room => break room,
                Some(ended) = running.next() => late.push_back(ended),
            }
        };
        match room {
            Ok(Some(room)) => {
                room.send(v1::SessionResponse { correlation_id: id, answer: Some(answer), ..v1::SessionResponse::default() });
                Ok(())
            }
            Ok(None) => {
                self.desk.give_back(answer.left());
                Err(End::Done)
            }
            Err(_) => {
                self.desk.give_back(answer.left());
                tracing::warn!(
                    identity = self.caller.identity, calls = self.calls.len(), after = ?MOST_STALL,
                    "a Session ends because its answers are not read; its leases are not renewed any more"
                );
                let said = format!("nothing was read from this stream for {} s; read while you write", MOST_STALL.as_secs());
                Err(End::With(status::too_many(said)))
            }
        }
    }

    /// The service leaves: those who wait get their tickets from the coordinator, and all go.
    async fn leave(&mut self) -> End {
        let told = timeout(LEAVE_WITHIN, async {
            while !self.calls.is_empty() {
                let next = match self.late.pop_front() {
                    Some(ended) => Some(ended),
                    None => self.running.next().await,
                };
                let Some(ended) = next else { break };
                self.ended(ended).await?;
            }
            Ok(())
        });
        match told.await {
            Ok(Err(end)) => end,
            Ok(Ok(())) | Err(_) => End::With(Status::unavailable(
                "this replica leaves; go on at another one, with the tickets of the calls that wait",
            )),
        }
    }
}
