//! Is what is remembered still stored? When the store was reached anew, another server may be behind its address: a copy that
//! lagged, or an empty one. A replica that remembers looks soon, although nobody asks, so that one that does not remember cannot
//! grant for long what was granted already.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use paceline_store::{Loaded, Store, StoreError, Version};
use rand::RngExt;
use tokio::time::Instant;

use crate::actor::{Actor, State};

/// The looks of a replica are spread as if each took so long; four times as many may come together at the very most.
const EACH: Duration = Duration::from_millis(4);
/// A scope that nobody spoke to for this long is among the last to be looked at.
const LONG_UNUSED: Duration = Duration::from_secs(120);
/// When to look again after the first look that failed; twice that after the next, and so on.
const AGAIN_IN: Duration = Duration::from_millis(250);
/// So often that grows twofold.
const MOST_DOUBLINGS: u32 = 5;

type Asked = Pin<Box<dyn Future<Output = Result<Loaded, StoreError>> + Send>>;

/// A look at what is stored: to come, or under way.
#[derive(Default)]
pub(crate) struct Look {
    due: Option<Instant>,
    /// With the version that was expected then.
    asked: Option<(Version, Asked)>,
    failures: u32,
}

/// When a scope is looked at that was spoken to `unused` ago, where `scopes` are to be looked at: those used lately first.
/// `dice`: from 0 to 1,000, so that replicas and scopes do not look together.
pub(crate) fn due_in(unused: Duration, scopes: usize, dice: u32) -> Duration {
    let all = EACH * u32::try_from(scopes).unwrap_or(u32::MAX);
    let age = unused.min(LONG_UNUSED).as_millis() * 1_000 / LONG_UNUSED.as_millis();
    all * (3 * u32::try_from(age).unwrap_or(1_000) + dice.min(1_000)) / 4_000
}

/// When to look again after one that failed, and so many `failures` in a row before it; `dice`: from 0 to 1,000.
fn again_in(failures: u32, dice: u32) -> Duration {
    AGAIN_IN * 2_u32.pow(failures.min(MOST_DOUBLINGS)) * (800 + 2 * dice.min(1_000) / 5) / 1_000
}

impl Look {
    /// Looks in a while; one that is under way may have been answered by the server of before.
    pub(crate) fn begin(&mut self, due_in: Duration) {
        *self = Self { due: Some(Instant::now() + due_in), ..Self::default() };
    }

    pub(crate) fn is_over(&self) -> bool {
        self.due.is_none() && self.asked.is_none()
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// What is stored, and which version was expected when that was asked; pends for ever while nobody looks.
    pub(crate) async fn answered(&mut self) -> (Version, Result<Loaded, StoreError>) {
        match &mut self.asked {
            Some((version, asked)) => (*version, asked.await),
            None => std::future::pending().await,
        }
    }
}

impl<S: Store> Actor<S> {
    /// Looks, when it is time to and nothing is on its way. (Commits that are find out by themselves.)
    pub(crate) fn look(&self, state: &mut State) {
        if !state.air.is_empty() || state.look.due.is_none_or(|due| Instant::now() < due) {
            return;
        }
        state.look.due = None;
        // While the store is away it is asked again and again anyway, and what comes back is compared with what is remembered.
        let remembers = state.memory.as_ref().is_some_and(|memory| memory.matters(self.inner.store.now()));
        if state.loaded && state.outage.is_none() && remembers {
            let (inner, scope) = (self.inner.clone(), self.key);
            state.look.asked = Some((state.version, Box::pin(async move { inner.store.load(&scope).await })));
        }
    }

    /// What is stored is what was expected, or is gone on with as after a refused commit: what was lost is written back at once.
    pub(crate) fn looked(&mut self, state: &mut State, expected: Version, stored: Result<Loaded, StoreError>) {
        state.look.asked = None;
        // What was sent since then tells better.
        if state.version != expected || !state.air.is_empty() || !state.loaded || state.outage.is_some() {
            return;
        }
        let now = self.inner.store.now();
        match stored {
            Ok(loaded) if loaded.version == expected => {}
            Ok(loaded) => {
                match self.take_over(state, &loaded, now) {
                    Ok(taken) => self.adopt(state, taken, loaded.value),
                    // It is loaded again, and refused, with the next call.
                    Err(_) => state.loaded = false,
                }
                state.wake_at = Some(now);
            }
            Err(error) => {
                tracing::debug!(scope = %self.key, %error, "whether it is still stored cannot be looked at");
                state.look.due = Some(Instant::now() + again_in(state.look.failures, state.rng.random_range(0..=1_000)));
                state.look.failures = state.look.failures.saturating_add(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_few_scopes_are_looked_at_at_once_and_many_one_after_another() {
        assert!(due_in(Duration::ZERO, 10, 1_000) <= Duration::from_millis(10));
        assert!(due_in(MINUTE * 60, 10, 1_000) <= Duration::from_millis(40), "however long unused");
        assert_eq!(due_in(MINUTE * 60, 10_000, 1_000), Duration::from_secs(40));
    }

    #[test]
    fn those_used_lately_come_first() {
        let (in_use, a_minute_ago) = (due_in(Duration::ZERO, 1_000, 1_000), due_in(MINUTE, 1_000, 0));
        assert_eq!((in_use, a_minute_ago), (Duration::from_secs(1), Duration::from_millis(1_500)));
    }

    #[test]
    fn no_second_holds_more_than_a_thousand() {
        // The worst: all were used at the same moment.
        for unused in [Duration::ZERO, MINUTE / 4, MINUTE * 9] {
            let mut due: Vec<Duration> = (0..8_000).map(|n| due_in(unused, 8_000, n / 8)).collect();
            due.sort();
            for from in &due {
                let within =
                    due.partition_point(|at| *at < *from + Duration::from_secs(1)) - due.partition_point(|at| at < from);
                assert!(within <= 1_008, "{within} within a second of {from:?}");
            }
        }
    }

    #[test]
    fn looks_that_fail_become_rare_and_never_end() {
        assert_eq!((again_in(0, 500), again_in(1, 500)), (AGAIN_IN, AGAIN_IN * 2));
        assert_eq!(again_in(5, 500), again_in(500, 500));
        assert!(again_in(500, 1_000) < Duration::from_secs(10));
    }
}
