//! `paceline explain`: what Paceline reads out of a provider's answer, by which rule, and what it cannot read.

mod input;
mod jsonl;
mod people;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use clap::Args;
use paceline_core::units::{FleetTime, Span};
use paceline_signals::{Answer, Provider, Reading, catalogue, read_in_full};

use super::provider_files::ProviderFiles;

const EXAMPLES: &str = "\
Examples:
  # What does this answer say, and what would the fleet do?
  curl -si https://api.openai.com/v1/models | paceline explain --provider openai

  # The same from a file, for a program
  paceline explain --provider openai --json answer.txt

  # With a file about a provider of your own: providers/acme.yaml
  curl -si https://api.acme.example/v1 | paceline explain --providers providers --provider acme

  # Many answers, one JSON object a line in, one a line out, in the same order
  paceline explain --jsonl < answers.jsonl

A line in is {\"id\": 1, \"provider\": \"openai\", \"status\": 429, \"headers\": [[\"retry-after\", \"2\"]]}.
Providers that are not in the catalogue get the generic reading: standards, and names that mean the
same wherever they are seen. No state is touched and nothing is sent. Values of headers that nothing
reads are not printed; they could be secrets.";

/// At most so much of a pasted answer is read, in bytes.
const MOST_INPUT: u64 = 16 << 20;

/// What Paceline reads out of a provider's answer, by which rule, and what it cannot read.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, after_help = "See --help for examples.")]
pub(crate) struct ExplainArgs {
    /// The answer as `curl -si` prints it (status line, headers, body); without FILE or with `-` it is read from standard input.
    file: Option<PathBuf>,

    /// Whose answer it is: a name of the catalogue; any other name gets the generic reading.
    #[arg(long, value_name = "NAME", default_value = "generic", conflicts_with = "jsonl")]
    provider: String,

    /// When the answer arrived (RFC 3339), for dates in an answer that has no Date of its own.
    #[arg(long, value_name = "TIME", conflicts_with = "jsonl", value_parser = parse_time)]
    received_at: Option<FleetTime>,

    /// Print one JSON object instead of text.
    #[arg(long, conflicts_with = "jsonl")]
    json: bool,

    /// Read and print one JSON object per line: {"id", "provider", "status", "headers": [[name, value], ...], "body", "received_at"}.
    #[arg(long)]
    jsonl: bool,

    #[command(flatten)]
    pub(crate) provider_files: ProviderFiles,
}

/// Why nothing could be explained.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExplainError {
    /// The file is not there or not readable.
    #[error("cannot read {}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The input broke off.
    #[error("cannot read the input: {0}")]
    Input(io::Error),
    /// The output broke off.
    #[error("cannot write: {0}")]
    Output(io::Error),
    /// Not what curl prints.
    #[error("{0}\nPaste what `curl -si URL` prints: a status line such as `HTTP/2 429`, headers, an empty line, the body.")]
    NotAnAnswer(String),
}

/// Explains what is in the file, else in `input`, and writes it to `out`; ANSI colours only when `colour`.
pub(crate) fn run(args: &ExplainArgs, input: &mut dyn Read, out: &mut dyn Write, colour: bool) -> Result<(), ExplainError> {
    let mut file;
    let input: &mut dyn Read = match args.file.as_ref().filter(|path| path.as_os_str() != "-") {
        Some(path) => {
            file = File::open(path).map_err(|error| ExplainError::File { path: path.clone(), error })?;
            &mut file
        }
        None => input,
    };
    if args.jsonl {
        return jsonl::run(input, out);
    }
    let mut bytes = Vec::new();
    input.take(MOST_INPUT).read_to_end(&mut bytes).map_err(ExplainError::Input)?;
    let pasted = input::Pasted::parse(&bytes).map_err(ExplainError::NotAnAnswer)?;
    let provider = catalogue().get_or_generic(&args.provider);
    let reading = read(provider, pasted.status, &pasted.headers, &pasted.body, args.received_at);
    if args.json {
        jsonl::write_line(out, &jsonl::full(&args.provider, provider, pasted.status, &reading)).map_err(ExplainError::Output)
    } else {
        let text = people::explain(&args.provider, provider, pasted.status, &reading, colour);
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(ExplainError::Output)
    }
}

/// Reads one answer.
fn read(
    provider: &Provider,
    status: u16,
    headers: &[(String, Vec<u8>)],
    body: &[u8],
    received_at: Option<FleetTime>,
) -> Reading {
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
    read_in_full(provider, &Answer { status, grpc_status: None, headers: &headers, body, received_at, age: Span::ZERO })
}

/// Reads RFC 3339.
fn parse_time(text: &str) -> Result<FleetTime, String> {
    let parsed: Result<jiff::Timestamp, _> = text.parse();
    let wrong = |_| format!("`{text}` is no RFC 3339 time; write it as 2026-02-06T12:00:00Z");
    parsed.map(|time| FleetTime::from_micros(time.as_microsecond())).map_err(wrong)
}

#[cfg(test)]
mod tests;
