//! `paceline mock-provider`: an HTTP server that meters and answers as real providers do.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::SocketAddr;

use clap::Args;
use paceline_core::units::Span;
use paceline_provider_sim::{
    Charging, Comeback, Dialect, FirstCalls, HeaderPolicy, Latency, LimitChange, LimitGroup, Metering, MockProvider,
    OtherConsumer, Outage, ProviderConfig, SimError, listen, parse_span, serve,
};
use serde_json::Value;

/// What a refusal takes unless told otherwise: it does no work.
const USUAL_REFUSAL: Span = Span::from_millis(20);

const EXAMPLES: &str = "\
Examples:
  # The simplest test of a client: does it wait two seconds and try again?
  paceline mock-provider --first 1 --status 429 --retry-after 2

  # 1,200 requests and 1.5 million tokens a minute, told as OpenAI does, answers in 200 ms
  paceline mock-provider --limit requests=1200/min,tokens=1.5M/min --latency 200ms

  # A provider that says nothing but 429
  paceline mock-provider --dialect bare --limit 60/min

  # Two models share 500 a minute, every other one has 100 of its own
  paceline mock-provider --limit 'gpt-4o*:500/min' --limit-each 'o*:100/min'

  # Down between 30 s and 60 s after the start; half the limit from 2 min on; somebody else takes 30 %
  paceline mock-provider --limit 20/s --outage 30s+30s --limit-at 2min=50% --other-consumer 30%

