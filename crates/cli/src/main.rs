//! `paceline`: every command of the product in one binary.
//!
//! Each command is a module of `commands` with its arguments and a `run`; this file parses the command line, runs one of them
//! and turns how it ended into an exit status: 0 fine, 1 it failed, 2 the command line, or the store it names, was wrong.

mod commands;

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{
    bench, check_config, conformance, controls, demo, events, explain, mock_provider, probe, provider_files, report, serve,
    simulate, status, why,
};

/// Many small things live as long as a call does; the system's allocator takes a quarter of the time of an acquire for them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXAMPLES: &str = "\
Examples:
  # Run the service: state in memory, built-in catalogue, no configuration file needed
  paceline serve

  # See it work: a fleet with and without it, side by side, in less than a minute
  paceline demo

  # The same in virtual time, against what workers do alone: bad headers, outages, limits that change
  paceline simulate --suite

  # Look at it: scopes, limits, levels, who waits and for what
  paceline status

  # Why does this call wait, or what became of it?
  paceline why REQUEST_ID

  # What changed in the last hour, who did it and why?
  paceline events

  # What would it have done with the calls that it only watches?
  paceline report --shadow

  # Something is wrong: let batch calls wait for half an hour, so that chats get the whole limit
  paceline pause --provider openai --account prod --priority batch --for 30m --reason 'chats first'

  # What does this answer of a provider say?
  curl -si https://api.openai.com/v1/models | paceline explain --provider openai

  # Which limits does my key have, and what do I write into the configuration?
  paceline probe openai --key-env OPENAI_API_KEY

  # How fast does it answer?
  paceline bench

  # A provider to test a client against: refuses the first call for two seconds
  paceline mock-provider --first 1 --status 429 --retry-after 2

  # Does my worker keep the rules? In any language
  paceline conformance --worker node adapter.js

The exit status is 0 when all went well, 1 when the command failed and 2 when the command line was
wrong, or names a store that cannot be used as it is.";

/// A fleet-wide coordinated rate limiter for calls to rate-limited providers.
///
/// Workers ask it over gRPC when they may send, and report what the provider answered; what one of them learns, all of them know.
#[derive(Debug, Parser)]
#[command(name = "paceline", version, after_long_help = EXAMPLES, after_help = "See --help for examples.")]
#[command(max_term_width = 100, disable_help_subcommand = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::ServeArgs),
    Demo(demo::DemoArgs),
    Simulate(simulate::SimulateArgs),
    Status(status::StatusArgs),
    Why(why::WhyArgs),
    Events(events::EventsArgs),
    Report(report::ReportArgs),
    Mode(controls::ModeArgs),
    Pause(controls::PauseArgs),
    Resume(controls::ResumeArgs),
    Limit(controls::LimitArgs),
    Forget(controls::ForgetArgs),
    Controls(controls::ControlsArgs),
    Explain(explain::ExplainArgs),
    CheckConfig(check_config::CheckConfigArgs),
    Probe(probe::ProbeArgs),
    MockProvider(mock_provider::MockProviderArgs),
    Conformance(conformance::ConformanceArgs),
    Bench(bench::BenchArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output has read enough: `paceline status | head`.
        Err(failure) if failure.is_closed_output() => ExitCode::SUCCESS,
        Err(failure) => {
            let text = failure.to_string();
            // Lists of problems begin each with the word already. Nowhere else to say it if this fails too.
            let _ = writeln!(io::stderr().lock(), "error: {}", text.strip_prefix("error: ").unwrap_or(&text));
            failure.exit_code()
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => {
            args.provider_files.install()?;
            in_runtime(serve::run(args))?
        }
        Command::Demo(args) => in_runtime(demo::run(args))?,
        Command::Simulate(args) => simulate::run(&args, &mut io::stdout().lock())?,
        Command::Status(args) => in_runtime(status::run(args, &mut io::stdout()))?,
        Command::Why(args) => in_runtime(why::run(args, &mut io::stdout()))?,
        Command::Events(args) => in_runtime(events::run(args, &mut io::stdout()))?,
        Command::Report(args) => in_runtime(report::run(args, &mut io::stdout()))?,
        Command::Mode(args) => in_runtime(controls::mode(args, &mut io::stdout()))?,
        Command::Pause(args) => in_runtime(controls::pause(args, &mut io::stdout()))?,
        Command::Resume(args) => in_runtime(controls::resume(args, &mut io::stdout()))?,
        Command::Limit(args) => in_runtime(controls::limit(args, &mut io::stdout()))?,
        Command::Forget(args) => in_runtime(controls::forget(args, &mut io::stdout()))?,
        Command::Controls(args) => in_runtime(controls::list(args, &mut io::stdout()))?,
        Command::Explain(args) => {
            args.provider_files.install()?;
            let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
            explain::run(&args, &mut io::stdin().lock(), &mut io::stdout().lock(), colour)?;
        }
        Command::CheckConfig(args) => {
            args.provider_files.install()?;
            check_config::run(&args, &mut io::stdout().lock())?
        }
        Command::Probe(args) => {
            args.provider_files.install()?;
            in_runtime(probe::run(args, &mut io::stdout()))?
        }
        Command::MockProvider(args) => in_runtime(mock_provider::run(args))?,
        Command::Conformance(args) => in_runtime(conformance::run(args, &mut io::stdout()))?,
        Command::Bench(args) => in_runtime(bench::run(args, &mut io::stdout()))?,
    }
    Ok(())
}

