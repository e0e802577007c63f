//! How many series a fleet makes, and how well a panel reads waits from them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use paceline_core::mode::Modes;
use paceline_core::plan::Class;
use paceline_core::signal::Source;
use paceline_core::units::Span;
use paceline_telemetry::{
    AcquireOutcome, Fleet, InBucket, InFleet, InGroup, InMode, Load, Options, ReportOutcome, ScopeLabels, Status, Telemetry,
    Units,
};

const REPLICAS: usize = 3;
const ACCOUNTS: usize = 50;
const MODELS: usize = 40;
const WORKERS: usize = 2_000;
/// All replicas together.
const MOST_SERIES: usize = 20_000;

fn account(number: usize) -> Arc<str> {
    format!("account-{number:02}").into()
}

/// Most of what can happen to the calls of a model within a day, by worker, each of which calls itself a tenant.
fn a_day(telemetry: &Telemetry, labels: &ScopeLabels, worker: usize) {
    let tenant = format!("worker-{worker:04}");
    let class = Class::ALL[worker % 3];
    let outcomes = [(AcquireOutcome::Granted, ""), (AcquireOutcome::Queued, ""), (AcquireOutcome::Denied, "deadline")];
    for (outcome, reason) in outcomes {
        telemetry.acquire_decided(labels, outcome, reason);
        let waited = (outcome != AcquireOutcome::Queued).then_some(Span::from_secs(2));
        telemetry.tenant_answered(labels, &tenant, class, outcome, waited);
        telemetry.wait(labels, class, outcome, Span::from_secs(2));
    }
    let waits = [
        (Source::Bucket, "requests"),
        (Source::Bucket, "tokens"),
        (Source::Pacing, "tokens"),
        (Source::RetryAfterSeconds, ""),
        (Source::Backoff, ""),
        (Source::FairShare, ""),
    ];
    for (source, bucket) in waits {
        telemetry.delay(labels, source, bucket, Span::from_secs(1));
    }
    for (status, verdict) in [(200, "done"), (429, "retry"), (500, "retry"), (503, "fail_over"), (400, "give_up")] {
        telemetry.report(labels, ReportOutcome::Response, Status::Http(status), verdict);
    }
    telemetry.signal(labels, Source::RetryAfterSeconds);
    for meter in ["requests", "tokens"] {
        for is_retry in [false, true] {
            telemetry.units(labels, &Units { tenant: &tenant, meter, is_retry, used: 1_000, overrun: 10 });
        }
    }
    telemetry.late_use(labels);
}

