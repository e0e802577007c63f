//! Which things end when, in generations: cheap to add to, cheap to ask what is over, and never sorted one by one.

use std::collections::BTreeMap;

use paceline_core::units::{FleetTime, Span};

/// Lives are told apart no finer than this when things are taken away; whether they count is decided to the microsecond.
const GENERATION: Span = Span::from_secs(120);

/// A generation, by its number since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Generation(i64);

impl Generation {
    /// Later than all others.
    pub(super) const NEVER: Self = Self(i64::MAX);

    /// The generation in which a life ends.
    pub(super) fn of(end: FleetTime) -> Self {
        Self(end.as_micros().div_euclid(GENERATION.as_micros()))
    }
}

/// Keys by the generation in which they are to be looked at.
#[derive(Debug)]
pub(super) struct Due<K>(BTreeMap<Generation, Vec<K>>);

impl<K> Default for Due<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K> Due<K> {
    /// Notes that `key` is to be looked at once `generation` is over.
    pub(super) fn push(&mut self, generation: Generation, key: K) {
        self.0.entry(generation).or_default().push(key);
    }

    /// Takes out one key whose generation is over at `now`, the earliest first.
    pub(super) fn pop(&mut self, now: FleetTime) -> Option<(Generation, K)> {
        loop {
            let mut first = self.0.first_entry().filter(|first| *first.key() < Generation::of(now))?;
            let generation = *first.key();
            match first.get_mut().pop() {
                Some(key) => return Some((generation, key)),
                None => drop(first.remove()),
            }
        }
    }

    /// The earliest generation that anything is noted for.
    pub(super) fn earliest(&self) -> Option<Generation> {
        self.0.first_key_value().map(|(generation, _)| *generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_out_when_their_generation_is_over_and_not_before() {
        let mut due = Due::default();
        let end = FleetTime::from_secs(130);
        due.push(Generation::of(end), "late");
        due.push(Generation::of(FleetTime::from_secs(10)), "early");
        for (now_secs, expected) in
            [(0, None), (119, None), (120, Some("early")), (239, None), (240, Some("late")), (500, None)]
        {
            assert_eq!(due.pop(FleetTime::from_secs(now_secs)).map(|(_, key)| key), expected, "at {now_secs} s");
        }
        assert_eq!(due.earliest(), None);
    }
}
