//! A versioned register for scope values: load and compare-and-swap; memory store and conformance suite.
//!
//! A store knows nothing of limits. It keeps one value per scope with a version, and swaps it when the version is the one
//! that was read; the idempotency records of a batch go into the same atomic step. What the value means is the core's affair,
//! how it becomes bytes is [`codec`]'s. `docs/internals/store.md` is the story.
//!
//! Start with [`Store`]; [`MemoryStore`] is the one for a single process, and `conformance` is what every store must pass.

mod any;
mod book;
pub mod codec;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod error;
mod key;
mod life;
mod memory;
mod observe;
#[cfg(feature = "redis")]
mod redis;
mod register;
mod replica;
mod tally;
mod token;

pub use any::AnyStore;
pub use book::{ChangeError, change_book, load_book};
pub use error::{CodecError, StoreError};
pub use key::{RecordKey, ScopeKey};
pub use life::{LONGEST_LIFE, MARGIN, SHORTEST_LIFE, bounded, keep_until};
pub use memory::{Clock, MemoryStore};
pub use observe::{Failure, Observer, Operation, Unobserved};
#[cfg(feature = "redis")]
pub use redis::{FirstLook, RedisStore, RedisUrl, UrlError};
pub use register::{Commit, Committed, Expect, Loaded, OnReached, RecordWrite, Store, Version};
pub use replica::{Announcement, REPLICA_LIFE, Replica};
pub use tally::{Addition, Counters, Day, MOST_COUNTED, ScopeName};
pub use token::{MOST_OLDER_KEYS, ROTATE_AFTER, TokenKey, TokenKeys};
