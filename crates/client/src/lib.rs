//! What a Rust worker uses: ask the service for a slot, send, report what the provider said.
//!
//! ```no_run
//! use paceline_client::{Ask, Limiter, Report};
//!
//! # async fn send() -> u16 { 200 }
//! # async fn worker() -> Result<(), paceline_client::Error> {
//! let limiter = Limiter::builder().addr("http://127.0.0.1:7070").build()?;
//! let ask = Ask::new("openai").model("gpt-4o").cost("tokens", 900);
//! let called = limiter
//!     .call(ask, async |_slot| {
//!         let status = send().await; // with the SDK's own retries turned off
//!         (Report::response(status).header("retry-after", "2"), status)
//!     })
//!     .await?;
//! println!("status {} after {} attempts", called.value, called.attempts);
//! # Ok(())
//! # }
//! ```
//!
//! [`Limiter::call`] sends a call as often as the service says; [`Limiter::acquire`] gives one [`Slot`] to those who keep
//! their own loop. Neither sends early: waits are counted on the monotonic clock from the receipt of the answer. Nothing here
//! decides how long to wait; that is the service's part (`docs/workers.md` tells the protocol). Only where the service is off or
//! only watches (`docs/shadow.md`), the client waits between attempts as SDKs do.

mod alone;
mod ask;
mod beside;
mod blind;
mod call;
mod discovery;
mod error;
mod fleet;
mod health;
#[cfg(feature = "http")]
pub mod http;
mod lease;
mod limiter;
mod peers;
mod recent;
mod rendezvous;
mod report;
mod slot;
mod solo;
mod stats;
mod timing;
mod waiting;

pub use ask::Ask;
pub use call::{Called, End};
pub use discovery::{Discovery, Found};
pub use error::{Denied, Error};
pub use limiter::{Builder, Limiter};
pub use paceline_proto::v1::{
    Delay, Mode, NotApplied, Outcome, Priority, Reason, Repeat, Shadow, Signal, Source, Target, Verdict,
};
pub use rendezvous::replica_for;
pub use report::{Report, Reported, Retry};
pub use slot::{Next, Slot};
pub use stats::{Path, Stats};
/// For [`Builder::channel`], so that a worker need not name its own version of tonic.
pub use tonic::transport::Channel;

/// The guide's examples are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/workers.md")]
struct Guide;
