//! The adapters between `paceline.v1` and the coordinator.

mod admin;
mod batch;
pub mod bounds;
mod desk;
mod limiter;
mod measured;
mod read;
#[cfg(test)]
mod read_laws;
mod session;
mod spans;
mod status;
pub(crate) mod unheard;
mod write;

pub(crate) use admin::AdminService;
pub(crate) use desk::Desk;
pub(crate) use limiter::Limiter;
pub(crate) use measured::Measured;
pub(crate) use read::name as check_name;
pub(crate) use spans::Traces;
pub(crate) use status::{Problems, clarify, of_call as status_of_call};

/// Parts of answers that other messages have too.
pub(crate) mod told {
    pub(crate) use super::write::{delays_of, reason, target, verdict};
}
