//! A changed configuration takes the old one's place as a whole, or not at all.

use paceline_config::{Overrides, Scalar};
use paceline_proto::v1::GetConfigRequest;
use paceline_server::{Options, Reloaded, ServeError, Server};

use crate::support::{CONFIG, Folder, Service, ask, granted, until};

const LIMIT: &str = "requests: 60/min";

async fn hash(service: &Service) -> String {
    service.admin().await.get_config(GetConfigRequest {}).await.unwrap().into_inner().hash
}

async fn requests_limit(service: &Service) -> Option<u64> {
    let scope = service.scope().await;
    let bucket = scope.buckets.iter().find(|bucket| bucket.group == "m" && bucket.meter == "requests").cloned();
    bucket.unwrap().limit_configured
}

async fn reloads(service: &Service, result: &str, count: u32) -> bool {
    service.get("/metrics").await.2.contains(&format!("paceline_config_reloads_total{{result=\"{result}\"}} {count}\n"))
}

#[tokio::test]
async fn a_changed_file_is_put_in_force_and_refills_nothing() {
    let service = Service::start().await;
    granted(&service.limiter().await.acquire(ask("a", "m")).await.unwrap().into_inner());
    let before = service.scope().await;
    service.folder.write("paceline.yaml", &CONFIG.replace(LIMIT, "requests: 90/min"));
    until("it is applied", async || reloads(&service, "applied", 1).await).await;
    // A bucket takes its new limit with the next call.
    granted(&service.limiter().await.acquire(ask("b", "m")).await.unwrap().into_inner());
    assert_eq!(requests_limit(&service).await, Some(90));
    let after = service.scope().await;
    for (before, after) in before.buckets.iter().zip(&after.buckets) {
        assert!(after.level <= before.level, "{}: {:?} -> {:?}", after.label, before.level, after.level);
    }
    assert_eq!(after.in_flight, 2);
}

#[tokio::test]
async fn an_invalid_file_changes_nothing_and_is_counted() {
    let service = Service::start().await;
    let before = hash(&service).await;
    service.folder.write("paceline.yaml", "unknown: 1\n");
    until("it is refused", async || reloads(&service, "refused", 1).await).await;
    assert_eq!(hash(&service).await, before);
    let Reloaded::Refused(errors) = service.reloader.reload("a test").await else { panic!("it is still invalid") };
    assert!(errors.to_string().contains("unknown key `unknown`"), "{errors}");
    granted(&service.limiter().await.acquire(ask("a", "m")).await.unwrap().into_inner());
    assert_eq!(requests_limit(&service).await, Some(60));
}

#[tokio::test]
async fn a_swapped_link_is_a_change() {
    // As Kubernetes mounts a ConfigMap: the file is a link through a folder that is a link, and only that one is replaced.
    let folder = Folder::new();
    folder.write("one/paceline.yaml", CONFIG);
    folder.write("two/paceline.yaml", &CONFIG.replace(LIMIT, "requests: 30/min"));
    folder.link("one", "..data");
    folder.link("..data/paceline.yaml", "paceline.yaml");
    let service = Service::start_in(folder, "127.0.0.1:0").await;
    let before = hash(&service).await;
    service.folder.link("two", "..data");
    until("the other one is in force", async || hash(&service).await != before).await;
}

#[tokio::test]
async fn on_demand_it_says_what_became_of_it() {
    let service = Service::start().await;
    assert_eq!(service.reloader.reload("a test").await, Reloaded::Unchanged);
    service.folder.write("paceline.yaml", &format!("# only a comment\n{CONFIG}"));
    assert_eq!(service.reloader.reload("a test").await, Reloaded::Unchanged);
    std::fs::remove_file(service.folder.path("paceline.yaml")).unwrap();
    let before = hash(&service).await;
    assert!(matches!(service.reloader.reload("a test").await, Reloaded::Refused(_)));
    assert_eq!(hash(&service).await, before);
}

#[tokio::test]
async fn reloading_the_same_changes_no_decision() {
    let service = Service::start().await;
    granted(&service.limiter().await.acquire(ask("a", "m")).await.unwrap().into_inner());
    let before = service.scope().await;
    for _ in 0..100 {
        assert_eq!(service.reloader.reload("a test").await, Reloaded::Unchanged);
    }
    assert_eq!(service.scope().await, before);
}

#[tokio::test]
async fn a_service_does_not_start_with_what_is_wrong() {
    let folder = Folder::new();
    folder.write("bad.yaml", "providers: {openai: {tier: 99}}\n");
    let file = || Options { config: Some(folder.path("bad.yaml")), ..Options::default() };
    let Err(ServeError::Config(errors)) = Server::bind(file()).await else { panic!("there is no such tier") };
    assert!(errors.to_string().contains("bad.yaml:1:"), "{errors}");
    let overrides = Overrides::default().flag(Scalar::Store, Some("sqlite://state.db"));
    let Err(error) = Server::bind(Options { overrides, ..Options::default() }).await else { panic!("there is no such store") };
    assert!(error.to_string().contains("--store") && error.to_string().contains("memory"), "{error}");

    let running = Service::start().await;
    let overrides = Overrides::default().flag(Scalar::Grpc, Some(&running.grpc.to_string()));
    let Err(error) = Server::bind(Options { overrides, ..Options::default() }).await else { panic!("the port is taken") };
    assert!(error.to_string().contains("another paceline"), "{error}");
}

/// Written down by and by: the first account that stands in the file makes all others unknown, also those that are in use.
#[tokio::test]
async fn an_account_that_the_file_no_longer_knows_is_still_shown() {
    let service = Service::start().await;
    granted(&service.limiter().await.acquire(ask("a", "m")).await.unwrap().into_inner());
    service.folder.write("paceline.yaml", &CONFIG.replace("prod:", "staging:"));
    until("it is applied", async || reloads(&service, "applied", 1).await).await;
    let refused = service.limiter().await.acquire(ask("b", "m")).await.unwrap_err();
    assert!(refused.message().contains("unknown account `prod`"), "{refused:?}");
    assert_eq!(service.scope().await.in_flight, 1, "what was granted goes on");
}
