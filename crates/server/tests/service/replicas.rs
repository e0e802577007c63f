//! Replicas that share the state: they see each other, and miss each other.

use crate::support::{CONFIG, Service, until};

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
