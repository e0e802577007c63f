//! Where the service is in its life, and whether its loop still turns.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often the heart beats.
pub(crate) const BEAT: Duration = Duration::from_secs(1);
/// Without a beat for this long the loop does not turn any more.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Where the service is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not all of it is there yet.
    Starting,
    /// It takes calls.
    Ready,
    /// It lets everybody go.
    Draining,
}

/// The phase and the last heartbeat.
#[derive(Debug)]
pub(crate) struct Life {
    phase: AtomicU8,
    born: Instant,
    beat_millis: AtomicU64,
}

impl Life {
    pub(crate) fn new() -> Self {
        Self { phase: AtomicU8::new(0), born: Instant::now(), beat_millis: AtomicU64::new(0) }
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::SeqCst);
    }

    /// From starting to ready; `false`: it was in another phase already.
    pub(crate) fn begin(&self) -> bool {
        let (from, to) = (Phase::Starting as u8, Phase::Ready as u8);
        self.phase.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::SeqCst) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Draining,
        }
    }

    /// The loop has turned.
    pub(crate) fn beat(&self) {
        self.beat_millis.store(self.age_millis(), Ordering::Relaxed);
    }

    /// How long ago the loop turned, and whether that is recent enough.
    pub(crate) fn heartbeat(&self) -> (Duration, bool) {
        let ago = Duration::from_millis(self.age_millis().saturating_sub(self.beat_millis.load(Ordering::Relaxed)));
        (ago, ago < LONGEST_PAUSE)
    }

    /// How long the service has been up.
    pub(crate) fn up_for(&self) -> Duration {
        self.born.elapsed()
    }

    fn age_millis(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_goes_from_start_to_drain_and_its_heart_beats() {
        let life = Life::new();
        assert_eq!(life.phase(), Phase::Starting);
        assert!(life.begin() && !life.begin());
        assert_eq!(life.phase(), Phase::Ready);
        life.enter(Phase::Draining);
        assert!(!life.begin());
        assert_eq!(life.phase(), Phase::Draining);
        life.beat();
        assert!(life.heartbeat().1);
    }

    #[test]
    fn a_heart_that_stands_still_is_noticed() {
        let Some(long_ago) = Instant::now().checked_sub(2 * LONGEST_PAUSE) else { return };
        let life = Life { born: long_ago, ..Life::new() };
        assert!(!life.heartbeat().1, "the last beat was at its birth");
        life.beat();
        assert!(life.heartbeat().1);
    }
}
