//! What people and Prometheus see over HTTP.

use paceline_proto::v1::{AcquireRequest, Header, ReportRequest, Target};

use crate::support::{Folder, Service, ask, granted, report, until};

#[tokio::test]
async fn metrics_tell_the_calls() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let first = limiter.acquire(ask("a", "m")).await.unwrap().into_inner();
    let headers = vec![Header { name: "Retry-After".into(), value: "60".into() }];
    limiter.report(ReportRequest { headers, ..report(&granted(&first).lease_id, 429) }).await.unwrap();
    limiter.acquire(ask("b", "m")).await.unwrap();
    let lines = [
        r#"paceline_acquires_total{account="prod",model="m",outcome="granted",provider="acme",reason=""} 1"#,
        r#"paceline_acquires_total{account="prod",model="m",outcome="queued",provider="acme",reason=""} 1"#,
        r#"paceline_reports_total{outcome="response",provider="acme",status="429",verdict="retry"} 1"#,
        r#"paceline_signals_total{provider="acme",source="retry_after_seconds"} 1"#,
        r#"paceline_config_reloads_total{result="refused"} 0"#,
        "paceline_config_hash_info{hash=\"",
        "paceline_build_info{version=\"",
    ];
    // Counted right after the answer went out.
    until("the calls are counted", async || {
        let (status, head, body) = service.get("/metrics").await;
        assert!(status == 200 && head.contains("content-type: text/plain; version=0.0.4"), "{head}");
        lines.iter().all(|line| body.contains(line))
    })
    .await;
}

#[tokio::test]
async fn the_status_page_shows_scopes_and_no_name_can_write_html() {
    let service = Service::start().await;
    let (status, head, empty) = service.get("/").await;
    assert_eq!(status, 200);
    assert!(empty.contains("Nobody has asked"), "{empty}");
    assert!(head.contains("content-security-policy: default-src 'none'") && head.contains("nosniff"), "{head}");
    let evil = "<img src=x onerror=alert(1)>";
    let target = Some(Target { provider: "openai".into(), account: evil.into(), model: evil.into() });
    service.limiter().await.acquire(AcquireRequest { target, ..ask("a", "m") }).await.unwrap();
    let page = service.get("/").await.2;
    assert!(!page.contains("<img") && page.contains("&lt;img src=x onerror=alert(1)&gt;"), "{page}");
    assert!(page.contains("1 in flight"), "{page}");
}

#[tokio::test]
async fn the_other_pages_answer_as_told() {
    let service = Service::start().await;
    let (status, _, config) = service.get("/debug/config").await;
    assert!(status == 200 && config.contains("acme:") && config.contains("hash"), "{config}");
    assert_eq!(service.get("/healthz").await.2, "ok\n");
    assert_eq!(service.get("/readyz").await.2, "ready\n");
    let (status, _, body) = service.get("/nothing").await;
    assert!(status == 404 && body.contains("/metrics"), "{body}");
}

/// Whatever a person wrote into the file: who looks at it must not learn it.
#[tokio::test]
async fn the_configuration_in_force_is_shown_without_secrets() {
    for url in [
        "rediss://worker:planted-secret@redis:6379/3",
        "redis+sentinel://:planted-secret@a:26379,b:26379/main?sentinel_password=planted-secret",
        "redis+cluster://:planted-secret@a,b,c",
        "redis://redis:6379?password=planted-secret",
    ] {
        let service = Service::start_with(&format!("store: \"{url}\"\n{}", crate::support::CONFIG)).await;
        let (status, _, config) = service.get("/debug/config").await;
        assert!(status == 200 && config.contains("store:"), "{config}");
        let shown = [config, service.get("/").await.2, service.get("/metrics").await.2];
        assert!(shown.iter().all(|page| !page.contains("planted-secret")), "{url}: {}", shown[0]);
    }
}

#[tokio::test]
async fn a_listener_for_everybody_answers_no_admin() {
    let folder = Folder::new();
    folder.write("paceline.yaml", crate::support::CONFIG);
    let service = Service::start_in(folder, "0.0.0.0:0").await;
    granted(&service.limiter().await.acquire(ask("a", "m")).await.unwrap().into_inner());
    let refused = service.admin().await.list_scopes(paceline_proto::v1::ListScopesRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied);
    assert!(refused.message().contains("127.0.0.1"), "{}", refused.message());
}
