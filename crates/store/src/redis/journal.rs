//! What is told of servers that are lost and found: one line for each change, however many connections there are to them, and now
//! and then one more while it lasts. Pure but for the log: time is an argument.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::connect::ConnectError;
use crate::observe::Failure;

/// While a server is away it is told again after so long, from the line before.
const AGAIN_AFTER: [Duration; 4] =
    [Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(60), Duration::from_secs(600)];
/// A server that answers differently every time is not told more often.
const LEAST_PAUSE: Duration = Duration::from_secs(1);

/// What has been told of each server.
#[derive(Debug, Default)]
pub(super) struct Journal(Mutex<HashMap<Arc<str>, Tale>>);

/// What is told of one.
#[derive(Debug)]
struct Tale {
    /// How many connections to it there are to be, and how many are missing.
    of: usize,
    missing: usize,
    /// Whether one of them was ever there: those that have not failed yet are not counted as there before.
    was_there: bool,
    /// While some are missing.
    trouble: Option<Trouble>,
}

#[derive(Debug)]
struct Trouble {
    since: Instant,
    failure: Failure,
    told_at: Instant,
    /// How often it was told.
    told: usize,
}

/// A line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// The first connection of a server is missing, or it fails in another way than before.
    Lost { missing: usize, of: usize },
    /// It is as it was for so long.
    Still { missing: usize, of: usize, after: Duration },
    /// All connections are there again, after so long.
    Found { of: usize, after: Duration },
}

impl Journal {
    /// There is to be one more connection to a server.
    pub(super) fn enter(&self, server: &Arc<str>) {
        self.with(server, |tale| {
            tale.of += 1;
            None
        });
    }

    /// There is to be one less.
    pub(super) fn leave(&self, server: &Arc<str>, was_missing: bool) {
        let mut tales = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tale) = tales.get_mut(server) {
            tale.of = tale.of.saturating_sub(1);
            tale.missing = tale.missing.saturating_sub(usize::from(was_missing));
            if tale.of == 0 {
                tales.remove(server);
            }
        }
    }

    /// A connection could not be opened; `was_missing`: nor could it the time before.
    pub(super) fn lost(&self, server: &Arc<str>, was_missing: bool, error: &ConnectError) {
        let now = Instant::now();
        match self.with(server, |tale| tale.lost(was_missing, error.failure, now)) {
            Some(Line::Lost { missing, of }) => tracing::warn!(
                server = &**server,
                connections = format!("{} of {of}", of.saturating_sub(missing)),
                "no connection to Redis: {error}"
            ),
            Some(Line::Still { missing, of, after }) => tracing::warn!(
                server = &**server, connections = format!("{} of {of}", of.saturating_sub(missing)), after = ?after,
                "still no connection to Redis: {error}"
            ),
            Some(Line::Found { .. }) | None => {}
        }
    }

    /// A connection was opened; `was_missing`: it could not be the time before.
    pub(super) fn found(&self, server: &Arc<str>, was_missing: bool) {
        let now = Instant::now();
        if let Some(Line::Found { of, after }) = self.with(server, |tale| tale.found(was_missing, now)) {
            tracing::info!(
                server = &**server, connections = format!("{of} of {of}"), after = ?after,
                "connected to Redis again"
            );
        }
    }

    fn with(&self, server: &Arc<str>, then: impl FnOnce(&mut Tale) -> Option<Line>) -> Option<Line> {
        let mut tales = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        then(tales.entry(server.clone()).or_insert(Tale { of: 0, missing: 0, was_there: false, trouble: None }))
    }
}

impl Tale {
    fn lost(&mut self, was_missing: bool, failure: Failure, now: Instant) -> Option<Line> {
        self.missing += usize::from(!was_missing);
        let of = self.of;
        let missing = if self.was_there { self.missing } else { of };
        let Some(trouble) = &mut self.trouble else {
            self.trouble = Some(Trouble { since: now, failure, told_at: now, told: 1 });
            return Some(Line::Lost { missing, of });
        };
        let quiet_for = now.saturating_duration_since(trouble.told_at);
        if trouble.failure != failure && quiet_for >= LEAST_PAUSE {
            (trouble.failure, trouble.told_at, trouble.told) = (failure, now, 1);
            return Some(Line::Lost { missing, of });
        }
        let [.., longest] = AGAIN_AFTER;
        let pause = AGAIN_AFTER.get(trouble.told.saturating_sub(1)).copied().unwrap_or(longest);
        if quiet_for < pause {
            return None;
        }
        (trouble.told_at, trouble.told) = (now, trouble.told + 1);
        Some(Line::Still { missing, of, after: whole(now.saturating_duration_since(trouble.since)) })
    }

