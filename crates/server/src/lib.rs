//! The gRPC and HTTP listeners over the coordinator: adapters, health, reload, shutdown.
//!
//! Nothing is decided here. [`Server::bind`] puts the parts together, [`Server::run`] serves until it is told to stop and then
//! lets everybody go with an answer. `grpc` turns messages into the coordinator's requests (all that is wrong with a message is
//! told at once, in one place) and answers into messages; `web` is what people and Prometheus look at; `reload` puts a changed
//! configuration in force or says why not. `docs/operating/running.md` is the manual.

mod controls;
mod error;
mod grpc;
mod life;
mod listener;
mod otlp;
mod overview;
mod peers;
mod reached;
mod recording;
mod reload;
mod server;
mod store;
mod upkeep;
mod web;

pub use error::ServeError;
pub use grpc::bounds;
pub use otlp::{Otlp, OtlpError, Sampling};
pub use peers::ARRIVES_WITHIN;
pub use recording::{DEFAULT_LIMIT as DEFAULT_RECORD_LIMIT, Record};
pub use reload::{Reloaded, Reloader};
pub use server::{DRAIN_WITHIN, Drained, Options, Server};
