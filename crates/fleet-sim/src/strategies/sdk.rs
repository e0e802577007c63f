//! What today's SDKs do on a refusal, as measured (see `docs/simulate.md`).

use paceline_core::signal::Source;
use paceline_core::units::{FleetTime, Span};
use paceline_provider_sim::Answer;
use rand_chacha::ChaCha8Rng;

use super::backoff::doubled;
use super::{Pause, Strategy, told_millis, told_wait, up_to};

/// How one SDK retries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sdk {
    /// How often a call is sent again.
    retries: u32,
    /// A told wait of up to this long is kept.
    keeps: Span,
    /// A longer one ends the call; otherwise it is ignored.
    gives_up: bool,
    /// At most so much is added to a told wait.
    adds: Span,
    /// The first guess, which doubles.
    guess: Span,
    /// The longest guess.
    longest: Span,
    /// The part of a guess that jitter may take off.
    jitter: f64,
}

const NEVER: Span = Span::MAX;
const MINUTE: Span = Span::from_secs(60);
const HALF: Span = Span::from_millis(500);
const EIGHT: Span = Span::from_secs(8);

impl Sdk {
    pub(crate) const OPENAI_PYTHON: Self =
        Self { retries: 2, keeps: MINUTE, gives_up: true, adds: Span::ZERO, guess: HALF, longest: EIGHT, jitter: 0.25 };
    pub(crate) const ANTHROPIC_PYTHON: Self = Self { keeps: NEVER, gives_up: false, ..Self::OPENAI_PYTHON };
    pub(crate) const OPENAI_NODE: Self = Self::ANTHROPIC_PYTHON;
    pub(crate) const VERCEL_AI: Self =
        Self { gives_up: false, guess: Span::from_secs(2), longest: MINUTE, jitter: 0.0, ..Self::OPENAI_PYTHON };
    pub(crate) const LITELLM: Self = Self { gives_up: false, adds: Span::from_millis(750), ..Self::OPENAI_PYTHON };
    pub(crate) const GOOGLE_GENAI: Self = Self { retries: 0, ..Self::OPENAI_PYTHON };
}

impl Strategy for Sdk {
    fn refused(&mut self, answer: &Answer, nth: u32, _: FleetTime, rng: &mut ChaCha8Rng) -> Option<Pause> {
        if nth > self.retries {
            return None;
        }
        match told_millis(answer).or_else(|| told_wait(answer)) {
            Some(told) if told.length > Span::ZERO && told.length <= self.keeps => {
                Some(Pause { length: told.length + up_to(self.adds, rng), ..told })
            }
            Some(told) if told.length > self.keeps && self.gives_up => None,
            _ => {
                let guess = doubled(self.guess, nth, self.longest);
                Some(Pause::new(Source::Backoff, guess - up_to(guess.scaled(self.jitter), rng)))
            }
        }
    }
}
