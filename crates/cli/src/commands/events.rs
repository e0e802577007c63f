//! `paceline events`: what changed, who did it and why.

mod print;

use std::collections::HashSet;
use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use jiff::Timestamp;
use paceline_coordinator::EventKind;
use paceline_core::units::Span;
use paceline_proto::convert::duration;
use paceline_proto::v1::admin_client::AdminClient;
use paceline_proto::v1::{ListEventsRequest, ListEventsResponse};
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

use crate::commands::report::when::Since;
use crate::commands::status::{self, StatusError};

const EXAMPLES: &str = "\
Examples:
  # What changed in the last hour?
  paceline events

  # Who changed a limit of this account since yesterday morning?
  paceline events --since 2026-03-01T08:00:00Z --kind limit_learned --kind limit_changed openai/prod

  # Go on telling
  paceline events --follow

  # For programs: one JSON object per line
  paceline events --since 7day --json

Kinds: floor_set and floor_lifted (the provider said when to come back; 5 s and longer), limit_learned,
limit_changed, breaker_opened and breaker_closed, exhausted and replenished (money or quota),
account_mixed, store_lost and store_back, config_applied and config_refused, replica_joined and
replica_left, control_began and control_ended, forgotten. They are kept for seven days, the last 1,000 of an
hour; with the store in memory, until the service ends. What happened in the last two seconds may be
missing. A floor that runs out is no event: its end was told when it was set.";

/// How often it is asked again while it follows.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// What it asks for then: what a replica could not write for a while comes late.
const FOLLOWS_BACK: Span = Span::from_secs(120);
/// As long as events are kept.
const LONGEST: Span = Span::from_secs(7 * 86_400);

/// Show what changed: floors, limits, breakers, configurations, replicas, the store, controls; who did it and why.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, after_help = "See --help for examples.")]
pub(crate) struct EventsArgs {
    /// Only these scopes; `*` stands for any characters. Without an account: all of the provider's.
    #[arg(value_name = "PROVIDER/ACCOUNT")]
    scope: Option<String>,

    /// Since when: so long ago (1h, 7day), a day in UTC (2026-03-01), or an instant (2026-03-01T08:00:00Z).
    #[arg(long, value_name = "TIME", default_value = "1h", allow_hyphen_values = true)]
    since: Since,

    /// Only events of this kind; repeatable.
    #[arg(long = "kind", value_name = "KIND", value_parser = PossibleValuesParser::new(EventKind::ALL.map(EventKind::name)), hide_possible_values = true)]
    kinds: Vec<String>,

    /// Go on, and tell what happens, until it is interrupted.
    #[arg(long)]
    follow: bool,

    /// gRPC address of the service.
    #[arg(long, value_name = "ADDR", env = "PACELINE_ADDR", default_value = "127.0.0.1:7070")]
    addr: String,

    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

/// Why events are not told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EventsError {
    /// The command line.
    #[error("{0}")]
    Usage(String),
    /// The service does not tell.
    #[error(transparent)]
    Service(#[from] StatusError),
    /// The service keeps none.
    #[error("the service at {0} is older than this command and keeps no events; upgrade it first")]
    TooOld(String),
    /// The output broke off.
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
}

/// Asks the service, and writes what it said to `out`.
pub(crate) async fn run(args: EventsArgs, out: &mut (dyn Write + Send)) -> Result<(), EventsError> {
    let since = args.since.ago(Timestamp::now()).map_err(EventsError::Usage)?;
    if since > LONGEST {
        return Err(EventsError::Usage(format!("--since: {since} is longer than events are kept, which is 7 days")));
    }
    // Workers may name several replicas; any of them tells of all.
    let addr = args.addr.split(',').next().unwrap_or_default().trim();
    let mut service = status::connect(addr).await?;
    let request = |since: Span| ListEventsRequest {
        selector: args.scope.as_deref().map(status::selector),
        since: Some(duration(since)),
        kinds: args.kinds.clone(),
    };
    let told = list(addr, &mut service, request(since)).await?;
    let mut seen = write(&told, &HashSet::new(), args.json, out)?;
    if !args.json {
        print::missing(&told).into_iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    if !args.json && !args.follow && told.events.is_empty() {
        writeln!(out, "nothing changed in the last {since}")?;
    }
    out.flush()?;
    if !args.follow {
        return Ok(());
    }
    let mut is_away = false;
    loop {
        tokio::time::sleep(ASK_EVERY).await;
        // A service that restarts is waited for.
        match list(addr, &mut service, request(FOLLOWS_BACK)).await {
            Ok(told) => {
                if std::mem::take(&mut is_away) {
                    aside(&format!("{addr} answers again"));
                }
                seen = write(&told, &seen, args.json, out)?;
            }
            Err(EventsError::Service(StatusError::Away { .. })) => {
                if !std::mem::replace(&mut is_away, true) {
                    aside(&format!("nothing answers at {addr} any more; it is asked again every {} s", ASK_EVERY.as_secs()));
                }
                if let Ok(again) = status::connect(addr).await {
                    service = again;
                }
            }
            Err(error) => return Err(error),
        }
        out.flush()?;
    }
}

/// What is no event: whoever reads the output by a program does not want it there.
fn aside(line: &str) {
    // Nowhere else to say it if this fails.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

async fn list(
    addr: &str,
    service: &mut AdminClient<Channel>,
    request: ListEventsRequest,
) -> Result<ListEventsResponse, EventsError> {
    service.list_events(request).await.map(Response::into_inner).map_err(|status| failed(addr, &status))
}

/// Writes those that were not in the answer before; returns which were written and may come again.
fn write(
    told: &ListEventsResponse,
    before: &HashSet<String>,
    as_json: bool,
    out: &mut (dyn Write + Send),
) -> io::Result<HashSet<String>> {
    let now = Timestamp::now();
    for event in told.events.iter().filter(|event| !before.contains(&event.id)) {
        let line = if as_json { print::json(event, now) } else { print::line(event, now) };
        writeln!(out, "{line}")?;
    }
    let in_it = told.events.iter().map(|event| event.id.clone());
    // With the store away it holds a few only: the others come again when that is back.
    let still = before.iter().filter(|_| !told.store_away.is_empty()).cloned();
    Ok(in_it.chain(still).collect())
}

fn failed(addr: &str, status: &Status) -> EventsError {
    match status.code() {
        Code::Unimplemented => EventsError::TooOld(addr.to_owned()),
        Code::InvalidArgument => EventsError::Usage(status.message().to_owned()),
        _ => EventsError::Service(status::failed(addr, status)),
    }
}
