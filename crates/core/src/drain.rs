//! What somebody else takes from a bucket: the part of its fall that our own calls do not explain.
//!
//! Between two answers the provider's figure rises by the refill and falls by what we sent; what is missing beyond that was
//! taken by another consumer of the same account. Each stretch of a second or more gives a sample; errors of one figure (a call
//! overtaken, a unit rounded down) cancel in the next sample, because it begins where the last one ended. The smoothed drain
//! is taken off the refill, so that the pace is that of our part and nobody is woken in vain.

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
/// And when a refusal shows it.
const REFUSED_SMOOTHING: Span = Span::from_secs(1);
/// However much others take, we go on asking for this part of the limit: less would never notice that they left.
const LEAST_PART: i64 = 50;

/// The drain, and where the current stretch began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drain {
    /// Units others take in a minute, in thousandths, smoothed.
    pub per_minute: Milli,
    /// The figure at the beginning of the stretch.
    pub base: Option<Base>,
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
        let sample = i128::from(taken.as_milli()) * 60_000_000 / i128::from(stretch.as_micros());
        let weight = i128::from(stretch.min(SMOOTHING).as_micros());
        let old = i128::from(self.drain.per_minute.as_milli());
        // What a refusal shows is believed sooner.
        let doubt = if refused && sample > old { REFUSED_SMOOTHING } else { SMOOTHING };
        let whole = i128::from((stretch.min(SMOOTHING) + doubt).as_micros());
        let new = old + (sample - old) * weight / whole;
        // Below zero by noise, which the next sample takes back.
        let most = i128::from(gross.gained_in(Span::from_secs(60)).as_milli());
        let smoothed = i64::try_from(new.clamp(-most, most)).unwrap_or(0);
        self.drain = Drain { per_minute: Milli::from_milli(smoothed), base: Some(seen) };
    }

    /// Units a minute that somebody else takes, as far as it is more than noise.
    pub fn foreign_drain(&self) -> Option<Milli> {
        let noise = self.gross_rate()?.gained_in(Span::from_secs(60)).as_milli() / NOISE_PART;
        Some(self.drain.per_minute).filter(|drain| drain.as_milli() > noise)
    }

    /// The refill that is left to us.
    pub(crate) fn less_drain(&self, gross: Rate) -> Rate {
        let drained = i128::from(self.drain.per_minute.as_milli()) * i128::from(gross.per.as_micros()) / 60_000_000;
        if drained <= i128::from(gross.limit.as_milli() / NOISE_PART) {
            return gross;
        }
        let least = gross.limit.as_milli() / LEAST_PART;
        let left = gross.limit.as_milli().saturating_sub(i64::try_from(drained).unwrap_or(i64::MAX)).max(least);
        Rate::new(Milli::from_milli(left), gross.per, gross.capacity)
    }
}
