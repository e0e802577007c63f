//! The reqwest middleware with a real service and a real provider over sockets.

use std::time::{Duration, Instant};

use paceline_client::http::{Outgoing, Pacing, llm_ask};
use paceline_client::{Limiter, Reason};
use paceline_tests::proxy::Proxy;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use serde_json::{Value, json};

use crate::process::{Mock, Serving};

fn limiter(service: &Serving) -> Limiter {
    Limiter::builder().addr(service.grpc.clone()).build().unwrap()
}

fn client(pacing: Pacing) -> ClientWithMiddleware {
    ClientBuilder::new(reqwest::Client::new()).with(pacing).build()
}

fn prompt(stream: bool) -> String {
    json!({"model": "gpt-4o", "max_tokens": 9, "stream": stream, "stream_options": {"include_usage": true},
           "messages": [{"role": "user", "content": "Hello, who are you?"}]})
    .to_string()
}

async fn get(url: String) -> String {
    reqwest::get(url).await.unwrap().text().await.unwrap()
}

/// A figure of the service's metrics, as soon as it is there and not nothing.
async fn metric(service: &Serving, line: &str) -> String {
    let began = Instant::now();
    loop {
        let metrics = get(format!("http://{}/metrics", service.http)).await;
        let is_it = |found: &&str| line.split(' ').all(|part| found.contains(part)) && !found.ends_with(" 0");
        let found = metrics.lines().find(is_it);
        match found {
            Some(found) => return found.rsplit(' ').next().unwrap().to_owned(),
            None => assert!(began.elapsed() < Duration::from_secs(30), "no {line} in {metrics}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_refused_call_is_sent_again_over_the_same_connection() {
    let service = Serving::start(&["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"], &[]);
    let mock = Mock::start(&["--first", "2", "--status", "429", "--retry-after", "1"]);
    let proxy = Proxy::before(mock.http.rsplit(':').next().unwrap().parse().unwrap());
    let client = client(Pacing::llm(limiter(&service), "openai"));
    let began = Instant::now();
    let url = format!("http://127.0.0.1:{}/v1/chat/completions", proxy.port());
    let response = client.post(&url).header("authorization", "Bearer secret").body(prompt(false)).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.url().as_str()), (200, url.as_str()));
    let body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    assert_eq!(body["object"], "chat.completion");
    assert!(began.elapsed() >= Duration::from_secs(2), "twice told to wait for a second");
    assert_eq!(proxy.accepted().len(), 1, "a connection is used for all attempts");
    let stats: Value = serde_json::from_str(&get(format!("http://{}/mock/stats", mock.http)).await).unwrap();
    assert_eq!((stats["sends"].as_u64(), stats["accepted"].as_u64()), (Some(3), Some(1)), "{stats}");
}

#[tokio::test]
async fn a_stream_is_settled_with_what_it_says_at_its_end() {
    let service = Serving::start(&["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"], &[]);
    let mock = Mock::start(&[]);
    let client = client(Pacing::llm(limiter(&service), "openai"));
    let url = format!("http://{}/v1/chat/completions", mock.http);
    let response = client.post(&url).body(prompt(true)).send().await.unwrap();
    let text = response.text().await.unwrap();
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    let used = metric(&service, "paceline_units_total meter=\"tokens\" kind=\"first\"").await;
    assert_eq!(
        used, "14",
        "a token per four letters of the prompt, and nine of output: as the provider counts, not as we reserved"
    );
}

#[tokio::test]
async fn a_denial_is_told_as_such_and_not_as_an_answer() {
    let config = "providers: {openai: {accounts: {default: {limits: {requests: 1/min}}}}}";
    let folder = crate::process::Folder::new("middleware");
    let config = folder.write("paceline.yaml", config);
    let service = Serving::start(&["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--config", &config], &[]);
    let mock = Mock::start(&[]);
    let pacing = Pacing::new(limiter(&service), |request: &Outgoing<'_>| {
        llm_ask("openai", request).map(|ask| ask.max_wait(Duration::from_millis(10)))
    });
    let client = client(pacing);
    let url = format!("http://{}/v1/chat/completions", mock.http);
    let mut denied = None;
    for _ in 0..3 {
        match client.post(&url).body(prompt(false)).send().await {
            Ok(response) => assert_eq!(response.status(), 200),
            Err(error) => denied = Some(error),
        }
    }
    let denied = denied.expect("one a minute");
    let reqwest_middleware::Error::Middleware(denied) = denied else { panic!("{denied}") };
    let denied = denied.downcast_ref::<paceline_client::Error>().unwrap();
    assert_eq!(denied.denied().expect("a denial").reason, Reason::Deadline);
    let stats: Value = serde_json::from_str(&get(format!("http://{}/mock/stats", mock.http)).await).unwrap();
    assert!(stats["sends"].as_u64() < Some(3), "{stats}");
}

#[tokio::test]
async fn of_fifty_tasks_nearly_nothing_is_refused_although_nobody_knows_the_limit() {
    let service = Serving::start(&["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"], &[]);
    let mock = Mock::start(&["--limit", "requests=20/s,burst=20", "--latency", "200ms"]);
    let client = client(Pacing::llm(limiter(&service), "openai"));
    let url = format!("http://{}/v1/chat/completions", mock.http);
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let (client, url) = (client.clone(), url.clone());
            tokio::spawn(async move {
                for _ in 0..4 {
                    assert_eq!(client.post(&url).body(prompt(false)).send().await.unwrap().status(), 200);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let stats: Value = serde_json::from_str(&get(format!("http://{}/mock/stats", mock.http)).await).unwrap();
    assert!(stats["rejected"].as_u64() <= Some(1), "{stats}");
}

/// The worker's own switch: the same program, as fast as without a service, whether there is one or not.
#[tokio::test]
async fn a_worker_that_watches_is_told_of_and_works_without_a_service() {
    let service = Serving::start(&["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--mode", "shadow"], &[]);
    let mock = Mock::start(&["--first", "1", "--status", "429", "--retry-after", "1"]);
    let url = format!("http://{}/v1/chat/completions", mock.http);
    let watching = |addr: &str| {
        let limiter = Limiter::builder().addr(addr).mode(paceline_client::Mode::Shadow).build().unwrap();
        client(Pacing::llm(limiter, "openai"))
    };
    let answer = watching(&service.grpc).post(&url).body(prompt(false)).send().await.unwrap();
    assert!(answer.text().await.unwrap().contains("chat.completion"), "read to its end, where it says what it used");
    assert_eq!(metric(&service, "paceline_shadow_asks_total provider=\"openai\"").await, "2", "each attempt is asked for");
    assert_eq!(metric(&service, "paceline_units_total meter=\"tokens\" kind=\"retry\"").await, "14");
    let client = watching("127.0.0.1:9");
    for _ in 0..5 {
        let began = Instant::now();
        assert_eq!(client.post(&url).body(prompt(false)).send().await.unwrap().status(), 200);
        assert!(began.elapsed() < Duration::from_secs(2), "nobody is waited for: {:?}", began.elapsed());
    }
}
