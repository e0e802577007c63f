//! What is seen while a fleet runs: a block that is drawn anew on a terminal, a line now and then elsewhere.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use paceline_proto::convert;
use paceline_proto::v1::GetScopeResponse;
use tokio::time::{MissedTickBehavior, interval};

use super::outcome::Strategy;
use super::provider::Provider;
use super::service::Inspector;
use super::tally::Tally;
use super::text::grouped;

/// How often a terminal is drawn anew.
const FRAME: Duration = Duration::from_millis(250);
/// How often a line is written elsewhere.
const LINE: Duration = Duration::from_secs(3);
/// Over how many frames a rate is taken.
const RATE_FRAMES: usize = 8;
/// Cells of the bar of progress.
const BAR: usize = 24;
/// The width of a narrow terminal, less one: some wrap when the last column is written.
const NARROW: usize = 79;

/// Where the view goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Screen {
    /// A terminal at standard output.
    Terminal,
    /// A terminal at standard error, while standard output is for programs.
    TerminalBeside,
    /// Standard output, line by line.
    Lines,
    /// Nowhere.
    Off,
}

impl Screen {
    /// What fits: programs that read standard output get nothing but what they asked for.
    pub(super) fn fitting(json: bool) -> Self {
        match (json, io::stdout().is_terminal(), io::stderr().is_terminal()) {
            (false, true, _) => Self::Terminal,
            (false, false, _) => Self::Lines,
            (true, _, true) => Self::TerminalBeside,
            (true, _, false) => Self::Off,
        }
    }

    /// Writes a text as it is; a reader that is gone does not stop the demo.
    pub(super) fn say(self, text: &str) {
        let _ = match self {
            Self::Terminal | Self::Lines => write_all(&mut io::stdout().lock(), text),
            Self::TerminalBeside => write_all(&mut io::stderr().lock(), text),
            Self::Off => Ok(()),
        };
    }
}

fn write_all(out: &mut dyn Write, text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// What a run looks like at one moment.
#[derive(Clone, Debug, Default)]
struct Moment {
    title: &'static str,
    elapsed: Duration,
    answered: usize,
    calls: usize,
    sent: u64,
    sends_per_second: f64,
    refused: u64,
    waiting: u32,
    /// What most of them wait for; empty: nothing known.
    waits_for: String,
    meters: Vec<Meter>,
}

/// One of the provider's meters, and what the service believes of it.
#[derive(Clone, Debug, PartialEq)]
struct Meter {
    name: String,
    left: u64,
    limit: u64,
    believed: Option<f64>,
}

/// Draws a run until it is dropped.
pub(super) struct View<'a> {
    pub(super) screen: Screen,
    pub(super) strategy: Strategy,
    pub(super) calls: usize,
    pub(super) tally: &'a Tally,
    pub(super) provider: &'a Provider,
    pub(super) inspector: Option<Inspector>,
}

impl View<'_> {
    /// Draws until `finished` completes, and once more then; returns what it brought.
    pub(super) async fn during<T>(mut self, finished: impl Future<Output = T>) -> T {
        let mut finished = std::pin::pin!(finished);
        let mut ticks = interval(if self.screen == Screen::Lines { LINE } else { FRAME });
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        ticks.tick().await;
        let (mut drawn, mut past) = (0, vec![(Duration::ZERO, 0_u64)]);
        loop {
            tokio::select! {
                result = &mut finished => {
                    self.draw(&mut drawn, &mut past).await;
                    return result;
                }
                _ = ticks.tick() => {}
            }
            self.draw(&mut drawn, &mut past).await;
        }
    }

    async fn draw(&mut self, drawn: &mut usize, past: &mut Vec<(Duration, u64)>) {
        if self.screen == Screen::Off {
            return;
        }
        let scope = match &mut self.inspector {
            Some(inspector) => inspector.look().await,
            None => None,
        };
        let mut moment = self.moment(scope.as_ref());
        past.push((moment.elapsed, moment.sent));
        if past.len() > RATE_FRAMES {
            past.remove(0);
        }
        moment.sends_per_second = rate(past);
        let text = if self.screen == Screen::Lines {
            format!("{}\n", line(&moment))
        } else {
            let lines = block(&moment);
            // Up to the first line of the block, and erased from there.
            let back = if *drawn > 0 { format!("\x1b[{drawn}F\x1b[J") } else { String::new() };
            *drawn = lines.len();
            format!("{back}{}\n", lines.join("\n"))
        };
        self.screen.say(&text);
    }

    fn moment(&self, scope: Option<&GetScopeResponse>) -> Moment {
        let counts = self.provider.counts();
        let (waiting, reason) = self.tally.who_waits();
        let mock = self.provider.mock();
        let meters = mock.provider().levels(mock.now()).into_iter().map(|owned| {
            let name = owned.reading.meter.to_string();
            let believed = scope.and_then(|scope| scope.buckets.iter().find(|bucket| bucket.meter == name)?.level);
            Meter { believed, left: owned.reading.remaining, limit: owned.reading.limit, name }
        });
        Moment {
            title: self.strategy.title(),
            elapsed: self.tally.now(),
            answered: self.tally.finished(),
            calls: self.calls,
            sends_per_second: 0.0,
            sent: counts.sends,
            refused: counts.refused,
            waiting,
            waits_for: if self.strategy == Strategy::Alone { reason.to_owned() } else { waits_for(scope) },
            meters: meters.collect(),
        }
    }
}

