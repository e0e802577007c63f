//! Axes: round numbers, and where a value lies between them.

/// An axis of values, from the bottom up.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) least: f64,
    pub(super) most: f64,
    /// Small values are drawn apart and large ones together: by the square root.
    pub(super) by_root: bool,
}

impl Axis {
    /// From zero, or below where there is something below, to a round number above all.
    pub(super) fn over(least: f64, most: f64) -> Self {
        let most = most.max(0.0);
        // Something to draw on where everything is zero.
        let most = if most - least.min(0.0) <= 0.0 { 1.0 } else { most };
        let step = round_step((most - least.min(0.0)) / 4.0);
        Self { least: (least.min(0.0) / step).floor() * step, most: (most / step).ceil() * step, by_root: false }
    }

    /// The same from zero, by the square root.
    pub(super) fn by_root(most: f64) -> Self {
        Self { by_root: true, ..Self::over(0.0, most) }
    }

    /// Where a value lies, from 0 at the bottom to 1 at the top; values outside stay at the edge.
    pub(super) fn place(&self, value: f64) -> f64 {
        let part = (value - self.least) / (self.most - self.least);
        // A value that is no number lies at the bottom.
        let part = if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) };
        if self.by_root { part.sqrt() } else { part }
    }

    /// Round values to write at it.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if !self.by_root {
            return steps(self.least, self.most, round_step((self.most - self.least) / 4.0));
        }
        let mut ticks = vec![0.0];
        for quarter in 1..=4_u32 {
            let height = f64::from(quarter) / 4.0;
            let tick = if quarter == 4 { self.most } else { round_step(self.most * height * height).min(self.most) };
            if ticks.last().is_none_or(|last| self.place(tick) - self.place(*last) > 0.12) {
                ticks.push(tick);
            }
        }
        ticks
    }
}

/// The axis of time: seconds, minutes or hours from zero.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimeAxis {
    pub(super) most_s: f64,
    /// Seconds in its unit.
    unit_s: f64,
    pub(super) unit: &'static str,
}

impl TimeAxis {
    pub(super) fn up_to(most_s: f64) -> Self {
        let (unit_s, unit) = match most_s {
            ..=300.0 => (1.0, "s"),
            ..=18_000.0 => (60.0, "min"),
            _ => (3_600.0, "h"),
        };
        Self { most_s: if most_s > 0.0 { most_s } else { 1.0 }, unit_s, unit }
    }

    pub(super) fn place(&self, at_s: f64) -> f64 {
        (at_s / self.most_s).clamp(0.0, 1.0)
    }

    /// Instants to write at it, in seconds, with what to write.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let most = self.most_s / self.unit_s;
        steps(0.0, most, round_step(most / 6.0)).into_iter().map(|tick| (tick * self.unit_s, number(tick))).collect()
    }
}

fn steps(least: f64, most: f64, step: f64) -> Vec<f64> {
    let count = ((most - least) / step + 1e-9).floor().clamp(0.0, 100.0) as u32;
    (0..=count).map(|nth| least + f64::from(nth) * step).collect()
}

/// The next of 1, 2, 5, 10, 20, 50, ... that is not smaller.
fn round_step(rough: f64) -> f64 {
    if !rough.is_finite() || rough <= 0.0 {
        return 1.0;
    }
    let magnitude = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * magnitude >= rough * 0.999_999);
    factor.unwrap_or(10.0) * magnitude
}

/// `0`, `0.5`, `20`, `1.5k`, `2M`.
pub(super) fn number(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        1e9.. => (value / 1e9, "G"),
        1e6.. => (value / 1e6, "M"),
        1e3.. => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = if scaled.abs() >= 100.0 { 0 } else { 2 };
    let mut text = format!("{scaled:.digits$}");
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    if text == "-0" { "0".into() } else { format!("{text}{suffix}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_on_round_numbers() {
        for (least, most, ends, ticks) in [
            (0.0, 20.0, (0.0, 20.0), vec![0.0, 5.0, 10.0, 15.0, 20.0]),
            (0.0, 1_150.0, (0.0, 1_500.0), vec![0.0, 500.0, 1_000.0, 1_500.0]),
            (-30.0, 100.0, (-50.0, 100.0), vec![-50.0, 0.0, 50.0, 100.0]),
            (0.0, 0.0, (0.0, 1.0), vec![0.0, 0.5, 1.0]),
        ] {
            let axis = Axis::over(least, most);
            assert_eq!(((axis.least, axis.most), axis.ticks()), (ends, ticks));
        }
        assert_eq!(Axis::by_root(400.0).ticks(), [0.0, 50.0, 100.0, 400.0]);
        assert_eq!(Axis::by_root(400.0).place(100.0), 0.5);
        assert_eq!(Axis::over(0.0, 10.0).place(f64::NAN), 0.0);
        assert_eq!(Axis::over(0.0, 10.0).place(99.0), 1.0);
    }

    #[test]
    fn times_are_told_in_the_unit_that_reads_best() {
        let ticks = |most_s| TimeAxis::up_to(most_s).ticks().into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(ticks(240.0), ["0", "50", "100", "150", "200"]);
        assert_eq!((TimeAxis::up_to(7_100.0).unit, ticks(7_100.0).len()), ("min", 6));
        assert_eq!(ticks(345.0), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(TimeAxis::up_to(90_000.0).unit, "h");
        assert_eq!(TimeAxis::up_to(0.0).most_s, 1.0);
    }

    #[test]
    fn numbers_read_well() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (0.5, "0.5"),
            (20.0, "20"),
            (1_500.0, "1.5k"),
            (2e6, "2M"),
            (-250.0, "-250"),
            (0.25, "0.25"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
