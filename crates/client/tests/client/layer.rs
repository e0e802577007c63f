//! The tower layer against a scripted service: what is sent when, what is reported, and what the caller gets.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use paceline_client::http::{Once, Outgoing, PacedBody, Pacing, Replay};
use paceline_client::{Ask, Error, Outcome, Reason, Target, Verdict};
use paceline_proto::v1::ReportResponse;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::peer::{Peer, breathe, denial, grant, told};

const SECOND: Duration = Duration::from_secs(1);
const NOW: Duration = Duration::ZERO;
const PROMPT: &str = r#"{"model": "gpt-4o", "max_tokens": 7, "messages": [{"content": "Hello, who are you today?"}]}"#;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body in pieces, as the test sends them; what is there at the start counts as its exact length.
struct Pieces(mpsc::UnboundedReceiver<io::Result<&'static str>>);

impl Pieces {
    fn open() -> (mpsc::UnboundedSender<io::Result<&'static str>>, Self) {
        let (sender, pieces) = mpsc::unbounded_channel();
        (sender, Self(pieces))
    }

    fn whole(text: &'static str) -> Self {
        let (sender, pieces) = Self::open();
        sender.send(Ok(text)).unwrap();
        pieces
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let frame = |piece: &'static str| Frame::data(Bytes::from_static(piece.as_bytes()));
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(frame)))
    }
}

/// When a request came, its body, and where its slot said to send it.
type Got = (Instant, String, Option<Target>);

