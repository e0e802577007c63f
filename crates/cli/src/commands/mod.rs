//! The commands, one module each.

pub(crate) mod bench;
pub(crate) mod check_config;
pub(crate) mod conformance;
pub(crate) mod controls;
pub(crate) mod demo;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod mock_provider;
pub(crate) mod probe;
pub(crate) mod provider_files;
pub(crate) mod report;
pub(crate) mod serve;
pub(crate) mod simulate;
pub(crate) mod status;
pub(crate) mod why;
