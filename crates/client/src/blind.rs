//! Scopes whose replica has lost the store: it grants from its part of the limit only. Their calls are spread over all replicas
//! meanwhile, each of which has a part, so that the fleet gets what it may have.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::rendezvous::Route;

/// Without an answer that says how it is by now, a scope goes to its own replica again after this long.
const REMEMBERED_FOR: Duration = Duration::from_secs(10);
/// More scopes than these are not spread.
const MOST: usize = 1_024;

/// Which scopes those are.
#[derive(Debug, Default)]
pub(crate) struct Blind(Mutex<HashMap<Route, Instant>>);

impl Blind {
    /// Where a call of a scope goes. One call always goes to the same replica, with its tickets and repetitions.
    pub(crate) fn route(&self, scope: Route, request_id: &str) -> Route {
        let mut blind = self.lock();
        match blind.get(&scope) {
            Some(until) if Instant::now() < *until => scope.of_call(request_id),
            Some(_) => {
                blind.remove(&scope);
                scope
            }
            None => scope,
        }
    }

    /// An answer for a scope came.
    pub(crate) fn heard(&self, scope: Route, is_degraded: bool) {
        let mut blind = self.lock();
        if !is_degraded {
            blind.remove(&scope);
        } else if blind.len() < MOST || blind.contains_key(&scope) {
            blind.insert(scope, Instant::now() + REMEMBERED_FOR);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Route, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
