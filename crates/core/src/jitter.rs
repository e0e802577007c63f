//! Randomness as an argument: uniform draws from a source the caller gives.

use rand::{Rng, RngExt};

use crate::units::Span;

/// A uniform draw from `[0, window)`; zero for an empty window.
pub fn uniform<R: Rng + ?Sized>(rng: &mut R, window: Span) -> Span {
    match window.as_micros() {
        micros if micros > 0 => Span::from_micros(rng.random_range(0..micros)),
        _ => Span::ZERO,
    }
}
