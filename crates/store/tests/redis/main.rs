//! The Redis store against real servers: the suite of every store, and what goes wrong with servers and on the way to them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod conformance;
mod failovers;
mod faults;
mod mistakes;
mod scripts;
mod support;
