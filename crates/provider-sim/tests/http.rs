//! The mock provider over real sockets, on free ports. Times are only ever bounded from below: a busy machine may be slow.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use paceline_core::units::Span;
use paceline_provider_sim::{
    Comeback, Dialect, Failure, FirstCalls, Latency, Limit, MockProvider, Outage, ProviderConfig, listen, serve,
};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

struct Running {
    mock: MockProvider,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<std::io::Result<()>>,
}

async fn start(config: ProviderConfig) -> Running {
    let mock = MockProvider::new(config).unwrap();
    let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let shutdown = async move {
        let _ = stopped.await;
    };
    let ended = tokio::spawn(serve(listener, mock.clone(), shutdown));
    Running { mock, address, stop, ended }
}

/// One request on its own connection; status line with headers in lower case, and the body.
async fn send(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: mock\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    (head.to_ascii_lowercase(), body.to_owned())
}

async fn chat(address: SocketAddr, body: &str) -> (String, String) {
    send(address, "POST", "/v1/chat/completions", "", body).await
}

async fn json(address: SocketAddr, path: &str) -> Value {
    let (_, body) = send(address, "GET", path, "", "").await;
    serde_json::from_str(&body).unwrap()
}

/// A day's window: nothing comes back while the test runs.
fn per_day(meter: &str, units: u64) -> Limit {
    Limit::new(meter, units, Span::from_secs(86_400))
}

