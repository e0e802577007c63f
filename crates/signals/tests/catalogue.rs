//! What the catalogue offers, and how files of one's own extend it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use paceline_core::plan::Refill;
use paceline_core::signal::{AnswerKind, ObservedOwner, ResetMeans};
use paceline_core::units::Span;
use paceline_signals::{Answer, CatalogueError, Provider, Repeat, catalogue, read};

#[test]
fn providers_are_found_in_any_casing() {
    assert_eq!(catalogue().get("OpenAI").map(Provider::title), Some("OpenAI"));
    assert_eq!(catalogue().get("azure_openai").map(Provider::title), Some("Azure OpenAI"));
    assert_eq!(catalogue().get("opnai").map(Provider::name), None);
    assert_eq!(catalogue().get_or_generic("opnai").name(), "generic");
    assert_eq!(catalogue().providers().next().map(Provider::name), Some("generic"));
}

#[test]
fn openai_is_known() {
    let openai = catalogue().get("openai").unwrap();
    let meters: Vec<_> = openai.meters().map(|meter| (meter.name, meter.refill, meter.reset_means, meter.owner)).collect();
    let continuous = |name| (name, Some(Refill::Continuous), ResetMeans::Full, ObservedOwner::Group);
    assert_eq!(meters, [continuous("requests"), continuous("tokens")]);
    let tier = openai.tier("4").unwrap();
    let limits: Vec<_> = tier
        .iter()
        .flat_map(|model| model.limits.iter().map(|(meter, limit)| (model.pattern, *meter, limit.to_string())))
        .collect();
    assert_eq!(limits[0], ("gpt-4o*", "requests", "10000 per 1 min".to_owned()));
    assert_eq!(limits[3], ("gpt-4o-mini*", "tokens", "10000000 per 1 min".to_owned()));
    assert_eq!(openai.tier("99"), None);
    assert_eq!(openai.endpoints().next(), Some(("/v1/chat/completions", Repeat::Safe)));
    assert_eq!(openai.min_backoff(), Span::ZERO);
}

