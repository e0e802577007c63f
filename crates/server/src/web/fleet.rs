//! What the status page says of the fleet: the store, the replicas, and who decides about a scope.

use std::fmt::{self, Write as _};

use paceline_proto::v1;

use super::page::{Escaped, span};

/// What is wrong with the store, what people have said, and the replicas where there are several.
pub(super) fn write(page: &mut String, list: &v1::ListScopesResponse, config_hash: &str) -> fmt::Result {
    if let Some(store) = list.store.as_ref().filter(|store| store.away_for.is_some()) {
        write!(
            page,
            "<p class=\"floor\"><strong>degraded</strong>: the store {} has not answered this replica for {} ({}). Limits are divided \
             among {}; calls are granted from this replica's part, or denied where <code>on_store_down: closed</code> says so.</p>",
            Escaped(&store.address),
            span(store.away_for.as_ref()),
            Escaped(&store.problem),
            store.among
        )?;
    }
    list.controls.iter().try_for_each(|control| write_control(page, control))?;
    if list.replicas.len() < 2 {
        return Ok(());
    }
    write!(
        page,
        "<h2>{} replicas share the state</h2><table><tr><th>replica</th><th>address</th><th>version</th><th>schema</th>\
         <th>last heard of</th><th>configuration</th><th></th></tr>",
        list.replicas.len()
    )?;
    list.replicas.iter().try_for_each(|replica| write_replica(page, replica, config_hash))?;
    write!(page, "</table>")
}

/// What a person has said for a while, who and why.
fn write_control(page: &mut String, control: &v1::Control) -> fmt::Result {
    let v1::Control { id, says, touches, reason, who, undo, ends_in, .. } = control;
    write!(
        page,
        "<p class=\"floor\"><strong>{} {id} for {}</strong>, ends in {}; {}: {} <span class=\"quiet\">(undo: <code>{}</code>)</span></p>",
        Escaped(says),
        Escaped(touches),
        span(ends_in.as_ref()),
        Escaped(who),
        Escaped(reason),
        Escaped(undo)
    )
}

fn write_replica(page: &mut String, replica: &v1::Replica, config_hash: &str) -> fmt::Result {
    let who = if replica.asked { " (this one)" } else { "" };
    let address = if replica.address.is_empty() { "none: it cannot be called" } else { &replica.address };
    let differs = replica.config_hash != config_hash && !replica.config_hash.is_empty();
    write!(
        page,
        "<tr><td>{}{who}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td>{} ago</td><td>{}{}</td><td>{}</td></tr>",
        replica.id,
        Escaped(address),
        Escaped(&replica.version),
        replica.schema,
        span(replica.heartbeat_age.as_ref()),
        Escaped(&replica.config_hash),
        if differs { " <span class=\"floor\">differs</span>" } else { "" },
        if replica.answers { "" } else { "<span class=\"floor\">does not answer: what waits there is not counted</span>" },
    )
}

/// Who leads, and who decides without the store; nothing where one replica is alone.
pub(super) fn write_who_decides(page: &mut String, scope: &v1::GetScopeResponse) -> fmt::Result {
    if let Some(leader) = &scope.leader {
        let v1::Leader { replica, address, .. } = leader;
        write!(page, "<p>led by {replica} at {}", Escaped(address))?;
        match (leader.asked, leader.answers) {
            (true, _) => write!(page, " (this one)</p>")?,
            (_, true) => write!(page, "</p>")?,
            (_, false) => write!(
                page,
                ", <span class=\"floor\">which does not answer: calls that wait there are not shown, and levels are from this \
                 replica's last look</span></p>"
            )?,
        }
    }
    for one in &scope.degraded {
        let done = match one.on_store_down() {
            v1::OnStoreDown::Closed => "denies calls (<code>on_store_down: closed</code>)".to_owned(),
            v1::OnStoreDown::Local => format!("grants from its part, one of {}", one.among),
            v1::OnStoreDown::Unspecified => format!("grants from its part, one of {}, or denies, as groups say", one.among),
        };
        let lasts = span(one.lasts.as_ref());
        write!(page, "<p class=\"floor\">replica {} decides without the store for {lasts}: it {done}</p>", one.replica)?;
    }
    Ok(())
}
