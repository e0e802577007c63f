//! What each dialect says, to the letter, and that it is what the meters hold.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use proptest::prelude::*;
use serde_json::Value;

use super::headers::go_duration;
use super::*;
use crate::limit::{Limit, LimitGroup, Metering, ModelPattern};
use crate::provider::{Answer, Cost, Endpoint, Outcome, Provider};

const MINUTE: Span = Span::from_secs(60);
/// Wed, 11 Mar 2026 17:20:05 GMT.
const T0: FleetTime = FleetTime::from_secs(1_773_249_605);

fn provider(dialect: Dialect, headers: HeaderPolicy) -> Provider {
    let limits = vec![Limit::new("requests", 2, MINUTE), Limit::new("tokens", 30_000, MINUTE)];
    Provider::new(ProviderConfig { headers, ..ProviderConfig::metering(dialect, limits) }).unwrap()
}

fn call() -> Call {
    Call::new("gpt-4o", Cost::one().with("tokens", 1_000))
}

/// The third call, a second after two that emptied the requests.
fn refused(dialect: Dialect, headers: HeaderPolicy) -> Answer {
    let mut provider = provider(dialect, headers);
    assert_eq!(provider.arrive(T0, &call()).status, 200);
    assert_eq!(provider.arrive(T0, &call()).status, 200);
    provider.arrive(T0 + Span::from_millis(1_000), &call())
}

/// Headers without those that every answer has.
fn limit_headers(answer: &Answer) -> String {
    let own = answer.headers.iter().filter(|(name, _)| !["date", "content-type", "x-request-id"].contains(&name.as_str()));
    own.map(|(name, value)| format!("{name}: {value}\n")).collect()
}

#[test]
fn every_dialect_to_the_letter() {
    let openai = "x-ratelimit-limit-requests: 2\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 59s\n\
         x-ratelimit-limit-tokens: 30000\nx-ratelimit-remaining-tokens: 28500\nx-ratelimit-reset-tokens: 3s\n\
         retry-after-ms: 29000\nretry-after: 29\n";
    let generic = "x-ratelimit-limit-requests: 2\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 1773249665\n\
         x-ratelimit-limit-tokens: 30000\nx-ratelimit-remaining-tokens: 28500\nx-ratelimit-reset-tokens: 1773249609\n\
         retry-after: 29\n";
    let ietf = "ratelimit-policy: \"requests\";q=2;w=60, \"tokens\";q=30000;w=60\n\
         ratelimit: \"requests\";r=0;t=59, \"tokens\";r=28500;t=3\nretry-after: 29\n";
    let trio = "ratelimit-limit: 2, 2;w=60, 30000;w=60\nratelimit-remaining: 0\nratelimit-reset: 59\nretry-after: 29\n";
    for (dialect, expected) in [
        (Dialect::OpenAi, openai),
        (Dialect::Generic, generic),
        (Dialect::Ietf, ietf),
        (Dialect::IetfTrio, trio),
        (Dialect::RetryAfter, "retry-after: 29\n"),
        (Dialect::Bare, ""),
    ] {
        let answer = refused(dialect, HeaderPolicy::All);
        assert_eq!(answer.status, 429);
        assert_eq!(limit_headers(&answer), expected, "{dialect}");
        assert_eq!(answer.header("date"), Some("Wed, 11 Mar 2026 17:20:06 GMT"));
    }
    assert_eq!(refused(Dialect::Bare, HeaderPolicy::All).body, "");
}

#[test]
fn policies_leave_headers_out() {
    let count = |policy, name: &str, refused_call: bool| {
        let answer =
            if refused_call { refused(Dialect::OpenAi, policy) } else { provider(Dialect::OpenAi, policy).arrive(T0, &call()) };
        answer.headers.iter().filter(|(known, _)| known.starts_with(name)).count()
    };
    for (policy, limits_ok, limits_refused, retry_refused) in [
        (HeaderPolicy::All, 6, 6, 2),
        (HeaderPolicy::None, 0, 0, 0),
        (HeaderPolicy::LimitsOnly, 6, 6, 0),
        (HeaderPolicy::RetryAfterOnly, 0, 0, 2),
        (HeaderPolicy::RefusalsOnly, 0, 6, 2),
    ] {
        assert_eq!(count(policy, "x-ratelimit", false), limits_ok, "{policy:?}");
        assert_eq!(count(policy, "x-ratelimit", true), limits_refused, "{policy:?}");
        assert_eq!(count(policy, "retry-after", false), 0, "{policy:?}");
        assert_eq!(count(policy, "retry-after", true), retry_refused, "{policy:?}");
    }
}

