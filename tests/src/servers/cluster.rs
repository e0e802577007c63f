//! A cluster of three primaries with a replica each, or of one node.

use std::time::Duration;

use super::{Flavour, Options, Server, wait_until};

/// A node that is silent for this long is failed over, in milliseconds.
const NODE_TIMEOUT: u32 = 1_500;
const PRIMARIES: usize = 3;
/// Slots of every cluster.
const SLOTS: usize = 16_384;

/// A cluster that runs.
pub struct Cluster {
    nodes: Vec<Server>,
    is_tls: bool,
}

impl Cluster {
    /// Starts three primaries and three replicas, and waits until all of them are well and linked.
    pub fn start(flavour: Flavour) -> Self {
        Self::of(&node(Options::new().flavour(flavour)), false)
    }

    /// The same, with TLS between them and for clients, and a password.
    pub fn guarded(password: &str) -> Self {
        let options = Options::new().password(password).line("tls-cluster yes").line("tls-replication yes");
        Self::of(&node(options), true)
    }

    /// A single node that has all slots and no replica.
    pub fn of_one() -> Self {
        let only = start_node(&node(Options::new()));
        only.run(&["CLUSTER", "ADDSLOTSRANGE", "0", &(SLOTS - 1).to_string()]);
        let cluster = Self { nodes: vec![only], is_tls: false };
        wait_until("the node is well", Duration::from_secs(30), || {
            cluster.nodes.iter().all(|node| node.run(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok"))
        });
        cluster
    }

    fn of(options: &Options, is_tls: bool) -> Self {
        let mut nodes: Vec<Server> = Vec::new();
        for _ in 0..2 * PRIMARIES {
            let options = match nodes.first() {
                _ if !is_tls => options.clone(),
                None => options.clone().tls(),
                Some(first) => options.clone().tls_as(first.certificates()),
            };
            nodes.push(start_node(&options));
        }
        let cluster = Self { nodes, is_tls };
        let (primaries, replicas) = cluster.nodes.split_at(PRIMARIES);
        for (index, primary) in primaries.iter().enumerate() {
            let (from, to) = (SLOTS * index / PRIMARIES, SLOTS * (index + 1) / PRIMARIES - 1);
            primary.run(&["CLUSTER", "ADDSLOTSRANGE", &from.to_string(), &to.to_string()]);
            primary.run(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        }
        let [first, others @ ..] = cluster.nodes.as_slice() else { unreachable!("it has nodes") };
        for node in others {
            let bus = first.run(&["CONFIG", "GET", "cluster-port"]).list().pop().expect("a node has a second port").text();
            node.run(&["CLUSTER", "MEET", "127.0.0.1", &cluster.port(first).to_string(), &bus]);
        }
        let all = cluster.nodes.len();
        wait_until("all nodes know each other", Duration::from_secs(30), || {
            cluster.nodes.iter().all(|node| node.run(&["CLUSTER", "NODES"]).text().lines().count() == all)
        });
        for (primary, replica) in primaries.iter().zip(replicas) {
            let id = primary.run(&["CLUSTER", "MYID"]).text();
            wait_until("a replica follows its primary", Duration::from_secs(30), || {
                replica.run(&["CLUSTER", "REPLICATE", &id]).text() == "OK"
            });
        }
        cluster.wait_until_well();
        cluster
    }

    /// All nodes, also those that were killed.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// All nodes, to be killed or started again.
    pub fn nodes_mut(&mut self) -> &mut [Server] {
        &mut self.nodes
    }

    /// Its address for clients, naming all nodes.
    pub fn url(&self) -> String {
        let places: Vec<String> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", self.port(node))).collect();
        format!("{}+cluster://{}", if self.is_tls { "rediss" } else { "redis" }, places.join(","))
    }

    fn port(&self, node: &Server) -> u16 {
        if self.is_tls { node.tls_port() } else { node.port() }
    }

    /// The primary that has the slot of a key, by its index.
    pub fn owner(&self, key: &str) -> usize {
        let slot = self.nodes.iter().find_map(alive).map(|mut client| client.run(&["CLUSTER", "KEYSLOT", key]).number());
        let slot = slot.expect("a node lives");
        let owns = |node: &Server| {
            let Some(mut client) = alive(node) else { return false };
            let nodes = client.run(&["CLUSTER", "NODES"]).text();
            let mine = nodes.lines().find(|line| line.contains("myself,master")).unwrap_or_default();
            mine.split_whitespace().skip(8).any(|range| {
                let (from, to) = range.split_once('-').unwrap_or((range, range));
                let bound = |text: &str| text.parse::<i64>().ok();
                bound(from).zip(bound(to)).is_some_and(|(from, to)| (from..=to).contains(&slot))
            })
        };
        self.nodes.iter().position(owns).expect("a primary has each slot")
    }

    /// Waits until every node that runs says that all is well, and every replica is linked.
    pub fn wait_until_well(&self) {
        wait_until("the cluster is well and all replicas are linked", Duration::from_secs(60), || {
            let nodes = self.nodes.iter().filter_map(alive);
            nodes.into_iter().all(|mut client| {
                let info = client.run(&["CLUSTER", "INFO"]).text();
                let replication = client.run(&["INFO", "replication"]).text();
                let linked = replication.contains("role:master") || replication.contains("master_link_status:up");
                info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384") && linked
            })
        });
        let linked = |node: &Server| {
            alive(node).is_none_or(|mut client| {
                let replication = client.run(&["INFO", "replication"]).text();
                !replication.contains("role:master") || replication.contains("connected_slaves:1")
            })
        };
        if self.nodes.iter().all(|node| alive(node).is_some()) {
            wait_until("every primary has its replica", Duration::from_secs(60), || self.nodes.iter().all(linked));
        }
    }
}

fn alive(node: &Server) -> Option<super::Client> {
    node.try_client()
}

fn node(options: Options) -> Options {
    options
        .line("cluster-enabled yes")
        .line(&format!("cluster-node-timeout {NODE_TIMEOUT}"))
        .line("cluster-replica-validity-factor 0")
        .line("repl-diskless-sync-delay 0")
        .line("repl-ping-replica-period 1")
}

/// A node needs a second port; without being told it takes the one 10,000 above its own, which may not exist.
fn start_node(options: &Options) -> Server {
    Server::start(options.clone().line(&format!("cluster-port {}", super::free_port())))
}
