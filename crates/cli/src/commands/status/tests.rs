//! What people and programs are shown of a busy scope.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use paceline_proto::v1::{
    Bucket, Degraded, Evidence, Floor, GetScopeResponse, Group, Lane, Leader, LearnedUsage, ListScopesResponse, Mode,
    ModeShare, OnStoreDown, Priority, Refill, Replica, ScopeSummary, Source, Store, UnreadHeader, WatchedCalls,
};
use prost_types::Duration;

use super::{StatusError, failed, fleet as of_fleet, json, people, selector};

fn length(millis: i64) -> Option<Duration> {
    let nanos = i32::try_from(millis % 1_000).unwrap() * 1_000_000;
    Some(Duration { seconds: millis / 1_000, nanos })
}

fn floor() -> Option<Floor> {
    Some(Floor { ends_in: length(8_800), source: Source::RetryAfterSeconds.into(), age: length(1_200) })
}

fn evidence(reports: u32, millis: i64) -> Option<Evidence> {
    Some(Evidence { age: length(millis), reports, confidence: 0.9 })
}

fn busy() -> GetScopeResponse {
    let learned = Bucket {
        label: "requests".into(),
        group: "gpt-4o".into(),
        meter: "requests".into(),
        limit_learned: Some(500),
        limit_effective: Some(500),
        window: length(60_000),
        refill: Refill::Continuous.into(),
        level: Some(-2.6),
        observed_remaining: Some(12),
        observed_age: length(2_000),
        foreign_drain: Some(148.6),
        level_evidence: evidence(12, 2_000),
        limit_evidence: evidence(35, 2_000),
        foreign_drain_evidence: evidence(4, 3_000),
        at_once: Some(40.0),
        ..Bucket::default()
    };
    let held = Bucket {
        label: "account/concurrency".into(),
        limit_configured: Some(64),
        limit_effective: Some(64),
        refill: Refill::Held.into(),
        level: Some(60.0),
        ..Bucket::default()
    };
    let unknown = Bucket { label: "tokens".into(), group: "gpt-4o".into(), ..Bucket::default() };
    GetScopeResponse {
        provider: "openai".into(),
        account: "prod\u{1b}[2J".into(),
        mode: Mode::Enforce.into(),
        buckets: vec![learned, held, unknown],
        groups: vec![Group { key: "gpt-4o".into(), floor: floor(), in_flight: 4, waiting: 3, ..Group::default() }],
        lanes: vec![Lane {
            group: "gpt-4o".into(),
            priority: Priority::Batch.into(),
            tenant: "ads".into(),
            depth: 3,
            oldest_wait: length(12_000),
            waits_for: Source::RetryAfterSeconds.into(),
        }],
        in_flight: 4,
        floor: None,
        usage: vec![LearnedUsage {
            model: "gpt-4o".into(),
            label: "search".into(),
            media: false,
            meter: "tokens".into(),
            median: 900,
            likely: 1_800,
            calls: 35,
            age: length(2_000),
        }],
        unread: vec![UnreadHeader {
            name: "x-quota-left".into(),
            count: 12,
            sample: "7/60".into(),
            malformed: false,
            age: length(2_000),
        }],
        ..GetScopeResponse::default()
    }
}

fn led_by(replica: u32, address: &str, answers: bool) -> Option<Leader> {
    Some(Leader { replica, address: address.into(), answers, ..Leader::default() })
}

/// Two replicas, of which one does not answer, and a store that is away.
fn fleet() -> ListScopesResponse {
    let one = Replica {
        id: 7,
        address: "a:7070".into(),
        version: "0.2.0".into(),
        schema: 3,
        heartbeat_age: length(1_500),
        config_hash: "0123456789abcdef".into(),
        asked: true,
        answers: true,
    };
    let other = Replica { id: 9, address: "b:7070\u{7}".into(), asked: false, answers: false, ..one.clone() };
    let store = Store {
        address: "redis://store:6379".into(),
        away_for: length(12_000),
        problem: "it does not answer".into(),
        among: 3,
    };
    ListScopesResponse { replicas: vec![one, other], store: Some(store), ..ListScopesResponse::default() }
}