A call costs one request and, on /v1/chat/completions and /v1/messages, a token per four characters
of its messages plus max_tokens. State another cost in the body (\"mock_cost\": 1250, or
{\"tokens\": 1250}) or a header (x-mock-cost-tokens: 1250); with --charging reserved or at-end,
\"mock_used\": 300 says how much output it turns out to have.

GET /mock/stats tells what arrived (?bins=1: accepted per 100 ms, ?arrivals=1: the last calls);
POST /mock/reset starts anew.";

/// An HTTP server that meters and answers as real providers do, for testing anyone's client.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, after_help = "See --help for examples.")]
pub(crate) struct MockProviderArgs {
    /// Address to listen on; port 0 picks a free one, which the first line of output names.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Whose way of answering: openai, generic, ietf, ietf-trio, retry-after, bare.
    #[arg(long, default_value = "openai")]
    dialect: Dialect,

    /// A limit shared by all models, or by those before a colon; repeatable, and a call must fit in all that match it.
    /// `METER=UNITS/WINDOW`, several joined by commas; without METER it counts requests; `burst=UNITS` after a limit says how
    /// much of it may go at once. No limit: every call passes.
    #[arg(long, allow_hyphen_values = true, value_name = "LIMIT")]
    limit: Vec<LimitGroup>,

    /// As --limit, but each model has it for itself.
    #[arg(long, allow_hyphen_values = true, value_name = "LIMIT")]
    limit_each: Vec<LimitGroup>,

    /// How limits count: token-bucket refills all the time; fixed-window starts anew with each window; per-second tells the
    /// limit and enforces a second's share of it.
    #[arg(long, default_value = "token-bucket")]
    meter: Metering,

    /// When fixed windows start, counted from the Unix epoch: 15s puts minutes at 15 s past.
    #[arg(long, allow_hyphen_values = true, value_name = "TIME", value_parser = parse_span)]
    phase: Option<Span>,

    /// Which of the dialect's headers are sent: all, none, limits-only, retry-after-only, refusals-only.
    #[arg(long, default_value = "all")]
    headers: HeaderPolicy,

    /// Leave out of error texts when to try again.
    #[arg(long)]
    mute_body: bool,

    /// Charge refused calls too (their requests): who hammers, stays out.
    #[arg(long)]
    charge_refused: bool,

    /// When output is charged: on-arrival as stated; reserved: stated on arrival, settled when the call ends (as OpenAI does);
    /// at-end: when the call ends, so that a meter may go into debt (as Anthropic does).
    #[arg(long, default_value = "on-arrival")]
    charging: Charging,

    /// Be down: from so long after the start, for so long; with =STATUS [default: 503] or =reset (connections are reset);
    /// repeatable.
    #[arg(long, allow_hyphen_values = true, value_name = "FROM+LENGTH[=STATUS]")]
    outage: Vec<Outage>,

    /// What outages say about coming back: none, remaining (a Retry-After with the time left), or a fixed time.
    #[arg(long, allow_hyphen_values = true, value_name = "WHAT", default_value = "none", requires = "outage")]
    outage_retry_after: Comeback,

    /// Charge calls in outages their requests.
    #[arg(long, requires = "outage")]
    charge_outage: bool,

    /// Change limits so long after the start: to a LIMIT as in --limit, of the same models, meter and window, or all of them to
    /// a percentage of what they were at the start; repeatable.
    #[arg(long, allow_hyphen_values = true, value_name = "AT=LIMIT|PERCENT")]
    limit_at: Vec<LimitChange>,

    /// Somebody else on the same account takes so much of each limit; with /TIME, once in that time and not steadily.
    #[arg(long, allow_hyphen_values = true, value_name = "PERCENT[/TIME]")]
    other_consumer: Option<OtherConsumer>,

    /// How long an accepted call takes to answer.
    #[arg(long, allow_hyphen_values = true, value_name = "TIME", default_value = "0ms", value_parser = parse_span)]
    latency: Span,

    /// How much longer or shorter it may take, evenly spread.
    #[arg(long, allow_hyphen_values = true, value_name = "TIME", default_value = "0ms", value_parser = parse_span)]
    latency_jitter: Span,

    /// How long a refusal takes [default: 20 ms, at most the latency].
    #[arg(long, allow_hyphen_values = true, value_name = "TIME", value_parser = parse_span)]
    refusal_latency: Option<Span>,

    /// Decides the latencies and when the other consumer comes: the same seed, the same ones.
    #[arg(long, allow_hyphen_values = true, default_value_t = 0, value_parser = parse_seed)]
    seed: u64,

    /// Answer the first N calls as --status, --retry-after, --header and --body say, whatever the limits.
    #[arg(long, allow_hyphen_values = true, value_name = "N", value_parser = parse_count)]
    first: Option<u64>,

    /// Status of the first calls.
    #[arg(long, value_name = "CODE", default_value_t = 429, requires = "first",
          value_parser = clap::value_parser!(u16).range(200..=599))]
    status: u16,

    /// Retry-After of the first calls: seconds, or a time such as 500ms, for which retry-after-ms is sent with it.
    #[arg(long, allow_hyphen_values = true, value_name = "SECONDS", requires = "first", value_parser = parse_retry_after)]
    retry_after: Option<Span>,

    /// A header of the first calls, sent as it is: 'retry-after: Wed, 21 Oct 2026 07:28:00 GMT'; repeatable.
    #[arg(long, value_name = "NAME: VALUE", requires = "first", value_parser = parse_header)]
    header: Vec<(String, String)>,

    /// The body of the first calls.
    #[arg(long, value_name = "TEXT", requires = "first")]
    body: Option<String>,

    /// At the end, print the statistics as one line of JSON, as GET /mock/stats does.
    #[arg(long)]
    json: bool,
}

