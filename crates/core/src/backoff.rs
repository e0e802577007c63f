//! Exponential backoff for refusals that say nothing usable: ours to guess, named as such.

use rand::Rng;

use crate::jitter::uniform;
use crate::units::Span;

/// The first step.
pub const BASE: Span = Span::from_millis(500);
/// The longest step.
pub const MOST: Span = Span::from_secs(60);

/// A call's own backoff before its next attempt: uniform in `[0, base x 2^attempt)`, at most [`MOST`] ("full jitter"), and never
/// below half the base, so that no retry is immediate.
pub fn full<R: Rng + ?Sized>(attempt: u32, base: Span, rng: &mut R) -> Span {
    let ceiling = step(attempt.saturating_add(1), base, 2.0, MOST);
    let least = Span::from_micros(base.as_micros() / 2);
    least + uniform(rng, ceiling - least)
}

/// A group's backoff after its n-th refusal in a row: between half of `base x factor^(n-1)` and all of it, at most `most`.
pub fn equal<R: Rng + ?Sized>(refusals: u32, base: Span, factor: f64, most: Span, rng: &mut R) -> Span {
    let ceiling = step(refusals, base, factor, most);
    let half = Span::from_micros(ceiling.as_micros() / 2);
    half + uniform(rng, half)
}

fn step(number: u32, base: Span, factor: f64, most: Span) -> Span {
    let exponent = i32::try_from(number.saturating_sub(1).min(64)).unwrap_or(64);
    base.scaled(factor.powi(exponent)).min(most)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn steps_grow_and_stay_bounded() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for refusals in 1..100 {
            let wait = equal(refusals, BASE, 2.0, MOST, &mut rng);
            assert!(wait >= Span::from_millis(250) && wait <= MOST);
            let own = full(refusals, BASE, &mut rng);
            assert!(own >= Span::from_millis(250) && own <= MOST);
        }
        // A provider that refuses for ever sees at most eight attempts in the first minute: even the shortest steps add up.
        let shortest: Span =
            (1..=8).fold(Span::ZERO, |sum, n| sum + Span::from_micros(step(n, BASE, 2.0, MOST).as_micros() / 2));
        assert!(shortest >= Span::from_secs(60));
    }
}
