//! How long an answer takes to read: `cargo bench -p paceline-signals`.
//!
//! No harness: the fastest of many rounds is what the code costs, the rest is the machine's.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use paceline_core::units::FleetTime;
use paceline_signals::{Answer, catalogue, read};

const ROUNDS: u32 = 200;
const READS_PER_ROUND: u32 = 2_000;

/// A success of OpenAI, 20 headers of which 6 tell of limits.
const OPENAI: &[(&str, &str)] = &[
    ("date", "Mon, 01 Jun 2026 12:00:00 GMT"),
    ("content-type", "application/json"),
    ("transfer-encoding", "chunked"),
    ("connection", "keep-alive"),
    ("access-control-expose-headers", "X-Request-ID"),
    ("openai-organization", "org"),
    ("openai-processing-ms", "412"),
    ("openai-version", "2020-10-01"),
    ("x-request-id", "req_0123456789abcdef"),
    ("x-ratelimit-limit-requests", "10000"),
    ("x-ratelimit-limit-tokens", "2000000"),
    ("x-ratelimit-remaining-requests", "9999"),
    ("x-ratelimit-remaining-tokens", "1998730"),
    ("x-ratelimit-reset-requests", "6ms"),
    ("x-ratelimit-reset-tokens", "38ms"),
    ("strict-transport-security", "max-age=31536000; includeSubDomains; preload"),
    ("cf-cache-status", "DYNAMIC"),
    ("server", "cloudflare"),
    ("cf-ray", "0123456789abcdef-FRA"),
    ("alt-svc", "h3=\":443\"; ma=86400"),
];

/// The same answer as a server without limits would have sent it.
fn without_limits() -> Vec<(&'static str, &'static str)> {
    OPENAI.iter().filter(|(name, _)| !name.starts_with("x-ratelimit")).copied().collect()
}

const REFUSAL: &str = r#"{"error": {"message": "Rate limit reached for gpt-4o in organization org-X on tokens per min (TPM): Limit 30000, Used 28770, Requested 4290. Please try again in 6.12s.", "type": "tokens", "code": "rate_limit_exceeded"}}"#;

fn main() {
    measure("OpenAI, 20 headers", "openai", 200, OPENAI, "");
    measure("OpenAI, the same without limits", "openai", 200, &without_limits(), "");
    measure("OpenAI, refusal with a body", "openai", 429, OPENAI, REFUSAL);
    measure("unknown provider, 20 headers", "generic", 200, OPENAI, "");
}

fn measure(what: &str, provider: &str, status: u16, headers: &[(&str, &str)], body: &str) {
    let provider = catalogue().get_or_generic(provider);
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    let received_at = Some(FleetTime::from_secs(1_780_315_200));
    let answer = Answer { status, headers: &headers, body: body.as_bytes(), received_at, ..Answer::default() };
    let round = || {
        let start = Instant::now();
        for _ in 0..READS_PER_ROUND {
            black_box(read(provider, black_box(&answer)));
        }
        start.elapsed()
    };
    let fastest = (0..ROUNDS).map(|_| round()).min().unwrap_or(Duration::ZERO);
    println!("{what:35} {:7.0} ns", fastest.as_nanos() as f64 / f64::from(READS_PER_ROUND));
}
