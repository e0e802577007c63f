//! What is counted, and how it is shown.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use paceline_core::units::Span;
use serde_json::{Value, json};

/// Latencies are kept to three digits, up to this many microseconds (an hour).
const LONGEST_US: u64 = 3_600_000_000;
/// How wide the longest bar of the histogram is.
const BAR: u64 = 50;

/// Counts while calls are made.
pub(super) struct Figures {
    /// Calls that were due before this only warm the service up.
    from: Instant,
    counts: Mutex<Counts>,
}

struct Counts {
    latencies_us: Histogram<u64>,
    sent: u64,
    granted: u64,
    tickets: u64,
    denied: BTreeMap<String, u64>,
    failed: BTreeMap<String, u64>,
    last: Instant,
}

/// What came of it.
pub(super) struct Measured {
    latencies_us: Histogram<u64>,
    /// From the first call to the last answer.
    length: Duration,
    pub(super) granted: u64,
    tickets: u64,
    denied: BTreeMap<String, u64>,
    failed: BTreeMap<String, u64>,
    /// CPU time of the service, and how many calls it answered in that time.
    cpu: Option<(Duration, u64)>,
}

impl Figures {
    pub(super) fn new(from: Instant) -> Self {
        let (denied, failed) = (BTreeMap::new(), BTreeMap::new());
        let counts = Counts { latencies_us: empty(), sent: 0, granted: 0, tickets: 0, denied, failed, last: from };
        Self { from, counts: Mutex::new(counts) }
    }

    /// A call was sent that was due then.
    pub(super) fn sent(&self, due: Instant) {
        self.count(due, |counts, _| counts.sent += 1);
    }

    /// It was granted, after so many tickets.
    pub(super) fn granted(&self, due: Instant, tickets: u64) {
        self.count(due, |counts, latency_us| {
            counts.granted += 1;
            counts.tickets += tickets;
            counts.latencies_us.saturating_record(latency_us);
        });
    }

    pub(super) fn denied(&self, due: Instant, why: String) {
        self.count(due, |counts, _| *counts.denied.entry(why).or_default() += 1);
    }

    pub(super) fn failed(&self, due: Instant, why: String) {
        self.count(due, |counts, _| *counts.failed.entry(why).or_default() += 1);
    }

    /// Those that have had no answer in all the time they had are errors.
    pub(super) fn unanswered(&self, after: Duration) {
        let mut counts = self.counts();
        let answered = counts.granted + sum(&counts.denied) + sum(&counts.failed);
        let missing = counts.sent.saturating_sub(answered);
        if missing > 0 {
            counts.failed.insert(format!("no answer {after:?} after the end"), missing);
        }
    }

    /// How many calls were granted so far.
    pub(super) fn answered(&self) -> u64 {
        self.counts().granted
    }

    /// The figures of a run that was to last so long.
    pub(super) fn measured(&self, duration: Duration, cpu: Option<Duration>, answered: u64) -> Measured {
        let counts = self.counts();
        Measured {
            latencies_us: counts.latencies_us.clone(),
            length: duration.max(counts.last.saturating_duration_since(self.from)),
            granted: counts.granted,
            tickets: counts.tickets,
            denied: counts.denied.clone(),
            failed: counts.failed.clone(),
            cpu: cpu.map(|cpu| (cpu, answered)),
        }
    }

