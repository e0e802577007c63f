//! What every test here stands on: plans, a scope in virtual time, a reference provider and a fleet.

pub mod changes;
pub mod crowd;
pub mod fleet;
pub mod plans;
pub mod provider;
pub mod script;
pub mod world;
