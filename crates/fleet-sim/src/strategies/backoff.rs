//! Guessing: the wait, or its bound, doubles with each refusal.

use paceline_core::signal::Source;
use paceline_core::units::{FleetTime, Span};
use paceline_provider_sim::Answer;
use rand_chacha::ChaCha8Rng;

use super::{Pause, Strategy, up_to};

/// What is waited after the first refusal, or its bound.
const FIRST: Span = Span::from_secs(1);
/// The longest wait.
const LONGEST: Span = Span::from_secs(60);

/// Exponential backoff, exact or with full jitter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    is_jittered: bool,
}

impl Backoff {
    pub(crate) fn exact() -> Self {
        Self { is_jittered: false }
    }

    pub(crate) fn jittered() -> Self {
        Self { is_jittered: true }
    }
}

impl Strategy for Backoff {
    fn refused(&mut self, _: &Answer, nth: u32, _: FleetTime, rng: &mut ChaCha8Rng) -> Option<Pause> {
        let bound = doubled(FIRST, nth, LONGEST);
        Some(Pause::new(Source::Backoff, if self.is_jittered { up_to(bound, rng) } else { bound }))
    }
}

/// `first`, doubled with each refusal after the first.
pub(crate) fn doubled(first: Span, nth: u32, longest: Span) -> Span {
    let factor = 1_i64.checked_shl(nth.saturating_sub(1)).filter(|factor| *factor > 0).unwrap_or(i64::MAX);
    Span::from_micros(first.as_micros().saturating_mul(factor)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_to_the_longest() {
        let secs: Vec<i64> = [1, 2, 3, 6, 7, 70].map(|nth| doubled(FIRST, nth, LONGEST).as_micros() / 1_000_000).to_vec();
        assert_eq!(secs, [1, 2, 4, 32, 60, 60]);
    }
}
