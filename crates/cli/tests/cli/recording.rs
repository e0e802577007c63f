//! A service records what becomes of its calls, and the recording is simulated: with the mock provider and the client, end to end.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use paceline_client::{Ask, Limiter, Report};
use serde_json::Value;

use crate::process::{Folder, Mock, Serving, run};

/// How many calls the fleet makes.
const CALLS: u64 = 12;

/// One chat completion of so many tokens, by hand: status and headers.
fn chat(addr: &str, tokens: u64) -> (u16, Vec<(String, String)>) {
    let body = format!("{{\"model\":\"gpt-4o\",\"mock_cost\":{{\"tokens\":{tokens}}}}}");
    let mut stream = TcpStream::connect(addr).unwrap();
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let head = answer.split("\r\n\r\n").next().unwrap();
    let (first, rest) = head.split_once("\r\n").unwrap();
    let status = first.split(' ').nth(1).unwrap().parse().unwrap();
    let headers = rest.lines().filter_map(|line| line.split_once(": "));
    (status, headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// The fleet: calls of two tenants, at first one that the provider refuses; and one that is denied because it is too large.
async fn work(service: &str, provider: &str) {
    let limiter = Limiter::builder().addr(format!("http://{service}")).account("prod").build().unwrap();
    for nth in 0..CALLS {
        let tenant = if nth % 3 == 0 { "search" } else { "ads" };
        let ask =
            Ask::new("openai").model("gpt-4o").tenant(tenant).cost("tokens", 100 + nth).request_id(format!("secret-{nth}"));
        let provider = provider.to_owned();
        let called = limiter.call(ask, async |_slot| {
            let provider = provider.clone();
            let (status, headers) = tokio::task::spawn_blocking(move || chat(&provider, 90)).await.unwrap();
            let report = Report::response(status).headers(headers.iter().map(|(name, value)| (name, value)));
            (if status == 200 { report.usage("tokens", 90) } else { report }, status)
        });
        assert_eq!(called.await.unwrap().value, 200);
    }
    let large = Ask::new("openai").model("gpt-4o").cost("tokens", 1_000_000).max_wait(Duration::ZERO);
    assert!(limiter.acquire(large).await.is_err());
}

#[test]
fn what_a_service_recorded_is_simulated() {
    let folder = Folder::new("recording");
    let file = format!("{}/calls.jsonl", folder.path());
    let config = |limit: &str| {
        format!(
            "providers: {{openai: {{accounts: {{prod: {{start_level: full, models: {{\"*\": {{limits: {{requests: {limit}, tokens: 100k/min}}}}}}}}}}}}}}\n"
        )
    };
    let (old, new) = (folder.write("old.yaml", &config("600/min")), folder.write("new.yaml", &config("12/min")));
    let serving = Serving::start(&["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--config", &old, "--record", &file], &[]);
    let provider = Mock::start(&[
        "--limit",
        "requests=600/min,tokens=100k/min",
        "--first",
        "1",
        "--status",
        "429",
        "--retry-after",
        "1",
        "--latency",
        "20ms",
    ]);
    tokio::runtime::Runtime::new().unwrap().block_on(work(&serving.grpc, &provider.http));
    serving.signal("TERM");
    let (status, log) = serving.ended();
    assert!(status.success() && log.contains("recording what becomes of each call"), "{log}");

    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["paceline_trace"], 1);
    let outcomes = |name: &str| lines.iter().filter(|line| line["outcome"] == name).count() as u64;
    assert_eq!((outcomes("response"), outcomes("denied")), (CALLS + 1, 1), "{text}");
    assert!(lines.iter().any(|line| line["status"] == 429 && line["verdict"] == "retry"), "{text}");
    assert!(!text.contains("secret-"), "callers' own names stay out: {text}");

    let simulate = |more: &[&str]| {
        run(&[&["simulate", "--trace", &file, "--limit", "requests=600/min,tokens=2M/min", "--json"], more].concat())
    };
    let (status, out, errors) = simulate(&["--config", &new, "--against", &old]);
    assert_eq!((status, errors.as_str()), (Some(0), ""), "{out}");
    let runs: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [tight, wide] = &runs[..] else { panic!("one line per configuration: {out}") };
    assert_eq!((&tight["config"], &wide["config"]), (&Value::from(new.as_str()), &Value::from(old.as_str())));
    assert_eq!(wide["finished"], CALLS, "those that the provider answered: {wide}");
    assert!(wide["given_up"] == 1, "the one that no bucket of the configuration can ever hold: {wide}");
    assert_eq!(simulate(&["--config", &new, "--against", &old]).1, out, "the same bytes again");
    let (status, _, errors) = simulate(&["--account", "openai/test"]);
    assert!(status == Some(1) && errors.contains("no call of openai/test; it has: openai/prod"), "{errors}");
    let (status, _, errors) = run(&["simulate", "--trace", &old, "--limit", "600/min"]);
    assert!(status == Some(1) && errors.contains("is no recording"), "{errors}");
}

#[test]
fn a_file_that_is_no_recording_is_left_alone() {
    let folder = Folder::new("no-recording");
    let file = folder.write("notes.txt", "mine\n");
    let (status, out, errors) = run(&["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--record", &file]);
    assert!(status == Some(1) && out.is_empty(), "{out}");
    assert!(errors.contains("cannot record to") && errors.contains("name another file"), "{errors}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine\n");
}
