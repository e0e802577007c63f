//! The suite of every store, at each kind of server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use paceline_core::units::Span;
use paceline_store::RedisStore;
use paceline_store::conformance::{self, Harness};
use paceline_tests::servers::{Cluster, Flavour, Options, Sentinels, Server};

use crate::support::connect;

/// A few stores with connections of their own, each to be used in turn.
struct Bench {
    stores: Vec<Arc<RedisStore>>,
    next: AtomicUsize,
}

impl Bench {
    async fn at(url: &str) -> Self {
        let mut stores = Vec::new();
        for _ in 0..3 {
            stores.push(connect(url).await);
        }
        Self { stores, next: AtomicUsize::new(0) }
    }
}

impl Harness for Bench {
    type Store = RedisStore;

    fn store(&self) -> Arc<RedisStore> {
        self.stores[self.next.fetch_add(1, Ordering::Relaxed) % self.stores.len()].clone()
    }

    async fn pass(&self, span: Span) {
        tokio::time::sleep(span.to_duration()).await;
    }

    fn rounds(&self) -> usize {
        30
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn at_redis() {
    let server = Server::redis();
    conformance::run(&Bench::at(&server.url()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn at_redis_with_tls_and_a_user() {
    let user = "user app on >secret ~paceline:* resetchannels -@all +evalsha +eval +role +auth +select +client \
                +get +set +getrange +strlen +exists +hget +hset +hmget +hdel +hlen +hgetall +pexpire +del +type +time";
    let server = Server::start(Options::new().tls().line(user));
    let certificates = server.certificates();
    let url = format!(
        "rediss://app:secret@localhost:{}?ca={}&cert={}&key={}",
        server.tls_port(),
        certificates.ca().display(),
        certificates.client_cert().display(),
        certificates.client_key().display()
    );
    conformance::run(&Bench::at(&url).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn at_a_unix_socket() {
    let server = Server::start(Options::new().socket());
    let url = format!("unix://{}?prefix=other:stack", server.socket().display());
    conformance::run(&Bench::at(&url).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn at_a_redis_cluster() {
    let cluster = Cluster::start(Flavour::Redis);
    conformance::run(&Bench::at(&cluster.url()).await).await;
}

/// Whose certificates are shown and trusted, and where the password is.
fn secrets(server: &Server, password: &str) -> String {
    let certificates = server.certificates();
    format!(
        "ca={}&cert={}&key={}&password_file={}",
        certificates.ca().display(),
        certificates.client_cert().display(),
        certificates.client_key().display(),
        server.file("password", &format!("{password}\n")).display()
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn at_a_cluster_with_tls_and_a_password() {
    let cluster = Cluster::guarded("se-cret");
    let url = format!("{}?{}", cluster.url(), secrets(&cluster.nodes()[0], "se-cret"));
    conformance::run(&Bench::at(&url).await).await;
}

/// RC01: a cluster of one node.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn at_a_cluster_of_one_node() {
    let cluster = Cluster::of_one();
    conformance::run(&Bench::at(&cluster.url()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn behind_sentinels_with_tls_and_passwords() {
    let sentinels = Sentinels::guarded("se-cret", "watch-men");
    let server = &sentinels.servers()[0];
    let watchword = server.file("watchword", "watch-men\n");
    let url = format!("{}?{}&sentinel_password_file={}", sentinels.url(), secrets(server, "se-cret"), watchword.display());
    conformance::run(&Bench::at(&url).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn behind_sentinels() {
    let sentinels = Sentinels::start();
    conformance::run(&Bench::at(&sentinels.url()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn at_valkey() {
    let server = Server::start(Options::new().flavour(Flavour::Valkey));
    conformance::run(&Bench::at(&server.url()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn at_a_valkey_cluster() {
    let cluster = Cluster::start(Flavour::Valkey);
    conformance::run(&Bench::at(&cluster.url()).await).await;
}
