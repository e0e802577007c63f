//! `paceline conformance`: plays service and provider for a worker in any language, and says what it did wrong.

mod event;
mod grpc;
mod judge;
mod says;
mod script;
mod situations;
mod stage;
mod table;
mod trace;
mod web;
mod worker;

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::Args;
use paceline_core::units::Span;
use paceline_proto::v1::rate_limiter_server::RateLimiterServer;
use paceline_provider_sim::parse_span;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic_health::ServingStatus;

use self::grpc::Service;
use self::script::{Act, Situation};
use self::situations::situations;
use self::stage::Stage;
use self::table::Outcome;
use self::worker::Worker;
use super::mock_provider::stop_signal;

const EXAMPLES: &str = "\
Examples:
  # Wait for a worker: it fetches jobs from the HTTP address and asks at the gRPC address
  paceline conformance --listen

  # Start one; it finds the addresses in KIT_URL and PACELINE_ADDR
  paceline conformance --worker node adapter.js

  # Only two situations, and what happened in them
  paceline conformance --trace --only queued,retry --worker node adapter.js

  # For a program
  paceline conformance --json --worker python3 adapter.py

A worker is led through fifty situations: waits, lines, denials, refusals, streams, lost answers. How to
write the twenty lines that fetch jobs for your client: docs/conformance.md. The exit status is 0 when every
situation was seen and nothing was wrong.";

/// Where nobody says.
const ANY: &str = "127.0.0.1:0";
/// How often it is looked whether the worker still does something.
const LOOK: Duration = Duration::from_millis(50);
/// How long the connections of a killed process may take to be seen closed.
const FUNERAL: Duration = Duration::from_millis(200);
/// When a worker has said nothing for so long after its last job, it has said all: the report of a stream, a release.
const SILENCE: Duration = Duration::from_millis(700);
/// It is not listened to for longer than this.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Leads a worker in any language through what can happen, and says which rule it breaks.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, after_help = "See --help for examples.")]
pub(crate) struct ConformanceArgs {
    /// Address of jobs and provider (HTTP); port 0 picks a free one, which the first line of output names.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_value = ANY, default_missing_value = ANY)]
    listen: SocketAddr,

    /// Address of the service (gRPC).
    #[arg(long, value_name = "ADDR", default_value = ANY)]
    grpc: SocketAddr,

    /// Only these situations, by name, joined by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse_situation)]
    only: Vec<String>,

    /// Give up when nothing has happened for so long.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_span)]
    patience: Span,

    /// Tell also what happened in each situation, line by line, with times.
    #[arg(long, conflicts_with = "json")]
    trace: bool,

    /// Print one JSON object: {"pass","situations":[{"id","title","optional","verdict","findings":[{"rule","seen"}],"missing"}],"findings"};
    /// the addresses go to standard error.
    #[arg(long)]
    json: bool,

    /// The command that starts the worker, with its arguments; must come last.
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true)]
    worker: Vec<OsString>,
}

