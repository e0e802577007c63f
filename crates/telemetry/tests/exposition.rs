//! What `/metrics` says, against the catalogue: names, help, bounds of cardinality, precision of waits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use paceline_core::mode::Modes;
use paceline_core::plan::Class;
use paceline_core::signal::Source;
use paceline_core::units::Span;
use paceline_telemetry::catalogue::{LABELS, SeriesBound, WAIT_BOUNDS_SECONDS};
use paceline_telemetry::{
    AcquireOutcome, CATALOGUE, Fleet, InBucket, InFleet, InGroup, InMode, InOverride, Kind, Load, Metric, Options,
    ReloadResult, ReportOutcome, Runtime, StateLoss, Status, Telemetry, Units,
};
use proptest::prelude::*;

/// One line of the text format.
#[derive(Debug, Clone, PartialEq)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

fn telemetry() -> Telemetry {
    Telemetry::new(Options { max_scopes: 200, version: "1.2.3" }).unwrap()
}

/// Reads the samples back; label values in these tests hold no quotes or commas.
fn samples(text: &str) -> Vec<Sample> {
    text.lines().filter(|line| !line.starts_with('#')).map(sample).collect()
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value in {line}"));
    let (name, labels) = series.strip_suffix('}').map_or((series, ""), |series| series.split_once('{').unwrap());
    let pair = |label: &str| {
        let (key, value) = label.split_once('=').unwrap();
        (key.to_owned(), value.trim_matches('"').to_owned())
    };
    let labels = labels.split(',').filter(|label| !label.is_empty()).map(pair).collect();
    Sample { name: name.to_owned(), labels, value: value.parse().unwrap() }
}

fn scrape(telemetry: &Telemetry) -> Vec<Sample> {
    samples(&telemetry.render().unwrap())
}

/// The value of the one series of a metric that has these labels (others may be there too).
fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> f64 {
    let has = |sample: &Sample| labels.iter().all(|(key, value)| sample.labels.get(*key).map(String::as_str) == Some(value));
    let found: Vec<_> = samples.iter().filter(|sample| sample.name == name && has(sample)).collect();
    assert_eq!(found.len(), 1, "{name} {labels:?}: {found:?}");
    found[0].value
}

/// Records every kind of event once.
fn one_of_each(telemetry: &Telemetry) {
    let scope = telemetry.scope("openai", "prod", "gpt-4o");
    telemetry.acquire_decided(&scope, AcquireOutcome::Denied, "deadline");
    telemetry.delay(&scope, Source::Bucket, "tokens", Span::from_millis(1_500));
    telemetry.wait(&scope, Class::Batch, AcquireOutcome::Granted, Span::from_millis(3));
    telemetry.report(&scope, ReportOutcome::Response, Status::Http(429), "retry");
    telemetry.signal(&scope, Source::RetryAfterSeconds);
    telemetry.unread_header(&scope, "X-RateLimit-Mystery");
    telemetry.units(&scope, &Units { tenant: "ads", meter: "tokens", is_retry: true, used: 100, overrun: 30 });
    telemetry.tenant_answered(&scope, "ads", Class::Batch, AcquireOutcome::Queued, None);
    telemetry.tenant_answered(&scope, "ads", Class::Batch, AcquireOutcome::Granted, Some(Span::from_millis(2_500)));
    telemetry.observe_ready(|| true);
    telemetry.rpc_ended("paceline.v1.RateLimiter/Acquire", "OK", 0.003);
    telemetry.observe_runtime(|| Runtime { workers: 4, busy: Duration::from_millis(2_500), tasks: 17 });
    telemetry.observe_groups(|| {
        let (provider, account, model) = (Arc::from("openai"), Arc::from("prod"), Arc::from("gpt-4o"));
        vec![InGroup { provider, account, model, is_breaker_open: true }]
    });
    telemetry.leases_expired(&scope, 2);
    telemetry.late_use(&scope);
    telemetry.learned_limit_flap(&scope);
    telemetry.watched(&scope, Span::from_millis(500));
    telemetry.watched(&scope, Span::ZERO);
    telemetry.would_deny(&scope, "deadline");
    telemetry.prevented(&scope);
    telemetry.observe_modes(|| {
        let modes = Modes::split(200_000, 800_000);
        vec![InMode { provider: Arc::from("openai"), account: Arc::from("prod"), modes, organisations: Some(2) }]
    });
    telemetry.observe_buckets(|| {
        vec![InBucket {
            provider: Arc::from("openai"),
            account: Arc::from("prod"),
            model: Arc::from("gpt-4o"),
            bucket: Arc::from("requests"),
            level: Some(-2.5),
            configured: Some(600),
            learned: None,
            effective: Some(300),
            observed_remaining: Some(17),
            foreign_drain: Some(149.0),
            utilization: Some(0.75),
            exhausted_in: Some(7_200.0),
            resets_in: Some(3_600.0),
        }]
    });
    telemetry.order_lost(&scope);
    telemetry.observe_fleet(|| {
        let scope = |is_led, is_degraded| InFleet { provider: Arc::from("openai"), is_led, is_degraded, is_closed: true };
        let paused = InOverride {
            provider: "openai".into(),
            account: "".into(),
            kind: "pause",
            ends_in: paceline_core::units::Span::from_secs(90),
        };
        Fleet {
            scopes: vec![scope(true, false), scope(true, true)],
            replicas: 3,
            is_config_stale: true,
            overrides: vec![paused],
        }
    });
    telemetry.store_conflict();
    telemetry.store_answered("commit", 0.001);
    telemetry.store_failed("timeout", 1);
    telemetry.clock_stepped(1);
    telemetry.state_repaired(3);
    telemetry.state_merged(StateLoss::RolledBack);
    telemetry.config_reload(ReloadResult::Refused);
    telemetry.set_config_hash("c0ffee");
    telemetry.observe_load(|| {
        let (provider, account) = (Arc::from("openai"), Arc::from("prod"));
        let oldest_wait = Span::from_millis(2_500);
        vec![Load { provider, account, class: Class::Batch, in_flight: Some(7), queued: 4, oldest_wait }]
    });
}