/// One replica after a day: calls of all accounts came to it, and it leads a third of them.
fn replica(number: usize) -> Telemetry {
    let telemetry = Telemetry::new(Default::default()).unwrap();
    let leads = move |account: usize| account % REPLICAS == number;
    for worker in 0..WORKERS {
        let (of_worker, model) = (worker % ACCOUNTS, worker / ACCOUNTS % MODELS);
        if leads(of_worker) {
            a_day(&telemetry, &telemetry.scope("openai", &account(of_worker), &format!("model-{model}")), worker);
        }
    }
    for of in (0..ACCOUNTS).filter(|of| leads(*of)) {
        telemetry.leases_expired(&telemetry.scope("openai", &account(of), ""), 1);
    }
    telemetry.observe_load(move || {
        let of_class = |of: usize| {
            Class::ALL.map(|class| Load {
                provider: "openai".into(),
                account: account(of),
                class,
                in_flight: leads(of).then_some(7),
                queued: 3,
                oldest_wait: Span::from_secs(9),
            })
        };
        (0..ACCOUNTS).flat_map(of_class).collect()
    });
    telemetry.observe_modes(move || {
        let row = |of: usize| InMode {
            provider: "openai".into(),
            account: account(of),
            modes: Modes::default(),
            organisations: leads(of).then_some(1),
        };
        (0..ACCOUNTS).map(row).collect()
    });
    telemetry.observe_buckets(move || {
        let names = (0..MODELS).flat_map(|model| ["requests", "tokens", "requests_day"].map(|bucket| (model, bucket)));
        let of_account = |of: usize| {
            names.clone().map(move |(model, bucket)| InBucket {
                provider: "openai".into(),
                account: account(of),
                model: format!("model-{model}").into(),
                bucket: bucket.into(),
                level: Some(100.0),
                configured: Some(600),
                learned: Some(500),
                effective: Some(500),
                observed_remaining: Some(17),
                foreign_drain: Some(0.0),
                utilization: Some(0.5),
                exhausted_in: (bucket == "requests_day").then_some(7_200.0),
                resets_in: (bucket == "requests_day").then_some(3_600.0),
            })
        };
        (0..ACCOUNTS).filter(|of| leads(*of)).flat_map(of_account).collect()
    });
    telemetry.observe_groups(move || {
        let row = |of: usize| InGroup {
            provider: "openai".into(),
            account: account(of),
            model: "model-0".into(),
            is_breaker_open: true,
        };
        (0..ACCOUNTS).filter(|of| leads(*of)).map(row).collect()
    });
    telemetry.observe_fleet(move || {
        let scope = |of: usize| InFleet { provider: "openai".into(), is_led: leads(of), is_degraded: false, is_closed: false };
        Fleet { scopes: (0..ACCOUNTS).map(scope).collect(), replicas: 3, is_config_stale: false, overrides: Vec::new() }
    });
    for method in ["Acquire", "Report", "Release", "AcquireBatch", "ReportBatch", "Session"] {
        for status in ["OK", "UNAVAILABLE", "CANCELLED"] {
            telemetry.rpc_ended(method, status, 0.001);
        }
    }
    telemetry.observe_runtime(Default::default);
    telemetry.observe_ready(|| true);
    telemetry.set_config_hash("c0ffee");
    for op in ["load", "records", "commit", "meta"] {
        telemetry.store_answered(op, 0.001);
    }
    telemetry
}

