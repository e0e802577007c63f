//! What stands above the scopes, and who decides about each.

use std::fmt::Write as _;

use paceline_proto::v1::{Degraded, GetScopeResponse, Leader, ListScopesResponse, OnStoreDown, Replica, ScopeSummary, Store};

use super::people::{length, printable, row, table};
use crate::commands::controls::in_line;

/// The store where it is away, what people have said, and the replicas where there are several: nothing where one replica is well and
/// alone.
pub(super) fn head(list: &ListScopesResponse) -> String {
    let mut text = String::new();
    if let Some(Store { address, away_for: Some(away_for), problem, among }) = &list.store {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "DEGRADED: the store {} has not answered this replica for {} ({}).\n  Limits are divided among {among}: calls are \
             granted from this replica's part, or denied where `on_store_down: closed` says so.\n",
            printable(address),
            length(Some(away_for)),
            printable(problem)
        );
    }
    if !list.controls.is_empty() {
        text.push_str("CONTROLS: people have said, for a while, in place of the configuration:\n");
        for control in &list.controls {
            let (ends_in, who) = (length(control.ends_in.as_ref()), printable(&control.who));
            let _ = writeln!(text, "  {}; ends in {ends_in}; {who}: {}", in_line(control), printable(&control.reason));
            let _ = writeln!(text, "    undo: {}", printable(&control.undo));
        }
        text.push('\n');
    }
    if list.replicas.len() > 1 {
        let mut rows = vec![row(["REPLICA", "ADDRESS", "VERSION", "SCHEMA", "LAST HEARD OF", "CONFIGURATION", ""])];
        rows.extend(list.replicas.iter().map(replica));
        text.push_str(&table(&rows, ""));
        text.push('\n');
    }
    text
}

fn replica(replica: &Replica) -> Vec<String> {
    let or = |text: &str, otherwise: &str| if text.is_empty() { otherwise.to_owned() } else { printable(text) };
    vec![
        replica.id.to_string(),
        or(&replica.address, "none: it cannot be called"),
        or(&replica.version, "-"),
        replica.schema.to_string(),
        replica.heartbeat_age.as_ref().map_or_else(|| "-".to_owned(), |age| format!("{} ago", length(Some(age)))),
        // As long as tells them apart.
        or(replica.config_hash.get(..8).unwrap_or(&replica.config_hash), "-"),
        match (replica.asked, replica.answers) {
            (true, _) => "asked",
            (_, true) => "",
            (_, false) => "does not answer: calls that wait there are not counted",
        }
        .to_owned(),
    ]
}

/// `; led by 17 at 10.0.0.1:7070`; nothing where nobody leads.
pub(super) fn led_by(scope: &GetScopeResponse) -> String {
    let Some(Leader { replica, address, asked, answers, .. }) = &scope.leader else { return String::new() };
    let address = printable(address);
    match (asked, answers) {
        (true, _) => format!("; led by {replica} at {address}, the one that was asked"),
        (_, true) => format!("; led by {replica} at {address}"),
        (_, false) => format!(
            "; led by {replica} at {address}, which does not answer: calls that wait there are not shown, and levels are those of \
             the last look at them"
        ),
    }
}

/// The same in a table.
pub(super) fn leader(scope: &ScopeSummary) -> String {
    match &scope.leader {
        None => "-".to_owned(),
        Some(Leader { address, answers: true, .. }) => printable(address),
        Some(Leader { address, .. }) => format!("{} (does not answer)", printable(address)),
    }
}

/// A line for each replica that decides about a scope without the store.
pub(super) fn degraded(scope: &GetScopeResponse) -> String {
    let mut text = String::new();
    for one in &scope.degraded {
        let Degraded { replica, lasts, among, .. } = one;
        let done = match one.on_store_down() {
            OnStoreDown::Closed => "denies its calls (on_store_down: closed)".to_owned(),
            OnStoreDown::Local => format!("grants from its part, one of {among}"),
            OnStoreDown::Unspecified => format!("grants from its part, one of {among}, or denies, as on_store_down says"),
        };
        let _ =
            writeln!(text, "  degraded: for {} replica {replica} decides without the store and {done}", length(lasts.as_ref()));
    }
    text
}
