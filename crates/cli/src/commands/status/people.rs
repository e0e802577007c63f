//! Scopes as tables for people.

use std::fmt::Write as _;

use paceline_core::units::Span;
use paceline_proto::v1::{
    Bucket, Evidence, Floor, GetScopeResponse, Lane, LearnedUsage, ModeShare, Refill, ScopeSummary, WatchedCalls,
};
use paceline_proto::{convert, v1};
use prost_types::Duration;

use super::fleet;

const ENFORCE: i32 = v1::Mode::Enforce as i32;
/// More kinds of calls than these are only counted.
const MOST_USAGE: usize = 20;

/// How many scopes a hint names.
const MOST_NAMED: usize = 8;

/// What is live, for one who asked for something else.
pub(super) fn live(scopes: &[ScopeSummary]) -> String {
    if scopes.is_empty() {
        return "nobody has asked for a slot in the last two minutes".to_owned();
    }
    let named = scopes.iter().take(MOST_NAMED).map(|scope| name(&scope.provider, &scope.account)).collect::<Vec<_>>();
    let more = scopes.len().saturating_sub(MOST_NAMED);
    let rest = if more > 0 { format!(" and {more} more (`paceline status` lists them)") } else { String::new() };
    format!("live now: {}{rest}", named.join(", "))
}

/// Every scope in full.
pub(super) fn in_full(scopes: &[GetScopeResponse]) -> String {
    if scopes.is_empty() {
        return "Nobody has asked for a slot in the last two minutes.\n".to_owned();
    }
    scopes.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// A line for each scope.
pub(super) fn in_lines(scopes: &[ScopeSummary]) -> String {
    let mut rows = vec![row(["SCOPE", "MODE", "WAITING", "IN FLIGHT", "OLDEST WAIT", "LED BY", "NOTHING SENT FOR"])];
    rows.extend(scopes.iter().map(|scope| {
        vec![
            name(&scope.provider, &scope.account),
            modes(&scope.modes),
            scope.waiting.to_string(),
            scope.in_flight.to_string(),
            length(scope.oldest_wait.as_ref()),
            fleet::leader(scope),
            floor(scope.floor.as_ref()),
        ]
    }));
    let mut text = table(&rows, "");
    text.push_str("\nName one for its buckets and lanes: paceline status PROVIDER/ACCOUNT\n");
    text
}

fn one(scope: &GetScopeResponse) -> String {
    let waiting: u64 = scope.lanes.iter().map(|lane| lane.depth).sum();
    let led_by = fleet::led_by(scope);
    let mut text =
        format!("{}: {waiting} waiting, {} in flight{led_by}\n", name(&scope.provider, &scope.account), scope.in_flight);
    text.push_str(&fleet::degraded(scope));
    if let Some(held) = &scope.floor {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  nothing is sent for {}", floor(Some(held)));
    }
    if !scope.organisations.is_empty() {
        let names = scope.organisations.iter().map(|name| printable(name)).collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "  answers name several organisations: {names}; give each its own account name");
    }
    write_modes(&mut text, scope);
    for group in scope.groups.iter().filter(|group| group.floor.is_some()) {
        let _ = writeln!(text, "  nothing is sent to {} for {}", printable(&group.key), floor(group.floor.as_ref()));
    }
    if !scope.buckets.is_empty() {
        let head = ["BUCKET", "GROUP", "LEVEL", "LIMIT", "PER", "CONFIGURED", "LEARNED", "PROVIDER SAID LEFT", "FLOOR"];
        let mut rows = vec![row(head)];
        rows.extend(scope.buckets.iter().map(bucket));
        text.push_str(&table(&rows, "  "));
    }
    text.push_str(&uses(&scope.usage));
    if !scope.lanes.is_empty() {
        let mut rows = vec![row(["LANE", "CLASS", "TENANT", "WAITING", "OLDEST", "WAITS FOR"])];
        rows.extend(scope.lanes.iter().map(lane));
        text.push_str(&table(&rows, "  "));
    }
    text
}