/// A provider by a script, and the requests it got.
#[derive(Clone, Default)]
struct Provider {
    answers: Arc<Mutex<VecDeque<io::Result<Response<Pieces>>>>>,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Provider {
    fn answers(self, answer: io::Result<Response<Pieces>>) -> Self {
        self.answers.lock().unwrap().push_back(answer);
        self
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    /// As an HTTP client with this way to pace; `text` reads a request's body.
    fn behind<Q>(
        &self,
        pacing: &Pacing,
        text: fn(&Q) -> String,
    ) -> impl Service<Request<Q>, Response = Response<PacedBody<Pieces>>, Error = BoxError>
    where
        Q: Replay + Send + 'static,
    {
        let this = self.clone();
        pacing.layer(service_fn(move |request: Request<Q>| {
            let (target, body) = (request.extensions().get::<Target>().cloned(), text(request.body()));
            this.got.lock().unwrap().push((Instant::now(), body, target));
            let answer = this.answers.lock().unwrap().pop_front();
            async move {
                match answer {
                    Some(answer) => answer,
                    None => std::future::pending().await,
                }
            }
        }))
    }

    async fn call(&self, pacing: &Pacing, body: &str) -> Result<Response<PacedBody<Pieces>>, BoxError> {
        self.behind::<String>(pacing, String::clone).oneshot(request(body.to_owned())).await
    }
}

fn request<Q>(body: Q) -> Request<Q> {
    Request::post("http://provider/v1/chat/completions").body(body).unwrap()
}

fn answer(status: u16, kind: &str, body: Pieces) -> io::Result<Response<Pieces>> {
    let headers = Response::builder().status(status).header("content-type", kind).header("x-ratelimit-remaining-requests", "3");
    Ok(headers.header("set-cookie", "secret").body(body).unwrap())
}

fn json(status: u16, body: &'static str) -> io::Result<Response<Pieces>> {
    answer(status, "application/json", Pieces::whole(body))
}

async fn read(response: Response<PacedBody<Pieces>>) -> String {
    let (mut body, mut text) = (Box::pin(response.into_body()), String::new());
    while let Some(frame) = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        text.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
    }
    text
}

fn llm(peer: &Peer) -> Pacing {
    Pacing::llm(peer.limiter(), "openai")
}

fn again(lease: &str, wait: Duration) -> ReportResponse {
    ReportResponse { next: Some(grant(lease, wait)), ..told(Verdict::Retry) }
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_its_slot_and_is_sent_again_as_the_service_says() {
    let peer = Peer::up();
    peer.on_acquire(grant("one", SECOND)).on_report(again("two", SECOND * 3));
    let provider = Provider::default()
        .answers(json(429, r#"{"error": {"message": "slow down"}}"#))
        .answers(json(200, r#"{"usage": {"prompt_tokens": 9, "completion_tokens": 4}}"#));
    let began = Instant::now();
    let response = provider.call(&llm(&peer), PROMPT).await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(read(response).await.contains("prompt_tokens"));
    breathe().await;

    let [(first, one, target), (second, two, _)] = provider.got().try_into().unwrap();
    assert_eq!((one.as_str(), two.as_str(), target.unwrap().model.as_str()), (PROMPT, PROMPT, "gpt-4o"));
    assert!(first - began >= SECOND && second - first >= SECOND * 3, "never early");
    let asked = &peer.acquires()[0];
    assert_eq!((asked.cost["output_tokens"], asked.cost_estimated), (7, true));
    assert_eq!(asked.cost["input_tokens"], 7);

    let [refused, done] = peer.reports().try_into().unwrap();
    assert_eq!((refused.lease_id.as_str(), refused.status, refused.r#final), ("one", 429, true));
    assert!(std::str::from_utf8(&refused.body).unwrap().contains("slow down") && refused.retry.unwrap().wanted);
    assert!(refused.headers.iter().any(|header| header.name == "x-ratelimit-remaining-requests"));
    assert!(refused.headers.iter().all(|header| header.value != "secret"));
    assert_eq!((done.lease_id.as_str(), done.status, done.seq, done.r#final), ("two", 200, 1, true));
    assert_eq!((done.usage["input_tokens"], done.usage["output_tokens"], done.usage_estimated), (9, 4, false));
    assert!(!done.headers.is_empty(), "one report is enough for an answer that is all there");
}

#[tokio::test(start_paused = true)]
async fn a_denial_is_an_error_and_nothing_is_sent() {
    let peer = Peer::up();
    peer.on_acquire(denial(Reason::QueueFull));
    let provider = Provider::default();
    let error = provider.call(&llm(&peer), PROMPT).await.unwrap_err();
    let denied = error.downcast_ref::<Error>().and_then(Error::denied).expect("a denial");
    assert_eq!((denied.reason, provider.got().len()), (Reason::QueueFull, 0));
}

#[tokio::test(start_paused = true)]
async fn without_a_slot_for_another_attempt_the_caller_gets_the_last_answer() {
    let peer = Peer::up();
    peer.on_acquire(grant("one", NOW));
    peer.on_report(ReportResponse { next: Some(denial(Reason::Deadline)), ..told(Verdict::Retry) });
    let provider = Provider::default().answers(json(429, "all of it"));
    let response = provider.call(&llm(&peer), PROMPT).await.unwrap();
    assert_eq!((response.status().as_u16(), read(response).await.as_str()), (429, "all of it"));
    // And so it does where the service gives up, and where the body is gone after the first attempt.
    peer.on_acquire(grant("two", NOW)).on_report(told(Verdict::GiveUp));
    let response = provider.answers(json(400, "wrong")).call(&llm(&peer), PROMPT).await.unwrap();
    assert_eq!(read(response).await, "wrong");
    peer.always(grant("three", NOW)).on_report(again("never", NOW));
    let provider = Provider::default().answers(json(503, "once"));
    let pacing = Pacing::new(peer.limiter(), |request: &Outgoing<'_>| request.body.is_none().then(|| Ask::new("openai")));
    let body = Once::new(PROMPT.to_owned());
    let response = provider.behind::<Once<String>>(&pacing, |_| String::new()).oneshot(request(body)).await.unwrap();
    assert_eq!(read(response).await, "once");
    assert_eq!(peer.reports().last().unwrap().retry, None, "nobody asks for what cannot be sent");
}

const EVENT: &str = "data: {\"choices\": [{\"delta\": {\"content\": \"a\"}}]}\n\n";
const LAST: &str = "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 9, \"completion_tokens\": 4}}\n\n";

#[tokio::test(start_paused = true)]
async fn a_stream_is_reported_at_its_first_byte_and_at_its_end() {
    let peer = Peer::up();
    peer.on_acquire(grant("one", NOW)).on_report(told(Verdict::Unspecified));
    let (pieces, body) = Pieces::open();
    let provider = Provider::default().answers(answer(200, "text/event-stream", body));
    let response = provider.call(&llm(&peer), PROMPT).await.unwrap();
    breathe().await;
    let [first] = peer.reports().try_into().unwrap();
    assert_eq!((first.status, first.r#final, first.headers.is_empty()), (200, false, false));
    let reading = tokio::spawn(read(response));
    pieces.send(Ok(EVENT)).unwrap();
    sleep(SECOND * 20).await;
    pieces.send(Ok(LAST)).unwrap();
    drop(pieces);
    assert_eq!(reading.await.unwrap(), format!("{EVENT}{LAST}"));
    breathe().await;
    let last = peer.reports().pop().unwrap();
    assert_eq!((last.status, last.r#final, last.headers.len(), last.usage["output_tokens"]), (200, true, 0, 4));
    assert!(last.seq > 1 && last.age.unwrap().seconds == 0, "its end is new");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_dropped_or_breaks_is_abandoned_with_what_is_known() {
    for breaks in [false, true] {
        let peer = Peer::up();
        peer.on_acquire(grant("one", NOW));
        let (pieces, body) = Pieces::open();
        let provider = Provider::default().answers(answer(200, "text/event-stream", body));
        let response = provider.call(&llm(&peer), PROMPT).await.unwrap();
        let mut body = Box::pin(response.into_body());
        for _ in 0..3 {
            pieces.send(Ok(EVENT)).unwrap();
            std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await.unwrap().unwrap();
        }
        if breaks {
            pieces.send(Err(io::ErrorKind::ConnectionReset.into())).unwrap();
            std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await.unwrap().unwrap_err();
        } else {
            drop(body);
        }
        breathe().await;
        let last = peer.reports().pop().unwrap();
        let expected = if breaks { Outcome::Timeout } else { Outcome::Abandoned };
        assert_eq!((last.outcome(), last.r#final), (expected, true));
        assert_eq!((last.usage["output_tokens"], last.usage_estimated), (3, true));
        assert_eq!(last.usage["input_tokens"], peer.acquires()[0].cost["input_tokens"], "as it was asked for");
    }
}

/// Many callers leave at `[DONE]`, and some providers say in a 200 that they are overloaded.
#[tokio::test(start_paused = true)]
async fn a_stream_is_over_when_it_says_so_and_its_errors_are_told() {
    for (event, error) in
        [("data: [DONE]\n\n", ""), ("event: error\ndata: {\"error\": \"sk-1234567890\"}\n\n", "{\"error\": \"[hidden]\"}")]
    {
        let peer = Peer::up();
        peer.on_acquire(grant("one", NOW));
        let (pieces, body) = Pieces::open();
        let provider = Provider::default().answers(answer(200, "text/event-stream", body));
        let mut body = Box::pin(provider.call(&llm(&peer), PROMPT).await.unwrap().into_body());
        for piece in [LAST, event] {
            pieces.send(Ok(piece)).unwrap();
            std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await.unwrap().unwrap();
        }
        drop(body);
        breathe().await;
        let last = peer.reports().pop().unwrap();
        assert_eq!((last.outcome(), last.status, last.usage["output_tokens"]), (Outcome::Response, 200, 4));
        assert_eq!((last.usage_estimated, std::str::from_utf8(&last.body).unwrap()), (false, error));
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_never_sent_is_told_apart_from_what_may_have_run() {
    let peer = Peer::up();
    peer.on_acquire(grant("one", NOW)).on_report(again("two", NOW)).on_report(told(Verdict::GiveUp));
    let provider = Provider::default()
        .answers(Err(io::ErrorKind::ConnectionRefused.into()))
        .answers(Err(io::ErrorKind::ConnectionReset.into()));
    let error = provider.call(&llm(&peer), PROMPT).await.unwrap_err();
    assert_eq!(error.downcast_ref::<io::Error>().unwrap().kind(), io::ErrorKind::ConnectionReset);
    let outcomes: Vec<_> = peer.reports().iter().map(|report| report.outcome()).collect();
    assert_eq!(outcomes, [Outcome::ConnectionFailed, Outcome::Timeout]);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_wait_for_an_answer() {
    let peer = Peer::up();
    peer.on_acquire(grant("one", NOW));
    let pacing = Pacing::new(peer.limiter(), |_: &Outgoing<'_>| Some(Ask::new("openai").deadline(SECOND * 5)));
    let error = Provider::default().call(&pacing, PROMPT).await.unwrap_err();
    assert!(matches!(error.downcast_ref::<Error>(), Some(Error::DeadlineOver { attempt: 1, .. })), "{error}");
    breathe().await;
    assert_eq!(peer.reports()[0].outcome(), Outcome::Timeout);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_at_the_provider_is_abandoned() {
    let peer = Peer::up();
    peer.on_acquire(grant("one", NOW));
    let (pacing, provider) = (llm(&peer), Provider::default());
    let call = provider.call(&pacing, PROMPT);
    assert!(tokio::time::timeout(SECOND, call).await.is_err());
    breathe().await;
    assert_eq!((provider.got().len(), peer.reports()[0].outcome()), (1, Outcome::Abandoned));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_asked_for_passes_untouched() {
    let peer = Peer::up();
    let provider = Provider::default().answers(json(429, "not ours"));
    let response = provider.call(&llm(&peer), "no JSON").await.unwrap();
    assert_eq!((response.status().as_u16(), read(response).await.as_str()), (429, "not ours"));
    assert!(peer.heard().is_empty());
}

/// A service below that is not ready keeps nobody else's slot: one that became too late is asked for again.
#[tokio::test(start_paused = true)]
async fn a_slot_that_became_too_late_is_asked_for_again() {
    #[derive(Clone)]
    struct Busy(Arc<Mutex<Option<Pin<Box<tokio::time::Sleep>>>>>);
    impl Service<Request<String>> for Busy {
        type Response = Response<Pieces>;
        type Error = io::Error;
        type Future = std::future::Ready<io::Result<Response<Pieces>>>;
        fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            let mut free = self.0.lock().unwrap();
            free.get_or_insert_with(|| Box::pin(sleep(SECOND * 60))).as_mut().poll(cx).map(Ok)
        }
        fn call(&mut self, _: Request<String>) -> Self::Future {
            std::future::ready(json(200, "{}"))
        }
    }
    let peer = Peer::up();
    peer.on_acquire(grant("late", NOW)).on_acquire(grant("new", NOW));
    let service = llm(&peer).layer(Busy(Arc::default()));
    read(service.oneshot(request(PROMPT.to_owned())).await.unwrap()).await;
    breathe().await;
    let [late, new] = peer.acquires().try_into().unwrap();
    assert_eq!((late.request_id, late.attempt), (new.request_id, new.attempt));
    assert_eq!(peer.reports().last().unwrap().lease_id, "new");
}
