//! Doing as the provider says: `Retry-After`, exactly or with jitter.

use paceline_core::units::FleetTime;
use paceline_provider_sim::Answer;
use rand_chacha::ChaCha8Rng;

use super::backoff::Backoff;
use super::{Pause, Strategy, told_wait, up_to};

/// Waits as told; guesses where nothing is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    is_jittered: bool,
    guess: Backoff,
}

impl Header {
    pub(crate) fn exact() -> Self {
        Self { is_jittered: false, guess: Backoff::jittered() }
    }

    pub(crate) fn jittered() -> Self {
        Self { is_jittered: true, guess: Backoff::jittered() }
    }
}

impl Strategy for Header {
    fn refused(&mut self, answer: &Answer, nth: u32, now: FleetTime, rng: &mut ChaCha8Rng) -> Option<Pause> {
        match told_wait(answer) {
            Some(told) if self.is_jittered => Some(Pause { length: told.length + up_to(told.length, rng), ..told }),
            Some(told) => Some(told),
            None => self.guess.refused(answer, nth, now, rng),
        }
    }
}
