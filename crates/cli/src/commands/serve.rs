//! `paceline serve`: the service.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use paceline_config::{Overrides, Scalar};
use paceline_server::{DEFAULT_RECORD_LIMIT, Drained, Options, Otlp, OtlpError, Record, ServeError, Server};
use paceline_telemetry::{DEFAULT_LOG_FILTER, LogFormat, init_logging};
use tokio::sync::oneshot;

use super::provider_files::ProviderFiles;

const EXAMPLES: &str = "\
Examples:
  # On this machine, state in memory, limits learned from the providers' answers
  paceline serve

  # With limits of your own; the file is read again when it changes, or on SIGHUP
  paceline serve --config paceline.yaml

  # Next to live traffic: every call goes at once, and what would have been is counted
  paceline serve --mode shadow

  # Several replicas that share their state
  paceline serve --store redis://redis:6379 --expected-replicas 3

  # Keep what becomes of each call, to try another configuration with it: paceline simulate --trace
  paceline serve --record calls.jsonl

  # On free ports, for a test; the first line of output is `listening grpc=ADDR http=ADDR`
  paceline serve --grpc 127.0.0.1:0 --http 127.0.0.1:0

A flag wins over its variable (PACELINE_SERVE_GRPC for --grpc), and that over the file. SIGTERM or
Ctrl-C lets callers go with an answer, for at most ten seconds; a second one ends at once. HTTP
serves / (status), /metrics, /healthz, /readyz and /debug/config.";

/// Run the service: gRPC for workers, HTTP for metrics, health and a status page.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, after_help = "See --help for examples.")]
pub(crate) struct ServeArgs {
    /// Address for gRPC; port 0 picks a free one [default: 127.0.0.1:7070].
    #[arg(long, value_name = "ADDR")]
    grpc: Option<String>,

    /// Address for HTTP; port 0 picks a free one [default: 127.0.0.1:7071].
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,

    /// Where other replicas reach this one, HOST:PORT [default: the gRPC address, unless that is a wildcard].
    #[arg(long, value_name = "ADDR")]
    advertise: Option<String>,

    /// How many replicas there are to be: while the store is away, each takes that part of a limit [default: 1].
    #[arg(long, value_name = "N")]
    expected_replicas: Option<String>,

    /// Where the state lives: `memory`, or the address of Redis or Valkey, for a fleet [default: memory].
    /// redis://HOST:6379, rediss:// (TLS), unix:///PATH, redis+cluster://A,B,C, redis+sentinel://A,B,C/NAME; passwords rather in
    /// `?password_file=FILE` or the variable PACELINE_SERVE_STORE than here, where every process of this machine sees them.
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// What is done with calls where the file says nothing nearer: enforce, shadow or off [default: enforce].
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,

    /// Configuration file (YAML); none is needed.
    #[arg(long, value_name = "FILE", env = "PACELINE_SERVE_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) provider_files: ProviderFiles,

    /// Record what becomes of each call, for `paceline simulate --trace`: names, costs and times, no content. A file that is there
    /// is continued.
    #[arg(long, value_name = "FILE", env = "PACELINE_SERVE_RECORD", hide_env_values = true)]
    record: Option<PathBuf>,

    /// How long the recording may get, in MiB; it stops there and the service goes on [default: 1024].
    #[arg(long, value_name = "MIB", requires = "record", value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    record_limit: Option<u64>,

    /// How log lines look: text or json. They go to standard error.
    #[arg(long, value_name = "FORMAT", env = "PACELINE_SERVE_LOG_FORMAT", default_value = "text", hide_env_values = true)]
    log_format: LogFormat,

    /// What is logged: a level, or crate=level pairs such as info,paceline_coordinator=debug.
    #[arg(long, value_name = "FILTER", env = "PACELINE_SERVE_LOG_FILTER", default_value = DEFAULT_LOG_FILTER, hide_env_values = true)]
    log_filter: String,
}

