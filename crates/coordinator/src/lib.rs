//! One actor per live scope: a pure step (inputs to effects) and the thin loop that drives it.
//!
//! [`scope::Scope`] is the step: no clock, no I/O, no lock. [`Coordinator`] is what the service calls; it opens tokens, reads
//! headers, finds the scope's actor and waits for its answer. `docs/internals/coordinator.md` is the story.

mod actor;
mod anywhere;
pub mod api;
mod bucket_gauges;
mod configured;
mod controls;
mod fallback;
mod family;
mod flight;
mod front;
mod gauges;
mod history;
mod inputs;
mod journal;
mod lead;
mod lease_body;
mod lives;
mod look;
pub mod memory;
mod metrics;
mod named;
mod next;
mod outage;
mod peers;
mod record;
mod registry;
mod roll;
pub mod scope;
mod seats;
pub mod settings;
mod steered;
mod targets;
pub mod token;
pub mod trace;
mod wire;

pub use configured::Configured;
pub use front::{Coordinator, Options};
pub use history::ScopeHistory;
pub use inputs::{ask_input, release_lease_input, release_ticket_input, report_input, unheard_input};
pub use journal::{Events, Happened, KEPT as EVENTS_KEPT, Kind as EventKind};
pub use lead::Lead;
pub use lives::{Ended as EndedLife, Life, Stands};
pub use record::{CallKey, Kept, Record};
pub use registry::FollowedConfig;
