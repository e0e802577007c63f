//! An answer's body on its way to the caller, watched: its end is when the call ends.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::http::secrets;
use crate::http::usage::ReadUsage;
use crate::report::Report;
use crate::slot::Slot;

/// The meter of what was asked.
const INPUT: &str = "input_tokens";

/// The body of a paced answer: the one below, piece by piece.
pub struct PacedBody<B> {
    /// What was read already.
    start: Option<Bytes>,
    rest: Option<Pin<Box<B>>>,
    watch: Option<Watch>,
}

impl<B: Body> PacedBody<B> {
    /// A body that nobody watches.
    pub(crate) fn plain(body: B) -> Self {
        Self { start: None, rest: Some(Box::pin(body)), watch: None }
    }

    /// A body whose end is told.
    pub(crate) fn watched(body: B, watch: Watch) -> Self {
        let is_over = body.is_end_stream();
        let mut this = Self { watch: Some(watch), ..Self::plain(body) };
        if is_over {
            this.ended();
        }
        this
    }

    /// A body whose start was read, and told.
    pub(crate) fn read(start: Bytes, rest: Option<Pin<Box<B>>>) -> Self {
        Self { start: Some(start).filter(|start| !start.is_empty()), rest, watch: None }
    }

    fn ended(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.ended();
        }
    }
}

impl<B: Body> Body for PacedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        if let Some(start) = this.start.take() {
            return Poll::Ready(Some(Ok(Frame::data(start))));
        }
        let Some(rest) = &mut this.rest else { return Poll::Ready(None) };
        let frame = match ready!(rest.as_mut().poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                if let Some(watch) = this.watch.take() {
                    watch.broke();
                }
                return Poll::Ready(Some(Err(error)));
            }
            None => {
                this.ended();
                return Poll::Ready(None);
            }
        };
        // Many callers know the length and do not ask again after the last piece.
        let is_over = rest.is_end_stream();
        let frame = match frame.into_data() {
            Ok(mut data) => {
                let data = data.copy_to_bytes(data.remaining());
                if let Some(usage) = this.watch.as_mut().and_then(|watch| watch.usage.as_mut()) {
                    usage.read(&data);
                }
                Frame::data(data)
            }
            Err(other) => Frame::trailers(other.into_trailers().unwrap_or_default()),
        };
        if is_over {
            this.ended();
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.start.is_none() && self.rest.as_ref().is_none_or(|rest| rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let started = self.start.as_ref().map_or(0, |start| u64::try_from(start.len()).unwrap_or(u64::MAX));
        let rest = self.rest.as_ref().map_or(SizeHint::with_exact(0), |rest| rest.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(started));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(started));
        }
        hint
    }
}

impl<B> std::fmt::Debug for PacedBody<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacedBody").field("is_watched", &self.watch.is_some()).finish_non_exhaustive()
    }
}

/// Who waits for the end of an answer, and tells it. Dropped before, the caller left.
pub(crate) struct Watch {
    usage: Option<Box<dyn ReadUsage>>,
    /// What of an answer must not be told.
    secrets: Vec<String>,
    /// Input as it was asked for: what a stream that was cut off is taken to have used.
    input: Option<u64>,
    /// The report of the end.
    last: Report,
    is_stream: bool,
    tell: Option<oneshot::Sender<Report>>,
}

/// How an answer ended for its caller.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Whole,
    Broken,
    Left,
}

impl Watch {
    /// Of a stream the answer's start is told at once, beside the call.
    pub(crate) fn begin(
        slot: Slot,
        answer: Report,
        usage: Option<Box<dyn ReadUsage>>,
        is_stream: bool,
        secrets: Vec<String>,
    ) -> Self {
        let (tell, told) = oneshot::channel();
        let (first, last) =
            if is_stream { (Some(answer.clone().more_follows()), answer.without_headers()) } else { (None, answer) };
        let (runtime, input) = (slot.runtime().clone(), slot.asked().cost().get(INPUT).copied());
        runtime.spawn(follow(slot, first, told));
        Self { usage, secrets, input, last, is_stream, tell: Some(tell) }
    }

    fn ended(mut self) {
        self.tell(Ending::Whole);
    }

    fn broke(mut self) {
        self.tell(Ending::Broken);
    }

    fn tell(&mut self, ending: Ending) {
        let Some(tell) = self.tell.take() else { return };
        let read = self.usage.as_mut();
        let is_whole = ending == Ending::Whole || read.as_ref().is_some_and(|read| read.is_over());
        let error = read.as_ref().and_then(|read| read.error()).map(|error| secrets::clean(error, &self.secrets));
        let usage = self.usage.as_mut().and_then(|read| read.usage(is_whole));
        let report = match (self.is_stream, is_whole || error.is_some(), ending) {
            (true, true, _) => self.last.clone().arrived(Instant::now()),
            (true, false, Ending::Left) => Report::abandoned(),
            (_, false, Ending::Broken) => Report::timeout(),
            // An answer of a known length was there; nobody wanted to read it.
            (false, ..) | (true, false, Ending::Whole) => self.last.clone(),
        };
        let report = error.into_iter().fold(report, Report::body);
        let report = usage.into_iter().fold(report, |report, mut usage| {
            if let (true, Some(input)) = (usage.is_estimated, self.input) {
                usage.units.entry(INPUT.to_owned()).or_insert(input);
            }
            usage.onto(report)
        });
        // Where the runtime has ended nobody is told anything any more.
        let _ = tell.send(report);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.tell(Ending::Left);
    }
}

/// Tells an answer's start, and its end when it is there. Meanwhile the slot renews itself.
async fn follow(mut slot: Slot, first: Option<Report>, told: oneshot::Receiver<Report>) {
    if let Some(first) = first
        && let Err(error) = slot.report(first).await
    {
        tracing::debug!(%error, "the start of an answer was not reported");
    }
    let Ok(last) = told.await else { return };
    if let Err(error) = slot.report(last).await {
        tracing::debug!(%error, "the end of an answer was not reported");
    }
}
