//! Units held by calls in flight, freed when they end or at their expiry: a small wheel of expiry slots instead of one entry
//! per call, so that the value stays small with a hundred thousand calls in flight.

use std::collections::BTreeMap;

use crate::units::{FleetTime, Milli, Span};

/// Units in use, grouped by the instant at which they come free by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    slots: Vec<Slot>,
}

/// What expires together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// When.
    pub ends: FleetTime,
    /// How much.
    pub amount: Milli,
}

impl Holds {
    /// The slot in which a hold of length `ttl` taken at `now` ends: rounded up to one second for the first minute, 8 s up to
    /// eight minutes, 32 s beyond, so that there are never more than some two hundred slots.
    pub fn slot_for(now: FleetTime, ttl: Span) -> FleetTime {
        let grid = match ttl.as_micros() / 1_000_000 {
            0..=63 => 1_000_000,
            64..=511 => 8_000_000,
            _ => 32_000_000,
        };
        let end = (now + ttl.at_least_zero()).as_micros();
        FleetTime::from_micros(end.div_euclid(grid).saturating_add(1).saturating_mul(grid))
    }

    /// Holds `amount` until the slot `ends`.
    pub fn take(&mut self, ends: FleetTime, amount: Milli) {
        match self.slots.binary_search_by_key(&ends, |slot| slot.ends) {
            Ok(index) => {
                if let Some(slot) = self.slots.get_mut(index) {
                    slot.amount += amount;
                }
            }
            Err(index) => self.slots.insert(index, Slot { ends, amount }),
        }
    }

    /// Frees `amount` of the slot `ends`, at most what it still holds; returns what was freed.
    pub fn free(&mut self, ends: FleetTime, amount: Milli) -> Milli {
        let Ok(index) = self.slots.binary_search_by_key(&ends, |slot| slot.ends) else { return Milli::ZERO };
        let Some(slot) = self.slots.get_mut(index) else { return Milli::ZERO };
        let freed = amount.min(slot.amount).at_least_zero();
        slot.amount -= freed;
        if slot.amount <= Milli::ZERO {
            self.slots.remove(index);
        }
        freed
    }

    /// Drops the slots that are over at `now`; returns what they held.
    pub fn expire(&mut self, now: FleetTime) -> Milli {
        let over = self.slots.partition_point(|slot| slot.ends <= now);
        self.slots.drain(..over).fold(Milli::ZERO, |sum, slot| sum + slot.amount)
    }

    /// What is held at `now`, slots that are over left aside.
    pub fn in_use(&self, now: FleetTime) -> Milli {
        self.slots.iter().filter(|slot| slot.ends > now).fold(Milli::ZERO, |sum, slot| sum + slot.amount)
    }

    /// The first instant after `now` at which at least `amount` will have come free by expiry alone.
    pub fn frees_by_expiry(&self, now: FleetTime, amount: Milli) -> Option<FleetTime> {
        let mut freed = Milli::ZERO;
        self.slots.iter().filter(|slot| slot.ends > now).find_map(|slot| {
            freed += slot.amount;
            (freed >= amount).then_some(slot.ends)
        })
    }

    /// These holds, and what changed elsewhere from `before` to `after`; never less than nothing.
    pub fn moved(&self, before: &Self, after: &Self) -> Self {
        let mut amounts: BTreeMap<FleetTime, Milli> = self.slots.iter().map(|slot| (slot.ends, slot.amount)).collect();
        for slot in &after.slots {
            *amounts.entry(slot.ends).or_default() += slot.amount;
        }
        for slot in &before.slots {
            *amounts.entry(slot.ends).or_default() -= slot.amount;
        }
        Self::from_slots(amounts.into_iter().map(|(ends, amount)| Slot { ends, amount }).collect())
    }

    /// The slots, earliest first.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Holds from stored slots; sorts them and drops empty ones.
    pub fn from_slots(mut slots: Vec<Slot>) -> Self {
        slots.retain(|slot| slot.amount > Milli::ZERO);
        slots.sort_by_key(|slot| slot.ends);
        let mut holds = Self::default();
        for slot in slots {
            holds.take(slot.ends, slot.amount);
        }
        holds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_end_by_release_or_expiry_once() {
        let mut holds = Holds::default();
        let now = FleetTime::from_secs(1_000);
        let one = Milli::from_units(1);
        let slot = Holds::slot_for(now, Span::from_secs(30));
        assert!(slot > now + Span::from_secs(30) && slot <= now + Span::from_secs(31));
        holds.take(slot, one);
        holds.take(slot, one);
        assert_eq!(holds.in_use(now).as_units_floor(), 2);
        assert_eq!(holds.free(slot, one), one);
        assert_eq!(holds.expire(slot), one);
        assert_eq!(holds.free(slot, one), Milli::ZERO, "an expired hold cannot be freed again");
    }

    #[test]
    fn the_wheel_stays_small() {
        let mut holds = Holds::default();
        for call in 0..100_000_i64 {
            let now = FleetTime::from_micros(call * 18_000);
            holds.expire(now);
            for ttl in [1, 60, 300, 1_800] {
                holds.take(Holds::slot_for(now, Span::from_secs(ttl)), Milli::from_units(1));
            }
        }
        assert!(holds.slots().len() < 220, "{} slots", holds.slots().len());
    }
}
