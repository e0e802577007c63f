//! What speaks for a learned value: how many reports have said it, and when the last one did.
//!
//! Decisions take learned values as they are; this is what people and the merge of two replicas' knowledge judge them by, and what
//! makes the first report of a thing count more than the hundredth.

use crate::units::{FleetTime, Span};

/// More reports than this say nothing more.
pub const MOST_REPORTS: u32 = 1_000;

/// How well a learned value is founded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backing {
    /// When the last report said it.
    pub at: FleetTime,
    /// How many reports in a row have said it, at most [`MOST_REPORTS`]; 0: nothing was learned.
    pub reports: u32,
}

impl Backing {
    /// Another report said the same.
    pub(crate) fn agree(&mut self, at: FleetTime) {
        self.at = self.at.max(at);
        self.reports = self.reports.saturating_add(1).min(MOST_REPORTS);
    }

    /// A report said something else: it counts from there.
    pub(crate) fn restart(&mut self, at: FleetTime) {
        *self = Self { at: self.at.max(at), reports: 1 };
    }

    /// How long ago the last report came; `None`: none did.
    pub fn age(&self, now: FleetTime) -> Option<Span> {
        (self.reports > 0).then(|| now.since(self.at))
    }

    /// From 0 (a guess) to 1 (certain): n reports make n / (n + 1), and half of that is left when the last one is `lasts` old.
    pub fn confidence(&self, now: FleetTime, lasts: Span) -> f64 {
        let reports = f64::from(self.reports);
        let (age, lasts) = (now.since(self.at).as_secs_f64(), lasts.as_secs_f64().max(f64::MIN_POSITIVE));
        reports / (reports + 1.0) * lasts / (lasts + age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: FleetTime = FleetTime::from_secs(1_800_000_000);
    const MINUTE: Span = Span::from_secs(60);

    #[test]
    fn reports_make_it_certain_and_time_makes_it_doubtful() {
        let mut backing = Backing::default();
        assert_eq!((backing.age(NOW), backing.confidence(NOW, MINUTE)), (None, 0.0));
        backing.agree(NOW);
        assert_eq!((backing.age(NOW), backing.confidence(NOW, MINUTE)), (Some(Span::ZERO), 0.5));
        (0..8).for_each(|_| backing.agree(NOW));
        assert_eq!(backing.confidence(NOW, MINUTE), 0.9);
        assert_eq!(backing.confidence(NOW + MINUTE, MINUTE), 0.45);
        backing.restart(NOW + MINUTE);
        assert_eq!((backing.reports, backing.confidence(NOW + MINUTE, MINUTE)), (1, 0.5));
    }

    #[test]
    fn late_reports_make_nothing_younger_and_counts_end() {
        let mut backing = Backing { at: NOW, reports: MOST_REPORTS };
        backing.agree(NOW - MINUTE);
        assert_eq!(backing, Backing { at: NOW, reports: MOST_REPORTS });
    }
}
