//! What Paceline tells about itself: the catalogue of metrics, the instruments behind it, and logging.
//!
//! [`CATALOGUE`] lists every metric with its unit, labels and the question it answers; [`Telemetry`] records them and
//! renders the text that Prometheus scrapes. Nothing here is global: each [`Telemetry`] owns its registry.
//!
//! ```
//! use paceline_core::signal::Source;
//! use paceline_core::units::Span;
//! use paceline_telemetry::{AcquireOutcome, Options, Telemetry};
//!
//! let telemetry = Telemetry::new(Options::default())?;
//! let scope = telemetry.scope("openai", "prod", "gpt-4o"); // keep it: looking it up costs a hash
//! telemetry.acquire_decided(&scope, AcquireOutcome::Granted, "");
//! telemetry.delay(&scope, Source::Bucket, "tokens", Span::from_millis(1_500));
//! assert!(telemetry.render()?.contains(r#"source="bucket"} 1.5"#));
//! # Ok::<(), paceline_telemetry::Error>(())
//! ```

mod buckets;
pub mod catalogue;
mod docs;
mod fleet;
mod instruments;
mod labels;
mod load;
mod logging;
mod process;
mod rpc;
mod series;
mod shadow;
mod store;
mod telemetry;
mod tenants;

pub use buckets::InBucket;
pub use catalogue::{CATALOGUE, Kind, Metric};
pub use docs::{json, markdown};
pub use fleet::{Fleet, InFleet, InOverride};
pub use instruments::Push;
pub use labels::{AcquireOutcome, Forwarded, ReloadResult, ReportOutcome, StateLoss, Status, Units, UnitsKind};
pub use load::{InGroup, InMode, Load};
pub use logging::{DEFAULT_LOG_FILTER, LogFormat, init_logging};
pub use process::Runtime;
pub use series::Across;
pub use telemetry::{CONTENT_TYPE, Options, ScopeLabels, Telemetry};

/// What can go wrong here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log filter cannot be read.
    #[error(
        "log filter {filter:?}: {why}; write a level (error, warn, info, debug, trace) or crate=level pairs, \
         such as `info,paceline_coordinator=debug`"
    )]
    LogFilter {
        /// As it was given.
        filter: String,
        /// What is wrong with it.
        why: String,
    },
    /// The log format is unknown.
    #[error("log format {0:?} is unknown; use `text` or `json`")]
    LogFormat(String),
    /// Logging was set up before in this process.
    #[error("logging is already set up in this process; call init_logging once, in main")]
    LoggingAlreadySet,
    /// The metrics registry refused the exporter.
    #[error("metrics cannot be set up: {0}")]
    Setup(String),
    /// The metrics cannot be written as text.
    #[error("metrics cannot be rendered: {0}")]
    Render(String),
}
