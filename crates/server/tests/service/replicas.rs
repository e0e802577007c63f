//! Replicas that share the state: they see each other, and miss each other.

use paceline_core::units::Span;

use crate::support::{CONFIG, Service, ask, until};

async fn live(service: &Service) -> Option<u64> {
    let (_, _, page) = service.get("/metrics").await;
    page.lines().find_map(|line| line.strip_prefix("paceline_replicas_live ")?.parse().ok())
}

#[tokio::test]
async fn replicas_are_counted_shown_and_leave_when_they_stop() {
    let one = Service::start().await;
    until("it has announced itself", async || live(&one).await == Some(1)).await;
    assert!(!one.get("/").await.2.contains("share the state"), "one alone is no fleet");
    let mut other = one.beside(&CONFIG.replace("60/min", "61/min")).await;
    until("the later one sees both", async || live(&other).await == Some(2)).await;
    until("and so does the first one", async || live(&one).await == Some(2)).await;
    let page = one.get("/").await.2;
    assert!(page.contains("2 replicas share the state") && page.contains(&other.grpc.to_string()), "{page}");
    assert_eq!(page.matches("(this one)").count(), 1, "{page}");
    assert_eq!(page.matches("differs").count(), 1, "its configuration is another one: {page}");
    // Fleet time stands still: only who says so can be gone.
    other.stop();
    other.ended().await;
    until("one that stops is not counted", async || live(&one).await == Some(1)).await;
}

/// The limit of `m` as a replica decides by it, after one more call there.
async fn limit_at(service: &Service, call: &str) -> Option<u64> {
    service.limiter().await.acquire(ask(call, "m")).await.unwrap();
    service.scope().await.buckets.iter().find(|bucket| bucket.label == "requests" && bucket.group == "m")?.limit_effective
}

async fn is_stale(service: &Service) -> bool {
    service.get("/metrics").await.2.lines().any(|line| line == "paceline_config_stale 1")
}

/// LC06: a file that one replica has read holds for those that have not.
#[tokio::test]
async fn who_has_an_older_file_follows_the_newer_one() {
    let mut one = Service::start().await;
    let other = one.beside(CONFIG).await;
    assert_eq!(limit_at(&one, "a").await, Some(60));
    one.advance(Span::from_secs(1));
    one.folder.write("paceline.yaml", &CONFIG.replace("60/min", "30/min"));
    one.reloader.reload("the test").await;
    assert_eq!(limit_at(&one, "b").await, Some(30));
    // It stops, and the one with the older file decides.
    one.stop();
    one.ended().await;
    for call in 0..3 {
        assert_eq!(limit_at(&other, &format!("c{call}")).await, Some(30), "what holds does not swing back");
        other.advance(Span::from_secs(2));
    }
    until("it says that its file is the older one", async || is_stale(&other).await).await;
    other.folder.write("paceline.yaml", &CONFIG.replace("60/min", "30/min"));
    other.reloader.reload("the test").await;
    assert_eq!(limit_at(&other, "d").await, Some(30));
    until("until it has the same one", async || !is_stale(&other).await).await;
}
