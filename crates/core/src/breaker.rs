//! A service that is away: calls stop, one probe at a time asks whether it is back.
//!
//! Five failures in a row on three leases open the breaker. From then on one call at a time goes, each after a gap that grows
//! from 0.6 s by 1.4 to 2.5 s in the first two minutes (an outage of 30 s must not cost ten more) and doubles to a minute after
//! that. A probe that nobody reports counts as lost after [`PROBE_TIMEOUT`], so that a crashed prober parks nobody. A call that
//! goes through closes it.

use rand::Rng;

use crate::jitter::uniform;
use crate::units::{FleetTime, Span};

/// So many failures in a row.
const FAILURES: u32 = 5;
/// On so many leases: reports of one call may come twice.
const LEASES: u32 = 3;
/// How long a probe is waited for.
pub const PROBE_TIMEOUT: Span = Span::from_secs(5);
const FIRST_GAP: Span = Span::from_millis(600);
const SHORT_GAP: Span = Span::from_millis(2_500);
const LONG_GAP: Span = Span::from_secs(60);
/// For so long gaps stay short.
const EARLY: Span = Span::from_secs(120);

/// Whether a group's service answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    /// Failures in a row.
    pub failures: u32,
    /// Leases among them.
    pub leases: u32,
    /// The mark of the last failed lease.
    pub last_mark: u64,
    /// Since when it is open; [`FleetTime::ZERO`]: closed.
    pub opened_at: FleetTime,
    /// The last gap.
    pub gap: Span,
    /// Until when the probe that is out is waited for.
    pub probing_until: FleetTime,
}

impl Breaker {
    /// Whether only probes go.
    pub fn is_open(&self) -> bool {
        self.opened_at != FleetTime::ZERO
    }

    /// Whether a probe is out.
    pub fn is_probing(&self, now: FleetTime) -> bool {
        self.is_open() && now < self.probing_until
    }

    /// A lease with this mark failed; returns how long the next call waits, if the breaker is open.
    pub(crate) fn fail<R: Rng + ?Sized>(&mut self, mark: u64, granted: u64, now: FleetTime, rng: &mut R) -> Option<Span> {
        self.failures = self.failures.saturating_add(1);
        self.leases = self.leases.saturating_add(u32::from(mark != self.last_mark));
        if self.is_open() {
            if mark <= self.last_mark {
                return None; // granted before the last probe
            }
            let early = now.since(self.opened_at) < EARLY;
            let grown = self.gap.scaled(if early { 1.4 } else { 2.0 });
            self.gap = grown.min(if early { SHORT_GAP } else { LONG_GAP });
        } else {
            if self.failures < FAILURES || self.leases < LEASES {
                self.last_mark = self.last_mark.max(mark);
                return None;
            }
            (self.opened_at, self.gap) = (now, FIRST_GAP);
        }
        // Whatever was granted before this is no probe.
        self.last_mark = granted;
        self.probing_until = FleetTime::ZERO;
        Some(self.gap - uniform(rng, self.gap.scaled(0.2)))
    }

    /// A call went through; returns whether that closed it.
    pub(crate) fn succeed(&mut self) -> bool {
        let was_open = self.is_open();
        *self = Self { last_mark: self.last_mark, ..Self::default() };
        was_open
    }

    /// A call is let go at `send`: while open, it is the probe.
    pub(crate) fn let_go(&mut self, send: FleetTime) {
        if self.is_open() {
            self.probing_until = send + PROBE_TIMEOUT;
        }
    }
}