    fn count(&self, due: Instant, count: impl FnOnce(&mut Counts, u64)) {
        if due < self.from {
            return;
        }
        let now = Instant::now();
        let latency = now.saturating_duration_since(due).as_micros();
        let mut counts = self.counts();
        counts.last = counts.last.max(now);
        count(&mut counts, u64::try_from(latency).unwrap_or(LONGEST_US).max(1));
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Measured {
    /// One object: the contract of `bench --json`, and what else was counted.
    pub(super) fn json(&self) -> Value {
        let quantile = |share| self.latencies_us.value_at_quantile(share);
        json!({
            "acquires_per_s": rounded(self.per_second()),
            "p50_us": quantile(0.5),
            "p99_us": quantile(0.99),
            "p999_us": quantile(0.999),
            "server_cpu_us_per_acquire": self.cpu_us().map(rounded),
            "errors": sum(&self.failed),
            "denied": sum(&self.denied),
            "tickets": self.tickets,
        })
    }

    /// For people, under what was done.
    pub(super) fn people(&self, what: &str) -> String {
        let us = |share| Span::from_micros(i64::try_from(self.latencies_us.value_at_quantile(share)).unwrap_or(i64::MAX));
        let mut text = format!("{what}\n\n");
        let _ = writeln!(text, "acquires    {:.0}/s; {} granted", self.per_second(), self.granted);
        let shares = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("longest", 1.0)];
        let shares: Vec<String> = shares.iter().map(|(name, share)| format!("{name} {}", fine(us(*share)))).collect();
        let _ = writeln!(text, "latency     {}", shares.join(", "));
        if let Some(cpu_us) = self.cpu_us() {
            let _ = writeln!(text, "server CPU  {cpu_us:.1} us an acquire");
        }
        if self.tickets > 0 {
            let line = "calls had to wait with a ticket: the service limits them; to measure the service itself, give it a scope \
                        without a limit (--help shows how)";
            let _ = writeln!(text, "waited      {} {line}", self.tickets);
        }
        for (name, whys) in [("denied", &self.denied), ("errors", &self.failed)] {
            for (why, count) in whys {
                let _ = writeln!(text, "{name:<11} {count} x {why}");
            }
        }
        text + "\n" + &self.histogram()
    }

    /// Why nothing was granted.
    pub(super) fn why_nothing(&self) -> String {
        let most = self.denied.iter().chain(&self.failed).max_by_key(|(_, count)| **count);
        most.map_or_else(|| "no call was answered in time".to_owned(), |(why, count)| format!("{count} x {why}"))
    }

    fn per_second(&self) -> f64 {
        self.granted as f64 / self.length.as_secs_f64().max(1e-9)
    }

    fn cpu_us(&self) -> Option<f64> {
        let (cpu, answered) = self.cpu?;
        (answered > 0).then(|| cpu.as_secs_f64() * 1e6 / answered as f64)
    }

    /// Bars for latencies, each twice as long as the one before.
    fn histogram(&self) -> String {
        let bars: Vec<(u64, u64)> = self
            .latencies_us
            .iter_log(1, 2.0)
            .map(|step| (step.value_iterated_to(), step.count_since_last_iteration()))
            .skip_while(|(_, count)| *count == 0)
            .collect();
        let most = bars.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
        let mut text = String::new();
        for (up_to_us, count) in bars {
            let bar = "#".repeat(usize::try_from((count * BAR).div_ceil(most)).unwrap_or(0));
            let up_to = Span::from_micros(i64::try_from(up_to_us.saturating_add(1)).unwrap_or(i64::MAX));
            let _ = writeln!(text, "  < {:>9} {count:>10} {bar}", fine(up_to));
        }
        text
    }
}

/// For latencies up to an hour.
fn empty() -> Histogram<u64> {
    #[expect(clippy::expect_used, reason = "the bounds are constants that a test builds")]
    Histogram::new_with_bounds(1, LONGEST_US, 3).expect("bounds that fit")
}

/// Milliseconds and below with three digits: what `Span` writes is meant for waits.
fn fine(span: Span) -> String {
    let us = span.as_micros();
    match us {
        0..=999 => format!("{us} us"),
        1_000..=99_999 => format!("{:.2} ms", us as f64 / 1e3),
        _ => span.to_string(),
    }
}

/// To a tenth.
fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

fn sum(counts: &BTreeMap<String, u64>) -> u64 {
    counts.values().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> (Figures, Instant) {
        let from = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        (Figures::new(from), from)
    }

    #[test]
    fn a_latency_counts_from_when_the_call_was_due() {
        let (figures, from) = figures();
        let due = from + Duration::from_secs(50);
        figures.sent(due);
        figures.granted(due, 0);
        let measured = figures.measured(Duration::from_secs(1), None, 1);
        let shown = measured.json();
        assert!(shown["p50_us"].as_u64().unwrap() >= 10_000_000, "a second would be what it took to send it: {shown}");
        assert_eq!((shown["errors"].as_u64(), shown["server_cpu_us_per_acquire"].is_null()), (Some(0), true));
    }

    #[test]
    fn the_warm_up_is_not_counted_and_what_has_no_answer_is_an_error() {
        let (figures, from) = figures();
        let early = from.checked_sub(Duration::from_secs(1)).unwrap();
        figures.sent(early);
        figures.granted(early, 3);
        for _ in 0..3 {
            figures.sent(from);
        }
        figures.granted(from, 1);
        figures.denied(from, "DEADLINE".into());
        figures.unanswered(Duration::from_secs(5));
        let measured = figures.measured(Duration::from_secs(1), Some(Duration::from_millis(1)), 10);
        let shown = measured.json();
        assert_eq!((measured.granted, shown["tickets"].as_u64(), shown["denied"].as_u64()), (1, Some(1), Some(1)));
        assert_eq!((shown["errors"].as_u64(), shown["server_cpu_us_per_acquire"].as_f64()), (Some(1), Some(100.0)));
        let text = measured.people("two calls");
        assert!(text.contains("no answer 5s after the end") && text.contains("without a limit"), "{text}");
    }

    #[test]
    fn bars_show_where_the_calls_are() {
        let (figures, _) = figures();
        {
            let mut counts = figures.counts();
            for us in [150, 160, 170, 900, 70_000] {
                counts.latencies_us.record(us).unwrap();
            }
        }
        let text = figures.measured(Duration::from_secs(1), None, 0).histogram();
        let first = text.lines().next().unwrap();
        assert!(first.contains("256 us") && first.ends_with(&"#".repeat(50)), "{text}");
        assert!(text.lines().last().unwrap().contains("131 ms"), "{text}");
    }
}