/// What is done with calls, where that is not the usual, and what became of those that were only watched.
fn write_modes(text: &mut String, scope: &GetScopeResponse) {
    let is_usual = |modes: &[ModeShare]| matches!(modes, [] | [ModeShare { mode: ENFORCE, .. }]);
    if !is_usual(&scope.modes) || scope.watched.is_some() {
        let _ = writeln!(text, "  mode: {}", modes(&scope.modes));
    }
    for group in scope.groups.iter().filter(|group| !group.modes.is_empty() && group.modes != scope.modes) {
        let _ = writeln!(text, "  mode of {}: {}", printable(&group.key), modes(&group.modes));
    }
    if let Some(calls) = &scope.watched {
        let WatchedCalls { asks, would_wait, would_deny, prevented } = calls;
        let _ = writeln!(
            text,
            "  watched only: {asks} calls; enforced, {would_wait} would have waited, {would_deny} would have been denied, and \
             {prevented} refusals by the provider would not have happened"
        );
    }
}

/// `enforce 20%, shadow 80%`; `enforce` when that is all.
pub(super) fn modes(modes: &[ModeShare]) -> String {
    let name = |share: &ModeShare| {
        v1::Mode::try_from(share.mode).map_or_else(|_| "?".to_owned(), |mode| lower(mode.as_str_name(), "MODE_"))
    };
    match modes {
        [] => "enforce".to_owned(),
        [only] => name(only),
        several => {
            // To a hundredth of a percent, and without zeros at the end.
            let percent = |share: &ModeShare| (share.share * 1e4).round() / 1e2;
            several.iter().map(|share| format!("{} {}%", name(share), percent(share))).collect::<Vec<_>>().join(", ")
        }
    }
}

/// What providers say that nothing reads.
pub(super) fn unread(scopes: &[GetScopeResponse]) -> String {
    let mut rows = vec![row(["SCOPE", "HEADER", "TIMES", "LAST VALUE", "LAST SEEN", "WHY"])];
    for scope in scopes {
        rows.extend(scope.unread.iter().map(|header| {
            vec![
                name(&scope.provider, &scope.account),
                printable(&header.name),
                header.count.to_string(),
                printable(&header.sample),
                format!("{} ago", length(header.age.as_ref())),
                if header.malformed { "its value cannot be read" } else { "nothing reads it" }.to_owned(),
            ]
        }));
    }
    if rows.len() == 1 {
        return "Everything that looks like a limit was read.\n".to_owned();
    }
    table(&rows, "") + "\nTo have one read, name it in a file about the provider: docs/adding-a-provider.md\n"
}

fn bucket(bucket: &Bucket) -> Vec<String> {
    let number = |number: Option<u64>, otherwise: &str| number.map_or_else(|| otherwise.to_owned(), |units| units.to_string());
    let per = match bucket.refill() {
        Refill::Held => "in flight".to_owned(),
        _ => bucket.window.as_ref().map_or_else(|| "?".to_owned(), |window| span(window).to_string()),
    };
    let said = match (bucket.observed_remaining, &bucket.observed_age) {
        (Some(left), Some(age)) => match &bucket.level_evidence {
            Some(Evidence { reports, .. }) if *reports > 1 => format!("{left}, {} ago, {reports} agree", span(age)),
            _ => format!("{left}, {} ago", span(age)),
        },
        _ => "-".to_owned(),
    };
    vec![
        printable(&bucket.label),
        if bucket.group.is_empty() { "-".to_owned() } else { printable(&bucket.group) },
        bucket.level.map_or_else(|| "?".to_owned(), |level| format!("{level:.0}")),
        number(bucket.limit_effective, "?"),
        per,
        number(bucket.limit_configured, "-"),
        learned(bucket),
        said,
        floor(bucket.floor.as_ref()),
    ]
}

