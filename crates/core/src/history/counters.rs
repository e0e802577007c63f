//! An hour as named numbers, and back.

use super::{Counts, Hourly};
use crate::mode::Mode;

/// The largest number that every store adds exactly.
const MOST: u64 = (1 << 53) - 1;

/// The counter of what is missing.
const LOST: &str = "lost";

impl Hourly {
    /// Everything that was counted, as names and numbers above zero. Names are stable between releases.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let mut counters = vec![(LOST.to_owned(), self.lost)];
        for mode in Mode::ALL {
            let of_mode = self.mode(mode).counters();
            counters.extend(of_mode.into_iter().map(|(name, count)| (format!("{}:{name}", mode.name()), count)));
        }
        counters.retain(|(_, count)| *count > 0);
        counters.into_iter().map(|(name, count)| (name, count.min(MOST))).collect()
    }

    /// Adds a number under its name. A name that is not known here is passed over: a newer release counts more.
    pub fn add_counter(&mut self, name: &str, count: u64) {
        if name == LOST {
            self.lost = self.lost.saturating_add(count);
            return;
        }
        let Some((mode, name)) = name.split_once(':') else { return };
        if let Some(mode) = Mode::ALL.into_iter().find(|known| known.name() == mode) {
            let mut read = Counts::default();
            if read.set(name, count).is_some() {
                self.mode_mut(mode).add(&read);
            }
        }
    }
}

impl Counts {
    fn counters(&self) -> Vec<(String, u64)> {
        let mut counters: Vec<(String, u64)> = [
            ("asks", self.asks),
            ("retries", self.retries),
            ("judged", self.judged),
            ("waits", self.waits.count),
            ("wait_ms", self.waits.total_millis),
            ("answers", self.answers),
            ("unanswered", self.unanswered),
            ("silent", self.silent),
            ("unsaid", self.unsaid),
            ("prevented", self.prevented),
            ("needless", self.needless),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .into();
        counters.extend(self.waits.bins.iter().enumerate().map(|(bin, count)| (format!("wait:{bin}"), *count)));
        counters.extend(self.denied.iter().map(|(reason, count)| (format!("denied:{reason}"), *count)));
        counters.extend(self.refused.iter().map(|(status, count)| (format!("refused:{status}"), *count)));
        for (meter, units) in &self.units {
            counters.push((format!("used:{meter}"), units.used));
            counters.push((format!("retried:{meter}"), units.retried));
            counters.push((format!("spoilt:{meter}"), units.refused));
        }
        counters
    }

    /// `None`: no such name.
    fn set(&mut self, name: &str, count: u64) -> Option<()> {
        match name.split_once(':') {
            None => *self.plain(name)? = count,
            Some(("wait", bin)) => *self.waits.bins.get_mut(bin.parse::<usize>().ok()?)? = count,
            Some(("denied", reason)) => self.note_denied(reason, count),
            Some(("refused", status)) => self.note_refused(status.parse().ok()?, count),
            Some(("used", meter)) => self.units_of(meter).used = count,
            Some(("retried", meter)) => self.units_of(meter).retried = count,
            Some(("spoilt", meter)) => self.units_of(meter).refused = count,
            Some(_) => return None,
        }
        Some(())
    }

    fn plain(&mut self, name: &str) -> Option<&mut u64> {
        Some(match name {
            "asks" => &mut self.asks,
            "retries" => &mut self.retries,
            "judged" => &mut self.judged,
            "waits" => &mut self.waits.count,
            "wait_ms" => &mut self.waits.total_millis,
            "answers" => &mut self.answers,
            "unanswered" => &mut self.unanswered,
            "silent" => &mut self.silent,
            "unsaid" => &mut self.unsaid,
            "prevented" => &mut self.prevented,
            "needless" => &mut self.needless,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Span;

    fn full() -> Hourly {
        let mut hour = Hourly { lost: 4, ..Hourly::default() };
        for (number, mode) in (1_u64..).zip(Mode::ALL) {
            let counts = hour.mode_mut(mode);
            *counts = Counts {
                asks: number * 100,
                retries: number,
                judged: number * 90,
                answers: 80,
                unanswered: 7,
                silent: 6,
                prevented: 5,
                needless: 3,
                ..Counts::default()
            };
            counts.waits.note(Span::from_millis(300));
            counts.waits.note(Span::from_secs(40));
            counts.deny("deadline");
            counts.refuse(429, true);
            counts.refuse(529, false);
            *counts.units_of("input:tokens") = super::super::Units { used: 900, retried: 90, refused: 9 };
        }
        hour
    }

    #[test]
    fn what_is_written_is_read_back() {
        let hour = full();
        let mut read = Hourly::default();
        for (name, count) in hour.counters() {
            assert!(count > 0, "{name}");
            read.add_counter(&name, count);
        }
        assert_eq!(read, hour, "a meter's name may hold anything");
    }

    #[test]
    fn written_twice_is_twice_as_much() {
        let mut read = Hourly::default();
        for (name, count) in full().counters().into_iter().chain(full().counters()) {
            read.add_counter(&name, count);
        }
        let mut twice = full();
        twice.add(&full());
        assert_eq!(read, twice);
    }

    #[test]
    fn unknown_names_are_passed_over_and_nothing_overflows() {
        let mut hour = Hourly::default();
        for name in
            ["", "asks", "shadow", "shadow:", "shadow:new", "later:asks", "shadow:wait:99", "shadow:refused:x", "shadow:new:x"]
        {
            hour.add_counter(name, 1);
        }
        assert!(hour.is_empty());
        hour.add_counter("off:asks", u64::MAX);
        hour.add_counter("off:asks", u64::MAX);
        assert_eq!(hour.mode(Mode::Off).asks, u64::MAX);
        assert_eq!(hour.counters(), [("off:asks".to_owned(), MOST)]);
    }
}
