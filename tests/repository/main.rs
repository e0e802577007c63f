//! The repository's own rules: one module per subject, each failure says what to do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod arrows;
mod dependencies;
mod documents;
mod licences;
mod tidy;
