//! Fleet time, as a pure function of samples of the server's clock.
//!
//! Fleet time is the server's time and an offset that all replicas agree on. It is carried by the monotonic clock between
//! samples, follows small differences slowly and never goes back. When the server's clock is set, or another server takes over
//! whose clock differs, the first replica that is sure of it proposes another offset under which fleet time goes on without a
//! step; the others see their next sample fit again and notice nothing.

use std::collections::VecDeque;

/// Differences above this are no drift but a clock that was set.
const STEP: i64 = 1_000_000;
/// So many samples in a row must show the same step.
const CONFIRMED_BY: usize = 3;
/// Samples that are compared; the one with the shortest way counts.
const RECENT: usize = 8;
/// A sample whose way took longer says too little; the first one is taken all the same.
const BLURRED: i64 = 250_000;
/// How fast small differences are made good: a twentieth of the time that passes.
const SLEW: i64 = 20;

/// What all replicas add to the server's time, in microseconds, and how often that was changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Agreed {
    pub(super) offset: i64,
    pub(super) steps: u64,
}

/// One look at the server's clock, all in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// The monotonic clock before.
    pub(super) sent: i64,
    /// The monotonic clock after.
    pub(super) received: i64,
    /// The server's time since the epoch.
    pub(super) server: i64,
    /// The offset found with it; `None`: there is none, or none any more.
    pub(super) agreed: Option<Agreed>,
}

/// What a sample calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// Nothing.
    Fine,
    /// It does not fit: look again soon.
    Doubt,
    /// Others changed the offset, and time goes on.
    Adopted,
    /// Write this offset, if the stored one still is what was found.
    Propose(Agreed),
}

/// Fleet time against the monotonic clock: a line that bends towards its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Where it bends, on the monotonic clock.
    from: i64,
    /// What is added to the monotonic clock there.
    base: i64,
    /// What shall be added in the end.
    target: i64,
    /// It is never earlier than this.
    floor: i64,
}

impl Line {
    /// Fleet time at an instant of the monotonic clock.
    pub(super) fn read(&self, mono: i64) -> i64 {
        mono.saturating_add(self.added(mono)).max(self.floor)
    }

    fn added(&self, mono: i64) -> i64 {
        let most = mono.saturating_sub(self.from).max(0) / SLEW;
        self.base.saturating_add(self.target.saturating_sub(self.base).clamp(-most, most))
    }

    /// The same time at `mono`, towards another target from there on.
    fn bend(&self, mono: i64, target: i64) -> Self {
        Self { from: mono, base: self.added(mono), target, floor: self.floor }
    }

    /// Another time from `mono` on; held where it is if that is earlier.
    fn jump(&self, mono: i64, target: i64) -> Self {
        Self { from: mono, base: target, target, floor: self.read(mono) }
    }
}

/// The clock of one process.
#[derive(Clone, Debug)]
pub(super) struct FleetClock {
    line: Line,
    agreed: Option<Agreed>,
    /// Round trip and offset of the last samples that fitted.
    recent: VecDeque<(i64, i64)>,
    /// Round trip of the last samples that did not fit, and by how much they did not.
    doubts: Vec<(i64, i64)>,
}

impl FleetClock {
    /// A clock that has seen no server yet: the system's, which read `wall` when the monotonic clock read `mono`.
    pub(super) fn new(mono: i64, wall: i64) -> Self {
        let base = wall.saturating_sub(mono);
        let line = Line { from: mono, base, target: base, floor: i64::MIN };
        Self { line, agreed: None, recent: VecDeque::new(), doubts: Vec::new() }
    }

    /// What tells the time until the next sample.
    pub(super) fn line(&self) -> Line {
        self.line
    }

    /// Takes a sample; `was_read`: somebody has asked this clock for the time before its first sample.
    pub(super) fn observe(&mut self, sample: Sample, was_read: bool) -> Advice {
        let trip = sample.received.saturating_sub(sample.sent).max(0);
        let middle = sample.sent.saturating_add(trip / 2);
        let remembered = self.agreed;
        let agreed = sample.agreed.or(remembered).unwrap_or_default();
        let added = sample.server.saturating_add(agreed.offset).saturating_sub(middle);
        let missing = if sample.agreed.is_none() { Advice::Propose(agreed) } else { Advice::Fine };
        let Some(known) = remembered else {
            self.agreed = Some(agreed);
            self.line = self.line.jump(sample.received, added);
            if !was_read {
                self.line.floor = i64::MIN;
            }
            self.recent = VecDeque::from([(trip, added)]);
            return missing;
        };
        if trip > BLURRED {
            return Advice::Doubt;
        }
        let jump = added.saturating_sub(self.line.target);
        if jump.saturating_abs() <= STEP.saturating_add(trip / 2) {
            self.follow(trip, added, sample.received);
            self.agreed = Some(agreed);
            return if agreed.steps > known.steps { Advice::Adopted } else { missing };
        }
        if agreed.steps > known.steps {
            // The fleet has agreed on another time than ours; we are the odd one.
            self.agreed = Some(agreed);
            self.line = self.line.jump(sample.received, added);
            self.recent = VecDeque::from([(trip, added)]);
            self.doubts.clear();
            return Advice::Adopted;
        }
        let same = |(_, other): &(i64, i64)| other.saturating_sub(jump).saturating_abs() <= STEP / 2;
        if !self.doubts.iter().all(same) {
            self.doubts.clear();
        }
        self.doubts.push((trip, jump));
        if self.doubts.len() < CONFIRMED_BY {
            return Advice::Doubt;
        }
        let sharpest = self.doubts.iter().min_by_key(|(trip, _)| *trip).map_or(jump, |(_, jump)| *jump);
        let offset = agreed.offset.saturating_sub(sharpest);
        Advice::Propose(Agreed { offset, steps: agreed.steps.max(known.steps).saturating_add(1) })
    }

    /// A proposal of ours was written.
    pub(super) fn written(&mut self, agreed: Agreed) {
        self.agreed = Some(agreed);
        self.doubts.clear();
    }

    fn follow(&mut self, trip: i64, added: i64, mono: i64) {
        self.doubts.clear();
        self.recent.push_back((trip, added));
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        if let Some((_, best)) = self.recent.iter().min_by_key(|(trip, _)| *trip) {
            self.line = self.line.bend(mono, *best);
        }
    }
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
