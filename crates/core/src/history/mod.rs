//! What became of the calls of a scope, counted by hour and by mode: what a trial is judged by.
//!
//! Plain sums, so that what several replicas counted can be added in any order. [`Hourly::counters`] writes them as named numbers
//! for a store that knows only how to add, and [`Hourly::add_counter`] reads them back; names of a newer release are passed over.

mod counters;
mod waits;

use std::collections::BTreeMap;

pub use waits::{WAIT_BINS, Waits};

use crate::mode::Mode;
use crate::units::{FleetTime, Span};

/// How many hours are kept: 31 days.
pub const KEPT_HOURS: u32 = 31 * 24;
/// Of reasons, statuses and meters so many are told apart in an hour; further ones count together.
const MOST_NAMES: usize = 32;
/// What further meters and reasons count as.
const OTHER: &str = "other";

const MICROS_PER_HOUR: i64 = 3_600_000_000;

/// A whole hour of fleet time, counted from the Unix epoch. An hour is long enough to be small in a store for a month, and short
/// enough to show the peak of a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(pub u32);

impl Hour {
    /// The hour that an instant lies in.
    pub fn of(at: FleetTime) -> Self {
        Self(u32::try_from(at.as_micros().div_euclid(MICROS_PER_HOUR)).unwrap_or(0))
    }

    /// Its first instant.
    pub fn began(self) -> FleetTime {
        FleetTime::ZERO + Span::from_micros(i64::from(self.0) * MICROS_PER_HOUR)
    }

    /// Its end.
    pub fn ends(self) -> FleetTime {
        self.began() + Span::from_micros(MICROS_PER_HOUR)
    }

    /// Until when it is kept.
    pub fn kept_until(self) -> FleetTime {
        self.ends() + Span::from_secs(i64::from(KEPT_HOURS) * 3_600)
    }

    /// Whether it is still kept at `now`.
    pub fn is_kept(self, now: FleetTime) -> bool {
        self.kept_until() > now
    }
}

/// What an hour saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hourly {
    /// By [`Mode::index`].
    modes: [Counts; 3],
    /// Calls that were counted and could not be written: they are missing in the rest.
    pub lost: u64,
}

/// What became of the calls of one mode. In [`Mode::Shadow`], waits and denials are what would have been.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Asks that were decided: a call that comes back with its ticket counts once, each attempt by itself.
    pub asks: u64,
    /// Of these: not the first attempt of their call.
    pub retries: u64,
    /// Of these: it is known whether they waited, or would have. Others were let go while the store was away.
    pub judged: u64,
    /// How long they waited.
    pub waits: Waits,
    /// How many were denied, by reason.
    pub denied: BTreeMap<String, u64>,
    /// Answers of the provider: attempts that it answered, with whatever.
    pub answers: u64,
    /// Attempts that ended without an answer: timeouts, lost connections, given up.
    pub unanswered: u64,
    /// Of the answers: nothing about limits was read in them.
    pub silent: u64,
    /// Of the answers: the provider refused the call for its rate or its load, by status.
    pub refused: BTreeMap<u32, u64>,
    /// Of the refusals: they did not say how long to wait.
    pub unsaid: u64,
    /// Of the refusals of watched calls: enforced, the call would not have been sent then.
    pub prevented: u64,
    /// Of the asks of watched calls: further attempts after a refusal that enforce would have prevented, so they would not have been.
    pub needless: u64,
    /// What calls used, by meter.
    pub units: BTreeMap<String, Units>,
}

/// What calls used of one meter, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// By attempts that were not refused.
    pub used: u64,
    /// Of that, by attempts that were not the first of their call.
    pub retried: u64,
    /// By attempts that the provider refused: one request each, of other meters what their reports say.
    pub refused: u64,
}

impl Hourly {
    /// What became of the calls of a mode.
    pub fn mode(&self, mode: Mode) -> &Counts {
        let [off, shadow, enforce] = &self.modes;
        match mode {
            Mode::Off => off,
            Mode::Shadow => shadow,
            Mode::Enforce => enforce,
        }
    }

    /// The same, to count on.
    pub fn mode_mut(&mut self, mode: Mode) -> &mut Counts {
        let [off, shadow, enforce] = &mut self.modes;
        match mode {
            Mode::Off => off,
            Mode::Shadow => shadow,
            Mode::Enforce => enforce,
        }
    }

    /// Adds what another one counted.
    pub fn add(&mut self, other: &Self) {
        for mode in Mode::ALL {
            self.mode_mut(mode).add(other.mode(mode));
        }
        self.lost = self.lost.saturating_add(other.lost);
    }

