//! A cluster: which server has which slot, learned from its nodes and from being sent elsewhere.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use rand::RngExt as _;
use redis::Value;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use super::connect::{self, ConnectError};
use super::endpoint::Endpoint;
use super::errors::{self, Said};
use super::lane::{Common, Target};
use super::link::Link;
use super::routes::Node;
use crate::observe::Failure;

/// Slots of every cluster.
pub(super) const SLOTS: u16 = 16_384;
/// The map is looked at this often without a reason.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// And not more often than this with one, give or take.
const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// The slot of a key: of what stands between its first braces, if there is something; CRC16/XMODEM, as Redis' specification of
/// clusters has it.
pub(super) fn slot(key: &[u8]) -> u16 {
    let open = key.iter().position(|byte| *byte == b'{');
    let tag = open.and_then(|open| key.get(open + 1..)).and_then(|rest| {
        let close = rest.iter().position(|byte| *byte == b'}')?;
        rest.get(..close).filter(|tag| !tag.is_empty())
    });
    let mut crc = 0_u16;
    for byte in tag.unwrap_or(key) {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
    }
    crc % SLOTS
}

pub(super) fn nowhere(detail: impl Into<String>) -> ConnectError {
    ConnectError::new(Failure::ClusterDown, detail)
}

/// The servers of a cluster.
pub(super) struct Cluster {
    seeds: Vec<Endpoint>,
    connections: usize,
    common: Arc<Common>,
    map: ArcSwap<Map>,
    /// All servers that were named, by place; those that the map has no more are dropped with its next drawing.
    nodes: Mutex<HashMap<Endpoint, Arc<Node>>>,
    drawer: Mutex<Option<AbortHandle>>,
}

/// Who has what.
#[derive(Clone, Default)]
struct Map {
    nodes: Vec<Arc<Node>>,
    /// By slot: an index into the nodes, and one more; zero: nobody has it.
    owners: Vec<u16>,
}

impl Map {
    fn node(&self, slot: u16) -> Option<&Arc<Node>> {
        let index = self.owners.get(usize::from(slot)).copied()?.checked_sub(1)?;
        self.nodes.get(usize::from(index))
    }

    fn give(&mut self, slots: std::ops::RangeInclusive<u16>, node: &Arc<Node>) {
        self.owners.resize(usize::from(SLOTS), 0);
        let at = self.nodes.iter().position(|known| Arc::ptr_eq(known, node)).unwrap_or_else(|| {
            self.nodes.push(node.clone());
            self.nodes.len() - 1
        });
        let owner = u16::try_from(at + 1).unwrap_or(0);
        let range = usize::from(*slots.start())..=usize::from((*slots.end()).min(SLOTS - 1));
        for slot in self.owners.get_mut(range).into_iter().flatten() {
            *slot = owner;
        }
    }
}

impl Cluster {
    /// Begins to draw the map.
    pub(super) fn new(seeds: Vec<Endpoint>, connections: usize, common: Arc<Common>) -> Arc<Self> {
        let cluster = Arc::new(Self {
            seeds,
            connections,
            common,
            map: ArcSwap::default(),
            nodes: Mutex::default(),
            drawer: Mutex::default(),
        });
        let drawer = tokio::spawn(draw(Arc::downgrade(&cluster), cluster.common.clone())).abort_handle();
        *cluster.drawer.lock().unwrap_or_else(PoisonError::into_inner) = Some(drawer);
        cluster
    }

    /// The server of a slot.
    ///
    /// # Errors
    /// Nobody has it, as far as is known.
    pub(super) fn node(&self, slot: u16) -> Result<Arc<Node>, ConnectError> {
        self.map.load().node(slot).cloned().ok_or_else(|| {
            self.common.lost.notify_one();
            nowhere("no node of the cluster is known to have this slot")
        })
    }

    /// Any connection that is there.
    pub(super) fn any_link(&self) -> Option<Arc<Link>> {
        self.map.load().nodes.iter().find_map(|node| node.any_link())
    }

    /// A server that another one named.
    pub(super) fn elsewhere(&self, slot: u16, endpoint: Endpoint, for_good: bool) -> Arc<Node> {
        let node = self.known(endpoint);
        if for_good {
            let mut map = Map::clone(&self.map.load());
            map.give(slot..=slot, &node);
            self.map.store(Arc::new(map));
            self.common.lost.notify_one();
        }
        node
    }

