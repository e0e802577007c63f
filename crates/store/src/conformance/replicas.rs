//! The replicas of a fleet see each other through the store.

use paceline_core::units::{FleetTime, Span};

use super::Harness;
use crate::register::Store;
use crate::replica::{Announcement, REPLICA_LIFE, Replica};

/// Text that would break a layout which joins fields by some character.
const AWKWARD: &str = "0.1.0 | {a}:b\r\n\0 \u{1f6b4}";

pub(super) async fn all_see_each_other<H: Harness>(harness: &H) {
    let (one, two) = (harness.store(), harness.store());
    let (me, other) = (announcement(), announcement());
    let before = one.now();
    assert!(announced(&beat(&*one, &me).await, &me), "it sees itself");
    let seen = beat(&*two, &other).await;
    assert!(announced(&seen, &me) && announced(&seen, &other), "a later one sees both: {seen:?}");
    assert!(announced(&beat(&*one, &me).await, &other), "and the first one sees the later one");
    assert!(seen.is_sorted_by_key(|replica| replica.announced.id), "in the order of their ids: {seen:?}");
    assert!(seen.iter().filter(|replica| replica.announced == me).all(|replica| replica.seen >= before));
    // A new configuration, another address: what was said last counts.
    let changed = Announcement { config_hash: AWKWARD.to_owned(), address: String::new(), ..me.clone() };
    beat(&*one, &changed).await;
    let seen = beat(&*two, &other).await;
    assert!(announced(&seen, &changed) && !announced(&seen, &me), "{seen:?}");
}

pub(super) async fn who_is_silent_or_retired_is_gone<H: Harness>(harness: &H) {
    let store = harness.store();
    let (silent, retired, lasting) = (announcement(), announcement(), announcement());
    for replica in [&silent, &retired, &lasting] {
        beat(&*store, replica).await;
    }
    store.retire(retired.id).await.expect("retire");
    store.retire(retired.id).await.expect("retiring twice changes nothing");
    let seen = beat(&*harness.store(), &lasting).await;
    assert!(announced(&seen, &silent) && !announced(&seen, &retired), "{seen:?}");
    harness.pass(REPLICA_LIFE + Span::from_secs(1)).await;
    let seen = beat(&*store, &lasting).await;
    assert!(!announced(&seen, &silent) && announced(&seen, &lasting), "{seen:?}");
}

fn announcement() -> Announcement {
    Announcement {
        id: rand::random(),
        address: "10.0.0.7:7070".to_owned(),
        build: AWKWARD.to_owned(),
        schema: 1,
        config_hash: "5f3a".to_owned(),
        config_read: FleetTime::from_secs(1_800_000_000),
        began: FleetTime::from_secs(1_700_000_000),
    }
}

async fn beat<S: Store>(store: &S, me: &Announcement) -> Vec<Replica> {
    store.heartbeat(me).await.expect("heartbeat")
}

fn announced(seen: &[Replica], wanted: &Announcement) -> bool {
    seen.iter().any(|replica| replica.announced == *wanted)
}