/// Runs a command on all cores.
fn in_runtime<E>(command: impl Future<Output = Result<(), E>>) -> Result<(), Failure>
where
    Failure: From<E>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::Runtime)?;
    let ended = runtime.block_on(command).map_err(Failure::from);
    // What still runs must not keep us: a drain that took too long, a blocked read.
    runtime.shutdown_background();
    ended
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Serve(#[from] serve::ServeFailure),
    #[error(transparent)]
    Demo(#[from] demo::DemoError),
    #[error(transparent)]
    Simulate(#[from] simulate::SimulateFailure),
    #[error(transparent)]
    Status(#[from] status::StatusError),
    #[error(transparent)]
    Why(#[from] why::WhyError),
    #[error(transparent)]
    Events(#[from] events::EventsError),
    #[error(transparent)]
    Report(#[from] report::ReportError),
    #[error(transparent)]
    Controls(#[from] controls::ControlsError),
    #[error(transparent)]
    Explain(#[from] explain::ExplainError),
    #[error(transparent)]
    CheckConfig(#[from] check_config::CheckConfigError),
    #[error(transparent)]
    Probe(#[from] probe::ProbeError),
    #[error(transparent)]
    MockProvider(#[from] mock_provider::MockProviderError),
    #[error(transparent)]
    Conformance(#[from] conformance::ConformanceError),
    #[error(transparent)]
    Bench(#[from] bench::BenchError),
    #[error(transparent)]
    ProviderFiles(#[from] provider_files::ProviderFilesError),
    #[error("the runtime cannot be started: {0}")]
    Runtime(io::Error),
}

impl Failure {
    /// 2 where the same command line can never work.
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Serve(serve::ServeFailure::Serve(error)) if error.is_mistake() => ExitCode::from(2),
            Self::Report(error) => ExitCode::from(error.exit_status()),
            Self::Events(events::EventsError::Usage(_)) | Self::Why(why::WhyError::Usage(_)) => ExitCode::from(2),
            Self::Controls(error) if error.is_usage() => ExitCode::from(2),
            Self::Probe(error) if error.is_usage() => ExitCode::from(2),
            _ => ExitCode::FAILURE,
        }
    }

    fn is_closed_output(&self) -> bool {
        let error = match self {
            Self::Status(status::StatusError::Output(error))
            | Self::Why(why::WhyError::Output(error))
            | Self::Events(events::EventsError::Output(error))
            | Self::Report(report::ReportError::Output(error))
            | Self::Controls(controls::ControlsError::Output(error))
            | Self::Bench(bench::BenchError::Output(error))
            | Self::Simulate(simulate::SimulateFailure::Output(error))
            | Self::Explain(explain::ExplainError::Output(error))
            | Self::Probe(probe::ProbeError::Io(error))
            | Self::Conformance(conformance::ConformanceError::Io(error))
            | Self::CheckConfig(check_config::CheckConfigError::Io(error)) => error,
            _ => return false,
        };
        error.kind() == io::ErrorKind::BrokenPipe
    }
}
