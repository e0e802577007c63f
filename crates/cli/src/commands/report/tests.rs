//! The report as tables: from bins to figures, doubts and words.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use jiff::Timestamp;
use paceline_core::history::{Counts, Hourly, Units};
use paceline_core::mode::Mode;
use paceline_core::units::Span;
use paceline_proto::convert::duration;
use paceline_proto::history::hour;
use paceline_proto::v1::{Bucket, Evidence, GetHistoryResponse, GetScopeResponse, Group, Refill, ScopeHistory, UnreadHeader};

use super::believe::Thresholds;
use super::{Report, json, people};

const USUAL: Thresholds = Thresholds { min_hours: 24, min_answers: 100 };

fn now() -> Timestamp {
    "2026-03-02T08:20:00Z".parse().unwrap()
}

fn mins(mins: i64) -> Span {
    Span::from_secs(60 * mins)
}

/// A thousand watched calls: 40 would have waited two seconds, 2 would have been denied, 30 were refused and would not have been.
fn calm() -> Counts {
    let mut counts = Counts {
        asks: 1_000,
        judged: 1_000,
        answers: 990,
        unanswered: 5,
        retries: 31,
        prevented: 30,
        needless: 30,
        ..Counts::default()
    };
    (0..40).for_each(|_| counts.waits.note(Span::from_secs(2)));
    (0..30).for_each(|_| counts.refuse(429, true));
    (0..2).for_each(|_| counts.deny("deadline"));
    *counts.units_of("requests") = Units { used: 960, retried: 31, refused: 30 };
    *counts.units_of("tokens") = Units { used: 960_000, retried: 31_000, refused: 0 };
    counts
}

fn backed(reports: u32) -> Option<Evidence> {
    Some(Evidence { age: Some(duration(mins(1))), reports, confidence: 0.9 })
}

/// A limit that a person wrote and that headers confirm.
fn known() -> Bucket {
    Bucket {
        label: "requests".into(),
        group: "gpt-4o".into(),
        meter: "requests".into(),
        limit_configured: Some(500),
        limit_learned: Some(500),
        limit_effective: Some(500),
        window: Some(duration(mins(1))),
        refill: Refill::Continuous.into(),
        observed_remaining: Some(300),
        level_evidence: backed(40),
        limit_evidence: backed(40),
        ..Bucket::default()
    }
}

fn scope() -> GetScopeResponse {
    let group = Group { key: "gpt-4o".into(), ..Group::default() };
    GetScopeResponse { buckets: vec![known()], groups: vec![group], ..GetScopeResponse::default() }
}

/// A day and a bit, the same calls in each hour.
fn day(counts: &Counts) -> ScopeHistory {
    let hours = (0..25).rev().map(|back| {
        let mut counted = Hourly::default();
        *counted.mode_mut(Mode::Shadow) = counts.clone();
        hour(&counted, mins(20 + 60 * back))
    });
    ScopeHistory { provider: "openai".into(), account: "prod".into(), hours: hours.collect(), scope: Some(scope()) }
}

fn told(scopes: impl IntoIterator<Item = ScopeHistory>) -> GetHistoryResponse {
    GetHistoryResponse { scopes: scopes.into_iter().collect(), silent_replicas: 0 }
}

fn report_of(told: &GetHistoryResponse, asked: Thresholds) -> Report {
    Report::of(told, now(), Span::from_secs(86_400), asked, vec!["tokens=3/1M".parse().unwrap()])
}

fn codes(scope: ScopeHistory) -> Vec<&'static str> {
    let report = report_of(&told([scope]), USUAL);
    let all = report.doubts.iter().chain(report.scopes.iter().flat_map(|judged| &judged.doubts));
    all.map(|doubt| doubt.code).collect()
}

#[test]
fn a_calm_day_is_believable() {
    assert_eq!(codes(day(&calm())), Vec::<&str>::new());
}

