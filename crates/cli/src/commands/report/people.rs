//! The report for people.

use std::fmt::Write as _;

use jiff::Timestamp;
use paceline_core::history::{Counts, Units};
use paceline_core::mode::Mode;
use paceline_core::units::Span;

use super::believe::{Doubt, listed};
use super::json::instant;
use super::price::usd;
use super::sum::{Refusals, Seen, Summary, percent};
use super::{Judged, Report};
use crate::commands::status::{printable, row, table};

/// The whole report.
pub(super) fn report(report: &Report) -> String {
    let mut text = String::new();
    for judged in &report.scopes {
        text.push_str(&scope(report, judged));
        text.push('\n');
    }
    if report.scopes.len() > 1 {
        text.push_str(&figures(report, "all together", &report.total));
        text.push('\n');
    }
    // Writing to a string cannot fail.
    if report.silent_replicas > 0 {
        let _ = writeln!(
            text,
            "{} did not answer: what they saw in the last ten seconds is missing.",
            times(u64::from(report.silent_replicas), "replica")
        );
    }
    let idle = if report.scopes.is_empty() { Vec::new() } else { report.idle_prices() };
    for meter in idle {
        let meters: Vec<&str> = report.meters.iter().map(String::as_str).collect();
        let used = if meters.is_empty() {
            "nothing is known of what calls used".to_owned()
        } else {
            format!("they used {}", listed(&meters))
        };
        let _ = writeln!(text, "The price of `{}` was used for nothing: no call has used any; {used}.", printable(meter));
    }
    let _ = match report.is_believable() {
        true => writeln!(text, "Believable: nothing speaks against these figures. IF ENFORCED is an estimate, to about 15 %."),
        false => writeln!(text, "NOT BELIEVABLE YET"),
    };
    write_doubts(&mut text, &report.doubts);
    text
}

fn scope(report: &Report, judged: &Judged) -> String {
    let Summary { provider, account, .. } = &judged.summary;
    let account = if account.is_empty() { "(no account)" } else { account.as_str() };
    let mut text = figures(report, &format!("{}/{}", printable(provider), printable(account)), &judged.summary);
    if !judged.doubts.is_empty() {
        text.push_str("  not believable yet:\n");
        write_doubts(&mut text, &judged.doubts);
    }
    text
}

fn write_doubts(text: &mut String, doubts: &[Doubt]) {
    for Doubt { code, what, then } in doubts {
        let _ = writeln!(text, "  - {code}: {what}\n    {then}");
    }
}

fn figures(report: &Report, name: &str, summary: &Summary) -> String {
    let (watched, enforced) = (summary.watched(), summary.enforced());
    let mut text = match summary.hours.first() {
        Some(first) => format!("{name}, in the {}\n", hours(report.now, summary.hours.len(), first)),
        None => format!("{name}: nothing was counted\n"),
    };
    let mut rows = vec![row(["", "WATCHED", "IF ENFORCED", "REALLY ENFORCED"])];
    let refusals = Refusals::of(watched);
    let really = Refusals::of(enforced);
    let would_ask = summary.would_ask();
    rows.push(vec!["calls".to_owned(), count(watched.asks), count(summary.would_send()), count(enforced.asks)]);
    rows.push(vec![
        "refused by the provider".to_owned(),
        part(refusals.now, watched.answers),
        part(refusals.left(), watched.answers - refusals.prevented.min(watched.answers)),
        part(really.now, enforced.answers),
    ]);
    rows.push(vec![
        "waited".to_owned(),
        "-".to_owned(),
        part(watched.waits.count, would_ask),
        part(enforced.waits.count, enforced.judged),
    ]);
    for (what, thousandths) in [("  half of those", 500), ("  99 of 100 of those", 990)] {
        let up_to = |counts: &Counts| match counts.waits.count {
            0 => "-".to_owned(),
            _ => format!("up to {}", counts.waits.quantile(thousandths)),
        };
        rows.push(vec![what.to_owned(), "-".to_owned(), up_to(watched), up_to(enforced)]);
    }
    rows.push(vec![
        "denied".to_owned(),
        "-".to_owned(),
        part(watched.all_denied(), would_ask),
        part(enforced.all_denied(), enforced.judged),
    ]);
    rows.push(vec![
        "sent again".to_owned(),
        part(watched.retries, watched.asks),
        part(watched.retries.saturating_sub(watched.needless), summary.would_send()),
        part(enforced.retries, enforced.asks),
    ]);
    if enforced.asks == 0 {
        rows.iter_mut().for_each(|cells| cells.truncate(3));
    }
    text.push_str(&table(&rows, "  "));
    for line in details(report, summary) {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// What does not fit into a table.
fn details(report: &Report, summary: &Summary) -> Vec<String> {
    let counts = summary.watched();
    let refusals = Refusals::of(counts);
    let mut lines = Vec::new();
    if refusals.now > 0 {
        let by_status = counts.refused.iter().map(|(status, times)| format!("{status} {}", count(*times)));
        lines.push(format!("refused with: {}", by_status.collect::<Vec<_>>().join(", ")));
    }
    if let Some(longest) = summary.longest_hour(Mode::Shadow) {
        lines.push(format!(
            "waits added: {} in all, {} each; most in the hour of {}, {}",
            counts.waits.total(),
            counts.waits.mean(),
            instant(report.now, longest.age),
            longest.counted.mode(Mode::Shadow).waits.total()
        ));
    }
    if !counts.denied.is_empty() {
        let by_reason = counts.denied.iter().map(|(reason, times)| format!("{} {}", printable(reason), count(*times)));
        lines.push(format!("would be denied: {}", by_reason.collect::<Vec<_>>().join(", ")));
    }
    if refusals.prevented > 0 {
        let again = match counts.needless {
            0 => String::new(),
            needless => format!(", and {} after them", times(needless, "further attempt")),
        };
        lines.push(format!("saved by enforcing: {}{again}", times(refusals.prevented, "refusal")));
    }
    lines.extend(spent(report, counts, "retries used", |units| units.retried));
    lines.extend(spent(report, counts, "refused calls used", |units| units.refused));
    lines
}

/// Units, and money where a price is stated.
fn spent(report: &Report, counts: &Counts, what: &str, of: impl Fn(&Units) -> u64 + Copy) -> Option<String> {
    let some = counts.units.iter().filter(|(_, units)| of(units) > 0);
    let units: Vec<String> = some.map(|(meter, units)| format!("{} {}", count(of(units)), printable(meter))).collect();
    let money = usd(&report.prices, counts, of).map_or_else(String::new, |usd| format!(" (${usd:.2})"));
    (!units.is_empty()).then(|| format!("{what}: {}{money}", units.join(", ")))
}

fn hours(now: Timestamp, with_calls: usize, first: &Seen) -> String {
    let since = instant(now, first.age);
    match with_calls {
        1 => format!("hour that began at {since}"),
        several => format!("{} since {since} ({several} hours with calls)", first.age.max(Span::from_secs(3_600))),
    }
}

/// A number with its thousands apart.
fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// So many of what is called `name` when it is one.
pub(super) fn times(number: u64, name: &str) -> String {
    format!("{} {name}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A number, and what part of a whole it is.
fn part(number: u64, whole: u64) -> String {
    match number {
        0 => "0".to_owned(),
        _ => format!("{} ({:.1} %)", count(number), percent(number, whole)),
    }
}
