//! How the core behaves: its laws, the scenarios it must survive, and what a fleet gets out of it, all in virtual time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_wrap,
    clippy::print_stdout,
    unreachable_pub,
    reason = "a test that meets the unexpected has failed, and says where by panicking; figures are shown on demand"
)]

mod away;
mod fleets;
mod lanes;
mod laws;
mod laws_alone;
mod laws_answers;
mod laws_followed;
mod laws_lanes;
mod laws_merge;
mod laws_waiting;
mod scenarios;
mod sharing;
mod support;
mod tables;