#[test]
fn every_event_shows_under_its_labels() {
    let telemetry = telemetry();
    one_of_each(&telemetry);
    let seen = scrape(&telemetry);
    let scope = [("provider", "openai"), ("account", "prod"), ("model", "gpt-4o")];
    let lane = [("provider", "openai"), ("account", "prod"), ("priority", "batch")];
    let with = |more: &[(&'static str, &'static str)]| [&scope[..], more].concat();

    assert_eq!(value(&seen, "paceline_acquires_total", &with(&[("outcome", "denied"), ("reason", "deadline")])), 1.0);
    assert_eq!(value(&seen, "paceline_delay_seconds_total", &with(&[("source", "bucket"), ("bucket", "tokens")])), 1.5);
    let wait = [("provider", "openai"), ("priority", "batch"), ("outcome", "granted")];
    assert_eq!(value(&seen, "paceline_wait_seconds_count", &wait), 1.0);
    assert_eq!(value(&seen, "paceline_wait_seconds_sum", &wait), 0.003);
    let report = [("provider", "openai"), ("outcome", "response"), ("status", "429"), ("verdict", "retry")];
    assert_eq!(value(&seen, "paceline_reports_total", &report), 1.0);
    assert_eq!(value(&seen, "paceline_signals_total", &[("provider", "openai"), ("source", "retry_after_seconds")]), 1.0);
    let header = [("provider", "openai"), ("header", "x-ratelimit-mystery")];
    assert_eq!(value(&seen, "paceline_unread_headers_total", &header), 1.0);
    assert_eq!(value(&seen, "paceline_leases_expired_total", &scope), 2.0);
    assert_eq!(value(&seen, "paceline_late_uses_total", &scope), 1.0);
    assert_eq!(value(&seen, "paceline_units_total", &[("tenant", "ads"), ("meter", "tokens"), ("kind", "overrun")]), 30.0);
    assert_eq!(value(&seen, "paceline_units_total", &[("tenant", "ads"), ("meter", "tokens"), ("kind", "retry")]), 100.0);
    let of_tenant = [("provider", "openai"), ("tenant", "ads"), ("priority", "batch")];
    assert_eq!(value(&seen, "paceline_tenant_wait_seconds_total", &of_tenant), 2.5);
    for outcome in ["queued", "granted"] {
        assert_eq!(value(&seen, "paceline_tenant_acquires_total", &[&of_tenant[..], &[("outcome", outcome)]].concat()), 1.0);
    }
    let rpc =
        [("rpc_system_name", "grpc"), ("rpc_method", "paceline.v1.RateLimiter/Acquire"), ("rpc_response_status_code", "OK")];
    assert_eq!(value(&seen, "rpc_server_call_duration_seconds_count", &rpc), 1.0);
    let runtime = ["workers", "busy_seconds_total", "tasks"].map(|name| format!("paceline_runtime_{name}"));
    assert_eq!(runtime.map(|name| value(&seen, &name, &[])), [4.0, 2.5, 17.0]);
    assert_eq!((value(&seen, "paceline_ready", &[]), value(&seen, "paceline_breaker_open", &scope)), (1.0, 1.0));
    assert_eq!(value(&seen, "paceline_units_total", &[("meter", "tokens"), ("kind", "first")]), 0.0, "shown from the start");
    assert_eq!(value(&seen, "paceline_learned_limit_flaps_total", &scope), 1.0);
    assert_eq!(value(&seen, "paceline_account_mixed", &[("provider", "openai"), ("account", "prod")]), 2.0);
    let bucket = with(&[("bucket", "requests")]);
    assert_eq!(value(&seen, "paceline_bucket_level", &bucket), -2.5);
    assert_eq!(value(&seen, "paceline_bucket_observed_remaining", &bucket), 17.0);
    assert_eq!(value(&seen, "paceline_bucket_foreign_drain", &bucket), 149.0);
    assert_eq!(value(&seen, "paceline_utilization", &bucket), 0.75);
    assert_eq!(value(&seen, "paceline_quota_exhausted_in_seconds", &bucket), 7_200.0);
    assert_eq!(value(&seen, "paceline_quota_resets_in_seconds", &bucket), 3_600.0);
    let limit = |kind| value(&seen, "paceline_bucket_limit", &with(&[("bucket", "requests"), ("kind", kind)]));
    assert_eq!((limit("configured"), limit("effective")), (600.0, 300.0));
    assert_eq!(value(&seen, "paceline_shadow_asks_total", &scope), 2.0);
    assert_eq!(value(&seen, "paceline_shadow_would_wait_total", &scope), 1.0);
    assert_eq!(value(&seen, "paceline_shadow_wait_seconds_total", &scope), 0.5);
    assert_eq!(value(&seen, "paceline_shadow_would_deny_total", &with(&[("reason", "deadline")])), 1.0);
    assert_eq!(value(&seen, "paceline_shadow_prevented_total", &scope), 1.0);
    for (mode, part) in [("enforce", 0.2), ("shadow", 0.8), ("off", 0.0)] {
        let labels = [("provider", "openai"), ("account", "prod"), ("mode", mode)];
        assert_eq!(value(&seen, "paceline_mode", &labels), part);
    }
    assert_eq!(value(&seen, "paceline_order_lost_total", &[("provider", "openai")]), 1.0);
    assert_eq!(value(&seen, "paceline_degraded", &[("provider", "openai"), ("policy", "closed")]), 1.0);
    assert_eq!(value(&seen, "paceline_scopes_led", &[]), 2.0);
    assert_eq!(value(&seen, "paceline_replicas_live", &[]), 3.0);
    assert_eq!(value(&seen, "paceline_config_stale", &[]), 1.0);
    assert_eq!(value(&seen, "paceline_store_conflicts_total", &[]), 1.0);
    assert_eq!(value(&seen, "paceline_state_repaired_total", &[]), 3.0);
    assert_eq!(value(&seen, "paceline_state_merged_total", &[("why", "rolled_back")]), 1.0);
    assert_eq!(value(&seen, "paceline_state_merged_total", &[("why", "lost")]), 0.0);
    assert_eq!(value(&seen, "paceline_config_reloads_total", &[("result", "refused")]), 1.0);
    assert_eq!(value(&seen, "paceline_config_reloads_total", &[("result", "applied")]), 0.0);
    assert_eq!(value(&seen, "paceline_config_hash_info", &[("hash", "c0ffee")]), 1.0);
    assert_eq!(value(&seen, "paceline_build_info", &[("version", "1.2.3")]), 1.0);
    assert_eq!(value(&seen, "paceline_inflight", &lane), 7.0);
    assert_eq!(value(&seen, "paceline_queue_depth", &lane), 4.0);
    assert_eq!(value(&seen, "paceline_oldest_wait_seconds", &lane), 2.5);
}

