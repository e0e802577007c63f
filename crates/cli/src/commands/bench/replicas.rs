//! The replicas that are loaded, and the connections to them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use paceline_client::{Channel, replica_for};
use paceline_proto::v1::rate_limiter_client::RateLimiterClient;
use tonic::transport::Endpoint;

use super::caller::told;
use super::stream::Stream;
use super::{BenchError, PATIENCE, Via};
use crate::commands::status::root_cause;

/// All of them.
pub(super) struct Replicas {
    all: Vec<Replica>,
    turn: AtomicUsize,
}

struct Replica {
    addr: SocketAddr,
    name: String,
    clients: Vec<RateLimiterClient<Channel>>,
    /// One on each connection, where calls go by streams.
    streams: Vec<Stream>,
    turn: AtomicUsize,
}

impl Replicas {
    /// Looks the addresses up and connects to each replica so many times.
    pub(super) async fn find(addrs: &[String], connections: u32, via: Via) -> Result<Self, BenchError> {
        let mut found: Vec<SocketAddr> = Vec::new();
        for addr in addrs {
            let host = addr.trim().trim_start_matches("http://").trim_end_matches('/');
            let wrong = |why: String| BenchError::Address { addr: addr.clone(), why };
            let all: Vec<SocketAddr> = tokio::net::lookup_host(host).await.map_err(|error| wrong(error.to_string()))?.collect();
            // A replica with addresses of two families is one replica.
            let has_four = all.iter().any(SocketAddr::is_ipv4);
            let of_one_family: Vec<_> = all.into_iter().filter(|addr| addr.is_ipv4() || !has_four).collect();
            if of_one_family.is_empty() {
                return Err(wrong("the name stands for nothing".to_owned()));
            }
            found.extend(of_one_family);
        }
        found.sort_unstable();
        found.dedup();
        let mut all = Vec::with_capacity(found.len());
        for addr in found {
            let (mut clients, mut streams) = (Vec::new(), Vec::new());
            for _ in 0..connections {
                let client = RateLimiterClient::new(connect(addr).await?);
                if via == Via::Session {
                    let opened = Stream::open(client.clone()).await;
                    streams.push(opened.map_err(|status| BenchError::Away { addr: addr.to_string(), why: told(&status) })?);
                }
                clients.push(client);
            }
            all.push(Replica { addr, name: addr.to_string(), clients, streams, turn: AtomicUsize::new(0) });
        }
        Ok(Self { all, turn: AtomicUsize::new(0) })
    }

    /// Where they are.
    pub(super) fn addrs(&self) -> Vec<SocketAddr> {
        self.all.iter().map(|replica| replica.addr).collect()
    }

    /// The number of the replica that a scope's calls go to.
    pub(super) fn home_of(&self, provider: &str, account: &str) -> usize {
        let home = replica_for(provider, account, self.all.iter().map(|replica| replica.name.as_str()));
        self.all.iter().position(|replica| Some(replica.name.as_str()) == home).unwrap_or(0)
    }

    /// Each replica in turn.
    pub(super) fn next(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed) % self.all.len().max(1)
    }

    /// A stream to a replica: each of its streams in turn. `None` where calls do not go by streams.
    pub(super) fn stream(&self, number: usize) -> Option<&Stream> {
        let replica = self.all.get(number)?;
        let turn = replica.turn.fetch_add(1, Ordering::Relaxed) % replica.streams.len().max(1);
        replica.streams.get(turn)
    }

    /// A connection to a replica: each of its connections in turn. There is at least one of each.
    pub(super) fn client(&self, number: usize) -> Option<RateLimiterClient<Channel>> {
        let replica = self.all.get(number)?;
        let turn = replica.turn.fetch_add(1, Ordering::Relaxed) % replica.clients.len().max(1);
        replica.clients.get(turn).cloned()
    }
}

async fn connect(addr: SocketAddr) -> Result<Channel, BenchError> {
    let away = |why: String| BenchError::Away { addr: addr.to_string(), why };
    let endpoint = Endpoint::from_shared(format!("http://{addr}")).map_err(|error| away(error.to_string()))?;
    let connected = endpoint.connect_timeout(PATIENCE).tcp_nodelay(true).connect().await;
    connected.map_err(|error| away(root_cause(&error)))
}