/// Why the mock provider did not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MockProviderError {
    /// The flags make no provider.
    #[error(transparent)]
    Config(#[from] SimError),
    /// A phase for what has none.
    #[error("--phase moves fixed windows, and a token bucket has none; add --meter fixed-window, or leave --phase out")]
    PhaseWithoutWindows,
    /// The address cannot be had.
    #[error("cannot listen on {address}: {source}; choose another --listen, or port 0 for a free one")]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Serving or printing failed.
    #[error("the mock provider stopped: {0}")]
    Io(#[from] io::Error),
}

/// Serves until SIGINT or SIGTERM, then prints what it saw.
pub(crate) async fn run(args: MockProviderArgs) -> Result<(), MockProviderError> {
    let (address, json) = (args.listen, args.json);
    let mock = MockProvider::new(config(args)?)?;
    let listen_failed = |source| MockProviderError::Listen { address, source };
    let listener = listen(address).map_err(listen_failed)?;
    let local = listener.local_addr()?;
    // Taken before the address is printed: who reads it may send the signal at once.
    let stop = stop_signal()?;
    print(&format!("listening http={local}\n"))?;
    serve(listener, mock.clone(), stop).await?;
    let stats = mock.stats();
    print(&if json { format!("{stats}\n") } else { summary(&stats) })?;
    Ok(())
}

fn config(args: MockProviderArgs) -> Result<ProviderConfig, MockProviderError> {
    let metering = match (args.meter, args.phase) {
        (Metering::FixedWindow { .. }, Some(phase)) => Metering::FixedWindow { phase },
        (_, Some(_)) => return Err(MockProviderError::PhaseWithoutWindows),
        (metering, None) => metering,
    };
    let shared = args.limit.into_iter().map(|group| LimitGroup { each: false, ..group });
    let groups = shared.chain(args.limit_each.into_iter().map(|group| LimitGroup { each: true, ..group }));
    let metered = |group: LimitGroup| {
        let limits = group.limits.into_iter().map(|limit| limit.metered(metering)).collect();
        LimitGroup { limits, ..group }
    };
    let (comeback, charged) = (args.outage_retry_after, args.charge_outage);
    let (status, retry_after, headers, body) = (args.status, args.retry_after, args.header, args.body);
    Ok(ProviderConfig {
        dialect: args.dialect,
        groups: groups.map(metered).collect(),
        headers: args.headers,
        mute_body: args.mute_body,
        charge_refused: args.charge_refused,
        latency: Latency {
            usual: args.latency,
            jitter: args.latency_jitter,
            refused: args.refusal_latency.unwrap_or(USUAL_REFUSAL.min(args.latency)),
        },
        first: args.first.map(|count| FirstCalls { count, status, retry_after, headers, body }),
        charging: args.charging,
        outages: args.outage.into_iter().map(|outage| Outage { comeback, charged, ..outage }).collect(),
        changes: args.limit_at,
        other: args.other_consumer,
        seed: args.seed,
    })
}

/// Bare seconds as in the header itself, or a time with its unit.
fn parse_retry_after(text: &str) -> Result<Span, SimError> {
    let is_bare = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '-'));
    if is_bare { parse_span(&format!("{text}s")) } else { parse_span(text) }
}

fn parse_count(text: &str) -> Result<u64, String> {
    let count = text.trim().parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "write how many calls, at least 1".to_owned())
}

fn parse_seed(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| "write a whole number that is not negative".to_owned())
}

fn parse_header(text: &str) -> Result<(String, String), SimError> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| SimError::BadHeader { text: text.to_owned(), problem: "the colon after the name is missing" })?;
    let (name, value) = (name.trim(), value.trim());
    paceline_provider_sim::dialect::validate_header(name, value)?;
    Ok((name.to_owned(), value.to_owned()))
}

/// What it saw, for people.
fn summary(stats: &Value) -> String {
    let count = |of: &Value, what: &str| of.get(what).and_then(Value::as_u64).unwrap_or(0);
    let line = |of: &Value| {
        let (accepted, rejected, scripted) = (count(of, "accepted"), count(of, "rejected"), count(of, "scripted"));
        let down = match count(of, "down") {
            0 => String::new(),
            down => format!(", {down} while down"),
        };
        format!("{} calls: {accepted} accepted, {rejected} rejected{down}, {scripted} scripted", count(of, "sends"))
    };
    let mut text = format!("{}; at most {} at once", line(stats), count(stats, "peak_in_flight"));
    let at = |what: &str| stats.get(what).and_then(Value::as_f64);
    if let (Some(first), Some(last)) = (at("first_arrival_s"), at("last_arrival_s")) {
        // Writing to a string cannot fail.
        let _ = write!(text, "; {:.1} s from the first to the last", last - first);
    }
    text.push('\n');
    let models = stats.get("models").and_then(Value::as_object).filter(|models| models.len() > 1);
    for (model, counts) in models.into_iter().flatten() {
        let _ = writeln!(text, "  {model}: {}", line(counts));
    }
    text
}

