//! A provider's answer in, a [`Signal`](paceline_core::signal::Signal) out: header dialects as data, formats as code.
//!
//! [`catalogue()`] holds what is known of each provider; [`read`] reads an [`Answer`] with it. Both are pure: no clock, no I/O.
//! How a reading is made, and how to add a dialect, is in `docs/internals/reading-headers.md`.

mod answer;
mod catalogue;
mod read;
mod value;

pub use answer::{Answer, BODY_BYTES_READ};
pub use catalogue::{
    Catalogue, CatalogueError, Charge, Day, Limit, Meter, Mistake, ModelLimits, Probe, Provenance, Provider, Repeat, Sure,
    Window, catalogue, use_files,
};
pub use read::{BucketReading, LONGEST_READ, Reading, Rule, identity, read, read_in_full};
