//! `paceline demo`: a fleet of workers with and without Paceline, side by side, over real gRPC and HTTP, in one process.

mod alone;
mod fleet;
mod outcome;
mod plan;
mod provider;
mod service;
mod table;
mod tally;
mod text;
mod together;
mod view;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use paceline_core::units::Span;
use paceline_provider_sim::{Dialect, Limit, SimError, parse_amount, parse_span};
use paceline_server::ServeError;

use outcome::{Outcome, Strategy};
use plan::{Plan, PlanError, Tokens, Wish};
use text::{Share, grouped, parse_rate, parse_share, rate_text};
use view::Screen;

const EXAMPLES: &str = "\
Examples:
  # 200 workers, 800 calls, limits that only the provider's headers tell
  paceline demo

  # Your fleet and your limits
  paceline demo --workers 50 --limit 500/min --tokens 200k/min --call-tokens 800

  # A provider that tells no limits: the service is told them instead
  paceline demo --provider retry-after

  # For programs: one JSON object per run
  paceline demo --json

Nothing is needed and nothing outside of this machine is called. Each run starts its own mock
provider with the same seed, and the one with Paceline the service that `paceline serve` runs. A
worker without Paceline does as the SDKs of today do: it waits exactly as long as Retry-After says,
and backs off exponentially where nothing is said; but it never gives up.";

/// A fleet with and without Paceline, side by side: the service, a mock provider and workers over real gRPC and HTTP.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, after_help = "See --help for examples.")]
pub(crate) struct DemoArgs {
    /// How many workers; each has one call at a time.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    workers: u32,

    /// How many calls in all, rounded up so that every worker has as many as the others [default: what the limits let through in
    /// 18 s].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    jobs: Option<u32>,

    /// The provider's limit of requests [default: 2400/min, and 400/10s where limits count in windows].
    #[arg(long, value_name = "UNITS/WINDOW", value_parser = parse_limit)]
    limit: Option<Limit>,

    /// The provider's limit of tokens, or `none` [default: 3M/min, and 500k/10s where limits count in windows].
    #[arg(long, value_name = "UNITS/WINDOW", value_parser = parse_tokens)]
    tokens: Option<Tokens>,

    /// Tokens of a call; they vary by half around it.
    #[arg(long, value_name = "UNITS", default_value = "1000", value_parser = parse_amount)]
    call_tokens: u64,

    /// How the provider answers: openai; generic, ietf, ietf-trio (whose limits count in windows); retry-after (tells no limits);
    /// bare (tells nothing).
    #[arg(long, value_name = "NAME", default_value = "openai")]
    provider: Dialect,

    /// How long an answer takes; they vary by a third around it. A refusal takes a third of it.
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = parse_span)]
    latency: Span,

    /// What is left of the limits when the fleet starts: it is not the first to use them. With 100% Paceline spreads what has been
    /// saved up over some seconds, which a short run shows as lost time.
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = parse_share)]
    left: Share,

    /// Tell the service the limits, as a configuration file would; otherwise it learns them from the provider's headers, if there
    /// are any.
    #[arg(long)]
    configured: bool,

    /// Decides what calls cost and how long answers take.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Run only one of the two.
    #[arg(long, value_name = "WHICH")]
    only: Option<Which>,

    /// Print one JSON object per run, and nothing else, on standard output.
    #[arg(long)]
    json: bool,
}

/// One of the two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// The fleet with Paceline.
    Paceline,
    /// The fleet without it.
    Alone,
}

