//! What can go wrong between a scope and its store, and whether to try again.

use prost::DecodeError;

/// Why a store could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store cannot be reached or refuses to work; nothing was written.
    #[error("{detail}")]
    Unavailable {
        /// What it said, without secrets.
        detail: String,
    },
    /// No answer in time; a commit may have been written nevertheless.
    #[error("the store did not answer in time: {detail}")]
    Timeout {
        /// Which step, and after how long.
        detail: String,
    },
    /// What is stored is not what we store.
    #[error("the store holds something that is not ours: {detail}")]
    Corrupt {
        /// Where, and what is wrong with it.
        detail: String,
    },
    /// There is no room for more; nothing was written.
    #[error("the store is full: it may hold {limit_bytes} bytes; raise the limit, or use fewer accounts")]
    Full {
        /// Its limit in bytes.
        limit_bytes: usize,
    },
    /// The commit itself is wrong, a mistake in the program; nothing was written.
    #[error("this is no valid commit: {reason}")]
    Invalid {
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl StoreError {
    /// Whether the same may work a little later. After [`StoreError::Timeout`] load first: see
    /// [`StoreError::may_have_been_written`].
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Timeout { .. } | Self::Full { .. })
    }

    /// Whether a commit that failed so may be in the store all the same. Until a load shows its version and writer, or others,
    /// what it granted counts as granted.
    pub const fn may_have_been_written(&self) -> bool {
        matches!(self, Self::Timeout { .. })
    }
}

/// Why bytes are no scope value. Whoever meets this starts the scope cautiously: never with full buckets (I-10).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// Not even a header.
    #[error("a stored value of {got} bytes is shorter than its header of {needed} bytes")]
    TooShort {
        /// Bytes there are.
        got: usize,
        /// Bytes of a header.
        needed: usize,
    },
    /// Written by a release whose values this one must not read.
    #[error("a stored value needs a reader of schema {needed}, this one knows schema {known}: upgrade this replica")]
    TooNew {
        /// The schema the writer asks of its readers.
        needed: u32,
        /// The schema this release knows.
        known: u32,
    },
    /// No protobuf message.
    #[error("a stored value cannot be read: {0}")]
    Body(#[from] DecodeError),
}

impl From<CodecError> for StoreError {
    fn from(error: CodecError) -> Self {
        Self::Corrupt { detail: error.to_string() }
    }
}
