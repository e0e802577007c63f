//! What was found, as it is pasted into the configuration. What is only guessed stands there as a comment.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use paceline_core::plan::Refill;
use paceline_core::signal::ObservedOwner;
use paceline_core::units::Span;

use super::found::{Bucket, Found, Sureness};
use super::plan::Plan;

/// Longer windows cannot be configured.
const LONGEST_WINDOW: Span = Span::from_secs(31 * 86_400);

/// Lines that `paceline check-config` takes.
pub(super) fn yaml(plan: &Plan, found: &Found) -> String {
    let mut text = String::from("providers:\n");
    line(&mut text, 1, &format!("{}:", quoted(&plan.name)));
    if !plan.is_known {
        line(&mut text, 2, "dialect: generic");
    }
    line(
        &mut text,
        2,
        "# Accounts of this provider that are not written here are refused; to let them pass: unknown_accounts: allow",
    );
    line(&mut text, 2, "accounts:");
    // What no model was named for is the whole account's.
    let is_groups = |bucket: &&Bucket| bucket.owner == ObservedOwner::Group && !plan.model.is_empty();
    let of_group: Vec<&Bucket> = found.buckets.iter().filter(is_groups).collect();
    let of_account: Vec<&Bucket> = found.buckets.iter().filter(|bucket| !is_groups(bucket)).collect();
    let (of_account, of_group) = (Limits::of(&of_account), Limits::of(&of_group));
    let is_empty = of_account.by_meter.is_empty() && of_group.by_meter.is_empty();
    let alias = quoted(&plan.account);
    line(&mut text, 3, &if is_empty { format!("{alias}: {{}}") } else { format!("{alias}:") });
    of_account.write(&mut text, 4);
    if !of_group.by_meter.is_empty() {
        line(&mut text, 4, "models:");
        line(&mut text, 5, &format!("{}:", quoted(&literal(&plan.model))));
        of_group.write(&mut text, 6);
    } else {
        of_group.write(&mut text, 4);
    }
    text
}

/// What is written under `limits:`, and why the rest is not.
#[derive(Default)]
struct Limits<'a> {
    by_meter: BTreeMap<&'a str, Vec<(Option<Span>, String)>>,
    comments: Vec<String>,
}

impl<'a> Limits<'a> {
    fn of(buckets: &[&'a Bucket]) -> Self {
        let mut limits = Self::default();
        // The lowest first: of two limits of one meter with one window that is the one that counts.
        let mut buckets = buckets.to_vec();
        buckets.sort_by_key(|bucket| bucket.limit);
        for bucket in buckets {
            let window = bucket.window.map(|(window, _)| window);
            let taken = limits.by_meter.get(bucket.meter.as_str()).is_some_and(|all| all.iter().any(|(of, _)| *of == window));
            match limit(bucket) {
                Ok(limit) if taken => limits.comments.push(format!("{}: {limit}   the limit above is lower", bucket.name)),
                Ok(limit) => limits.by_meter.entry(&bucket.meter).or_default().push((window, limit)),
                Err(why) => limits.comments.push(why),
            }
        }
        limits
    }

    fn write(&self, text: &mut String, depth: usize) {
        if !self.by_meter.is_empty() {
            line(text, depth, "limits:");
        }
        for (meter, limits) in &self.by_meter {
            let limits: Vec<&str> = limits.iter().map(|(_, limit)| limit.as_str()).collect();
            let value = if limits.len() == 1 { limits.concat() } else { format!("[{}]", limits.join(", ")) };
            line(text, depth + 1, &format!("{meter}: {value}"));
        }
        let depth = if self.by_meter.is_empty() { depth } else { depth + 1 };
        self.comments.iter().for_each(|comment| line(text, depth, &format!("# {comment}")));
    }
}

/// A limit as it is written, or why it is not.
fn limit(bucket: &Bucket) -> Result<String, String> {
    let meter = &bucket.meter;
    let is_name = meter.starts_with(|c: char| c.is_ascii_lowercase())
        && meter.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let name: String = bucket.name.chars().filter(|c| !c.is_control()).collect();
    let Some(limit) = bucket.limit.filter(|_| is_name) else {
        return Err(format!("{name}: its limit is not told, and is learned"));
    };
    if bucket.refill == Some(Refill::Held) {
        return Ok(limit.to_string());
    }
    let refill = match bucket.refill {
        Some(Refill::Continuous) => ", refill: continuous",
        Some(Refill::Window) => ", refill: window",
        _ => "",
    };
    match bucket.window {
        Some((window, Sureness::Stated | Sureness::Reckoned)) if window <= LONGEST_WINDOW => {
            let (per, zone) = per(window, bucket);
            Ok(format!("{{limit: {limit}, per: {per}{zone}{refill}}}"))
        }
        Some((window, Sureness::Guessed)) => {
            let per = per(window, bucket).0;
            Err(format!(
                "{meter}: {{limit: {limit}, per: {per}{refill}}}   the window is a guess: two answers have not shown it"
            ))
        }
        Some((window, Sureness::AtLeast)) => Err(format!(
            "{meter}: {{limit: {limit}, per: {}}}   the window is a guess: it ends in {}",
            per(window, bucket).0,
            bucket.reset_in.unwrap_or(window)
        )),
        _ => Err(format!("{name}: limit {limit}, of which window is not told; it is learned")),
    }
}

/// The window as a configuration has it, and the zone where it is a calendar's.
fn per(window: Span, bucket: &Bucket) -> (String, String) {
    const DAY: i64 = 86_400;
    let secs = (window.as_micros() / 1_000_000).max(1);
    let is_calendars = bucket.refill != Some(Refill::Continuous);
    let zone = || bucket.zone.as_ref().map(|zone| format!(", zone: {zone}")).unwrap_or_default();
    match secs {
        DAY if is_calendars => ("day".to_owned(), zone()),
        604_800 if is_calendars => ("week".to_owned(), zone()),
        2_592_000 | 2_678_400 if is_calendars => ("month".to_owned(), zone()),
        1 => ("s".to_owned(), String::new()),
        60 => ("min".to_owned(), String::new()),
        3_600 => ("h".to_owned(), String::new()),
        secs if secs % 3_600 == 0 => (format!("{}h", secs / 3_600), String::new()),
        secs if secs % 60 == 0 => (format!("{}min", secs / 60), String::new()),
        secs => (format!("{secs}s"), String::new()),
    }
}

/// A model's name as a pattern that matches it and nothing else.
fn literal(model: &str) -> String {
    let is_special = |c: char| matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\');
    model.chars().flat_map(|c| is_special(c).then_some('\\').into_iter().chain([c])).collect()
}

/// A text in double quotes where YAML would read something else, or might.
fn quoted(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_')
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text);
    if is_plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

fn line(text: &mut String, depth: usize, content: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{:indent$}{content}", "", indent = depth * 2);
}
