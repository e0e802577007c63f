//! Who else serves: the replicas that share the store, as they announce themselves in it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use paceline_core::units::{FleetTime, Span};
use paceline_store::{Announcement, REPLICA_LIFE, Replica, Store, StoreError, codec};
use tokio::time::{Instant, timeout};

use crate::api::CallError;
use crate::front::Coordinator;
use crate::journal::{Happened, Kind};
use crate::roll::{self, Divergence, Diverges, standing};

/// What is known of the fleet since the last heartbeat.
#[derive(Debug)]
pub(crate) struct Registry {
    replicas: RwLock<Arc<[Replica]>>,
    /// How many they were at most of late.
    most: RwLock<Peak>,
    /// The newest schema that all of them can read; what is written is no newer.
    schema: AtomicU32,
    /// When this replica was first heard of; zero: not yet.
    began: AtomicI64,
    /// What was told of configurations that are not ours.
    divergence: Mutex<Divergence>,
    /// Since when heartbeats have not been answered, and what came of the last one.
    silence: RwLock<Option<(Instant, String)>>,
}

/// How long the store gets to answer a heartbeat.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

impl Default for Registry {
    /// Nobody has been heard of; this replica is there all the same.
    fn default() -> Self {
        Self {
            replicas: RwLock::new(Arc::new([])),
            most: RwLock::default(),
            schema: AtomicU32::new(codec::SCHEMA),
            began: AtomicI64::new(0),
            divergence: Mutex::default(),
            silence: RwLock::default(),
        }
    }
}

/// A configuration that limits come from, although another one was read here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedConfig {
    /// Its hash.
    pub hash: String,
    /// For how long it has been in force.
    pub lasts: Span,
    /// The replicas that have read it: their addresses, or their numbers.
    pub replicas: Vec<String>,
}

/// Who came and who went between two heartbeats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    joined: Vec<Replica>,
    left: Vec<Replica>,
}

/// The largest number of late. A list that is suddenly shorter is not believed for [`REPLICA_LIFE`]: a store that lost
/// everything knows those only who have announced themselves since, and each would take too large a part of the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Peak {
    count: u32,
    seen: FleetTime,
}

impl Peak {
    fn next(self, count: u32, now: FleetTime) -> Self {
        let holds = count < self.count && now.since(self.seen) < REPLICA_LIFE;
        if holds { self } else { Self { count, seen: now } }
    }
}

impl Registry {
    pub(crate) fn replicas(&self) -> Arc<[Replica]> {
        self.replicas.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where a replica that lives is reached.
    pub(crate) fn address_of(&self, replica: u32) -> Option<Arc<str>> {
        let replicas = self.replicas();
        let announced = replicas.iter().map(|one| &one.announced).find(|announced| announced.id == replica)?;
        Some(Arc::from(announced.address.as_str())).filter(|address: &Arc<str>| !address.is_empty())
    }

    /// How many replicas share the state, or did a moment ago; zero: no heartbeat yet.
    pub(crate) fn most(&self) -> u32 {
        self.most.read().unwrap_or_else(PoisonError::into_inner).count
    }

    /// The schema to write.
    pub(crate) fn schema(&self) -> u32 {
        self.schema.load(Ordering::Relaxed)
    }

    /// A heartbeat that began at `since` was not answered.
    fn not_answered(&self, since: Instant, why: &str) {
        let mut silence = self.silence.write().unwrap_or_else(PoisonError::into_inner);
        let since = silence.as_ref().map_or(since, |(first, _)| *first);
        *silence = Some((since, why.to_owned()));
    }

    fn silence(&self) -> Option<(Duration, String)> {
        let silence = self.silence.read().unwrap_or_else(PoisonError::into_inner);
        silence.as_ref().map(|(since, why)| (since.elapsed(), why.clone()))
    }

    /// Takes what a heartbeat found.
    pub(crate) fn see(&self, found: Vec<Replica>, now: FleetTime) -> Change {
        self.silence.write().unwrap_or_else(PoisonError::into_inner).take();
        let found = standing(found);
        let lowest = found.iter().map(|replica| replica.announced.schema).min();
        self.schema.store(codec::schema_to_write(lowest), Ordering::Relaxed);
        let count = u32::try_from(found.len()).unwrap_or(u32::MAX);
        {
            let mut most = self.most.write().unwrap_or_else(PoisonError::into_inner);
            *most = most.next(count, now);
        }
        let mut replicas = self.replicas.write().unwrap_or_else(PoisonError::into_inner);
        let change = Change::between(&replicas, &found);
        *replicas = found.into();
        change
    }
}

impl Change {
    fn between(before: &[Replica], now: &[Replica]) -> Self {
        let by_id = |list: &[Replica]| list.iter().map(|one| (one.announced.id, one.clone())).collect::<BTreeMap<_, _>>();
        let (before, now) = (by_id(before), by_id(now));
        let only_in = |one: &BTreeMap<u32, Replica>, other: &BTreeMap<u32, Replica>| {
            one.iter().filter(|(id, _)| !other.contains_key(id)).map(|(_, replica)| replica.clone()).collect()
        };
        Self { joined: only_in(&now, &before), left: only_in(&before, &now) }
    }

