//! What was said, for people.

use std::fmt::Write as _;

use paceline_proto::v1::{Control, ControlResponse, ForgetResponse, Mode, Priority, Selector, Touched};

use crate::commands::status::{length, printable, row, table};

/// So many scopes are named.
const MOST_NAMED: usize = 10;

/// What a control says, in a line: `pause 3 for openai/prod, batch`.
pub(crate) fn in_line(control: &Control) -> String {
    let number = if control.id == 0 { String::new() } else { format!(" {}", control.id) };
    format!("{}{number} for {}", printable(&control.says), printable(&control.touches))
}

pub(super) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Off => "off",
        Mode::Shadow => "shadow",
        Mode::Enforce => "enforce",
        Mode::Unspecified => "?",
    }
}

pub(super) fn priority(selector: &Selector) -> Option<&'static str> {
    match selector.priority() {
        Priority::Unspecified => None,
        Priority::Interactive => Some("interactive"),
        Priority::Normal => Some("normal"),
        Priority::Batch => Some("batch"),
    }
}

// Writing to a string cannot fail.

pub(super) fn response(response: &ControlResponse, is_trial: bool, is_here: bool) -> String {
    let mut text = String::new();
    let would = if is_trial { "would be " } else { "" };
    if let Some(control) = &response.control {
        let place = if is_here { "at this replica alone" } else { "at every replica within 2 s" };
        let _ = writeln!(text, "{}: {would}in force {place}, for {}", in_line(control), length(control.ends_in.as_ref()));
    }
    for ended in &response.ended {
        let replaced = if response.control.is_some() { "replaced" } else { "ended" };
        let left = length(ended.ends_in.as_ref());
        let _ = writeln!(text, "{}: {would}{replaced}, {left} before its end", in_line(ended));
    }
    if let Some(touched) = &response.touched {
        write_touched(&mut text, touched);
    }
    if let Some(control) = &response.control {
        let _ = writeln!(text, "  why      {} ({})", printable(&control.reason), printable(&control.who));
    }
    for (at, line) in response.undo.lines().enumerate() {
        let _ = writeln!(text, "  {:<8} {}", if at == 0 { "undo" } else { "" }, printable(line));
    }
    if is_trial {
        text.push_str("Nothing was changed (--dry-run).\n");
    }
    text
}

fn write_touched(text: &mut String, touched: &Touched) {
    let scopes = touched.scopes.len();
    let _ = writeln!(
        text,
        "  touches  {}, {}, {}",
        counted(scopes as u64, "scope"),
        counted(touched.groups, "group of models",),
        counted(touched.waiting, "waiting call")
    );
    for scope in touched.scopes.iter().take(MOST_NAMED) {
        let groups = if scope.groups.is_empty() { String::new() } else { format!(": {}", printable(&scope.groups.join(", "))) };
        let waiting = if scope.waiting > 0 { format!(" ({} waiting)", scope.waiting) } else { String::new() };
        let _ = writeln!(text, "           {}/{}{groups}{waiting}", printable(&scope.provider), printable(&scope.account));
    }
    if scopes > MOST_NAMED {
        let _ = writeln!(text, "           and {} more", scopes - MOST_NAMED);
    }
    for limit in touched.limits.iter().take(MOST_NAMED) {
        let before = limit.before.map_or_else(|| "unknown".to_owned(), |before| before.to_string());
        let per = limit.window.as_ref().map_or_else(String::new, |window| format!(" per {}", length(Some(window))));
        let group = if limit.group.is_empty() { String::new() } else { format!(" {}", printable(&limit.group)) };
        let name = format!("{}/{}{group} {}", printable(&limit.provider), printable(&limit.account), printable(&limit.bucket));
        let _ = writeln!(text, "           {name}: {before} -> {}{per}", limit.after);
    }
    if touched.silent_replicas > 0 {
        let silent = counted(u64::from(touched.silent_replicas), "replica");
        let _ = writeln!(text, "           {silent} did not answer: calls that wait there are not counted");
    }
}

fn counted(count: u64, what: &str) -> String {
    match (count, what.strip_prefix("group ")) {
        (1, _) => format!("1 {what}"),
        (count, Some(of)) => format!("{count} groups {of}"),
        (count, None) => format!("{count} {what}s"),
    }
}

pub(super) fn forgotten(response: &ForgetResponse, is_trial: bool) -> String {
    let looked_at = counted(response.looked_at, "scope");
    if response.scopes.is_empty() {
        return format!("nothing to forget: {looked_at} looked at, and none holds anything of it\n");
    }
    let mut rows = vec![row(["SCOPE", "FLOORS", "LEARNED", "BREAKERS", "QUOTAS"])];
    rows.extend(response.scopes.iter().map(|scope| {
        vec![
            format!("{}/{}", printable(&scope.provider), printable(&scope.account)),
            scope.floors.to_string(),
            scope.learned.to_string(),
            scope.breakers.to_string(),
            scope.quotas.to_string(),
        ]
    }));
    let head =
        if is_trial { "would be forgotten; it cannot be undone" } else { "forgotten; what is still true is learned anew" };
    let tail = if is_trial { "Nothing was changed (--dry-run).\n" } else { "" };
    format!("{head}\n{}{tail}", table(&rows, "  "))
}

pub(super) fn list(controls: &[Control]) -> String {
    if controls.is_empty() {
        return "no controls are in force: the configuration holds\n".to_owned();
    }
    let mut rows = vec![row(["ID", "WHAT", "FOR", "ENDS IN", "SAID", "BY", "WHY"])];
    rows.extend(controls.iter().map(|control| {
        vec![
            control.id.to_string(),
            printable(&control.says),
            printable(&control.touches),
            length(control.ends_in.as_ref()),
            format!("{} ago", length(control.age.as_ref())),
            printable(&control.who),
            printable(&control.reason),
        ]
    }));
    let mut text = table(&rows, "");
    text.push_str("\nTo end them:\n");
    for control in controls {
        let _ = writeln!(text, "  {}", printable(&control.undo));
    }
    text
}
