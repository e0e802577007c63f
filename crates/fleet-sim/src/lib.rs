//! Fleets in virtual time: the coordinator's own step against simulated providers, beside what workers do alone.
//!
//! Nothing here reads a clock or draws randomness that is not seeded: the same scenario and seed give the same bytes.

pub mod plot;
pub mod recording;

pub use recording::Recording;
