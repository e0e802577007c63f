//! What somebody else takes from a bucket: the part of its fall that our own calls do not explain.
//!
//! Between two answers the provider's figure rises by the refill and falls by what we sent; what is missing beyond that was
//! taken by another consumer of the same account. Each stretch of a second or more gives a sample; errors of one figure (a call
//! overtaken, a unit rounded down) cancel in the next sample, because it begins where the last one ended. The smoothed drain
//! is taken off the refill, so that the pace is that of our part and nobody is woken in vain.

use crate::backing::Backing;
use crate::bucket::BucketState;
use crate::level::Rate;
use crate::units::{FleetTime, Milli, Span};

/// The shortest stretch that makes a sample.
const STRETCH: Span = Span::from_secs(1);
/// A stretch with so long a gap tells of another time.
const LONGEST_STRETCH: Span = Span::from_secs(60);
/// And it must be so many times as long as the answers at its ends took.
const TIMES_LATENCY: f64 = 4.0;
/// Less than this part of the limit is noise.
const NOISE_PART: i64 = 25;
/// How long a change takes to be believed.
const SMOOTHING: Span = Span::from_secs(10);
/// And when a refusal shows it, or two samples in a row.
const QUICK_SMOOTHING: Span = Span::from_secs(1);
/// Samples that differ by less than this part of the refill say the same.
const NEAR_PART: i128 = 10;
/// However much others take, we go on asking for this part of the limit: less would never notice that they left.
const LEAST_PART: i64 = 50;

/// The drain, and where the current stretch began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drain {
    /// Units others take in a minute, in thousandths, smoothed.
    pub per_minute: Milli,
    /// The figure at the beginning of the stretch.
    pub base: Option<Base>,
    /// The last sample, in the same unit.
    pub last: Milli,
    /// What speaks for it: samples in a row that said about the same.
    pub backing: Backing,
}

/// A figure as it was at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// The mark of its lease.
    pub mark: i64,
    /// Units left.
    pub remaining: Milli,
    /// When the call was sent.
    pub at: FleetTime,
    /// How long its answer took: the figure may be as old as that, or of the moment it came.
    pub took: Span,
}

impl BucketState {
    /// Learns from a figure; only buckets that refill evenly tell anything.
    pub(crate) fn learn_drain(&mut self, seen: Base, refused: bool) {
        let Some(gross) = self.gross_rate().filter(|_| !self.is_windowed() && !self.spreading) else { return };
        // A full bucket loses what refills; nothing left may be a debt, unless it was a refusal that said so.
        let tells = (refused || seen.remaining > Milli::ZERO) && seen.remaining + gross.gained_in(STRETCH) < gross.capacity;
        let Some(base) = self.drain.base.filter(|base| tells && seen.at.since(base.at) <= LONGEST_STRETCH) else {
            self.drain.base = tells.then_some(seen);
            return;
        };
        let stretch = seen.at - base.at;
        if stretch < STRETCH.max(base.took.max(seen.took).scaled(TIMES_LATENCY)) || seen.mark <= base.mark {
            if seen.at > base.at && seen.took < base.took.scaled(0.5) {
                self.drain.base = Some(seen); // a quick answer is a better beginning
            }
            return;
        }
        let ours = self.expected_use(Milli::from_milli(seen.mark.saturating_sub(base.mark)));
        let taken = base.remaining + gross.gained_in(stretch) - ours - seen.remaining;
        let minute = i128::from(gross.gained_in(Span::from_secs(60)).as_milli());
        let sample = i128::from(taken.as_milli()) * 60_000_000 / i128::from(stretch.as_micros());
        // Nobody takes more than all that refills for long.
        let sample = sample.clamp(-minute, minute);
        let is_near = |a: i128, b: i128| (a - b).abs() <= minute / NEAR_PART;
        let last = i128::from(self.drain.last.as_milli());
        let weight = i128::from(stretch.min(SMOOTHING).as_micros());
        let old = i128::from(self.drain.per_minute.as_milli());
        let mut backing = self.drain.backing;
        let agrees = backing.reports > 0 && is_near(sample, last) && seen.at.since(backing.at) <= LONGEST_STRETCH;
        match agrees {
            true => backing.agree(seen.at),
            false => backing.restart(seen.at),
        }
        // What a refusal shows is believed sooner, and so is what two in a row say of somebody who came or left.
        // Not so where calls reserve far more than they use: what is reserved at the moment makes figures jump.
        let is_exact = self.typical_reserved <= self.typical + Milli::from_milli(self.typical.as_milli() / 2);
        let has_changed = is_exact && agrees && !is_near(sample, old) && !is_near(last, old);
        let doubt = if has_changed || (refused && sample > old) { QUICK_SMOOTHING } else { SMOOTHING };
        let whole = i128::from((stretch.min(SMOOTHING) + doubt).as_micros());
        let new = old + (sample - old) * weight / whole;
        // Below zero by noise, which the next sample takes back.
        let bounded = |milli: i128| Milli::from_milli(i64::try_from(milli.clamp(-minute, minute)).unwrap_or(0));
        self.drain = Drain { per_minute: bounded(new), base: Some(seen), last: bounded(sample), backing };
    }

    /// Units a minute that somebody else takes, as far as it is more than noise.
    pub fn foreign_drain(&self) -> Option<Milli> {
        let noise = self.gross_rate()?.gained_in(Span::from_secs(60)).as_milli() / NOISE_PART;
        Some(self.drain.per_minute).filter(|drain| drain.as_milli() > noise)
    }

    /// The refill that is left to us: what others do not take, at least our share and at most what we are to use.
    pub(crate) fn our_part(&self, gross: Rate) -> Rate {
        // What others take is known against the provider's limit, not against one that a person said.
        let less = if self.over.is_some() { gross.limit } else { self.less_drain(gross) };
        let left = less.max(self.plan.ours.least.of(gross.limit));
        Rate::new(left.min(self.plan.ours.most.of(gross.limit)), gross.per, self.plan.ours.most_of(gross.capacity))
    }

    fn less_drain(&self, gross: Rate) -> Milli {
        let drained = i128::from(self.drain.per_minute.as_milli()) * i128::from(gross.per.as_micros()) / 60_000_000;
        if drained <= i128::from(gross.limit.as_milli() / NOISE_PART) {
            return gross.limit;
        }
        let least = gross.limit.as_milli() / LEAST_PART;
        let left = gross.limit.as_milli().saturating_sub(i64::try_from(drained).unwrap_or(i64::MAX)).max(least);
        Milli::from_milli(left)
    }
}
