//! `paceline report --shadow`: what shadow mode saw, and whether it can be believed.

mod believe;
mod json;
mod people;
mod price;
mod sum;
#[cfg(test)]
mod tests;
pub(crate) mod when;

use std::collections::BTreeSet;
use std::io::{self, Write};

use clap::Args;
use jiff::Timestamp;
use paceline_core::mode::Mode;
use paceline_core::units::Span;
use paceline_proto::convert::duration;
use paceline_proto::v1::{GetHistoryRequest, GetHistoryResponse, Selector};
use tonic::{Code, Response, Status};

use self::believe::{Doubt, Thresholds, doubts};
use self::price::Price;
use self::sum::Summary;
use self::when::Since;
use crate::commands::status::{self, StatusError, printable};

const EXAMPLES: &str = "\
Examples:
  # What would the last day have been like, had calls been made to wait?
  paceline report --shadow

  # One account, since an instant
  paceline report --shadow --since 2026-03-01T08:00:00Z openai/prod

  # A first look at a trial that has just begun
  paceline report --shadow --since 1h --min-hours 0 --min-answers 20

  # What did retries cost? For programs
  paceline report --shadow --since 7day --price input_tokens=3/1M --price output_tokens=15/1M --json

Calls are counted by hour and kept for 31 days, of all replicas together; the hour in which the time
begins is told whole. A replica that is killed takes along what it counted in its last ten seconds.
Waits and denials of watched calls are what would have been, as an estimate to about 15 %.

The exit status is 0 when the figures can be believed, 1 when they cannot yet (each reason is told
with what to do), 2 when the command line was wrong, and 3 when the service cannot be asked.";

/// The longest answer that is read: a month of many accounts.
const MOST_ANSWER_BYTES: usize = 256 << 20;

/// Show what shadow mode saw: refusals now and if enforced, waits added, and what is not believable yet.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, after_help = "See --help for examples.")]
pub(crate) struct ReportArgs {
    /// Only these scopes; `*` stands for any characters. Without an account: all of the provider's.
    #[arg(value_name = "PROVIDER/ACCOUNT")]
    scope: Option<String>,

    /// Report on calls that are only watched; there is no other report yet.
    #[arg(long, required = true)]
    shadow: bool,

    /// Since when: so long ago (24h, 7day), a day in UTC (2026-03-01), or an instant (2026-03-01T08:00:00Z).
    #[arg(long, value_name = "TIME", default_value = "24h", allow_hyphen_values = true)]
    since: Since,

    /// For how many hours calls must have been watched. From 24 on, the peak must be behind them as well.
    #[arg(long, value_name = "HOURS", default_value = "24", value_parser = when::hours, allow_hyphen_values = true)]
    min_hours: u32,

    /// How many answers of the provider must have been seen, of each scope.
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    min_answers: u64,

    /// What units cost in dollars, so that money is told as well; repeatable.
    #[arg(long, value_name = "METER=USD/UNITS")]
    price: Vec<Price>,

    /// gRPC address of the service.
    #[arg(long, value_name = "ADDR", env = "PACELINE_ADDR", default_value = "127.0.0.1:7070")]
    addr: String,

    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

/// Why there is no report, or none to believe.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReportError {
    /// The command line.
    #[error("{0}")]
    Usage(String),
    /// The service does not tell.
    #[error(transparent)]
    Service(StatusError),
    /// The service has no history.
    #[error("the service at {0} is older than this command and counts nothing by hour; upgrade it first")]
    TooOld(String),
    /// It is there, and cannot tell.
    #[error("{addr} answers, but cannot tell what was counted: {why}; `paceline status` says whether its store is well")]
    Silent {
        /// Where.
        addr: String,
        /// What it said, or what became of the call.
        why: String,
    },
    /// It is printed, and not to be believed.
    #[error("not believable yet: {} told above", if *.0 == 1 { "the reason is".to_owned() } else { format!("{} reasons are", .0) })]
    NotBelievable(usize),
    /// The output broke off.
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
}

impl ReportError {
    /// As the help says.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Service(StatusError::Address(_)) => 2,
            Self::Service(_) | Self::TooOld(_) | Self::Silent { .. } => 3,
            Self::NotBelievable(_) | Self::Output(_) => 1,
        }
    }
}

/// A scope and what speaks against believing it.
#[derive(Clone, Debug, PartialEq)]
struct Judged {
    summary: Summary,
    doubts: Vec<Doubt>,
}

/// All that is told.
#[derive(Clone, Debug, PartialEq)]
struct Report {
    now: Timestamp,
    since: Span,
    scopes: Vec<Judged>,
    total: Summary,
    /// What speaks against all of it.
    doubts: Vec<Doubt>,
    silent_replicas: u32,
    /// The meters that calls used.
    meters: BTreeSet<String>,
    prices: Vec<Price>,
}

