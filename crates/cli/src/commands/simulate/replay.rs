//! Calls of the past against one configuration or two.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use paceline_core::signal::Source;
use paceline_core::units::Span;
use paceline_fleet_sim::calls::{self, PastCalls};
use paceline_fleet_sim::scenario::{Scenario, Written, replay, written};
use paceline_fleet_sim::{OURS, Outcome, Plan, known_strategy, run_all};
use paceline_provider_sim::LimitGroup;
use serde_json::json;

use super::{Past, SimulateArgs, SimulateFailure, plot, progress, threads};

/// One column of the result.
struct Variant<'a> {
    name: String,
    scenario: &'a Scenario,
    strategy: &'static str,
}

/// Reads the calls, sends them through each configuration, and writes what came of it.
pub(super) fn run(args: &SimulateArgs, past: Past<'_>, out: &mut dyn Write) -> Result<(), SimulateFailure> {
    let account = args.account.as_deref().map(|account| account.split_once('/').ok_or(SimulateFailure::BadAccount));
    let account = account.transpose()?;
    let (Past::Csv(file) | Past::Recording(file)) = past;
    let (name, text) = (file.display().to_string(), load(file)?);
    let past = match past {
        Past::Csv(_) => calls::read(&name, &text)?,
        Past::Recording(_) => calls::read_trace(&name, &text, account)?,
    };
    let mut base = replay(&provider(args)?, &past)?;
    base.name = file.file_stem().map_or_else(|| name.clone(), |stem| stem.to_string_lossy().into_owned());
    base.about = came(&past);
    let configured = configurations(args, &base, account)?;
    let mut variants: Vec<Variant<'_>> =
        configured.iter().map(|(name, scenario)| Variant { name: name.clone(), scenario, strategy: OURS }).collect();
    for strategy in &args.strategy {
        let strategy = known_strategy(strategy)?;
        if strategy != OURS {
            variants.push(Variant { name: strategy.to_owned(), scenario: &base, strategy });
        }
    }
    if let Some(path) = &args.plot {
        plot::check(path, variants.len())?;
    }
    let seeds = args.first_seed..args.first_seed.saturating_add(args.seeds.unwrap_or(1));
    let mut plans = Vec::new();
    for Variant { scenario, strategy, .. } in &variants {
        plans.extend(seeds.clone().map(|seed| Plan { scenario, strategy, seed }));
    }
    let outcomes = run_all(&plans, threads(args), progress)?;
    let per_variant = usize::try_from(seeds.end - seeds.start).unwrap_or(usize::MAX).max(1);
    let columns: Vec<(&str, &[Outcome])> =
        variants.iter().map(|variant| variant.name.as_str()).zip(outcomes.chunks(per_variant)).collect();
    if args.json {
        json_lines(out, &name, &columns)?;
    } else {
        table(out, &name, &past, &columns)?;
    }
    if let Some(path) = &args.plot {
        let drawn: Vec<plot::Drawn<'_>> =
            variants.iter().map(|variant| (variant.name.clone(), variant.scenario, variant.strategy)).collect();
        plot::write(path, &drawn, args.first_seed)?;
    }
    Ok(())
}

fn load(path: &Path) -> Result<String, SimulateFailure> {
    std::fs::read_to_string(path).map_err(|source| SimulateFailure::Read { path: path.display().to_string(), source })
}

/// The scenario whose provider the calls meet.
fn provider(args: &SimulateArgs) -> Result<Written, SimulateFailure> {
    match (args.scenario.as_slice(), &args.limit) {
        ([], None) => Err(SimulateFailure::NoProvider),
        ([], Some(limits)) => Ok(of_limits(limits)),
        ([one], _) => Ok(written(one, |path| std::fs::read_to_string(path))?),
        _ => Err(SimulateFailure::SeveralProviders),
    }
}

/// A scenario file with these limits and nothing else.
fn of_limits(group: &LimitGroup) -> Written {
    let limit = |limit: &paceline_provider_sim::Limit| {
        let burst = limit.burst.map(|burst| format!(",burst={burst}")).unwrap_or_default();
        format!("{}: \"{}/{}us{burst}\"", limit.meter, limit.units, limit.per.as_micros())
    };
    let limits: Vec<String> = group.limits.iter().map(limit).collect();
    let text = format!("provider: {{limits: {{{}}}}}\n", limits.join(", "));
    Written { name: "calls".to_owned(), file: "--limit".to_owned(), text }
}

fn configurations(
    args: &SimulateArgs,
    base: &Scenario,
    account: Option<(&str, &str)>,
) -> Result<Vec<(String, Scenario)>, SimulateFailure> {
    let files: Vec<&PathBuf> = args.config.iter().chain(&args.against).collect();
    if files.is_empty() {
        return Ok(vec![(OURS.to_owned(), base.clone())]);
    }
    let one = |path: &&PathBuf| {
        let name = path.display().to_string();
        let scenario = base.clone().configured(&name, &load(path)?, account)?;
        Ok((name, scenario))
    };
    files.iter().map(one).collect()
}

