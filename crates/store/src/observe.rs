//! What a store tells whoever counts: how long its operations take, and what goes wrong.

use std::time::Duration;

/// What a store was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Read a value.
    Load,
    /// Read records.
    Records,
    /// Check and write.
    Commit,
    /// Everything about the fleet as a whole: time, token keys, replicas.
    Meta,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Load, Self::Records, Self::Commit, Self::Meta];

    /// Its label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Records => "records",
            Self::Commit => "commit",
            Self::Meta => "meta",
        }
    }
}

/// What went wrong at a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// No answer in time.
    Timeout,
    /// There is no connection, or it ended before the answer.
    Connection,
    /// It takes no writes: a replica, or a primary that lost its replicas.
    ReadOnly,
    /// It is starting, or its primary is away.
    Loading,
    /// The part of the cluster that has the key is away.
    ClusterDown,
    /// It has no memory or no disk left.
    Full,
    /// It does not let us: wrong password, or an ACL without a command or key that we need.
    Denied,
    /// What it holds under a key of ours is not ours.
    Corrupt,
    /// An answer that belongs to another request, or none that we know.
    Protocol,
    /// Anything else it said.
    Other,
}

impl Failure {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Timeout,
        Self::Connection,
        Self::ReadOnly,
        Self::Loading,
        Self::ClusterDown,
        Self::Full,
        Self::Denied,
        Self::Corrupt,
        Self::Protocol,
        Self::Other,
    ];

    /// Its label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::ReadOnly => "read_only",
            Self::Loading => "loading",
            Self::ClusterDown => "cluster_down",
            Self::Full => "full",
            Self::Denied => "denied",
            Self::Corrupt => "corrupt",
            Self::Protocol => "protocol",
            Self::Other => "other",
        }
    }
}

/// Counts what a store tells. Called from the store's own tasks and from its callers': must not block.
pub trait Observer: Send + Sync {
    /// An operation was answered, whatever the answer.
    fn answered(&self, _operation: Operation, _took: Duration) {}

    /// Something went wrong.
    fn failed(&self, _failure: Failure) {}

    /// The store's clock was set, and fleet time went on without a step.
    fn clock_stepped(&self) {}
}

/// Counts nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl Observer for Unobserved {}
