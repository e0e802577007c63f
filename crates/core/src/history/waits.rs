//! Waits, coarsely: how many, how long in all, and by powers of two.

use crate::units::Span;

/// The bound of the first bin; each next one is twice as long.
const FIRST: Span = Span::from_micros(62_500);
/// How many bins there are; the last one is for what is longer than some two hours.
pub const WAIT_BINS: usize = 19;

/// How long calls waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// How many waited.
    pub count: u64,
    /// How long all of them together, in milliseconds.
    pub total_millis: u64,
    /// How many by length; see [`Waits::bound`].
    pub bins: [u64; WAIT_BINS],
}

impl Waits {
    /// Counts one wait; none is none.
    pub fn note(&mut self, wait: Span) {
        if wait <= Span::ZERO {
            return;
        }
        self.count = self.count.saturating_add(1);
        self.total_millis = self.total_millis.saturating_add(u64::try_from(wait.as_millis_ceil()).unwrap_or(0));
        let fits = (0..WAIT_BINS).find(|index| Self::bound(*index).is_none_or(|bound| wait <= bound));
        if let Some(bin) = fits.and_then(|index| self.bins.get_mut(index)) {
            *bin = bin.saturating_add(1);
        }
    }

    /// The longest wait of a bin; `None`: it has no bound.
    pub fn bound(index: usize) -> Option<Span> {
        (index + 1 < WAIT_BINS).then(|| Span::from_micros(FIRST.as_micros() << index))
    }

    /// All of them together.
    pub fn total(&self) -> Span {
        Span::from_micros(i64::try_from(self.total_millis).unwrap_or(i64::MAX).saturating_mul(1_000))
    }

    /// The mean of those who waited.
    pub fn mean(&self) -> Span {
        match i64::try_from(self.count) {
            Ok(count) if count > 0 => Span::from_micros(self.total().as_micros() / count),
            _ => Span::ZERO,
        }
    }

    /// What so many thousandths of those who waited did not exceed, rounded up to the bound of its bin: at most twice as long as it was.
    /// Of what is over all bounds it is the last one.
    pub fn quantile(&self, thousandths: u64) -> Span {
        let rank = self.count.saturating_mul(thousandths).div_ceil(1_000).max(1);
        let mut reached = 0_u64;
        let mut longest = Span::ZERO;
        for (index, inside) in self.bins.iter().enumerate() {
            reached = reached.saturating_add(*inside);
            longest = Self::bound(index).unwrap_or(longest);
            if reached >= rank {
                return longest;
            }
        }
        Span::ZERO
    }

    /// Adds what another one counted.
    pub fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.total_millis = self.total_millis.saturating_add(other.total_millis);
        for (sum, more) in self.bins.iter_mut().zip(other.bins) {
            *sum = sum.saturating_add(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_fall_into_bins_of_twice_the_length() {
        let mut waits = Waits::default();
        for (wait, bin) in [
            (Span::from_micros(1), 0),
            (Span::from_micros(62_500), 0),
            (Span::from_micros(62_501), 1),
            (Span::from_secs(1), 4),
            (Span::from_secs(4_096), 16),
            (Span::from_secs(8_192), 17),
            (Span::from_secs(100_000), 18),
        ] {
            let before = waits.bins[bin];
            waits.note(wait);
            assert_eq!(waits.bins[bin], before + 1, "{wait}");
        }
        waits.note(Span::ZERO);
        assert_eq!(waits.count, 7);
    }

    #[test]
    fn quantiles_are_near_and_never_below_nothing() {
        let mut waits = Waits::default();
        assert_eq!((waits.quantile(990), waits.mean()), (Span::ZERO, Span::ZERO));
        for tenth in 1..=100 {
            waits.note(Span::from_millis(tenth * 100));
        }
        let close = |seen: Span, expected: f64| (expected..=expected * 2.0).contains(&seen.as_secs_f64());
        assert!(close(waits.quantile(500), 5.0), "{}", waits.quantile(500));
        assert!(close(waits.quantile(990), 9.9), "{}", waits.quantile(990));
        assert!(waits.quantile(1_000) >= waits.quantile(10));
        assert_eq!(waits.mean(), Span::from_millis(5_050));
        let mut endless = Waits::default();
        endless.note(Span::from_secs(1_000_000));
        assert_eq!(endless.quantile(990), Span::from_secs(8_192), "at least as long as all bounds");
    }
}