/// Why the demo did not run to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    /// The flags make no demo.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No port for the provider.
    #[error("the mock provider cannot listen on 127.0.0.1: {0}")]
    Listen(io::Error),
    /// The service did not start.
    #[error("the demo's service did not start: {0}")]
    Service(#[from] ServeError),
    /// The service's configuration could not be written.
    #[error("cannot write the service's configuration to {}: {source}; set TMPDIR to a folder that can be written", path.display())]
    Config {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A worker got no slot.
    #[error("a worker got no slot: {0}")]
    Slot(#[from] paceline_client::Error),
    /// A worker could not call the provider.
    #[error(
        "a worker could not call the mock provider: {0}; each worker has a connection of two file descriptors, so with many raise \
         `ulimit -n` or lower --workers"
    )]
    Call(String),
    /// Nobody can look at the service.
    #[error("the live view cannot reach the service: {0}")]
    Inspect(String),
    /// A bug.
    #[error("a worker stopped: {0}")]
    Worker(String),
    /// Standard output is gone.
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
}

/// Runs the fleet with Paceline and without, and prints both side by side.
///
/// # Errors
/// Flags that make no demo; no ports, no file descriptors; standard output that is gone.
pub(crate) async fn run(args: DemoArgs) -> Result<(), DemoError> {
    let (only, json, screen) = (args.only, args.json, Screen::fitting(args.json));
    let plan = Arc::new(Plan::new(args.wish())?);
    let strategies: &[Strategy] = match only {
        None => &[Strategy::Paceline, Strategy::Alone],
        Some(Which::Paceline) => &[Strategy::Paceline],
        Some(Which::Alone) => &[Strategy::Alone],
    };
    screen.say(&introduction(&plan, strategies.len())?);
    let mut outcomes: Vec<Outcome> = Vec::new();
    for strategy in strategies {
        let outcome = fleet::run(&plan, *strategy, screen).await?;
        if json {
            print(&format!("{}\n", outcome.to_json()))?;
        }
        outcomes.push(outcome);
    }
    if !json {
        print(&format!("\n{}{}", table::table(&outcomes), table::next_steps()))?;
    }
    Ok(())
}

impl DemoArgs {
    fn wish(self) -> Wish {
        Wish {
            workers: self.workers,
            calls: self.jobs,
            limit: self.limit,
            tokens: self.tokens.unwrap_or_default(),
            call_tokens: self.call_tokens,
            dialect: self.provider,
            latency: self.latency,
            left: self.left,
            configured: self.configured,
            seed: self.seed,
        }
    }
}

fn introduction(plan: &Plan, runs: usize) -> Result<String, PlanError> {
    let limits: Vec<String> = plan.limits().map(rate_text).collect();
    let knows = match (plan.is_configured, plan::tells_limits(plan.dialect())) {
        (false, _) => "Paceline is told nothing: it learns the limits from the provider's headers.",
        (true, true) => "Paceline is told the limits.",
        (true, false) => "Paceline is told the limits, since this provider tells none.",
    };
    let best = plan.takes_at_best()?.as_secs_f64();
    Ok(format!(
        "{} workers with {} calls share one account of a mock provider ({}): {}, of which {:.0} % is left.\n{knows}\n{} about {}.\n",
        grouped(plan.workers as u64),
        grouped(plan.calls() as u64),
        plan.dialect(),
        limits.join(" and "),
        plan.left.0 * 100.0,
        if runs > 1 { "Each of the two runs takes" } else { "The run takes" },
        Span::from_secs(best.ceil() as i64),
    ))
}

fn parse_limit(text: &str) -> Result<Limit, SimError> {
    parse_rate("requests", text)
}

fn parse_tokens(text: &str) -> Result<Tokens, SimError> {
    if text.trim().eq_ignore_ascii_case("none") { Ok(Tokens::None) } else { parse_rate("tokens", text).map(Tokens::Limit) }
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[derive(Debug, clap::Parser)]
    struct Cli {
        #[command(flatten)]
        _args: super::DemoArgs,
    }

    #[test]
    fn every_flag_is_in_the_manual() {
        let manual = include_str!("../../../../docs/demo.md");
        let flags: Vec<String> = Cli::command().get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect();
        assert!(flags.len() >= 12, "{flags:?}");
        let missing: Vec<&String> = flags.iter().filter(|flag| !manual.contains(&format!("`--{flag}"))).collect();
        assert!(missing.is_empty(), "docs/demo.md lacks {missing:?}");
    }
}
