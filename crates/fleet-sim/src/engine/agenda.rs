//! What is still to happen, in order of time; what is due at one instant happens in the order in which it was planned.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use paceline_core::units::FleetTime;

/// The future of a run.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    heap: BinaryHeap<Reverse<Planned<E>>>,
    planned: u64,
}

#[derive(Debug)]
struct Planned<E> {
    at: FleetTime,
    nth: u64,
    event: E,
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), planned: 0 }
    }
}

impl<E> Agenda<E> {
    /// Plans an event.
    pub(crate) fn plan(&mut self, at: FleetTime, event: E) {
        self.heap.push(Reverse(Planned { at, nth: self.planned, event }));
        self.planned += 1;
    }

    /// The next event and its time.
    pub(crate) fn next(&mut self) -> Option<(FleetTime, E)> {
        self.heap.pop().map(|Reverse(planned)| (planned.at, planned.event))
    }
}

impl<E> PartialEq for Planned<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Planned<E> {}

impl<E> PartialOrd for Planned<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Planned<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.nth).cmp(&(other.at, other.nth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_instant_keeps_the_order_of_planning() {
        let mut agenda = Agenda::default();
        for (secs, name) in [(2, "c"), (1, "a"), (1, "b"), (0, "first")] {
            agenda.plan(FleetTime::from_secs(secs), name);
        }
        let order: Vec<&str> = std::iter::from_fn(|| agenda.next()).map(|(_, name)| name).collect();
        assert_eq!(order, ["first", "a", "b", "c"]);
    }
}