#[test]
fn errors_have_the_shape_of_their_api() {
    let answer = refused(Dialect::OpenAi, HeaderPolicy::All);
    let error: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(error["error"]["code"], "rate_limit_exceeded");
    assert_eq!(error["error"]["type"], "requests");
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.ends_with("Limit 2, Used 2, Requested 1. Please try again in 29s."), "{message}");

    let mut muted = Provider::new(ProviderConfig {
        mute_body: true,
        ..ProviderConfig::metering(Dialect::OpenAi, vec![Limit::new("requests", 1, MINUTE)])
    })
    .unwrap();
    muted.arrive(T0, &call());
    assert!(!muted.arrive(T0, &call()).body.contains("try again"));

    let messages = Call { endpoint: Endpoint::Messages, ..call() };
    let mut anthropic = provider(Dialect::OpenAi, HeaderPolicy::All);
    let ok: Value = serde_json::from_str(&anthropic.arrive(T0, &messages).body).unwrap();
    assert_eq!((&ok["type"], &ok["usage"]["input_tokens"]), (&"message".into(), &1_000.into()));
    anthropic.arrive(T0, &messages);
    let error: Value = serde_json::from_str(&anthropic.arrive(T0, &messages).body).unwrap();
    assert_eq!((&error["type"], &error["error"]["type"]), (&"error".into(), &"rate_limit_error".into()));
}

#[test]
fn what_never_fits_names_no_time() {
    for (dialect, status) in [(Dialect::OpenAi, 429), (Dialect::Ietf, 413)] {
        let answer = provider(dialect, HeaderPolicy::All).arrive(T0, &Call::new("m", Cost::one().with("tokens", 30_001)));
        assert_eq!((answer.status, answer.outcome), (status, Outcome::TooLarge));
        assert_eq!(answer.header("retry-after"), None);
        assert!(answer.body.contains("at most 30000 fit at once, requested 30001"), "{}", answer.body);
    }
}

#[test]
fn streams_are_events_that_end() {
    let mut provider = provider(Dialect::OpenAi, HeaderPolicy::All);
    let chat = provider.arrive(T0, &Call { stream: true, ..call() });
    assert_eq!(chat.header("content-type"), Some("text/event-stream"));
    assert!(chat.body.starts_with("data: {") && chat.body.ends_with("data: [DONE]\n\n"));
    let messages = provider.arrive(T0, &Call { stream: true, endpoint: Endpoint::Messages, ..call() });
    assert!(messages.body.starts_with("event: message_start\ndata: {") && messages.body.contains("event: message_stop\n"));
    for line in chat.body.lines().chain(messages.body.lines()).filter_map(|line| line.strip_prefix("data: {")) {
        let _: Value = serde_json::from_str(&format!("{{{line}")).unwrap();
    }
}

#[test]
fn several_limits_of_one_meter_are_told_apart_or_the_tightest_is_told() {
    let limits = vec![Limit::new("requests", 10, MINUTE), Limit::new("requests", 12, Span::from_secs(86_400))];
    let mut list = Provider::new(ProviderConfig::metering(Dialect::Ietf, limits.clone())).unwrap();
    let answer = list.arrive(T0, &call());
    assert_eq!(answer.header("ratelimit"), Some("\"requests\";r=9;t=6, \"requests-day\";r=11;t=7200"));
    let mut openai = Provider::new(ProviderConfig::metering(Dialect::OpenAi, limits)).unwrap();
    assert_eq!(openai.arrive(T0, &call()).header("x-ratelimit-limit-requests"), Some("10"));
    for _ in 0..6 {
        openai.arrive(T0 + MINUTE, &call());
    }
    let later = T0 + MINUTE + MINUTE;
    assert_eq!(openai.arrive(later, &call()).header("x-ratelimit-limit-requests"), Some("12"));
}

