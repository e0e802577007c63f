//! Token keys as they are kept: each signs from an instant on, and rings of two replicas can always be put together.

use paceline_core::units::{FleetTime, Span};
use prost::Message;

use crate::token::{MOST_OLDER_KEYS, ROTATE_AFTER, TokenKey, TokenKeys};

/// A new key is known to all for this long before it signs.
const AHEAD: Span = Span::from_secs(60);
/// More than this many keys are kept only if they signed within the last days.
const LEAST_KEPT: usize = 1 + MOST_OLDER_KEYS;
/// Keys that began to sign this long ago are let go, the newest ones excepted.
const FORGOTTEN_AFTER: Span = Span::from_secs(2 * 86_400);
/// No ring has more keys than this.
const MOST_KEPT: usize = 8;

/// Keys, the one that signs last first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ring(Vec<Entry>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    key: TokenKey,
    signs_from: FleetTime,
}

impl Ring {
    /// A key of a replica that reaches nobody. It signs until others are known: those began later.
    pub(super) fn of_one_alone(now: FleetTime) -> Self {
        Self(vec![Entry { key: TokenKey::random(), signs_from: now - ROTATE_AFTER }])
    }

    /// What is stored; what cannot be read is left out.
    pub(super) fn decode(bytes: &[u8]) -> Self {
        let wire = RingWire::decode(bytes).unwrap_or_default();
        let entry = |wire: EntryWire| {
            let key = TokenKey { id: wire.id, secret: wire.secret.try_into().ok()? };
            Some(Entry { key, signs_from: FleetTime::from_micros(wire.signs_from) })
        };
        Self(wire.entries.into_iter().filter_map(entry).collect())
    }

    /// As it is stored; the same keys give the same bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let entry = |entry: &Entry| EntryWire {
            id: entry.key.id,
            signs_from: entry.signs_from.as_micros(),
            secret: entry.key.secret.to_vec(),
        };
        RingWire { entries: self.0.iter().map(entry).collect() }.encode_to_vec()
    }

    /// All keys of both that still matter.
    pub(super) fn merged(mut self, other: Self, now: FleetTime) -> Self {
        for entry in other.0 {
            if self.0.iter().all(|known| known.key.id != entry.key.id) {
                self.0.push(entry);
            }
        }
        // Of an instant that cannot be, nothing must be left to wait for.
        for entry in &mut self.0 {
            entry.signs_from = entry.signs_from.min(now + AHEAD);
        }
        self.0.sort_by_key(|entry| (std::cmp::Reverse(entry.signs_from), entry.key.id));
        let mut begun = 0;
        self.0.retain(|entry| {
            begun += usize::from(entry.signs_from <= now);
            begun <= LEAST_KEPT || now.since(entry.signs_from) < FORGOTTEN_AFTER
        });
        self.0.truncate(MOST_KEPT);
        self
    }

    /// With a next key, when it is time: the first one signs at once, a later one when all know it.
    pub(super) fn rotated(mut self, now: FleetTime) -> Self {
        let signs_from = match self.0.first() {
            None => now,
            Some(last) if now.since(last.signs_from) + AHEAD >= ROTATE_AFTER => now + AHEAD,
            Some(_) => return self,
        };
        let mut key = TokenKey::random();
        while self.0.iter().any(|entry| entry.key.id == key.id) {
            key = TokenKey::random();
        }
        self.0.insert(0, Entry { key, signs_from });
        self
    }

    /// The keys as they count at `now`: the one that signs, and all others that are known.
    pub(super) fn keys(&self, now: FleetTime) -> Option<TokenKeys> {
        let at = self.0.iter().position(|entry| entry.signs_from <= now).unwrap_or(0);
        let current = self.0.get(at)?.key.clone();
        let others = self.0.iter().enumerate().filter(|(index, _)| *index != at);
        Some(TokenKeys { current, older: others.map(|(_, entry)| entry.key.clone()).collect() })
    }
}

#[derive(Clone, PartialEq, Message)]
struct RingWire {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<EntryWire>,
}

#[derive(Clone, PartialEq, Message)]
struct EntryWire {
    #[prost(fixed32, tag = "1")]
    id: u32,
    #[prost(int64, tag = "2")]
    signs_from: i64,
    #[prost(bytes = "vec", tag = "3")]
    secret: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: FleetTime = FleetTime::from_secs(1_800_000_000);
    const HOUR: Span = Span::from_secs(3_600);
    const DAY: Span = Span::from_secs(86_400);

    #[test]
    fn a_next_key_is_known_before_it_signs_and_two_older_ones_stay() {
        let mut ring = Ring::default().rotated(NOW);
        let first = ring.keys(NOW).unwrap().current;
        let (mut at, mut signers) = (NOW, vec![first.id]);
        for _ in 0..24 * 60 * 5 {
            at = at + Span::from_secs(60);
            let before = ring.clone();
            ring = ring.rotated(at).merged(Ring::default(), at);
            let keys = ring.keys(at).unwrap();
            if keys.current.id != *signers.last().unwrap() {
                assert!(before.keys(at - Span::from_secs(1)).unwrap().find(keys.current.id).is_some(), "nobody is surprised");
                signers.push(keys.current.id);
            }
            for known in signers.iter().rev().take(3) {
                assert!(keys.find(*known).is_some());
            }
            assert!(keys.older.len() <= 3);
        }
        assert_eq!(signers.len(), 6, "one a day");
    }

    #[test]
    fn rings_that_came_apart_are_put_together_by_anybody() {
        let lost = Ring::default().rotated(NOW).rotated(NOW + DAY);
        let fresh = Ring::default().rotated(NOW + DAY + HOUR);
        let at = NOW + DAY + HOUR + HOUR;
        let both = lost.clone().merged(fresh.clone(), at);
        assert_eq!(both, fresh.clone().merged(lost.clone(), at));
        assert_eq!(both.clone().merged(lost, at), both);
        assert_eq!(both.keys(at).unwrap().current, fresh.keys(at).unwrap().current);
        assert_eq!(both.0.len(), 3);
        assert_eq!(Ring::decode(&both.encode()), both);
    }

    #[test]
    fn a_key_of_one_who_was_alone_is_known_but_does_not_sign_for_the_others() {
        let fleet = Ring::default().rotated(NOW);
        let alone = Ring::of_one_alone(NOW + HOUR);
        let key = alone.keys(NOW + HOUR).unwrap().current;
        let both = fleet.clone().merged(alone, NOW + HOUR).keys(NOW + HOUR).unwrap();
        assert_eq!(both.current, fleet.keys(NOW).unwrap().current);
        assert_eq!(both.find(key.id), Some(&key));
    }

    #[test]
    fn what_is_broken_is_left_out() {
        assert_eq!(Ring::decode(b"\xff\xff"), Ring::default());
        let short = RingWire { entries: vec![EntryWire { id: 1, signs_from: 2, secret: vec![3] }] };
        assert_eq!(Ring::decode(&short.encode_to_vec()), Ring::default());
        let far = RingWire { entries: vec![EntryWire { id: 1, signs_from: i64::MAX, secret: vec![3; 32] }] };
        let ring = Ring::decode(&far.encode_to_vec()).merged(Ring::default(), NOW);
        assert!(ring.keys(NOW).is_some() && ring.0[0].signs_from <= NOW + AHEAD);
    }

    #[test]
    fn secrets_are_not_printed() {
        let ring = Ring(vec![Entry { key: TokenKey { id: 1, secret: [0xa7; 32] }, signs_from: NOW }]);
        assert!(!format!("{ring:?}").contains("167"), "{ring:?}");
    }
}
