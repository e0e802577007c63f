//! `limits:` and `concurrency:`: one meter, one or several windows.

use std::sync::Arc;

use paceline_core::calendar::{CalendarUnit, Zone};
use paceline_core::plan::Refill;
use paceline_core::units::Span;

use super::scalars::{amount, amount_of, window, word};
use crate::fields::{Fields, named};
use crate::model::{CONCURRENCY, Limit, of_meter};
use crate::problem::{Pos, Problem, Problems, suggest};
use crate::quantity;
use crate::tree::{Entry, Node, Value};

/// From this length on windows can be a calendar's.
pub(crate) const DAY: Span = Span::from_secs(86_400);
const LONGEST_METER: usize = 64;
const SHAPE: &str = "limits: {requests: 500/min, tokens: {limit: 200k, per: 1m}}";

/// Reads `limits` and `concurrency` out of a level's fields, sorted by meter and window.
pub(super) fn limits(fields: &mut Fields<'_>, problems: &mut Problems) -> Vec<Limit> {
    let mut out = Vec::new();
    if let Some(entry) = fields.take("limits") {
        let path = fields.join("limits");
        for meter in named(&entry.node, &path, SHAPE, problems) {
            if check_meter(meter, &path, problems) {
                one_meter(meter, &crate::problem::join(&path, &meter.key), &mut out, problems);
            }
        }
    }
    if let Some(entry) = fields.take(CONCURRENCY) {
        let path = fields.join(CONCURRENCY);
        if of_meter(&out, CONCURRENCY).next().is_some() {
            let message = "`concurrency` is written twice: here and under `limits`";
            problems.add(Problem::at(entry.key_pos, &path, message).help("remove one of them"));
        } else if let Some(limit) = concurrency(&entry.node, &path, problems) {
            out.push(limit);
        }
    }
    out.sort_by(|a, b| (&a.meter, a.per).cmp(&(&b.meter, b.per)));
    out
}

fn check_meter(entry: &Entry, path: &str, problems: &mut Problems) -> bool {
    let name = &entry.key;
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if !plain || name.len() > LONGEST_METER {
        let message = format!("`{}` is not a meter's name", name.chars().take(LONGEST_METER).collect::<String>());
        let help = "a meter is written in small letters, digits and _: requests, input_tokens, images";
        problems.add(Problem::at(entry.key_pos, path, message).help(help));
        return false;
    }
    if name == "usd" {
        let message = "the meter `usd` is known, but not available in this version";
        problems.add(Problem::at(entry.key_pos, path, message).help("limit `requests` or `tokens` instead"));
        return false;
    }
    let windows = ["second", "minute", "hour", "day", "week", "month"];
    if let Some((meter, window)) = name.rsplit_once('_').filter(|(_, window)| windows.contains(window)) {
        let message = format!("`{name}` is the name of a bucket, not of a meter");
        problems.add(Problem::at(entry.key_pos, path, message).help(format!("write {meter}: {{limit: 500, per: {window}}}")));
        return false;
    }
    true
}

fn one_meter(entry: &Entry, path: &str, out: &mut Vec<Limit>, problems: &mut Problems) {
    if entry.key == CONCURRENCY {
        out.extend(concurrency(&entry.node, path, problems));
        return;
    }
    let meter: Arc<str> = Arc::from(entry.key.as_str());
    let items = match &entry.node.value {
        Value::List(items) => items.as_slice(),
        _ => std::slice::from_ref(&entry.node),
    };
    if items.is_empty() {
        problems.add(Problem::at(entry.node.pos, path, "the list of limits is empty").help(format!("write {SHAPE}")));
    }
    for item in items {
        let Some(limit) = one_limit(item, &meter, path, problems) else { continue };
        let twin = of_meter(out, &meter).find(|earlier| earlier.per == limit.per).map(|earlier| earlier.pos);
        match twin {
            Some(pos) => {
                let message = format!("two limits of `{meter}` have the same window");
                let help = format!("keep the lower one; the other is at {pos}");
                problems.add(Problem::at(item.pos, path, message).help(help));
            }
            None => out.push(limit),
        }
    }
}

