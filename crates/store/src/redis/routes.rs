//! From a key to a connection.

use std::sync::Arc;

use super::cluster::{self, Cluster};
use super::connect::ConnectError;
use super::endpoint::Endpoint;
use super::lane::{Common, Lane, Target};
use super::link::Link;
use super::sentinel::Sentinels;
use super::url::{RedisUrl, Way};
use crate::key::ScopeKey;

/// What decides where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// The slot of its keys.
    pub(super) slot: u16,
    /// Which of the connections to that server: all requests of a scope take the same one, so that they arrive in order.
    pub(super) pick: usize,
}

impl Route {
    /// The way of a scope's keys.
    pub(super) fn of(scope: &ScopeKey) -> Self {
        let [.., high, low] = scope.as_bytes();
        Self { slot: cluster::slot(scope.to_string().as_bytes()), pick: usize::from(u16::from_be_bytes([*high, *low])) }
    }

    /// The way of a key without a hash tag.
    pub(super) fn of_key(key: &str) -> Self {
        Self { slot: cluster::slot(key.as_bytes()), pick: 0 }
    }
}

/// The connections to one server.
pub(super) struct Node {
    lanes: Vec<Lane>,
}

impl Node {
    pub(super) fn new(target: &Target, connections: usize, common: &Arc<Common>) -> Self {
        Self { lanes: (0..connections.max(1)).map(|_| Lane::new(target.clone(), common.clone())).collect() }
    }

    /// One of its connections; there is always one.
    pub(super) fn lane(&self, pick: usize) -> Option<&Lane> {
        self.lanes.get(pick % self.lanes.len().max(1))
    }

    /// Any connection that is there.
    pub(super) fn any_link(&self) -> Option<Arc<Link>> {
        self.lanes.iter().find_map(|lane| lane.link().ok())
    }
}

/// All servers of a store.
pub(super) enum Routes {
    /// One server has everything.
    One(Arc<Node>),
    /// Each slot has its server.
    Cluster(Arc<Cluster>),
}

/// A connection, and the server it belongs to.
pub(super) struct Place {
    pub(super) node: Arc<Node>,
    pub(super) link: Arc<Link>,
    pick: usize,
}

impl Place {
    pub(super) fn on(node: Arc<Node>, pick: usize) -> Result<Self, ConnectError> {
        let lane = node.lane(pick).ok_or_else(|| cluster::nowhere("there is no connection"))?;
        let link = lane.link()?;
        Ok(Self { node, link, pick })
    }

    /// Gives this connection up; another one is opened.
    pub(super) fn give_up(&self, why: ConnectError) {
        if let Some(lane) = self.node.lane(self.pick) {
            lane.give_up(&self.link, why);
        }
    }
}

impl Routes {
    /// Begins to connect.
    pub(super) fn new(url: &RedisUrl, common: &Arc<Common>) -> Self {
        match &url.way {
            Way::Single(endpoint) => Self::One(Arc::new(Node::new(&Target::At(endpoint.clone()), url.connections, common))),
            Way::Sentinel { sentinels, name, user, password } => {
                let mut access = common.access.clone();
                (access.user, access.password) = (user.clone(), password.clone());
                let sentinels = Arc::new(Sentinels::new(sentinels.clone(), name.clone(), access));
                Self::One(Arc::new(Node::new(&Target::Primary(sentinels), url.connections, common)))
            }
            Way::Cluster(seeds) => Self::Cluster(Cluster::new(seeds.clone(), url.connections, common.clone())),
        }
    }

    /// Any connection that is there.
    pub(super) fn any_link(&self) -> Option<Arc<Link>> {
        match self {
            Self::One(node) => node.any_link(),
            Self::Cluster(cluster) => cluster.any_link(),
        }
    }

    /// The connection for a request, as things are now.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn place(&self, route: Route) -> Result<Place, ConnectError> {
        match self {
            Self::One(node) => Place::on(node.clone(), route.pick),
            Self::Cluster(cluster) => Place::on(cluster.node(route.slot)?, route.pick),
        }
    }

    /// The connection to a server that another one named; `for_good`: the slot lives there from now on.
    ///
    /// # Errors
    /// There is none (yet), or this is no cluster.
    pub(super) fn elsewhere(&self, route: Route, endpoint: Endpoint, for_good: bool) -> Result<Place, ConnectError> {
        match self {
            Self::One(_) => Err(cluster::nowhere("the server belongs to a cluster: write redis+cluster:// for redis://")),
            Self::Cluster(cluster) => Place::on(cluster.elsewhere(route.slot, endpoint, for_good), route.pick),
        }
    }
}
