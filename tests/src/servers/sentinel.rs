//! A primary with a replica, and three sentinels that watch them.

use std::time::Duration;

use super::{Options, Server, wait_until};

/// What the sentinels call the primary.
const NAME: &str = "mymaster";

/// A primary, its replica, and who watches them.
pub struct Sentinels {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
    is_tls: bool,
}

impl Sentinels {
    /// Starts all, and waits until the sentinels know each other and the replica.
    pub fn start() -> Self {
        Self::of(&Options::new(), Options::new(), false)
    }

    /// The same, with TLS everywhere, a password of the servers and another one of the sentinels.
    pub fn guarded(password: &str, sentinels_password: &str) -> Self {
        let options = Options::new().line("tls-replication yes");
        let watch = options.clone().password(sentinels_password);
        let watch = watch.line(&format!("sentinel sentinel-pass {sentinels_password}"));
        Self::of(&options.password(password), watch, true)
    }

    fn of(options: &Options, watch: Options, is_tls: bool) -> Self {
        let options = options.clone().line("repl-diskless-sync-delay 0").line("repl-ping-replica-period 1");
        let primary = Server::start(if is_tls { options.clone().tls() } else { options.clone() });
        let like_it = |options: Options| if is_tls { options.tls_as(primary.certificates()) } else { options };
        let port = if is_tls { primary.tls_port() } else { primary.port() };
        let replica = Server::start(like_it(options).line(&format!("replicaof 127.0.0.1 {port}")));
        wait_until("the replica is linked", Duration::from_secs(30), || {
            replica.info("replication", "master_link_status") == "up"
        });
        let mut watch = like_it(watch)
            .sentinel()
            .line(&format!("sentinel monitor {NAME} 127.0.0.1 {port} 2"))
            .line(&format!("sentinel down-after-milliseconds {NAME} 1000"))
            .line(&format!("sentinel failover-timeout {NAME} 5000"));
        if let Some(password) = primary.password() {
            watch = watch.line(&format!("sentinel auth-pass {NAME} {password}"));
        }
        let sentinels: Vec<Server> = (0..3).map(|_| Server::start(watch.clone())).collect();
        let all = Self { servers: vec![primary, replica], sentinels, is_tls };
        all.wait_until_known();
        all
    }

    /// The two servers, the first primary first.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The two servers, to be killed or started again.
    pub fn servers_mut(&mut self) -> &mut [Server] {
        &mut self.servers
    }

    /// Who watches.
    pub fn sentinels_mut(&mut self) -> &mut [Server] {
        &mut self.sentinels
    }

    /// The address for clients, naming all sentinels.
    pub fn url(&self) -> String {
        let port = |sentinel: &Server| if self.is_tls { sentinel.tls_port() } else { sentinel.port() };
        let places: Vec<String> = self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", port(sentinel))).collect();
        format!("{}+sentinel://{}/{NAME}", if self.is_tls { "rediss" } else { "redis" }, places.join(","))
    }

    fn wait_until_known(&self) {
        wait_until("the sentinels know each other and the replica", Duration::from_secs(60), || {
            self.sentinels.iter().all(|sentinel| {
                let parts = sentinel.run(&["SENTINEL", "MASTER", NAME]).list();
                let value = |key: &str| {
                    let at = parts.iter().position(|part| part.text() == key)?;
                    parts.get(at + 1).map(super::Answer::text)
                };
                value("num-other-sentinels").as_deref() == Some("2") && value("num-slaves").as_deref() == Some("1")
            })
        });
    }
}
