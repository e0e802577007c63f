//! What must hold for any answer whatever.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use paceline_core::units::{FleetTime, Span};
use paceline_signals::{Answer, Reading, catalogue, read_in_full};
use proptest::prelude::*;
use support::arbitrary::{name, value};

const NOW: FleetTime = FleetTime::from_secs(1_770_379_200);

fn read(provider: &str, status: u16, headers: &[(String, Vec<u8>)], body: &[u8]) -> Reading {
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
    let answer = Answer { status, headers: &headers, body, received_at: Some(NOW), ..Answer::default() };
    read_in_full(catalogue().get_or_generic(provider), &answer)
}

proptest! {
    #[test]
    fn casing_says_nothing(headers in prop::collection::vec((name(), value()), 0..12)) {
        let upper: Vec<_> = headers.iter().map(|(name, value)| (name.to_ascii_uppercase(), value.clone())).collect();
        let lower: Vec<_> = headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
        prop_assert_eq!(read("openai", 429, &upper, b""), read("openai", 429, &lower, b""));
    }

    /// The short way to a signal leads to the same one.
    #[test]
    fn a_signal_is_that_of_the_full_reading(
        provider in prop::sample::select(vec!["openai", "bedrock", "grpc", "openrouter", "anthropic"]),
        status in prop::sample::select(vec![200_u16, 204, 302, 400, 403, 429, 503]),
        headers in prop::collection::vec((name(), value()), 0..12),
        odd in prop::sample::select(vec![("x-none", "1"), ("grpc-status", "8"), (":exception-type", "throttlingException")]),
        body in prop::sample::select(vec!["", "{\"error\": {\"code\": 429}}", "try again in 5s"]),
    ) {
        let mut headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        headers.push((odd.0, odd.1.as_bytes()));
        let answer =
            Answer { status, headers: &headers, body: body.as_bytes(), received_at: Some(NOW), ..Answer::default() };
        let provider = catalogue().get(provider).unwrap();
        prop_assert_eq!(paceline_signals::read(provider, &answer), read_in_full(provider, &answer).signal);
    }

    /// I-3: a header that cannot be read never shortens a wait.
    #[test]
    fn garbage_beside_a_wait_never_shortens_it(secs in 0_i64..100_000, garbage in "[a-zA-Z ]{0,12}") {
        let wait = ("retry-after".to_owned(), secs.to_string().into_bytes());
        for name in ["retry-after", "retry-after-ms", "x-ratelimit-reset", "ratelimit", "date", "age"] {
            let headers = [(name.to_owned(), garbage.clone().into_bytes()), wait.clone()];
            prop_assert_eq!(read("generic", 429, &headers, b"").signal.retry_after, Some(Span::from_secs(secs)));
        }
    }

    /// Seconds with a fraction are never read as less than they are, and by less than a millisecond as more.
    #[test]
    fn waits_are_rounded_up(micros in 0_i64..10_000_000_000) {
        let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
        let read = read("generic", 429, &[("retry-after".to_owned(), text.into_bytes())], b"").signal.retry_after.unwrap();
        prop_assert!((0..1_000).contains(&(read.as_micros() - micros)));
    }
}

#[test]
fn a_flood_of_headers_is_bounded() {
    let headers: Vec<_> = (0..10_000).map(|index| (format!("x-ratelimit-remaining-thing{index}"), b"0".to_vec())).collect();
    let signal = read("generic", 429, &headers, &b"x".repeat(1 << 20)).signal;
    assert_eq!((signal.buckets.len(), signal.retryable), (32, true));
}
