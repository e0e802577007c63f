//! What is made of answers: tables from headers to what is told and pasted.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use hyper::HeaderMap;
use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use paceline_config::Config;
use paceline_core::plan::Refill;
use paceline_core::units::{FleetTime, Span};
use paceline_signals::catalogue;

use super::found::{Found, Sighting, Sureness, found};
use super::plan::Plan;
use super::secret::Key;
use super::told::{Call, Outcome};
use super::wire::Answered;
use super::{ProbeArgs, ProbeError, agree, read, trouble, yaml};

const NOW: FleetTime = FleetTime::from_secs(1_770_379_200);

fn key() -> Key {
    Key::from_variable("A_KEY", Some("key-0123456789abcdef".into())).unwrap()
}

fn plan(provider: &str) -> Plan {
    let args = ProbeArgs {
        base_url: Some("https://provider.example".to_owned()),
        model: Some("a-model".to_owned()),
        ..ProbeArgs::of_provider(provider)
    };
    Plan::new(&args, &key()).unwrap()
}

fn answered(status: u16, headers: &[(&str, &str)], body: &str) -> Answered {
    let pairs =
        headers.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap()));
    Answered {
        status: status.try_into().unwrap(),
        headers: pairs.collect::<HeaderMap>(),
        body: Bytes::copy_from_slice(body.as_bytes()),
        took: std::time::Duration::from_millis(5),
        received_at: NOW,
    }
}

/// What the heads of several answers, so many milliseconds after the first one, show together.
fn seen(provider: &str, heads: &[(i64, &[(&str, &str)])]) -> (Plan, Found) {
    let plan = plan(provider);
    let sightings: Vec<Sighting> = heads
        .iter()
        .map(|(at, headers)| {
            let at = Span::from_millis(*at);
            let answered = Answered { received_at: NOW + at, ..answered(200, headers, "{}") };
            Sighting { at, reading: read(&plan, &answered) }
        })
        .collect();
    let found = found(plan.provider, &sightings);
    (plan, found)
}

fn pasted(provider: &str, heads: &[(i64, &[(&str, &str)])]) -> String {
    let (plan, found) = seen(provider, heads);
    let text = yaml::yaml(&plan, &found);
    Config::parse_checked(&text, "pasted", catalogue()).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    text
}

#[test]
fn limits_and_windows_come_out_as_a_configuration_has_them() {
    let openai: &[(i64, &[(&str, &str)])] = &[
        (
            0,
            &[
                ("x-ratelimit-limit-requests", "500"),
                ("x-ratelimit-remaining-requests", "499"),
                ("x-ratelimit-reset-requests", "120ms"),
                ("x-ratelimit-limit-tokens", "30000"),
                ("x-ratelimit-remaining-tokens", "29990"),
                ("x-ratelimit-reset-tokens", "20ms"),
            ],
        ),
        (
            100,
            &[
                ("x-ratelimit-limit-requests", "500"),
                ("x-ratelimit-remaining-requests", "498"),
                ("x-ratelimit-reset-requests", "240ms"),
                ("x-ratelimit-limit-tokens", "30000"),
                ("x-ratelimit-remaining-tokens", "29980"),
                ("x-ratelimit-reset-tokens", "40ms"),
            ],
        ),
    ];
    let text = pasted("openai", openai);
    assert!(text.contains("requests: {limit: 500, per: min, refill: continuous}"), "{text}");
    assert!(text.contains("tokens: {limit: 30000, per: min, refill: continuous}"), "{text}");
    let (_, found) = seen("openai", openai);
    assert_eq!(found.buckets[0].window, Some((Span::from_secs(60), Sureness::Reckoned)));
    assert_eq!((found.buckets[0].per_call, found.buckets[1].per_call), (Some(1), Some(10)));

    // A day's requests under the same name: 1 of 10,000 comes back in 8.64 s.
    let day = pasted(
        "openai",
        &[(
            0,
            &[
                ("x-ratelimit-limit-requests", "10000"),
                ("x-ratelimit-remaining-requests", "9999"),
                ("x-ratelimit-reset-requests", "8.64s"),
            ],
        )],
    );
    assert!(day.contains("# requests: {limit: 10000, per: 24h, refill: continuous}   the window is a guess"), "{day}");

    let github = pasted(
        "github",
        &[(0, &[("x-ratelimit-limit", "5000"), ("x-ratelimit-remaining", "4999"), ("x-ratelimit-reset", "1770380000")])],
    );
    assert!(
        github.contains("# requests: {limit: 5000, per: 15min}   the window is a guess: it ends in 13 min 20 s"),
        "{github}"
    );

    let ietf = pasted(
        "acme",
        &[(
            0,
            &[
                ("ratelimit-policy", "\"burst\";q=10;w=1, \"daily\";q=1000;w=86400"),
                ("ratelimit", "\"burst\";r=9;t=1, \"daily\";r=990;t=5000"),
            ],
        )],
    );
    assert!(
        ietf.contains("dialect: generic") && ietf.contains("requests: [{limit: 10, per: s}, {limit: 1000, per: day}]"),
        "{ietf}"
    );

    let nothing = pasted("mistral", &[(0, &[])]);
    assert!(nothing.ends_with("default: {}\n"), "{nothing}");
}

