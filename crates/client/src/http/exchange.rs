//! One HTTP call, from the ask to the caller's answer: what tower and reqwest have in common.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, Response, header};
use http_body::Body;
use tokio::time::{Instant, timeout, timeout_at};

use crate::error::Error;
use crate::http::body::{PacedBody, Watch};
use crate::http::{Outgoing, Pacing, secrets};
use crate::report::{Report, Retry};
use crate::slot::{Next, Slot};
use crate::{Target, waiting};

/// So much of an error's body is read before it is reported: the reason is at its start.
const MOST_OF_AN_ERROR: usize = 64 * 1024;
/// And no longer than this.
const ERROR_WITHIN: Duration = Duration::from_secs(5);

/// A call with a slot for its next attempt.
pub(crate) struct Exchange {
    pacing: Pacing,
    slot: Slot,
    /// What of an answer must not be told: the request's own credentials.
    secrets: Vec<String>,
}

/// What follows an attempt.
pub(crate) enum After<T> {
    /// Send it again.
    Again(Exchange),
    /// That is for the caller.
    Over(T),
}

impl Exchange {
    /// Waits for the first slot. `None`: the request is not to be asked for.
    pub(crate) async fn begin(pacing: &Pacing, request: &Outgoing<'_>) -> Result<Option<Self>, Error> {
        let Some(ask) = (pacing.ask)(request) else { return Ok(None) };
        let slot = pacing.limiter.acquire(ask).await?;
        Ok(Some(Self { pacing: pacing.clone(), slot, secrets: secrets::of(request.headers) }))
    }

    /// Where the call is to go.
    pub(crate) fn target(&self) -> Target {
        self.slot.target()
    }

    /// Sends: `send` is called when the slot may be used. A slot that became too late meanwhile is asked for again first.
    pub(crate) async fn send<F: Future>(mut self, send: impl FnOnce() -> F) -> Result<(Self, F::Output), Error> {
        while self.slot.is_late() {
            self.slot = waiting::again(self.slot).await?;
        }
        self.slot.sent();
        let Some(deadline) = self.slot.asked().deadline else {
            let came = send().await;
            return Ok((self, came));
        };
        match timeout_at(deadline.at, send()).await {
            Ok(came) => Ok((self, came)),
            Err(_) => {
                let attempt = self.slot.attempt();
                self.slot.leave(Report::timeout());
                Err(Error::DeadlineOver { after: deadline.length, attempt })
            }
        }
    }

    /// The attempt was answered; `is_repeatable` if there is another request like it.
    pub(crate) async fn answered<B>(self, response: Response<B>, is_repeatable: bool) -> After<Response<PacedBody<B>>>
    where
        B: Body,
    {
        let arrived = Instant::now();
        let (parts, body) = response.into_parts();
        let report = Report::response(parts.status.as_u16()).headers(secrets::open(&parts.headers)).arrived(arrived);
        if parts.status.as_u16() < 400 {
            let is_stream = is_stream(&parts.headers, &body);
            let usage = (self.pacing.usage)(&parts);
            let watch = Watch::begin(self.slot, report, usage, is_stream, self.secrets);
            return After::Over(Response::from_parts(parts, PacedBody::watched(body, watch)));
        }
        let (start, rest) = read_start(body).await;
        let report = report.body(secrets::clean(&start, &self.secrets));
        match self.told(report, is_repeatable).await {
            Some(next) => After::Again(next),
            None => After::Over(Response::from_parts(parts, PacedBody::read(start, rest))),
        }
    }

    /// The attempt failed; `None` if it is not to be sent again.
    pub(crate) async fn failed(self, was_never_sent: bool, is_repeatable: bool) -> Option<Self> {
        let report = if was_never_sent { Report::connection_failed() } else { Report::timeout() };
        self.told(report, is_repeatable).await
    }

    /// Reports an attempt that ended. `None`: the call is over, for whatever reason; what the attempt brought is the caller's.
    async fn told(self, report: Report, is_repeatable: bool) -> Option<Self> {
        let Self { pacing, mut slot, secrets } = self;
        if !is_repeatable {
            if let Err(error) = slot.report(report).await {
                tracing::debug!(%error, "the end of a call was not reported");
            }
            return None;
        }
        match slot.report_and_retry(report, Retry::default()).await {
            Ok(Next::Again(slot)) => Some(Self { pacing, slot, secrets }),
            Ok(Next::Over(_)) => None,
            Err(error) => {
                tracing::debug!(%error, "a call is not sent again; its caller gets the last answer");
                None
            }
        }
    }
}

/// Whether the body comes as the provider makes it up, so that its end is not near.
fn is_stream(headers: &HeaderMap, body: &impl Body) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_of_events =
        ["text/event-stream", "ndjson", "eventstream", "jsonl", "stream+json"].iter().any(|name| kind.contains(name));
    let has_a_length = body.size_hint().exact().is_some() || headers.contains_key(header::CONTENT_LENGTH);
    is_of_events || !has_a_length && !kind.contains("json")
}

/// The start of a body, and what was not read of it. One that breaks ends there.
async fn read_start<B: Body>(body: B) -> (Bytes, Option<Pin<Box<B>>>) {
    let (mut body, mut start) = (Box::pin(body), BytesMut::new());
    let reading = async {
        while start.len() < MOST_OF_AN_ERROR {
            let frame = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await;
            let Some(Ok(frame)) = frame else { return true };
            if let Ok(mut data) = frame.into_data() {
                start.extend_from_slice(&data.copy_to_bytes(data.remaining()));
            }
        }
        false
    };
    let is_all = timeout(ERROR_WITHIN, reading).await.unwrap_or(false);
    (start.freeze(), (!is_all).then_some(body))
}
