//! What is not written yet: a page for each hour, and what is on its way to the store. Pure.

use std::collections::BTreeMap;

use paceline_core::history::{Hour, Hourly};
use paceline_store::{Addition, Day};

/// So many hours of a scope are kept while the store is away: two days.
const MOST_PAGES: usize = 48;

/// The pages of a scope.
#[derive(Debug, Default)]
pub(super) struct Pages {
    hours: BTreeMap<Hour, Page>,
    /// The last addition of all hours: numbers rise, also for an hour whose page was written and is opened again.
    number: u64,
    /// Calls on pages that were given up.
    lost: u64,
}

#[derive(Debug, Default)]
struct Page {
    /// Added since the last addition was made.
    open: Hourly,
    /// The addition that is not known to be written. It is sent again as it is: it may have arrived.
    sent: Option<Addition>,
    /// Calls in it.
    sent_asks: u64,
}

impl Pages {
    /// The page of an hour, to count on.
    pub(super) fn page(&mut self, hour: Hour) -> &mut Hourly {
        if !self.hours.contains_key(&hour) && self.hours.len() >= MOST_PAGES {
            self.give_up();
        }
        &mut self.hours.entry(hour).or_default().open
    }

    /// What is to be written now, the earliest hour first.
    pub(super) fn take(&mut self, writer: u32) -> Vec<Addition> {
        if let Some(mut latest) = self.hours.last_entry() {
            latest.get_mut().open.lost += std::mem::take(&mut self.lost);
        }
        let mut additions = Vec::new();
        for (hour, page) in &mut self.hours {
            if page.sent.is_none() && !page.open.is_empty() {
                let open = std::mem::take(&mut page.open);
                self.number += 1;
                page.sent_asks = open.asks();
                page.sent = Some(Addition { hour: *hour, writer, number: self.number, counters: open.counters() });
            }
            additions.extend(page.sent.clone());
        }
        additions
    }

    /// Whether something was sent and is not known to be written.
    pub(super) fn has_unheard(&self) -> bool {
        self.hours.values().any(|page| page.sent.is_some())
    }

    /// An addition is in the store.
    pub(super) fn written(&mut self, hour: Hour, number: u64) {
        if let Some(page) = self.hours.get_mut(&hour) {
            page.sent.take_if(|sent| sent.number == number);
        }
        self.hours.retain(|_, page| page.sent.is_some() || !page.open.is_empty());
    }

    /// Whether nothing is left to be written.
    pub(super) fn is_written(&self) -> bool {
        self.lost == 0 && self.hours.values().all(|page| page.sent.is_none() && page.open.is_empty())
    }

    /// The days of which something is to be written.
    pub(super) fn days(&self) -> Vec<Day> {
        let mut days: Vec<Day> = self.hours.keys().map(|hour| Day::of(*hour)).collect();
        days.dedup();
        days
    }

    /// The oldest page goes; how many calls were on it is told with the next one.
    fn give_up(&mut self) {
        if let Some((_, page)) = self.hours.pop_first() {
            self.lost += page.open.asks() + page.open.lost;
            self.lost += if page.sent.is_some() { page.sent_asks } else { 0 };
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use paceline_core::mode::Mode;

    use super::*;

    fn asked(pages: &mut Pages, hour: u32, calls: u64) {
        pages.page(Hour(hour)).mode_mut(Mode::Shadow).asks += calls;
    }

    fn counts(additions: &[Addition]) -> Vec<(u32, u64, u64)> {
        additions.iter().map(|one| (one.hour.0, one.number, one.counters.iter().map(|(_, count)| count).sum())).collect()
    }

    #[test]
    fn what_is_not_known_to_be_written_is_sent_again_as_it_was() {
        let mut pages = Pages::default();
        asked(&mut pages, 10, 3);
        assert_eq!(counts(&pages.take(7)), [(10, 1, 3)]);
        asked(&mut pages, 10, 2);
        asked(&mut pages, 11, 1);
        assert_eq!(counts(&pages.take(7)), [(10, 1, 3), (11, 2, 1)], "the first may have arrived, so it stays as it is");
        pages.written(Hour(10), 1);
        pages.written(Hour(10), 1);
        assert_eq!(counts(&pages.take(7)), [(10, 3, 2), (11, 2, 1)]);
        pages.written(Hour(11), 9);
        assert!(!pages.is_written(), "another number is another addition");
        pages.written(Hour(11), 2);
        pages.written(Hour(10), 3);
        assert!(pages.is_written() && pages.take(7).is_empty());
        asked(&mut pages, 10, 5);
        assert_eq!(counts(&pages.take(7)), [(10, 4, 5)], "numbers rise although the page was gone");
    }

    #[test]
    fn the_oldest_hours_go_and_are_told_as_lost() {
        let mut pages = Pages::default();
        for hour in 0..50 {
            asked(&mut pages, hour, 10);
            pages.take(7);
        }
        asked(&mut pages, 50, 1);
        let additions = pages.take(7);
        assert_eq!(additions.len(), 48);
        assert_eq!(additions[0].hour, Hour(3));
        let lost: u64 =
            additions.iter().flat_map(|one| &one.counters).filter(|(name, _)| name == "lost").map(|(_, count)| count).sum();
        assert_eq!(lost, 30, "three hours of ten calls");
    }

    #[test]
    fn a_scope_is_named_on_each_day_that_something_is_written_of() {
        let mut pages = Pages::default();
        assert!(pages.days().is_empty());
        asked(&mut pages, 24, 1);
        asked(&mut pages, 47, 1);
        asked(&mut pages, 48, 1);
        assert_eq!(pages.days(), [Day(1), Day(2)]);
        for addition in pages.take(7) {
            assert!(pages.days().contains(&Day::of(addition.hour)), "until it is known to be written");
            pages.written(addition.hour, addition.number);
        }
        assert!(pages.days().is_empty());
    }
}
