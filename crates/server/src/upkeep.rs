//! What must be done now and then: the heartbeat, sweeping the memory store, fetching token keys, writing what became of calls.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use paceline_coordinator::Coordinator;
use paceline_store::{MemoryStore, Store};
use paceline_telemetry::Runtime;
use rand::RngExt as _;
use tokio::runtime::Handle;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at};

use crate::life::{BEAT, Life};
use crate::reload::InForce;

/// A beat that is later than this was not just late.
const LEAST_STANDSTILL: Duration = Duration::from_secs(2);

/// How often the memory store is swept; commits sweep a little in passing, this is for what nobody touches any more.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// How often token keys are fetched: a new one is known to the store a minute before it signs, and one of a replica that was
/// alone must be known to the others soon after.
const KEYS_EVERY: Duration = Duration::from_secs(5);

/// How often what became of calls is written: a replica that dies takes so much of it along.
const HISTORY_EVERY: Duration = Duration::from_secs(10);

/// How often what happened is written, if anything did.
const JOURNAL_EVERY: Duration = Duration::from_secs(2);

/// How often a replica announces itself: five times before it would be missed.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(2);

/// The figures of a runtime, whenever they are asked for.
pub(crate) fn runtime(handle: &Handle) -> impl Fn() -> Runtime + Send + Sync + 'static {
    let metrics = handle.metrics();
    move || Runtime {
        workers: u64::try_from(metrics.num_workers()).unwrap_or(u64::MAX),
        busy: (0..metrics.num_workers()).map(|worker| metrics.worker_total_busy_duration(worker)).sum(),
        tasks: u64::try_from(metrics.num_alive_tasks()).unwrap_or(u64::MAX),
    }
}

/// Beats as long as the loop turns.
pub(crate) async fn beat(life: Arc<Life>) {
    let mut beats = interval(BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        beats.tick().await;
        let (ago, _) = life.heartbeat();
        if let Some(stood_still) = stood_still(ago) {
            tracing::warn!(
                "this process did not run for {:.1} s: it was suspended, or the machine was, or had no time for it; callers have gone on \
                 at other replicas, and those that waited here are looked after now",
                stood_still.as_secs_f64()
            );
        }
        life.beat();
    }
}

/// For how long nothing ran, when there is so much from one beat to the next: longer than anybody is late.
fn stood_still(between_beats: Duration) -> Option<Duration> {
    between_beats.checked_sub(BEAT).filter(|late| *late >= LEAST_STANDSTILL)
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

/// How often the controls are read: what a person says holds everywhere within two of these.
const CONTROLS_EVERY: Duration = Duration::from_millis(800);

/// Keeps to the controls that people have said, at any replica.
pub(crate) async fn follow_controls<S: Store>(coordinator: Coordinator<S>) {
    let mut rounds = jittered(CONTROLS_EVERY);
    let mut is_away = false;
    loop {
        let followed = coordinator.follow_controls().await;
        match (&followed, is_away) {
            (Err(error), false) => {
                tracing::warn!(%error, "the controls that people have said cannot be read; those that were read last hold until they end");
            }
            (Ok(()), true) => tracing::info!("the controls that people have said can be read again"),
            _ => {}
        }
        is_away = followed.is_err();
        rounds.tick().await;
    }
}

/// Announces this replica, and looks who else is there.
pub(crate) async fn heartbeat<S: Store>(coordinator: Coordinator<S>, in_force: Arc<ArcSwap<InForce>>) {
    let mut rounds = jittered(HEARTBEAT_EVERY);
    // A store that hung answers several beats at once otherwise.
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_away = false;
    // The configuration that was told to be in force in place of ours.
    let mut follows: Option<String> = None;
    loop {
        let config = in_force.load_full();
        let beaten = coordinator.heartbeat(env!("CARGO_PKG_VERSION"), config.hash(), config.at()).await;
        let why = beaten.err().map(|error| error.to_string());
        match (&why, is_away) {
            (Some(why), false) => tracing::warn!(why, "this replica cannot announce itself; the others soon count without it"),
            (None, true) => tracing::info!("this replica announces itself again"),
            _ => {}
        }
        is_away = why.is_some();
        let followed = coordinator.followed_config().await;
        match &followed {
            Some(config) if follows.as_ref() != Some(&config.hash) => tracing::warn!(
                hash = config.hash,
                lasts = %config.lasts,
                replicas = config.replicas.join(","),
                ours = in_force.load().hash(),
                "config_stale: limits here come from another configuration than this replica's, one that was read later or that has a \
                 file where this replica has none; they hold until it has read the same, or a changed one"
            ),
            None if follows.is_some() => {
                tracing::info!(hash = in_force.load().hash(), "the limits are those of the configuration read here");
            }
            _ => {}
        }
        follows = followed.map(|config| config.hash);
        rounds.tick().await;
    }
}

/// Writes what became of calls.
pub(crate) async fn write_history<S: Store>(coordinator: Coordinator<S>) {
    let mut rounds = jittered(HISTORY_EVERY);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        // A store that is away is told by those who need it; what was counted is kept until it is back.
        if let Err(error) = coordinator.write_history().await {
            tracing::debug!(%error, "what became of calls cannot be written yet");
        }
    }
}

/// Writes what happened.
pub(crate) async fn write_journal<S: Store>(coordinator: Coordinator<S>) {
    let mut rounds = jittered(JOURNAL_EVERY);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        // A store that is away is told by those who need it; what was noted is kept until it is back.
        if let Err(error) = coordinator.write_journal().await {
            tracing::debug!(%error, "what happened cannot be written yet");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_beat_is_no_standstill() {
        let secs = |secs: f64| Duration::try_from_secs_f64(secs).unwrap();
        for (between, expected) in [(0.9, None), (1.0, None), (2.9, None), (3.0, Some(2.0)), (13.5, Some(12.5))] {
            assert_eq!(stood_still(secs(between)), expected.map(secs), "{between}");
        }
    }
}