    fn found(&mut self, was_missing: bool, now: Instant) -> Option<Line> {
        self.missing = self.missing.saturating_sub(usize::from(was_missing));
        self.was_there = true;
        if self.missing > 0 {
            return None;
        }
        let trouble = self.trouble.take()?;
        Some(Line::Found { of: self.of, after: whole(now.saturating_duration_since(trouble.since)) })
    }
}

/// To the tenth of a second, for people.
fn whole(after: Duration) -> Duration {
    Duration::from_millis(u64::try_from(after.as_millis() / 100 * 100).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_for_a_server_however_many_connections_fail() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let mut tale = Tale { of: 3, missing: 0, was_there: true, trouble: None };
        assert_eq!(tale.lost(false, Failure::Connection, at(0)), Some(Line::Lost { missing: 1, of: 3 }));
        assert_eq!(tale.lost(false, Failure::Connection, at(1)), None);
        assert_eq!(tale.lost(false, Failure::Connection, at(2)), None);
        // They go on trying, several times a second.
        let told: Vec<Line> = (1..6_000).filter_map(|tenth| tale.lost(true, Failure::Connection, at(tenth * 100))).collect();
        let after = |secs| Line::Still { missing: 3, of: 3, after: Duration::from_secs(secs) };
        assert_eq!(told, [after(2), after(12), after(72)]);
        assert_eq!(tale.found(true, at(600_000)), None, "two are still missing");
        assert_eq!(tale.found(true, at(600_001)), None);
        assert_eq!(tale.found(true, at(600_123)), Some(Line::Found { of: 3, after: Duration::from_millis(600_100) }));
        assert_eq!(tale.found(false, at(600_200)), None, "one that was opened anew and never missed");
    }

    #[test]
    fn a_server_that_was_never_there_has_no_connection() {
        let start = Instant::now();
        let mut tale = Tale { of: 2, missing: 0, was_there: false, trouble: None };
        assert_eq!(tale.lost(false, Failure::Connection, start), Some(Line::Lost { missing: 2, of: 2 }));
        assert_eq!(tale.found(true, start), Some(Line::Found { of: 2, after: Duration::ZERO }));
        assert_eq!(tale.lost(false, Failure::Connection, start), Some(Line::Lost { missing: 1, of: 2 }));
    }

    #[test]
    fn another_reason_is_news_but_not_every_time() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let mut tale = Tale { of: 1, missing: 0, was_there: true, trouble: None };
        tale.lost(false, Failure::Connection, at(0));
        assert_eq!(tale.lost(true, Failure::Loading, at(500)), None);
        assert_eq!(tale.lost(true, Failure::Loading, at(1_500)), Some(Line::Lost { missing: 1, of: 1 }));
        let flapping = (16..31).filter_map(|tenth| {
            let failure = if tenth % 2 == 0 { Failure::Connection } else { Failure::Loading };
            tale.lost(true, failure, at(tenth * 100))
        });
        assert!(flapping.count() <= 2);
    }

    #[test]
    fn a_server_that_is_named_no_more_is_forgotten() {
        let (journal, server): (_, Arc<str>) = (Journal::default(), Arc::from("a:1"));
        journal.enter(&server);
        journal.enter(&server);
        journal.lost(&server, false, &ConnectError::new(Failure::Connection, "refused"));
        journal.leave(&server, true);
        assert_eq!(journal.0.lock().unwrap().get(&server).map(|tale| (tale.of, tale.missing)), Some((1, 0)));
        journal.leave(&server, false);
        assert!(journal.0.lock().unwrap().is_empty());
    }
}