#[tokio::test]
async fn answers_and_meters_like_a_provider() {
    let limits = vec![per_day("requests", 3), per_day("tokens", 5_000)];
    let running = start(ProviderConfig::metering(Dialect::OpenAi, limits)).await;
    let (head, body) =
        chat(running.address, r#"{"model":"gpt-4o","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}"#).await;
    assert!(head.starts_with("http/1.1 200") && head.contains("x-ratelimit-remaining-requests: 2"), "{head}");
    assert!(head.contains("x-ratelimit-remaining-tokens: 4899"), "{head}");
    assert_eq!(head.matches("\r\ndate: ").count(), 1, "{head}");
    let completion: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(completion["model"], "gpt-4o");
    assert_eq!(completion["usage"]["total_tokens"], 101);

    let (head, _) = send(running.address, "POST", "/v1/messages", "x-mock-cost-tokens: 6000\r\n", "{}").await;
    assert!(head.starts_with("http/1.1 429") && !head.contains("retry-after"), "too large: {head}");
    let (head, body) = send(running.address, "POST", "/v1/messages", "x-mock-cost-tokens: 4899\r\n", "{}").await;
    assert!(head.starts_with("http/1.1 200") && body.contains(r#""type":"message""#), "{head}\n{body}");
    let (head, body) = chat(running.address, r#"{"mock_cost": 100}"#).await;
    assert!(head.starts_with("http/1.1 429") && head.contains("retry-after-ms: "), "{head}");
    assert!(body.contains("on tokens per day") && body.contains("Please try again in "), "{body}");
    let (head, body) = send(running.address, "GET", "/anything?x=1", "", "").await;
    assert!(head.starts_with("http/1.1 200") && body.contains(r#""ok":true"#), "{head}\n{body}");
    let (head, body) = chat(running.address, r#"{"mock_cost": "much"}"#).await;
    assert!(head.starts_with("http/1.1 400") && body.contains("whole number"), "{head}\n{body}");
}

#[tokio::test]
async fn tells_what_it_saw_and_forgets_it() {
    let running = start(ProviderConfig::metering(Dialect::Generic, vec![per_day("requests", 2)])).await;
    for model in ["a", "a", "b"] {
        chat(running.address, &format!(r#"{{"model":"{model}"}}"#)).await;
    }
    let stats = json(running.address, "/mock/stats").await;
    assert_eq!((&stats["sends"], &stats["accepted"], &stats["rejected"]), (&3.into(), &2.into(), &1.into()));
    assert_eq!((&stats["models"]["a"]["accepted"], &stats["models"]["b"]["rejected"]), (&2.into(), &1.into()));
    assert_eq!((&stats["meters"][0]["limit"], &stats["meters"][0]["remaining"]), (&2.into(), &0.into()));
    assert!(stats["last_arrival_s"].as_f64() >= stats["first_arrival_s"].as_f64());
    assert!(stats.get("arrivals").is_none() && stats.get("accepted_per_100ms").is_none());

    let stats = json(running.address, "/mock/stats?bins=1&arrivals=1").await;
    let bins = stats["accepted_per_100ms"]["counts"].as_array().unwrap();
    assert_eq!(bins.iter().filter_map(Value::as_u64).sum::<u64>(), 2);
    let statuses: Vec<_> = stats["arrivals"].as_array().unwrap().iter().map(|arrival| arrival["status"].clone()).collect();
    assert_eq!(statuses, [200, 200, 429].map(Value::from));

    let (head, _) = send(running.address, "POST", "/mock/reset", "", "").await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    let stats = json(running.address, "/mock/stats").await;
    assert_eq!((&stats["sends"], &stats["meters"][0]["remaining"]), (&0.into(), &2.into()));
    assert!(send(running.address, "GET", "/mock/nothing", "", "").await.0.starts_with("http/1.1 404"));
    assert_eq!(running.mock.counts().sends, 0, "pages of the mock itself are no calls");
}

#[tokio::test]
async fn the_first_call_fails_as_asked_and_the_second_succeeds() {
    let first = FirstCalls { count: 1, status: 429, retry_after: Some(Span::from_secs(2)), headers: Vec::new(), body: None };
    let running = start(ProviderConfig { first: Some(first), ..ProviderConfig::default() }).await;
    let (head, _) = chat(running.address, "{}").await;
    assert!(head.starts_with("http/1.1 429") && head.contains("\r\nretry-after: 2"), "{head}");
    assert!(chat(running.address, "{}").await.0.starts_with("http/1.1 200"));
    assert_eq!(running.mock.counts().scripted, 1);
}

#[tokio::test]
async fn many_calls_at_once_share_the_meters_and_wait_side_by_side() {
    const CALLERS: u64 = 200;
    let latency = Latency::constant(Span::from_millis(300));
    let metering = ProviderConfig::metering(Dialect::OpenAi, vec![per_day("requests", CALLERS / 2)]);
    let running = start(ProviderConfig { latency, ..metering }).await;
    let address = running.address;
    let before = Instant::now();
    let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(async move { chat(address, "{}").await.0 })).collect();
    let mut accepted = 0;
    for caller in callers {
        accepted += u64::from(caller.await.unwrap().starts_with("http/1.1 200"));
    }
    assert_eq!(accepted, CALLERS / 2);
    assert!(before.elapsed() >= Duration::from_millis(300));
    let stats = running.mock.stats();
    assert_eq!((&stats["sends"], &stats["in_flight"]), (&CALLERS.into(), &0.into()));
    assert!(stats["peak_in_flight"].as_u64() > Some(1), "{stats}");
}

#[tokio::test]
async fn a_shutdown_answers_calls_under_way() {
    let latency = Latency::constant(Span::from_secs(3_600));
    let running = start(ProviderConfig { latency, ..ProviderConfig::default() }).await;
    let address = running.address;
    let caller = tokio::spawn(async move { chat(address, "{}").await.0 });
    while running.mock.counts().sends == 0 {
        tokio::task::yield_now().await;
    }
    running.stop.send(()).unwrap();
    assert!(caller.await.unwrap().starts_with("http/1.1 200"));
    running.ended.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_caller_who_leaves_is_no_longer_in_flight() {
    let latency = Latency::constant(Span::from_secs(3_600));
    let running = start(ProviderConfig { latency, ..ProviderConfig::default() }).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(b"POST /v1/messages HTTP/1.1\r\nhost: mock\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
    while running.mock.stats()["in_flight"] != 1 {
        tokio::task::yield_now().await;
    }
    drop(stream);
    while running.mock.stats()["in_flight"] != 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_outage_says_when_it_ends_or_resets_the_connection() {
    let hour = Span::from_secs(3_600);
    let outage = Outage { comeback: Comeback::Remaining, ..Outage::new(Span::ZERO, hour) };
    let running = start(ProviderConfig { outages: vec![outage], ..ProviderConfig::default() }).await;
    let (head, body) = chat(running.address, "{}").await;
    assert!(head.starts_with("http/1.1 503") && head.contains("\r\nretry-after: 3600"), "{head}");
    assert!(body.contains("overloaded"), "{body}");

    let reset = Outage { failure: Failure::Reset, ..outage };
    let running = start(ProviderConfig { outages: vec![reset], ..ProviderConfig::default() }).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(b"POST /v1/messages HTTP/1.1\r\nhost: mock\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
    let mut answer = Vec::new();
    let error = stream.read_to_end(&mut answer).await.unwrap_err();
    assert_eq!((error.kind(), answer.len()), (std::io::ErrorKind::ConnectionReset, 0));
    let stats = json(running.address, "/mock/stats?arrivals=1").await;
    assert_eq!((&stats["down"], &stats["accepted"], &stats["arrivals"][0]["status"]), (&1.into(), &0.into(), &0.into()));
}

#[tokio::test]
async fn time_counts_from_the_start_and_from_a_reset() {
    let changes = vec!["0s=50%".parse().unwrap()];
    let config = ProviderConfig { changes, ..ProviderConfig::metering(Dialect::OpenAi, vec![per_day("requests", 10)]) };
    let running = start(config).await;
    for _ in 0..2 {
        let (head, _) = chat(running.address, "{}").await;
        assert!(head.contains("x-ratelimit-limit-requests: 5\r\nx-ratelimit-remaining-requests: 4"), "{head}");
        running.mock.reset();
    }
}
