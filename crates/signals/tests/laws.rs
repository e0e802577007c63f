//! What must hold for any answer whatever.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use paceline_core::signal::{AnswerKind, Source};
use paceline_core::units::{FleetTime, Span};
use paceline_signals::{Answer, LONGEST_READ, Reading, catalogue, read_in_full};
use proptest::prelude::*;

const NOW: FleetTime = FleetTime::from_secs(1_770_379_200);

/// Names that rules read, names that nearly are, and any text.
fn name() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "x",
        "ratelimit",
        "rate-limit",
        "limit",
        "remaining",
        "reset",
        "after",
        "used",
        "requests",
        "tokens",
        "minute",
        "day",
        "retry",
        "ms",
        "policy",
        "acme",
        "should",
        "date",
        "age",
        "grpc-status",
        "grpc-retry-pushback-ms",
    ]);
    prop_oneof![
        8 => prop::collection::vec(word, 1..6).prop_map(|words| words.join("-")),
        1 => "\\PC{0,40}",
    ]
}

/// Values of every form, values that nearly are, and any bytes.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let text = |strategy: &'static str| strategy.prop_map(String::into_bytes);
    prop_oneof![
        4 => text("-?[0-9]{1,22}(\\.[0-9]{0,8})?(e[+-]?[0-9]{1,4})?"),
        2 => text("([0-9]{1,5}(\\.[0-9]{1,4})?(ns|us|ms|s|m|h|d)){1,4}"),
        1 => text("(Fri|Friday), [0-9]{1,2}[ -]Feb[ -][0-9]{2,4} [0-9]{2}:[0-9]{2}:[0-9]{2} (GMT|UTC|[+]0[0-9]00)"),
        1 => text("[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2})"),
        1 => text("\"[a-z;,=]{0,6}\";r=-?[0-9]{1,20};t=[0-9]{1,20}(, \"b\";r=[0-9])?"),
        1 => text("limit=[0-9]{1,20}, remaining=-?[0-9]{1,20}, reset=[0-9]{1,20}"),
        1 => text("[0-9]{1,9}, [0-9]{1,9};w=[0-9]{1,20}"),
        1 => prop::collection::vec(any::<u8>(), 0..64),
    ]
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let text = |strategy: &'static str| strategy.prop_map(String::into_bytes);
    prop_oneof![
        2 => text("\\{\"error\": \\{\"message\": \"try again in -?[0-9]{1,22}(\\.[0-9]{1,3})?(s|ms| days|:[0-9]{2}:[0-9]{2})?\"\\}\\}"),
        2 => text("\\{\"retry_after\": -?[0-9]{1,22}(\\.[0-9]{1,3})?(e[0-9]{1,4})?\\}"),
        1 => text("[\\[\\{\\]\\}\":,a-z0-9\\\\ ]{0,60}"),
        1 => prop::collection::vec(any::<u8>(), 0..200),
        1 => Just(b"[".repeat(20_000)),
    ]
}

fn read(provider: &str, status: u16, headers: &[(String, Vec<u8>)], body: &[u8]) -> Reading {
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
    let answer = Answer { status, headers: &headers, body, received_at: Some(NOW), ..Answer::default() };
    read_in_full(catalogue().get_or_generic(provider), &answer)
}

proptest! {
    #[test]
    fn any_answer_is_read_within_bounds(
        provider in prop::sample::select(vec!["openai", "generic"]),
        status in any::<u16>(),
        headers in prop::collection::vec((name(), value()), 0..20),
        body in body(),
    ) {
        let signal = read(provider, status, &headers, &body).signal;
        prop_assert_eq!(signal.retry_after.is_some(), signal.source != Source::None);
        prop_assert_eq!(signal.retry_after.is_some(), !signal.field.is_empty());
        prop_assert!(signal.retry_after.is_none_or(|wait| (Span::ZERO..=LONGEST_READ).contains(&wait)));
        for bucket in &signal.buckets {
            prop_assert!(bucket.limit != Some(0));
            prop_assert!(bucket.reset_in.is_none_or(|reset| (Span::ZERO..=LONGEST_READ).contains(&reset)));
            prop_assert!(bucket.window.is_none_or(|window| window > Span::ZERO));
            prop_assert!(bucket.name.chars().count() <= 80 && !bucket.meter.is_empty());
        }
        prop_assert!(signal.buckets.len() <= 32 && signal.unread_headers.len() <= 32 && signal.malformed_headers.len() <= 32);
        prop_assert!(!(signal.retryable && matches!(signal.kind, AnswerKind::QuotaExhausted | AnswerKind::Impossible)));
    }

    #[test]
    fn casing_says_nothing(headers in prop::collection::vec((name(), value()), 0..12)) {
        let upper: Vec<_> = headers.iter().map(|(name, value)| (name.to_ascii_uppercase(), value.clone())).collect();
        let lower: Vec<_> = headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
        prop_assert_eq!(read("openai", 429, &upper, b""), read("openai", 429, &lower, b""));
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
