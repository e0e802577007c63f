//! What was granted shortly before a call: calls overtake each other on their way, so an answer may count them or not.

use crate::units::{FleetTime, Span};

/// How far calls overtake each other on their way to the provider: at least this, at most twice as long.
pub const OVERTAKING: Span = Span::from_millis(250);

/// `fired` of a bucket at the last two turns of a clock that ticks every [`OVERTAKING`], or 20 times in a shorter window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// When the current tick began.
    pub at: FleetTime,
    /// `fired` then.
    pub fired: i64,
    /// `fired` a tick before, or longer ago.
    pub before: i64,
}

impl Trail {
    /// Moves on to a call that is sent at `send`, before which `fired` was granted; returns what was granted so long before it
    /// that it has certainly arrived.
    pub fn step(&mut self, send: FleetTime, fired: i64, per: Span) -> i64 {
        let tick = OVERTAKING.min(Span::from_micros(per.as_micros() / 20));
        let passed = send.since(self.at);
        if passed >= tick {
            self.before = if passed < tick + tick { self.fired } else { fired };
            (self.at, self.fired) = (send, fired);
        }
        self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_granted_within_a_tick_may_still_be_on_its_way() {
        let (mut trail, minute) = (Trail::default(), Span::from_secs(60));
        let at = |ms: i64| FleetTime::from_secs(1_800_000_000) + Span::from_millis(ms);
        let steps = [(0, 100, 100), (100, 101, 100), (240, 102, 100), (260, 103, 100), (400, 104, 100), (520, 105, 103)];
        for (ms, fired, early) in steps {
            assert_eq!(trail.step(at(ms), fired, minute), early, "{ms} ms");
        }
        assert_eq!(trail.step(at(2_000), 106, minute), 106, "nothing was granted for a while");
    }
}