/// `500/min`, or a map with `limit` and `per`.
fn one_limit(node: &Node, meter: &Arc<str>, path: &str, problems: &mut Problems) -> Option<Limit> {
    match &node.value {
        Value::Map(_) => limit_map(node, meter, path, problems),
        Value::Int(_) | Value::Float(_) | Value::Text(_) => {
            let text = node.scalar().unwrap_or_default();
            match Amount::rate(&text) {
                Ok(Amount { units: 0, .. }) => {
                    let message = "a limit of 0 lets nothing through";
                    problems.add(Problem::at(node.pos, path, message).help("write at least 1, or remove the line"));
                    None
                }
                Ok(rate) => Some(plain(meter, node.pos, rate)),
                Err(bad) => {
                    problems.add(Problem::at(node.pos, path, bad.message).help(bad.help));
                    None
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::List(_) => {
            let message = format!("{} where a limit is due", node.kind());
            problems.add(Problem::at(node.pos, path, message).help("write 500/min or {limit: 500, per: 1m}"));
            None
        }
    }
}

/// So many units per window.
#[derive(Clone, Copy)]
struct Amount {
    units: u64,
    /// `None`: of what is held.
    per: Option<Span>,
    unit: Option<CalendarUnit>,
}

impl Amount {
    fn rate(text: &str) -> Result<Self, quantity::Bad> {
        let (units, per) = quantity::rate(text)?;
        let unit = text.split_once('/').and_then(|(_, window)| quantity::calendar_unit(window));
        Ok(Self { units, per: Some(per), unit })
    }
}

fn plain(meter: &Arc<str>, pos: Pos, rate: Amount) -> Limit {
    let Amount { units: limit, per, unit } = rate;
    Limit { meter: meter.clone(), pos, limit, per, unit, zone: None, capacity: None, burst: None, refill: None }
}

fn limit_map(node: &Node, meter: &Arc<str>, path: &str, problems: &mut Problems) -> Option<Limit> {
    let mut fields = Fields::open(node, path, "{limit: 200k, per: 1m}", problems)?;
    let refill = fields.take("refill").map(|entry| {
        let words = [("continuous", Refill::Continuous), ("window", Refill::Window), ("held", Refill::Held)];
        word(&entry.node, &fields.join("refill"), &words, problems)
    });
    let refill = refill.flatten();
    if refill == Some(Refill::Held) {
        return stock(fields, node, meter, problems);
    }
    let rate = limit_and_window(&mut fields, node, problems);
    let whole = rate.map(|rate| rate.units);
    let capacity = fields.take("capacity").map(|entry| amount_of(&entry.node, whole, &fields.join("capacity"), problems));
    let burst = fields.take("burst").map(|entry| (entry, amount_of(&entry.node, whole, &fields.join("burst"), problems)));
    let zone = fields.take("zone").and_then(|entry| zone(entry, &fields.join("zone"), rate, refill, problems));
    fields.close(problems);

    let rate = rate?;
    let capacity = capacity.flatten();
    if let Some((entry, Some(burst))) = &burst {
        let most = capacity.unwrap_or(rate.units);
        if *burst > most {
            let message = format!("the burst of {burst} is larger than the capacity of {most}");
            problems
                .add(Problem::at(entry.node.pos, path, message).help("a burst is at most the capacity (default: the limit)"));
        }
    }
    Some(Limit { capacity, burst: burst.and_then(|(_, burst)| burst), refill, zone, ..plain(meter, node.pos, rate) })
}

/// A stock: units that are held until the call ends, such as the tokens of batch jobs that wait at the provider.
fn stock(mut fields: Fields<'_>, node: &Node, meter: &Arc<str>, problems: &mut Problems) -> Option<Limit> {
    for key in ["per", "zone", "burst", "capacity"] {
        if let Some(entry) = fields.take(key) {
            let message = format!("what is held until a call ends has no `{key}`");
            problems.add(Problem::at(entry.key_pos, &fields.join(key), message).help("write {limit: 2M, refill: held}"));
        }
    }
    let limit = fields.take("limit");
    let units = match &limit {
        Some(entry) => amount(&entry.node, &fields.join("limit"), problems),
        None => {
            let missing = Problem::at(node.pos, &fields.path, "`limit` is missing");
            problems.add(missing.help("write {limit: 2M, refill: held}"));
            None
        }
    };
    fields.close(problems);
    let rate = Amount { units: units?, per: None, unit: None };
    Some(Limit { refill: Some(Refill::Held), ..plain(meter, node.pos, rate) })
}

/// `limit: 200k` with `per: 1m`, or `limit: 200k/min` alone.
fn limit_and_window(fields: &mut Fields<'_>, node: &Node, problems: &mut Problems) -> Option<Amount> {
    let (limit, per) = (fields.take("limit"), fields.take("per"));
    let missing = |what: &str, help: &str| Problem::at(node.pos, &fields.path, format!("`{what}` is missing")).help(help);
    let Some(limit) = limit else {
        problems.add(missing("limit", "write {limit: 200k, per: 1m}"));
        return None;
    };
    let path = fields.join("limit");
    let combined = limit.node.scalar().filter(|text| text.contains('/'));
    match (combined, per) {
        (Some(text), None) => match Amount::rate(&text) {
            Ok(Amount { units: 0, .. }) => {
                problems.add(Problem::at(limit.node.pos, &path, "a limit of 0 lets nothing through").help("write at least 1"));
                None
            }
            Ok(rate) => Some(rate),
            Err(bad) => {
                problems.add(Problem::at(limit.node.pos, &path, bad.message).help(bad.help));
                None
            }
        },
        (_, Some(per)) => {
            let units = amount(&limit.node, &path, problems);
            let unit = per.node.scalar().and_then(|text| quantity::calendar_unit(&text));
            let per = window(&per.node, &fields.join("per"), problems);
            units.zip(per).map(|(units, per)| Amount { units, per: Some(per), unit })
        }
        (None, None) => {
            let units = amount(&limit.node, &path, problems);
            let help = "say the window: per: s, min, h, day, week or month; or refill: held for what is held until a call ends";
            problems.add(missing("per", help));
            units.and(None)
        }
    }
}

/// Where the days of a calendar's window end.
fn zone(entry: &Entry, path: &str, rate: Option<Amount>, refill: Option<Refill>, problems: &mut Problems) -> Option<Zone> {
    let problem = if rate.is_some_and(|rate| rate.unit.is_none()) {
        Problem::at(entry.key_pos, path, "a zone is for windows of a day, a week or a month")
            .help("remove `zone`, or write per: day")
    } else if refill == Some(Refill::Continuous) {
        Problem::at(entry.key_pos, path, "what refills evenly has no day that ends")
            .help("remove `zone`, or write refill: window")
    } else {
        let written = entry.node.scalar();
        if let Some(zone) = written.as_deref().and_then(Zone::named) {
            return Some(zone);
        }
        let name = written.unwrap_or_default();
        let message = format!("nobody knows the time zone `{}`", name.chars().take(LONGEST_METER).collect::<String>());
        let names = Zone::names();
        let meant = match suggest(&name, names.iter().map(String::as_str)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "write its IANA name: America/Los_Angeles, Europe/Berlin, UTC".to_owned(),
        };
        Problem::at(entry.node.pos, path, message).help(meant)
    };
    problems.add(problem);
    None
}

/// Calls in flight: a plain number.
fn concurrency(node: &Node, path: &str, problems: &mut Problems) -> Option<Limit> {
    if node.scalar().is_some_and(|text| text.contains('/')) {
        let message = "calls in flight have no window";
        problems.add(Problem::at(node.pos, path, message).help("write a plain number: concurrency: 64"));
        return None;
    }
    let rate = Amount { units: amount(node, path, problems)?, per: None, unit: None };
    Some(Limit { refill: Some(Refill::Held), ..plain(&Arc::from(CONCURRENCY), node.pos, rate) })
}