/// Why a worker was not found good.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConformanceError {
    /// An address cannot be had.
    #[error("cannot listen on {address}: {source}; choose another address, or port 0 for a free one")]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The worker cannot be started.
    #[error("cannot start {}: {source}; is it installed, and is the name right?", command.display())]
    Worker {
        /// The command.
        command: OsString,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing can be done to a process that somebody else has started.
    #[error("--only {0}: this one is about the worker's process, so the kit has to start it: add --worker CMD")]
    NeedsProcess(&'static str),
    /// Something is wrong, or was not seen.
    #[error("the worker does not pass: {0}")]
    NotGood(String),
    /// By a signal.
    #[error("stopped before its end: nothing is said of the worker, and what the kit had started is ended")]
    Stopped,
    /// Reading or writing failed.
    #[error("conformance stopped: {0}")]
    Io(#[from] io::Error),
}

/// Plays until all jobs are done, the worker has ended, or nothing happens any more; then judges.
///
/// # Errors
/// No address, no worker, or a worker that does not pass.
pub(crate) async fn run(args: ConformanceArgs, out: &mut dyn Write) -> Result<(), ConformanceError> {
    let (stage, acts) = Stage::new(wanted(&args)?);
    let (http, grpc) = serve(&args, &stage).await?;
    let addresses = format!("listening grpc={grpc} http={http}\n");
    if args.json {
        io::stderr().write_all(addresses.as_bytes())?;
    } else {
        out.write_all(addresses.as_bytes())?;
        out.flush()?;
    }
    // Heard from here on: a worker is a process group of its own, which no Ctrl-C reaches.
    let stop = stop_signal()?;
    let mut worker = Worker::start(&args.worker, http, grpc)?;
    let ended = tokio::select! {
        ended = play_out(&stage, worker.as_mut(), acts, args.patience.to_duration()) => ended,
        () = stop => Err(ConformanceError::Stopped),
    };
    if let Some(worker) = &mut worker {
        worker.kill().await;
    }
    let ended = ended?;
    let events = stage.events();
    let (judgements, stray) = judge::judge(stage.situations(), &events);
    let outcome = Outcome { judged: stage.situations().iter().zip(judgements).collect(), stray };
    let story = |job: &str| if args.trace { trace::trace(job, &events) } else { String::new() };
    let text = if args.json { format!("{}\n", outcome.json()) } else { outcome.text(story) };
    out.write_all(text.as_bytes())?;
    out.flush()?;
    if outcome.is_good() { Ok(()) } else { Err(ConformanceError::NotGood(format!("{}{ended}", outcome.summary()))) }
}

/// Plays, and listens to what the worker says after its last job.
async fn play_out(
    stage: &Stage,
    worker: Option<&mut Worker>,
    acts: UnboundedReceiver<(&'static str, Act)>,
    patience: Duration,
) -> Result<String, ConformanceError> {
    let ended = play(stage, worker, acts, patience).await?;
    let silence = async {
        while stage.idle() < SILENCE {
            sleep(LOOK).await;
        }
    };
    // Whether it fell silent or not, the judge goes by what was seen.
    let _ = timeout(LAST_WORDS, silence).await;
    Ok(ended)
}

/// A name of a situation.
fn parse_situation(text: &str) -> Result<String, String> {
    let names: Vec<&str> = situations().iter().map(|situation| situation.id).collect();
    if names.contains(&text) { Ok(text.to_owned()) } else { Err(format!("there are {}", names.join(", "))) }
}

/// Both listeners.
async fn serve(args: &ConformanceArgs, stage: &Stage) -> Result<(SocketAddr, SocketAddr), ConformanceError> {
    let (http, http_address) = listen(args.listen).await?;
    let (grpc, grpc_address) = listen(args.grpc).await?;
    let (reserved, nobody) = unheard()?;
    let pages = web::router(stage.clone(), http_address, nobody);
    // All end with the process.
    tokio::spawn(async move {
        let _reserved = reserved;
        axum::serve(http, pages).await
    });
    let (health, answers) = tonic_health::server::health_reporter();
    health.set_service_status("", ServingStatus::Serving).await;
    let service = RateLimiterServer::new(Service { stage: stage.clone() });
    let server = Server::builder().add_service(service).add_service(answers);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(grpc)));
    Ok((http_address, grpc_address))
}

/// A port of this machine that refuses every connection: it is taken, so that nobody else gets it, and nothing listens there. An
/// ordinary one: to ports such as 1 the clients of browsers and Node do not even try to connect.
fn unheard() -> io::Result<(TcpSocket, SocketAddr)> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ConformanceError> {
    let failed = |source| ConformanceError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let local = listener.local_addr()?;
    Ok((listener, local))
}

/// The situations to play: those about processes only where the kit has started one.
fn wanted(args: &ConformanceArgs) -> Result<Vec<Situation>, ConformanceError> {
    let has_process = !args.worker.is_empty() && cfg!(unix);
    let mut all = situations();
    if args.only.is_empty() {
        let first = all.iter().position(|situation| situation.act.is_some()).unwrap_or(all.len());
        all.truncate(if has_process { all.len() } else { first });
        return Ok(all);
    }
    all.retain(|situation| args.only.iter().any(|name| name == situation.id));
    match all.iter().find(|situation| situation.act.is_some() && !has_process) {
        Some(situation) => Err(ConformanceError::NeedsProcess(situation.id)),
        None => Ok(all),
    }
}

/// What comes next.
enum Next {
    AllDone,
    Act(&'static str, Act),
    Exited(String),
    Idle,
}

/// Plays until the end; says what it was where it was not the usual one.
async fn play(
    stage: &Stage,
    mut worker: Option<&mut Worker>,
    mut acts: UnboundedReceiver<(&'static str, Act)>,
    patience: Duration,
) -> Result<String, ConformanceError> {
    loop {
        let idle = async {
            while stage.idle() < patience {
                sleep(LOOK).await;
            }
        };
        let exited = async {
            match &mut worker {
                Some(worker) => worker.exited().await,
                None => std::future::pending().await,
            }
        };
        let next = tokio::select! {
            biased;
            () = stage.all_done() => Next::AllDone,
            Some((job, act)) = acts.recv() => Next::Act(job, act),
            status = exited => Next::Exited(status),
            () = idle => Next::Idle,
        };
        match (next, &mut worker) {
            (Next::AllDone, _) => return Ok(String::new()),
            (Next::Exited(status), _) => return Ok(format!(". It ended before its jobs ({status})")),
            (Next::Idle, _) => return Ok(format!(". Nothing happened for {} s", patience.as_secs())),
            (Next::Act(_, Act::StandStill { after, length }), Some(worker)) => worker.stand_still(after, length),
            (Next::Act(job, Act::Kill), Some(worker)) => {
                worker.kill().await;
                // What it was about to fetch is not handed to the dead.
                sleep(FUNERAL).await;
                stage.killed(job);
                worker.restart()?;
            }
            (Next::Act(..), None) => {}
        }
    }
}
