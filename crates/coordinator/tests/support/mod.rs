//! What the tests share: replicas in virtual time, and asks and reports without the fields that do not matter.
#![allow(dead_code, reason = "each test program uses its part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod calls;
mod world;

pub(crate) use calls::*;
pub(crate) use world::*;
