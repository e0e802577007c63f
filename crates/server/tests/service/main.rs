//! The service over real sockets on free ports, asked by gRPC and HTTP clients. Fleet time stands still unless a test moves it,
//! so nothing here depends on how fast the machine is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod admin;
mod bad_input;
mod batches;
mod bundles;
mod calls;
mod controls;
mod events;
mod fleet;
mod gone;
mod history;
mod learned;
mod leaving;
mod otlp;
mod overview;
mod pages;
mod reloading;
mod replicas;
mod sent_on;
mod session;
mod support;
mod tokens;
mod why;
mod worker;