#[test]
fn the_exposed_names_types_and_help_are_those_of_the_catalogue() {
    let telemetry = telemetry();
    one_of_each(&telemetry);
    let text = telemetry.render().unwrap();
    let after = |start: &str| -> BTreeMap<String, String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(start)?.split_once(' '));
        lines.map(|(name, rest)| (name.to_owned(), rest.to_owned())).collect()
    };
    let of = |value: fn(&Metric) -> String| -> BTreeMap<String, String> {
        CATALOGUE.iter().map(|metric| (metric.name.to_owned(), value(metric))).collect()
    };
    assert_eq!(after("# TYPE "), of(|metric| metric.kind.name().to_owned()));
    assert_eq!(after("# HELP "), of(|metric| metric.help.to_owned()));
    for sample in samples(&text) {
        let base = sample.name.trim_end_matches("_bucket").trim_end_matches("_sum").trim_end_matches("_count");
        let metric = CATALOGUE.iter().find(|metric| metric.name == base).unwrap_or_else(|| panic!("{sample:?}"));
        let labels: BTreeSet<_> = sample.labels.keys().map(String::as_str).filter(|label| *label != "le").collect();
        assert_eq!(labels, metric.labels.iter().copied().collect(), "{sample:?}");
    }
}

#[test]
fn the_catalogue_keeps_prometheus_rules() {
    let documented: BTreeSet<_> = LABELS.iter().map(|(label, _)| *label).collect();
    let mut used = BTreeSet::from(["le"]);
    let mut names = BTreeSet::new();
    for metric in CATALOGUE {
        let name = metric.name;
        assert!(names.insert(name), "{name} twice");
        let ours = ["paceline_", "process_", "rpc_"].iter().any(|start| name.starts_with(start));
        assert!(ours && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind == Kind::Counter, "{name}");
        assert_eq!(name.contains("_seconds"), metric.unit == "s", "{name}");
        assert!(metric.help.ends_with('.') && metric.question.contains('?'), "{name}");
        used.extend(metric.labels);
    }
    assert_eq!(used, documented);
}

