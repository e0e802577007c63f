//! The answers in `tests/cases`, and what each must be read as.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(dead_code, reason = "no test uses all of it")]

pub(crate) mod arbitrary;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use paceline_core::units::{FleetTime, Span};
use paceline_signals::{Answer, Provider, Reading, catalogue, read_in_full};
use serde::Deserialize;

/// One answer and what must be read out of it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) provider: String,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<String>,
    #[serde(deserialize_with = "timestamp")]
    pub(crate) received_at: jiff::Timestamp,
    pub(crate) expect: Expected,
    /// What the case shows.
    pub(crate) why: String,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    pub(crate) retry_after_ms: Option<i64>,
    source: String,
    buckets: Vec<ExpectedBucket>,
    retryable: bool,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedBucket {
    /// Ours to choose: a bucket is known by its figures.
    name: String,
    limit: Option<i64>,
    remaining: Option<i64>,
    reset_ms: Option<i64>,
}

fn timestamp<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<jiff::Timestamp, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

impl Case {
    /// Reads the answer with its provider's rules.
    pub(crate) fn read(&self) -> Reading {
        self.read_as(catalogue().get_or_generic(&self.provider))
    }

    /// Reads the answer with the rules of a provider.
    pub(crate) fn read_as(&self, provider: &Provider) -> Reading {
        let headers: Vec<(&str, &[u8])> = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let answer = Answer {
            status: self.status,
            grpc_status: None,
            headers: &headers,
            body: self.body.as_deref().unwrap_or("").as_bytes(),
            received_at: Some(FleetTime::from_micros(self.received_at.as_microsecond())),
            age: Span::ZERO,
        };
        read_in_full(provider, &answer)
    }

    /// The same answer with every header changed.
    pub(crate) fn with_headers(&self, mut change: impl FnMut(&str, &str) -> (String, String)) -> Self {
        let headers = self.headers.iter().map(|(name, value)| change(name, value)).collect();
        Self { headers, ..self.clone() }
    }
}

/// Wait, source, buckets by limit, remaining and reset, retryable.
pub(crate) type Figures = (Option<i64>, String, Vec<(Option<i64>, Option<i64>, Option<i64>)>, bool);

/// What was read, in the order that makes readings comparable.
pub(crate) fn figures(reading: &Reading) -> Figures {
    let millis = |span: Option<Span>| span.map(Span::as_millis_ceil);
    let mut buckets: Vec<_> =
        reading.buckets.iter().map(|bucket| (bucket.limit, bucket.remaining, millis(bucket.reset_in))).collect();
    buckets.sort_unstable();
    let signal = &reading.signal;
    (millis(signal.retry_after), signal.source.name().replace('_', "-"), buckets, signal.retryable)
}

/// What must be read.
pub(crate) fn expected(expected: &Expected) -> Figures {
    let mut buckets: Vec<_> = expected.buckets.iter().map(|bucket| (bucket.limit, bucket.remaining, bucket.reset_ms)).collect();
    buckets.sort_unstable();
    (expected.retry_after_ms, expected.source.clone(), buckets, expected.retryable)
}

/// Every case of every file.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for file in stems(&folder("tests/cases"), "jsonl") {
        let text = fs::read_to_string(folder("tests/cases").join(format!("{file}.jsonl"))).unwrap();
        for (index, line) in text.lines().enumerate() {
            cases.push(serde_json::from_str(line).unwrap_or_else(|error| panic!("{file}.jsonl, line {}: {error}", index + 1)));
        }
    }
    assert!(!cases.is_empty());
    cases
}

/// The names of a folder's files of one kind, without the extension.
pub(crate) fn stems(folder: &Path, extension: &str) -> BTreeSet<String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of_that_kind = files.filter(|path| path.extension().is_some_and(|found| found == extension));
    of_that_kind.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

/// A folder of this crate.
pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}
