//! A layer for tower services that send HTTP requests.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes, BytesMut};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use tower::{Layer, Service};

use crate::http::body::PacedBody;
use crate::http::exchange::{After, Exchange};
use crate::http::{Outgoing, Pacing};

/// What goes wrong in it: [`Error`](crate::Error) in a box (`error.downcast_ref::<paceline_client::Error>()`), or the error of the service
/// below.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<S> Layer<S> for Pacing {
    type Service = Paced<S>;

    fn layer(&self, inner: S) -> Paced<S> {
        Paced { inner, pacing: self.clone() }
    }
}

/// A service whose requests are paced; made by [`Pacing`] as a layer.
///
/// It is always ready: the service below is waited for when the slot is there, so that nothing below is held while a call waits for its
/// turn. It fails with a box that holds [`Error`](crate::Error) (denied, unreachable, ...) or the error of the service below.
///
/// ```
/// use http::{Request, Response};
/// use paceline_client::http::Pacing;
/// use tower::{Layer, Service, service_fn};
///
/// async fn worker(limiter: paceline_client::Limiter) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
///     // Stands for an HTTP client: hyper-util's, or any other service of tower.
///     let client = service_fn(|_request: Request<String>| async { Ok::<_, std::io::Error>(Response::new(String::new())) });
///     let mut client = Pacing::llm(limiter, "openai").layer(client);
///     let body = r#"{"model": "gpt-4o", "max_tokens": 100, "messages": []}"#.to_owned();
///     let response = client.call(Request::post("https://api.openai.com/v1/chat/completions").body(body)?).await?;
///     println!("{}", response.status());
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Paced<S> {
    inner: S,
    pacing: Pacing,
}

impl<S, Q, B> Service<Request<Q>> for Paced<S>
where
    S: Service<Request<Q>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    Q: Replay + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Send,
{
    type Response = Response<PacedBody<B>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        Box::pin(send(self.pacing.clone(), self.inner.clone(), request))
    }
}

async fn send<S, Q, B>(pacing: Pacing, mut inner: S, mut request: Request<Q>) -> Result<Response<PacedBody<B>>, BoxError>
where
    S: Service<Request<Q>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    Q: Replay,
    B: Body,
{
    let body = request.body().bytes();
    let outgoing = Outgoing { method: request.method(), uri: request.uri(), headers: request.headers(), body: body.as_deref() };
    let Some(mut exchange) = Exchange::begin(&pacing, &outgoing).await? else {
        ready(&mut inner).await?;
        return inner.call(request).await.map(|response| response.map(PacedBody::plain)).map_err(Into::into);
    };
    drop(body);
    loop {
        ready(&mut inner).await?;
        let spare = if pacing.retries { replay(&request) } else { None };
        request.extensions_mut().insert(exchange.target());
        let (sent, came) = exchange
            .send(|| {
                let answer = inner.call(request);
                async move { answer.await.map_err(Into::<BoxError>::into) }
            })
            .await?;
        let next = match came {
            Ok(response) => match sent.answered(response, spare.is_some()).await {
                After::Again(next) => Some(next),
                After::Over(response) => return Ok(response),
            },
            Err(error) => {
                let next = sent.failed((pacing.never_sent)(&*error), spare.is_some()).await;
                if next.is_none() {
                    return Err(error);
                }
                next
            }
        };
        // Only what can be sent again is.
        let (Some(next), Some(spare)) = (next, spare) else { return Err("a call without a body was to be sent again".into()) };
        (exchange, request) = (next, spare);
    }
}

async fn ready<S: Service<R, Error: Into<BoxError>>, R>(service: &mut S) -> Result<(), BoxError> {
    std::future::poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)
}

/// The same request once more.
fn replay<Q: Replay>(request: &Request<Q>) -> Option<Request<Q>> {
    let mut again = Request::new(request.body().replay()?);
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.version_mut() = request.version();
    *again.headers_mut() = request.headers().clone();
    *again.extensions_mut() = request.extensions().clone();
    Some(again)
}

/// A request's body that may be sent more than once. Every body that can be cloned is one; others are wrapped in [`Once`].
pub trait Replay: Sized {
    /// The same body, if it can be had again.
    fn replay(&self) -> Option<Self>;

    /// All of it, if it is in memory.
    fn bytes(&self) -> Option<Bytes>;
}

impl<B: Body + Clone> Replay for B {
    fn replay(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn bytes(&self) -> Option<Bytes> {
        let (mut body, mut read) = (Box::pin(self.clone()), BytesMut::new());
        // What is in memory is there at once; nobody is to be woken.
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match body.as_mut().poll_frame(&mut context) {
                Poll::Ready(Some(Ok(frame))) => {
                    let mut data = frame.into_data().ok()?;
                    read.extend_from_slice(&data.copy_to_bytes(data.remaining()));
                }
                Poll::Ready(None) => return Some(read.freeze()),
                Poll::Ready(Some(Err(_))) | Poll::Pending => return None,
            }
        }
    }
}

/// A body that can be sent once only: its call is asked for and reported, and never sent again. What it holds is not looked into.
#[derive(Debug)]
pub struct Once<B>(pub Pin<Box<B>>);

impl<B> Once<B> {
    /// Wraps a body.
    pub fn new(body: B) -> Self {
        Self(Box::pin(body))
    }
}

impl<B> Replay for Once<B> {
    fn replay(&self) -> Option<Self> {
        None
    }

    fn bytes(&self) -> Option<Bytes> {
        None
    }
}

impl<B: Body> Body for Once<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.get_mut().0.as_mut().poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
