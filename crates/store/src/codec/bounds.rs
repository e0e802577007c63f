//! What a stored field may be. Each check gives the field as the core's type, or counts it and gives the harmless value.
//!
//! The bounds are wide: they are there for damage, and no state that the service can get into may look like it.

use std::sync::Arc;

use bytes::Bytes;
use paceline_core::fair::Turn;
use paceline_core::floor::Floor;
use paceline_core::holds::{Holds, Slot};
use paceline_core::signal::Source;
use paceline_core::units::{FleetTime, Milli, Span};

use super::wire;

/// Instants lie between the epoch and this, in the year 2255.
pub(super) const LATEST_MICROS: i64 = (1 << 53) - 1;
/// The longest window: the longest time we read from a header, 2^31 seconds.
pub(super) const LONGEST_WINDOW_MICROS: i64 = (1 << 31) * 1_000_000;
/// Counters never get here: a thousandth per nanosecond for a century.
pub(super) const MOST_COUNTED: u64 = 1 << 62;
/// Names are shorter: of models, of configured patterns, of meters.
pub(super) const LONGEST_NAME_BYTES: usize = 4_096;
/// No unit is held for longer than this ahead: twice the longest run time of a call.
pub(super) const LONGEST_HOLD: Span = Span::from_secs(3_600);

/// Counts the fields that were out of bounds.
#[derive(Debug, Default)]
pub(super) struct Checks {
    /// How many.
    pub(super) found: u64,
}

impl Checks {
    /// Counts one unless `is_sound`.
    pub(super) fn require(&mut self, is_sound: bool) -> bool {
        self.found += u64::from(!is_sound);
        is_sound
    }

    /// `Some` when it is sound, else counted.
    pub(super) fn only_if<T>(&mut self, is_sound: bool, then: T) -> Option<T> {
        self.require(is_sound).then_some(then)
    }

    /// An instant; the epoch ("not yet") when out of bounds.
    pub(super) fn instant(&mut self, micros: i64) -> FleetTime {
        self.only_if((0..=LATEST_MICROS).contains(&micros), FleetTime::from_micros(micros)).unwrap_or(FleetTime::ZERO)
    }

    /// The length of a window.
    pub(super) fn window(&mut self, micros: Option<i64>) -> Option<Span> {
        let micros = micros?;
        self.only_if((1..=LONGEST_WINDOW_MICROS).contains(&micros), Span::from_micros(micros))
    }

    /// A length of time, which may be none.
    pub(super) fn length(&mut self, micros: i64) -> Option<Span> {
        self.only_if((0..=LONGEST_WINDOW_MICROS).contains(&micros), Span::from_micros(micros))
    }

    /// An amount; nothing when it is more than we calculate with.
    pub(super) fn amount(&mut self, milli: i64) -> Milli {
        let is_sound = milli.unsigned_abs() <= Milli::MAX.as_milli().unsigned_abs();
        self.only_if(is_sound, Milli::from_milli(milli)).unwrap_or(Milli::ZERO)
    }

    /// An amount that cannot be negative.
    pub(super) fn stock(&mut self, milli: i64) -> Milli {
        self.only_if((0..=Milli::MAX.as_milli()).contains(&milli), Milli::from_milli(milli)).unwrap_or(Milli::ZERO)
    }

    /// A bucket's count of what was granted, or a mark of it.
    pub(super) fn mark(&mut self, milli: i64) -> i64 {
        let is_sound = u64::try_from(milli).is_ok_and(|milli| milli <= MOST_COUNTED);
        self.only_if(is_sound, milli).unwrap_or(0)
    }

    /// How much service somebody has had, in nanoseconds.
    pub(super) fn turn(&mut self, nanos: i64) -> Turn {
        self.only_if(nanos >= 0, Turn::from_nanos(nanos)).unwrap_or_default()
    }

    /// A group's count of grants, or a mark of it, which is `most` at most.
    pub(super) fn count(&mut self, count: u64, most: u64) -> u64 {
        self.only_if(count <= most, count).unwrap_or(0)
    }

    /// A name; it may be empty where `may_be_empty`.
    pub(super) fn name(&mut self, bytes: &Bytes, may_be_empty: bool) -> Option<Arc<str>> {
        let is_sound = bytes.len() <= LONGEST_NAME_BYTES && (may_be_empty || !bytes.is_empty());
        let text = std::str::from_utf8(bytes).ok().filter(|_| is_sound);
        self.require(text.is_some());
        text.map(Arc::from)
    }

    /// A floor. One from a source that only later releases know is a floor all the same.
    pub(super) fn floor(&mut self, floor: Option<wire::Floor>) -> Option<Floor> {
        let floor = floor?;
        let before = self.found;
        let (until, since) = (self.instant(floor.until), self.instant(floor.since));
        let source = u8::try_from(floor.source).ok().and_then(Source::from_u8).unwrap_or_default();
        (self.found == before).then_some(Floor { until, since, source })
    }

    /// Units in use. One held for longer than any call runs is pulled back, so that it comes free some day.
    pub(super) fn holds(&mut self, slots: Vec<wire::Slot>, now: FleetTime) -> Holds {
        let latest = now + LONGEST_HOLD;
        let read = slots.into_iter().map(|slot| {
            let amount = self.stock(slot.amount);
            let ends = FleetTime::from_micros(slot.ends);
            let is_sound = slot.ends >= 0 && ends <= latest;
            Slot { ends: if self.require(is_sound) { ends } else { latest }, amount }
        });
        Holds::from_slots(read.collect())
    }
}
