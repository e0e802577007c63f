//! What the coordinator needs of the configuration: which limits apply, and how a provider's answers are read.

use std::sync::Arc;

use paceline_core::controls::Book;
use paceline_core::in_force::Loaded;
use paceline_core::mode::Modes;
use paceline_core::plan::{GroupPlan, TenantPolicy};
use paceline_core::signal::Signal;

use crate::api::{CallError, Target};

/// The configuration in force; a new one replaces it as a whole.
pub trait Settings: Send + Sync + 'static {
    /// The same target under its canonical names (aliases of accounts resolved, provider in lower case).
    ///
    /// # Errors
    /// Unknown provider, unknown or missing account.
    fn canonical(&self, target: &Target) -> Result<Target, CallError>;

    /// The limits of a canonical target.
    ///
    /// # Errors
    /// As [`Settings::canonical`].
    fn plan(&self, target: &Target) -> Result<Arc<GroupPlan>, CallError>;

    /// What is done with the calls of a canonical target's account, where none of its groups says otherwise.
    ///
    /// # Errors
    /// As [`Settings::canonical`].
    fn modes(&self, target: &Target) -> Result<Modes, CallError>;

    /// What a tenant's calls are in at most: each is in the mode that interferes less, of this and its target's.
    fn tenant_modes(&self, tenant: &str) -> Modes;

    /// What holds for a tenant.
    fn tenant(&self, tenant: &str) -> TenantPolicy {
        let _ = tenant;
        TenantPolicy::default()
    }

    /// How many replicas there are to be: while the store is away each takes that part of a limit, or less where more are alive.
    fn expected_replicas(&self) -> u32 {
        1
    }

    /// What people on call have said, which lies over the configuration.
    fn controls(&self) -> Arc<Book> {
        Arc::default()
    }

    /// Which configuration this is, and when it was read; `None`: limits are never compared with those of other replicas.
    fn loaded(&self) -> Option<Loaded> {
        None
    }

    /// The organisation whose quota an answer was about, if it names one.
    fn organisation(&self, provider: &str, answer: &AnswerParts<'_>) -> Option<String>;

    /// Reads a provider's answer.
    fn read(&self, provider: &str, answer: &AnswerParts<'_>) -> Signal;
}

/// An answer as reported by a worker.
#[derive(Clone, Copy, Debug)]
pub struct AnswerParts<'a> {
    /// HTTP status.
    pub status: u32,
    /// gRPC status.
    pub grpc_status: Option<u32>,
    /// Headers and trailers.
    pub headers: &'a [(String, String)],
    /// The start of the body.
    pub body: &'a [u8],
    /// Now, as microseconds since the Unix epoch by our clock.
    pub received_at_micros: i64,
    /// How long ago the answer reached the worker, in microseconds.
    pub age_micros: i64,
}