/// What answers have shown, and what speaks for it: the limit told, what passes where none is told, what somebody else takes, what
/// may go together.
fn learned(bucket: &Bucket) -> String {
    let told = match (bucket.limit_learned, bucket.limit_measured) {
        (Some(limit), _) => format!("{limit}{}", backed(bucket.limit_evidence.as_ref())),
        (None, Some(measured)) => format!("measured {measured:.0}/min{}", backed(bucket.limit_measured_evidence.as_ref())),
        (None, None) => "-".to_owned(),
    };
    let mut shown = vec![told];
    let others = bucket.foreign_drain.map(|drain| format!("others take {drain:.0}/min"));
    shown.extend(others.map(|others| others + &backed(bucket.foreign_drain_evidence.as_ref())));
    // Nothing to tell where all of it may go together.
    let is_whole = |units: &f64| bucket.limit_effective.is_none_or(|limit| *units >= limit as f64);
    shown.extend(bucket.at_once.filter(|units| !is_whole(units)).map(|units| format!("{units:.0} at once")));
    shown.join(", ")
}

/// How many reports have said it, and how long ago the last one did.
fn backed(evidence: Option<&Evidence>) -> String {
    evidence.map_or_else(String::new, |evidence| format!(" ({}x, {} ago)", evidence.reports, length(evidence.age.as_ref())))
}

/// What calls were seen to use.
fn uses(usage: &[LearnedUsage]) -> String {
    if usage.is_empty() {
        return String::new();
    }
    let mut rows = vec![row(["CALLS OF", "LABEL", "METER", "HALF USE", "NINE OF TEN USE", "CALLS", "LAST"])];
    rows.extend(usage.iter().take(MOST_USAGE).map(|seen| {
        let model = if seen.model.is_empty() { "any model of".to_owned() } else { printable(&seen.model) };
        vec![
            if seen.media { format!("{model} (media)") } else { model },
            if seen.label.is_empty() { "-".to_owned() } else { printable(&seen.label) },
            printable(&seen.meter),
            seen.median.to_string(),
            seen.likely.to_string(),
            seen.calls.to_string(),
            format!("{} ago", length(seen.age.as_ref())),
        ]
    }));
    let mut text = table(&rows, "  ");
    if usage.len() > MOST_USAGE {
        let _ = writeln!(text, "  and {} more: --json shows all", usage.len() - MOST_USAGE);
    }
    text
}

fn lane(lane: &Lane) -> Vec<String> {
    let class = v1::Priority::try_from(lane.priority)
        .map_or_else(|_| "?".to_owned(), |priority| lower(priority.as_str_name(), "PRIORITY_"));
    vec![
        printable(&lane.group),
        class,
        printable(&lane.tenant),
        lane.depth.to_string(),
        length(lane.oldest_wait.as_ref()),
        source(lane.waits_for),
    ]
}

/// Until when, who says so, and since when.
fn floor(floor: Option<&Floor>) -> String {
    let Some(floor) = floor else { return "-".to_owned() };
    format!("{} ({}, set {} ago)", length(floor.ends_in.as_ref()), source(floor.source), length(floor.age.as_ref()))
}

fn name(provider: &str, account: &str) -> String {
    let account = if account.is_empty() { "(no account)".to_owned() } else { printable(account) };
    format!("{}/{account}", printable(provider))
}

fn source(number: i32) -> String {
    convert::source(number).name().replace('_', " ")
}

fn lower(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_lowercase()
}

pub(crate) fn length(duration: Option<&Duration>) -> String {
    duration.map_or_else(|| "-".to_owned(), |duration| span(duration).to_string())
}

fn span(duration: &Duration) -> Span {
    Span::from_secs(duration.seconds).saturating_add(Span::from_micros(i64::from(duration.nanos) / 1_000))
}

pub(crate) fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// A name that cannot move the cursor.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

/// Columns as wide as their widest cell, two spaces between them.
pub(crate) fn table(rows: &[Vec<String>], indent: &str) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for cells in rows {
        widths.resize(widths.len().max(cells.len()), 0);
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for cells in rows {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(text, "{indent}{}", padded.join("  ").trim_end());
    }
    text
}
