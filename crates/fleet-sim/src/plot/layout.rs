//! Where everything goes: a title, a legend, and for each run a column of three panels with the same axes as all others.

use paceline_core::signal::Source;

use super::axis::{Axis, TimeAxis, number};
use super::colours::{self, Colour};
use super::drawing::{Anchor, Drawing, Point};
use super::font::Font;
use super::series::{self, Series};
use crate::recording::Recording;

const COLUMNS: usize = 4;
const PLOT_WIDTH: f64 = 300.0;
const COLUMN_GAP: f64 = 26.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 22.0;
/// Space above the panels of a row of columns, for their names.
const COLUMN_HEAD: f64 = 44.0;
const PANELS: [f64; 3] = [130.0, 90.0, 120.0];
const PANEL_GAP: f64 = 16.0;
/// Space below them, for the axis of time.
const COLUMN_FOOT: f64 = 52.0;
/// From this ratio on between the highest peak and another run's, or what a run sends most of the time, sends are drawn by the square
/// root: the smaller would vanish.
const VERY_DIFFERENT: f64 = 6.0;
const LARGE: f64 = 18.0;
const SMALL: f64 = 11.0;
const MIDDLE: f64 = 13.0;

/// The picture of these runs.
pub(super) fn lay_out(runs: &[Recording]) -> Drawing {
    let columns = runs.len().clamp(1, COLUMNS);
    let width = LEFT + columns as f64 * (PLOT_WIDTH + COLUMN_GAP) - COLUMN_GAP + RIGHT;
    let title = title(runs);
    let mut drawing = Drawing { width, height: 0.0, title: title.clone(), shapes: Vec::new() };
    let mut y = headline(&mut drawing, &title);
    let all = Panels::of(runs);
    y = legend(&mut drawing, &all, y);
    for (row, runs_of_row) in runs.chunks(COLUMNS).enumerate() {
        for (column, run) in runs_of_row.iter().enumerate() {
            let x = LEFT + column as f64 * (PLOT_WIDTH + COLUMN_GAP);
            let series = all.series.get(row * COLUMNS + column);
            all.draw(&mut drawing, (x, y), run, series.unwrap_or(&Series::default()), column == 0);
        }
        y += COLUMN_HEAD + PANELS.iter().sum::<f64>() + 2.0 * PANEL_GAP + COLUMN_FOOT;
    }
    if runs.is_empty() {
        drawing.text((16.0, y + 10.0), MIDDLE, Anchor::Start, colours::FAINT_INK, "No run was recorded.");
        y += 30.0;
    }
    drawing.height = y;
    drawing
}

fn title(runs: &[Recording]) -> String {
    match runs {
        [] => "Nothing to draw".to_owned(),
        [first, rest @ ..] if rest.iter().all(|run| run.title == first.title) => first.title.clone(),
        several => {
            let mut titles: Vec<&str> = Vec::new();
            for run in several {
                if !titles.contains(&run.title.as_str()) {
                    titles.push(&run.title);
                }
            }
            titles.join(", ")
        }
    }
}

/// The title, in as many lines as it needs; returns where it ends.
fn headline(drawing: &mut Drawing, title: &str) -> f64 {
    let font = Font::load();
    let room = drawing.width - 16.0 - RIGHT;
    let fits = |line: &str| font.as_ref().is_none_or(|font| font.width(line, LARGE) <= room);
    let mut lines = vec![String::new()];
    for word in title.split(' ') {
        let Some(line) = lines.last_mut() else { continue };
        let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        if fits(&longer) || line.is_empty() { *line = longer } else { lines.push(word.to_owned()) }
    }
    let mut y = 4.0;
    for line in lines {
        y += 24.0;
        drawing.text((16.0, y), LARGE, Anchor::Start, colours::INK, line);
    }
    y + 22.0
}

