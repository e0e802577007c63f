//! Logs to stderr, as text for people or one JSON object per line for machines, without secrets.

use std::io::{self, IsTerminal as _};
use std::str::FromStr;

use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{EnvFilter, LevelFilter, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::Error;

/// What is logged when nobody says otherwise.
pub const DEFAULT_LOG_FILTER: &str = "info";

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people; coloured on a terminal unless `NO_COLOR` is set.
    #[default]
    Text,
    /// One object per line.
    Json,
}

impl FromStr for LogFormat {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(Error::LogFormat(other.to_owned())),
        }
    }
}

/// Sends the process's logs to stderr. `filter` is a level or `crate=level` pairs ([`DEFAULT_LOG_FILTER`]).
///
/// Libraries are held to `info` whatever the filter says: below it, HTTP libraries write whole header blocks, and with
/// them the keys and tokens of workers.
///
/// # Errors
/// [`Error::LogFilter`] for a filter that cannot be read, [`Error::LoggingAlreadySet`] the second time.
pub fn init_logging(format: LogFormat, filter: &str) -> Result<(), Error> {
    let ansi = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    subscriber(format, filter, ansi, io::stderr)?.try_init().map_err(|_| Error::LoggingAlreadySet)
}

fn subscriber<W>(format: LogFormat, filter: &str, ansi: bool, writer: W) -> Result<impl Subscriber + Send + Sync, Error>
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let wanted = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .parse(filter)
        .map_err(|error| Error::LogFilter { filter: filter.to_owned(), why: error.to_string() })?;
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(ansi);
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    Ok(Registry::default().with(wanted).with(lines.with_filter(filter_fn(is_free_of_secrets))))
}

/// Our own lines at any level, those of libraries from `info` up; OpenTelemetry's from `warn` up, since it announces
/// every start and stop.
fn is_free_of_secrets(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    let most = if target.starts_with("paceline") {
        Level::TRACE
    } else if target.starts_with("opentelemetry") {
        Level::WARN
    } else {
        Level::INFO
    };
    *metadata.level() <= most
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, filter: &str, act: impl FnOnce()) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = subscriber(format, filter, false, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, act);
        String::from_utf8(sink.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn text_and_json_say_the_same() {
        let act = || tracing::info!(target: "paceline_server", scope = "openai/prod", "listening");
        let text = logged(LogFormat::Text, "info", act);
        assert!(text.contains("INFO paceline_server: listening scope=\"openai/prod\""), "{text}");
        let json = logged(LogFormat::Json, "info", act);
        assert!(json.starts_with('{') && json.ends_with("}\n"), "{json}");
        for part in [r#""level":"INFO""#, r#""message":"listening""#, r#""scope":"openai/prod""#] {
            assert!(json.contains(part), "{part} not in {json}");
        }
    }

    #[test]
    fn the_filter_chooses_and_an_empty_one_means_info() {
        let act = || {
            tracing::debug!(target: "paceline_core", "core detail");
            tracing::debug!(target: "paceline_store", "store detail");
            tracing::info!(target: "paceline_store", "store news");
        };
        let lines = logged(LogFormat::Text, "info,paceline_core=debug", act);
        assert!(lines.contains("core detail") && lines.contains("store news") && !lines.contains("store detail"), "{lines}");
        let lines = logged(LogFormat::Text, "", act);
        assert!(lines.contains("store news") && !lines.contains("detail"), "{lines}");
    }

    #[test]
    fn libraries_cannot_be_made_to_write_headers() {
        let lines = logged(LogFormat::Text, "trace,h2=trace,hyper::proto=trace", || {
            tracing::debug!(target: "h2::codec::framed_write", "send frame=Headers authorization: Bearer secret");
            tracing::trace!(target: "hyper::proto::h1", "secret");
            tracing::info!(target: "opentelemetry_sdk", "MeterProvider.Drop");
            tracing::warn!(target: "h2", "connection lost");
            tracing::trace!(target: "paceline_server::acquire", "held");
        });
        assert!(!lines.contains("secret") && !lines.contains("MeterProvider"), "{lines}");
        assert!(lines.contains("connection lost") && lines.contains("held"), "{lines}");
    }

    #[test]
    fn a_wrong_filter_or_format_says_what_to_write() {
        let error = subscriber(LogFormat::Text, "info,paceline=loud", false, io::sink).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("info,paceline=loud") && error.contains("crate=level"), "{error}");
        let error = "xml".parse::<LogFormat>().unwrap_err().to_string();
        assert!(error.contains("`text` or `json`"), "{error}");
    }
}
