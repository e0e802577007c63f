//! The coordinator's step in virtual time: idempotency, places, leases, retries, bounds, and laws over random histories.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../support/mod.rs"]
mod support;

mod bounds;
mod budgets;
mod changes;
mod files;
mod gone;
mod idempotency;
mod laws;

mod leases;
mod losses;
mod modes;
mod nested;
mod organisations;
mod places;
mod retries;
mod shadow;
mod tenants;
mod uses;
mod would;