    /// Asks of all modes.
    pub fn asks(&self) -> u64 {
        self.modes.iter().map(|counts| counts.asks).sum()
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Counts {
    /// Counts one denial.
    pub fn deny(&mut self, reason: &str) {
        self.note_denied(reason, 1);
    }

    /// Counts one refusal by the provider; `says`: whether it said how long to wait.
    pub fn refuse(&mut self, status: u32, says: bool) {
        self.note_refused(status, 1);
        self.unsaid += u64::from(!says);
    }

    /// The units of a meter, to count on.
    pub fn units_of(&mut self, meter: &str) -> &mut Units {
        let name = bounded(&self.units, meter, OTHER);
        self.units.entry(name).or_default()
    }

    /// How many were denied.
    pub fn all_denied(&self) -> u64 {
        self.denied.values().sum()
    }

    /// How many the provider refused.
    pub fn all_refused(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Adds what another one counted.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.asks, other.asks),
            (&mut self.retries, other.retries),
            (&mut self.judged, other.judged),
            (&mut self.answers, other.answers),
            (&mut self.unanswered, other.unanswered),
            (&mut self.silent, other.silent),
            (&mut self.unsaid, other.unsaid),
            (&mut self.prevented, other.prevented),
            (&mut self.needless, other.needless),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.waits.add(&other.waits);
        other.denied.iter().for_each(|(reason, more)| self.note_denied(reason, *more));
        other.refused.iter().for_each(|(status, more)| self.note_refused(*status, *more));
        for (meter, more) in &other.units {
            let units = self.units_of(meter);
            units.used = units.used.saturating_add(more.used);
            units.retried = units.retried.saturating_add(more.retried);
            units.refused = units.refused.saturating_add(more.refused);
        }
    }

    fn note_denied(&mut self, reason: &str, more: u64) {
        let name = bounded(&self.denied, reason, OTHER);
        let count = self.denied.entry(name).or_default();
        *count = count.saturating_add(more);
    }

    /// A status that is one too many counts as 0, like an answer without one.
    fn note_refused(&mut self, status: u32, more: u64) {
        let is_known = self.refused.contains_key(&status) || self.refused.len() < MOST_NAMES;
        let count = self.refused.entry(if is_known { status } else { 0 }).or_default();
        *count = count.saturating_add(more);
    }
}

/// The name under which something counts: its own while there are not too many.
fn bounded<V>(counted: &BTreeMap<String, V>, name: &str, other: &str) -> String {
    let is_known = counted.contains_key(name) || counted.len() < MOST_NAMES;
    if is_known { name.to_owned() } else { other.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_whole_and_kept_for_a_month() {
        let at = FleetTime::from_secs(1_800_000_000);
        let hour = Hour::of(at);
        assert_eq!((hour, hour.began()), (Hour(500_000), at));
        assert_eq!(Hour::of(at + Span::from_micros(MICROS_PER_HOUR - 1)), hour);
        assert_eq!(Hour::of(hour.ends()), Hour(500_001));
        assert!(hour.is_kept(hour.ends() + Span::from_secs(31 * 86_400 - 1)) && !hour.is_kept(hour.kept_until()));
        assert_eq!(Hour::of(FleetTime::from_secs(-5)), Hour(0), "before the epoch there is none");
    }

    #[test]
    fn sums_do_not_depend_on_who_counted() {
        let mut one = Hourly::default();
        let counts = one.mode_mut(Mode::Shadow);
        counts.asks = 3;
        counts.waits.note(Span::from_secs(2));
        counts.deny("deadline");
        counts.refuse(429, false);
        counts.units_of("tokens").used = 70;
        let mut other = one.clone();
        other.mode_mut(Mode::Shadow).refuse(529, true);
        other.mode_mut(Mode::Enforce).asks = 1;
        other.lost = 2;
        let (mut left, mut right) = (one.clone(), other.clone());
        left.add(&other);
        right.add(&one);
        assert_eq!(left, right);
        let sum = left.mode(Mode::Shadow);
        assert_eq!((left.asks(), left.lost, sum.all_denied(), sum.all_refused(), sum.unsaid), (7, 2, 2, 3, 2));
        assert_eq!((sum.waits.count, sum.units["tokens"].used), (2, 140));
    }

    /// A worker may invent names; an hour stays small.
    #[test]
    fn names_are_bounded() {
        let mut counts = Counts::default();
        for n in 0..100 {
            counts.units_of(&format!("meter-{n}")).used += 1;
            counts.refuse(400 + n, true);
            counts.deny(&format!("reason-{n}"));
        }
        for length in [counts.units.len(), counts.denied.len(), counts.refused.len()] {
            assert_eq!(length, MOST_NAMES + 1);
        }
        assert_eq!((counts.units[OTHER].used, counts.denied[OTHER], counts.refused[&0]), (68, 68, 68));
    }
}
