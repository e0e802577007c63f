//! How many calls are held at once: a bound that costs one atomic, given back however a call goes.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A bounded number of seats.
pub(crate) struct Seats {
    taken: AtomicUsize,
    most: usize,
}

/// A seat, until it is dropped.
pub(crate) struct Seat<'a>(&'a AtomicUsize);

impl Seats {
    pub(crate) const fn new(most: usize) -> Self {
        Self { taken: AtomicUsize::new(0), most }
    }

    /// A seat, if one is free.
    pub(crate) fn take(&self) -> Option<Seat<'_>> {
        // Taken first and looked at then: two callers never get the last one together. A refused caller's is back at once.
        let seat = Seat(&self.taken);
        (self.taken.fetch_add(1, Ordering::Relaxed) < self.most).then_some(seat)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_given_back_and_refusals_cost_none() {
        let seats = Seats::new(2);
        let first = seats.take();
        let second = seats.take();
        assert!(first.is_some() && second.is_some());
        for _ in 0..10 {
            assert!(seats.take().is_none());
        }
        drop(first);
        assert!(seats.take().is_some());
        drop(second);
        assert_eq!(seats.taken.load(Ordering::Relaxed), 0);
    }
}
