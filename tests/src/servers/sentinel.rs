//! A primary with a replica, and three sentinels that watch them.

use std::time::Duration;

use super::{Options, Server, wait_until};

/// What the sentinels call the primary.
const NAME: &str = "mymaster";

/// A primary, its replica, and who watches them.
pub struct Sentinels {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

impl Sentinels {
    /// Starts all, and waits until the sentinels know each other and the replica.
    pub fn start() -> Self {
        let options = Options::new().line("repl-diskless-sync-delay 0").line("repl-ping-replica-period 1");
        let primary = Server::start(options.clone());
        let replica = Server::start(options.line(&format!("replicaof 127.0.0.1 {}", primary.port())));
        wait_until("the replica is linked", Duration::from_secs(30), || {
            replica.info("replication", "master_link_status") == "up"
        });
        let watch = Options::new()
            .sentinel()
            .line(&format!("sentinel monitor {NAME} 127.0.0.1 {} 2", primary.port()))
            .line(&format!("sentinel down-after-milliseconds {NAME} 1000"))
            .line(&format!("sentinel failover-timeout {NAME} 5000"));
        let sentinels: Vec<Server> = (0..3).map(|_| Server::start(watch.clone())).collect();
        let all = Self { servers: vec![primary, replica], sentinels };
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
        let places: Vec<String> = self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect();
        format!("redis+sentinel://{}/{NAME}", places.join(","))
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