#[test]
fn who_serves_and_that_the_store_is_away_stands_first() {
    let expected = "\
DEGRADED: the store redis://store:6379 has not answered this replica for 12 s (it does not answer).
  Limits are divided among 3: calls are granted from this replica's part, or denied where `on_store_down: closed` says so.

REPLICA  ADDRESS  VERSION  SCHEMA  LAST HEARD OF  CONFIGURATION
7        a:7070   0.2.0    3       1.5 s ago      01234567       asked
9        b:7070\u{fffd}  0.2.0    3       1.5 s ago      01234567       does not answer: calls that wait there are not counted

";
    let shown = of_fleet::head(&fleet());
    assert_eq!(shown, expected, "{shown}");
    assert_eq!(of_fleet::head(&ListScopesResponse::default()), "", "one that is alone and well");
    let told = json::scopes(&fleet(), &[]);
    assert_eq!((&told["store"]["degraded"], &told["store"]["away_for_ms"]), (&true.into(), &12_000.0.into()));
    assert_eq!((&told["replicas"][1]["answers"], &told["replicas"][1]["schema"]), (&false.into(), &3.into()));
}

#[test]
fn who_decides_is_said() {
    let first_line = |leader| {
        let shown = people::in_full(&[GetScopeResponse { leader, ..GetScopeResponse::default() }]);
        shown.lines().next().unwrap_or_default().to_owned()
    };
    assert!(first_line(led_by(9, "b:1", true)).ends_with("; led by 9 at b:1"));
    let silent = first_line(led_by(9, "b:1", false));
    assert!(silent.contains("led by 9 at b:1, which does not answer: calls that wait there are not shown"), "{silent}");
    assert!(!first_line(None).contains("led by"));
    let degraded = vec![Degraded { replica: 7, lasts: length(3_000), among: 3, on_store_down: OnStoreDown::Closed.into() }];
    let scope = GetScopeResponse { degraded, ..GetScopeResponse::default() };
    let shown = people::in_full(std::slice::from_ref(&scope));
    assert!(shown.contains("degraded: for 3 s replica 7 decides without the store and denies its calls"), "{shown}");
    let told = json::scopes(&fleet(), &[scope]);
    assert_eq!(told["scopes"][0]["degraded"][0]["on_store_down"], "closed");
    assert_eq!(told["scopes"][0]["leader"], serde_json::Value::Null);
}

#[test]
fn what_nothing_reads_is_listed_with_a_sample() {
    let text = people::unread(&[busy()]);
    assert!(text.contains("x-quota-left") && text.contains("7/60") && text.contains("2 s ago"), "{text}");
    let nothing = people::unread(&[GetScopeResponse { unread: Vec::new(), ..busy() }]);
    assert_eq!(nothing, "Everything that looks like a limit was read.\n");
}

#[test]
fn a_scope_reads_at_a_glance() {
    let expected = "\
openai/prod\u{fffd}[2J: 3 waiting, 4 in flight
  nothing is sent to gpt-4o for 8.8 s (retry after seconds, set 1.2 s ago)
  BUCKET               GROUP   LEVEL  LIMIT  PER        CONFIGURED  LEARNED                                                            PROVIDER SAID LEFT     FLOOR
  requests             gpt-4o  -3     500    1 min      -           500 (35x, 2 s ago), others take 149/min (4x, 3 s ago), 40 at once  12, 2 s ago, 12 agree  -
  account/concurrency  -       60     64     in flight  64          -                                                                  -                      -
  tokens               gpt-4o  ?      ?      ?          -           -                                                                  -                      -
  CALLS OF  LABEL   METER   HALF USE  NINE OF TEN USE  CALLS  LAST
  gpt-4o    search  tokens  900       1800             35     2 s ago
  LANE    CLASS  TENANT  WAITING  OLDEST  WAITS FOR
  gpt-4o  batch  ads     3        12 s    retry after seconds
";
    let shown = people::in_full(&[busy()]);
    assert_eq!(shown, expected, "{shown}");
}

#[test]
fn many_scopes_get_a_line_each() {
    let scopes = [
        ScopeSummary {
            provider: "openai".into(),
            account: "prod".into(),
            waiting: 3,
            in_flight: 4,
            oldest_wait: length(12_000),
            floor: floor(),
            modes: vec![share(Mode::Enforce, 0.2), share(Mode::Shadow, 0.8)],
            leader: led_by(9, "b:7070", false),
            ..ScopeSummary::default()
        },
        ScopeSummary { provider: "github".into(), ..ScopeSummary::default() },
    ];
    let expected = "\
SCOPE                MODE                     WAITING  IN FLIGHT  OLDEST WAIT  LED BY                    NOTHING SENT FOR
openai/prod          enforce 20%, shadow 80%  3        4          12 s         b:7070 (does not answer)  8.8 s (retry after seconds, set 1.2 s ago)
github/(no account)  enforce                  0        0          -            -                         -

Name one for its buckets and lanes: paceline status PROVIDER/ACCOUNT
";
    assert_eq!(people::in_lines(&scopes), expected);
}