/// One change to a believable day, and what is said of it.
#[test]
fn each_doubt_has_a_reason_of_its_own() {
    let counts = |change: &dyn Fn(&mut Counts)| {
        let mut counts = calm();
        change(&mut counts);
        day(&counts)
    };
    let limits = |change: &dyn Fn(&mut GetScopeResponse)| {
        let mut day = day(&calm());
        change(day.scope.as_mut().unwrap());
        day
    };
    let hours = |change: &dyn Fn(&mut ScopeHistory)| {
        let mut day = day(&calm());
        change(&mut day);
        day
    };
    let cases: Vec<(&str, ScopeHistory, &[&str])> = vec![
        ("watched for 23 hours", hours(&|day| drop(day.hours.remove(0))), &["too-young"]),
        ("busier than ever", hours(&|day| day.hours[24].calls[0].asks = 1_300), &["peak-to-come"]),
        ("busier than ever, a while ago", hours(&|day| day.hours[20].calls[0].asks = 1_300), &[]),
        ("lost", hours(&|day| day.hours[0].lost = 500), &["counts-lost"]),
        ("nobody reports", counts(&|counts| (counts.answers, counts.unanswered) = (700, 50)), &["not-reported"]),
        (
            "nothing is answered",
            counts(&|counts| *counts = Counts { asks: 1, judged: 1, ..Counts::default() }),
            &["few-answers", "not-reported"],
        ),
        ("the store was away", counts(&|counts| counts.judged = 900), &["not-judged"]),
        ("more prevented than refused", counts(&|counts| counts.prevented = 31), &["contradiction"]),
        ("refusals are left", counts(&|counts| counts.prevented = 20), &["refusals-left"]),
        ("few are left", counts(&|counts| counts.prevented = 27), &[]),
        ("those are for its load", counts(&|counts| (0..20).for_each(|_| counts.refuse(529, true))), &[]),
        (
            "it takes all",
            counts(&|counts| {
                (counts.prevented, counts.refused) = (0, Default::default());
                (0..60).for_each(|_| counts.waits.note(Span::from_secs(1)));
            }),
            &["waits-for-nothing"],
        ),
        ("no place in the configuration", hours(&|day| day.scope = None), &["limits-not-shown"]),
        (
            "a group without limits",
            limits(&|scope| scope.groups.push(Group { key: "o3".into(), ..Group::default() })),
            &["limit-unknown"],
        ),
        ("no limit", limits(&|scope| scope.buckets[0].limit_effective = None), &["limit-unknown"]),
        ("calls in flight are no rate", limits(&|scope| scope.buckets[0].refill = Refill::Held.into()), &["limit-unknown"]),
        (
            "learned from two answers",
            limits(&|scope| (scope.buckets[0].limit_configured, scope.buckets[0].limit_evidence) = (None, backed(2))),
            &["limit-thin"],
        ),
        ("learned from many", limits(&|scope| scope.buckets[0].limit_configured = None), &[]),
        (
            "measured by refusals",
            limits(&|scope| {
                let bucket = &mut scope.buckets[0];
                (bucket.limit_configured, bucket.limit_learned, bucket.limit_evidence) = (None, None, None);
                bucket.limit_measured_evidence = backed(9);
            }),
            &[],
        ),
        (
            "others send",
            limits(&|scope| {
                (scope.buckets[0].foreign_drain, scope.buckets[0].foreign_drain_evidence) = (Some(60.0), backed(9))
            }),
            &["others-send"],
        ),
        (
            "others send a little",
            limits(&|scope| (scope.buckets[0].foreign_drain, scope.buckets[0].foreign_drain_evidence) = (Some(9.0), backed(9))),
            &[],
        ),
        ("two quotas", limits(&|scope| scope.organisations = vec!["a".into(), "b".into()]), &["several-accounts"]),
        (
            "unread headers",
            limits(&|scope| {
                (scope.buckets[0].observed_remaining, scope.buckets[0].limit_learned) = (None, None);
                scope.unread = vec![UnreadHeader { name: "x-quota-left".into(), count: 900, ..UnreadHeader::default() }];
            }),
            &["headers-unread"],
        ),
    ];
    for (name, day, expected) in cases {
        assert_eq!(codes(day), expected, "{name}");
    }
    let mut silent = counts(&|counts| counts.silent = 800);
    assert_eq!(codes(silent.clone()), Vec::<&str>::new(), "a person wrote the limits");
    silent.scope.as_mut().unwrap().buckets[0].limit_configured = None;
    assert_eq!(codes(silent), ["no-signal"]);
}

