//! `paceline probe`: a few of the cheapest calls with the user's own key, and what their answers tell of the provider's limits.

mod found;
mod plan;
mod proxy;
mod secret;
mod told;
mod trouble;
mod wire;
mod yaml;

#[cfg(test)]
mod tests;

use std::io::{self, BufRead, IsTerminal as _, Write};

use clap::Args;
use paceline_core::units::Span;
use paceline_signals::{Answer, Reading, read_in_full};

use self::found::{Sighting, found};
use self::plan::Plan;
use self::proxy::Proxy;
use self::secret::Key;
use self::told::{Call, Outcome};
use self::wire::{Answered, WireError};
use super::provider_files::ProviderFiles;

const EXAMPLES: &str = "\
Examples:
  # What limits does this key have? Says first what it sends and what that costs, and asks
  paceline probe openai --key-env OPENAI_API_KEY

  # Those of another model, without asking, as one JSON object
  paceline probe anthropic --key-env ANTHROPIC_API_KEY --model claude-sonnet-4-5 --yes --json

  # A server of your own, or a gateway
  paceline probe vllm --key-env VLLM_KEY --base-url https://vllm.example.com --model my-model

  # Any provider at all: a GET of an address
  paceline probe acme --key-env ACME_TOKEN --base-url https://api.acme.example/v1/things

The key is read from the environment, sent to that provider, and neither kept, printed nor logged. It
never stands on the command line, where everybody on the machine can read it.";

/// Asks a provider with your own key: its limits, windows, what is not read, and the lines for the configuration.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, after_help = "See --help for examples.")]
pub(crate) struct ProbeArgs {
    /// A name of the catalogue, or any other with --base-url.
    provider: String,

    /// The environment variable that holds the key: its name, not the key.
    #[arg(long, value_name = "VARIABLE", required_unless_present = "key")]
    key_env: Option<String>,

    /// Where the provider answers, when that is not as the catalogue says.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,

    /// The model to ask for, when that is not as the catalogue says: limits are a model's.
    #[arg(long)]
    model: Option<String>,

    /// The name that the account has in the configuration: an alias, never the key.
    #[arg(long, value_name = "ALIAS", default_value = "default", value_parser = parse_alias)]
    account: String,

    /// How many calls are made: what moves between them tells how limits refill.
    #[arg(long, value_name = "N", default_value_t = 3, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10))]
    calls: u32,

    /// Send without asking.
    #[arg(long)]
    yes: bool,

    /// Send the key to an http:// address that is not on this machine.
    #[arg(long)]
    plain_http: bool,

    /// Print one JSON object: {"provider","read_as","account","model","url","calls","buckets","unread_headers","malformed_headers","yaml","error"}.
    #[arg(long)]
    json: bool,

    /// Refused: a key on the command line is seen by others.
    #[arg(long, alias = "api-key", alias = "token", num_args = 0..=1, default_missing_value = "", hide = true)]
    key: Option<String>,

    /// Refused: what stands here is often the key.
    #[arg(hide = true)]
    more: Vec<String>,

    #[command(flatten)]
    pub(crate) provider_files: ProviderFiles,
}

#[cfg(test)]
impl ProbeArgs {
    /// What holds when only a provider is named.
    fn of_provider(provider: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            key_env: Some("A_KEY".to_owned()),
            base_url: None,
            model: None,
            account: "default".to_owned(),
            calls: 3,
            yes: false,
            plain_http: false,
            json: false,
            key: None,
            more: Vec::new(),
            provider_files: ProviderFiles::default(),
        }
    }
}

/// Why a provider could not be probed. No message holds the key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeError {
    /// The key itself was given.
    #[error(
        "a key does not belong on the command line, where everybody on this machine can read it. Put it into an environment variable and \
         name that: --key-env OPENAI_API_KEY. If this was a real key and others use this machine, replace it"
    )]
    KeyOnCommandLine,
    /// In place of the name of a variable.
    #[error(
        "--key-env takes the name of an environment variable, such as OPENAI_API_KEY, and this looks like a key itself. Replace that key if others use this machine"
    )]
    KeyAsVariable,
    /// Something too many.
    #[error("only the provider is named without a flag; the key's variable is named with --key-env, a model with --model")]
    TooMany,
    /// The variable is not there.
    #[error(
        "the environment variable that --key-env names is not set. Export it in this shell first: `export NAME=...`, or `read -rs NAME && export NAME`"
    )]
    NoVariable,
    /// What it holds is no key.
    #[error(
        "the environment variable that --key-env names holds no key: it is empty, or has blanks or other signs in it that no key has"
    )]
    NoKey,
    /// The catalogue says nothing.
    #[error("the catalogue does not say how to ask {0}; write a `probe:` section into a file of your own (docs/probe.md)")]
    NoProbe(String),
    /// Nobody knows where it is.
    #[error("the catalogue does not say where {0} answers; name its address with --base-url https://...")]
    NoAddress(String),
    /// Nobody knows what to ask for.
    #[error("a call to {0} names a model; choose one that you use with --model")]
    NoModel(String),
    /// The address is none.
    #[error("--base-url: {0}. Write it as https://api.example.com")]
    BadAddress(&'static str),
    /// The environment names no proxy that can be used.
    #[error("HTTPS_PROXY: {0}. Write it as http://proxy.example:3128, or name the provider's host in NO_PROXY to do without")]
    BadProxy(&'static str),
    /// Everybody on the way could read the key.
    #[error(
        "the key would go to {0} without encryption; use https://, or say --plain-http if everybody on the way may read it"
    )]
    Unencrypted(String),
    /// The file about the provider is wrong.
    #[error("the header `{0}` in the `probe:` section of the provider's file cannot be sent")]
    BadHeader(String),
    /// Nobody can be asked.
    #[error("there is no terminal to ask on, so nothing was sent; say --yes to send the calls that are announced above")]
    NoTerminal,
    /// The user said no.
    #[error("nothing was sent")]
    Declined,
    /// No answer.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// An answer that is no success.
    #[error("{0}")]
    Refused(String),
    /// Reading or writing failed.
    #[error("probe stopped: {0}")]
    Io(#[from] io::Error),
}

