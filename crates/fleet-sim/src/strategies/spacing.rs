//! Pacing by what headers say is left, each worker as if it were the only one.

use paceline_core::signal::Source;
use paceline_core::units::{FleetTime, Span};
use paceline_provider_sim::{Answer, Call};
use rand_chacha::ChaCha8Rng;

use super::backoff::Backoff;
use super::{Pause, Strategy, told_wait};

/// Divides the time until the reset by what is left, and sends no faster than that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spacing {
    not_before: FleetTime,
    guess: Backoff,
}

impl Default for Spacing {
    fn default() -> Self {
        Self { not_before: FleetTime::ZERO, guess: Backoff::jittered() }
    }
}

impl Spacing {
    fn learn(&mut self, answer: &Answer, now: FleetTime) {
        let number = |name: &str| answer.header(name).and_then(|value| value.parse::<f64>().ok());
        let left = number("x-ratelimit-remaining-requests").or_else(|| number("x-ratelimit-remaining"));
        let reset = answer.header("x-ratelimit-reset-requests").and_then(go_duration);
        if let (Some(left), Some(reset)) = (left, reset) {
            self.not_before = now + reset.scaled(1.0 / left.max(1.0));
        }
    }
}

impl Strategy for Spacing {
    fn reads_limits(&self) -> bool {
        true
    }

    fn before(&mut self, _: &Call, now: FleetTime, _: &mut ChaCha8Rng) -> Pause {
        Pause::new(Source::Pacing, self.not_before.since(now))
    }

    fn went_through(&mut self, answer: &Answer, now: FleetTime) {
        self.learn(answer, now);
    }

    fn refused(&mut self, answer: &Answer, nth: u32, now: FleetTime, rng: &mut ChaCha8Rng) -> Option<Pause> {
        self.learn(answer, now);
        let told = told_wait(answer);
        let paced = Pause::new(Source::Pacing, self.not_before.since(now));
        match told {
            Some(told) if told.length >= paced.length => Some(told),
            None if paced.length == Span::ZERO => self.guess.refused(answer, nth, now, rng),
            _ => Some(paced),
        }
    }
}

/// Reads `6m0s`, `1.5s`, `12ms`, as OpenAI writes resets.
fn go_duration(text: &str) -> Option<Span> {
    let mut rest = text;
    let mut total = Span::ZERO;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest.get(..end)?.parse().ok()?;
        rest = rest.get(end..)?;
        let (unit, secs) = [("ms", 1e-3), ("us", 1e-6), ("h", 3_600.0), ("m", 60.0), ("s", 1.0)]
            .into_iter()
            .find(|(unit, _)| rest.starts_with(unit))?;
        rest = rest.get(unit.len()..)?;
        total += Span::from_secs_f64(number * secs)?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_resets() {
        assert_eq!(go_duration("1m0.5s"), Some(Span::from_millis(60_500)));
        assert_eq!(go_duration("12ms"), Some(Span::from_millis(12)));
        assert_eq!(go_duration("soon"), None);
    }
}
