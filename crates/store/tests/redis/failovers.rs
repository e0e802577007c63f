//! Fail-overs of clusters and behind sentinels, and slots that move.

use std::time::Duration;

use paceline_core::units::Span;
use paceline_store::{Committed, Expect, Failure, Store, Version};
use paceline_tests::servers::{Client, Cluster, Flavour, Sentinels, wait_until};
use tokio::time::{Instant, sleep};

use crate::support::{commit, contact, open, record, scope, until_well, write};

/// RC01, RC02: a thousand scopes on three primaries, with records; a slot that moves under load; a primary that dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cluster_is_followed() {
    let mut cluster = Cluster::start(Flavour::Redis);
    let (store, counts) = open(&cluster.url());
    contact(&store).await;
    for _ in 0..1_000 {
        let scope = scope();
        let lives = [60, 400, 1_800, 86_400];
        let names = ["a", "b", "c", "d"];
        let writes =
            names.iter().zip(lives).map(|(name, secs)| record(&store, name, b"1", Span::from_secs(secs), Expect::Absent));
        let writes = writes.collect();
        let done = store.commit(&scope, commit(&store, Version::NONE, b"v", writes)).await;
        assert!(matches!(done, Ok(Committed::Done(_))), "{done:?}");
    }
    assert_eq!(counts.failed(Failure::Other), 0, "{counts:?}");

    // A slot on its way is asked for at both ends (ASK), and then at its new one (MOVED).
    let moving = scope();
    let key = format!("paceline:{{{moving}}}:s");
    let from = cluster.owner(&key);
    let to = (0..3).find(|index| *index != from).unwrap();
    let Ok(Committed::Done(version)) = write(&store, &moving, Version::NONE, b"before").await else { panic!() };
    let (from, to) = (&cluster.nodes()[from], &cluster.nodes()[to]);
    let slot = from.run(&["CLUSTER", "KEYSLOT", &key]).text();
    let (from_id, to_id) = (from.run(&["CLUSTER", "MYID"]).text(), to.run(&["CLUSTER", "MYID"]).text());
    to.run(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]);
    from.run(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]);
    from.run(&["MIGRATE", "127.0.0.1", &to.port().to_string(), &key, "0", "5000"]);
    let Ok(Committed::Done(version)) = write(&store, &moving, version, b"between").await else { panic!("{counts:?}") };
    for node in [to, from] {
        node.run(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]);
    }
    let Ok(Committed::Done(version)) = write(&store, &moving, version, b"after").await else { panic!("{counts:?}") };
    assert_eq!(store.load(&moving).await.unwrap().version, version);

    // The primary that has it dies.
    cluster.wait_until_well();
    let owner = cluster.owner(&key);
    // Its replica was started with it.
    let heir = cluster.nodes()[owner + 3].port();
    let start = Instant::now();
    let promoted = tokio::task::spawn_blocking(move || {
        let mut client = Client::connect(heir).expect("the replica runs");
        wait_until("the replica takes over", Duration::from_secs(30), || {
            client.run(&["INFO", "replication"]).text().contains("role:master")
        });
        start.elapsed()
    });
    cluster.nodes_mut()[owner].kill();
    let mut failed = 0;
    let well = loop {
        let sent = Instant::now();
        match store.load(&moving).await {
            Ok(_) if start.elapsed() > Duration::from_millis(50) => break start.elapsed(),
            Ok(_) => {}
            Err(_) => failed += 1,
        }
        assert!(sent.elapsed() < Duration::from_millis(400), "it fails in its time");
        assert!(start.elapsed() < Duration::from_secs(30), "{counts:?}");
        sleep(Duration::from_millis(10)).await;
    };
    let promoted = promoted.await.unwrap();
    println!("cluster: the replica took over {promoted:?} after the kill, all well after {well:?}; {failed} loads failed");
    assert!(well < promoted + Duration::from_secs(2), "well {well:?} after the kill, taken over after {promoted:?}");
    let others = until_well(&store, Duration::from_secs(5)).await;
    println!("cluster: a write after {others:?}");
}

/// The primary dies, and sentinels promote its replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sentinels_are_followed() {
    let mut sentinels = Sentinels::start();
    let (store, counts) = open(&sentinels.url());
    contact(&store).await;
    let kept = scope();
    let Ok(Committed::Done(version)) = write(&store, &kept, Version::NONE, b"kept").await else { panic!() };
    wait_until("it is copied", Duration::from_secs(5), || {
        sentinels.servers()[1].run(&["EXISTS", &format!("paceline:{{{kept}}}:s")]).number() == 1
    });
    let before = store.now();
    let start = Instant::now();
    sentinels.servers_mut()[0].kill();
    let sentinels = tokio::task::spawn_blocking(move || {
        wait_until("the replica is promoted", Duration::from_secs(30), || {
            sentinels.servers()[1].info("replication", "role") == "master"
        });
        sentinels
    })
    .await
    .unwrap();
    let promoted = start.elapsed();
    let took = until_well(&store, Duration::from_secs(2)).await;
    println!("sentinels: promoted after {promoted:?}, well {took:?} later; {counts:?}");
    assert_eq!(store.load(&kept).await.unwrap().version, version);
    assert!(store.now() > before && (store.now() - before).to_duration() < start.elapsed() + Duration::from_secs(1));
    drop(sentinels);
}