/// Why the service does not run any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeFailure {
    /// It could not start, or stopped by itself.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// A variable of OpenTelemetry cannot be followed.
    #[error(transparent)]
    Otlp(#[from] OtlpError),
    /// Logs cannot be set up.
    #[error(transparent)]
    Logging(#[from] paceline_telemetry::Error),
    /// Signals cannot be listened for, or the addresses not be printed.
    #[error("cannot start: {0}")]
    Io(#[from] io::Error),
    /// A second signal came while callers were let go.
    #[error("stopped at once, as told; callers that waited got no answer")]
    AtOnce,
}

/// Serves until it is told to stop.
pub(crate) async fn run(args: ServeArgs) -> Result<(), ServeFailure> {
    init_logging(args.log_format, &args.log_filter)?;
    let otlp = Otlp::from_variables(variables())?;
    let has_file = args.config.is_some();
    let limit = args.record_limit.map_or(DEFAULT_RECORD_LIMIT, |mib| mib << 20);
    let record = args.record.clone().map(|file| Record { file, limit });
    let server = Server::bind(Options {
        overrides: overrides(&args),
        config: args.config,
        store: None,
        record,
        arrives_within: None,
        otlp,
    })
    .await?;
    // Taken before the addresses are printed: who reads them may send a signal at once.
    let mut signals = Signals::new()?;
    let (grpc, http) = (server.grpc_addr(), server.http_addr());
    print(&format!("listening grpc={grpc} http={http}\n"))?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        store = %server.store(),
        "serving {}; {}open http://{http}/",
        if has_file { "with your configuration" } else { "without a configuration file: limits are learned" },
        hint(grpc),
    );

    let reloader = server.reloader();
    let (stop, stopping) = oneshot::channel::<()>();
    let mut stop = Some(stop);
    let mut running = std::pin::pin!(server.run(async move {
        // Nobody to tell us any more means the same.
        let _ = stopping.await;
    }));
    loop {
        let signal = tokio::select! {
            drained = &mut running => return ended(drained?),
            signal = signals.next() => signal,
        };
        match (signal, stop.take()) {
            (Signal::Stop, Some(stop)) => {
                let _ = stop.send(());
            }
            (Signal::Stop, None) => return Err(ServeFailure::AtOnce),
            (Signal::Reload, still) => {
                stop = still;
                let reloader = reloader.clone();
                // Beside the loop: a signal to stop must not wait for a slow file system.
                tokio::spawn(async move { reloader.reload("SIGHUP").await });
            }
        }
    }
}

/// Where `paceline status` is answered: at loopback addresses only.
fn hint(grpc: SocketAddr) -> String {
    if grpc.ip().to_canonical().is_loopback() { format!("try `paceline status --addr {grpc}` or ") } else { String::new() }
}

fn ended(drained: Drained) -> Result<(), ServeFailure> {
    match drained {
        Drained::Completely => tracing::info!("stopped: every caller got an answer"),
        Drained::InTime => tracing::warn!("stopped: some connections were still open after the time they get"),
    }
    Ok(())
}

/// The variables of this process. One that is not UTF-8 cannot be one of ours.
fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Variables first, flags over them.
fn overrides(args: &ServeArgs) -> Overrides {
    Overrides::from_variables(variables())
        .flag(Scalar::Grpc, args.grpc.as_deref())
        .flag(Scalar::Http, args.http.as_deref())
        .flag(Scalar::Advertise, args.advertise.as_deref())
        .flag(Scalar::ExpectedReplicas, args.expected_replicas.as_deref())
        .flag(Scalar::Store, args.store.as_deref())
        .flag(Scalar::Mode, args.mode.as_deref())
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug)]
enum Signal {
    Stop,
    Reload,
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Stop,
            _ = self.terminate.recv() => Signal::Stop,
            _ = self.hangup.recv() => Signal::Reload,
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> Signal {
        // Where Ctrl-C cannot be listened for, the process is ended from outside.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal::Stop
    }
}
