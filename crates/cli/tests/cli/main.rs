//! The binary as people and programs use it: help, exit statuses, signals.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[cfg(unix)]
mod bench;
#[cfg(target_os = "linux")]
mod deaf;
mod help;
#[cfg(unix)]
mod kills;
mod middleware;
mod probe;
mod process;
mod provider_files;
#[cfg(unix)]
mod recording;
#[cfg(unix)]
mod serve;
mod simulate;
mod store;
#[cfg(unix)]
mod trial;
