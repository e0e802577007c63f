//! An answer's body on its way to the caller, watched: its end is when the call ends.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use tokio::sync::oneshot;

use crate::http::usage::ReadUsage;
use crate::report::Report;
use crate::slot::Slot;

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
                drop(this.watch.take()); // which says that it was cut off
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

/// Who waits for the end of an answer, and tells it. Dropped before, the answer was cut off.
pub(crate) struct Watch {
    usage: Option<Box<dyn ReadUsage>>,
    /// The report of the end.
    last: Report,
    is_stream: bool,
    tell: Option<oneshot::Sender<Report>>,
}

impl Watch {
    /// Of a stream the answer's start is told at once, beside the call.
    pub(crate) fn begin(slot: Slot, answer: Report, usage: Option<Box<dyn ReadUsage>>, is_stream: bool) -> Self {
        let (tell, told) = oneshot::channel();
        let (first, last) =
            if is_stream { (Some(answer.clone().more_follows()), answer.without_headers()) } else { (None, answer) };
        let runtime = slot.runtime().clone();
        runtime.spawn(follow(slot, first, told));
        Self { usage, last, is_stream, tell: Some(tell) }
    }

    fn ended(mut self) {
        let report = self.last.clone().now_if(self.is_stream);
        self.tell(report, true);
    }

    fn tell(&mut self, report: Report, is_whole: bool) {
        let usage = self.usage.take().and_then(|mut usage| usage.end(is_whole));
        let report = usage.into_iter().fold(report, |report, usage| usage.onto(report));
        if let Some(tell) = self.tell.take() {
            // The runtime ends: nobody is told anything any more.
            let _ = tell.send(report);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.tell.is_none() {
            return;
        }
        // An answer of a known length was there; nobody wanted to read it.
        let report = if self.is_stream { Report::abandoned() } else { self.last.clone() };
        self.tell(report, false);
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
