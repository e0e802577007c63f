//! `paceline simulate`: fleets in virtual time, with the service and without it.

mod plot;
mod replay;
mod table;
mod timeline;

use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use paceline_fleet_sim::calls::CallsError;
use paceline_fleet_sim::plot::PlotError;
use paceline_fleet_sim::scenario::{SUITE, Scenario, Selection, select};
use paceline_fleet_sim::{OURS, Outcome, Plan, SimulateError, compare, known_strategy, run_all, strategies};
use paceline_provider_sim::LimitGroup;

const EXAMPLES: &str = "\
Examples:
  # Every scenario: Paceline over 20 seeds, what workers do alone over 3
  paceline simulate --suite

  # One scenario, Paceline only: the quick look while something is being changed
  paceline simulate --scenario window --strategy paceline --seeds 20

  # What scenarios and strategies there are; the file behind one of them
  paceline simulate --list
  paceline simulate --print named-bucket

  # What happened in one run, second by second
  paceline simulate --scenario window --strategy paceline --timeline

  # A scenario of your own, for programs
  paceline simulate --scenario ./mine.yaml --json

  # Ours beside two others, as a picture
  paceline simulate --scenario window --strategy paceline --strategy full-jitter --plot window.svg

  # Calls of the past, through the configuration that is planned and the one that is in force
  paceline simulate --calls calls.csv --limit 1200/min --config new.yaml --against old.yaml

  # The same with what `paceline serve --record calls.jsonl` recorded
  paceline simulate --trace calls.jsonl --limit 1200/min --config new.yaml --against old.yaml

