//! `paceline bench`: a load generator against a running service.

mod caller;
mod cpu;
mod figures;
mod load;
mod replicas;
mod stream;

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use paceline_core::units::Span;
use paceline_provider_sim::parse_span;

use caller::Caller;
use cpu::Cpu;
use load::Shape;
use replicas::Replicas;

const EXAMPLES: &str = "\
Examples:
  # What can the service on this machine do, with 64 calls in flight? Give it a scope without a limit:
  #   echo 'providers: {bench: {dialect: generic, limits: {requests: 1G/s}, models: {\"*\": {limits: {requests: 1G/s}}}}}' > bench.yaml
  paceline serve --config bench.yaml
  paceline bench --provider bench

  # How long do answers take at 1,000 calls a second, over three replicas?
  paceline bench --provider bench --addr 10.0.0.1:7070 --addr 10.0.0.2:7070 --addr 10.0.0.3:7070 --rate 1000

  # A thousand scopes, with reports
  paceline bench --provider bench --scopes 1000 --in-flight 512 --report

  # Many calls on one stream, or in one message
  paceline bench --provider bench --via session
  paceline bench --provider bench --via batch --batch 100 --in-flight 1000

  # For programs
  paceline bench --provider bench --duration 30s --json

At a fixed rate a call's latency counts from when it was due, not from when there was time to send it.
Every scope is an account of its own: --account, with -0, -1, ... behind it where there are several.";

/// How long a service gets to answer at all.
const PATIENCE: Duration = Duration::from_secs(5);

/// Load a running service and tell how fast it answers.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, after_help = "See --help for examples.")]
pub(crate) struct BenchArgs {
    /// gRPC address of the service; repeatable, and several with commas. A name may stand for several replicas.
    #[arg(long, value_name = "ADDR", env = "PACELINE_ADDR", default_value = "127.0.0.1:7070", value_delimiter = ',')]
    addr: Vec<String>,

    /// Send so many acquires a second, whatever becomes of those before.
    #[arg(long, value_name = "N", conflicts_with = "in_flight", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: Option<u32>,

    /// Keep so many acquires in flight: each is followed by the next.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    in_flight: u32,

    /// How long to measure.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_span)]
    duration: Span,

    /// How long to load the service before that.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_span)]
    warm_up: Span,

    /// Over how many scopes to spread the calls.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    scopes: u32,

    /// Provider to ask for: a name of the service's catalogue or configuration.
    #[arg(long, value_name = "NAME", default_value = "openai")]
    provider: String,

    /// Account to ask for; with several scopes, what their names begin with.
    #[arg(long, value_name = "NAME", default_value = "bench")]
    account: String,

    /// Model to ask for.
    #[arg(long, value_name = "NAME", default_value = "bench")]
    model: String,

    /// Report each granted call as done, as a worker would. Calls of a session always are: it keeps those alive that are not.
    #[arg(long)]
    report: bool,

    /// How calls are sent.
    #[arg(long, value_enum, default_value = "acquire")]
    via: Via,

    /// How many acquires share a message with --via batch; all of one scope.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    batch: u32,

    /// Which replica a call goes to.
    #[arg(long, value_enum, default_value = "hash")]
    balance: Balance,

    /// Connections to each replica.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    connections: u32,

    /// Process of the service whose CPU time is counted; repeatable. Found by itself where the service runs on this machine.
    #[arg(long, value_name = "PID")]
    server_pid: Vec<u32>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Which replica a call goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Balance {
    /// A scope's calls go to its replica, as the client libraries do.
    Hash,
    /// Calls go to all replicas in turn, as a plain load balancer does.
    RoundRobin,
}

/// How calls are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Via {
    /// Each in an RPC of its own.
    Acquire,
    /// All on one Session for each connection.
    Session,
    /// Many in one AcquireBatch.
    Batch,
}

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// The address is none.
    #[error("`{addr}` is no address: {why}; write HOST:PORT, such as 127.0.0.1:7070")]
    Address {
        /// As it was given.
        addr: String,
        /// What is wrong with it.
        why: String,
    },
    /// Nobody is there.
    #[error(
        "nothing answers at {addr}: {why}; start a service with `paceline serve`, or name another address: --addr HOST:PORT or \
         PACELINE_ADDR"
    )]
    Away {
        /// Where.
        addr: String,
        /// What the system said.
        why: String,
    },
    /// The service does not take these calls.
    #[error("the service refuses such calls: {0}; --provider, --account and --model say what is asked for")]
    Refused(String),
    /// A process cannot be looked at.
    #[error("the CPU time of process {pid} cannot be read ({why}); it must run on this machine, and under Linux")]
    Pid {
        /// The process.
        pid: u32,
        /// What the system said.
        why: String,
    },
    /// A duration of nothing.
    #[error("--duration must be longer than nothing")]
    NoDuration,
    /// Every call failed.
    #[error("not one call was granted: {0}")]
    NothingGranted(String),
    /// The output broke off.
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
}

impl BenchArgs {
    fn is_reported(&self) -> bool {
        self.report || self.via == Via::Session
    }
}

/// Loads the service and writes what came of it to `out`.
pub(crate) async fn run(args: BenchArgs, out: &mut (dyn Write + Send)) -> Result<(), BenchError> {
    let (duration, warm_up) = (args.duration.to_duration(), args.warm_up.to_duration());
    if duration.is_zero() {
        return Err(BenchError::NoDuration);
    }
    let replicas = Replicas::find(&args.addr, args.connections, args.via).await?;
    let caller = Arc::new(Caller::new(&args, replicas));
    caller.look_whether_it_works().await?;
    let cpu = Cpu::of(&args.server_pid, caller.addrs())?;
    let shape = match args.rate {
        Some(rate) => Shape::Rate(rate),
        None => Shape::InFlight(args.in_flight),
    };
    let measured = load::run(&caller, shape, warm_up, duration, cpu).await?;
    if measured.granted == 0 {
        return Err(BenchError::NothingGranted(measured.why_nothing()));
    }
    let text = if args.json { format!("{}\n", measured.json()) } else { measured.people(&describe(&args, shape)) };
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// What was done, in one line.
fn describe(args: &BenchArgs, shape: Shape) -> String {
    let shape = match shape {
        Shape::Rate(rate) => format!("{rate} acquires a second"),
        Shape::InFlight(count) => format!("{count} acquires in flight"),
    };
    let scopes = if args.scopes == 1 { "1 scope".to_owned() } else { format!("{} scopes", args.scopes) };
    let via = match args.via {
        Via::Acquire => String::new(),
        Via::Session => ", on sessions".to_owned(),
        Via::Batch => format!(", {} in a message", args.batch),
    };
    let reported = if args.is_reported() { ", each reported" } else { "" };
    format!("{shape}{via}{reported}; {scopes} of {}; {} after {} of warm-up", args.provider, args.duration, args.warm_up)
}