#[test]
fn one_generic_meter_goes_without_a_name() {
    let limits = vec![Limit::new("requests", 60, MINUTE).metered(Metering::FixedWindow { phase: Span::ZERO })];
    let mut provider = Provider::new(ProviderConfig::metering(Dialect::Generic, limits)).unwrap();
    let answer = provider.arrive(T0, &call());
    assert_eq!(limit_headers(&answer), "x-ratelimit-limit: 60\nx-ratelimit-remaining: 59\nx-ratelimit-reset: 1773249660\n");
}

#[test]
fn models_share_meters_or_have_their_own() {
    let group = |models: &str, each, units| LimitGroup {
        models: ModelPattern::new(models),
        each,
        limits: vec![Limit::new("requests", units, MINUTE)],
    };
    let config = ProviderConfig {
        groups: vec![group("gpt-4o*", false, 2), group("*", true, 100), group("*", false, 5)],
        ..ProviderConfig::default()
    };
    let mut provider = Provider::new(config).unwrap();
    let mut status = |model: &str| provider.arrive(T0, &Call::new(model, Cost::one())).status;
    assert_eq!(
        ["gpt-4o", "gpt-4o-mini", "gpt-4o", "o1", "o1", "o1", "o3"].map(&mut status),
        [200, 200, 429, 200, 200, 200, 429]
    );
    // All or nothing: what the shared meters refused was not charged to the model's own.
    let own: Vec<_> = provider.levels(T0).into_iter().filter(|level| &*level.owner == "o3").collect();
    assert_eq!(own[0].reading.remaining, 100);
}

#[test]
fn refused_calls_are_charged_only_where_asked() {
    for (charge_refused, accepted_after) in [(false, 200), (true, 429)] {
        let limits = vec![Limit::new("requests", 60, MINUTE), Limit::new("tokens", 1_000, MINUTE)];
        let config = ProviderConfig { charge_refused, ..ProviderConfig::metering(Dialect::OpenAi, limits) };
        let mut provider = Provider::new(config).unwrap();
        assert_eq!(provider.arrive(T0, &call()).status, 200);
        for _ in 0..100 {
            assert_eq!(provider.arrive(T0, &call()).status, 429);
        }
        assert_eq!(provider.arrive(T0, &Call::new("m", Cost::one())).status, accepted_after);
    }
}

#[test]
fn the_first_calls_get_what_was_asked_for() {
    let first = FirstCalls {
        count: 2,
        status: 429,
        retry_after: Some(Span::from_secs(2)),
        headers: vec![("X-Note".into(), "hello".into())],
        body: None,
    };
    let scripted = |first: FirstCalls| Provider::new(ProviderConfig { first: Some(first), ..ProviderConfig::default() });
    let mut provider = scripted(first.clone()).unwrap();
    for _ in 0..2 {
        let answer = provider.arrive(T0, &call());
        assert_eq!((answer.status, answer.outcome), (429, Outcome::Scripted));
        assert_eq!(limit_headers(&answer), "retry-after: 2\nx-note: hello\n");
        assert!(!answer.body.contains("try again"), "the header alone says when");
    }
    assert_eq!(provider.arrive(T0, &call()).status, 200);

    let short = FirstCalls { retry_after: Some(Span::from_millis(500)), headers: Vec::new(), ..first.clone() };
    let answer = scripted(short).unwrap().arrive(T0, &call());
    assert_eq!(limit_headers(&answer), "retry-after-ms: 500\nretry-after: 1\n");

    let verbatim =
        FirstCalls { headers: vec![("Retry-After".into(), "soon".into())], body: Some("no".into()), ..first.clone() };
    let answer = scripted(verbatim).unwrap().arrive(T0, &call());
    assert_eq!((limit_headers(&answer).as_str(), answer.body.as_str()), ("retry-after: soon\n", "no"));

    for bad in [0, 100, 199, 600, 999] {
        assert_eq!(scripted(FirstCalls { status: bad, ..first.clone() }).unwrap_err(), SimError::BadStatus { status: bad });
    }
    for (name, value) in [("", "x"), ("a b", "x"), ("a:", "x"), ("x", "a\r\nb"), ("x", "\u{e9}"), ("Content-Length", "5")] {
        let headers = vec![(name.to_owned(), value.to_owned())];
        let error = scripted(FirstCalls { headers, ..first.clone() }).unwrap_err();
        assert!(matches!(error, SimError::BadHeader { .. }), "{name}: {value}");
    }
}