#[test]
fn the_reference_page_is_the_catalogue() {
    let page = paceline_telemetry::markdown();
    for metric in CATALOGUE {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{}` |", metric.name)));
        assert!(row.is_some_and(|row| row.contains(metric.question) && row.contains(metric.help)), "{}", metric.name);
    }
    is_written_as("metrics.md", &page);
}

#[test]
fn the_reference_for_programs_is_the_catalogue() {
    let file = paceline_telemetry::json();
    assert!(file.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)), "printable ASCII only: {file}");
    assert_eq!(file.lines().count(), CATALOGUE.len() + 2);
    is_written_as("metrics.json", &file);
}

/// Whether a file under docs/reference has this text; UPDATE=1 writes it.
fn is_written_as(name: &str, text: &str) {
    let path = format!("{}/../../docs/reference/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == text, "docs/reference/{name} is out of date: UPDATE=1 cargo test -p paceline-telemetry");
}

#[test]
fn counters_are_there_before_their_first_event() {
    let telemetry = telemetry();
    let _ = telemetry.scope("openai", "prod", "gpt-4o");
    let seen = scrape(&telemetry);
    for name in ["paceline_store_conflicts_total", "paceline_state_repaired_total", "paceline_late_uses_total"] {
        assert_eq!(value(&seen, name, &[]), 0.0);
    }
    assert_eq!(value(&seen, "paceline_signals_total", &[("source", "none")]), 0.0);
    assert!(!seen.iter().any(|sample| sample.name == "paceline_config_hash_info"), "nothing to say yet");
}

#[test]
fn gauges_forget_what_is_gone() {
    let telemetry = telemetry();
    telemetry.set_config_hash("old");
    one_of_each(&telemetry);
    assert_eq!(value(&scrape(&telemetry), "paceline_queue_depth", &[]), 4.0);
    telemetry.observe_load(Vec::new);
    telemetry.set_config_hash("new");
    let seen = scrape(&telemetry);
    assert!(!seen.iter().any(|sample| sample.name == "paceline_queue_depth"));
    assert_eq!(value(&seen, "paceline_config_hash_info", &[]), 1.0);
    assert_eq!(value(&seen, "paceline_config_hash_info", &[("hash", "new")]), 1.0);
}

#[test]
fn a_complete_change_of_who_is_busy_shows_by_name() {
    let telemetry = Telemetry::new(Options { max_scopes: 3, version: "1.2.3" }).unwrap();
    for round in 0..5 {
        telemetry.observe_load(move || {
            let load = |account: u32| Load {
                provider: "openai".into(),
                account: format!("account-{round}-{account}").into(),
                class: Class::Normal,
                in_flight: Some(0),
                queued: u64::from(account),
                oldest_wait: Span::from_secs(1),
            };
            (1..=4).map(load).collect()
        });
        let seen = scrape(&telemetry);
        let depth = |account: &str| value(&seen, "paceline_queue_depth", &[("account", account)]);
        assert_eq!(depth(&format!("account-{round}-4")), 4.0);
        assert_eq!(depth(&format!("account-{round}-2")), 2.0);
        assert_eq!(depth("other"), 1.0);
        assert_eq!(seen.iter().filter(|sample| sample.name == "paceline_queue_depth").count(), 4);
    }
}

#[test]
fn two_of_them_share_nothing() {
    let (one, two) = (telemetry(), telemetry());
    one.store_conflict();
    assert_eq!(value(&scrape(&one), "paceline_store_conflicts_total", &[]), 1.0);
    assert_eq!(value(&scrape(&two), "paceline_store_conflicts_total", &[]), 0.0);
}

#[test]
fn two_thousand_models_make_two_hundred_and_one_triples_and_lose_nothing() {
    let telemetry = telemetry();
    for round in 0..2 {
        for model in 0..2_000 {
            let scope = telemetry.scope("openai", "prod", &format!("model-{model}"));
            telemetry.acquire_decided(&scope, AcquireOutcome::Granted, "");
            telemetry.delay(&scope, Source::Bucket, "tokens", Span::from_secs(1));
            telemetry.wait(&scope, Class::Normal, AcquireOutcome::Granted, Span::from_secs(1));
        }
        let seen = scrape(&telemetry);
        let of = |name: &str| seen.iter().filter(|sample| sample.name == name).cloned().collect::<Vec<_>>();
        for name in ["paceline_acquires_total", "paceline_delay_seconds_total"] {
            let series = of(name);
            assert_eq!(series.len(), 201, "{name}");
            assert_eq!(series.iter().map(|sample| sample.value).sum::<f64>(), f64::from(2_000 * (round + 1)), "{name}");
            let other = [("provider", "other"), ("account", "other"), ("model", "other")];
            assert_eq!(value(&seen, name, &other), f64::from(1_800 * (round + 1)));
        }
        assert_eq!(of("paceline_late_uses_total").len(), 201);
        let wait = value(&seen, "paceline_wait_seconds_count", &[("provider", "openai")]);
        assert_eq!(wait, f64::from(2_000 * (round + 1)), "per provider the name stays");
    }
}

#[test]
fn whatever_comes_every_metric_stays_within_its_bound() {
    let max_scopes = 5;
    let telemetry = Telemetry::new(Options { max_scopes, version: "1.2.3" }).unwrap();
    const REASONS: [&str; 40] = [
        "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "r16", "r17",
        "r18", "r19", "r20", "r21", "r22", "r23", "r24", "r25", "r26", "r27", "r28", "r29", "r30", "r31", "r32", "r33", "r34",
        "r35", "r36", "r37", "r38", "r39",
    ];
    let providers: Vec<String> = (0..80).map(|number| format!("provider-{number}")).collect();
    for provider in &providers {
        let scope = telemetry.scope(provider, "prod", "m");
        for reason in REASONS {
            telemetry.acquire_decided(&scope, AcquireOutcome::Denied, reason);
        }
        for bucket in 0..20 {
            for source in Source::ALL {
                telemetry.delay(&scope, source, &format!("bucket-{bucket}"), Span::from_secs(1));
            }
        }
        for status in 0..1_000 {
            telemetry.report(&scope, ReportOutcome::Response, Status::Http(status), REASONS[status as usize % 40]);
        }
        for reason in REASONS {
            telemetry.would_deny(&scope, reason);
        }
        telemetry.watched(&scope, Span::from_secs(1));
        telemetry.prevented(&scope);
        for header in 0..10 {
            telemetry.unread_header(&scope, &format!("x-{provider}-limit-{header}"));
        }
        telemetry.unread_header(&scope, "not a\nheader");
        telemetry.unread_header(&scope, &"long".repeat(1_000));
    }
    let rows: Vec<InMode> = providers
        .iter()
        .map(|provider| InMode {
            provider: provider.as_str().into(),
            account: "prod".into(),
            modes: Modes::default(),
            organisations: Some(1),
        })
        .collect();
    telemetry.observe_modes(move || rows.clone());
    telemetry.observe_load(move || {
        let load = |provider: &String| Load {
            provider: provider.as_str().into(),
            account: "prod".into(),
            class: Class::Normal,
            in_flight: Some(1),
            queued: 1,
            oldest_wait: Span::ZERO,
        };
        providers.iter().map(load).collect()
    });
    let seen = scrape(&telemetry);
    assert!(!seen.iter().any(|sample| sample.labels.contains_key("otel_metric_overflow")), "our bounds act before the SDK's");
    for metric in CATALOGUE {
        let count = seen.iter().filter(|sample| sample.name == metric.name).count();
        assert!(count <= metric.series.most(max_scopes), "{}: {count}", metric.name);
    }
    let sum = |name: &str| seen.iter().filter(|sample| sample.name == name).map(|sample| sample.value).sum::<f64>();
    assert_eq!(sum("paceline_acquires_total"), 80.0 * 40.0);
    assert_eq!(sum("paceline_delay_seconds_total"), 80.0 * 20.0 * 15.0);
    assert_eq!(sum("paceline_reports_total"), 80.0 * 1_000.0);
    assert_eq!(sum("paceline_unread_headers_total"), 80.0 * 12.0);
    assert_eq!(sum("paceline_queue_depth"), 80.0);
    let headers = seen.iter().filter(|sample| sample.name == "paceline_unread_headers_total");
    assert_eq!(headers.filter(|sample| sample.labels["header"] != "other").count(), 200);
}

#[test]
fn the_bounds_are_what_the_reference_says() {
    let most = |bound: SeriesBound| bound.most(200);
    assert_eq!(most(SeriesBound::InAll(3)), 3);
    assert_eq!(most(SeriesBound::PerProvider(2)), 130);
    assert_eq!(most(SeriesBound::PerScope(2)), 402);
    for pair in WAIT_BOUNDS_SECONDS.windows(2) {
        assert!(pair[0] < pair[1] && pair[1] <= 2.0 * pair[0], "{pair:?}");
    }
    assert_eq!((WAIT_BOUNDS_SECONDS[0], WAIT_BOUNDS_SECONDS[24]), (0.001, 4.0 * 3_600.0));
}

#[test]
fn odd_names_and_lengths_of_time_do_no_harm() {
    let telemetry = telemetry();
    let scope = telemetry.scope("open\"ai", "pro\nd", "\\");
    telemetry.delay(&scope, Source::Jitter, "", Span::from_secs(-5));
    telemetry.delay(&scope, Source::Jitter, "", Span::ZERO);
    telemetry.delay(&scope, Source::Jitter, "", Span::MAX);
    telemetry.wait(&scope, Class::Normal, AcquireOutcome::Granted, Span::from_secs(-5));
    telemetry.wait(&scope, Class::Normal, AcquireOutcome::Granted, Span::MAX);
    let text = telemetry.render().unwrap();
    assert!(text.contains(r#"account="pro\nd",bucket="",model="\\",provider="open\"ai",source="jitter"}"#), "{text}");
    assert!(text.contains(r#"le="14400"} 1"#) && text.contains(r#"le="+Inf"} 2"#), "the overflow shows: {text}");
}

/// The upper bound of the bucket that holds the quantile.
fn quantile(seen: &[Sample], q: f64) -> f64 {
    let mut buckets: Vec<(f64, f64)> = seen
        .iter()
        .filter(|sample| sample.name == "paceline_wait_seconds_bucket")
        .map(|sample| (sample.labels["le"].parse().unwrap(), sample.value))
        .collect();
    buckets.sort_by(|one, two| one.0.total_cmp(&two.0));
    let rank = q * buckets.last().unwrap().1;
    buckets.iter().find(|(_, count)| *count >= rank).unwrap().0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A quantile read from the histogram is at least the true one and at most twice it (or the first bound).
    #[test]
    fn quantiles_are_within_a_factor_of_two(
        mut waits_micros in prop::collection::vec((0.0_f64..9.9).prop_map(|log| 10_f64.powf(log) as i64), 1..300),
        q in 0.01_f64..1.0,
    ) {
        let telemetry = telemetry();
        let scope = telemetry.scope("openai", "prod", "gpt-4o");
        for micros in &waits_micros {
            telemetry.wait(&scope, Class::Normal, AcquireOutcome::Granted, Span::from_micros(*micros));
        }
        waits_micros.sort_unstable();
        let rank = (q * waits_micros.len() as f64).ceil() as usize;
        let truth = Span::from_micros(waits_micros[rank.max(1) - 1]).as_secs_f64();
        let read = quantile(&scrape(&telemetry), q);
        prop_assert!(truth <= read && read <= (2.0 * truth).max(0.001), "true {truth}, read {read}");
    }
}
