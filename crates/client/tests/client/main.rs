//! The client against a scripted service, in virtual time: what it says, when it says it, and that it never sends early.
//!
//! The service's answers are the script ([`peer`]); the protocol and the transport (HTTP/2 over in-memory pipes that can be
//! cut) are real.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod alone;
mod call;
mod failover;
mod guard;
#[cfg(feature = "tower")]
mod layer;
mod modes;
mod peer;
mod replicas;
mod sockets;
mod waiting;
