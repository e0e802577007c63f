//! What answers have taught, shown to people, to programs and to Prometheus, with what speaks for it.

use paceline_core::units::Span;
use paceline_proto::v1::{GetScopeResponse, Header, ReportRequest};

use crate::support::{Service, ask, granted, report, until};

const CONFIG: &str = "
providers:
  acme:
    extends: openai
    accounts:
      prod:
        share: 10%
        models:
          m: {limits: {requests: 600/min, tokens: 10000/min}, start_level: full}
";

/// Calls two seconds apart; somebody else takes five requests a second meanwhile.
async fn talk(service: &Service, organisations: [&str; 3]) {
    let mut limiter = service.limiter().await;
    for (nth, organisation) in organisations.into_iter().enumerate() {
        let left = 500 + 9 * nth;
        let answer = limiter.acquire(ask(&format!("call-{nth}"), "m")).await.unwrap().into_inner();
        let grant = granted(&answer);
        assert_eq!(grant.estimated, ["tokens"], "it did not say");
        let reserved = grant.reserved["tokens"];
        let headers = [
            ("x-ratelimit-limit-requests", "600".to_owned()),
            ("x-ratelimit-remaining-requests", left.to_string()),
            ("openai-organization", organisation.to_owned()),
        ];
        let headers = headers.map(|(name, value)| Header { name: name.into(), value }).to_vec();
        let usage = [("tokens".to_owned(), reserved + 30)].into();
        limiter.report(ReportRequest { headers, usage, ..report(&grant.lease_id, 200) }).await.unwrap();
        service.advance(Span::from_secs(2));
    }
}

#[tokio::test]
async fn what_was_learned_is_shown_with_its_age_and_its_backing() {
    let service = Service::start_with(CONFIG).await;
    talk(&service, ["acme-research", "acme-research", "acme-research"]).await;

    let scope: GetScopeResponse = service.scope().await;
    let bucket = scope.buckets.iter().find(|bucket| bucket.label == "requests").unwrap();
    assert_eq!((bucket.limit_learned, bucket.limit_effective, bucket.observed_remaining), (Some(600), Some(600), Some(518)));
    assert_eq!((bucket.r#use, bucket.share), (1.0, 0.1));
    assert!((150.0..=310.0).contains(&bucket.foreign_drain.unwrap()), "{bucket:?}");
    let reports = |evidence: &Option<paceline_proto::v1::Evidence>| {
        let evidence = evidence.as_ref().unwrap();
        assert_eq!(evidence.age.unwrap().seconds, 2);
        assert!(evidence.confidence > 0.3 && evidence.confidence < 1.0, "{evidence:?}");
        evidence.reports
    };
    assert_eq!(reports(&bucket.limit_evidence), 3);
    assert_eq!(reports(&bucket.foreign_drain_evidence), 2);
    assert!(reports(&bucket.level_evidence) >= 1);
    let usage = scope.usage.iter().find(|seen| seen.model == "m" && seen.meter == "tokens").unwrap();
    assert!(usage.calls == 3 && usage.likely >= 130 && !usage.media, "{usage:?}");
    assert!(scope.organisations.is_empty(), "one is as it should be");

    let page = service.get("/").await.2;
    assert!(page.contains("others take") && page.contains("nine of ten use"), "{page}");
    until("it is counted", async || {
        let metrics = service.get("/metrics").await.2;
        let value = |series: &str| -> Option<f64> {
            metrics.lines().find_map(|line| line.strip_prefix(series)).and_then(|value| value.trim().parse().ok())
        };
        let labels = r#"{account="prod",bucket="requests",model="m",provider="acme"}"#;
        let drain = value(&format!("paceline_bucket_foreign_drain{labels}"));
        let overrun = metrics.lines().find(|line| {
            line.starts_with("paceline_units_total{")
                && line.contains(r#"kind="overrun""#)
                && line.contains(r#"meter="tokens""#)
        });
        drain.is_some_and(|drain| drain > 150.0)
            && value(&format!("paceline_bucket_observed_remaining{labels}")) == Some(518.0)
            && value(r#"paceline_bucket_limit{account="prod",bucket="requests",kind="effective",model="m",provider="acme"}"#)
                == Some(600.0)
            && overrun.is_some_and(|line| line.ends_with(" 90"))
            && metrics.contains(r#"paceline_account_mixed{account="prod",provider="acme"} 0"#)
    })
    .await;
}

#[tokio::test]
async fn two_organisations_under_one_account_are_shown() {
    let service = Service::start_with(CONFIG).await;
    talk(&service, ["acme-research", "acme-products-and-services", "acme-research"]).await;
    assert_eq!(service.scope().await.organisations, ["acme-res...arch", "acme-pro...ices"]);
    let page = service.get("/").await.2;
    assert!(page.contains("answers name several organisations: acme-res...arch, acme-pro...ices"), "{page}");
    let metrics = service.get("/metrics").await.2;
    assert!(metrics.contains(r#"paceline_account_mixed{account="prod",provider="acme"} 2"#), "{metrics}");
}
