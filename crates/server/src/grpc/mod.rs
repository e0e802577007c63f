//! The adapters between `paceline.v1` and the coordinator.

mod admin;
pub mod bounds;
mod limiter;
mod read;
#[cfg(test)]
mod read_laws;
mod status;
mod write;

pub(crate) use admin::AdminService;
pub(crate) use limiter::Limiter;
pub(crate) use status::clarify;