impl Report {
    /// Pure: from what the service told.
    fn of(told: &GetHistoryResponse, now: Timestamp, since: Span, asked: Thresholds, prices: Vec<Price>) -> Self {
        let summaries: Vec<Summary> = told.scopes.iter().map(Summary::of).collect();
        let total = Summary::total(&summaries);
        let meters = Mode::ALL.into_iter().flat_map(|mode| total.sum.mode(mode).units.keys().cloned()).collect();
        let mut own = Vec::new();
        if told.scopes.is_empty() {
            own.push(Doubt {
                code: "nothing-counted",
                what: "no call of such an account was counted in this time".to_owned(),
                then: "check its name with `paceline status`, and that workers ask this service".to_owned(),
            });
        } else if total.watched().asks == 0 {
            own.push(Doubt {
                code: "nothing-watched",
                what: "no call was in shadow in this time".to_owned(),
                then: "write `mode: shadow` into the configuration, let workers run as they do, and look again in a day"
                    .to_owned(),
            });
        }
        let is_trial = own.is_empty();
        // Where nothing at all was watched it is said once.
        let judge = |summary: Summary| {
            let doubts = if is_trial { doubts(&summary, asked) } else { Vec::new() };
            Judged { doubts, summary }
        };
        let scopes = summaries.into_iter().map(judge).collect();
        Self { now, since, scopes, total, doubts: own, silent_replicas: told.silent_replicas, meters, prices }
    }

    /// Nothing was counted of what was asked for, although something was of others: says which there are.
    fn without(mut self, asked: &str, others: &GetHistoryResponse) -> Self {
        let names: Vec<String> = others.scopes.iter().map(|scope| format!("{}/{}", scope.provider, scope.account)).collect();
        if !names.is_empty() {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let is_model = asked.matches('/').count() > 1;
            self.doubts = vec![Doubt {
                code: "no-such-scope",
                what: format!(
                    "nothing was counted of `{}` in this time; there are {}",
                    printable(asked),
                    believe::listed(&names)
                ),
                then: if is_model {
                    "name it PROVIDER/ACCOUNT: all models of an account are told together"
                } else {
                    "check its name"
                }
                .to_owned(),
            }];
        }
        self
    }

    /// Prices that nothing has, as they were stated.
    fn idle_prices(&self) -> Vec<&str> {
        self.prices.iter().map(Price::meter).filter(|meter| !self.meters.contains(*meter)).collect()
    }

    fn reasons(&self) -> usize {
        self.doubts.len() + self.scopes.iter().map(|judged| judged.doubts.len()).sum::<usize>()
    }

    fn is_believable(&self) -> bool {
        self.reasons() == 0
    }
}

/// Asks the service and writes the report to `out`.
pub(crate) async fn run(args: ReportArgs, out: &mut (dyn Write + Send)) -> Result<(), ReportError> {
    let now = Timestamp::now();
    let since = args.since.ago(now).map_err(ReportError::Usage)?;
    // Workers may name several replicas; any of them tells of all.
    let addr = args.addr.split(',').next().unwrap_or_default().trim();
    let service = status::connect(addr).await.map_err(ReportError::Service)?;
    let mut service = service.max_decoding_message_size(MOST_ANSWER_BYTES);
    let mut history = async |selector: Option<Selector>| {
        let request = GetHistoryRequest { selector, since: Some(duration(since)) };
        service.get_history(request).await.map(Response::into_inner).map_err(|status| failed(addr, &status))
    };
    let told = history(args.scope.as_deref().map(status::selector)).await?;
    let asked = Thresholds { min_hours: args.min_hours, min_answers: args.min_answers };
    let mut report = Report::of(&told, now, since, asked, args.price);
    if let Some(scope) = args.scope.as_deref().filter(|_| told.scopes.is_empty()) {
        report = report.without(scope, &history(None).await?);
    }
    let text = if args.json { format!("{}\n", json::report(&report)) } else { people::report(&report) };
    out.write_all(text.as_bytes())?;
    out.flush()?;
    match report.reasons() {
        0 => Ok(()),
        reasons => Err(ReportError::NotBelievable(reasons)),
    }
}

/// The service was reached, so that it does not tell is no news of the network.
fn failed(addr: &str, status: &Status) -> ReportError {
    if status.code() == Code::Unimplemented {
        return ReportError::TooOld(addr.to_owned());
    }
    match status::failed(addr, status) {
        StatusError::Away { addr, why } => ReportError::Silent { addr, why },
        other => ReportError::Service(other),
    }
}
