//! What the log is told of a replica that calls are sent on to: one line when it is lost, one when it is there again. Pure: time is
//! an argument.

use std::time::Duration;

use tokio::time::Instant;

/// One that comes and goes is not told more often than this.
const LEAST_PAUSE: Duration = Duration::from_secs(10);
/// Whoever takes the address of another is told once that lasts: a replica that was started again is known to all by then.
const LASTS: Duration = Duration::from_secs(2);
/// After so long without another case it is over, and the next one is news.
const OVER_AFTER: Duration = Duration::from_secs(60);

/// Whether a replica is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    lost_at: Option<Instant>,
    is_told: bool,
    told_at: Option<Instant>,
}

impl Reach {
    /// It was not reached. True: to be told.
    pub(super) fn lost(&mut self, now: Instant) -> bool {
        self.lost_at.get_or_insert(now);
        let is_quiet = self.told_at.is_none_or(|at| now.saturating_duration_since(at) >= LEAST_PAUSE);
        if self.is_told || !is_quiet {
            return false;
        }
        (self.is_told, self.told_at) = (true, Some(now));
        true
    }

    /// It was reached. How long it was not, where that was told.
    pub(super) fn found(&mut self, now: Instant) -> Option<Duration> {
        let lost_at = self.lost_at.take()?;
        let was_told = std::mem::take(&mut self.is_told);
        was_told.then(|| now.saturating_duration_since(lost_at))
    }
}

/// Cases of a trouble that no single event ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cases {
    span: Option<(Instant, Instant)>,
    is_told: bool,
}

impl Cases {
    /// Another one that may pass by itself. True: it lasts, and is to be told.
    pub(super) fn lasting(&mut self, now: Instant) -> bool {
        self.another(now, LASTS)
    }

    /// Another one. True: it is the first for a while, and to be told.
    pub(super) fn plain(&mut self, now: Instant) -> bool {
        self.another(now, Duration::ZERO)
    }

    fn another(&mut self, now: Instant, lasts: Duration) -> bool {
        let (first, last) = self.span.unwrap_or((now, now));
        let is_over = now.saturating_duration_since(last) >= OVER_AFTER;
        let first = if is_over { now } else { first };
        self.is_told &= !is_over;
        self.span = Some((first, now));
        let is_news = !self.is_told && now.saturating_duration_since(first) >= lasts;
        self.is_told |= is_news;
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_when_it_is_lost_and_one_when_it_is_there_again() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let mut reach = Reach::default();
        assert_eq!(reach.found(at(0)), None, "it was never lost");
        assert_eq!((0..50).filter(|tenth| reach.lost(at(tenth * 100))).count(), 1);
        assert_eq!(reach.found(at(5_000)), Some(Duration::from_secs(5)));
        assert_eq!(reach.found(at(5_001)), None);
        assert!(!reach.lost(at(6_000)), "it comes and goes");
        assert_eq!(reach.found(at(6_100)), None, "who was not told of the one is not told of the other");
        assert!(!reach.lost(at(9_000)) && reach.lost(at(10_000)), "it stays away");
        assert_eq!(reach.found(at(11_000)), Some(Duration::from_secs(2)));
    }

    #[test]
    fn an_address_that_is_shared_is_told_once_and_a_restart_is_not() {
        let start = Instant::now();
        let at = |secs: u64| start + Duration::from_secs(secs);
        let mut cases = Cases::default();
        assert_eq!((0..30).filter(|secs| cases.lasting(at(*secs))).collect::<Vec<_>>(), [2]);
        assert!(!cases.lasting(at(100)), "a replica was started again, and is looked for once");
        assert!(cases.lasting(at(103)));
        let mut cases = Cases::default();
        assert_eq!((0..30).filter(|secs| cases.plain(at(*secs))).collect::<Vec<_>>(), [0]);
        assert!(cases.plain(at(100)));
    }
}