/// Completes at the first SIGINT or SIGTERM after this call.
#[cfg(unix)]
pub(super) fn stop_signal() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Completes at the first Ctrl-C.
#[cfg(not(unix))]
pub(super) fn stop_signal() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    Ok(async {
        // Where Ctrl-C cannot be listened for, the process is ended from outside.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use clap::Parser;
    use paceline_provider_sim::Failure;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: MockProviderArgs,
    }

    fn parse(line: &str) -> Result<ProviderConfig, String> {
        let words = std::iter::once("mock-provider").chain(line.split_whitespace());
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        let config = config(cli.args).map_err(|error| error.to_string())?;
        config.validate().map_err(|error| error.to_string())?;
        Ok(config)
    }

    #[test]
    fn flags_make_the_provider_they_say() {
        assert_eq!(parse("").unwrap(), ProviderConfig::default());
        let config = parse(
            "--dialect ietf --limit m*:requests=60/min,tokens=1.5M/min --limit-each 5/s --meter fixed-window --phase 15s \
             --headers limits-only --mute-body --charge-refused --latency 200ms --latency-jitter 50ms --seed 7",
        )
        .unwrap();
        assert_eq!((config.dialect, config.headers), (Dialect::Ietf, HeaderPolicy::LimitsOnly));
        assert!(config.mute_body && config.charge_refused && config.first.is_none());
        assert_eq!((config.groups[0].each, config.groups[1].each), (false, true));
        assert_eq!(config.groups[0].limits[1].units, 1_500_000);
        let phase = Span::from_secs(15);
        assert!(
            config.groups.iter().flat_map(|group| &group.limits).all(|limit| limit.metering == Metering::FixedWindow { phase })
        );
        let ms = Span::from_millis;
        assert_eq!(config.latency, Latency { usual: ms(200), jitter: ms(50), refused: ms(20) });
        assert_eq!(parse("--latency 5ms").unwrap().latency.refused, ms(5));
        assert_eq!(parse("--latency 5ms --refusal-latency 9ms").unwrap().latency.refused, ms(9));
    }

    #[test]
    fn what_happens_besides_calls() {
        let config = parse(
            "--limit 60/min --charging reserved --outage 30s+30s=529 --outage 2min+1s=reset --outage-retry-after remaining \
             --charge-outage --limit-at 60s=50% --limit-at 2min=600/min --other-consumer 30%/5s",
        )
        .unwrap();
        let (secs, outage) = (Span::from_secs, |from, length, failure| Outage {
            failure,
            comeback: Comeback::Remaining,
            charged: true,
            ..Outage::new(from, length)
        });
        let overloaded = outage(secs(30), secs(30), Failure::Status(529));
        assert_eq!(config.outages, [overloaded, outage(secs(120), secs(1), Failure::Reset)]);
        assert_eq!(config.charging, Charging::Reserved);
        assert_eq!(config.changes.iter().map(|change| change.at).collect::<Vec<_>>(), [secs(60), secs(120)]);
        assert_eq!(config.other, Some(OtherConsumer { share_ppm: 300_000, every: secs(5) }));
        assert_eq!(parse("--outage 1s+1s").unwrap().outages, [Outage::new(secs(1), secs(1))]);
    }

    #[test]
    fn first_calls() {
        let first = |line: &str| parse(line).unwrap().first.unwrap();
        let simplest = first("--first 1 --status 429 --retry-after 2");
        assert_eq!((simplest.count, simplest.status, simplest.retry_after), (1, 429, Some(Span::from_secs(2))));
        assert_eq!(first("--first 3").status, 429);
        assert_eq!(first("--first 3 --retry-after 500ms").retry_after, Some(Span::from_millis(500)));
        let header = first("--first 1 --status 503 --header retry-after:soon").headers;
        assert_eq!(header, [("retry-after".to_owned(), "soon".to_owned())]);
    }

    #[test]
    fn bad_flags_say_what_to_write() {
        for (line, problem) in [
            ("--listen 8080", "invalid value '8080' for '--listen"),
            ("--dialect opena", "did you mean openai?"),
            ("--limit 1200", "such as requests=1200/min"),
            ("--limit requests=1200/fortnight", "`fortnight` is no window"),
            ("--limit 0/min", "between 1 and 10^15"),
            ("--meter leaky", "choose one of token-bucket, fixed-window, per-second"),
            ("--meter fixed-window --limit 5/s,burst=2", "a fixed window has no burst"),
            ("--phase 15s", "add --meter fixed-window"),
            ("--headers some", "choose one of all, none"),
            ("--latency 200", "the unit is missing"),
            ("--latency 1s --latency-jitter 2s", "lower it"),
            ("--seed x", "invalid value 'x' for '--seed"),
            ("--outage 30s", "write FROM+LENGTH"),
            ("--outage 30s+5s=200", "400 to 599"),
            ("--outage-retry-after remaining", "--outage <FROM+LENGTH"),
            ("--charge-outage", "--outage <FROM+LENGTH"),
            ("--outage 1s+1s --outage-retry-after soon", "not a length of time"),
            ("--limit 60/min --limit-at 60s", "write AT=LIMIT or AT=PERCENT"),
            ("--limit 60/min --limit-at 60s=tokens=5/min", "replaces none"),
            ("--limit-at 60s=60/min", "replaces none"),
            ("--other-consumer 30", "the % behind it is missing"),
            ("--other-consumer 100%", "below 100 %"),
            ("--charging later", "choose one of on-arrival, reserved, at-end"),
            ("--first 0", "'0' for '--first"),
            ("--first 1 --status 99", "200..=599"),
            ("--status 429", "--first <N>"),
            ("--retry-after 2", "--first <N>"),
            ("--first 1 --retry-after soon", "not a length of time"),
            ("--first 1 --retry-after=-2", "must not be negative"),
            ("--first 1 --header nonsense", "the colon after the name is missing"),
            ("--first 1 --header content-length:5", "set by the server itself"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(problem), "{line}: {error}");
        }
    }

    #[test]
    fn every_flag_is_in_the_manual() {
        use clap::CommandFactory;
        let manual = include_str!("../../../../docs/mock-provider.md");
        for flag in Cli::command().get_arguments().filter_map(|argument| argument.get_long().map(str::to_owned)) {
            assert!(manual.contains(&format!("--{flag}")), "--{flag} is missing from docs/mock-provider.md");
        }
    }

    #[test]
    fn the_summary_reads_well() {
        let of = |sends, rejected| json!({"sends": sends, "accepted": sends - rejected, "rejected": rejected, "scripted": 0});
        let mut stats = of(5, 2);
        stats["down"] = json!(1);
        for (name, value) in [
            ("first_arrival_s", json!(10.0)),
            ("last_arrival_s", json!(12.25)),
            ("peak_in_flight", json!(3)),
            ("models", json!({"a": of(3, 2), "b": of(2, 0)})),
        ] {
            stats[name] = value;
        }
        assert_eq!(
            summary(&stats),
            "5 calls: 3 accepted, 2 rejected, 1 while down, 0 scripted; at most 3 at once; 2.2 s from the first to the last\n  \
             a: 3 calls: 1 accepted, 2 rejected, 0 scripted\n  b: 2 calls: 2 accepted, 0 rejected, 0 scripted\n"
        );
    }
}
