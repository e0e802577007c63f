//! The end of the demo: both runs side by side, and what they say. Pure: figures in, text out.

use std::fmt::Write as _;
use std::time::Duration;

use super::outcome::{Outcome, Strategy};
use super::text::grouped;

/// Widths of the columns.
const LABEL: usize = 40;
const FIGURE: usize = 15;
/// Sources of delay that make up less than this part of the waiting are not listed for people.
const LEAST_SHARE: f64 = 0.005;

/// The runs side by side, with a line that sums them up.
pub(super) fn table(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    let titles: Vec<String> = outcomes.iter().map(|outcome| outcome.strategy.title().to_owned()).collect();
    row(&mut text, "", &titles);
    for (label, figure) in ROWS {
        row(&mut text, label, &outcomes.iter().map(figure).collect::<Vec<_>>());
    }
    text.push('\n');
    for outcome in outcomes {
        let _ = writeln!(text, "  Where the waiting went {}: {}", outcome.strategy.title(), sources(outcome));
    }
    let _ = writeln!(text, "\n  {}", verdict(outcomes));
    text
}

/// What to look at next.
pub(super) fn next_steps() -> &'static str {
    "
  Try next:
    paceline demo --workers 50 --limit 500/min --tokens 200k/min   your own fleet and limits
    paceline demo --provider retry-after                           a provider that tells no limits
    paceline serve                                                 the service for your workers (docs/workers.md)
    curl -si https://... | paceline explain                        what an answer of your provider says
"
}