/// What each colour means; returns where it ends.
fn legend(drawing: &mut Drawing, all: &Panels, top: f64) -> f64 {
    let mut entries = vec![("sent", colours::SENT), ("rejected or failed", colours::REJECTED)];
    entries.push(("left at the provider (dashed: the most it can hold)", colours::LEVEL));
    let font = Font::load();
    let wide = |words: &str| font.as_ref().map_or(words.len() as f64 * 7.0, |font| font.width(words, SMALL));
    let mut x = 16.0;
    let mut y = top;
    let mut entry = |drawing: &mut Drawing, words: &str, colour: Option<Colour>| {
        let width = wide(words) + if colour.is_some() { 32.0 } else { 10.0 };
        if x + width > drawing.width - RIGHT && x > 16.0 {
            (x, y) = (16.0, y + 18.0);
        }
        if let Some(colour) = colour {
            drawing.rectangle((x, y - 9.0), 11.0, 11.0, colour);
        }
        let begin = if colour.is_some() { x + 16.0 } else { x };
        drawing.text((begin, y), SMALL, Anchor::Start, colours::INK, words);
        x += width;
        y
    };
    for (words, colour) in entries {
        entry(drawing, words, Some(colour));
    }
    if !all.sources.is_empty() {
        entry(drawing, "waiting for:", None);
    }
    for source in &all.sources {
        let words = source.name().replace('_', " ");
        entry(drawing, &words, Some(colours::of_source(*source)));
    }
    y + 14.0
}

/// The runs and the axes they share.
struct Panels {
    series: Vec<Series>,
    /// Sources that anybody waited for, in the order they are stacked.
    sources: Vec<Source>,
    time: TimeAxis,
    sends: Axis,
    level: Axis,
    waiting: Axis,
    by_title: bool,
}

impl Panels {
    fn of(runs: &[Recording]) -> Self {
        let series = series::of_all(runs);
        let longest = runs.iter().map(|run| run.length().as_secs_f64()).fold(0.0, f64::max);
        let peaks: Vec<f64> = series.iter().map(|series| highest(&series.sent)).filter(|peak| *peak > 0.0).collect();
        let peak = highest(&peaks);
        let usual = series.iter().map(|series| usual(&series.sent)).filter(|usual| *usual > 0.0);
        let by_root = peaks.iter().copied().chain(usual).any(|other| peak > VERY_DIFFERENT * other);
        let levels = || series.iter().flat_map(|series| &series.level).copied();
        let capacity = runs.iter().map(|run| run.level_capacity).filter(|most| most.is_finite()).fold(0.0, f64::max);
        let waiting = |series: &Series| series.waiting.iter().map(|by| by.iter().sum()).fold(0.0, f64::max);
        let waited = |source: &Source| series.iter().flat_map(|series| &series.waiting).any(|by| of(by, *source) > 0.0);
        Self {
            sources: Source::ALL.into_iter().filter(waited).collect(),
            time: TimeAxis::up_to(longest),
            sends: if by_root { Axis::by_root(peak) } else { Axis::over(0.0, peak) },
            level: Axis::over(levels().fold(0.0, f64::min), levels().fold(capacity, f64::max)),
            waiting: Axis::over(0.0, series.iter().map(waiting).fold(0.0, f64::max)),
            by_title: runs.iter().any(|run| runs.first().is_some_and(|first| first.title != run.title)),
            series,
        }
    }

    /// One run's column.
    fn draw(&self, drawing: &mut Drawing, at: Point, run: &Recording, series: &Series, is_first: bool) {
        let (x, mut y) = at;
        let name = if self.by_title { format!("{}: {}", run.title, run.strategy) } else { run.strategy.clone() };
        drawing.text((x, y + 16.0), MIDDLE, Anchor::Start, colours::INK, name);
        drawing.text((x, y + 32.0), SMALL, Anchor::Start, colours::FAINT_INK, summary(run));
        y += COLUMN_HEAD;
        let scale = if self.sends.by_root { "calls/s (root scale)" } else { "calls per second" };
        let level_words = match run.level_meter.as_str() {
            "" => "left".to_owned(),
            meter => format!("{} left", meter.replace('_', " ")),
        };
        let labels = [scale.to_owned(), level_words, "callers waiting".to_owned()];
        let axes = [&self.sends, &self.level, &self.waiting];
        for (nth, ((height, axis), label)) in PANELS.into_iter().zip(axes).zip(labels).enumerate() {
            let panel = Panel { at: (x, y), height, time: &self.time, axis };
            panel.frame(drawing, is_first.then_some(label.as_str()));
            if run.bins() == 0 {
                let middle = (x + PLOT_WIDTH / 2.0, y + height / 2.0);
                drawing.text(middle, SMALL, Anchor::Middle, colours::FAINT_INK, "no calls");
            } else {
                match nth {
                    0 => panel.sends(drawing, series),
                    1 => panel.level(drawing, series, run.level_capacity),
                    _ => panel.waiting(drawing, series, &self.sources),
                }
            }
            y += height + PANEL_GAP;
        }
        let bottom = y - PANEL_GAP;
        for (tick, words) in self.time.ticks() {
            let x = x + self.time.place(tick) * PLOT_WIDTH;
            drawing.line(vec![(x, bottom), (x, bottom + 4.0)], colours::FAINT_INK, 1.0);
            drawing.text((x, bottom + 16.0), SMALL, Anchor::Middle, colours::FAINT_INK, words);
        }
        let unit = format!("time ({})", self.time.unit);
        drawing.text((x + PLOT_WIDTH / 2.0, bottom + 32.0), SMALL, Anchor::Middle, colours::INK, unit);
    }
}

