//! A mock provider: meters like the real ones, answers in each dialect, over HTTP and in virtual time.
//!
//! Everything but [`http`] is pure: time is an argument, what is random comes from a seed, numbers are integers. So the same
//! provider serves tests in virtual time, the demo's side-by-side, and `paceline mock-provider` behind a real socket.
//!
//! Start with [`Provider::arrive`]: one call in, one [`Answer`] out. Below it are [`limit`] (what is limited, as people write
//! it), [`meter`] (how it is counted), [`gate`] (several meters, all or nothing) and [`dialect`] (how it is told).
//! What happens besides our calls is configured: [`outage`]s, limits that [`change`], an [`other`] consumer of the account, and
//! when output is charged ([`charging`]). [`clairvoyant`] is the yardstick: how fast a fleet could be that knows the meters exactly.

pub mod change;
pub mod charging;
pub mod clairvoyant;
pub mod dialect;
mod error;
pub mod gate;
pub mod http;
pub mod latency;
pub mod ledger;
pub mod limit;
pub mod meter;
pub mod other;
pub mod outage;
mod parse;
pub mod provider;
mod request;
mod severable;
mod world;

pub use change::{LimitChange, NewLimits};
pub use charging::Charging;
pub use clairvoyant::{Due, clairvoyant_makespan};
pub use dialect::{Dialect, HeaderPolicy, Telling};
pub use error::SimError;
pub use http::{MockProvider, listen, serve};
pub use latency::Latency;
pub use limit::{Limit, LimitGroup, Metering, ModelPattern};
pub use other::OtherConsumer;
pub use outage::{Comeback, Failure, Outage};
pub use parse::{parse_amount, parse_limits, parse_percent, parse_span};
pub use provider::{Answer, Call, Cost, Endpoint, FirstCalls, Outcome, Provider, ProviderConfig};
