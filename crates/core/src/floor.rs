//! Floors: instants before which nothing is granted, with where they came from.

use crate::signal::Source;
use crate::units::{FleetTime, LONGEST_FLOOR, Span};

/// "Nothing before this", and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// Nothing is granted with an earlier send time.
    pub until: FleetTime,
    /// When it was set.
    pub since: FleetTime,
    /// Who said so.
    pub source: Source,
}

impl Floor {
    /// A floor from `now` for `length`, at most [`LONGEST_FLOOR`].
    pub fn new(now: FleetTime, length: Span, source: Source) -> Self {
        Self { until: now + length.at_least_zero().min(LONGEST_FLOOR), since: now, source }
    }

    /// How long it lasts in all.
    pub fn length(&self) -> Span {
        self.until.since(self.since)
    }

    /// Whether it still holds.
    pub fn holds_at(&self, now: FleetTime) -> bool {
        self.until > now
    }
}

/// Puts `floor` under what `current` protects: the later end wins, and an equal or earlier one changes nothing (I-3).
pub fn raise(current: &mut Option<Floor>, floor: Floor) {
    match current {
        Some(standing) if standing.until >= floor.until => {}
        _ => *current = Some(floor),
    }
}
