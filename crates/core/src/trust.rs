//! How much may go back to back: what calls have proven, not what a limit promises.
//!
//! A limit of 1,200 a minute may be enforced as 20 a second, a bucket that ought to be full may not be, and headers tell neither.
//! So a bucket that nobody has vouched for starts with half a second of its refill (four calls at least) for calls that go together; beyond that they come
//! at the pace of the refill, which loses nothing as long as the bucket is not full. Each call that goes through while more is
//! wanted proves two, which doubles the pace per round trip. A refusal although the bucket had room ends that: nothing
//! goes together for 20 s (four times longer after each repetition), and from there a call proves an eighth of what it cost.

use crate::backing::Backing;
use crate::bucket::{BucketState, Calm};
use crate::drain::Drain;
use crate::level::{Level, Rate};
use crate::plan::{Refill, StartLevel};
use crate::units::{FleetTime, Milli, Span};

/// The refill of this time may go together from the start.
const FIRST_BURST: Span = Span::from_millis(500);
/// And at least so many calls.
const FIRST_CALLS: i64 = 4;
/// The first calm, and the longest.
const CALM: (Span, Span) = (Span::from_secs(20), Span::from_secs(900));
/// Bursts that nobody has made for so long must be proven again.
pub const PROOF_LASTS: Span = Span::from_secs(86_400);
/// What others took is of no use so long after it was seen.
const DRAIN_LASTS: Span = Span::from_secs(600);
/// After a calm a call proves this part of what it cost.
const PART_AFTER_CALM: i64 = 8;

impl BucketState {
    /// The bucket of what may go back to back: what is proven, what a person wrote, what the bucket holds.
    pub(crate) fn burst_rate(&self, rate: &Rate) -> Rate {
        Rate { capacity: self.most_at_once(rate).min(self.proven.max(Milli::from_milli(1))), ..*rate }
    }

    /// What may go back to back once calls have proven it: what a person wrote, at most what the bucket holds for us.
    pub fn most_at_once(&self, rate: &Rate) -> Milli {
        self.plan.burst.map_or(rate.capacity, |burst| self.plan.ours.most_of(Milli::from_units(burst))).min(rate.capacity)
    }

    /// Whether it is for want of proof that less may go together than the bucket holds.
    pub(crate) fn is_unproven(&self, rate: &Rate) -> bool {
        self.proven < self.most_at_once(rate)
    }

    /// Nothing is proven yet, unless a person has vouched for it: who wrote a burst, or a limit and that it starts full. `cost` is
    /// that of a call.
    pub(crate) fn trust_first(&mut self, now: FleetTime, cost: Milli) {
        let Some(rate) = self.rate() else { return };
        let is_vouched = self.plan.start == StartLevel::Full && self.plan.limit.is_some();
        // The whole of a window is there at its boundary, and is spread anyway.
        let is_whole = is_vouched || self.effective().refill == Refill::Window;
        let vouched = (self.plan.burst.is_some() || is_whole).then(|| self.most_at_once(&rate));
        self.proof = Backing { at: now, reports: 0 };
        self.proven = vouched.unwrap_or_else(|| first_burst(&rate, cost));
        self.burst = Level::new(self.burst_rate(&rate).capacity.min(self.level.amount), now);
    }

    /// Back to what every bucket starts with: after an outage, after a refusal although there was room.
    pub(crate) fn doubt(&mut self, now: FleetTime, cost: Milli) {
        let Some(rate) = self.rate() else { return };
        self.proven = self.proven.min(first_burst(&rate, cost));
        // One call may go; the others come at the pace of the refill.
        self.burst = Level::new(self.burst.at(now, &rate).min(cost), now);
    }

    /// A call of `cost` went through: where more is wanted than is proven, that is proven too.
    pub(crate) fn prove(&mut self, cost: Milli, now: FleetTime) {
        let Some(rate) = self.rate().filter(|_| self.started && !self.is_calm(now)) else { return };
        let burst = self.burst_rate(&rate);
        self.burst.advance(now, &burst);
        let used_up = self.burst.amount.as_milli() < self.proven.as_milli() / 2;
        if !used_up || self.level_at(now).is_none_or(|level| level < cost) {
            return;
        }
        self.proof.agree(now);
        if !self.is_unproven(&rate) {
            return;
        }
        let is_wary = self.calm.length > Span::ZERO && now.since(self.calm.until) < CALM.1;
        let gain = if is_wary { Milli::from_milli(cost.as_milli() / PART_AFTER_CALM) } else { cost + cost };
        self.proven += gain;
        self.burst.credit(gain, &self.burst_rate(&rate));
    }

    /// What has shown itself only long ago is not taken for granted: how a limit is enforced changes, and so do those who share it.
    /// Bursts must be proven again after a day in which little of them was used, and what others took is forgotten after ten minutes
    /// without a word of it.
    pub(crate) fn doubt_what_is_old(&mut self, now: FleetTime, cost: Milli) {
        if self.proof.reports > 0 && now.since(self.proof.at) > PROOF_LASTS {
            self.trust_first(now, cost);
        }
        if self.drain.backing.reports > 0 && now.since(self.drain.backing.at) > DRAIN_LASTS {
            self.drain = Drain::default();
        }
    }

    /// The provider refused a call of `cost` although there was room.
    pub fn calm_down(&mut self, now: FleetTime, mark: i64, cost: Milli) {
        if mark <= self.calm.mark && self.calm.length > Span::ZERO {
            return; // granted before the calm began
        }
        let (first, longest) = CALM;
        let is_recent = self.calm.length > Span::ZERO && now.since(self.calm.until) < longest;
        let length = if is_recent { self.calm.length.scaled(4.0).min(longest) } else { first };
        self.calm = Calm { until: now + length, length, mark: self.fired };
        self.doubt(now, cost);
    }

    /// Whether bursts are off at `now`.
    pub fn is_calm(&self, now: FleetTime) -> bool {
        self.calm.until > now
    }
}

fn first_burst(rate: &Rate, cost: Milli) -> Milli {
    rate.gained_in(FIRST_BURST).max(Milli::from_milli(cost.as_milli().saturating_mul(FIRST_CALLS)))
}
