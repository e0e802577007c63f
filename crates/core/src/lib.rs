//! What a scope is and how slots are decided: pure functions on values.
//!
//! Nothing here reads a clock, draws from a global source of randomness, or does I/O: fleet time and the random source are
//! arguments. The same functions run in the service, in simulations and in tests. `docs/internals/deciding.md` is the story;
//! the laws (I-1 ...) are named in `docs/ARCHITECTURE.md`.
//!
//! Start with [`plan`] (what limits apply), then [`signal`] (what a provider said).

pub mod alone;
pub mod amounts;
pub mod backing;
pub mod backoff;
pub mod breaker;
pub mod bucket;
pub mod calendar;
pub mod ceiling;
pub mod charge;
pub mod controls;
pub mod decide;
pub mod delays;
pub mod denial;
pub mod drain;
mod evidence;
pub mod exhausted;
pub mod fair;
pub mod fallback_share;
pub mod floor;
mod followed;
pub mod forecast;
pub mod forget;
pub mod history;
pub mod holds;
pub mod in_force;
pub mod jitter;
pub mod journal;
mod lanes;
pub mod leader;
pub mod learn;
pub mod lease;
pub mod level;
pub mod lineage;
pub mod merge;
pub mod mode;
pub mod opening;
pub mod outlook;
pub mod pacing;
pub mod plan;
pub mod provisional;
pub mod queue;
mod refusal;
pub mod report;
pub mod retry;
pub mod retry_budget;
mod settlement;
pub mod shadow;
pub mod shape;
pub mod signal;
pub mod sketch;
pub mod tally;
pub mod trail;
pub mod trust;
pub mod units;
pub mod usage;
pub mod value;
pub mod verdict;
mod window;
mod window_drain;
