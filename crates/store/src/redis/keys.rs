//! Names of keys, and in which hash a record lies.
//!
//! All keys of a scope share a hash tag, so one script may touch them on a cluster. Records lie in hashes that expire as a
//! whole: servers before Redis 7.4 cannot let a single field expire. A hash is named by a *class*, how long its records live at
//! most, and by the *generation* of that length in which they were written. So a record is in the present or the last
//! generation of one of [`CLASSES`]: eight keys to look into, of which two exist as a rule, and a hash outlives its records by
//! two lengths of its class at most.

use std::sync::Arc;

use paceline_core::history::Hour;
use paceline_core::units::{FleetTime, Span};

use crate::key::ScopeKey;
use crate::life::{LONGEST_LIFE, SHORTEST_LIFE};
use crate::tally::Day;

/// How long records live at most, by class. Most leases end within the first two; none with what follows it lives longer than
/// the third; the last is for whatever a writer may ask for.
const CLASSES: [Span; 4] = [Span::from_secs(120), Span::from_secs(480), Span::from_secs(1_920), Span::from_secs(41 * 86_400)];
/// The present generation and the one before it.
const GENERATIONS: usize = 2;
/// Hashes that may hold a record.
pub(super) const HASHES: usize = CLASSES.len() * GENERATIONS;

/// Names keys.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: Arc<str>,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: Arc::from(prefix) }
    }

    /// What is common to all: time, token keys, replicas.
    pub(super) fn meta(&self) -> String {
        format!("{}:meta", self.prefix)
    }

    /// A scope's value.
    pub(super) fn value(&self, scope: &ScopeKey) -> String {
        format!("{}:{{{scope}}}:s", self.prefix)
    }

    /// Two that stand beside a scope's value and are never read.
    pub(super) fn trial(&self, scope: &ScopeKey) -> [String; 2] {
        ["t", "t:h"].map(|name| format!("{}:{{{scope}}}:{name}", self.prefix))
    }

    /// What became of a scope's calls in an hour.
    pub(super) fn tally(&self, scope: &ScopeKey, hour: Hour) -> String {
        format!("{}:{{{scope}}}:w:{}", self.prefix, hour.0)
    }

    /// The names of the scopes that were counted on a day.
    pub(super) fn names(&self, day: Day) -> String {
        format!("{}:names:{}", self.prefix, day.0)
    }

    /// The hashes in which a record of a scope may lie at `now`: two for each class, the present generation first.
    pub(super) fn hashes(&self, scope: &ScopeKey, now: FleetTime) -> [String; HASHES] {
        std::array::from_fn(|index| self.hash(scope, now, index))
    }

    /// One of [`Keys::hashes`], by its index.
    pub(super) fn hash(&self, scope: &ScopeKey, now: FleetTime, index: usize) -> String {
        let class = index / GENERATIONS;
        let back = i64::try_from(index % GENERATIONS).unwrap_or(0);
        let generation = generation(class, now) - back;
        format!("{}:{{{scope}}}:r:{class}:{generation}", self.prefix)
    }
}

/// Where to write a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Index in what [`Keys::hashes`] returns.
    pub(super) hash: usize,
    /// For how long that hash must live from now on.
    pub(super) life: Span,
}

/// Where to write a record that ends at `keep_until`, which is within [`crate::bounded`].
pub(super) fn place(keep_until: FleetTime, now: FleetTime) -> Place {
    let life = keep_until.since(now);
    let class = CLASSES.iter().position(|longest| life <= *longest).unwrap_or(CLASSES.len() - 1);
    let length = length(class).as_micros();
    // The present generation and the next one, in which it is looked for as the last one.
    let over = FleetTime::from_micros((generation(class, now) + 2).saturating_mul(length));
    Place { hash: class * GENERATIONS, life: over.since(now).min(LONGEST_LIFE).max(life) }
}

fn length(class: usize) -> Span {
    CLASSES.get(class).copied().unwrap_or(LONGEST_LIFE)
}

fn generation(class: usize, now: FleetTime) -> i64 {
    now.as_micros().div_euclid(length(class).as_micros())
}

/// Whole milliseconds for PX and PEXPIRE, upwards, at least a second: zero would mean "delete" (NU08).
pub(super) fn millis(life: Span) -> i64 {
    life.clamp(SHORTEST_LIFE, LONGEST_LIFE).as_millis_ceil()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::life::bounded;

    const NOW: FleetTime = FleetTime::from_secs(1_800_000_000);

    #[test]
    fn keys_of_a_scope_share_one_hash_tag_and_hold_no_text_of_users() {
        let (keys, scope) = (Keys::new("paceline"), ScopeKey::new("{x}", "}{ a:b\n"));
        let tag = format!("paceline:{{{scope}}}:");
        let mut all = vec![keys.value(&scope)];
        all.extend(keys.hashes(&scope, NOW));
        all.push(keys.tally(&scope, Hour::of(NOW)));
        for key in &all {
            assert!(key.starts_with(&tag) && key.matches(['{', '}']).count() == 2, "{key}");
        }
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 2 + HASHES, "all differ");
    }

    #[test]
    fn lives_are_whole_milliseconds_of_a_second_at_least() {
        // NU08: 0.4 ms, 0, 1500.5 ms, 10^15 ms.
        for (life_micros, expected) in
            [(400, 1_000), (0, 1_000), (-5, 1_000), (1_500_500, 1_501), (1_500_000, 1_500), (i64::MAX, 40 * 86_400_000)]
        {
            assert_eq!(millis(Span::from_micros(life_micros)), expected);
        }
    }

    #[test]
    fn a_lease_of_a_minute_lies_in_a_hash_of_four_minutes_at_most() {
        let place = place(NOW + Span::from_secs(120), NOW);
        assert_eq!(place.hash, 0);
        assert!(place.life <= Span::from_secs(240));
        // The longest lease and what follows it.
        assert_eq!(super::place(NOW + Span::from_secs(31 * 60), NOW).hash, 4);
    }

    proptest! {
        /// Wherever a record was written, it is looked for there until its end, and its hash lives as long.
        #[test]
        fn records_are_found_until_their_end(at in 0i64..10_000_000_000, life in 0i64..50 * 86_400_000_000, share in 0.0..1.0f64) {
            let (keys, scope) = (Keys::new("p"), ScopeKey::new("a", "b"));
            let written = NOW + Span::from_micros(at);
            let end = bounded(written + Span::from_micros(life), written);
            let place = place(end, written);
            let whole = end.since(written);
            prop_assert!(place.life >= whole && millis(place.life) <= 40 * 86_400_000);
            let read = written + whole.scaled(share);
            let there = keys.hashes(&scope, written)[place.hash].clone();
            prop_assert!(keys.hashes(&scope, read).contains(&there), "{there} at {read:?}");
        }
    }
}
