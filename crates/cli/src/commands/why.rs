//! `paceline why`: the life of one call in about ten lines.

mod json;
mod people;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use clap::Args;
use paceline_proto::v1::{WhyRequest, WhyResponse};
use tonic::{Code, Response, Status};

use super::status::{self, StatusError};

const EXAMPLES: &str = "\
Examples:
  # Why does this call wait? Under the name that its worker gave it
  paceline why summarize-8231

  # What became of a lease, or of a ticket, that a log has
  paceline why CgwIgNCqxQYQ...

  # Only the second attempt
  paceline why summarize-8231 --attempt 2

  # For programs; lengths of time are in milliseconds
  paceline why summarize-8231 --json

Any replica may be asked: it asks the others. Known are the calls that wait, those that run, and the
last 10,000 that ended at each replica. A lease or ticket tells its own story even when nobody
remembers the call. The service answers this on a loopback listener only.";

/// Show the life of one call: where it stands, what it waited for and what would have been free, how it ended.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, after_help = "See --help for examples.")]
pub(crate) struct WhyArgs {
    /// The call: its request_id, its lease_id, or its ticket in base64.
    #[arg(value_name = "REQUEST_ID|LEASE|TICKET")]
    call: String,

    /// Only this attempt, counted from 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,

    /// Only calls of this tenant.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,

    /// gRPC address of the service.
    #[arg(long, value_name = "ADDR", env = "PACELINE_ADDR", default_value = "127.0.0.1:7070")]
    addr: String,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Why nothing is told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WhyError {
    /// The command line.
    #[error("{0}")]
    Usage(String),
    /// The service does not tell.
    #[error(transparent)]
    Service(#[from] StatusError),
    /// The service cannot.
    #[error("the service at {0} is older than this command and cannot tell the life of a call; upgrade it first")]
    TooOld(String),
    /// Nobody knows the call.
    #[error("{0}")]
    Unknown(String),
    /// The output broke off.
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
}

/// Asks the service, and writes what it said to `out`.
pub(crate) async fn run(args: WhyArgs, out: &mut (dyn Write + Send)) -> Result<(), WhyError> {
    // Workers may name several replicas; any of them asks the others.
    let addr = args.addr.split(',').next().unwrap_or_default().trim();
    let mut service = status::connect(addr).await?;
    let request = WhyRequest {
        call: args.call.trim().to_owned(),
        attempt: args.attempt.unwrap_or_default(),
        tenant: args.tenant.unwrap_or_default(),
    };
    let told = service.why(request.clone()).await.map(Response::into_inner).map_err(|status| failed(addr, &status))?;
    if args.json {
        writeln!(out, "{}", json::told(&told))?;
    } else {
        out.write_all(people::told(&told).as_bytes())?;
    }
    out.flush()?;
    if told.lives.is_empty() { Err(WhyError::Unknown(unknown(&request, &told, addr))) } else { Ok(()) }
}

/// What it can mean that nobody knows a call.
fn unknown(asked: &WhyRequest, told: &WhyResponse, addr: &str) -> String {
    // A token is long, and nobody reads it.
    let name: String = asked.call.chars().take(60).collect();
    let more = if name.len() < asked.call.len() { "..." } else { "" };
    let mut text = format!(
        "no replica knows `{}{more}`. It may never have been asked for here, have ended longer ago than the last 10,000 calls of \
         each replica, or belong to another service (asked: {addr}). Names are exact",
        status::printable(&name)
    );
    if asked.attempt > 0 || !asked.tenant.is_empty() {
        text.push_str("; without --attempt and --tenant more is looked through");
    }
    if told.silent_replicas > 0 {
        text.push_str(&format!("; {} did not answer and may know it", people::replicas(told.silent_replicas)));
    }
    text
}

fn failed(addr: &str, status: &Status) -> WhyError {
    match status.code() {
        Code::Unimplemented => WhyError::TooOld(addr.to_owned()),
        Code::InvalidArgument => WhyError::Usage(status.message().to_owned()),
        _ => WhyError::Service(status::failed(addr, status)),
    }
}