fn share(mode: Mode, share: f64) -> ModeShare {
    ModeShare { mode: mode.into(), share }
}

#[test]
fn what_is_only_watched_is_said() {
    let scope = GetScopeResponse {
        modes: vec![share(Mode::Shadow, 1.0)],
        organisations: vec!["acme".into(), "org-0123...cdef".into()],
        watched: Some(WatchedCalls { asks: 1_200, would_wait: 300, would_deny: 2, prevented: 41 }),
        groups: vec![Group { key: "gpt-4o".into(), modes: vec![share(Mode::Enforce, 1.0)], ..Group::default() }],
        ..GetScopeResponse::default()
    };
    let text = people::in_full(std::slice::from_ref(&scope));
    for words in [
        "  mode: shadow\n",
        "  mode of gpt-4o: enforce\n",
        "1200 calls; enforced, 300 would have waited, 2 would",
        "41 refusals",
        "  answers name several organisations: acme, org-0123...cdef; give each its own account name\n",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let told = json::scopes(&ListScopesResponse::default(), &[scope]);
    assert_eq!(told["scopes"][0]["modes"]["shadow"], 1.0);
    assert_eq!(told["scopes"][0]["watched"]["prevented"], 41);
}

#[test]
fn nothing_to_show_is_said() {
    assert!(people::in_full(&[]).contains("Nobody has asked"));
    assert_eq!(people::live(&[]), "nobody has asked for a slot in the last two minutes");
    let scopes = |count: usize| -> Vec<ScopeSummary> {
        let one =
            |n: usize| ScopeSummary { provider: "openai".into(), account: format!("a{n}\u{7}"), ..ScopeSummary::default() };
        (0..count).map(one).collect()
    };
    assert_eq!(people::live(&scopes(2)), "live now: openai/a0\u{fffd}, openai/a1\u{fffd}");
    assert!(people::live(&scopes(20)).ends_with("openai/a7\u{fffd} and 12 more (`paceline status` lists them)"));
}

#[test]
fn programs_get_names_and_milliseconds() {
    let told = json::scopes(&fleet(), &[busy()]);
    let scope = &told["scopes"][0];
    assert_eq!((&scope["mode"], &scope["waiting"]), (&"enforce".into(), &3.into()));
    assert_eq!(scope["floor"], serde_json::Value::Null);
    assert_eq!(scope["groups"][0]["floor"]["ends_in_ms"], 8_800.0);
    assert_eq!(scope["groups"][0]["floor"]["source"], "retry_after_seconds");
    assert_eq!(scope["buckets"][0]["window_ms"], 60_000.0);
    assert_eq!(scope["buckets"][1]["refill"], "held");
    assert_eq!(scope["buckets"][0]["evidence"]["foreign_drain"]["reports"], 4);
    assert_eq!(scope["buckets"][0]["evidence"]["level"]["age_ms"], 2_000.0);
    assert_eq!(scope["usage"][0]["likely"], 1_800);
    assert_eq!(scope["buckets"][2]["level"], serde_json::Value::Null);
    assert_eq!(
        (&scope["lanes"][0]["priority"], &scope["lanes"][0]["waits_for"]),
        (&"batch".into(), &"retry_after_seconds".into())
    );
}

#[test]
fn a_scope_is_named_by_provider_and_account() {
    for (named, provider, account) in
        [("openai/prod", "openai", "prod"), ("openai", "openai", "*"), ("openai/", "openai", ""), ("a/b/c", "a", "b/c")]
    {
        let asked = selector(named);
        assert_eq!((asked.provider.as_str(), asked.account.as_str()), (provider, account));
    }
}

#[test]
fn refusals_of_the_service_are_passed_on() {
    let error = failed("there", &tonic::Status::permission_denied("only on 127.0.0.1"));
    assert!(matches!(error, StatusError::Refused { .. }) && error.to_string() == "there answers: only on 127.0.0.1");
    assert!(matches!(failed("there", &tonic::Status::unavailable("gone")), StatusError::Away { .. }));
    assert!(matches!(failed("there", &tonic::Status::unimplemented("no")), StatusError::Stranger { .. }));
}
