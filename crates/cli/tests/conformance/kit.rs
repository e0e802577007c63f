//! A running kit, and the worker's side of it over HTTP.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{HeaderMap, Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// `paceline conformance --json`; killed at the end.
pub(crate) struct Kit {
    child: Child,
    pub(crate) desk: Desk,
}

/// Where a worker finds service and jobs.
pub(crate) struct Desk {
    pub(crate) grpc: String,
    http: SocketAddr,
}

/// A job, as the kit hands it out.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) provider: String,
    pub(crate) account: String,
    pub(crate) model: String,
    pub(crate) tokens: u64,
    pub(crate) url: String,
    pub(crate) body: String,
    pub(crate) stream: bool,
    pub(crate) cancel_after_ms: Option<u64>,
}

/// How a job ended.
pub(crate) enum Ended {
    Answered(u16),
    Denied,
    Failed,
    Cancelled,
}

impl Kit {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(args: &[&str]) -> Self {
        Self::start_in(args, &[])
    }

    /// With these variables, which a worker that it starts has too.
    pub(crate) fn start_in(args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        command.args(["conformance", "--listen", "--json"]).args(args).env_clear().stdin(Stdio::null());
        command.envs(variables.iter().copied()).env("PATH", "/usr/bin:/bin");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        let addresses = line.trim_end().strip_prefix("listening grpc=").and_then(|rest| rest.split_once(" http="));
        let (grpc, http) = addresses.unwrap_or_else(|| panic!("{line:?} instead of the addresses"));
        let desk = Desk { grpc: grpc.to_owned(), http: http.parse().unwrap() };
        Self { child, desk }
    }

    /// What it found, once it has ended: it gives up by itself.
    pub(crate) fn judged(mut self) -> Value {
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }
}

impl Desk {
    /// As a worker that the kit has started finds it; `None` in any other process.
    pub(crate) fn from_env() -> Option<Self> {
        let http = std::env::var("KIT_URL").ok()?.strip_prefix("http://")?.parse().ok()?;
        Some(Self { grpc: std::env::var("PACELINE_ADDR").ok()?, http })
    }

    /// The next job; `None`: all are handed out.
    pub(crate) async fn job(&self) -> Option<Job> {
        let response = request(self.http, Method::GET, "/job", String::new()).await.expect("the kit answers");
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status == 200).then(|| serde_json::from_slice(&body).expect("a job"))
    }

    /// Tells how a job ended.
    pub(crate) async fn done(&self, job: &Job, ended: Ended) {
        let told = match ended {
            Ended::Answered(status) => json!({"outcome": "answered", "status": status}),
            Ended::Denied => json!({"outcome": "denied"}),
            Ended::Failed => json!({"outcome": "failed"}),
            Ended::Cancelled => json!({"outcome": "cancelled"}),
        };
        let path = format!("/done/{}", job.id);
        // After the last one the kit may be gone already.
        if let Ok(response) = request(self.http, Method::POST, &path, told.to_string()).await {
            assert_eq!(response.status(), 204);
        }
    }
}

impl Drop for Kit {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes a call for a caller who leaves when the job says so.
pub(crate) async fn unless_left(job: &Job, call: impl Future<Output = Ended>) -> Ended {
    match job.cancel_after_ms {
        None => call.await,
        Some(after) => tokio::time::timeout(Duration::from_millis(after), call).await.unwrap_or(Ended::Cancelled),
    }
}

/// A call to the provider that went wrong.
#[derive(Debug)]
pub(crate) enum Broken {
    /// Nobody was reached.
    NeverSent,
    /// It broke off.
    Midway,
}

/// The head of the provider's answer, and the rest.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Incoming,
}

impl Answer {
    /// The next piece; `None` at the end.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, Broken> {
        match self.body.frame().await {
            None => Ok(None),
            Some(Ok(frame)) => Ok(frame.into_data().ok()),
            Some(Err(_)) => Err(Broken::Midway),
        }
    }

    /// All that is left.
    pub(crate) async fn rest(mut self) -> Result<String, Broken> {
        let mut all = Vec::new();
        while let Some(piece) = self.piece().await? {
            all.extend_from_slice(&piece);
        }
        Ok(String::from_utf8(all).unwrap())
    }
}

/// Makes the call of a job.
pub(crate) async fn send(job: &Job) -> Result<Answer, Broken> {
    let rest = job.url.strip_prefix("http://").expect("a plain address");
    let (address, path) = rest.split_once('/').expect("a path");
    let response = request(address.parse().unwrap(), Method::POST, &format!("/{path}"), job.body.clone()).await?;
    let (head, body) = response.into_parts();
    Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
}

async fn request(address: SocketAddr, method: Method, path: &str, body: String) -> Result<Response<Incoming>, Broken> {
    let stream = TcpStream::connect(address).await.map_err(|_| Broken::NeverSent)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|_| Broken::NeverSent)?;
    tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path).header("host", address.to_string());
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    sender.send_request(request).await.map_err(|_| Broken::Midway)
}
