//! The reference page, written from the catalogue.

use std::fmt::Write as _;

use paceline_core::signal::Source;

use crate::catalogue::{CATALOGUE, Kind, LABELS, Metric, SeriesBound, WAIT_BOUNDS_SECONDS};

/// The page `docs/reference/metrics.md`, whole.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Metrics\n\n\
         <!-- Generated from crates/telemetry/src/catalogue.rs: UPDATE=1 cargo test -p paceline-telemetry -->\n\n\
         `GET /metrics` answers in Prometheus' text format. Counters start at zero with the process: ask for \
         `rate(...)` or `increase(...)`.\n\n\
         | name | kind, unit | labels | the question it answers | what it is |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    for metric in CATALOGUE {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        row(&mut page, &[&code(metric.name), &kind(metric), &labels.join(", "), metric.question, metric.help]);
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
         The first `metrics.max_scopes` (200 unless configured) triples of provider, account and model get series of their \
         own; all later ones are summed with `other` in all three. Gauges show the `max_scopes` accounts where most calls \
         wait, the rest as `other`. Nothing a worker sends can make more:\n\n\
         | name | at most | with 200 scopes |\n| --- | --- | --- |\n",
    );
    for metric in CATALOGUE {
        row(&mut page, &[&code(metric.name), &bound(metric.series), &series(metric, 200).to_string()]);
    }
    page
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
        unit => format!("{}, {}s", metric.kind.name(), unit.trim_matches(['{', '}'])),
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
        Kind::Counter | Kind::Gauge => 1,
        Kind::Histogram { bounds } => bounds.len() + 3,
    };
    each * metric.series.most(max_scopes)
}