/// What the longest line in a scope waits for.
fn waits_for(scope: Option<&GetScopeResponse>) -> String {
    let longest = scope.and_then(|scope| scope.lanes.iter().max_by_key(|lane| lane.depth));
    longest.map_or_else(String::new, |lane| convert::source(lane.waits_for).name().to_owned())
}

/// Sends a second over the frames that are remembered.
fn rate(past: &[(Duration, u64)]) -> f64 {
    let (Some((from, before)), Some((to, now))) = (past.first(), past.last()) else { return 0.0 };
    let seconds = to.saturating_sub(*from).as_secs_f64();
    if seconds > 0.0 { now.saturating_sub(*before) as f64 / seconds } else { 0.0 }
}

/// For a terminal. A line that wraps would spoil the count of lines to go back, so none is longer than a narrow one is wide.
fn block(moment: &Moment) -> Vec<String> {
    let filled = (moment.answered * BAR).checked_div(moment.calls).unwrap_or(0).min(BAR);
    let bar = format!("{}{}", "█".repeat(filled), "░".repeat(BAR - filled));
    let (answered, calls) = (grouped(moment.answered as u64), grouped(moment.calls as u64));
    let mut lines = vec![
        format!("{:<14}{bar}  {answered} of {calls} calls  {:.1} s", moment.title, moment.elapsed.as_secs_f64()),
        format!(
            "{} sends/s, {} refused, {} waiting{}",
            grouped(moment.sends_per_second.round() as u64),
            grouped(moment.refused),
            grouped(u64::from(moment.waiting)),
            for_what(moment)
        ),
    ];
    lines.extend(moment.meters.iter().map(meter_text));
    lines.into_iter().map(|line| format!("  {line}").chars().take(NARROW).collect()).collect()
}

/// For everything else.
fn line(moment: &Moment) -> String {
    let mut line = format!(
        "  {:>5.1} s  {}: {} of {} calls, {:.0} sends/s, {} refused, {} waiting{}",
        moment.elapsed.as_secs_f64(),
        moment.title,
        grouped(moment.answered as u64),
        grouped(moment.calls as u64),
        moment.sends_per_second,
        grouped(moment.refused),
        moment.waiting,
        for_what(moment)
    );
    if let Some(meter) = moment.meters.first() {
        let _ = write!(line, "; {}", meter_text(meter));
    }
    line
}

fn for_what(moment: &Moment) -> String {
    if moment.waiting == 0 || moment.waits_for.is_empty() { String::new() } else { format!(" ({})", moment.waits_for) }
}

fn meter_text(meter: &Meter) -> String {
    let mut text = format!("{} {} of {} left", meter.name, grouped(meter.left), grouped(meter.limit));
    if let Some(believed) = meter.believed {
        let _ = write!(text, ", Paceline believes {:.0}", believed.round() + 0.0); // no "-0"
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment() -> Moment {
        Moment {
            title: "with Paceline",
            elapsed: Duration::from_millis(7_940),
            answered: 312,
            calls: 600,
            sends_per_second: 40.4,
            sent: 1_325,
            refused: 0,
            waiting: 143,
            waits_for: "bucket".to_owned(),
            meters: vec![
                Meter { name: "requests".to_owned(), left: 6, limit: 2_400, believed: Some(5.7) },
                Meter { name: "tokens".to_owned(), left: 812_345, limit: 3_000_000, believed: None },
            ],
        }
    }

    #[test]
    fn a_block_for_a_terminal_fits_a_narrow_one() {
        let expected = [
            "  with Paceline ████████████░░░░░░░░░░░░  312 of 600 calls  7.9 s",
            "  40 sends/s, 0 refused, 143 waiting (bucket)",
            "  requests 6 of 2,400 left, Paceline believes 6",
            "  tokens 812,345 of 3,000,000 left",
        ];
        assert_eq!(block(&moment()), expected);
        let huge = Moment {
            answered: 1_000_000_000,
            calls: 1_000_000_000,
            refused: 1_000_000_000,
            sends_per_second: 123_456.0,
            waits_for: "retry_after_seconds".repeat(2),
            ..moment()
        };
        assert!(block(&huge).iter().all(|line| line.chars().count() <= NARROW));
    }

    #[test]
    fn a_line_for_everything_else() {
        let expected = "    7.9 s  with Paceline: 312 of 600 calls, 40 sends/s, 0 refused, 143 waiting (bucket); \
                        requests 6 of 2,400 left, Paceline believes 6";
        assert_eq!(line(&moment()), expected);
        let idle = Moment { waiting: 0, meters: Vec::new(), ..moment() };
        assert!(line(&idle).ends_with("0 waiting"));
    }

    #[test]
    fn a_rate_is_taken_over_what_is_remembered() {
        let secs = Duration::from_secs;
        assert!((rate(&[(secs(1), 40), (secs(3), 120)]) - 40.0).abs() < 1e-9);
        assert!(rate(&[(secs(1), 40)]).abs() < 1e-9 && rate(&[]).abs() < 1e-9);
    }

    #[test]
    fn progress_of_nothing_is_nothing() {
        let empty = Moment { calls: 0, answered: 0, ..moment() };
        assert!(block(&empty).first().is_some_and(|line| line.contains(&"░".repeat(BAR))));
    }
}
