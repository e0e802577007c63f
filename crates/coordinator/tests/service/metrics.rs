//! What gauges and counters say while calls go through.

use std::sync::Arc;

use paceline_coordinator::api::AcquireRequest;
use paceline_core::plan::Class;
use paceline_core::units::Span;
use paceline_store::MemoryStore;

use crate::support::{answered, ask, cost, limits, report, settings};
use crate::{Service, secs, service, sleep, store};

async fn serving(configuration: &str) -> Service<Arc<MemoryStore>> {
    service(store(), limits(configuration)).await
}

fn of(tenant: &str, request: AcquireRequest) -> AcquireRequest {
    AcquireRequest { tenant: tenant.to_owned(), ..request }
}

#[tokio::test(start_paused = true)]
async fn tenants_see_what_they_use_and_how_long_they_wait() {
    let service = serving("limits: {requests: {limit: 60, per: 1m, burst: 1}, tokens: 60000/min}").await;
    let tokens = |request| AcquireRequest { cost: cost([("tokens", 100)]), ..request };
    let first = service.grant(tokens(of("ads", ask("1")))).await;
    let used =
        paceline_coordinator::api::ReportRequest { usage: cost([("tokens", 130)]), ..answered(&first.lease_id, 200, &[]) };
    service.coordinator.report(used).await.unwrap();
    let (second, _) = service.worker(AcquireRequest { class: Class::Batch, ..tokens(of("search", ask("2"))) }).await;
    service.coordinator.report(answered(&second.lease_id, 200, &[])).await.unwrap();
    service.worker(ask("of nobody")).await;

    let units = |tenant: &str, kind: &str| {
        service.value("paceline_units_total", &[("kind", kind), ("meter", "tokens"), ("tenant", tenant)])
    };
    assert_eq!((units("ads", "first"), units("ads", "overrun"), units("search", "first")), (130.0, 30.0, 100.0));
    let waited = service.value("paceline_tenant_wait_seconds_total", &[("priority", "batch"), ("tenant", "search")]);
    assert!((0.5..=2.0).contains(&waited), "{waited}");
    assert_eq!(service.value("paceline_tenant_wait_seconds_total", &[("tenant", "ads")]), 0.0);
    let granted = |tenant: &str| service.value("paceline_tenant_acquires_total", &[("outcome", "granted"), ("tenant", tenant)]);
    assert_eq!((granted("ads"), granted("search"), granted("default")), (1.0, 1.0, 1.0));
}

#[tokio::test(start_paused = true)]
async fn utilization_is_what_was_granted_of_what_a_minute_brings() {
    let service = serving("limits: {requests: 600/min, concurrency: 1000}").await;
    for n in 0..300 {
        service.grant(ask(&n.to_string())).await;
        sleep(Span::from_millis(200)).await;
    }
    let minute = || service.value("paceline_utilization", &[("bucket", "requests")]);
    assert!((0.45..=0.55).contains(&minute()), "half of it was taken: {}", minute());
    assert!((0.25..=0.31).contains(&service.value("paceline_utilization", &[("bucket", "concurrency")])));
    sleep(secs(70)).await;
    assert_eq!(minute(), 0.0, "nothing for a minute");
    assert_eq!(service.series("paceline_quota_resets_in_seconds"), 0, "no day's quota");
}

#[tokio::test(start_paused = true)]
async fn a_day_quota_that_will_be_gone_is_known_before() {
    let service = serving("limits: {requests: {limit: 1000, per: day, zone: UTC}}").await;
    for n in 0..60 {
        let grant = service.grant(ask(&n.to_string())).await;
        service.coordinator.report(answered(&grant.lease_id, 200, &[])).await.unwrap();
        sleep(secs(60)).await;
    }
    let (gone, back) =
        (service.value("paceline_quota_exhausted_in_seconds", &[]), service.value("paceline_quota_resets_in_seconds", &[]));
    assert!((50_000.0..=60_000.0).contains(&gone), "940 left at one a minute: {gone}");
    assert!((0.0..=86_400.0).contains(&back), "{back}");
    let used = service.value("paceline_utilization", &[]);
    assert!((0.05..=0.07).contains(&used), "{used}");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_away_shows_and_shows_when_it_is_back() {
    let service = serving("limits: {requests: 600/min}").await;
    let open = || service.value("paceline_breaker_open", &[]);
    assert_eq!(service.series("paceline_breaker_open"), 0, "nothing to tell");
    let mut grants = Vec::new();
    for n in 0..5 {
        grants.push(service.grant(ask(&n.to_string())).await);
    }
    for grant in grants {
        let failed = report(&grant.lease_id, 1, paceline_core::report::Outcome::ConnectionFailed);
        service.coordinator.report(failed).await.unwrap();
    }
    assert_eq!(open(), 1.0);
    sleep(secs(5)).await;
    let (probe, _) = service.worker(ask("probe")).await;
    service.coordinator.report(answered(&probe.lease_id, 200, &[])).await.unwrap();
    assert_eq!(open(), 0.0);
}

#[tokio::test(start_paused = true)]
async fn who_denies_without_the_store_is_told_apart_from_who_grants() {
    for (policy, other) in [("local", "closed"), ("closed", "local")] {
        let yaml = format!(
            "providers: {{acme: {{extends: generic, on_store_down: {policy}, accounts: {{prod: {{limits: {{requests: 600/min}}}}}}}}}}"
        );
        let service = service(store(), settings(&yaml)).await;
        service.grant(ask("1")).await;

        let text = service.telemetry.render().unwrap();
        assert!(text.contains(&format!("paceline_degraded{{policy=\"{policy}\",provider=\"acme\"}} 0")), "{text}");
        assert!(!text.contains(&format!("policy=\"{other}\"")), "{text}");
    }
}

/// What a call costs in all, to compare with what recording it costs (`cargo test -p paceline-telemetry --test cardinality --
/// --ignored --nocapture`): `cargo test -p paceline-coordinator --test service metrics:: -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "prints figures"]
async fn how_much_a_call_takes_in_all() {
    const CALLS: u32 = 20_000;
    let store = Arc::new(MemoryStore::new());
    let service = service(store, limits("limits: {requests: 100000000/min, tokens: 100000000000/min}")).await;
    let began = std::time::Instant::now();
    for n in 0..CALLS {
        let grant = service.grant(AcquireRequest { cost: cost([("tokens", 100)]), ..ask(&n.to_string()) }).await;
        service.coordinator.report(answered(&grant.lease_id, 200, &[])).await.unwrap();
    }
    println!("{:.1} us for an ask and its report", began.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS));
}