type Row = (&'static str, fn(&Outcome) -> String);

const ROWS: [Row; 9] = [
    ("all calls answered after", |o| seconds(o.makespan_s)),
    ("  the best that any scheduler could do", |o| seconds(o.clairvoyant_s)),
    ("  times as long", |o| format!("{:.2}", o.times())),
    ("calls sent for one that is answered", |o| format!("{:.2}", o.sends_per_call())),
    ("refused by the provider", |o| percent(o.refused_share())),
    ("given up by an SDK with its two retries", |o| percent(o.lost_share)),
    ("wait before sending: median", |o| seconds(o.wait_p50_s)),
    ("  99th percentile", |o| seconds(o.wait_p99_s)),
    ("fairness among workers (Jain, 1 = even)", |o| format!("{:.3}", o.jain)),
];

fn row(text: &mut String, label: &str, figures: &[String]) {
    let mut line = format!("  {label:<LABEL$}");
    for figure in figures {
        let _ = write!(line, "{figure:>FIGURE$}");
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

/// `bucket 93 %, pacing 6 %`, the largest first, with the total; being refused takes time as well.
fn sources(outcome: &Outcome) -> String {
    let delays = outcome.delays.iter().map(|(source, length)| (*source, *length));
    let mut parts: Vec<(&str, Duration)> = delays.chain([("refused calls", outcome.in_refused)]).collect();
    parts.sort_by_key(|(_, length)| std::cmp::Reverse(*length));
    let total: Duration = parts.iter().map(|(_, length)| *length).sum();
    if total.is_zero() {
        return "nobody waited".to_owned();
    }
    let shares = parts.iter().map(|(source, length)| (source, length.as_secs_f64() / total.as_secs_f64()));
    let listed = shares.filter(|(_, share)| *share >= LEAST_SHARE);
    let listed: Vec<String> = listed.map(|(source, share)| format!("{source} {}", percent(share))).collect();
    format!("{} of {} worker-seconds", listed.join(", "), grouped(total.as_secs()))
}

/// One line that says what the figures say.
fn verdict(outcomes: &[Outcome]) -> String {
    let of = |strategy| outcomes.iter().find(|outcome| outcome.strategy == strategy);
    match (of(Strategy::Paceline), of(Strategy::Alone)) {
        (Some(ours), Some(alone)) => format!(
            "With Paceline {} of {} calls were refused; alone {} of {}, for the same work{}.",
            grouped(ours.refused),
            grouped(ours.sends),
            grouped(alone.refused),
            grouped(alone.sends),
            in_what_time(ours, alone),
        ),
        (Some(ours), None) => format!(
            "With Paceline {} of {} calls were refused, in {:.2} times the best possible time.",
            grouped(ours.refused),
            grouped(ours.sends),
            ours.times()
        ),
        (None, Some(alone)) => {
            format!("Alone {} of {} calls were refused.", grouped(alone.refused), grouped(alone.sends))
        }
        (None, None) => "Nothing was run.".to_owned(),
    }
}

fn in_what_time(ours: &Outcome, alone: &Outcome) -> String {
    let ratio = ours.makespan_s / alone.makespan_s.max(1e-9);
    if ratio < 0.95 {
        format!(" and {} sooner", percent(1.0 - ratio))
    } else if ratio > 1.05 {
        format!(", which took {} less", percent(1.0 - 1.0 / ratio))
    } else {
        " in about the same time".to_owned()
    }
}

fn seconds(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.2} s") } else { format!("{seconds:.1} s") }
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 || percent >= 9.95 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::tests::outcome;
    use super::super::outcome::{Done, Strategy};
    use super::*;

    fn done(answered_ms: u64, sends: u32) -> Vec<Done> {
        let answered = Duration::from_millis(answered_ms);
        let one = |worker| Done { worker, wanted: Duration::ZERO, sent: answered / 2, answered, sends };
        vec![one(0), one(1)]
    }

    #[test]
    fn both_runs_stand_side_by_side() {
        let outcomes = [outcome(Strategy::Paceline, 0, done(2_000, 1)), outcome(Strategy::Alone, 18, done(2_040, 10))];
        let expected = "
                                            with Paceline          alone
  all calls answered after                         2.00 s         2.04 s
    the best that any scheduler could do           2.00 s         2.00 s
    times as long                                    1.00           1.02
  calls sent for one that is answered                1.00          10.00
  refused by the provider                             0 %           90 %
  given up by an SDK with its two retries             0 %          100 %
  wait before sending: median                      1.00 s         1.02 s
    99th percentile                                1.00 s         1.02 s
  fairness among workers (Jain, 1 = even)           1.000          1.000

  Where the waiting went with Paceline: bucket 99 %, pacing 0.8 % of 1 worker-seconds
  Where the waiting went alone: refused calls 54 %, bucket 45 % of 3 worker-seconds

  With Paceline 0 of 2 calls were refused; alone 18 of 20, for the same work in about the same time.
";
        assert_eq!(format!("\n{}", table(&outcomes)), expected);
    }

    #[test]
    fn one_run_stands_alone() {
        let ours = table(&[outcome(Strategy::Paceline, 0, done(2_000, 1))]);
        assert!(ours.contains("With Paceline 0 of 2 calls were refused, in 1.00 times the best possible time."), "{ours}");
        let alone = table(&[outcome(Strategy::Alone, 6, done(2_000, 1))]);
        assert!(alone.contains("Alone 6 of 8 calls were refused."), "{alone}");
    }

    #[test]
    fn the_verdict_tells_who_was_faster() {
        let verdict = |ours_ms, alone_ms| {
            verdict(&[outcome(Strategy::Paceline, 0, done(ours_ms, 1)), outcome(Strategy::Alone, 2, done(alone_ms, 1))])
        };
        assert!(verdict(1_000, 2_000).ends_with("for the same work and 50 % sooner."), "{}", verdict(1_000, 2_000));
        assert!(verdict(2_000, 1_000).ends_with("for the same work, which took 50 % less."), "{}", verdict(2_000, 1_000));
        assert!(verdict(1_000, 1_020).ends_with("for the same work in about the same time."));
    }

    #[test]
    fn sources_are_listed_by_weight() {
        let waited = |delays: &[(&'static str, u64)]| Outcome {
            delays: delays.iter().map(|(source, ms)| (*source, Duration::from_millis(*ms))).collect(),
            ..outcome(Strategy::Paceline, 0, done(1_000, 1))
        };
        let text = sources(&waited(&[("bucket", 9_300), ("jitter", 1), ("pacing", 700)]));
        assert_eq!(text, "bucket 93 %, pacing 7.0 % of 10 worker-seconds");
        assert_eq!(sources(&waited(&[])), "nobody waited");
    }
}