    /// The same as events: who comes notes it itself, of those that went the first of those that are left does.
    fn events(&self, me: &Announcement, live: &[Replica], now: FleetTime) -> Vec<Happened> {
        let event = |kind: Kind, replica: &Replica, after: &str| Happened {
            who: roll::name(&replica.announced),
            why: match live.len() {
                1 => "it has the state alone now".to_owned(),
                live => format!("{live} replicas share the state now"),
            },
            after: after.to_owned(),
            ..Happened::new(now, kind)
        };
        let is_first = live.iter().map(|replica| replica.announced.id).min() == Some(me.id);
        let came = self.joined.iter().filter(|replica| replica.announced.id == me.id);
        let went = self.left.iter().filter(|replica| is_first && replica.announced.id != me.id);
        let came = came.map(|replica| event(Kind::ReplicaJoined, replica, &format!("version {}", replica.announced.build)));
        came.chain(went.map(|replica| event(Kind::ReplicaLeft, replica, "it stopped, or was not heard of"))).collect()
    }

    /// Once for each who came or went; nobody needs to be told of itself.
    fn tell(&self, me: &Announcement, live: usize) {
        for Replica { announced, .. } in self.joined.iter().filter(|replica| replica.announced.id != me.id) {
            tracing::info!(
                replica = announced.id,
                address = announced.address,
                build = announced.build,
                live,
                "a replica shares the state"
            );
        }
        for Replica { announced, .. } in self.left.iter().filter(|replica| replica.announced.id != me.id) {
            tracing::info!(
                replica = announced.id,
                address = announced.address,
                live,
                "a replica shares the state no more: it stopped, was not heard of for {REPLICA_LIFE}, or the store lost its list and it has not announced itself again yet"
            );
        }
    }
}

/// A line for each configuration that is not ours.
fn tell_divergence(told: Vec<Diverges>, me: &Announcement, now: FleetTime) {
    for one in told {
        match one {
            Diverges::From { hash, since, replicas } => tracing::warn!(
                hash,
                replicas = replicas.join(","),
                read = since.map(|since| format!("{} ago", now.since(since).at_least_zero())),
                ours = me.config_hash,
                "replicas have read another configuration than this one; the limits of an account are those of the later one from the \
                 moment a replica that has it decides about the account, the rest is as the replica that decides has read it: give all \
                 the same"
            ),
            Diverges::NoFileHere { hash, replicas } => tracing::error!(
                hash,
                replicas = replicas.join(","),
                "this replica has no configuration file, while {} others have one: limits that they have not used yet are unknown \
                 here; start it with --config and their file",
                replicas.len()
            ),
            Diverges::NoMore => tracing::info!(hash = me.config_hash, "all replicas have read the same configuration"),
        }
    }
}

impl<S: Store> Coordinator<S> {
    /// Announces this replica to the others, with the configuration that it has read and when that was (zero: it has no
    /// file), and looks who else is there; call it every two seconds or so.
    ///
    /// # Errors
    /// The store is away: what was known of the fleet stays.
    pub async fn heartbeat(&self, build: &str, config_hash: &str, config_read: FleetTime) -> Result<(), CallError> {
        let inner = self.inner();
        // Fleet time is right once the store has answered; until then it began now.
        let began = match inner.registry().began.load(Ordering::Relaxed) {
            0 => inner.store.now(),
            began => FleetTime::from_micros(began),
        };
        let me = Announcement {
            id: inner.replica,
            address: inner.address().map(|address| address.to_string()).unwrap_or_default(),
            build: build.to_owned(),
            schema: codec::SCHEMA,
            config_hash: config_hash.to_owned(),
            config_read,
            began,
        };
        let asked_at = Instant::now();
        let found = match timeout(ANSWERS_WITHIN, inner.store.heartbeat(&me)).await {
            Ok(beaten) => beaten.map_err(|error| match error {
                StoreError::Unavailable { detail } | StoreError::Timeout { detail } => detail,
                other => other.to_string(),
            }),
            Err(_) => Err(format!("no answer to a heartbeat within {} s", ANSWERS_WITHIN.as_secs())),
        };
        let found = found.map_err(|why| {
            inner.registry().not_answered(asked_at, &why);
            CallError::Unavailable(why)
        })?;
        let (registry, now) = (inner.registry(), inner.store.now());
        registry.began.store(began.as_micros(), Ordering::Relaxed);
        let change = registry.see(found, now);
        let replicas = registry.replicas();
        change.tell(&me, replicas.len());
        change.events(&me, &replicas, now).into_iter().for_each(|happened| inner.note(happened));
        let told = registry.divergence.lock().unwrap_or_else(PoisonError::into_inner).look(&me, &replicas);
        tell_divergence(told, &me, now);
        Ok(())
    }