/// One set of axes.
struct Panel<'a> {
    at: Point,
    height: f64,
    time: &'a TimeAxis,
    axis: &'a Axis,
}

impl Panel<'_> {
    fn frame(&self, drawing: &mut Drawing, label: Option<&str>) {
        let (x, y) = self.at;
        for tick in self.axis.ticks() {
            let at = self.y(tick);
            drawing.line(vec![(x, at), (x + PLOT_WIDTH, at)], colours::GRID, 1.0);
            if label.is_some() {
                drawing.text((x - 6.0, at + 4.0), SMALL, Anchor::End, colours::FAINT_INK, number(tick));
            }
        }
        drawing.line(vec![(x, y), (x, y + self.height), (x + PLOT_WIDTH, y + self.height)], colours::FAINT_INK, 1.0);
        if let Some(label) = label {
            drawing.upright_text((x - 54.0, y + self.height / 2.0), SMALL, colours::INK, label);
        }
    }

    fn sends(&self, drawing: &mut Drawing, series: &Series) {
        drawing.area(self.steps(series.step_s, &series.sent, None), colours::SENT);
        drawing.area(self.steps(series.step_s, &series.rejected, None), colours::REJECTED);
    }

    fn level(&self, drawing: &mut Drawing, series: &Series, capacity: f64) {
        drawing.area(self.steps(series.step_s, &series.level, None), colours::LEVEL_AREA);
        drawing.line(self.top(series.step_s, &series.level), colours::LEVEL, 1.4);
        if capacity.is_finite() && capacity > 0.0 {
            let (x, y) = (self.at.0, self.y(capacity));
            drawing.dashes(vec![(x, y), (x + PLOT_WIDTH, y)], colours::LEVEL, 1.0);
        }
    }

    /// Stacked, with a hair of paper between, so that layers can be told apart without their colours.
    fn waiting(&self, drawing: &mut Drawing, series: &Series, sources: &[Source]) {
        let mut below = vec![0.0; series.waiting.len()];
        for source in sources {
            let above: Vec<f64> = series.waiting.iter().zip(&below).map(|(by, below)| below + of(by, *source)).collect();
            if above != below {
                drawing.area(self.steps(series.step_s, &above, Some(&below)), colours::of_source(*source));
                drawing.line(self.top(series.step_s, &above), colours::PAPER, 0.6);
            }
            below = above;
        }
    }

    /// The outline between two rows of steps; without a lower one down to zero.
    fn steps(&self, step_s: f64, upper: &[f64], lower: Option<&[f64]>) -> Vec<Point> {
        let zeros = vec![0.0; upper.len()];
        let mut outline = self.top(step_s, upper);
        outline.extend(self.top(step_s, lower.unwrap_or(&zeros)).into_iter().rev());
        outline
    }

    fn top(&self, step_s: f64, values: &[f64]) -> Vec<Point> {
        let x = |step: usize| self.at.0 + self.time.place(step as f64 * step_s) * PLOT_WIDTH;
        values.iter().enumerate().flat_map(|(step, value)| [(x(step), self.y(*value)), (x(step + 1), self.y(*value))]).collect()
    }

    fn y(&self, value: f64) -> f64 {
        self.at.1 + self.height * (1.0 - self.axis.place(value))
    }
}

/// The figures of a run in one line.
fn summary(run: &Recording) -> String {
    let sum = |counts: &[u32]| counts.iter().map(|count| u64::from(*count)).sum::<u64>();
    let (sends, rejections) = (sum(&run.sends), sum(&run.rejections));
    if sends == 0 {
        return "no calls".to_owned();
    }
    let share = rejections as f64 / sends as f64 * 100.0;
    format!("{} · {} calls sent, {share:.1} % of them rejected", run.length(), grouped(sends))
}

/// `12,345`.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The median of what is not zero; zero where all is.
fn usual(values: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| *value > 0.0).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn of(by_source: &[f64], source: Source) -> f64 {
    by_source.get(source as usize).copied().unwrap_or(0.0)
}