#[test]
fn words_of_the_command_line() {
    for (name, dialect) in Dialect::ALL {
        assert_eq!((name.parse(), dialect.to_string().as_str()), (Ok(dialect), name));
    }
    assert_eq!("IETF_TRIO".parse(), Ok(Dialect::IetfTrio));
    let error = "open".parse::<Dialect>().unwrap_err().to_string();
    assert!(error.contains("choose one of openai, generic") && error.contains("did you mean openai?"), "{error}");
    assert!("some".parse::<HeaderPolicy>().is_err());
}

#[test]
fn go_durations() {
    for (micros, text) in [
        (0, "0s"),
        (1, "1ms"),
        (106_000, "106ms"),
        (999_001, "1s"),
        (1_500_000, "1.5s"),
        (10_000_000, "10s"),
        (360_000_000, "6m0s"),
        (977_764_000, "16m17.764s"),
        (3_723_500_000, "1h2m3.5s"),
        (86_400_000_000, "24h0m0s"),
        (-5, "0s"),
    ] {
        assert_eq!(go_duration(Span::from_micros(micros)), text);
    }
}

proptest! {
    /// Same seed, same calls: the same answers, to the byte.
    #[test]
    fn same_seed_same_answers(
        seed in any::<u64>(),
        calls in prop::collection::vec((0_i64..2_000_000, 0_u64..2_000), 1..60),
        dialect in prop::sample::select(&Dialect::ALL[..]),
    ) {
        let latency = crate::Latency { usual: Span::from_millis(200), jitter: Span::from_millis(100), refused: Span::ZERO };
        let limits = vec![Limit::new("requests", 20, Span::from_secs(10)), Limit::new("tokens", 20_000, Span::from_secs(10))];
        let config = ProviderConfig { latency, seed, ..ProviderConfig::metering(dialect.1, limits) };
        let run = || {
            let mut provider = Provider::new(config.clone()).unwrap();
            let mut now = T0;
            calls.iter().map(|(gap, tokens)| {
                now = now + Span::from_micros(*gap);
                provider.arrive(now, &Call::new("m", Cost::one().with("tokens", *tokens)))
            }).collect::<Vec<_>>()
        };
        prop_assert_eq!(run(), run());
    }

    /// Who waits as told is let through, if nobody else calls: `Retry-After` is never too short, nor two seconds too long.
    #[test]
    fn retry_after_is_enough(
        sends in prop::collection::vec((0_i64..3_000_000, 1_u64..400), 1..80),
        metering in prop::sample::select(vec![
            Metering::TokenBucket, Metering::PER_SECOND, Metering::FixedWindow { phase: Span::from_millis(700) },
        ]),
    ) {
        let limits = vec![
            Limit::new("requests", 10, Span::from_secs(10)).metered(metering),
            Limit::new("tokens", 1_000, Span::from_secs(10)).metered(metering),
        ];
        let mut provider = Provider::new(ProviderConfig::metering(Dialect::OpenAi, limits)).unwrap();
        let mut now = T0;
        for (gap, tokens) in sends {
            now = now + Span::from_micros(gap);
            let call = Call::new("m", Cost::one().with("tokens", tokens));
            let answer = provider.arrive(now, &call);
            if answer.status == 429 {
                let ms: i64 = answer.header("retry-after-ms").unwrap().parse().unwrap();
                prop_assert_eq!(provider.clone().arrive(now + Span::from_millis(ms), &call).status, 200);
                prop_assert_eq!(provider.clone().arrive(now + Span::from_millis(ms - 2), &call).status, 429);
                let secs: i64 = answer.header("retry-after").unwrap().parse().unwrap();
                prop_assert_eq!(secs, (ms + 999) / 1_000);
            }
        }
    }
}