#[test]
fn who_wants_less_gets_it_sooner() {
    let mut young = day(&calm());
    young.hours.drain(..24);
    let asked = |min_hours, min_answers| Thresholds { min_hours, min_answers };
    for (thresholds, expected) in [(asked(24, 100), 1), (asked(0, 100), 0), (asked(0, 991), 1), (asked(1, 2_000), 2)] {
        assert_eq!(report_of(&told([young.clone()]), thresholds).reasons(), expected, "{thresholds:?}");
    }
}

#[test]
fn a_scope_that_is_rolled_out_is_on_no_trial_and_one_that_is_off_sees_nothing() {
    let only = |mode: Mode| {
        let mut counted = Hourly::default();
        *counted.mode_mut(mode) = Counts { asks: 10, ..Counts::default() };
        ScopeHistory { account: mode.name().into(), hours: vec![hour(&counted, mins(20))], ..day(&calm()) }
    };
    assert_eq!(codes(only(Mode::Off)), ["nothing-watched"]);
    assert_eq!(codes(only(Mode::Enforce)), ["nothing-watched"], "said once");
    let beside = report_of(&told([day(&calm()), only(Mode::Enforce)]), USUAL);
    assert!(beside.is_believable(), "{:?}", beside.scopes);
    assert_eq!(report_of(&told([day(&calm()), only(Mode::Off)]), USUAL).reasons(), 1);
    assert_eq!(report_of(&told([]), USUAL).reasons(), 1, "nothing was counted");
}

#[test]
fn totals_are_sums_by_hour() {
    let report = report_of(&told([day(&calm()), ScopeHistory { account: "batch".into(), ..day(&calm()) }]), USUAL);
    assert_eq!(report.total.hours.len(), 25);
    assert_eq!((report.total.watched().asks, report.total.would_send()), (50_000, 48_400));
    let people = people::report(&report);
    assert!(people.contains("all together, in the"), "{people}");
}

#[test]
fn people_read_a_table_and_what_to_do() {
    let mut trial = day(&calm());
    trial.hours[24].calls[0].prevented = 3;
    let mut counted = Hourly::default();
    *counted.mode_mut(Mode::Enforce) = Counts { asks: 100, judged: 100, answers: 99, retries: 1, ..Counts::default() };
    counted.mode_mut(Mode::Enforce).waits.note(Span::from_secs(3));
    trial.hours[24].calls.extend(hour(&counted, mins(20)).calls);
    trial.hours.drain(..20);
    let text = people::report(&report_of(&told([trial]), USUAL));
    let expected = "\
openai/prod, in the 4 h 20 min since 2026-03-02T04:00:00Z (5 hours with calls)
                           WATCHED      IF ENFORCED  REALLY ENFORCED
  calls                    5,000        4,840        100
  refused by the provider  150 (3.0 %)  27 (0.6 %)   0
  waited                   -            200 (4.1 %)  1 (1.0 %)
    half of those          -            up to 2 s    up to 4 s
    99 of 100 of those     -            up to 2 s    up to 4 s
  denied                   -            10 (0.2 %)   0
  sent again               155 (3.1 %)  5 (0.1 %)    1 (1.0 %)
  refused with: 429 150
  waits added: 6 min 40 s in all, 2 s each; most in the hour of 2026-03-02T08:00:00Z, 1 min 20 s
  would be denied: deadline 10
  saved by enforcing: 123 refusals, and 150 further attempts after them
  retries used: 155 requests, 155,000 tokens ($0.47)
  refused calls used: 150 requests ($0.00)
  not believable yet:
  - too-young: it was watched for 4 h, and a trial takes 24 h
    look again in 20 h, or say that less is enough with --min-hours
  - refusals-left: 27 refusals (0.5 % of the answers) would be left, so the limits here are higher than the provider's, or others send on this account
    compare the limits with those of your contract; if only the first hours were like that, look with a shorter --since

NOT BELIEVABLE YET
";
    assert_eq!(text, expected, "\n{text}");
    let calm = people::report(&report_of(&told([day(&calm())]), USUAL));
    assert!(
        calm.ends_with("\nBelievable: nothing speaks against these figures. IF ENFORCED is an estimate, to about 15 %.\n"),
        "{calm}"
    );
}

