//! The kit as the provider, and the desk where a worker fetches its jobs. Thin.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{Response, StatusCode, header};
use axum::routing::{any, get, post};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::event::What;
use super::script::{Reply, Situation};
use super::stage::Stage;

/// A header of every answer that a report has to hand on.
pub(super) const MARK: &str = "x-ratelimit-remaining-requests";
/// A secret that no report may hold, whatever the name of the header.
pub(super) const SECRET: &str = "kit-secret-7f3a";

/// The provider of all jobs.
pub(super) const PROVIDER: &str = "openai";
/// What each answer says was used, in tokens.
pub(super) const USED_TOKENS: u64 = 12;

/// What the pages share.
#[derive(Clone)]
struct Desk {
    stage: Stage,
    address: SocketAddr,
    nobody: SocketAddr,
}

/// The pages: `GET /job`, `POST /done/{id}`, and `/call/{id}`, which is the provider.
///
/// `nobody`: where nothing listens.
pub(super) fn router(stage: Stage, address: SocketAddr, nobody: SocketAddr) -> Router {
    Router::new().route("/job", get(job)).route("/done/{id}", post(done)).route("/call/{id}", any(call)).with_state(Desk {
        stage,
        address,
        nobody,
    })
}

/// The next job, or 204 when there is none left.
async fn job(State(desk): State<Desk>) -> Response<Body> {
    match desk.stage.next_job().await {
        Some(situation) => reply(StatusCode::OK, &job_of(situation, &desk)),
        None => empty(StatusCode::NO_CONTENT),
    }
}

/// A job as the worker gets it. A contract: fields may be added, never changed.
fn job_of(situation: &Situation, desk: &Desk) -> Value {
    let address = if situation.is_unreachable { desk.nobody } else { desk.address };
    let base = format!("http://{address}");
    let body = json!({"model": situation.id, "stream": situation.is_stream, "messages": [{"role": "user", "content": "Hi"}]});
    json!({
        "id": situation.id,
        "provider": PROVIDER,
        "account": situation.account,
        "model": situation.id,
        "tokens": 20,
        "deadline_ms": 60_000,
        "cancel_after_ms": situation.leaves_after.map(|after| after.as_millis()),
        "url": format!("{base}/call/{}", situation.id),
        "headers": {"authorization": format!("Bearer {SECRET}"), "content-type": "application/json"},
        "body": body.to_string(),
        "stream": situation.is_stream,
    })
}

/// How a job ended.
#[derive(Deserialize)]
struct Ended {
    outcome: String,
    #[serde(default)]
    status: u16,
}

async fn done(State(desk): State<Desk>, Path(id): Path<String>, body: Bytes) -> Response<Body> {
    let wrong = |problem: &str| reply(StatusCode::BAD_REQUEST, &json!({"error": problem}));
    let Ok(ended) = serde_json::from_slice::<Ended>(&body) else {
        return wrong(
            "say how it ended: {\"outcome\": \"answered\", \"status\": 200}; outcome is answered, denied, failed or cancelled",
        );
    };
    if !["answered", "denied", "failed", "cancelled"].contains(&ended.outcome.as_str()) {
        return wrong("outcome is answered, denied, failed or cancelled");
    }
    if desk.stage.done(&id, ended.outcome, ended.status) {
        empty(StatusCode::NO_CONTENT)
    } else {
        wrong("there is no job of that id")
    }
}

/// The provider.
async fn call(State(desk): State<Desk>, Path(id): Path<String>) -> Response<Body> {
    let stage = desk.stage;
    let Some((call, reply)) = stage.arrived(&id) else { return empty(StatusCode::NOT_FOUND) };
    match reply {
        Reply::Answer { after, status, retry_after } => {
            sleep(after).await;
            stage.happened(&id, What::Replied { call, status, retry_after });
            stage.happened(&id, What::Ended { call, is_cut: false });
            answer(status, retry_after)
        }
        Reply::Stream { rest_after, is_cut } => {
            stage.happened(&id, What::Replied { call, status: 200, retry_after: None });
            stream(stage, id, call, rest_after, is_cut)
        }
    }
}

fn answer(status: u16, retry_after: Option<Duration>) -> Response<Body> {
    let body = if status < 400 {
        json!({"object": "chat.completion", "choices": [{"message": {"role": "assistant", "content": "Hi"}}], "usage": usage()})
    } else {
        json!({"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}})
    };
    let code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = reply(code, &body);
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.as_secs().into());
    }
    marked(response)
}

fn usage() -> Value {
    json!({"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": USED_TOKENS})
}

/// A head and a first event at once; then the rest, or a connection that breaks.
fn stream(stage: Stage, id: String, call: u32, rest_after: Duration, is_cut: bool) -> Response<Body> {
    let (events, receiver) = mpsc::unbounded_channel::<Option<String>>();
    let event = |data: &Value| format!("data: {data}\n\n");
    // The receiver lives until the worker leaves; then nobody is left to tell.
    let _ = events.send(Some(event(&json!({"choices": [{"delta": {"content": "H"}}]}))));
    tokio::spawn(async move {
        sleep(rest_after).await;
        stage.happened(&id, What::Ended { call, is_cut });
        let rest = (!is_cut).then(|| format!("{}data: [DONE]\n\n", event(&json!({"choices": [], "usage": usage()}))));
        let _ = events.send(rest);
    });
    let chunks = UnboundedReceiverStream::new(receiver).map(|chunk| chunk.ok_or("the stream breaks off"));
    let mut response = Response::new(Body::from_stream(chunks));
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/event-stream"));
    marked(response)
}

/// With what every answer has: figures to report, and a secret to leave out.
fn marked(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert("x-ratelimit-limit-requests", 100.into());
    headers.insert(MARK, 41.into());
    if let Ok(cookie) = format!("session={SECRET}; HttpOnly").parse() {
        headers.insert(header::SET_COOKIE, cookie);
    }
    response
}

fn reply(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
