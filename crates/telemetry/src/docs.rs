//! The reference, written from the catalogue: a page for people, and a file for what builds dashboards.

use std::fmt::Write as _;

use paceline_core::signal::Source;

use crate::catalogue::{CATALOGUE, Kind, LABELS, Metric, SeriesBound, WAIT_BOUNDS_SECONDS};
use crate::series::Across;

/// The page `docs/reference/metrics.md`, whole.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Metrics\n\n\
         <!-- Generated from crates/telemetry/src/catalogue: UPDATE=1 cargo test -p paceline-telemetry -->\n\n\
         `GET /metrics` answers in Prometheus' text format. Counters start at zero with the process: ask for \
         `rate(...)` or `increase(...)`. *Replicas* says what the values of several make together: *sum* (each tells its \
         part), *greatest* (whoever tells it tells the whole; a sum counts it twice), *each* (it is about the replica). \
         [metrics.json](metrics.json) says the same to programs.\n\n\
         | name | kind, unit | replicas | labels | the question it answers | what it is |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for metric in CATALOGUE {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        row(
            &mut page,
            &[&code(metric.name), &kind(metric), together(metric), &labels.join(", "), metric.question, metric.help],
        );
    }
    page.push_str("\n## Labels\n\n| label | values |\n| --- | --- |\n");
    let sources = Source::ALL.map(|source| code(source.name())).join(", ");
    for (label, meaning) in LABELS {
        row(&mut page, &[&code(label), &meaning.replace("{sources}", &sources)]);
    }
    page.push_str(
        "\nNever a label: request, lease, run, worker, key. An empty label is the same as none in PromQL.\n\n\
         ## How long waits are counted\n\n",
    );
    let bounds = WAIT_BOUNDS_SECONDS.map(|bound| bound.to_string()).join(", ");
    let _ = writeln!(
        page,
        "`paceline_wait_seconds` has these upper bounds in seconds, each at most twice the one before: {bounds}; longer \
         waits are in `+Inf`. A quantile read from it is off by less than a factor of two.\n"
    );
    page.push_str(
        "## How many series there can be\n\n\
         The first `metrics.max_scopes` (150) triples of provider, account and model get series of their \
         own; all later ones are summed with `other` in all three. Gauges show the `max_scopes` accounts where most calls \
         wait, the rest as `other`; those of buckets show the first `max_scopes` buckets by name. A named triple is taken to make \
         16 series, and when all that are named come to `16 * max_scopes`, no further triple and no further tenant of one gets a \
         name. Nothing a worker sends can make more than this, and what is common makes far less (50 accounts of 40 models on \
         three replicas: less than 20,000 together):\n\n\
         | name | at most | with 150 scopes |\n| --- | --- | --- |\n",
    );
    for metric in CATALOGUE {
        row(&mut page, &[&code(metric.name), &bound(metric.series), &series(metric, 150).to_string()]);
    }
    page
}

/// The file `docs/reference/metrics.json`, whole: an array with one metric a line. `across` says what the values of several
/// replicas make together.
pub fn json() -> String {
    let lines: Vec<String> = CATALOGUE
        .iter()
        .map(|metric| {
            let Metric { name, unit, labels, help, question, .. } = metric;
            let across = match metric.kind {
                Kind::Gauge(across) => across,
                Kind::Counter | Kind::Histogram { .. } => Across::Parts,
            };
            // Rust's quoting is JSON's for printable ASCII, which a test holds the catalogue to.
            format!(
                "{{\"name\": {name:?}, \"kind\": {:?}, \"unit\": {unit:?}, \"labels\": {labels:?}, \"across\": {:?}, \"question\": \
                 {question:?}, \"help\": {help:?}}}",
                metric.kind.name(),
                across.name()
            )
        })
        .collect();
    format!("[\n  {}\n]\n", lines.join(",\n  "))
}

fn row(page: &mut String, cells: &[&str]) {
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn kind(metric: &Metric) -> String {
    match metric.unit {
        "" => metric.kind.name().to_owned(),
        "s" => format!("{}, seconds", metric.kind.name()),
        "By" => format!("{}, bytes", metric.kind.name()),
        unit => format!("{}, {}s", metric.kind.name(), unit.trim_matches(['{', '}'])),
    }
}

fn together(metric: &Metric) -> &'static str {
    match metric.kind {
        Kind::Counter | Kind::Histogram { .. } | Kind::Gauge(Across::Parts) => "sum",
        Kind::Gauge(Across::Whole) => "greatest",
        Kind::Gauge(Across::Each) => "each",
    }
}

fn bound(series: SeriesBound) -> String {
    match series {
        SeriesBound::InAll(most) => format!("{most} in all"),
        SeriesBound::PerProvider(each) => format!("{each} per provider"),
        SeriesBound::PerScope(each) => format!("{each} per provider, account and model"),
        SeriesBound::PerAccount(each) => format!("{each} per provider and account"),
    }
}

/// Lines in the text format: a histogram has one per bucket, the one above, its sum and its count.
fn series(metric: &Metric, max_scopes: usize) -> usize {
    let each = match metric.kind {
        Kind::Counter | Kind::Gauge(_) => 1,
        Kind::Histogram { bounds } => bounds.len() + 3,
    };
    each * metric.series.most(max_scopes)
}