/// A line per variant and seed: what `simulate --json` writes, and whose it is.
fn json_lines(out: &mut dyn Write, name: &str, columns: &[(&str, &[Outcome])]) -> io::Result<()> {
    for (variant, outcomes) in columns {
        for outcome in *outcomes {
            let mut line = outcome.to_json();
            if let Some(fields) = line.as_object_mut() {
                fields.insert("calls".into(), json!(name));
                fields.insert("config".into(), json!(variant));
            }
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

fn came(past: &PastCalls) -> String {
    let length = past.calls.last().map_or(Span::ZERO, |call| call.at);
    format!("{} calls that came within {length}", past.calls.len())
}

/// How a figure of several seeds reads: that of the worst.
type Figure = fn(&Outcome) -> f64;
/// A row of the table: its title, what it shows, and how that is written.
type Row<'a> = (&'a str, Figure, &'a dyn Fn(f64) -> String);

fn table(out: &mut dyn Write, name: &str, past: &PastCalls, columns: &[(&str, &[Outcome])]) -> io::Result<()> {
    writeln!(out, "{name}: {}", came(past))?;
    if !past.ignored.is_empty() {
        writeln!(out, "Columns that nothing was read from: {}", past.ignored.join(", "))?;
    }
    let width = columns.iter().map(|(name, _)| name.chars().count() + 2).max().unwrap_or(0).max(14);
    write!(out, "\n{:<28}", "")?;
    for (name, _) in columns {
        write!(out, "{name:>width$}")?;
    }
    writeln!(out, "{}", if compares(columns) { "      change" } else { "" })?;
    let secs = |value: f64| format!("{value:.1} s");
    let percent = |value: f64| format!("{:.2} %", value * 100.0);
    let count = |value: f64| format!("{value:.0}");
    let rows: [Row<'_>; 8] = [
        ("all over after", |run| run.makespan.as_secs_f64(), &secs),
        ("the least possible", |run| run.clairvoyant.as_secs_f64(), &secs),
        ("calls sent", |run| run.sends as f64, &count),
        ("rejected or failed", Outcome::rejected_share, &percent),
        ("given up", |run| run.given_up as f64, &count),
        ("wait, median", |run| run.wait_p50.as_secs_f64(), &secs),
        ("wait, 99th percentile", |run| run.wait_p99.as_secs_f64(), &secs),
        ("  of interactive calls", |run| run.interactive_wait_p99.as_secs_f64(), &secs),
    ];
    for (title, figure, text) in rows {
        row(out, width, title, columns, figure, text)?;
    }
    writeln!(out, "Seconds waited, by what for:")?;
    for (number, source) in Source::ALL.into_iter().enumerate() {
        let of = |run: &Outcome| run.delays.get(number).map_or(0.0, |delay| delay.as_secs_f64());
        if columns.iter().any(|(_, runs)| runs.iter().any(|run| of(run) > 0.0)) {
            let title = format!("  {}", source.name().replace('_', " "));
            row(out, width, &title, columns, of, &count)?;
        }
    }
    Ok(())
}

fn row(
    out: &mut dyn Write,
    width: usize,
    title: &str,
    columns: &[(&str, &[Outcome])],
    figure: impl Fn(&Outcome) -> f64,
    text: &dyn Fn(f64) -> String,
) -> io::Result<()> {
    let worst: Vec<f64> = columns.iter().map(|(_, runs)| runs.iter().map(&figure).fold(0.0, f64::max)).collect();
    write!(out, "{title:<28}")?;
    for value in &worst {
        write!(out, "{:>width$}", text(*value))?;
    }
    match worst.as_slice() {
        [new, old] if compares(columns) => writeln!(out, "{:>12}", change(*new, *old)),
        _ => writeln!(out),
    }
}

/// Two columns are compared: the first with the second.
fn compares(columns: &[(&str, &[Outcome])]) -> bool {
    columns.len() == 2
}

fn change(new: f64, old: f64) -> String {
    if (new - old).abs() < 1e-9 {
        "same".to_owned()
    } else if old <= 0.0 {
        "from none".to_owned()
    } else {
        format!("{:+.1} %", (new / old - 1.0) * 100.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn limits_become_a_scenario_that_reads_back() {
        let group: LimitGroup = "requests=1200/min,burst=40,tokens=1.5M/min".parse().unwrap();
        let past = calls::read("calls.csv", "time,tokens\n0,100\n").unwrap();
        let scenario = replay(&of_limits(&group), &past).unwrap();
        assert_eq!(scenario.limits().cloned().collect::<Vec<_>>(), group.limits);
    }

    #[test]
    fn changes_read_well() {
        for (new, old, text) in [(1.0, 1.0, "same"), (1.0, 0.0, "from none"), (110.0, 100.0, "+10.0 %"), (0.0, 5.0, "-100.0 %")]
        {
            assert_eq!(change(new, old), text);
        }
    }
}