    /// Takes this replica out of those that are counted, because it stops.
    ///
    /// # Errors
    /// The store is away: the others miss this replica by itself a little later.
    pub async fn retire(&self) -> Result<(), CallError> {
        let inner = self.inner();
        inner.store.retire(inner.replica).await.map_err(|error| CallError::Unavailable(error.to_string()))
    }

    /// The later configuration that limits here come from, where that is not the one that this replica has read.
    pub async fn followed_config(&self) -> Option<FollowedConfig> {
        let target = self.inner().followed()?;
        let (hash, since) = self.inspect(&target).await?.followed?;
        let hash = format!("{:032x}", hash.0);
        let has_it = |replica: &&Replica| replica.announced.config_hash == hash;
        let replicas = self.replicas().iter().filter(has_it).map(|replica| roll::name(&replica.announced)).collect();
        Some(FollowedConfig { hash, lasts: self.now().since(since).at_least_zero(), replicas })
    }

    /// How long the store has not answered heartbeats, and what is wrong with it, for people; `None`: it answers.
    pub fn store_silence(&self) -> Option<(Duration, String)> {
        self.inner().registry().silence()
    }

    /// Among how many replicas limits are divided while the store is away.
    pub fn among(&self) -> u32 {
        self.inner().among()
    }

    /// The replicas that share the state as of the last heartbeat, this one included, by id; empty before the first.
    pub fn replicas(&self) -> Arc<[Replica]> {
        self.inner().registry().replicas()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(id: u32, schema: u32) -> Replica {
        Replica { announced: Announcement { id, schema, ..Announcement::default() }, seen: FleetTime::ZERO }
    }

    fn at(secs: i64) -> FleetTime {
        FleetTime::from_secs(1_800_000_000 + secs)
    }

    #[test]
    fn who_came_and_who_went_is_told_once() {
        let registry = Registry::default();
        let ids = |list: &[Replica]| list.iter().map(|replica| replica.announced.id).collect::<Vec<_>>();
        let change = registry.see(vec![replica(1, 1), replica(2, 1)], at(0));
        assert_eq!((ids(&change.joined), ids(&change.left)), (vec![1, 2], vec![]));
        assert_eq!(registry.see(vec![replica(1, 1), replica(2, 1)], at(2)), Change::default());
        let change = registry.see(vec![replica(1, 1), replica(3, 1)], at(4));
        assert_eq!((ids(&change.joined), ids(&change.left)), (vec![3], vec![2]));
        assert_eq!(ids(&registry.replicas()), [1, 3]);
    }

    #[test]
    fn a_list_that_is_suddenly_shorter_does_not_raise_our_part_at_once() {
        let registry = Registry::default();
        assert_eq!(registry.most(), 0);
        registry.see(vec![replica(1, 1), replica(2, 1), replica(3, 1)], at(0));
        registry.see(vec![replica(1, 1)], at(2));
        assert_eq!(registry.most(), 3, "the store may have lost the others");
        registry.see(vec![replica(1, 1)], at(11));
        assert_eq!(registry.most(), 1, "they would have come back by now");
        registry.see(vec![replica(1, 1), replica(4, 1)], at(13));
        assert_eq!(registry.most(), 2);
    }

    /// Limits are divided among those who are there, not among them and the one that was killed a moment ago.
    #[test]
    fn one_that_was_killed_and_started_again_counts_once() {
        let at_address = |id: u32, began: i64, seen: i64| {
            let announced = Announcement { id, address: "a:1".into(), began: at(began), schema: 1, ..Announcement::default() };
            Replica { announced, seen: at(seen) }
        };
        let (registry, other) = (Registry::default(), replica(9, 1));
        registry.see(vec![at_address(1, 0, 2), other.clone()], at(2));
        registry.see(vec![at_address(1, 0, 2), at_address(2, 5, 5), other], at(5));
        assert_eq!(registry.most(), 2);
        let ids: Vec<u32> = registry.replicas().iter().map(|replica| replica.announced.id).collect();
        assert_eq!(ids, [2, 9], "nor is it shown");
        assert_eq!(registry.address_of(2).as_deref(), Some("a:1"));
        assert_eq!(registry.address_of(9), None, "it has none");
    }

    #[test]
    fn what_is_written_can_be_read_by_all() {
        let registry = Registry::default();
        assert_eq!(registry.schema(), codec::SCHEMA);
        registry.see(vec![replica(1, 1), replica(2, 7)], at(0));
        assert_eq!(registry.schema(), 1);
    }
}
