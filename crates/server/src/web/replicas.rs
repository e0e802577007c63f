//! The replicas that share the state, as a table of the status page.

use std::fmt::{self, Write as _};

use paceline_core::units::FleetTime;
use paceline_store::Replica;

use super::page::Escaped;

/// The fleet as one replica sees it.
pub(super) struct Fleet<'a> {
    pub(super) replicas: &'a [Replica],
    /// This one's number.
    pub(super) me: u32,
    /// The hash of the configuration in force here.
    pub(super) config_hash: &'a str,
    pub(super) now: FleetTime,
}

/// Nothing where nobody else shares the state.
pub(super) fn write(page: &mut String, fleet: &Fleet<'_>) -> fmt::Result {
    if fleet.replicas.len() < 2 {
        return Ok(());
    }
    write!(
        page,
        "<h2>{} replicas share the state</h2><table><tr><th>replica</th><th>address</th><th>version</th><th>last heard of</th>\
         <th>configuration</th></tr>",
        fleet.replicas.len()
    )?;
    for Replica { announced, seen } in fleet.replicas {
        let who = if announced.id == fleet.me { " (this one)" } else { "" };
        let address = if announced.address.is_empty() { "none: it cannot be called" } else { &announced.address };
        let differs = if announced.config_hash == fleet.config_hash { "" } else { " <span class=\"floor\">differs</span>" };
        write!(
            page,
            "<tr><td>{}{who}</td><td>{}</td><td>{}</td><td>{} ago</td><td>{}{differs}</td></tr>",
            announced.id,
            Escaped(address),
            Escaped(&announced.build),
            fleet.now.since(*seen).at_least_zero(),
            Escaped(&announced.config_hash),
        )?;
    }
    write!(page, "</table>")
}