impl ProbeError {
    /// Whether the command line was wrong.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Self::KeyOnCommandLine | Self::KeyAsVariable | Self::TooMany | Self::BadAddress(_))
    }
}

/// Announces, asks, calls and tells.
///
/// # Errors
/// What was asked for makes no call, nobody agreed to it, or the provider did not answer with a success.
pub(crate) async fn run(args: ProbeArgs, out: &mut dyn Write) -> Result<(), ProbeError> {
    if args.key.is_some() {
        return Err(ProbeError::KeyOnCommandLine);
    }
    if !args.more.is_empty() {
        return Err(ProbeError::TooMany);
    }
    let variable = args.key_env.as_deref().unwrap_or_default();
    let key = Key::from_variable(variable, std::env::var_os(variable))?;
    let mut plan = Plan::new(&args, &key)?;
    plan.proxy = Proxy::of(&plan.place, |name| std::env::var(name).ok()).map_err(ProbeError::BadProxy)?;
    let is_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    agree(&plan.announcement(&key), args.yes, is_terminal, &mut io::stdin().lock(), &mut io::stderr())?;
    let (sightings, calls, ended) = calls(&plan, &key).await;
    let trouble = ended.as_ref().err().map(ToString::to_string);
    if !calls.is_empty() || args.json {
        let found = found(plan.provider, &sightings);
        let yaml = yaml::yaml(&plan, &found);
        let outcome = Outcome { plan: &plan, calls, found, yaml, trouble };
        let text = if args.json { format!("{}\n", outcome.json()) } else { outcome.text() };
        // Nothing in it is from the key; should a provider repeat the key where nobody expects it, it ends here.
        out.write_all(key.scrub(&text).as_bytes())?;
        out.flush()?;
    }
    ended
}

/// Says what is about to happen and makes sure that somebody wants it.
fn agree(
    announcement: &str,
    yes: bool,
    is_terminal: bool,
    input: &mut dyn BufRead,
    out: &mut dyn Write,
) -> Result<(), ProbeError> {
    out.write_all(announcement.as_bytes())?;
    if yes {
        return Ok(());
    }
    if !is_terminal {
        return Err(ProbeError::NoTerminal);
    }
    write!(out, "Send? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    let agrees = matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    if agrees { Ok(()) } else { Err(ProbeError::Declined) }
}

/// Makes the calls, one after the other, up to the first that is no success.
async fn calls(plan: &Plan, key: &Key) -> (Vec<Sighting>, Vec<Call>, Result<(), ProbeError>) {
    let (mut sightings, mut calls) = (Vec::<Sighting>::new(), Vec::new());
    let mut first = None;
    for _ in 0..plan.calls {
        let answered = match wire::call(plan, key).await {
            Ok(answered) => answered,
            Err(error) => return (sightings, calls, Err(error.into())),
        };
        let reading = read(plan, &answered);
        let trouble = trouble::of(plan, key, &answered, &reading);
        let began = *first.get_or_insert(answered.received_at);
        sightings.push(Sighting { at: answered.received_at.since(began), reading });
        calls.push(Call { status: answered.status.as_u16(), took: Span::from(answered.took) });
        if let Some(trouble) = trouble {
            return (sightings, calls, Err(ProbeError::Refused(trouble)));
        }
    }
    (sightings, calls, Ok(()))
}

/// Reads one answer by the provider's rules.
fn read(plan: &Plan, answered: &Answered) -> Reading {
    let headers: Vec<(&str, &[u8])> = answered.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let answer = Answer {
        status: answered.status.as_u16(),
        headers: &headers,
        body: &answered.body,
        received_at: Some(answered.received_at),
        ..Answer::default()
    };
    read_in_full(plan.provider, &answer)
}

/// An alias is a name that may be seen.
fn parse_alias(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && text.len() <= 128 && !text.chars().any(char::is_control);
    if is_name { Ok(text.to_owned()) } else { Err("write a name, such as prod".to_owned()) }
}