/// A name with a slip is told from one that nothing was counted of yet.
#[test]
fn a_scope_that_is_not_there_is_told_with_those_that_are() {
    let others = told([day(&calm())]);
    for (asked, then) in [("opanai", "check its name"), ("openai/prod/gpt-4o", "PROVIDER/ACCOUNT")] {
        let text = people::report(&report_of(&told([]), USUAL).without(asked, &others));
        let what = format!("no-such-scope: nothing was counted of `{asked}` in this time; there are openai/prod\n");
        assert!(text.contains(&what) && text.contains(then), "{text}");
    }
    let nobody = report_of(&told([]), USUAL).without("openai", &told([]));
    assert_eq!(nobody.doubts[0].code, "nothing-counted");
}

#[test]
fn a_price_of_a_meter_that_nobody_has_is_told() {
    let mut priced = report_of(&told([day(&calm())]), USUAL);
    assert!(priced.idle_prices().is_empty());
    priced.prices.push("tokns=3/1M".parse().unwrap());
    let text = people::report(&priced);
    assert!(
        text.contains("The price of `tokns` was used for nothing: no call has used any; they used requests, tokens."),
        "{text}"
    );
    assert_eq!(json::report(&priced)["idle_prices"], serde_json::json!(["tokns"]));
}

#[test]
fn names_cannot_move_the_cursor() {
    let text = people::report(&report_of(&told([ScopeHistory { account: "\u{1b}[2J".into(), ..day(&calm()) }]), USUAL));
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn programs_read_the_same_figures() {
    let told = json::report(&report_of(&told([day(&calm())]), USUAL));
    assert_eq!((&told["believable"], told["doubts"].as_array().map(Vec::len)), (&serde_json::json!(true), Some(0)));
    let shadow = &told["scopes"][0]["modes"]["shadow"];
    for (path, expected) in [
        ("/calls", 25_000.0),
        ("/calls_if_enforced", 24_200.0),
        ("/refused/now", 750.0),
        ("/refused/prevented", 750.0),
        ("/refused/if_enforced", 0.0),
        ("/refused/by_status/429", 750.0),
        ("/waits/calls", 1_000.0),
        ("/waits/total_s", 2_000.0),
        ("/waits/mean_s", 2.0),
        ("/denied/deadline", 50.0),
        ("/needless", 750.0),
        ("/retries", 775.0),
        ("/units/tokens/retried", 775_000.0),
        ("/usd/retried", 2.325),
    ] {
        let got = shadow.pointer(path).and_then(serde_json::Value::as_f64);
        assert!(got.is_some_and(|got| (got - expected).abs() < 1e-9), "{path}: {got:?}");
    }
    assert_eq!(told["scopes"][0]["hours"].as_array().map(Vec::len), Some(25));
    assert_eq!(told["scopes"][0]["hours"][0]["began"], "2026-03-01T08:00:00Z");
    assert_eq!(told["total"]["modes"]["shadow"], *shadow);
}