#[test]
fn a_file_of_ones_own_extends_the_catalogue() {
    let yaml = "
extends: openai
meters:
  requests: {refill: window, window: 10s, owner: account}
min_backoff: {at_least: 60s}
waits:
  - {header: x-house-wait, forms: [milliseconds]}
families:
  - names: ['x-house-{part}']
    parts: {quota: {reads: limit}, left: {reads: remaining}, over: {reads: reset, forms: [seconds]}}
    bucket: {meter: requests, reset_means: window}
looks_like_limits: [x-house]
answers:
  - {status: [418], code: [teapot], kind: overloaded}
";
    let house = Provider::parse(yaml, "house", catalogue()).unwrap();
    assert_eq!((house.name(), house.extends(), house.title()), ("house", Some("openai"), "OpenAI"));
    let meters: Vec<_> = house.meters().map(|meter| (meter.name, meter.refill, meter.window)).collect();
    assert_eq!(meters, [("requests", Some(Refill::Window), Some(Span::from_secs(10)))]);
    assert_eq!(house.min_backoff(), Span::from_secs(60));
    assert!(house.tier("4").is_some(), "what the file does not say is inherited");

    let headers: Vec<(&str, &[u8])> = vec![
        ("X-House-Quota", b"100"),
        ("X-House-Left", b"0"),
        ("X-House-Over", b"9"),
        ("X-House-Wait", b"1500"),
        ("X-House-Mood", b"bad"),
        ("x-ratelimit-remaining-tokens", b"7"),
    ];
    let answer = Answer { status: 418, headers: &headers, body: br#"{"error": {"code": "teapot"}}"#, ..Answer::default() };
    let signal = read(&house, &answer);
    assert_eq!((signal.kind, signal.retry_after), (AnswerKind::Overloaded, Some(Span::from_millis(1_500))));
    let bucket = &signal.buckets[0];
    assert_eq!((bucket.limit, bucket.remaining, bucket.reset_in), (Some(100), Some(0), Some(Span::from_secs(9))));
    assert_eq!((bucket.reset_means, bucket.owner), (ResetMeans::Window, ObservedOwner::Account));
    assert_eq!(signal.buckets[1].name, "tokens", "OpenAI's own headers are still read");
    assert_eq!(signal.unread_headers, ["x-house-mood"]);
}

#[test]
fn a_wrong_file_is_refused_and_says_where() {
    for (yaml, part) in [
        ("meterz: {}", "meterz"),
        ("meters: {requests: {refil: window}}", "refil"),
        ("meters: {requests: {refill: sometimes}}", "sometimes"),
        ("waits: [{header: Retry, forms: [seconds]}]", "lower case"),
        ("waits: [{header: retry, forms: []}]", "no form"),
        ("waits: [{header: retry, forms: [fortnights]}]", "fortnights"),
        ("families: [{names: ['x-{what}'], parts: {a: {reads: limit}}}]", "{what}"),
        ("answers: [{status: [often], kind: ok}]", "often"),
        ("tiers: {a: {models: {m: {requests: 5}}}}", "requests"),
        ("body: {codes: [error.code]}", "/error/code"),
        ("meters: {requests: {checked: yesterday}}", "yesterday"),
        ("- 1", "house.yaml:1:1"),
    ] {
        let error = Provider::parse(yaml, "house", catalogue()).unwrap_err().to_string();
        assert!(error.contains("house") && error.contains(part), "{yaml}: {error}");
    }
    let error = Provider::parse("extends: opnai", "house", catalogue()).unwrap_err();
    assert!(matches!(error, CatalogueError::UnknownBase { base, .. } if base == "opnai"));
}

#[test]
fn what_is_probed_is_inherited_and_where_never_is() {
    let openai = catalogue().get("openai").and_then(Provider::probe).unwrap();
    assert_eq!((openai.base_url, openai.key), (Some("https://api.openai.com"), ("authorization", "Bearer ")));
    assert_eq!(openai.path_for("any"), "/v1/chat/completions");
    assert_eq!(openai.body_for("m").unwrap()["model"], "m");

    let gateway = Provider::parse("extends: openai", "gateway", catalogue()).unwrap();
    let probe = gateway.probe().unwrap();
    assert_eq!((probe.base_url, probe.model), (None, None), "its key must not go to OpenAI");
    assert_eq!(probe.body, openai.body);

    let same = "extends: openai\nprobe: {model: gpt-4o, headers: {x-team: a}}";
    let same = Provider::parse(same, "OpenAI", catalogue()).unwrap();
    let probe = same.probe().unwrap();
    assert_eq!((probe.base_url, probe.model), (openai.base_url, Some("gpt-4o")));
    assert_eq!(probe.headers, [("x-team", "a")]);

    for (yaml, part) in [
        ("probe: {base_url: api.example}", "https://"),
        ("probe: {key: {header: X-Key}}", "lower case"),
        ("probe: {call: {body: {}}}", "path"),
        ("probe: {calls: 3}", "calls"),
    ] {
        let error = Provider::parse(yaml, "house", catalogue()).unwrap_err().to_string();
        assert!(error.contains(part), "{yaml}: {error}");
    }
}

#[test]
fn keys_of_the_built_in_providers_are_sent_encrypted() {
    let probes: Vec<_> = catalogue().providers().filter_map(Provider::probe).collect();
    assert!(probes.len() > 20);
    for probe in probes {
        assert!(probe.base_url.is_none_or(|url| url.starts_with("https://") && !url.ends_with('/')), "{probe:?}");
        assert!(probe.model.is_none() || probe.needs_model(), "{probe:?}");
    }
}

#[test]
fn the_example_of_the_manual_is_a_probe() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/probe.md")).unwrap();
    let yaml = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let provider = Provider::parse(yaml, "brightwell", catalogue()).unwrap();
    let probe = provider.probe().unwrap();
    assert_eq!((probe.path_for("small-1").as_str(), probe.most_tokens), ("/v1/ask/small-1", Some(20)));
}