#[test]
fn a_reset_that_nobody_explains_is_explained_by_the_next_answer() {
    let head = |remaining: &'static str, reset: &'static str| {
        [("x-ratelimit-limit", "60"), ("x-ratelimit-remaining", remaining), ("x-ratelimit-reset", reset)]
    };
    let (first, stands, little, moves) = (head("59", "40"), head("58", "38"), head("59", "5"), head("50", "50"));
    for (first, second, expected) in [
        (&first, &stands, "# requests: {limit: 60, per: min}"),
        (&little, &moves, "  requests: {limit: 60, per: 5min, refill: continuous}"),
        // The figures of the first answer do not fit the window of the second.
        (&first, &moves, "# requests: {limit: 60, per: 5min, refill: continuous}   the window is a guess"),
    ] {
        let text = pasted("acme", &[(0, first), (2_000, second)]);
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn what_nothing_reads_is_told() {
    let (_, found) = seen(
        "openai",
        &[(
            0,
            &[
                ("x-ratelimit-limit-requests", "many"),
                ("x-quota-of-the-moon", "full"),
                ("x-ratelimit-mood", "bad"),
                ("content-type", "application/json"),
            ],
        )],
    );
    assert_eq!(found.malformed, ["x-ratelimit-limit-requests"]);
    assert!(found.unread.contains(&"x-ratelimit-mood".to_owned()), "{found:?}");
    assert!(!found.unread.contains(&"content-type".to_owned()), "{found:?}");
}

#[test]
fn names_that_are_no_plain_words_are_pasted_as_they_are() {
    for (provider, account, model) in [
        ("fireworks", "team a", "accounts/fireworks/models/x"),
        ("openai", "1", "weird*[name]{a}"),
        ("my-gateway", "true", "a: b"),
    ] {
        let args = ProbeArgs {
            base_url: Some("https://provider.example".to_owned()),
            model: Some(model.to_owned()),
            account: account.to_owned(),
            ..ProbeArgs::of_provider(provider)
        };
        let plan = Plan::new(&args, &key()).unwrap();
        let head = answered(200, &[("x-ratelimit-limit", "60"), ("ratelimit-policy", "60;w=60")], "{}");
        let found = found(plan.provider, &[Sighting { at: Span::ZERO, reading: read(&plan, &head) }]);
        let text = yaml::yaml(&plan, &found);
        let config = Config::parse_checked(&text, "pasted", catalogue()).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        let resolved = config.resolve(catalogue(), provider, account, model);
        assert!(resolved.is_ok(), "{text}");
    }
}

#[test]
fn each_kind_of_answer_says_what_to_do() {
    let (plan, key) = (plan("openai"), key());
    for (status, headers, body, part) in [
        (401, &[][..], r#"{"error": {"message": "Incorrect API key provided: key-01***cdef"}}"#, "$A_KEY whole"),
        (403, &[], "", "have the right"),
        (404, &[], r#"{"error": {"message": "no such model", "code": "model_not_found"}}"#, "--model"),
        (302, &[("location", "https://elsewhere.example/")], "", "https://elsewhere.example/"),
        (429, &[("retry-after", "7")], r#"{"error": {"code": "rate_limit_exceeded"}}"#, "come back in 7 s"),
        (429, &[], r#"{"error": {"code": "rate_limit_exceeded"}}"#, "Try again in a few minutes, with --calls 1"),
        (429, &[], r#"{"error": {"code": "insufficient_quota"}}"#, "billing"),
        (503, &[], "", "not your limit"),
        (400, &[], r#"{"error": {"message": "max_tokens is not supported"}}"#, "max_tokens is not supported"),
        (400, &[], "<html>key-0123456789abcdef</html>", "another reason"),
    ] {
        let answered = answered(status, headers, body);
        let told = trouble::of(&plan, &key, &answered, &read(&plan, &answered)).unwrap();
        assert!(told.contains(part), "{status}: {told}");
        assert!(!told.contains("cdef") && !told.contains("key-01"), "{told}");
    }
    let fine = answered(200, &[], "{}");
    assert_eq!(trouble::of(&plan, &key, &fine, &read(&plan, &fine)), None);
}

#[test]
fn nothing_is_sent_before_somebody_agrees() {
    let ask = |yes, is_terminal, typed: &str| {
        let mut out = Vec::new();
        let agreed = agree("What is sent.\n", yes, is_terminal, &mut typed.as_bytes(), &mut out);
        (agreed, String::from_utf8(out).unwrap())
    };
    assert!(ask(true, false, "").0.is_ok());
    assert!(matches!(ask(false, false, "y\n").0, Err(ProbeError::NoTerminal)));
    assert!(ask(false, true, "y\n").0.is_ok());
    assert!(ask(false, true, "YES\n").0.is_ok());
    for typed in ["", "\n", "n\n", "yep\n"] {
        let (agreed, said) = ask(false, true, typed);
        assert!(matches!(agreed, Err(ProbeError::Declined)));
        assert_eq!(said, "What is sent.\nSend? [y/N] ");
    }
}

/// A gateway in front of a provider whose limits refill evenly counts in fixed windows: its resets are no times until full.
#[test]
fn a_window_that_answers_contradict_is_not_stated() {
    let head = |requests: &'static str, tokens: &'static str, reset: &'static str| {
        [
            ("x-ratelimit-limit-requests", "500"),
            ("x-ratelimit-remaining-requests", requests),
            ("x-ratelimit-reset-requests", reset),
            ("x-ratelimit-limit-tokens", "30000"),
            ("x-ratelimit-remaining-tokens", tokens),
            ("x-ratelimit-reset-tokens", reset),
        ]
    };
    // The third answer alone would say an hour, the second and the third together as well.
    let heads = [head("499", "29991", "23.012s"), head("498", "29982", "23.006s"), head("497", "29973", "23.001s")];
    let ms: Vec<(i64, &[(&str, &str)])> = [0, 6, 11].into_iter().zip(heads.iter().map(|head| &head[..])).collect();
    for calls in [1, 2, 3] {
        let (plan, found) = seen("openai", &ms[..calls]);
        for bucket in &found.buckets {
            assert!(!matches!(bucket.window, Some((_, Sureness::Reckoned | Sureness::Stated))), "{calls}: {bucket:?}");
            assert_ne!(bucket.refill, Some(Refill::Continuous), "{calls}: {bucket:?}");
        }
        let text = yaml::yaml(&plan, &found);
        let of_limits = |line: &&str| line.contains("{limit:") || line.contains("limit 500") || line.contains("limit 30000");
        assert!(text.lines().filter(of_limits).all(|line| line.trim_start().starts_with('#')), "{text}");
    }
    let (_, found) = seen("openai", &ms);
    assert!(found.buckets.iter().all(|bucket| bucket.refill == Some(Refill::Window)), "{found:?}");
}

#[test]
fn what_others_took_is_no_calls_cost() {
    let head = |remaining: &'static str| [("x-ratelimit-limit-requests", "500"), ("x-ratelimit-remaining-requests", remaining)];
    for (after, told, others) in [("498", "a call took 1", false), ("420", "somebody else uses it too", true)] {
        let (plan, found) = seen("openai", &[(0, &head("499")), (50, &head(after))]);
        let calls = vec![Call { status: 200, took: Span::from_millis(5) }; 2];
        let text = Outcome { plan: &plan, calls, found, yaml: String::new(), trouble: None }.text();
        assert!(text.contains(told) && text.contains("a call took") != others, "{text}");
    }
}

/// A quota that bears the name of a meter counts that, unless it says otherwise; the limits of a provider are read so in calls, too.
#[test]
fn a_policy_of_tokens_is_one_of_tokens() {
    for (policy, expected) in [
        ("\"tokens\";q=30000;w=60", "tokens: {limit: 30000, per: min}"),
        ("\"tokens\";q=30000;w=60;qu=\"requests\"", "requests: {limit: 30000, per: min}"),
        ("\"daily\";q=30000;w=60", "requests: {limit: 30000, per: min}"),
    ] {
        let text = pasted("acme", &[(0, &[("ratelimit-policy", policy)])]);
        assert!(text.contains(expected), "{policy}: {text}");
    }
}

#[test]
fn one_of_a_thing_is_not_several() {
    let said = |calls: u32| {
        let args = ProbeArgs { calls, ..ProbeArgs::of_provider("openai") };
        Plan::new(&args, &key()).unwrap().announcement(&key())
    };
    assert!(said(1).contains("This sends 1 call to") && said(1).contains("as 1 call does"), "{}", said(1));
    assert!(said(2).contains("This sends 2 calls to") && said(2).contains("as 2 calls do"), "{}", said(2));
}

#[test]
fn a_model_that_nobody_has_tried_is_called_a_guess() {
    let said = |model: Option<&str>| {
        let args = ProbeArgs { model: model.map(str::to_owned), ..ProbeArgs::of_provider("openai") };
        Plan::new(&args, &key()).unwrap().announcement(&key())
    };
    assert!(said(None).contains("the catalogue's guess") && said(None).contains("--model"), "{}", said(None));
    assert!(!said(Some("gpt-4o")).contains("guess"), "{}", said(Some("gpt-4o")));
}
