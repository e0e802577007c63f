//! A middleware for reqwest.

use http::{Extensions, Uri};
use reqwest::{Body, Request, Response, ResponseBuilderExt as _};
use reqwest_middleware::{Error, Middleware, Next, Result};

use crate::http::body::PacedBody;
use crate::http::exchange::{After, Exchange};
use crate::http::{Outgoing, Pacing};

/// As a middleware. A denial is `reqwest_middleware::Error::Middleware` with [`Error`](crate::Error) in it
/// (`error.downcast_ref::<paceline_client::Error>()`). Connections are the client's, and so are reused between attempts.
///
/// ```
/// use paceline_client::Limiter;
/// use paceline_client::http::Pacing;
///
/// # async fn worker() -> Result<(), Box<dyn std::error::Error>> {
/// let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
///     .with(Pacing::llm(Limiter::from_env()?, "openai"))
///     .build();
/// let body = r#"{"model": "gpt-4o", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]}"#;
/// let response = client.post("https://api.openai.com/v1/chat/completions").body(body).send().await?;
/// println!("{}", response.text().await?);
/// # Ok(())
/// # }
/// ```
#[tonic::async_trait]
impl Middleware for Pacing {
    async fn handle(&self, mut request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let uri: Uri = request.url().as_str().parse().map_err(Error::middleware)?;
        let body = request.body().map_or(Some(&[][..]), Body::as_bytes);
        let outgoing = Outgoing { method: request.method(), uri: &uri, headers: request.headers(), body };
        let Some(mut exchange) = Exchange::begin(self, &outgoing).await.map_err(Error::middleware)? else {
            return next.run(request, extensions).await;
        };
        loop {
            let spare = if self.retries { request.try_clone() } else { None };
            extensions.insert(exchange.target());
            let sent = exchange.send(|| next.clone().run(request, extensions)).await;
            let (sent, came) = sent.map_err(Error::middleware)?;
            let again = match came {
                Ok(response) => {
                    let url = response.url().clone();
                    match sent.answered(http::Response::<Body>::from(response), spare.is_some()).await {
                        After::Again(again) => Some(again),
                        After::Over(response) => return Ok(with_url(response, url)),
                    }
                }
                Err(error) => {
                    let again = sent.failed(self.was_never_sent(&error), spare.is_some()).await;
                    if again.is_none() {
                        return Err(error);
                    }
                    again
                }
            };
            // Only what can be sent again is.
            let (Some(again), Some(spare)) = (again, spare) else {
                return Err(Error::middleware(crate::Error::Malformed { missing: "body to send again" }));
            };
            (exchange, request) = (again, spare);
        }
    }
}

impl Pacing {
    fn was_never_sent(&self, error: &Error) -> bool {
        match error {
            Error::Reqwest(error) => error.is_connect() || error.is_builder() || (self.never_sent)(error),
            Error::Middleware(error) => (self.never_sent)(error.as_ref()),
        }
    }
}

/// The answer as reqwest has it, from where it came.
fn with_url(response: http::Response<PacedBody<Body>>, url: reqwest::Url) -> Response {
    let (parts, body) = response.into_parts();
    let mut response = http::Response::new(Body::wrap(body));
    *response.status_mut() = parts.status;
    *response.version_mut() = parts.version;
    *response.headers_mut() = parts.headers;
    *response.extensions_mut() = parts.extensions;
    // A builder is the only one who can say where an answer is from.
    if let Ok(empty) = http::Response::builder().url(url).body(()) {
        response.extensions_mut().extend(empty.into_parts().0.extensions);
    }
    Response::from(response)
}
