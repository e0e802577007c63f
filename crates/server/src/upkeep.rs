//! What must be done now and then: the heartbeat, sweeping the memory store, fetching token keys.

use std::sync::Arc;
use std::time::Duration;

use paceline_coordinator::Coordinator;
use paceline_store::{MemoryStore, Store};
use rand::RngExt as _;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at};

use crate::life::{BEAT, Life};

/// How often the memory store is swept; commits sweep a little in passing, this is for what nobody touches any more.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// How often token keys are fetched: a new one is known to the store a minute before it signs, and one of a replica that was
/// alone must be known to the others soon after.
const KEYS_EVERY: Duration = Duration::from_secs(5);

/// Beats as long as the loop turns.
pub(crate) async fn beat(life: Arc<Life>) {
    let mut beats = interval(BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        beats.tick().await;
        life.beat();
    }
}

/// Takes away what is over in the store.
pub(crate) async fn sweep(store: Arc<MemoryStore>) {
    let mut rounds = jittered(SWEEP_EVERY);
    loop {
        rounds.tick().await;
        let store = store.clone();
        // A store that was full takes a while; callers must not wait for it. It ends by itself should we stop meanwhile.
        let swept = tokio::task::spawn_blocking(move || store.sweep(store.now())).await;
        tracing::debug!(gone = swept.unwrap_or(0), "swept the store");
    }
}

/// Fetches token keys again.
pub(crate) async fn refresh_keys<S: Store>(coordinator: Coordinator<S>) {
    let mut rounds = jittered(KEYS_EVERY);
    loop {
        rounds.tick().await;
        if let Err(error) = coordinator.refresh_keys().await {
            tracing::warn!(%error, "token keys cannot be fetched; the ones we have still sign");
        }
    }
}

/// A tenth more or less than `period`, first after one of them, so that replicas and tasks do not move in step.
fn jittered(period: Duration) -> tokio::time::Interval {
    let period = period - period / 10 + period / 5 * rand::rng().random_range(0..=100) / 100;
    let mut rounds = interval_at(Instant::now() + period, period);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Skip);
    rounds
}