Time is virtual and everything random comes from the seed: the same command prints the same numbers.
With --json each line is {\"scenario\",\"strategy\",\"seed\",\"makespan_s\",\"clairvoyant_s\",\"rejected_share\",
\"calls_per_job\",\"wait_p50_s\",\"wait_p99_s\",\"jain\",\"pass\",\"delay_s_by_source\",...}. The exit status is 1
when Paceline misses what a scenario expects.";

/// Seeds of ours over the suite.
const SUITE_SEEDS: u64 = 20;
/// Seeds of the others, and of everything outside of the suite.
const FEW_SEEDS: u64 = 3;

/// Simulates fleets in virtual time: Paceline beside what workers do alone.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, after_help = "See --help for examples.")]
pub(crate) struct SimulateArgs {
    /// All scenarios that come with Paceline.
    #[arg(long, conflicts_with = "scenario")]
    suite: bool,

    /// A scenario by name, or a file of your own; repeatable.
    #[arg(long, value_name = "NAME|FILE")]
    scenario: Vec<String>,

    /// A strategy by name; `paceline` is ours; repeatable. Without it: all of them.
    #[arg(long, value_name = "NAME")]
    strategy: Vec<String>,

    /// How many seeds, from 1; 20 of the suite for ours unless said otherwise, else 3. Others get 3 at most unless named.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: Option<u64>,

    /// The first seed.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    first_seed: u64,

    /// One JSON object per scenario, strategy and seed.
    #[arg(long)]
    json: bool,

    /// Name the scenarios and the strategies.
    #[arg(long, conflicts_with_all = ["suite", "scenario", "json"])]
    list: bool,

    /// Print the file of a scenario that comes with Paceline.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["suite", "scenario", "json", "list"])]
    print: Option<String>,

    /// What happened in each second of one run as CSV: sends, rejections, the provider's level, who waited and why.
    #[arg(long, requires = "scenario", conflicts_with_all = ["suite", "json", "list", "print"])]
    timeline: bool,

    /// Draw the runs side by side: an SVG or a PNG, by the end of the name. One seed of each, 16 runs at most.
    #[arg(long, value_name = "FILE", value_parser = plot::file, conflicts_with_all = ["list", "print", "timeline"])]
    plot: Option<PathBuf>,

    /// Calls of the past as CSV: `time`, and as far as known `model`, `class`, `tenant`, `duration`, `tokens`, ... They meet the
    /// provider of --scenario, or of --limit, in place of a fleet.
    #[arg(long, value_name = "FILE", group = "past", conflicts_with_all = ["suite", "list", "print", "timeline"])]
    calls: Option<PathBuf>,

    /// The same from a recording: what `paceline serve --record FILE` wrote.
    #[arg(long, value_name = "FILE", group = "past", conflicts_with_all = ["suite", "list", "print", "timeline"])]
    trace: Option<PathBuf>,

    /// What the provider of --calls or --trace limits: METER=UNITS/WINDOW, several joined by commas.
    #[arg(long, value_name = "LIMIT", requires = "past", conflicts_with = "scenario")]
    limit: Option<LimitGroup>,

    /// The service's configuration for --calls or --trace; without it, it is told the provider's limits.
    #[arg(long, value_name = "FILE", requires = "past")]
    config: Option<PathBuf>,

    /// A second configuration, side by side with the first.
    #[arg(long, value_name = "FILE", requires = "config")]
    against: Option<PathBuf>,

    /// The account whose calls of a recording are meant, and that of the configurations they go to, where there are several.
    #[arg(long, value_name = "PROVIDER/ACCOUNT", requires = "past")]
    account: Option<String>,

    /// How many runs at once; as many as there are cores unless said otherwise.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    threads: Option<u16>,
}

/// Why a simulation failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SimulateFailure {
    /// It cannot be run.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
    /// Ours missed what was expected.
    #[error("Paceline missed what is expected in {missed} of {runs} runs: {scenarios}")]
    Missed {
        /// How many runs missed it.
        missed: usize,
        /// Of how many of ours.
        runs: usize,
        /// In which scenarios.
        scenarios: String,
    },
    /// The calls of the past cannot be read.
    #[error(transparent)]
    Calls(#[from] CallsError),
    /// There is no plot.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// A plot that cannot be stored.
    #[error("the plot {path} cannot be written: {source}")]
    PlotFile {
        /// Where to.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file that cannot be read.
    #[error("{path} cannot be read: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// Calls without a provider.
    #[error(
        "say what the provider of these calls limits: --limit requests=1200/min,tokens=1.5M/min, or a --scenario with its provider"
    )]
    NoProvider,
    /// Calls that meet one provider only.
    #[error("calls of the past meet one provider: give one --scenario")]
    SeveralProviders,
    /// An account without its provider.
    #[error("--account is written PROVIDER/ACCOUNT, such as openai/prod")]
    BadAccount,
    /// The result cannot be written.
    #[error("simulate stopped: {0}")]
    Output(#[from] io::Error),
}

/// Where calls of the past come from.
#[derive(Clone, Copy, Debug)]
enum Past<'a> {
    /// A log as CSV.
    Csv(&'a Path),
    /// What the service recorded.
    Recording(&'a Path),
}

/// Runs what was asked for and writes it to `out`.
///
/// # Errors
/// Unknown names, wrong files, expectations that ours missed, an output that is closed.
pub(crate) fn run(args: &SimulateArgs, out: &mut dyn Write) -> Result<(), SimulateFailure> {
    if args.list {
        return list(out);
    }
    if let Some(name) = &args.print {
        return print(name, out);
    }
    if let Some(past) = args.calls.as_deref().map(Past::Csv).or(args.trace.as_deref().map(Past::Recording)) {
        return replay::run(args, past, out);
    }
    let selection = if args.scenario.is_empty() { Selection::Suite } else { Selection::Named(args.scenario.clone()) };
    let scenarios = select(&selection, |path| std::fs::read_to_string(path))?;
    let chosen: Vec<&str> = if args.strategy.is_empty() {
        strategies().iter().map(|(name, _)| *name).collect()
    } else {
        args.strategy.iter().map(|name| known_strategy(name)).collect::<Result<_, _>>()?
    };
    if args.timeline {
        return timeline::write(out, &scenarios, &chosen, args.first_seed);
    }
    let pairs = || scenarios.iter().flat_map(|scenario| chosen.iter().map(move |strategy| (scenario, *strategy)));
    if let Some(path) = &args.plot {
        plot::check(path, pairs().count())?;
    }
    let plans = plans(args, &scenarios, &chosen);
    let mut outcomes = run_all(&plans, threads(args), progress)?;
    compare(&mut outcomes);
    if args.json {
        for outcome in &outcomes {
            writeln!(out, "{}", outcome.to_json())?;
        }
    } else {
        table::write(out, &scenarios, &outcomes)?;
    }
    if let Some(path) = &args.plot {
        let drawn: Vec<plot::Drawn<'_>> =
            pairs().map(|(scenario, strategy)| (strategy.to_owned(), scenario, strategy)).collect();
        plot::write(path, &drawn, args.first_seed)?;
    }
    judge(&outcomes)
}

fn plans<'a>(args: &SimulateArgs, scenarios: &'a [Scenario], chosen: &[&'a str]) -> Vec<Plan<'a>> {
    let ours = args.seeds.unwrap_or(if args.scenario.is_empty() { SUITE_SEEDS } else { FEW_SEEDS });
    let others = if args.strategy.is_empty() { ours.min(FEW_SEEDS) } else { args.seeds.unwrap_or(FEW_SEEDS) };
    let mut plans = Vec::new();
    for scenario in scenarios {
        for strategy in chosen {
            let seeds = if *strategy == OURS { ours } else { others };
            let seeds = args.first_seed..args.first_seed.saturating_add(seeds);
            plans.extend(seeds.map(|seed| Plan { scenario, strategy, seed }));
        }
    }
    plans
}

fn threads(args: &SimulateArgs) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    args.threads.map_or_else(cores, usize::from)
}

/// One line on a terminal's stderr, rewritten; nothing elsewhere.
fn progress(ended: usize, of: usize) {
    let mut stderr = io::stderr().lock();
    if of > 1 && stderr.is_terminal() {
        let end = if ended == of { "\r\x1b[K".to_owned() } else { format!("\r{ended} of {of} runs") };
        // Nothing depends on it.
        let _ = write!(stderr, "{end}").and_then(|()| stderr.flush());
    }
}

fn judge(outcomes: &[Outcome]) -> Result<(), SimulateFailure> {
    let ours: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.strategy == OURS).collect();
    let missed: Vec<&&Outcome> = ours.iter().filter(|outcome| !outcome.pass()).collect();
    if missed.is_empty() {
        return Ok(());
    }
    let mut scenarios: Vec<&str> = missed.iter().map(|outcome| outcome.scenario.as_str()).collect();
    scenarios.dedup();
    Err(SimulateFailure::Missed { missed: missed.len(), runs: ours.len(), scenarios: scenarios.join(", ") })
}

fn list(out: &mut dyn Write) -> Result<(), SimulateFailure> {
    writeln!(out, "Scenarios:")?;
    for scenario in select(&Selection::Suite, |path| std::fs::read_to_string(path))? {
        writeln!(out, "  {:<22} {}", scenario.name, scenario.about)?;
    }
    writeln!(out, "\nStrategies:")?;
    for (name, about) in strategies() {
        writeln!(out, "  {name:<22} {about}")?;
    }
    Ok(())
}

fn print(name: &str, out: &mut dyn Write) -> Result<(), SimulateFailure> {
    // Its own error says which names there are.
    paceline_fleet_sim::scenario::builtin(name)?;
    let text = SUITE.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text);
    write!(out, "{text}")?;
    Ok(())
}