/// Lines of a metric with a value.
fn counted(text: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn a_large_fleet_makes_fewer_than_twenty_thousand_series() {
    let mut all = BTreeMap::<String, usize>::new();
    let mut asks = 0.0;
    for number in 0..REPLICAS {
        let text = replica(number).render().unwrap();
        assert!(!text.contains("otel_metric_overflow"), "our bounds act before the SDK's");
        for (name, count) in counted(&text) {
            *all.entry(name).or_default() += count;
        }
        let of_asks = text.lines().filter(|line| line.starts_with("paceline_acquires_total{"));
        asks += of_asks.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum::<f64>();
    }
    let total: usize = all.values().sum();
    println!("{total} series: {all:?}");
    assert!(total < MOST_SERIES, "{total}: {all:?}");
    assert!(all["paceline_units_total"] > 1_000, "and yet it tells models and tenants apart");
    assert_eq!(asks, 3.0 * WORKERS as f64, "nothing is lost");
}

/// Prometheus' histogram_quantile: linear within the bucket that holds the rank.
fn histogram_quantile(buckets: &[(f64, f64)], q: f64) -> f64 {
    let rank = q * buckets.last().unwrap().1;
    let at = buckets.iter().position(|(_, count)| *count >= rank).unwrap();
    let (from, before) = if at == 0 { (0.0, 0.0) } else { buckets[at - 1] };
    let (to, count) = buckets[at];
    if to.is_infinite() { from } else { from + (to - from) * (rank - before) / (count - before) }
}

#[test]
fn a_panel_reads_waits_from_milliseconds_to_hours_within_a_factor_of_two() {
    for (millis, what) in [(5, "5 ms"), (2_000, "2 s"), (45_000, "45 s"), (600_000, "10 min"), (7_200_000, "2 h")] {
        let telemetry = Telemetry::new(Default::default()).unwrap();
        let scope = telemetry.scope("openai", "prod", "gpt-4o");
        for _ in 0..100 {
            telemetry.wait(&scope, Class::Batch, AcquireOutcome::Granted, Span::from_millis(millis));
        }
        let text = telemetry.render().unwrap();
        let of_buckets = text.lines().filter_map(|line| line.strip_prefix("paceline_wait_seconds_bucket{"));
        let mut buckets: Vec<(f64, f64)> = of_buckets
            .map(|line| {
                let bound = line.split("le=\"").nth(1).unwrap().split('"').next().unwrap();
                (bound.parse().unwrap(), line.rsplit(' ').next().unwrap().parse().unwrap())
            })
            .collect();
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        for q in [0.5, 0.99] {
            let ratio = histogram_quantile(&buckets, q) / (millis as f64 / 1e3);
            assert!((0.5..=2.0).contains(&ratio), "{what}, quantile {q}: {ratio} of the truth");
        }
    }
}

/// Time and size of a scrape: `cargo test -p paceline-telemetry --test cardinality -- --ignored --nocapture`.
#[test]
#[ignore = "prints figures"]
fn how_long_a_scrape_takes() {
    for (scopes, max_scopes) in [(150, 150), (1_000, 150), (1_000, 1_000)] {
        let telemetry = Telemetry::new(Options { max_scopes, version: "1.2.3" }).unwrap();
        for of in 0..scopes {
            a_day(&telemetry, &telemetry.scope("openai", &format!("account-{of}"), "gpt-4o"), of);
        }
        telemetry.observe_buckets(move || {
            let row = |of: usize, bucket: &str| InBucket {
                provider: "openai".into(),
                account: format!("account-{of}").into(),
                model: "gpt-4o".into(),
                bucket: bucket.into(),
                level: Some(100.0),
                configured: Some(600),
                learned: None,
                effective: Some(600),
                observed_remaining: Some(17),
                foreign_drain: Some(0.0),
                utilization: Some(0.5),
                exhausted_in: None,
                resets_in: None,
            };
            (0..scopes).flat_map(|of| [row(of, "requests"), row(of, "tokens")]).collect()
        });
        let text = telemetry.render().unwrap();
        let mut times: Vec<f64> = (0..10)
            .map(|_| {
                let began = std::time::Instant::now();
                assert!(telemetry.render().unwrap().len() > text.len() / 2);
                began.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let series = text.lines().filter(|line| !line.starts_with('#')).count();
        println!(
            "{scopes} scopes, {max_scopes} named: {series} series, {} KiB, {:.1} ms (median of ten)",
            text.len() / 1_024,
            times[times.len() / 2]
        );
    }
}

/// What recording a call costs: `cargo test -p paceline-telemetry --test cardinality -- --ignored --nocapture`.
#[test]
#[ignore = "prints figures"]
fn how_much_recording_a_call_takes() {
    const CALLS: u32 = 200_000;
    let telemetry = Telemetry::new(Default::default()).unwrap();
    let scope = telemetry.scope("openai", "prod", "gpt-4o");
    let began = std::time::Instant::now();
    for _ in 0..CALLS {
        telemetry.acquire_decided(&scope, AcquireOutcome::Granted, "");
        telemetry.tenant_answered(&scope, "default", Class::Normal, AcquireOutcome::Granted, Some(Span::from_millis(20)));
        telemetry.wait(&scope, Class::Normal, AcquireOutcome::Granted, Span::from_millis(20));
        telemetry.delay(&scope, Source::Pacing, "requests", Span::from_millis(20));
        telemetry.report(&scope, ReportOutcome::Response, Status::Http(200), "done");
        for meter in ["requests", "tokens"] {
            telemetry.units(&scope, &Units { tenant: "default", meter, is_retry: false, used: 100, overrun: 0 });
        }
    }
    println!("{:.2} us for an ask that waited and its report", began.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS));
}
