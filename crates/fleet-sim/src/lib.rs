//! Fleets in virtual time: the coordinator's own step against simulated providers, beside what workers do alone.
//!
//! Nothing here reads a clock or draws randomness that is not seeded: the same scenario, strategy and seed give the same bytes.
//!
//! Start with [`scenario::Scenario`] (what is simulated) and [`run()`] (one run of it); [`run_all`] makes many.

mod beside;
pub mod calls;
mod engine;
mod error;
pub mod plot;
pub mod recording;
mod run;
pub mod scenario;
mod service;
mod strategies;
mod suite;

pub use beside::{Lead, compare};
pub use error::SimulateError;
pub use recording::Recording;
pub use run::{Outcome, least_makespan, run, run_recorded};
pub use strategies::{OURS, known as known_strategy, strategies};
pub use suite::{Plan, run_all};
