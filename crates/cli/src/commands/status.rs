//! `paceline status`: what is limited, how full it is, and who waits for what.

mod fleet;
mod json;
mod people;
#[cfg(test)]
mod tests;

use std::error::Error as _;
use std::io::{self, Write};
use std::time::Duration;

pub(crate) use self::people::{length, printable, row, table};
use clap::Args;
use paceline_proto::v1::admin_client::AdminClient;
use paceline_proto::v1::{GetScopeRequest, GetScopeResponse, ListScopesRequest, ListScopesResponse, Selector};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

const EXAMPLES: &str = "\
Examples:
  # Every scope of the service on this machine
  paceline status

  # One account, or all accounts of a provider
  paceline status openai/prod
  paceline status 'openai/*'

  # What do providers say that nothing reads?
  paceline status --unread

  # For programs; lengths of time are in milliseconds
  paceline status --json

A scope is an account at a provider. It is live for two minutes after the last call for it. Of several
replicas any may be asked: it asks the others, and says which ones do not answer.";

/// How long the service gets for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// With more scopes than these, each gets a line only.
const MOST_IN_FULL: usize = 10;

/// Show live scopes: limits, levels, floors, who waits for what, who leads and whether the store is away.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, after_help = "See --help for examples.")]
pub(crate) struct StatusArgs {
    /// Only these scopes; `*` stands for any characters. Without an account: all of the provider's.
    #[arg(value_name = "PROVIDER/ACCOUNT")]
    scope: Option<String>,

    /// gRPC address of the service.
    #[arg(long, value_name = "ADDR", env = "PACELINE_ADDR", default_value = "127.0.0.1:7070")]
    addr: String,

    /// List the headers that look like limits and that nothing read, and values that could not be read.
    #[arg(long)]
    unread: bool,

    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

/// Why there is no status.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatusError {
    /// The address is none.
    #[error("`{0}` is no address; write HOST:PORT, such as 127.0.0.1:7070")]
    Address(String),
    /// Nobody is there.
    #[error(
        "nothing answers at {addr}: {why}; is `paceline serve` running there? Another address: --addr HOST:PORT or \
         PACELINE_ADDR"
    )]
    Away {
        /// Where.
        addr: String,
        /// What the system said.
        why: String,
    },
    /// Somebody is there, but not our service.
    #[error("what listens at {addr} does not speak gRPC as we do: {why}; the gRPC port is meant, not the HTTP port")]
    Stranger {
        /// Where.
        addr: String,
        /// What happened.
        why: String,
    },
    /// The service refuses.
    #[error("{addr} answers: {why}")]
    Refused {
        /// Where.
        addr: String,
        /// What it said.
        why: String,
    },
    /// Nothing live has that name.
    #[error("no live scope matches `{asked}`; {there}")]
    NoSuchScope {
        /// What was asked for.
        asked: String,
        /// What is live instead.
        there: String,
    },
    /// The output broke off.
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
}

/// Asks the service and writes what it said to `out`.
pub(crate) async fn run(args: StatusArgs, out: &mut (dyn Write + Send)) -> Result<(), StatusError> {
    // Workers may name several replicas; any of them asks the others.
    let addr = args.addr.split(',').next().unwrap_or_default().trim();
    let mut service = connect(addr).await?;
    let selector = args.scope.as_deref().map(selector);
    let asked_for_some = selector.is_some();
    let list = listed(addr, &mut service, selector).await?;
    if let Some(asked) = args.scope.as_deref().filter(|_| list.scopes.is_empty()) {
        let all = listed(addr, &mut service, None).await?;
        if args.json {
            writeln!(out, "{}", json::nothing(&all.scopes))?;
            out.flush()?;
        }
        return Err(StatusError::NoSuchScope { asked: people::printable(asked), there: people::live(&all.scopes) });
    }
    let in_full = args.json || args.unread || asked_for_some || list.scopes.len() <= MOST_IN_FULL;
    let scopes = if in_full { details(addr, &mut service, &list).await? } else { Vec::new() };
    let text = if args.json {
        format!("{}\n", json::scopes(&list, &scopes))
    } else if args.unread {
        people::unread(&scopes)
    } else if in_full {
        fleet::head(&list) + &people::in_full(&scopes)
    } else {
        fleet::head(&list) + &people::in_lines(&list.scopes)
    };
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

async fn listed(
    addr: &str,
    service: &mut AdminClient<Channel>,
    selector: Option<Selector>,
) -> Result<ListScopesResponse, StatusError> {
    let listed = service.list_scopes(ListScopesRequest { selector }).await;
    Ok(listed.map_err(|status| failed(addr, &status))?.into_inner())
}

/// Connects to the service.
pub(crate) async fn connect(addr: &str) -> Result<AdminClient<Channel>, StatusError> {
    let with_scheme = if addr.contains("://") { addr.to_owned() } else { format!("http://{addr}") };
    let endpoint = Endpoint::from_shared(with_scheme).map_err(|_| StatusError::Address(addr.to_owned()))?;
    if endpoint.uri().port_u16().is_none() {
        return Err(StatusError::Address(addr.to_owned()));
    }
    let connected = endpoint.connect_timeout(PATIENCE).timeout(PATIENCE).connect().await;
    let channel = connected.map_err(|error| StatusError::Away { addr: addr.to_owned(), why: root_cause(&error) })?;
    Ok(AdminClient::new(channel))
}

async fn details(
    addr: &str,
    service: &mut AdminClient<Channel>,
    list: &ListScopesResponse,
) -> Result<Vec<GetScopeResponse>, StatusError> {
    let mut scopes = Vec::with_capacity(list.scopes.len());
    for scope in &list.scopes {
        let asked = GetScopeRequest { provider: scope.provider.clone(), account: scope.account.clone() };
        match service.get_scope(asked).await {
            Ok(scope) => scopes.push(scope.into_inner()),
            // It went to rest since it was listed.
            Err(status) if status.code() == Code::NotFound => {}
            Err(status) => return Err(failed(addr, &status)),
        }
    }
    Ok(scopes)
}

/// What `PROVIDER/ACCOUNT` selects.
pub(crate) fn selector(scope: &str) -> Selector {
    let (provider, account) = scope.split_once('/').unwrap_or((scope, "*"));
    Selector { provider: provider.to_owned(), account: account.to_owned(), ..Selector::default() }
}

/// What a refusal means for a person.
pub(crate) fn failed(addr: &str, status: &Status) -> StatusError {
    let addr = addr.to_owned();
    let why = match status.source() {
        Some(source) => root_cause(source),
        None => status.message().to_owned(),
    };
    match status.code() {
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => StatusError::Away { addr, why },
        Code::Unknown | Code::Internal | Code::Unimplemented => StatusError::Stranger { addr, why },
        _ => StatusError::Refused { addr, why },
    }
}

/// What lies at the bottom of an error; the layers above say "transport error".
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
