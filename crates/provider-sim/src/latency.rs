//! How long calls take: uniform around a usual value, drawn from a seed by the call's number, so that two runs with one seed
//! see the same times however differently they schedule their calls.

use paceline_core::units::Span;

use crate::error::SimError;

/// The time from a call's arrival to its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// The middle.
    pub usual: Span,
    /// At most so much less or more.
    pub jitter: Span,
    /// What a refusal takes; it does no work and is not jittered.
    pub refused: Span,
}

impl Latency {
    /// Always the same; refusals are as slow.
    pub const fn constant(usual: Span) -> Self {
        Self { usual, jitter: Span::ZERO, refused: usual }
    }

    /// Refuses answers that would come before their calls.
    pub fn validate(&self) -> Result<(), SimError> {
        if self.jitter > self.usual {
            return Err(SimError::JitterTooLarge { latency: self.usual, jitter: self.jitter });
        }
        Ok(())
    }

    /// The latency of the `nth` accepted call.
    pub fn draw(&self, seed: u64, nth: u64) -> Span {
        let breadth = u64::try_from(self.jitter.as_micros()).unwrap_or(0).saturating_mul(2).saturating_add(1);
        // A remainder favours small values by 2^-64 of the breadth: far below a microsecond for any jitter we take.
        let offset = i64::try_from(mixed(seed, nth) % breadth).unwrap_or(0);
        (self.usual - self.jitter + Span::from_micros(offset)).at_least_zero()
    }
}

/// A number that looks random for each (seed, position): the SplitMix64 finaliser (Steele, Lea and Flood, 2014).
pub(crate) fn mixed(seed: u64, position: u64) -> u64 {
    let mut z = seed.wrapping_add(position.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_within_the_jitter_and_repeat() {
        let latency = Latency { usual: Span::from_millis(200), jitter: Span::from_millis(50), refused: Span::from_millis(5) };
        let draws: Vec<i64> = (0..10_000).map(|nth| latency.draw(7, nth).as_micros()).collect();
        assert!(draws.iter().all(|micros| (150_000..=250_000).contains(micros)));
        let mean = draws.iter().sum::<i64>() / 10_000;
        assert!((mean - 200_000).abs() < 1_500, "{mean}");
        assert_eq!(draws, (0..10_000).map(|nth| latency.draw(7, nth).as_micros()).collect::<Vec<_>>());
        assert_ne!(draws.first(), Some(&latency.draw(8, 0).as_micros()));
        assert_eq!(Latency::constant(Span::from_millis(3)).draw(1, 99), Span::from_millis(3));
    }
}
