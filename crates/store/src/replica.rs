//! Who serves: the replicas of a fleet, as they announce themselves in the store.

use paceline_core::units::{FleetTime, Span};

/// A replica that has not announced itself for this long is not counted any more.
pub const REPLICA_LIFE: Span = Span::from_secs(10);

/// What a replica says of itself; every second or so, so that a lost one is soon missed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcement {
    /// Names this run of it; drawn at random when it starts.
    pub id: u32,
    /// Where other replicas reach its gRPC, `host:port`; empty: they cannot.
    pub address: String,
    /// Its version, for people.
    pub build: String,
    /// The newest schema of values that it can write. A fleet writes what all of them can.
    pub schema: u32,
    /// The fingerprint of its configuration, so that one that differs can be named.
    pub config_hash: String,
    /// When it had read it; zero: it does not say.
    pub config_read: FleetTime,
    /// When it began; zero: it does not say. Whoever had its address before, and was last heard of before that, is gone.
    pub began: FleetTime,
}

/// A replica that lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// What it said of itself.
    pub announced: Announcement,
    /// When it last said so.
    pub seen: FleetTime,
}

impl Replica {
    /// Whether it still counts at `now`.
    pub fn lives(&self, now: FleetTime) -> bool {
        now.since(self.seen) < REPLICA_LIFE
    }
}