    fn known(&self, endpoint: Endpoint) -> Arc<Node> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Node::new(&Target::At(endpoint.clone()), self.connections, &self.common));
        nodes.entry(endpoint.clone()).or_insert_with(new).clone()
    }

    /// Asks nodes for the map until one answers.
    async fn look(&self) -> Result<(), ConnectError> {
        let nodes: Vec<Arc<Node>> = {
            let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
            nodes.values().cloned().collect()
        };
        let mut last = nowhere("no node of the cluster answers");
        let links: Vec<Arc<Link>> = nodes.iter().filter_map(|node| node.any_link()).collect();
        let first = rand::rng().random_range(0..links.len().max(1));
        for link in links.iter().cycle().skip(first).take(links.len()) {
            match self.ask(link).await {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
        }
        for seed in &self.seeds {
            self.common.reconnects.turn().await;
            let asked = match connect::open(seed, &self.common.access, || {}).await {
                Ok(link) => self.ask(&link).await,
                Err(error) => Err(error),
            };
            match asked {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn ask(&self, link: &Link) -> Result<(), ConnectError> {
        let ranges = slots(link, self.common.access.timeout).await?;
        let mut map = Map::default();
        for (from, to, endpoint) in &ranges {
            map.give(*from..=*to, &self.known(endpoint.clone()));
        }
        self.map.store(Arc::new(map));
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.retain(|known, _| ranges.iter().any(|(.., endpoint)| endpoint == known));
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(drawer) = self.drawer.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            drawer.abort();
        }
    }
}

/// Draws the map at first, when something is lost, and now and then.
async fn draw(cluster: Weak<Cluster>, common: Arc<Common>) {
    let map: Arc<str> = Arc::from("the map of the cluster");
    common.journal.enter(&map);
    let mut failures = 0_u32;
    loop {
        let Some(alive) = cluster.upgrade() else { return };
        match alive.look().await {
            Ok(()) => {
                common.journal.found(&map, failures > 0);
                failures = 0;
            }
            Err(error) => {
                common.journal.lost(&map, failures > 0, &error);
                common.observer.failed(error.failure);
                failures = failures.saturating_add(1);
            }
        }
        drop(alive);
        let pause = rand::rng().random_range(LEAST_PAUSE / 2..LEAST_PAUSE * 3 / 2);
        sleep(pause).await;
        if failures == 0 {
            // Running out is a reason too.
            let _ = timeout(LOOK_EVERY, common.lost.notified()).await;
        }
    }
}

/// Asks a node who has which slots.
///
/// # Errors
/// It does not answer, is none of a cluster, or knows of none that has any.
pub(super) async fn slots(link: &Link, within: Duration) -> Result<Vec<(u16, u16, Endpoint)>, ConnectError> {
    let mut question = redis::cmd("CLUSTER");
    question.arg("SLOTS");
    let answer = link.send(&question, Instant::now() + within).await;
    let answer = match answer.map_err(|_| nowhere(format!("{} does not answer", link.endpoint())))? {
        Value::ServerError(error) => {
            let details = error.details().unwrap_or_default();
            let said = format!("{} says: {} {details}", link.endpoint(), error.code());
            if details.contains("cluster support disabled") || details.starts_with("unknown command") {
                let detail = format!("{said}; it is no cluster: write redis:// for redis+cluster://");
                return Err(ConnectError::mistake(Failure::ClusterDown, detail));
            }
            if matches!(errors::said(&error), Said::Not { failure: Failure::Denied, .. }) {
                let advice = "docs/operating/redis.md lists the rights that a user needs";
                return Err(ConnectError::mistake(Failure::Denied, format!("{said}; {advice}")));
            }
            return Err(nowhere(said));
        }
        answer => answer,
    };
    let ranges = ranges(answer, link.endpoint());
    if ranges.is_empty() {
        return Err(nowhere(format!("{} knows of no slots", link.endpoint())));
    }
    Ok(ranges)
}

/// Reads the answer to CLUSTER SLOTS: first and last slot of each range, and its primary, as the server at `asked` sees it.
fn ranges(answer: Value, asked: &Endpoint) -> Vec<(u16, u16, Endpoint)> {
    let Value::Array(ranges) = answer else { return Vec::new() };
    ranges.into_iter().filter_map(|range| one_range(range, asked)).collect()
}

fn one_range(range: Value, asked: &Endpoint) -> Option<(u16, u16, Endpoint)> {
    let Value::Array(parts) = range else { return None };
    let [Value::Int(from), Value::Int(to), Value::Array(primary), ..] = parts.as_slice() else { return None };
    let [host, Value::Int(port), ..] = primary.as_slice() else { return None };
    let host = match (host, asked) {
        (Value::BulkString(host), _) if !matches!(host.as_slice(), b"" | b"?") => String::from_utf8(host.clone()).ok()?,
        (_, Endpoint::Tcp { host, .. }) => host.clone(),
        (_, Endpoint::Unix(_)) => return None,
    };
    let number = |number: &i64| u16::try_from(*number).ok();
    Some((number(from)?, number(to)?, Endpoint::Tcp { host, port: number(port)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        for (key, expected) in [
            ("123456789", 0x31c3 % SLOTS),
            ("", 0),
            ("paceline:{123456789}:s", 0x31c3 % SLOTS),
            ("{}123456789", slot(b"x{}123456789") ^ slot(b"x{}123456789") ^ slot(b"{}123456789")),
            ("foo{{bar}}zap", slot(b"{bar")),
            ("foo{bar}{zap}", slot(b"bar")),
        ] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
        // From the examples of CLUSTER KEYSLOT.
        assert_eq!((slot(b"somekey"), slot(b"foo{hash_tag}"), slot(b"bar{hash_tag}")), (11_058, 2_515, 2_515));
    }

    #[test]
    fn maps_name_primaries_and_servers_without_a_name_are_the_asked_one() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let node = |host: &str, port| Value::Array(vec![text(host), Value::Int(port), text("id"), Value::Array(vec![])]);
        let answer = Value::Array(vec![
            Value::Array(vec![Value::Int(0), Value::Int(99), node("10.0.0.1", 7_000), node("10.0.0.9", 7_000)]),
            Value::Array(vec![Value::Int(100), Value::Int(16_383), node("", 7_001)]),
            Value::Array(vec![Value::Int(-1), Value::Int(5), node("a", 1)]),
            Value::Nil,
        ]);
        let at = |host: &str, port| Endpoint::Tcp { host: host.to_owned(), port };
        let expected = vec![(0, 99, at("10.0.0.1", 7_000)), (100, 16_383, at("asked", 7_001))];
        assert_eq!(ranges(answer, &at("asked", 5)), expected);
    }
}
